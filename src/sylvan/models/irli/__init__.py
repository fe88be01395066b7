"""IRLI: partitions of labels or vectors, learned in turns with the networks that choose among them."""
