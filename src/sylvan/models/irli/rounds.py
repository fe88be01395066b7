"""The rounds of a training: what each did, for reports and saved models, and what the next one goes on from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.errors import DataError, ModelError
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import Buckets
from sylvan.models.irli.candidates import Candidates, Order, find_candidates
from sylvan.parallel import split_ranges
from sylvan.runtime import Packing
from sylvan.runtime.jobs import Arrays

if TYPE_CHECKING:
    from sylvan.models.irli.training import State

# Gives measures of which "score" decides, larger being better.
Judge = Callable[[Buckets, BucketNetwork], dict[str, float]]
_ROWS = 256
_SHARES = (256, 128, 64, 32, 16)  # of all labels, how small a part the candidates are
_MOST_ROUNDS, _MOST_NUMBERS = 10_000, 1 << 20
_NUMBERS = ("affinity_before", "affinity_after", "loss", "seconds")
_LISTS = ("moved", "load_deviation")


@dataclass(frozen=True, eq=False)
class RecallJudge:
    """Scores by the recall of candidates, averaged over several numbers of them. Called with Buckets and a
    BucketNetwork, it gives "score", and "recall at N" for each number of candidates: a 256th of the labels, a 128th,
    and so on to a sixteenth."""

    X: Any  # shape (n, n_features)
    truths: sp.csr_matrix  # shape (n, n_labels): the right labels of each row
    probes: int | None = None  # buckets looked into in each repetition; a sixteenth of them, at least 10, by default
    order: Order = "probability"  # which candidates come first
    n_jobs: int = 1  # threads

    def __call__(self, buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        n, n_jobs = self.X.shape[0], self.n_jobs
        limits = sorted({max(buckets.n_labels // share, 1) for share in _SHARES})
        m = min(max(network.n_buckets // 16, 10) if self.probes is None else self.probes, network.n_buckets)
        sums = np.zeros(len(limits))
        for start, stop in split_ranges(n, _ROWS):
            chosen, probabilities = network.top(self.X[start:stop], m, n_jobs)
            candidates = find_candidates(
                buckets, chosen, probabilities, order=self.order, limit=limits[-1], n_jobs=n_jobs
            )
            sums += candidate_recall(candidates, self.truths[start:stop], limits).sum(axis=0)
        recalls = sums / max(n, 1)
        return {"score": float(recalls.mean())} | {
            f"recall at {limit}": float(recall) for limit, recall in zip(limits, recalls, strict=True)
        }


def candidate_recall(candidates: Candidates, truths: sp.csr_matrix, limits: list[int]) -> npt.NDArray[np.float64]:
    """Which share of its right labels each row has among its first candidates."""
    # Shape: truths (n, n_labels); returns (n, len(limits))
    n, n_labels = truths.shape
    rows = np.repeat(np.arange(n, dtype=np.int64), candidates.counts())
    places = np.arange(len(rows)) - np.repeat(candidates.offsets[:-1], candidates.counts())
    n_right = np.diff(truths.indptr)
    right_keys = np.repeat(np.arange(n, dtype=np.int64), n_right) * n_labels + truths.indices
    right = np.isin(rows * n_labels + candidates.labels, right_keys)
    recall = np.ones((n, len(limits)))
    for column, limit in enumerate(limits):
        hits = np.bincount(rows[right & (places < limit)], minlength=n)
        np.divide(hits, n_right, out=recall[:, column], where=n_right > 0)
    return recall


@dataclass(frozen=True)
class Round:
    """One round of a training."""

    number: int  # 0 for the training on the hashed partition; each later round begins with a re-partition
    moved: tuple[float, ...]  # share of the labels that went to another bucket, a repetition each
    # affinity_before, affinity_after: Theorem 1's quantity before the re-partition and after the training that follows
    # it: the mean probability that the networks give the bucket that a label is in, over labels and their inputs; NaN
    # where it wasn't measured. See `expected_affinity`
    affinity_before: float
    affinity_after: float
    load_deviation: tuple[float, ...]  # standard deviation of the buckets' loads, a repetition each
    loss: float  # mean binary cross-entropy of a row and a repetition, summed over buckets, in the round's last epoch
    seconds: float
    holdout: dict[str, float]  # what the judge measured on holdout rows; its "score" decides which round is the best

    @property
    def score(self) -> float:
        """What decides which round is the best: the judge's score; without a judge the last round is."""
        return self.holdout.get("score", float(self.number))


@dataclass(frozen=True)
class Rounds:
    """The rounds of a training, and the number of the best, whose partitions the model has."""

    rounds: tuple[Round, ...]
    best: int

    def as_json(self) -> dict[str, Any]:
        """Plain values for a saved model; None for numbers that JSON has no word for."""
        plain = []
        for one in self.rounds:
            entry: dict[str, Any] = {"number": one.number}
            entry.update({name: _finite(getattr(one, name)) for name in _NUMBERS})
            entry.update({name: [_finite(value) for value in getattr(one, name)] for name in _LISTS})
            entry["holdout"] = {name: _finite(value) for name, value in one.holdout.items()}
            plain.append(entry)
        return {"rounds": plain, "best_round": self.best}

    @classmethod
    def from_state(cls, state: store.State) -> Rounds:
        """From what :meth:`as_json` gave to a State, verified."""
        rounds = state.meta.get("rounds")
        best = store.need_int(state, "best_round", 0, _MOST_ROUNDS)
        try:
            if not isinstance(rounds, list) or len(rounds) > _MOST_ROUNDS:
                raise TypeError("it is no list")
            return cls(tuple(_read_round(entry) for entry in rounds), best)
        except (TypeError, KeyError, ValueError) as error:
            where = state.where or "The model"
            raise ModelError(
                f"{where!r} is damaged: 'rounds' of the {state.kind} is no record of a training."
            ) from error


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read_round(entry: Any) -> Round:
    if not isinstance(entry, dict) or not isinstance(entry["holdout"], dict):
        raise TypeError("a round is an object")
    number = entry["number"]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MOST_ROUNDS:
        raise ValueError("a round has a number")
    lists = {name: entry[name] for name in _LISTS}
    if any(not isinstance(values, list) or len(values) > _MOST_NUMBERS for values in lists.values()):
        raise TypeError("these are lists")
    return Round(
        number=number,
        holdout={str(name): _read_number(value) for name, value in entry["holdout"].items()},
        moved=tuple(_read_number(value) for value in lists["moved"]),
        load_deviation=tuple(_read_number(value) for value in lists["load_deviation"]),
        **{name: _read_number(entry[name]) for name in _NUMBERS},
    )


def _read_number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise ValueError("no number")
    return float(value)


@dataclass(frozen=True, eq=False)
class Partitions:
    """Labels in buckets, and the networks in training on these, group by group."""

    buckets: Buckets
    states: Sequence[State]


@dataclass(frozen=True, eq=False)
class Progress:
    """How far a training has come: what the next round goes on from, and the best round so far."""

    last: Partitions  # before the first round the hashed ones, with networks before any training
    affinity: float  # of the last
    best: Partitions  # of the best round
    rounds: tuple[Round, ...] = ()
    best_round: int = 0  # the number of the one with the highest score, the first of equals

    def after(self, one: Round, partitions: Partitions) -> Progress:
        """The progress once a round is made."""
        progress = replace(self, last=partitions, affinity=one.affinity_after, rounds=(*self.rounds, one))
        if not self.rounds or one.score > self.rounds[self.best_round].score:
            progress = replace(progress, best=partitions, best_round=one.number)
        return progress


def _pack_progress(progress: Progress) -> Arrays:
    rounds = json.dumps(Rounds(progress.rounds, progress.best_round).as_json()).encode()
    buckets = {"last": progress.last.buckets.assignment, "best": progress.best.buckets.assignment}
    n_buckets = np.array(progress.last.buckets.n_buckets)
    return {"rounds": np.frombuffer(rounds, np.uint8), **buckets, "n_buckets": n_buckets}


def _unpack_progress(arrays: Arrays) -> Progress:
    try:
        meta = json.loads(bytes(arrays["rounds"]))
        record = Rounds.from_state(store.State("progress", 1, meta=meta))
        n_buckets = int(arrays["n_buckets"])
        last, best = (Partitions(Buckets.from_assignment(arrays[name], n_buckets), ()) for name in ("last", "best"))
        return Progress(last, record.rounds[-1].affinity_after, best, record.rounds, record.best)
    except (KeyError, ValueError, IndexError, DataError) as error:
        raise ModelError(f"The stored progress of a training in rounds is damaged: {error}.") from error


# For a checkpoint; networks are stored as the results of the jobs that trained them.
PROGRESS: Packing[Progress] = Packing(_pack_progress, _unpack_progress)
