"""What a reranker answers: candidates in their learned order, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK, resized
from sylvan.explain.explanation import Explanation
from sylvan.labels.vocabulary import find_label
from sylvan.models.encoders.encoded_labels import EncodedLabels
from sylvan.models.ensembles.joint import JointModel
from sylvan.models.ensembles.members import LabelIds, take
from sylvan.models.reranker.candidate_columns import LabelFacts
from sylvan.models.reranker.candidates import ColumnMaker, column_names, own_ids
from sylvan.models.reranker.explained import candidate_notes
from sylvan.models.reranker.learning import order_by
from sylvan.parallel import map_parallel, resolve_jobs, split_ranges
from sylvan.ranking.boosted_trees import BoostedTrees
from sylvan.ranking.ensemble import combine_rankings
from sylvan.ranking.tail import tail_of

_Part = TypeVar("_Part")
_ROWS = 256  # whose columns are in memory at a time, in each thread


class RerankerAnswers(JointModel):
    """Base of Reranker, once it is trained."""

    objective: str
    tail: str | None
    columns: Callable[[Any, TopK], Any] | None
    scorer_: BoostedTrees | None
    _facts: LabelFacts
    _values: npt.NDArray[np.float32]
    _n_own: int | None
    _encoded: EncodedLabels | None

    @property
    def feature_names_(self) -> tuple[str, ...]:
        """What the columns of :meth:`candidate_columns` are called, in their order."""
        self._need_fit("feature_names_")
        return column_names(self.members, self._encoded is not None, self._values.shape[1], self._n_own)

    def rank(
        self, X: Any, k: int = 10, *, allowed: Any = None, denied: Any = None, tail: str | None = None, **options: Any
    ) -> TopK:
        """The ``k`` best labels of each row, of its candidates.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        k : int
            Number of labels per row; a row with fewer candidates ends in label -1.
        allowed, denied : label ids, names (over texts), or a mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all rows or for each row. Candidates are
            then chosen, and ordered, among the labels that are open.
        tail : {"psp", "psp:A,B", "macro_recall", "none"}, optional
            Makes rare labels count for more; by default the parameter.
        **options
            Passed to the members whose ``rank`` accepts them, such as ``beam=20``.

        Returns
        -------
        TopK, or NamedTopK for texts
            Labels and scores in [0, 1] of shape (n, k), best first; among equal scores the lower label comes first.

        Raises
        ------
        NotFittedError, DataError, ParameterError
        """
        weighing = tail_of(self.tail, tail)
        if weighing is not None:
            self._need_fit("rank")
            return self._rank_for_tail(X, k, weighing, allowed=allowed, denied=denied, **options)
        return super().rank(X, k, allowed=allowed, denied=denied, **options)

    @property
    def _asked_members(self) -> list[int]:
        return list(range(len(self.members)))

    def _candidates(self, tops: Sequence[TopK], n_jobs: int) -> TopK:
        """The labels of the highest mean probability, each member by its weight."""
        k = min(self.candidates, self.n_labels_)
        top = combine_rankings(tops, self.weights_, k, n_jobs=n_jobs)
        return TopK(top.labels, np.where(top.labels >= 0, top.scores, np.float32(-np.inf)))

    def _column_maker(self, facts: LabelFacts | None = None) -> ColumnMaker:
        function = None if self._n_own is None else self.columns  # one that the order hasn't learned from isn't asked
        return ColumnMaker(
            self.members, self._ids, self._own_ids, facts or self._facts, self._values, function, self._n_own,
            self._encoded,
        )  # fmt: skip

    @property
    def _own_ids(self) -> LabelIds:
        """The members' ids of all labels; made when they are first asked for."""
        cached = self.__dict__.get("_cached_ids")
        if cached is None or cached[0] is not self._ids:
            cached = (self._ids, own_ids(self._ids, self.n_labels_))
            self.__dict__["_cached_ids"] = cached
        found: LabelIds = cached[1]
        return found

    def _of_blocks(
        self, work: Callable[[TopK, npt.NDArray[np.float32]], _Part], maker: ColumnMaker, candidates: TopK,
        tops: Sequence[TopK], rows: Any,
    ) -> list[_Part]:  # fmt: skip
        """What ``work`` makes of candidates and their columns, some rows at a time."""
        vectors = maker.row_vectors(rows, self.n_jobs)  # of all at once: an encoder has threads of its own

        def block(part: tuple[int, int]) -> _Part:
            here = slice(*part)
            some, own = candidates.of_rows(here), [top.of_rows(here) for top in tops]
            near = None if vectors is None else vectors[here]
            return work(some, maker.columns(some, own, take(rows, np.arange(*part, dtype=np.int32)), near))

        return map_parallel(block, split_ranges(len(candidates.labels), _ROWS), resolve_jobs(self.n_jobs))

    def _columns(
        self, maker: ColumnMaker, candidates: TopK, tops: Sequence[TopK], rows: Any
    ) -> npt.NDArray[np.float32]:
        """The columns of all candidates."""
        parts = self._of_blocks(lambda _, columns: columns, maker, candidates, tops, rows)
        return np.concatenate(parts) if parts else maker.columns(candidates, tops, rows, maker.row_vectors(rows, 1))

    def _combined(self, tops: Mapping[int, TopK], k: int, X: Any) -> TopK:
        listed = list(tops.values())
        candidates = self._candidates(listed, resolve_jobs(self.n_jobs))
        if self.scorer_ is None:
            return resized(candidates, k)
        scorer = self.scorer_
        parts = self._of_blocks(partial(order_by, scorer), self._column_maker(), candidates, listed, X)
        labels = np.concatenate([candidates.labels[:0], *(part.labels for part in parts)])
        scores = np.concatenate([candidates.scores[:0], *(part.scores for part in parts)])
        return resized(TopK(labels, scores), k)

    def candidate_columns(self, X: Any) -> tuple[TopK, npt.NDArray[np.float32]]:
        """The candidates of each row, by their mean probability, and the columns by which they are ordered.

        Parameters
        ----------
        X : as in :meth:`rank`

        Returns
        -------
        TopK of shape (n, candidates), ndarray of float32 of shape (n, candidates, n_columns)
            Columns are named by ``feature_names_``; zeros where there is no candidate.

        Raises
        ------
        NotFittedError, DataError
        """
        self._need_fit("candidate_columns")
        X, _ = self._checked(X)
        tops = [self._member_top(number, X, {}) for number in self._asked_members]
        candidates = self._candidates(tops, resolve_jobs(self.n_jobs))
        return candidates, self._columns(self._column_maker(), candidates, tops, X)

    def explain(self, x: Any, label: int | str, top: int = 10, **options: Any) -> Explanation:
        """Why a label stands where it does: what each column adds to its score, and what the members say of it.

        Parameters
        ----------
        x : one row or text
        label : int or str
        top : int
            Most columns that are named, and as :meth:`XRLinear.explain` has it.
        **options
            Of the members' ``explain`` and ``rank``.

        Returns
        -------
        Explanation
            Its ``notes`` name the columns that raise and lower the label most: Shapley values, in log odds.

        Raises
        ------
        NotFittedError, DataError
        """
        result = super().explain(x, label, top, **options)
        rows = [x] if isinstance(x, str) else x
        candidates, columns = self.candidate_columns(rows)
        number = find_label(label, self.n_labels_, options.get("label_names") or self.vocabulary_)
        notes = candidate_notes(candidates, columns, number, self.scorer_, self.feature_names_, top)
        return replace(result, notes=(*notes, *result.notes))
