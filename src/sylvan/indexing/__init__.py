"""Phase 1: label embeddings, and the tree that organises the labels."""

from sylvan.indexing.clustering import random_tree
from sylvan.indexing.tree import LabelTree

__all__ = ["LabelTree", "random_tree"]
