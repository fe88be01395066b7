"""What the verbs read and write: files of texts, matrices, label lists, and saved models."""
