"""What is known of a label that a document names: the columns by which candidates are ranked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays.canonical import Csr
from sylvan.models.lexical.lexicon import COUNTS, Candidates

FEATURES = (
    "preferred", "alternative", "hidden", "derived", "sentences", "inside", "first", "spread", "words", "capitals",
    "others", "share", "bm25", "bm25_share", "parts", "length", "broader", "narrower", "related", "found_rows",
    "label_rows", "keyphraseness", "tf_idf",
)  # fmt: skip
_PRIOR = 2.0  # rows' worth of what holds for all labels, in a label's keyphraseness

_Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """In how many rows labels were candidates, and in how many of these they were right; sums of rows' weights."""

    n_rows: float
    labels: _Doubles  # shape (n_labels,): rows that have the label
    # found, found_right: shape (n_labels,): rows in which all its words were found, and those of them that have it
    found: _Doubles
    found_right: _Doubles
    # partial, partial_right: shape (n_labels,): the same of rows in which it was a candidate for some of its words
    partial: _Doubles
    partial_right: _Doubles

    @classmethod
    def none(cls, n_labels: int) -> MatchedRows:
        """Of no rows."""
        return cls(0.0, *(np.zeros(n_labels) for _ in range(5)))

    @classmethod
    def having(cls, truth: Csr, weight: npt.NDArray[np.float32]) -> MatchedRows:
        """Of rows of whose labels alone is known, a matrix of shape (n, n_labels), and their weights."""
        of_entry = np.repeat(weight, np.diff(truth.indptr)).astype(np.float64)
        n_with = np.bincount(truth.indices, of_entry, minlength=truth.shape[1]).astype(np.float64)
        return replace(cls.none(truth.shape[1]), n_rows=float(weight.sum(dtype=np.float64)), labels=n_with)

    @classmethod
    def of(
        cls, candidates: Candidates, right: npt.NDArray[np.bool_], n_labels: int, weight: npt.NDArray[np.float32]
    ) -> MatchedRows:
        """Of candidates of rows alone, which of them are right, and the rows' weights."""
        of_candidate = weight.astype(np.float64)[candidates.documents]
        found = candidates.found != 0

        def total(which: npt.NDArray[np.bool_]) -> _Doubles:
            return np.bincount(candidates.labels[which], of_candidate[which], minlength=n_labels).astype(np.float64)

        parts = total(found), total(found & right), total(~found), total(~found & right)
        return cls(0.0, np.zeros(n_labels), *parts)

    def plus(self, other: MatchedRows, sign: float = 1.0) -> MatchedRows:
        """With other rows, of as many labels or more; or without them, with -1."""
        sums = []
        for a, b in zip(self._parts(), other._parts(), strict=True):
            wide = np.zeros(max(len(a), len(b)))
            wide[: len(a)] = a
            wide[: len(b)] += sign * b
            sums.append(np.maximum(wide, 0))
        return MatchedRows(max(self.n_rows + sign * other.n_rows, 0.0), *sums)

    def without(self, labels: npt.NDArray[np.int32]) -> MatchedRows:
        """With nothing known of some labels."""
        parts = [part.copy() for part in self._parts()]
        for part in parts:
            part[labels] = 0
        return MatchedRows(self.n_rows, *parts)

    @cached_property
    def usual_shares(self) -> tuple[float, float]:
        """Of all rows in which some label was found, or some of its words were, the share that has it."""
        pairs = (self.found, self.found_right), (self.partial, self.partial_right)
        of_found, of_partial = ((right.sum() + 1) / (tried.sum() + 10) for tried, right in pairs)
        return float(of_found), float(of_partial)

    def right_shares(self, labels: npt.NDArray[np.int32], found: npt.NDArray[np.bool_]) -> _Doubles:
        """Of the rows in which each label was found, or else some of its words were, the share that has it."""
        of_found, of_partial = self.usual_shares
        tried = np.where(found, self.found[labels], self.partial[labels])
        right = np.where(found, self.found_right[labels], self.partial_right[labels])
        shares: _Doubles = (right + _PRIOR * np.where(found, of_found, of_partial)) / (tried + _PRIOR)
        return shares

    def _parts(self) -> tuple[_Doubles, ...]:
        return self.labels, self.found, self.found_right, self.partial, self.partial_right

    def to_array(self) -> _Doubles:
        """As one array of shape (6, n_labels), for the store; the first row repeats the number of rows."""
        return np.vstack((np.full(len(self.labels), self.n_rows), *self._parts()))

    @classmethod
    def from_state(cls, state: store.State, name: str, n_labels: int) -> MatchedRows:
        """From :meth:`to_array`'s result in a state, verified."""
        rows = store.need_range(state, name, 0, 1e15, np.float64, (6, n_labels))
        return cls(float(rows[0, 0]), *rows[1:])


def feature_columns(candidates: Candidates, rows: MatchedRows) -> npt.NDArray[np.float32]:
    """The columns of every candidate."""
    # Returns shape (n_candidates, len(FEATURES))
    counts = dict(zip(COUNTS, candidates.counts.T.astype(np.float64), strict=True))
    of = candidates.documents
    n_words = np.maximum(candidates.n_words, 1)[of]
    sentences, labels, found = counts["sentences"], candidates.labels, candidates.found != 0
    matches = sum(counts[kind] for kind in ("preferred", "alternative", "hidden", "derived"))
    found_rows = np.log((rows.found[labels] + 1) / (rows.n_rows + 2))
    columns = {name: np.log1p(counts[name]) for name in ("preferred", "alternative", "hidden", "derived")}
    columns |= {
        "sentences": np.log1p(sentences),
        "inside": counts["inside"] / np.maximum(sentences, 1),
        "first": np.where(found, counts["first"] / n_words, 1.0),
        "spread": np.where(found, (counts["last"] - counts["first"]) / n_words, 0.0),
        "words": counts["words"],
        "capitals": counts["capitals"] / np.maximum(matches, 1),
        "others": np.log1p(counts["others"]),
        "share": counts["share"],
        "bm25": counts["bm25"],
        "parts": counts["parts"],
        "bm25_share": counts["bm25"] / np.maximum(candidates.best_bm25, 1e-9)[of],
        "length": np.log1p(candidates.n_words)[of],
        "found_rows": found_rows,
        "label_rows": np.log((rows.labels[labels] + 1) / (rows.n_rows + 2)),
        "keyphraseness": rows.right_shares(labels, found),
        "tf_idf": np.log1p(sentences) * -found_rows,
    }
    columns |= {name: np.log1p(counts[name]) for name in ("broader", "narrower", "related")}
    result = np.empty((len(labels), len(FEATURES)), np.float32)
    for at, name in enumerate(FEATURES):
        result[:, at] = columns[name]
    return result


# What the columns say where no row has taught anything: a label whose preferred name stands as a phrase, early,
# often and outside of longer names, of several words that no other label has.
_USUAL = {
    "preferred": 1.2, "alternative": 0.8, "hidden": 0.6, "derived": 0.3, "sentences": 0.5, "inside": -1.5,
    "first": -1.0, "spread": 0.5, "words": 0.4, "others": -0.5, "share": 2.0, "bm25_share": 2.0, "narrower": -0.2,
}  # fmt: skip
_USUAL_BASE = -5.0
_USUAL_WEIGHTS = np.array([_USUAL.get(name, 0.0) for name in FEATURES], np.float32)


def usual_scores(columns: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Log odds of candidates as labels usually are, without any training row."""
    # Shape: columns (n_candidates, len(FEATURES))
    # A sum a row, whatever else is asked with it: a matrix product may add up in another order.
    scores: npt.NDArray[np.float32] = (columns * _USUAL_WEIGHTS).sum(axis=1) + np.float32(_USUAL_BASE)
    return scores.astype(np.float32)
