"""The kinds of values that a vectoriser's parameters have, and which of them contradict each other."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Literal

from sylvan.errors import ParameterError
from sylvan.params.fields import Constraint

Analyzer = Literal["word", "char", "char_wb"]
Cjk = Literal["word", "bigrams", "chars"]
AUTO = "auto"
_MAX_N = 1000


@dataclass(frozen=True)
class NgramRange(Constraint):
    """The shortest and the longest n-gram: a pair of ints, the first not above the second; or "auto"."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, str):
            return value == AUTO
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            return False
        if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in value):
            return False
        return 1 <= int(value[0]) <= int(value[1]) <= _MAX_N

    def describe(self) -> str:
        return f"a pair of ints (shortest, longest) with 1 <= shortest <= longest <= {_MAX_N}, or {AUTO!r}"

    def _parse(self, text: str) -> Any:
        if text.strip() == AUTO:
            return AUTO
        parts = text.strip("()[] ").replace("-", ",").split(",")
        low, high = int(parts[0]), int(parts[-1])
        if len(parts) > 2:
            raise ValueError("not one or two ints")
        return (low, high)


@dataclass(frozen=True)
class DocumentShare(Constraint):
    """A number of documents as an int, or a share of all documents as a float."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, bool):
            return False
        if isinstance(value, numbers.Integral):
            return int(value) >= 1
        return isinstance(value, numbers.Real) and 0.0 <= float(value) <= 1.0

    def describe(self) -> str:
        return "an int in [1, inf), a number of documents, or a float in [0.0, 1.0], a share of them"

    def _parse(self, text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            return float(text)


def need_phrases(owner: str, analyzer: str, ngrams: Any, **phrases: Any) -> None:
    """Refuse parameters for terms of several words where there are none, before any text is read."""
    given = [name for name, value in phrases.items() if value is not None]
    why = None
    if analyzer != "word":
        why = f"analyzer={analyzer!r} has none: it counts characters"
    elif ngrams != AUTO and ngrams[1] == 1:
        why = f"ngrams={tuple(ngrams)} has none: allow pairs with ngrams=(1, 2)"
    if given and why:
        raise ParameterError(
            f"The {given[0]!r} parameter of {owner} is for terms of several words, but {why}. Got "
            f"{phrases[given[0]]!r}."
        )


def need_one_form(owner: str, analyzer: str, **forms: str | None) -> None:
    """Refuse stems and lemmas that contradict each other or the analyser."""
    given = {name: value for name, value in forms.items() if value is not None}
    if len(given) > 1:
        raise ParameterError(
            f"A word of {owner} is counted as its stem or as its lemma: leave 'stem' or 'lemmatize' out. Got "
            f"{' and '.join(map(repr, given.values()))}."
        )
    if given and analyzer != "word":
        name, value = next(iter(given.items()))
        raise ParameterError(
            f"The {name!r} parameter of {owner} is for words, but analyzer={analyzer!r} counts characters. "
            f"Got {value!r}."
        )
