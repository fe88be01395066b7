"""Losses trained with sampled classes, and the full softmax beside them."""
