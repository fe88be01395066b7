"""What is told, and what is kept, of partitions that are learned in rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sylvan.indexing.buckets import Buckets
from sylvan.matching.bucket_network import BucketNetwork

__all__ = ["LearnedPartitions", "LearningRound", "RoundKeeper"]


@dataclass(frozen=True, eq=False)
class LearningRound:
    """What one round of learning did.

    Attributes
    ----------
    number : int
        0 for the training on the hashed partition; each later round begins with a re-partition.
    moved : ndarray of float64, shape (n_repetitions,)
        Share of labels that were assigned to another bucket.
    affinity_before, affinity_after : float
        Theorem 1's quantity before the re-partition and after the training that follows it: the mean probability that
        the networks give the bucket that a label is in, over labels and their inputs; see
        :func:`~sylvan.models.irli.affinity.expected_affinity`.
    load_deviation : ndarray of float64, shape (n_repetitions,)
        Standard deviation of the buckets' loads.
    loss : float
        Mean binary cross-entropy of a row and a repetition, summed over buckets, in the round's last epoch.
    seconds : float
    held_out : dict of str to float, optional
        What the judge said; its "score" decides which round is the best.
    """

    number: int
    moved: npt.NDArray[np.float64]
    affinity_before: float
    affinity_after: float
    load_deviation: npt.NDArray[np.float64]
    loss: float
    seconds: float
    held_out: dict[str, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LearningRound:
        """What :meth:`as_dict` gave."""
        lists = {name: np.array(values[name], np.float64) for name in ("moved", "load_deviation")}
        return cls(**{**values, **lists})


@dataclass(frozen=True, eq=False)
class LearnedPartitions:
    """What :func:`learn_partitions` learned.

    Attributes
    ----------
    buckets : Buckets
    network : BucketNetwork
    rounds : tuple of LearningRound
        All that were tried.
    best_round : int
        The number of the one that was kept.
    """

    buckets: Buckets
    network: BucketNetwork
    rounds: tuple[LearningRound, ...]
    best_round: int


class RoundKeeper(Protocol):
    """Where learning leaves what it can go on from after an interruption.

    A tree is nested dicts and lists of tensors, arrays and plain values, as :func:`sylvan.neural.save_tree` writes.
    """

    def load(self) -> dict[str, Any] | None:
        """The tree that was saved last; None where there is none."""

    def save(self, tree: dict[str, Any]) -> None:
        """Keep a tree instead of the one before; called at the end of each round."""
