"""Answers over HTTP: Sylvan's server beside what a user would write around libpecos, and beside Annif's."""
