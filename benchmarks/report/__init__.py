"""The documents that are written from benchmarks/results."""
