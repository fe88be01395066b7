"""Softmax over many classes: samplers and losses, CANE's language models, the output layer's costs."""
