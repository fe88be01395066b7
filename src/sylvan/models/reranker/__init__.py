"""A learned order of what several models propose."""
