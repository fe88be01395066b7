"""Explanation: why a model gives a label to a row, as data; see explanation_text and explanation_page for its forms."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sylvan.data.streams import open_write
from sylvan.data.vocabulary import Vocabulary
from sylvan.errors import DataError, ParameterError
from sylvan.explain.paths import LeafPath, Names, beam_that_reaches, explain_paths
from sylvan.ranking.tail import tail_of
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.topk import TopK
from sylvan.validate import Csr, count

__all__ = [
    "Example",
    "Explanation",
    "TreeVote",
    "check_count",
    "excerpt",
    "find_label",
    "names_of",
    "one_row",
    "place_of",
    "refuse_filters",
    "tail_notes",
    "tree_votes",
]

_EASILY_COMPARED = 20_000  # names among which every one is compared with a misspelled one


@dataclass(frozen=True)
class TreeVote:
    """What one tree says of a label.

    Attributes
    ----------
    number : int
        Which tree, from 0.
    score : float
        Its score of the label, or the one it would give were the label reached; of several trees in [0, 1], as the
        mean takes them.
    reached : bool
        Whether the beam reaches the label in this tree.
    beam : int
        Nodes that the search followed per layer.
    enough : int or None
        A beam that would reach the label; None when it is reached.
    paths : tuple of LeafPath
        One a leaf of the label; the one that counts comes first.
    """

    number: int
    score: float
    reached: bool
    beam: int
    enough: int | None
    paths: tuple[LeafPath, ...]


@dataclass(frozen=True)
class Example:
    """A training row that has the label, and what it shares with the row explained.

    Attributes
    ----------
    row : int
        Counted from 0.
    similarity : float
        Cosine of the two rows' features.
    shared : tuple of str
        The features that make the similarity, the strongest first.
    excerpt : str or None
        Of a text model, how the text begins.
    """

    row: int
    similarity: float
    shared: tuple[str, ...]
    excerpt: str | None = None


@dataclass(frozen=True)
class Explanation:
    """Why a model gives a label to a row, or doesn't.

    Attributes
    ----------
    model : str
        The class of the model.
    label : int
    name : str
    place : int or None
        The label's place, from 1, in the ranking of all labels; None when the search doesn't reach it.
    score : float or None
        Its score in that ranking.
    n_labels, n_features : int
        Of the model.
    n_known : int
        Features of the row that the model knows.
    trees : tuple of TreeVote
    examples : tuple of Example
        The nearest training rows with the label, where examples were given.
    excerpt : str or None
        How the text that is explained begins, of a text model.
    probability : float or None
        The calibrated probability, of a model with calibration.
    notes : tuple of str
        What else there is to say, as sentences.
    """

    model: str
    label: int
    name: str
    place: int | None
    score: float | None
    n_labels: int
    n_features: int
    n_known: int
    trees: tuple[TreeVote, ...] = ()
    examples: tuple[Example, ...] = ()
    excerpt: str | None = None
    probability: float | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON has words for; a number that isn't finite becomes None."""
        found: dict[str, Any] = _plain(self)
        return found

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int = 100) -> str:
        """Lines for a terminal of ``width`` columns."""
        from sylvan.explain.text import as_text

        return as_text(self, width)

    def html(self) -> str:
        """A page of its own, without script and without anything from elsewhere."""
        from sylvan.explain.page import as_page

        return as_page([self])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explanation to a file: a page for ``.html``, data for ``.json``, text for anything else.

        Raises
        ------
        DataError
            When nothing may be written there.
        """
        name = os.fspath(path).lower()
        if name.endswith((".html", ".htm")):
            content = self.html()
        elif name.endswith(".json"):
            content = json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"
        else:
            content = self.text() + "\n"
        with open_write(path) as stream:
            stream.write(content.encode("utf-8", "replace"))


def excerpt(text: str, length: int = 200) -> str:
    """How a text begins, on one line."""
    words = " ".join(text[: 4 * length].split())
    cut = len(words) > length or len(text) > 4 * length
    return f"{words[: length - 1].rstrip()}…" if cut else words


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        properties = [name for name, member in vars(type(value)).items() if isinstance(member, property)]
        return {name: _plain(getattr(value, name)) for name in [*vars(value), *properties]}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def refuse_filters(options: Mapping[str, Any]) -> None:
    """Refuse what would leave labels out of the ranking.

    Raises
    ------
    ParameterError
        For ``allowed`` or ``denied``.
    """
    for name in ("allowed", "denied"):
        if options.get(name) is not None:
            raise ParameterError(f"explain looks at the ranking of all labels: it takes no {name!r}.")


def tail_notes(model: Any, options: Mapping[str, Any]) -> tuple[str, ...]:
    """What to know where rare labels count for more than their scores."""
    tail = tail_of(getattr(model, "tail", None), options.get("tail"))
    if tail is None:
        return ()
    return (f"With tail={tail!r} place and score are by probability times the label's worth; paths are without it.",)


def one_row(row: Csr) -> None:
    """Refuse anything but one row.

    Raises
    ------
    DataError
        With the shape that was given.
    """
    if row.shape[0] != 1:
        raise DataError(f"explain takes one row, as X[[7]]. X has shape ({row.shape[0]}, {row.shape[1]}).")


def names_of(feature_names: Any, label_names: Any, counts: Any, n_features: int, n_labels: int) -> Names:
    """What features and labels are called, from lists, a Vocabulary, functions or nothing.

    Raises
    ------
    DataError
        When there are not as many names as features or labels.
    """
    given = (("feature_names", feature_names, n_features), ("label_names", label_names, n_labels))
    found: list[Callable[[int], str]] = []
    for what, names, n in given:
        word = what.partition("_")[0]
        if names is None:
            found.append(f"{word} {{}}".format)
        elif callable(names):
            found.append(names)
        else:
            if len(names) != n:
                raise DataError(f"{what} has {len(names)} names, but the model has {n} {word}s.")
            found.append(lambda i, listed=names: str(listed[i]))  # type: ignore[misc]  # one list a function
    return Names(found[0], found[1], counts)


def find_label(label: Any, n_labels: int, label_names: Any = None) -> int:
    """The id of a label that is given by name or id.

    Raises
    ------
    DataError
        When there is none of this name, with those that look like it, or the id is out of range.
    """
    if isinstance(label, str):
        if label_names is None or callable(label_names):
            raise DataError(f"The label must be an id in [0, {n_labels}), as this model knows no names. Got {label!r}.")
        vocabulary = label_names if isinstance(label_names, Vocabulary) else Vocabulary(map(str, label_names))
        found = vocabulary.get(label)
        if found is None:
            near = _similar(label, vocabulary)
            guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise DataError(f"There is no label {label!r} among the {n_labels} of this model.{guess}")
        return found
    whole = isinstance(label, numbers.Integral) and not isinstance(label, bool | np.bool_)
    if not whole or not 0 <= int(label) < n_labels:
        raise DataError(f"The label must be an id in [0, {n_labels}). Got {label!r} instead.")
    return int(label)


def _similar(label: str, names: Sequence[str]) -> list[str]:
    """Up to three names that look like the one that isn't there."""
    wanted = label.casefold()
    by_folded = {name.casefold(): name for name in names}
    if wanted in by_folded:
        return [by_folded[wanted]]
    folded = list(by_folded)
    if len(folded) > _EASILY_COMPARED:  # comparing a million names takes seconds
        folded = [name for name in folded if name[:1] == wanted[:1]][:_EASILY_COMPARED]
    return [by_folded[name] for name in difflib.get_close_matches(wanted, folded, n=3)]


def place_of(top: TopK, label: int) -> tuple[int | None, float | None]:
    """Place, from 1, and score of a label in the ranking of one row."""
    at = np.flatnonzero(top.labels[0] == label)
    return (int(at[0]) + 1, float(top.scores[0, at[0]])) if len(at) else (None, None)


def check_count(value: Any, name: str) -> int:
    """``top`` and ``n_examples``."""
    return count(value, name, owner="explain", high=10_000)


def tree_votes(
    rankers: Sequence[TreeRanker],
    combines: Sequence[Sequence[str]],
    row: Csr,
    label: int,
    beam: int,
    top: int,
    names: Names,
    bound: Callable[[Any], Any] | None,
) -> tuple[TreeVote, ...]:
    """What each tree says of a label; ``bound`` brings a tree's scores to where the mean takes them."""
    votes = []
    for number, (ranker, combine) in enumerate(zip(rankers, combines, strict=True)):
        paths = explain_paths(ranker, row, label, beam=beam, combines=combine, top=top, names=names)
        best = paths[0]
        score = best.score if bound is None else float(bound(np.array([best.score], np.float32))[0])
        enough = None if best.reached else beam_that_reaches(ranker, row, best, combine)
        votes.append(TreeVote(number, score, best.reached, beam, enough, paths))
    return tuple(votes)
