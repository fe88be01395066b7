"""Sylvan: picks the few right answers out of an enormous set."""

from sylvan.indexing import LabelTree

__all__ = ["LabelTree", "__version__"]

__version__ = "0.1.0"
