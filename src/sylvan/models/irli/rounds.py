"""A training in rounds: its settings, what each round did, who judges it, how far it has come, and the report of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.types import Array, Float32, Float64, Int64
from sylvan.errors import DataError, ModelError
from sylvan.metrics import figures
from sylvan.models.irli.bucket_network import BucketNetwork
from sylvan.models.irli.buckets import MOST_BUCKETS, MOST_REPETITIONS, Buckets, Candidates, find_candidates
from sylvan.parallel import split_ranges
from sylvan.params.fields import Parameterized, Range, Seed, parameterized
from sylvan.params.wording import counted as counted_words
from sylvan.runtime import Packing
from sylvan.runtime.jobs import Arrays

LAYERS = ("first", "first_bias", "second", "second_bias")
State = Mapping[str, Array]  # everything that the training of a group goes on from, and its loss
# Gives measures of which "score" decides, larger being better.
Judge = Callable[[Buckets, BucketNetwork], dict[str, float]]
_ROWS = 256
_SHARES = (256, 128, 64, 32, 16)  # of all labels, how small a part the candidates are
_MOST_ROUNDS, _MOST_NUMBERS = 10_000, 1 << 20

# The ranges of the settings, whose defaults each model chooses for itself.
NBucketsOrAuto = Annotated[int | Literal["auto"], Range(1, MOST_BUCKETS, word="auto")]
Repetitions = Annotated[int, Range(1, MOST_REPETITIONS)]
Hidden = Annotated[int, Range(1, 1 << 20)]
Choices = Annotated[int, Range(1, MOST_BUCKETS)]
NumberOfRounds = Annotated[int | Literal["auto"], Range(0, 1000, word="auto")]
Rate = Annotated[float, Range(0, open_low=True)]


@parameterized
class LearningSettings(Parameterized):
    """How partitions and their networks are learned."""

    n_buckets: Annotated[int, Range(1, MOST_BUCKETS)]  # the paper's B
    n_repetitions: Repetitions = 16  # the paper's R
    hidden: Hidden = 1024  # width of each network's hidden layer
    choices: Choices = 10  # buckets of most affinity from which the least loaded is chosen; the paper's K
    # re-partitions. "auto" goes on until the judge's score no longer rises or hardly a label moves. Where there is a
    # judge, the round of the best score counts, otherwise the last
    rounds: NumberOfRounds = "auto"
    epochs_per_round: Annotated[int, Range(1)] = 5  # of training after each re-partition
    # at last, on the best round's partitions, with a learning rate that falls to nothing
    final_epochs: Annotated[int, Range(0)] = 5
    learning_rate: Rate = 0.001  # of Adam
    row_learning_rate: Rate = 0.1  # of Adagrad, on the first layer of sparse inputs
    batch_size: Annotated[int, Range(1)] = 256
    dropout: Annotated[float, Range(0, 0.99)] = 0.0  # of hidden values, in training
    # soft capacity: buckets of less than so many times the mean load take the labels that like them best at once. With
    # 0, as in the paper, the least loaded is always chosen
    room: Annotated[float, Range(0, 1000)] = 0.0
    seed: Seed = 0

    def __post_init__(self) -> None:
        self.check_params()

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> LearningSettings:
        """Those of an estimator's parameters that are settings of learning."""
        return cls(**{name: params[name] for name in cls.parameter_names() if name in params})


@dataclass(frozen=True)
class InputScale:
    """What is taken from dense inputs, and what all inputs are multiplied with, before they reach a network. Networks
    learn best from numbers around 1, whatever the unit of the inputs. Both are folded into the first layer of a network
    once it is trained."""

    mean: Float32 | None  # (n_features,); None for sparse inputs, whose zeros must stay
    factor: float

    @classmethod
    def of(cls, X: Float32 | sp.csr_matrix) -> InputScale:
        """The scale that gives features (sparse: rows) a mean square of 1."""
        if sp.issparse(X):
            square = float(np.square(X.data, dtype=np.float64).sum()) / max(X.shape[0], 1)
            return cls(None, float(1 / np.sqrt(square)) if square > 0 else 1.0)
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        total = sum(float(np.square(X[i : i + 4096] - mean, dtype=np.float64).sum()) for i in range(0, len(X), 4096))
        return cls(mean, float(np.sqrt(X.size / total)) if total > 0 else 1.0)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What networks learn from, and how."""

    X: Any  # shape (n, n_features)
    truths: sp.csr_matrix  # shape (n, n_labels)
    settings: LearningSettings
    scale: InputScale
    weights: Float32 | None = None  # shape (n,): factor of each row's loss


@dataclass(frozen=True, eq=False)
class RecallJudge:
    """Scores by the recall of candidates, those of the highest probability in the best sixteenth of the buckets, or in
    10; averaged over several numbers of them. Called with Buckets and a BucketNetwork, it gives "score", and "recall at
    N" for each number of candidates: a 256th of the labels, a 128th, and so on to a sixteenth."""

    X: Any  # shape (n, n_features)
    truths: sp.csr_matrix  # shape (n, n_labels): the right labels of each row
    n_jobs: int = 1  # threads

    def __call__(self, buckets: Buckets, network: BucketNetwork) -> dict[str, float]:
        n, limits = self.X.shape[0], sorted({max(buckets.n_labels // share, 1) for share in _SHARES})
        m = min(max(network.n_buckets // 16, 10), network.n_buckets)
        sums = np.zeros(len(limits))
        for start, stop in split_ranges(n, _ROWS):
            probed = network.top(self.X[start:stop], m, self.n_jobs)
            candidates = find_candidates(buckets, *probed, order="probability", limit=limits[-1], n_jobs=self.n_jobs)
            sums += candidate_recall(candidates, self.truths[start:stop], limits).sum(axis=0)
        recalls = sums / max(n, 1)
        named = {f"recall at {limit}": float(recall) for limit, recall in zip(limits, recalls, strict=True)}
        return {"score": float(recalls.mean()), **named}


def candidate_recall(candidates: Candidates, truths: sp.csr_matrix, limits: list[int]) -> Float64:
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


# The fields of a round in a saved model but its number, and what holds their numbers.
_FIELDS: dict[str, type] = {
    "affinity_before": float, "affinity_after": float, "loss": float, "seconds": float, "moved": list,
    "load_deviation": list, "holdout": dict,
}  # fmt: skip


@dataclass(frozen=True)
class Rounds:
    """The rounds of a training, and the number of the best, whose partitions the model has."""

    rounds: tuple[Round, ...]
    best: int

    def as_json(self) -> dict[str, Any]:
        """Plain values for a saved model; None for numbers that JSON has no word for."""
        plain = [{name: _plain(getattr(record, name)) for name in ("number", *_FIELDS)} for record in self.rounds]
        return {"rounds": plain, "best_round": self.best}

    @classmethod
    def from_state(cls, state: store.State) -> Rounds:
        """From what :meth:`as_json` gave to a State, verified."""
        rounds = state.meta.get("rounds")
        best = store.need_int(state, "best_round", 0, _MOST_ROUNDS)
        try:
            if not isinstance(rounds, list) or len(rounds) > _MOST_ROUNDS:
                raise TypeError("it is no list")
            return cls(tuple(map(_read_round, rounds)), best)
        except (TypeError, KeyError, ValueError) as error:
            damaged = f"{state.where or 'The model'!r} is damaged"
            raise ModelError(f"{damaged}: 'rounds' of the {state.kind} is no record of a training.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(number) for name, number in value.items()}
    if isinstance(value, tuple):
        return [_plain(number) for number in value]
    return value if math.isfinite(value) else None


def _read_round(entry: Any) -> Round:
    if not isinstance(entry, dict) or type(entry["number"]) is not int or not 0 <= entry["number"] <= _MOST_ROUNDS:
        raise ValueError("a round is an object that has a number")
    return Round(number=entry["number"], **{name: _read(entry[name], kind) for name, kind in _FIELDS.items()})


def _read(value: Any, kind: type) -> Any:
    """A number, or a list or an object of numbers, that :func:`_plain` gave."""
    if kind is not float:
        if not isinstance(value, (list, dict)) or type(value) is not kind or len(value) > _MOST_NUMBERS:
            raise TypeError("no numbers")
        if isinstance(value, dict):
            return {name: _read(number, float) for name, number in value.items()}
        return tuple(_read(number, float) for number in value)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise ValueError("no number")
    return float(value)


def _unpack_state(arrays: Arrays) -> State:
    if not {*LAYERS, "epoch", "loss"} <= arrays.keys():
        raise ModelError(f"Networks in training are stored with their loss. Got {sorted(arrays)} instead.")
    return arrays


STATE: Packing[State] = Packing(dict, _unpack_state)


def network_of(states: Sequence[State], scale: InputScale) -> BucketNetwork:
    """The networks of all groups, copied, for inputs that aren't scaled."""
    first = [state["first"] * np.float32(scale.factor) for state in states]
    biases = [state["first_bias"] for state in states]
    if scale.mean is not None:
        biases = [bias - scale.mean @ layer for bias, layer in zip(biases, first, strict=True)]
    second, second_bias = (np.concatenate([state[name] for state in states]) for name in LAYERS[2:])
    return BucketNetwork(np.concatenate(first, axis=1), np.concatenate(biases), second, second_bias)


def row_sums_of(states: Sequence[State]) -> Float32 | None:
    """Adagrad's sums of squares of all groups, (n_features, n_repetitions), copied; None of dense inputs."""
    return np.concatenate([state["sums"] for state in states], axis=1) if "sums" in states[0] else None


def states_of(
    network: BucketNetwork, groups: Sequence[range], scale: InputScale, row_sums: Float32 | None
) -> list[State]:
    """What training goes on from once it is over, of each group: :func:`network_of` undone; Adam begins again."""
    states: list[State] = []
    for group in groups:
        columns = slice(group.start * network.hidden, group.stop * network.hidden)
        part, bias = network.first[:, columns], network.first_bias[columns]
        state = {
            "first": part / np.float32(scale.factor),
            "first_bias": bias if scale.mean is None else bias + scale.mean @ part,
            "second": network.second[group.start : group.stop],
            "second_bias": network.second_bias[group.start : group.stop],
            "epoch": np.array(0),
        }
        if scale.mean is None:
            sums = np.zeros((network.n_features, network.n_repetitions), np.float32) if row_sums is None else row_sums
            state["sums"] = sums[:, group.start : group.stop]
        states.append(state)
    return states


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

    def after(self, record: Round, partitions: Partitions) -> Progress:
        """The progress once a round is made."""
        is_best = not self.rounds or record.score > self.rounds[self.best_round].score
        best, number = (partitions, record.number) if is_best else (self.best, self.best_round)
        return Progress(partitions, record.affinity_after, best, (*self.rounds, record), number)


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


@dataclass(frozen=True, eq=False)
class BucketReport:
    """How balanced a model's buckets are, how its training went, and how many candidates its queries have."""

    n_labels: int  # labels, or vectors, that a query can find
    n_buckets: int
    n_repetitions: int
    # shape (n_repetitions,): standard deviation of the number of labels in a bucket; Table 3 of the paper
    load_deviation: Float64
    largest_load: Int64  # shape (n_repetitions,)
    # each with the share of labels that moved, and the affinity that Theorem 1 of the paper says grows
    rounds: tuple[Round, ...]
    best_round: int  # the number of the one whose partitions the model has
    candidates: Int64  # shape (n_queries,): candidates that the model's own settings leave a query
    counted: Int64  # shape (n_queries,): counters raised for them

    @classmethod
    def of(cls, buckets: Buckets, rounds: Rounds, candidates: Int64, counted: Int64) -> BucketReport:
        """From a model's parts, and what was counted of queries."""
        return cls(
            int(buckets.members.shape[1]), buckets.n_buckets, buckets.n_repetitions, buckets.load_deviation(),
            buckets.loads().max(axis=1), rounds.rounds, rounds.best, candidates, counted,
        )  # fmt: skip

    @property
    def mean_load(self) -> float:
        """Labels in a bucket, on average."""
        return self.n_labels / self.n_buckets

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "n_labels": self.n_labels, "n_buckets": self.n_buckets, "n_repetitions": self.n_repetitions,
            "mean_load": self.mean_load, "load_deviation": self.load_deviation.tolist(),
            "largest_load": self.largest_load.tolist(), **Rounds(self.rounds, self.best_round).as_json(),
            "candidates": _summary(self.candidates), "counted": _summary(self.counted),
        }  # fmt: skip

    def text(self) -> str:
        """The report as people read it."""
        low, high = (f"{value:.2f}" for value in (self.load_deviation.min(), self.load_deviation.max()))
        lines = [
            f"{self.n_labels:,} in {self.n_repetitions} x {counted_words(self.n_buckets, 'bucket')}, "
            f"{self.mean_load:,.1f} in each; standard deviation {low if low == high else f'{low} to {high}'}, at most "
            f"{int(self.largest_load.max(initial=0)):,}"
        ]
        if len(self.candidates):
            summary = _summary(self.candidates)
            lines.append(
                f"candidates of a query: {summary['mean']:,.0f} on average, {summary['median']:,.0f} in the middle, "
                f"{summary['p95']:,.0f} at most of 95 in 100; counters raised: {self.counted.mean():,.0f}"
            )
        if self.rounds:
            names = list(dict.fromkeys(name for record in self.rounds for name in record.holdout))
            head = f"{'round':>5}{'moved':>9}{'affinity':>20}{'deviation':>11}{'loss':>10}"
            lines.append(head + "".join(f"{name:>{max(10, len(name) + 2)}}" for name in names))
            lines.extend(self._line(record, names) for record in self.rounds)
        return "\n".join(lines)

    def _line(self, record: Round, names: Sequence[str]) -> str:
        moved = f"{100 * np.mean(record.moved):.1f} %" if record.moved else "-"
        affinity = f"{_shown(record.affinity_before)} -> {_shown(record.affinity_after)}"
        deviation = _shown(float(np.mean(record.load_deviation))) if record.load_deviation else "-"
        line = f"{record.number:>5}{moved:>9}{affinity:>20}{deviation:>11}{_shown(record.loss):>10}"
        line += "".join(f"{_shown(record.holdout.get(name, math.nan)):>{max(10, len(name) + 2)}}" for name in names)
        return line + ("  best" if record.number == self.best_round else "")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Draw the report into a PNG, SVG or PDF file."""
        name = os.fspath(path)
        figures.need_matplotlib()
        panels = (self._draw_loads, self._draw_candidates, self._draw_affinity, self._draw_moves)
        try:
            figures.draw_panels([name], "", panels, (9.6, 7.2), rows=2)
        except OSError as error:
            raise DataError(f"{name!r} can't be written ({error.strerror or error}).") from error

    def _draw_loads(self, axes: Any) -> None:
        axes.bar(np.arange(1, self.n_repetitions + 1), self.load_deviation, color=figures.BLUE)
        title = f"Load of a bucket (mean {self.mean_load:,.1f})"
        axes.set(xlabel="repetition", ylabel="standard deviation", title=title)
        figures.whole_numbers(axes)

    def _draw_candidates(self, axes: Any) -> None:
        if len(self.candidates):
            axes.hist(self.candidates, bins=min(40, 1 + int(np.sqrt(len(self.candidates)))), color=figures.GREEN)
        axes.set(xlabel="candidates", ylabel="queries", title="Candidates of a query")

    def _draw_affinity(self, axes: Any) -> None:
        numbers = [record.number for record in self.rounds]
        before, after = [record.affinity_before for record in self.rounds], [r.affinity_after for r in self.rounds]
        axes.plot(numbers, before, "o:", color=figures.GREY, label="before the move")
        axes.plot(numbers, after, "o-", color=figures.BLUE, label="trained after it")
        axes.set(xlabel="round", ylabel="mean probability", title="Affinity of a label's own bucket")
        figures.whole_numbers(axes)
        axes.legend(frameon=False)

    def _draw_moves(self, axes: Any) -> None:
        moves = [record for record in self.rounds if record.moved and record.number]
        numbers, moved = [record.number for record in moves], [100 * np.array(record.moved) for record in moves]
        axes.plot(numbers, [share.mean() for share in moved], "o-", color=figures.ORANGE)
        lowest, highest = [share.min() for share in moved], [share.max() for share in moved]
        axes.fill_between(numbers, lowest, highest, color=figures.ORANGE, alpha=0.2, linewidth=0)
        axes.set(xlabel="round", ylabel="percent of labels", title="New assignments", ylim=(0, 100))
        figures.whole_numbers(axes)


def _summary(counts: Int64) -> dict[str, float]:
    if not len(counts):
        return dict.fromkeys(("mean", "median", "p95"), math.nan)
    return {"mean": float(counts.mean()), "median": float(np.median(counts)), "p95": float(np.percentile(counts, 95))}


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
