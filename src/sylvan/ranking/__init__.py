"""Phase 3: scoring the labels of the clusters that matching found, and combining the scores."""
