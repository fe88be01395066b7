"""Whether labels' texts become training rows: held-out rows share far more words with them than by chance."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from sylvan import store
from sylvan.arrays.canonical import Csr, stacked, take_rows
from sylvan.arrays.types import Array, Float32, Float64, Int32
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import MIN_EACH

MOST_HELD_OUT = 2_000  # evenly among all
ARRAY = "label_text_likeness"
# Likeness is 8 times that by chance and more on all sets of docs/results/beyond.md, and within its error where labels
# have the texts of others.
LEAST_RATIO, LEAST_ERRORS = 3.0, 3.0
_WORD = re.compile(r"[^\W\d_]{3,}")
_CODE = re.compile(r"\S*(://|\d)\S*|\w+:\S+")  # a URI, a word with a number in it, a name with a prefix


@dataclass(frozen=True)
class Likeness:
    """How like held-out rows are to the texts of their labels, and to those of other rows' labels."""

    n_pairs: int  # of a row and one of its labels that has a text
    of_labels: float  # mean product of the row's features with those of the label's text
    by_chance: float  # with the same texts in another order
    error: float  # standard error of the difference of these means

    @property
    def helps(self) -> bool:
        """Whether labels' texts become training rows."""
        is_certain = self.of_labels - self.by_chance > LEAST_ERRORS * self.error
        return is_certain and self.of_labels > LEAST_RATIO * self.by_chance

    def sentence(self) -> str:
        """What was decided, and why."""
        return (
            f"The texts of labels are {'' if self.helps else 'not '}used as training rows: the mean likeness of "
            f"held-out rows to those of their labels is {self.of_labels:.4f}, and {self.by_chance:.4f} by chance "
            f"({counted(self.n_pairs, 'pair')})."
        )

    def to_array(self) -> Float64:
        """For the store."""
        return np.array([self.n_pairs, self.of_labels, self.by_chance, self.error])

    @classmethod
    def from_state(cls, state: store.State) -> Likeness | None:
        """That of a saved model, where there is one."""
        if ARRAY not in state.arrays:
            return None
        store.need_array(state, ARRAY, np.float64, (4,))
        n_pairs, *means = store.need_finite(state, ARRAY).tolist()
        return cls(int(n_pairs), *means)


def is_auto(label_texts: Any) -> bool:
    """Whether names that are words are to be texts; of arrays == would say something else."""
    return isinstance(label_texts, str) and label_texts == "auto"


def readable(names: Collection[str]) -> dict[str, str]:
    """The names that are words, as texts, where most names are: none of URIs, numbers or codes."""
    words = {name: name.replace("_", " ") for name in names if _WORD.search(name) and not _CODE.fullmatch(name)}
    return words if 2 * len(words) >= len(names) else {}


def with_text_rows(
    features: Csr, labels: Csr, weight: Float32 | None, texts: Csr, of: Int32,
    empty: Callable[[int, Any], Array] = np.empty,
) -> tuple[Csr, Csr, Float32 | None]:
    """Training rows, in ``empty`` arrays, and below them labels' texts as rows of their labels, of weight 1."""
    below = Csr(
        np.arange(len(of) + 1, dtype=np.int64), of.astype(np.int32), np.ones(len(of), np.float32),
        (len(of), labels.shape[1]),
    )  # fmt: skip
    weights = None if weight is None else np.concatenate((weight, np.ones(len(of), np.float32)))
    return stacked(features, texts, empty), stacked(labels, below), weights


def likeness(features: Csr, labels: Csr, texts: Csr, held_out: Int32) -> Likeness | None:
    """How like rows are to their labels' texts; None of too few pairs to tell. Chance is the same labels in another
    order, which depends on the number of pairs alone, where these aren't the row's own."""
    # Shapes: features (n, d); labels (n, L); texts (L, d), empty where a label has none; held_out (m,)
    held_out = held_out[:: max(1, -(-len(held_out) // MOST_HELD_OUT))]
    truth = take_rows(labels, held_out)
    row, label = np.repeat(held_out, np.diff(truth.indptr)), truth.indices
    has_text = np.diff(texts.indptr)[label] > 0
    row, label = row[has_text], label[has_text]
    if len(row) < MIN_EACH:
        return None
    X, Z = features.to_scipy()[row], texts.to_scipy()
    other = np.random.default_rng(0).permutation(label)
    is_other = np.asarray(labels.to_scipy()[row, other]).ravel() == 0
    if is_other.sum() < MIN_EACH:
        return None
    X, label, other = X[is_other], label[is_other], other[is_other]
    own, by_chance = (np.asarray(X.multiply(Z[of]).sum(axis=1), np.float64).ravel() for of in (label, other))
    error = np.std(own - by_chance) / np.sqrt(len(label))
    return Likeness(len(label), float(own.mean()), float(by_chance.mean()), float(error))
