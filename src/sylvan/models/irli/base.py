"""What every index of vectors has beside its search: what it is made of, its own settings, saving."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import NotFittedError
from sylvan.indexing.buckets import Buckets
from sylvan.matching.bucket_network import BucketNetwork
from sylvan.models.irli.bucketed_vectors import BucketedVectors
from sylvan.models.irli.settings import SearchSettings
from sylvan.models.irli.vector_space import Vectors, comparable
from sylvan.params import Parameterized

__all__ = ["IndexHabits"]

_SAMPLE = 1000  # queries that a setting or a report is measured on where none are given


class IndexHabits(Parameterized):
    """Base of indexes of vectors; a concrete one sets ``_held`` in ``fit`` and is final."""

    probes: int
    min_votes: int
    order: str
    candidates: int | None
    seed: int
    _held: BucketedVectors

    def to_state(self) -> store.State:
        """The index as plain values and arrays."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no to_state.")

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the index into ``folder``, whole or not at all; an older Sylvan model there is replaced.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        SylvanError
            When the folder can't be written or holds something else than a Sylvan model.
        """
        self._need_fit("save")
        store.save(folder, self.to_state())

    def _need_fit(self, action: str) -> None:
        if "_held" not in self.__dict__:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit before {action}.")

    def _vectors(self, vectors: Any, action: str, name: str) -> Vectors:
        self._need_fit(action)
        return comparable(vectors, self._held.metric, n_dimensions=self._held.base.shape[1], name=name)

    def _asked(self, queries: Any, action: str) -> tuple[Vectors, npt.NDArray[np.int32] | None]:
        """Queries, or a sample of the index's own vectors with their ids."""
        if queries is not None:
            return self._vectors(queries, action, "queries"), None
        ids = np.random.default_rng(self.seed).permutation(self._held.there)[:_SAMPLE]
        return self._held.base[ids], ids

    def _settings(self, owner: str, **other: Any) -> SearchSettings:
        """The index's own settings, in their range, with what is given instead, fitted to its buckets."""
        self.check_params(("probes", "min_votes", "order", "candidates"))
        own = SearchSettings(self.probes, self.min_votes, self.order, self.candidates)
        return own.but(owner, self._held.buckets, **other)

    @property
    def metric_(self) -> str:
        """What near means here; the parameter ``metric`` is for the next ``fit``."""
        self._need_fit("metric_")
        return self._held.metric

    @property
    def base_(self) -> Vectors:
        """The vectors: of unit length under the angular metric, zeros where one was removed."""
        self._need_fit("base_")
        return self._held.base

    @property
    def buckets_(self) -> Buckets:
        """Which bucket each vector is in, in every repetition."""
        self._need_fit("buckets_")
        return self._held.buckets

    @property
    def network_(self) -> BucketNetwork:
        """The networks of all repetitions."""
        self._need_fit("network_")
        return self._held.network

    @property
    def n_vectors_(self) -> int:
        """Vectors that a search can find; ids go beyond it where some were removed."""
        self._need_fit("n_vectors_")
        return int(self._held.buckets.members.shape[1])

    @property
    def n_dimensions_(self) -> int:
        """Width of a vector."""
        self._need_fit("n_dimensions_")
        return int(self._held.base.shape[1])
