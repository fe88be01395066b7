"""Answers whose labels have names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sylvan.arrays.topk import LabelNames, Library, TopK
from sylvan.labels.vocabulary import Vocabulary


@dataclass(frozen=True)
class NamedTopK(TopK):
    """A :class:`~sylvan.TopK` whose labels have names."""

    vocabulary: Vocabulary

    @cached_property
    def names(self) -> LabelNames:
        return LabelNames(self.labels, self.vocabulary.value)

    def to_frame(self, library: Library = "pandas", *, rows: Any = None, names: Any = None) -> Any:
        """As :meth:`sylvan.TopK.to_frame`; labels are called by their names."""
        return super().to_frame(library, rows=rows, names=self.vocabulary if names is None else names)
