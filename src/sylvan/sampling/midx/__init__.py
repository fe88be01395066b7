"""MIDX: negatives from an inverted multi-index, and how its codewords are learned."""
