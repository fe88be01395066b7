"""Labels found by their words: beside Annif's MLLM, and how long it takes."""
