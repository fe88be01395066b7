"""What a lexical matcher learns from training rows: how often labels that are found are right, and what tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.models.base import CANDIDATES
from sylvan.models.lexical.features import MatchedRows, feature_columns
from sylvan.models.lexical.lexicon import Candidates
from sylvan.models.lexical.matching import LabelScorer, TextMatcher, best, right_ones
from sylvan.ranking.boosted_trees import BoostedTrees

_FOLDS = 5
_MOST_CANDIDATES = 400_000  # that the trees are grown by
_LEAST_RIGHT = 20  # candidates without which nothing can be learned

_Weights = npt.NDArray[np.float32]


class Boosting(NamedTuple):
    """How the trees are grown."""

    n_trees: int
    depth: int
    learning_rate: float
    seed: int


class Learned(NamedTuple):
    """What scores candidates, and the answers to rows that it hasn't learned from, where some were asked for."""

    scorer: LabelScorer
    top: TopK | None


@dataclass(frozen=True, eq=False)
class _Part:
    """Candidates of consecutive rows, and which are right."""

    first: int
    candidates: Candidates
    right: npt.NDArray[np.bool_]

    def of_rows(self, rows: npt.NDArray[np.bool_]) -> tuple[Candidates, npt.NDArray[np.bool_]]:
        """Those of some rows of all."""
        here = rows[self.first : self.first + len(self.candidates.offsets) - 1][self.candidates.documents]
        return self.candidates.some(here), self.right[here]


def _counted(parts: list[_Part], truth: Csr, weight: _Weights, rows: npt.NDArray[np.bool_]) -> MatchedRows:
    """What some rows say of the labels."""
    chosen = (weight * rows).astype(np.float32)
    total = MatchedRows.having(truth, chosen)
    for part in parts:
        own = chosen[part.first : part.first + len(part.candidates.offsets) - 1]
        total = total.plus(MatchedRows.of(part.candidates, part.right, truth.shape[1], own))
    return total


def matched_rows(
    matcher: TextMatcher, texts: tuple[str, ...], truth: Csr, weight: _Weights, n_jobs: int
) -> MatchedRows:
    """What rows say of the labels."""
    # Shapes: truth (n, n_labels); weight (n,)
    parts = _parts(matcher, texts, truth, n_jobs)
    return _counted(parts, truth, weight, np.ones(len(texts), bool))


def _parts(matcher: TextMatcher, texts: tuple[str, ...], truth: Csr, n_jobs: int) -> list[_Part]:
    def work(first: int, last: int, candidates: Candidates) -> _Part:
        return _Part(first, candidates, right_ones(candidates, truth, first))

    return matcher.each(texts, work, n_jobs, "Finding labels in texts")


def learned(
    matcher: TextMatcher, texts: tuple[str, ...], truth: Csr, weight: _Weights, boosting: Boosting,
    held_out: npt.NDArray[np.int32] | None, n_jobs: int,
) -> Learned:  # fmt: skip
    """What rows teach. How often a label was right where it was found says nothing of a row that was counted itself, so
    the trees learn from rows of which each has the counts of other rows alone: those of four folds of five."""
    # Shapes: truth (n, n_labels); weight (n,)
    n = len(texts)
    parts = _parts(matcher, texts, truth, n_jobs)
    everything = _counted(parts, truth, weight, np.ones(n, bool))
    training = weight > 0
    rows = everything
    if held_out is not None:
        training[held_out] = False
        out = np.zeros(n, bool)
        out[held_out] = True
        rows = _counted(parts, truth, weight, ~out)
    trees = _trees(parts, truth, weight, training, rows, boosting)
    top = None
    if held_out is not None:
        answered = Candidates.joined([part.candidates for part in parts]).of_documents(out)
        scorer = LabelScorer(rows, trees)
        top = best(answered, scorer.scores(answered), min(CANDIDATES, truth.shape[1]), None)
    return Learned(LabelScorer(everything, trees), top)


def _trees(
    parts: list[_Part], truth: Csr, weight: _Weights, training: npt.NDArray[np.bool_], rows: MatchedRows,
    boosting: Boosting,
) -> BoostedTrees | None:  # fmt: skip
    """Trees grown by the candidates of training rows, each row's columns without what it says itself."""
    if not boosting.n_trees:
        return None
    n = len(training)
    rng = np.random.default_rng(boosting.seed)
    fold = rng.permutation(n) % _FOLDS
    sizes = np.concatenate([np.diff(part.candidates.offsets) for part in parts]) if parts else np.zeros(0, np.int64)
    order = rng.permutation(n)
    order = order[training[order]]
    sampled = np.zeros(n, bool)
    sampled[order[np.cumsum(sizes[order]) <= _MOST_CANDIDATES]] = True
    columns, right, weights = [], [], []
    for number in range(_FOLDS):
        of_fold = training & (fold == number)
        if not (of_fold & sampled).any():
            continue
        others = rows.plus(_counted(parts, truth, weight, of_fold), -1)
        for part in parts:
            candidates, own = part.of_rows(of_fold & sampled)
            if len(own):
                columns.append(feature_columns(candidates, others))
                right.append(own)
                weights.append(weight[part.first + candidates.documents])
    n_right = sum(int(own.sum()) for own in right)
    if n_right < _LEAST_RIGHT or n_right == sum(map(len, right)):
        return None
    return BoostedTrees.fit(
        np.concatenate(columns), np.concatenate(right), np.concatenate(weights), n_trees=boosting.n_trees,
        depth=boosting.depth, learning_rate=boosting.learning_rate,
    )  # fmt: skip
