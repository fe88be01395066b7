"""What every estimator has: parameters, fit and rank, probabilities and indicators from rank, saving."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.errors import NotFittedError
from sylvan.params import Parameterized
from sylvan.topk import TopK

__all__ = ["Estimator"]

_Self = TypeVar("_Self", bound="Estimator")


class Estimator(Parameterized):
    """Base of all models; a concrete one sets ``n_features_`` and ``n_labels_`` in ``fit`` and is final."""

    n_features_: int
    n_labels_: int

    def fit(self: _Self, X: Any, Y: Any) -> _Self:
        """Learn from features X of shape (n, d) and labels Y of shape (n, L)."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no fit.")

    def rank(self, X: Any, k: int = 10) -> TopK:
        """The ``k`` best labels of each row of X."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no rank.")

    def to_state(self) -> store.State:
        """The fitted model as plain values and arrays."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no to_state.")

    def _is_fitted(self) -> bool:
        return "n_labels_" in self.__dict__

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask before they use an estimator; only they load scikit-learn."""
        from sklearn.utils import InputTags, Tags, TargetTags

        target = TargetTags(required=True, two_d_labels=True, multi_output=True)
        return Tags(estimator_type=None, target_tags=target, input_tags=InputTags(sparse=True))

    @property
    def n_features_in_(self) -> int:
        """scikit-learn's name for ``n_features_``."""
        return self.n_features_

    def _need_fit(self, action: str) -> None:
        if not self._is_fitted():
            name = type(self).__name__
            raise NotFittedError(f"This {name} is not fitted yet: call fit before {action}.")

    def predict_proba(self, X: Any, k: int = 100) -> sp.csr_matrix:
        """Scores in [0, 1] of the ``k`` best labels of each row.

        They order labels as :meth:`rank` does; that they are probabilities in the strict sense isn't claimed.

        Returns
        -------
        csr_matrix of float32, shape (n, n_labels_)
        """
        self._need_fit("predict_proba")
        top = self.rank(X, k=min(k, self.n_labels_) if isinstance(k, int) and k > 0 else k)
        return TopK(top.labels, self._probabilities(top)).to_csr(self.n_labels_)

    def _probabilities(self, top: TopK) -> Any:
        """The scores of ``top`` brought into [0, 1]."""
        return np.clip(top.scores, 0, 1)

    def predict(self, X: Any) -> sp.csr_matrix:
        """The labels whose :meth:`predict_proba` is at least one half, as a sparse indicator.

        Returns
        -------
        csr_matrix of int8, shape (n, n_labels_)
        """
        scores = self.predict_proba(X)
        scores.data = (scores.data >= 0.5).astype(np.int8)
        scores.eliminate_zeros()
        indicator: sp.csr_matrix = scores.astype(np.int8)
        return indicator

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model into ``folder``, whole or not at all; an older Sylvan model there is replaced.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        SylvanError
            When the folder can't be written or holds something else than a Sylvan model.
        """
        self._need_fit("save")
        store.save(folder, self.to_state())
