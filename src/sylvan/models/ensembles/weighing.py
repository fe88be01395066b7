"""What an ensemble learns from rows that its members haven't seen: their weights, and its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ParameterError
from sylvan.metrics.rows import hits
from sylvan.models.base import CANDIDATES
from sylvan.models.ensembles.answers import EnsembleAnswers
from sylvan.models.ensembles.members import known_labels
from sylvan.parallel import resolve_jobs
from sylvan.ranking.calibrate import Calibrator
from sylvan.ranking.ensemble import fit_weights

_Self = TypeVar("_Self", bound="EnsembleWeighing")


class EnsembleWeighing(EnsembleAnswers):
    """Base of Ensemble, with what is fitted to rows besides the members themselves."""

    calibration: str | None

    def _calibrated(
        self, tops: Sequence[TopK | None], Y: Any, weight: Any = None, rows: Any = slice(None)
    ) -> Calibrator | None:
        """By the members' answers to rows that they haven't seen, these rows' labels, and all rows' weights."""
        asked = self._asked_members
        known = {at: top for at in asked if (top := tops[at]) is not None}
        if self.calibration is None or len(known) < len(asked):
            return None
        top = self.bounded(self._combined(known, min(CANDIDATES, self.n_labels_), None))
        truth = known_labels(Y, len(top.labels), self.vocabulary_, self.n_labels_)
        return Calibrator.fit(self.calibration, top, hits(top, truth), None if weight is None else weight[rows])

    def fit_weights(self: _Self, X: Any, Y: Any) -> _Self:
        """Choose the members' weights on rows that none of them was trained on, and calibrate on them.

        A search from equal weights maximises the mean of P@1, P@3 and P@5; see
        :func:`sylvan.ranking.ensemble.fit_weights`.

        Parameters
        ----------
        X : sparse matrix or array of shape (n, n_features_), or n texts
        Y : their labels, as in ``fit``
            Labels that no member knows are ignored.

        Raises
        ------
        NotFittedError
            Before ``fit`` or ``of_fitted``.
        DataError
            When the arrays are malformed or hold no label that a member knows.
        """
        self._need_fit("fit_weights")
        tops, truth = self._asked(X, Y, "fit weights to")
        jobs = resolve_jobs(self.n_jobs)
        self.weights_ = fit_weights(tops, truth, how=self.how, votes=self.votes, places=self._places, n_jobs=jobs)
        self.calibrator_ = self._calibrated(tops, Y)
        return self

    def calibrate(self: _Self, X: Any, Y: Any) -> _Self:
        """Fit the curves of the probabilities to rows that no member was trained on; the weights stay.

        Parameters and errors as in :meth:`fit_weights`. With fewer than 30 right or 30 wrong answers ``calibrator_`` is
        None afterwards, and scores stay as they are.

        Raises
        ------
        ParameterError
            When ``calibration`` is None, which says that there is to be none.

        Examples
        --------
        >>> import numpy as np
        >>> from sylvan import Ensemble, NeighborRanker, XRLinear
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(300) % 4
        >>> X = (np.eye(4)[y] + rng.normal(0, 0.7, (300, 4))).astype(np.float32)
        >>> members = [XRLinear().fit(X[:150], y[:150]), NeighborRanker().fit(X[:150], y[:150])]
        >>> both = Ensemble.of_fitted(members).calibrate(X[150:], y[150:])
        >>> both.calibrator_ is not None
        True
        """
        self._need_fit("calibrate")
        if self.calibration is None:
            raise ParameterError("The 'calibration' parameter of Ensemble must name the curves. Got None instead.")
        tops, _ = self._asked(X, Y, "calibrate by")
        self.calibrator_ = self._calibrated(tops, Y)
        return self

    def _asked(self, X: Any, Y: Any, purpose: str) -> tuple[list[TopK], Csr]:
        """The members' answers to rows, and these rows' labels."""
        X, n_rows = self._checked(X)
        truth = known_labels(Y, n_rows, self.vocabulary_, self.n_labels_)
        if not len(truth.indices):
            raise DataError(f"Y holds no label that a member of the Ensemble knows: there is nothing to {purpose}.")
        return [self._member_top(number, X, {}) for number in range(len(self.members))], truth
