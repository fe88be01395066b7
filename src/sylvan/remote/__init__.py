"""The Hugging Face Hub from below: what is pulled from there, and what every saved object can do with it."""
