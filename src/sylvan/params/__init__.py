"""Declared parameters: fields, their ranges, and the words for them."""
