"""Phase 1: label embeddings, and the tree that organises the labels."""

from sylvan.indexing.embeddings import pifa, pifa_lf, pii, spectral
from sylvan.indexing.tree import LabelTree, balanced_tree, class_centers, class_tree

__all__ = ["LabelTree", "balanced_tree", "class_centers", "class_tree", "pifa", "pifa_lf", "pii", "spectral"]
