"""Sylvan: picks the few right answers out of an enormous set."""

__version__ = "0.1.0"
