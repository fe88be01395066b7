"""Data in parts that are read one after another: files, folders, arrays mapped from disk."""
