"""Labels that are found in texts: features of the matches, training on rows, and scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Float64, Int32
from sylvan.models.base import CANDIDATES
from sylvan.models.label_changes import best_of_pairs, rows_of
from sylvan.models.lexical.lexicon import COUNTS, FORM_KINDS, RELATIONS, Candidates
from sylvan.parallel import map_parallel, resolve_jobs
from sylvan.ranking.boosted_trees import BoostedTrees
from sylvan.text.counting import chunks
from sylvan.text.word_forms import LabelWords

FEATURES = (
    "preferred", "alternative", "hidden", "derived", "sentences", "inside", "first", "spread", "words", "capitals",
    "others", "share", "bm25", "bm25_share", "parts", "length", "broader", "narrower", "related", "found_rows",
    "label_rows", "keyphraseness", "tf_idf",
)  # fmt: skip
_PRIOR = 2.0  # rows' worth of what holds for all labels, in a label's keyphraseness


HAS, FOUND, FOUND_RIGHT, PARTIAL, PARTIAL_RIGHT = range(5)  # what MatchedRows counts of each label


@dataclass(frozen=True, eq=False)
class MatchedRows:
    """In how many rows labels were candidates, and in how many of these they were right; sums of rows' weights."""

    n_rows: float
    # shape (5, n_labels): rows that have the label; rows in which all its words were found, and those of them that have
    # it; the same of rows in which it was a candidate for some of its words
    sums: Float64

    @classmethod
    def none(cls, n_labels: int) -> MatchedRows:
        """Of no rows."""
        return cls(0.0, np.zeros((5, n_labels)))

    @classmethod
    def having(cls, truth: Csr, weight: Float32) -> MatchedRows:
        """Of rows of whose labels alone is known, a matrix of shape (n, n_labels), and their weights."""
        of_entry = np.repeat(weight, np.diff(truth.indptr)).astype(np.float64)
        rows = cls(float(weight.sum(dtype=np.float64)), np.zeros((5, truth.shape[1])))
        rows.sums[HAS] = np.bincount(truth.indices, of_entry, minlength=truth.shape[1])
        return rows

    @classmethod
    def of(cls, candidates: Candidates, right: Bool, n_labels: int, weight: Float32) -> MatchedRows:
        """Of candidates of rows alone, which of them are right, and the rows' weights."""
        labels, of_candidate = candidates.labels, weight.astype(np.float64)[candidates.documents]
        rows, is_found = cls.none(n_labels), candidates.found != 0
        for number, mask in enumerate((is_found, is_found & right, ~is_found, ~is_found & right), FOUND):
            rows.sums[number] = np.bincount(labels[mask], of_candidate[mask], minlength=n_labels)
        return rows

    def plus(self, other: MatchedRows, sign: float = 1.0) -> MatchedRows:
        """With other rows, of as many labels or more; or without them, with -1."""
        width, other_width = self.sums.shape[1], other.sums.shape[1]
        sums = np.zeros((5, max(width, other_width)))
        sums[:, :width] = self.sums
        sums[:, :other_width] += sign * other.sums
        return MatchedRows(max(self.n_rows + sign * other.n_rows, 0.0), np.maximum(sums, 0))

    def without(self, labels: Int32) -> MatchedRows:
        """With nothing known of some labels."""
        sums = self.sums.copy()
        sums[:, labels] = 0
        return MatchedRows(self.n_rows, sums)

    @cached_property
    def usual_shares(self) -> tuple[float, float]:
        """Of all rows in which some label was found, or some of its words were, the share that has it."""
        of_found, of_partial = (
            (self.sums[kind + 1].sum() + 1) / (self.sums[kind].sum() + 10) for kind in (FOUND, PARTIAL)
        )
        return float(of_found), float(of_partial)

    def right_shares(self, labels: Int32, is_found: Bool) -> Float64:
        """Of the rows in which each label was found, or else some of its words were, the share that has it."""
        kind = np.where(is_found, FOUND, PARTIAL)
        tried, right = self.sums[kind, labels], self.sums[kind + 1, labels]
        return np.asarray((right + _PRIOR * np.where(is_found, *self.usual_shares)) / (tried + _PRIOR))

    def to_array(self) -> Float64:
        """As one array of shape (6, n_labels), for the store; the first row repeats the number of rows."""
        return np.vstack((np.full(self.sums.shape[1], self.n_rows), self.sums))

    @classmethod
    def from_state(cls, state: store.State, name: str, n_labels: int) -> MatchedRows:
        """From :meth:`to_array`'s result in a state, verified."""
        rows = store.need_range(state, name, 0, 1e15, np.float64, (6, n_labels))
        return cls(float(rows[0, 0]), rows[1:])


def feature_columns(candidates: Candidates, rows: MatchedRows) -> Float32:
    """The columns of every candidate."""
    # Returns shape (n_candidates, len(FEATURES))
    counts = dict(zip(COUNTS, candidates.counts.T.astype(np.float64), strict=True))
    of = candidates.documents
    n_words = np.maximum(candidates.n_words, 1)[of]
    sentences, labels, is_found = counts["sentences"], candidates.labels, candidates.found != 0
    matches = sum(counts[kind] for kind in FORM_KINDS)
    found_rows = np.log((rows.sums[FOUND, labels] + 1) / (rows.n_rows + 2))
    columns = {name: np.log1p(counts[name]) for name in (*FORM_KINDS, *RELATIONS, "sentences", "others")}
    columns |= {name: counts[name] for name in ("words", "share", "bm25", "parts")}
    columns |= {
        "inside": counts["inside"] / np.maximum(sentences, 1),
        "first": np.where(is_found, counts["first"] / n_words, 1.0),
        "spread": np.where(is_found, (counts["last"] - counts["first"]) / n_words, 0.0),
        "capitals": counts["capitals"] / np.maximum(matches, 1),
        "bm25_share": counts["bm25"] / np.maximum(candidates.best_bm25, 1e-9)[of],
        "length": np.log1p(candidates.n_words)[of],
        "found_rows": found_rows,
        "label_rows": np.log((rows.sums[HAS, labels] + 1) / (rows.n_rows + 2)),
        "keyphraseness": rows.right_shares(labels, is_found),
        "tf_idf": np.log1p(sentences) * -found_rows,
    }
    result = np.empty((len(labels), len(FEATURES)), np.float32)
    for number, name in enumerate(FEATURES):
        result[:, number] = columns[name]
    return result


# What the columns say where no row has taught anything: a label whose preferred name stands as a phrase, early,
# often and outside of longer names, of several words that no other label has.
_USUAL = {
    "preferred": 1.2, "alternative": 0.8, "hidden": 0.6, "derived": 0.3, "sentences": 0.5, "inside": -1.5,
    "first": -1.0, "spread": 0.5, "words": 0.4, "others": -0.5, "share": 2.0, "bm25_share": 2.0, "narrower": -0.2,
}  # fmt: skip
_USUAL_BASE = -5.0
_USUAL_WEIGHTS = np.array([_USUAL.get(name, 0.0) for name in FEATURES], np.float32)


def usual_scores(columns: Float32) -> Float32:
    """Log odds of candidates as labels usually are, without any training row."""
    # Shape: columns (n_candidates, len(FEATURES))
    # A sum a row, whatever else is asked with it: a matrix product may add up in another order.
    return np.asarray((columns * _USUAL_WEIGHTS).sum(axis=1) + np.float32(_USUAL_BASE), np.float32)


_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class TextMatcher:
    """Finds the labels whose words stand in texts."""

    words: LabelWords
    lexicon: kernels.LabelLexicon  # as the kernel has it
    partial: int  # how many labels of which only some words stand in a text are candidates

    def each(
        self, texts: tuple[str, ...], work: Callable[[int, int, Candidates], _T], n_jobs: int | None,
        description: str | None = None, pairs: Csr | None = None,
    ) -> list[_T]:  # fmt: skip
        """``work(first, last, candidates)`` for consecutive ranges of the texts, in their order. With ``pairs``, a row
        for each text, the candidates are these labels and no others."""

        def run(chunk: tuple[int, int]) -> _T:
            first, last = chunk
            places, bounds, listed = self.words.read(texts, first, last), None, None
            if pairs is not None:
                start = pairs.indptr[first]
                bounds, listed = pairs.indptr[first : last + 1] - start, pairs.indices[start : pairs.indptr[last]]
            offsets, labels, is_found, counts, best_bm25 = kernels.match_labels(
                self.lexicon, *places, self.partial, bounds, listed
            )
            shaped, n_words = counts.reshape(-1, len(COUNTS)), np.diff(places.offsets)
            return work(first, last, Candidates(offsets, labels, is_found, shaped, best_bm25, n_words))

        return map_parallel(run, chunks(texts), resolve_jobs(n_jobs), description=description)


@dataclass(frozen=True, eq=False)
class LabelScorer:
    """Scores candidates by their columns."""

    rows: MatchedRows  # what training rows say of the labels
    trees: BoostedTrees | None  # None where too few rows have taught anything

    def scores(self, candidates: Candidates) -> Float32:
        """A number in (0, 1) for each."""
        columns = feature_columns(candidates, self.rows)
        odds = usual_scores(columns) if self.trees is None else self.trees.scores(columns)
        return np.asarray((1 / (1 + np.exp(-odds.astype(np.float64)))).astype(np.float32))


def right_ones(candidates: Candidates, truth: Csr, first: int) -> Bool:
    """Which candidates the rows of ``truth`` from ``first`` on have."""
    n, width = len(candidates.offsets) - 1, np.int64(truth.shape[1])
    of_rows = truth.between(first, first + n)
    keys = np.repeat(np.arange(n), np.diff(of_rows.indptr)) * width + of_rows.indices
    return np.asarray(np.isin(candidates.documents * width + candidates.labels, keys))


def best(candidates: Candidates, scores: Float32, k: int, labels: LabelFilter | None, first: int = 0) -> TopK:
    """The ``k`` best candidates of each document, of those that may be answered; of equal ones the lower label."""
    # Shape: scores (n_candidates,)
    if labels is not None:
        shared = np.zeros(labels.n_labels, bool)
        shared[labels.shared] = True
        listed = shared[candidates.labels]
        if labels.rows is not None:
            listed |= right_ones(candidates, labels.rows, first)
        keep = listed if labels.allows else ~listed
        candidates, scores = candidates.some(keep), scores[keep]
    return best_of_pairs(candidates.documents, candidates.labels, scores, len(candidates.offsets) - 1, k)


_FOLDS = 5
_MOST_CANDIDATES = 400_000  # that the trees are grown by
_LEAST_RIGHT = 20  # candidates without which nothing can be learned


@dataclass(frozen=True, eq=False)
class _Part:
    """Candidates of consecutive rows, and which are right."""

    first: int
    candidates: Candidates
    right: Bool


def _counted(parts: list[_Part], truth: Csr, weight: Float32, rows: Bool) -> MatchedRows:
    """What some rows say of the labels."""
    chosen = (weight * rows).astype(np.float32)
    total = MatchedRows.having(truth, chosen)
    for part in parts:
        weights = chosen[part.first : part.first + len(part.candidates.offsets) - 1]
        total = total.plus(MatchedRows.of(part.candidates, part.right, truth.shape[1], weights))
    return total


def matched_rows(
    matcher: TextMatcher, texts: tuple[str, ...], truth: Csr, weight: Float32 | None, n_jobs: int | None
) -> MatchedRows:
    """What rows say of the labels."""
    # Shapes: truth (n, n_labels); weight (n,)
    weight = np.ones(len(texts), np.float32) if weight is None else weight
    return _counted(_parts(matcher, texts, truth, n_jobs), truth, weight, np.ones(len(texts), bool))


def _parts(matcher: TextMatcher, texts: tuple[str, ...], truth: Csr, n_jobs: int | None) -> list[_Part]:
    def work(first: int, last: int, candidates: Candidates) -> _Part:
        return _Part(first, candidates, right_ones(candidates, truth, first))

    return matcher.each(texts, work, n_jobs, "Finding labels in texts")


def learned(
    params: Any, matcher: TextMatcher, texts: tuple[str, ...], truth: Csr, weight: Float32, held_out: Int32 | None
) -> tuple[LabelScorer, TopK | None]:
    """What scores candidates, by a LexicalMatcher's parameters, and the answers to rows that are held out, where any
    are. How often a label was right where it was found says nothing of a row that was counted itself, so the trees
    learn from rows of which each has the counts of other rows alone: those of four folds of five."""
    # Shapes: truth (n, n_labels); weight (n,)
    n = len(texts)
    parts = _parts(matcher, texts, truth, params.n_jobs)
    everything = rows = _counted(parts, truth, weight, np.ones(n, bool))
    training, out, top = weight > 0, np.zeros(n, bool), None
    if held_out is not None:
        training[held_out], out[held_out] = False, True
        rows = _counted(parts, truth, weight, ~out)
    trees = _trees(params, parts, truth, weight, training, rows)
    if held_out is not None:
        k, scorer, tops = min(CANDIDATES, truth.shape[1]), LabelScorer(rows, trees), []
        for part in parts:
            answered = part.candidates.some(out[part.first + part.candidates.documents])
            tops.append(best(answered, scorer.scores(answered), k, None))
        top = rows_of(tops, k).of_rows(out)
    return LabelScorer(everything, trees), top


def _trees(
    params: Any, parts: list[_Part], truth: Csr, weight: Float32, training: Bool, rows: MatchedRows
) -> BoostedTrees | None:
    """Trees grown by the candidates of training rows, each row's columns without what it says itself."""
    if not params.n_trees:
        return None
    n, rng = len(training), np.random.default_rng(params.seed)
    fold = rng.permutation(n) % _FOLDS
    sizes = np.concatenate([np.zeros(0, np.int64), *(np.diff(part.candidates.offsets) for part in parts)])
    order = rng.permutation(n)
    order = order[training[order]]
    sampled = np.isin(np.arange(n), order[np.cumsum(sizes[order]) <= _MOST_CANDIDATES])
    taught: list[tuple[Array, ...]] = []  # columns, whether right, and weights
    for number in range(_FOLDS):
        of_fold = training & (fold == number)
        if not (of_fold & sampled).any():
            continue
        other_folds = rows.plus(_counted(parts, truth, weight, of_fold), -1)
        for part in parts:
            chosen = (of_fold & sampled)[part.first : part.first + len(part.candidates.offsets) - 1]
            if (mask := chosen[part.candidates.documents]).any():
                candidates = part.candidates.some(mask)
                weights = weight[part.first + candidates.documents]
                taught.append((feature_columns(candidates, other_folds), part.right[mask], weights))
    n_right = sum(int(right.sum()) for _, right, _ in taught)
    if n_right < _LEAST_RIGHT or n_right == sum(len(right) for _, right, _ in taught):
        return None
    return BoostedTrees.fit(
        *map(np.concatenate, zip(*taught, strict=True)), n_trees=params.n_trees, depth=params.depth,
        learning_rate=params.learning_rate,
    )  # fmt: skip
