"""A loaded model whose labels are called by the names of a vocabulary, for people to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sylvan.cli.io.vocabulary_file import LabelTitles
from sylvan.cli.saved import codes_of
from sylvan.data import Vocabulary
from sylvan.explain.explanation import Explanation
from sylvan.models.cards.label_titles import distinct_titles

__all__ = ["TitledModel"]


@dataclass(frozen=True)
class TitledModel:
    """A model, what its labels are called, and which code each title stands for; without titles, the model as it is.
    ``names`` are the labels' names where the model itself has none."""

    model: Any
    names: Vocabulary | None = None
    title_of: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(model: Any, titles: LabelTitles | None, names: Vocabulary | None = None) -> TitledModel:
        """The model with ``titles`` for its labels, which have ``names`` unless it knows some itself."""
        if titles is None:
            return TitledModel(model, names)
        own = model.vocabulary_ is not None and names is None
        codes = codes_of(model) if names is None else names
        titles.check(codes)
        shown = distinct_titles(codes, titles)
        title_of = {code: title for code, title in zip(codes, shown, strict=True) if title != code}
        if own:
            return TitledModel(model.with_label_names(title_of), None, title_of)
        return TitledModel(model, Vocabulary.verbatim(shown), title_of)

    def title(self, name: str) -> str:
        """What a label is called here that was given by its code or by its title."""
        return self.title_of.get(name, name)

    def rows(self, examples: tuple[Any, list[list[Any]]]) -> tuple[Any, list[list[Any]]]:
        """Texts and labels of a file, whose labels are codes, with the titles of the labels."""
        texts, labels = examples
        return texts, [[self._titled(label) for label in row] for row in labels]

    def _titled(self, label: Any) -> Any:
        if isinstance(label, tuple):  # and its relevance
            return self.title(str(label[0])), label[1]
        return self.title(str(label))

    def with_code(self, result: Explanation) -> Explanation:
        """The explanation with the label's code beside its title."""
        codes = [code for code, title in self.title_of.items() if title == result.name]
        if not codes:
            return result
        (code,) = codes
        return replace(result, name=result.name.removesuffix(f" ({code})"), code=code)
