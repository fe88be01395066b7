"""Proposal distributions: how classes are drawn, and with which probability."""
