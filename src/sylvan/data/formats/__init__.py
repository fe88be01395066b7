"""One file a format: how it is read, streamed and written."""
