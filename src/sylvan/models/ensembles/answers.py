"""What an ensemble answers: its members' answers, joined and explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sylvan.arrays.topk import TopK
from sylvan.models.ensembles.joint import JointModel
from sylvan.models.ensembles.members import take
from sylvan.parallel import resolve_jobs
from sylvan.ranking.ensemble import Way, combine_rankings


class EnsembleAnswers(JointModel):
    """Base of Ensemble, once its members are trained."""

    how: Way
    votes: int

    @property
    def _asked_members(self) -> list[int]:
        asked: list[int] = np.flatnonzero(self.weights_ > 0).tolist()
        return asked

    def _combined(self, tops: Mapping[int, TopK], k: int, X: Any) -> TopK:
        return combine_rankings(
            list(tops.values()), self.weights_[list(tops)], k, how=self.how, votes=self.votes, places=self._places,
            n_jobs=resolve_jobs(self.n_jobs),
        )  # fmt: skip

    def _by_members_that_know(self, top: TopK, tops: Mapping[int, TopK], texts: list[str]) -> TopK:
        empty = np.any([given.labels[:, 0] < 0 for given in tops.values()], axis=0)
        rows = np.flatnonzero(empty & (top.labels[:, 0] >= 0))
        if not len(rows):
            return top
        some, weights = take(texts, rows.astype(np.int32)), self.weights_[list(tops)]
        members: list[Any] = [self.members[number] for number in tops]
        knows = np.array([member.known_texts(some) for member in members])
        share = weights @ knows / weights.sum()
        scores = top.scores.copy()
        scores[rows] /= np.where(share > 0, share, 1).astype(np.float32)[:, None]
        return TopK(top.labels, np.minimum(scores, 1))

    @property
    def _places(self) -> int:
        """Positions of a member's ranking."""
        return min(self.candidates, self.n_labels_)
