"""Phase 2: narrowing an input to a few clusters of the label tree."""
