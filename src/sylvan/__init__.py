"""Sylvan: picks the few right answers out of an enormous set."""

from sylvan.indexing import LabelTree
from sylvan.text import TfidfVectorizer

__all__ = ["LabelTree", "TfidfVectorizer", "__version__"]

__version__ = "0.1.0"
