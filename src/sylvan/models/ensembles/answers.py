"""What an ensemble answers: its members' answers, joined and explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sylvan.models.ensembles.joint import JointModel
from sylvan.parallel import resolve_jobs
from sylvan.ranking.ensemble import combine_rankings
from sylvan.topk import TopK

__all__ = ["EnsembleAnswers"]


class EnsembleAnswers(JointModel):
    """Base of Ensemble, once its members are trained."""

    how: str
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

    @property
    def _places(self) -> int:
        """Positions of a member's ranking."""
        return min(self.candidates, self.n_labels_)
