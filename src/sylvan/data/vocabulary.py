"""The public name of :class:`Vocabulary`, which stands below the files that are read with it."""

from sylvan.labels.vocabulary import Vocabulary

__all__ = ["Vocabulary"]
