"""What an ensemble answers: its members' answers, joined and explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import validate
from sylvan.errors import ParameterError
from sylvan.explain.explanation import Explanation
from sylvan.explain.question import find_label
from sylvan.explain.records import Names, TreeVote
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.compress import Compressible
from sylvan.models.ensembles.explained import explain_texts
from sylvan.models.ensembles.members import (
    LabelIds,
    joint_counts,
    member_filters,
    numbered_votes,
    renumbered,
    taken,
)
from sylvan.models.text_estimator import check_texts, thresholds_by_name
from sylvan.parallel import resolve_jobs
from sylvan.ranking.ensemble import combine_rankings
from sylvan.topk import TopK
from sylvan.validate import Csr

__all__ = ["EnsembleAnswers"]


class EnsembleAnswers(Compressible):
    """Base of Ensemble, once its members are trained."""

    members: Sequence[Estimator]
    how: str
    candidates: int
    votes: int
    n_jobs: int | None
    weights_: npt.NDArray[np.float64]
    _ids: LabelIds

    @property
    def label_counts_(self) -> npt.NDArray[np.int64]:  # type: ignore[override]  # those of the members, as they are now
        """How many rows each label had in training: the most that a member has seen."""
        self._need_fit("label_counts_")
        return joint_counts(self.members, self._ids, self.n_labels_)[0]

    @property
    def n_rows_(self) -> int:  # type: ignore[override]
        """How many rows the members were trained on: the most that one has seen."""
        self._need_fit("n_rows_")
        return joint_counts(self.members, self._ids, self.n_labels_)[1]

    def rank(self, X: Any, k: int = 10, *, allowed: Any = None, denied: Any = None, **options: Any) -> TopK:
        """The ``k`` best labels of each row by all members together.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        k : int
            Number of labels per row; a row for which the members propose fewer ends in label -1.
        allowed, denied : label ids, names (over texts), or a mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all rows or for each row.
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
        self._need_fit("rank")
        k = validate.count(k, "k", high=max(self.n_labels_, MOST_ANSWERS))
        self._need_options(options)
        X, n_rows = self._checked(X)
        filters = member_filters(self._filter(allowed, denied, n_rows), self._ids)
        asked = np.flatnonzero(self.weights_ > 0).tolist()
        tops = [self._member_top(number, X, {**options, **filters(number)}) for number in asked]
        return self._named(self._combined(tops, asked, k))

    def _combined(self, tops: Sequence[TopK], asked: Sequence[int], k: int) -> TopK:
        """The answers of the members with these numbers as one."""
        # Votes count beside all members, those of weight 0 too: the formula is the one that weights were fitted for.
        return combine_rankings(
            tops, self.weights_[asked], k, how=self.how, votes=self.votes, places=self._places,
            n_jobs=resolve_jobs(self.n_jobs), n_rankings=len(self.members),
        )  # fmt: skip

    def _need_options(self, options: Mapping[str, Any]) -> None:
        if unknown := [name for name in options if name not in self.rank_options()]:
            raise ParameterError(f"No member of the Ensemble has an option {unknown[0]!r} of rank.")

    @property
    def _places(self) -> int:
        """Positions of a member's ranking."""
        return min(self.candidates, self.n_labels_)

    def rank_options(self) -> list[str]:
        return list(dict.fromkeys(sum((member.rank_options() for member in self.members), super().rank_options())))

    def _checked(self, X: Any) -> tuple[Any, int]:
        """Rows as the members take them, and their number."""
        if self.takes_texts:
            return (X := check_texts(X)), len(X)
        X = self._features(X)
        return X, X.shape[0]

    def _member_top(self, number: int, X: Any, options: Mapping[str, Any]) -> TopK:
        """A member's candidates with their probabilities, in the ensemble's label ids."""
        member = self.members[number]
        top = member.rank_plainly(X, min(self.candidates, member.n_labels_), **taken(member, options))
        return renumbered(member.probabilities(top), self._ids[number])

    def probabilities(self, top: TopK) -> TopK:
        """The result of :meth:`rank` with probabilities instead of scores, as in :meth:`predict_proba`."""
        return self._named(super().probabilities(top))

    def _thresholds(self, threshold: Any) -> Any:
        return threshold if self.vocabulary_ is None else thresholds_by_name(threshold, self.vocabulary_)

    def explain(self, x: Any, label: int | str, top: int = 10, **options: Any) -> Explanation:
        """Why the members give ``label`` to a row or a text: the trees of all members.

        Parameters, result and errors as in :meth:`XRLinear.explain`, or over texts as in :meth:`TextModel.explain`.
        """
        self._need_fit("explain")
        if not self.takes_texts:
            return super().explain(x, label, top, **options)
        texts = check_texts([x] if isinstance(x, str) else x)
        number = find_label(label, self.n_labels_, self.vocabulary_)
        return explain_texts(self, texts, number, top, options)

    def _explain_trees(self, row: Csr, label: int, top: int, names: Names, **options: Any) -> tuple[TreeVote, ...]:
        asked = [self.members[at] for at in np.flatnonzero(self.weights_ > 0).tolist()]
        votes = [member._explain_trees(row, label, top, names, **taken(member, options)) for member in asked]
        return numbered_votes(votes)
