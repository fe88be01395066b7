"""Encoders of sequences and of bags of features."""
