"""What labels are called, as evidence for them: words of label texts, vectors of an encoder."""
