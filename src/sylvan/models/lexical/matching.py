"""Texts to the candidates of a lexical matcher, their columns and their scores, on several threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.arrays.canonical import Csr
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.models.lexical.features import MatchedRows, feature_columns, usual_scores
from sylvan.models.lexical.lexicon import COUNTS, Candidates, Lexicon
from sylvan.parallel import map_parallel
from sylvan.ranking.boosted_trees import BoostedTrees
from sylvan.text.counting import chunks
from sylvan.text.label_words import LabelWords

_Floats = npt.NDArray[np.float32]
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class TextMatcher:
    """Finds the labels whose words stand in texts."""

    words: LabelWords
    lexicon: kernels.LabelLexicon  # as the kernel has it
    partial: int  # how many labels of which only some words stand in a text are candidates

    @classmethod
    def of(cls, words: LabelWords, lexicon: Lexicon, partial: int) -> TextMatcher:
        """With the lexicon as the kernel has it."""
        return cls(words, lexicon.kernel, partial)

    def candidates(self, texts: tuple[str, ...], first: int, last: int, given: Csr | None = None) -> Candidates:
        """Of texts[first:last]; with ``given``, a row for each text, these labels and no others."""
        places = self.words.read(texts, first, last)
        bounds, listed = None, None
        if given is not None:
            start = given.indptr[first]
            bounds, listed = given.indptr[first : last + 1] - start, given.indices[start : given.indptr[last]]
        offsets, labels, found, counts, best_bm25 = kernels.match_labels(
            self.lexicon, *places, self.partial, bounds, listed
        )
        shaped = counts.reshape(-1, len(COUNTS))
        return Candidates(offsets, labels, found, shaped, best_bm25, np.diff(places.offsets))

    def each(
        self, texts: tuple[str, ...], work: Callable[[int, int, Candidates], _T], n_jobs: int,
        description: str | None = None, given: Csr | None = None,
    ) -> list[_T]:  # fmt: skip
        """``work(first, last, candidates)`` for consecutive ranges of the texts, in their order."""

        def run(chunk: tuple[int, int]) -> _T:
            return work(*chunk, self.candidates(texts, *chunk, given))

        return map_parallel(run, chunks(texts), n_jobs, description=description)


@dataclass(frozen=True, eq=False)
class LabelScorer:
    """Scores candidates by their columns."""

    rows: MatchedRows  # what training rows say of the labels
    trees: BoostedTrees | None  # None where too few rows have taught anything

    def scores(self, candidates: Candidates) -> _Floats:
        """A number in (0, 1) for each."""
        columns = feature_columns(candidates, self.rows)
        odds = usual_scores(columns) if self.trees is None else self.trees.scores(columns)
        scores: _Floats = (1 / (1 + np.exp(-odds.astype(np.float64)))).astype(np.float32)
        return scores


def right_ones(candidates: Candidates, truth: Csr, first: int) -> npt.NDArray[np.bool_]:
    """Which candidates the rows of ``truth`` from ``first`` on have."""
    n = len(candidates.offsets) - 1
    width = np.int64(truth.shape[1])
    start, end = truth.indptr[first], truth.indptr[first + n]
    rows = np.repeat(np.arange(n), np.diff(truth.indptr[first : first + n + 1]))
    found: npt.NDArray[np.bool_] = np.isin(
        candidates.documents * width + candidates.labels, rows * width + truth.indices[start:end]
    )
    return found


def best(candidates: Candidates, scores: _Floats, k: int, labels: LabelFilter | None, first: int = 0) -> TopK:
    """The ``k`` best candidates of each document, of those that may be answered; of equal ones the lower label."""
    # Shape: scores (n_candidates,)
    if labels is not None:
        keep = _open(candidates, labels, first)
        candidates, scores = candidates.some(keep), scores[keep]
    n = len(candidates.offsets) - 1
    of = candidates.documents
    order = np.lexsort((candidates.labels, -scores, of))
    place = np.arange(len(order)) - candidates.offsets[of]  # rows are as long sorted as not
    chosen = place < k
    top = TopK(np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32))
    top.labels[of[chosen], place[chosen]] = candidates.labels[order][chosen]
    top.scores[of[chosen], place[chosen]] = scores[order][chosen]
    return top


def _open(candidates: Candidates, labels: LabelFilter, first: int) -> npt.NDArray[np.bool_]:
    """Which candidates may be answered."""
    shared = np.zeros(labels.n_labels, bool)
    shared[labels.shared] = True
    listed = shared[candidates.labels]
    if labels.rows is not None:
        listed |= right_ones(candidates, labels.rows, first)
    return listed if labels.allows else ~listed
