"""The report of a model with learned buckets: balance, training, candidates, as data, text and a picture."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError
from sylvan.metrics import figures
from sylvan.models.irli.buckets import Buckets
from sylvan.models.irli.rounds import Round, Rounds
from sylvan.params.wording import counted


@dataclass(frozen=True, eq=False)
class BucketReport:
    """How balanced a model's buckets are, how its training went, and how many candidates its queries have."""

    n_labels: int  # labels, or vectors, that a query can find
    n_buckets: int
    n_repetitions: int
    # shape (n_repetitions,): standard deviation of the number of labels in a bucket; Table 3 of the paper
    load_deviation: npt.NDArray[np.float64]
    largest_load: npt.NDArray[np.int64]  # shape (n_repetitions,)
    # each with the share of labels that moved, and the affinity that Theorem 1 of the paper says grows
    rounds: tuple[Round, ...]
    best_round: int  # the number of the one whose partitions the model has
    candidates: npt.NDArray[np.int64]  # shape (n_queries,): candidates that the model's own settings leave a query
    counted: npt.NDArray[np.int64]  # shape (n_queries,): counters raised for them

    @classmethod
    def of(
        cls,
        buckets: Buckets,
        rounds: Rounds,
        candidates: npt.NDArray[np.int64],
        counted: npt.NDArray[np.int64],
    ) -> BucketReport:
        """From a model's parts, and what was counted of queries."""
        return cls(
            int(buckets.members.shape[1]),
            buckets.n_buckets,
            buckets.n_repetitions,
            np.asarray(buckets.load_deviation(), np.float64),
            buckets.loads().max(axis=1),
            rounds.rounds,
            rounds.best,
            candidates,
            counted,
        )

    @property
    def mean_load(self) -> float:
        """Labels in a bucket, on average."""
        return self.n_labels / self.n_buckets

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "n_labels": self.n_labels,
            "n_buckets": self.n_buckets,
            "n_repetitions": self.n_repetitions,
            "mean_load": self.mean_load,
            "load_deviation": self.load_deviation.tolist(),
            "largest_load": self.largest_load.tolist(),
            **Rounds(self.rounds, self.best_round).as_json(),
            "candidates": _summary(self.candidates),
            "counted": _summary(self.counted),
        }

    def text(self) -> str:
        """The report as people read it."""
        lines = [
            f"{self.n_labels:,} in {self.n_repetitions} x {counted(self.n_buckets, 'bucket')}, {self.mean_load:,.1f} "
            f"in each; standard deviation {_spread(self.load_deviation)}, at most "
            f"{int(self.largest_load.max(initial=0)):,}"
        ]
        if len(self.candidates):
            summary = _summary(self.candidates)
            lines.append(
                f"candidates of a query: {summary['mean']:,.0f} on average, {summary['median']:,.0f} in the middle, "
                f"{summary['p95']:,.0f} at most of 95 in 100; counters raised: {self.counted.mean():,.0f}"
            )
        if self.rounds:
            names = list(dict.fromkeys(name for one in self.rounds for name in one.holdout))
            head = f"{'round':>5}{'moved':>9}{'affinity':>20}{'deviation':>11}{'loss':>10}"
            lines.append(head + "".join(f"{name:>{max(10, len(name) + 2)}}" for name in names))
            lines.extend(self._line(one, names) for one in self.rounds)
        return "\n".join(lines)

    def _line(self, one: Round, names: Sequence[str]) -> str:
        moved = f"{100 * np.mean(one.moved):.1f} %" if one.moved else "-"
        affinity = f"{_shown(one.affinity_before)} -> {_shown(one.affinity_after)}"
        deviation = _shown(float(np.mean(one.load_deviation))) if one.load_deviation else "-"
        line = f"{one.number:>5}{moved:>9}{affinity:>20}{deviation:>11}{_shown(one.loss):>10}"
        line += "".join(f"{_shown(one.holdout.get(name, math.nan)):>{max(10, len(name) + 2)}}" for name in names)
        return line + ("  best" if one.number == self.best_round else "")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Draw the report into a PNG, SVG or PDF file."""
        name = os.fspath(path)
        if not figures.can_draw(name):
            raise DataError(f"A report is drawn into a {figures.FORMATS} file, not {name!r}.")
        figures.need_matplotlib()
        paints = (self._draw_loads, self._draw_candidates, self._draw_affinity, self._draw_moves)
        try:
            figures.draw_panels([name], "", paints, (9.6, 7.2), rows=2)
        except OSError as error:
            raise DataError(f"{name!r} can't be written ({error.strerror or error}).") from error

    def _draw_loads(self, axes: Any) -> None:
        axes.bar(np.arange(1, self.n_repetitions + 1), self.load_deviation, color=figures.BLUE)
        axes.set(
            xlabel="repetition", ylabel="standard deviation", title=f"Load of a bucket (mean {self.mean_load:,.1f})"
        )
        figures.whole_numbers(axes)

    def _draw_candidates(self, axes: Any) -> None:
        if len(self.candidates):
            axes.hist(self.candidates, bins=min(40, 1 + int(np.sqrt(len(self.candidates)))), color=figures.GREEN)
        axes.set(xlabel="candidates", ylabel="queries", title="Candidates of a query")

    def _draw_affinity(self, axes: Any) -> None:
        at = [one.number for one in self.rounds]
        axes.plot(at, [one.affinity_before for one in self.rounds], "o:", color=figures.GREY, label="before the move")
        axes.plot(at, [one.affinity_after for one in self.rounds], "o-", color=figures.BLUE, label="trained after it")
        axes.set(xlabel="round", ylabel="mean probability", title="Affinity of a label's own bucket")
        figures.whole_numbers(axes)
        axes.legend(frameon=False)

    def _draw_moves(self, axes: Any) -> None:
        moves = [one for one in self.rounds if one.moved and one.number]
        at = [one.number for one in moves]
        axes.plot(at, [100 * np.mean(one.moved) for one in moves], "o-", color=figures.ORANGE)
        axes.fill_between(
            at,
            [100 * min(one.moved) for one in moves],
            [100 * max(one.moved) for one in moves],
            color=figures.ORANGE,
            alpha=0.2,
            linewidth=0,
        )
        axes.set(xlabel="round", ylabel="percent of labels", title="New assignments", ylim=(0, 100))
        figures.whole_numbers(axes)


def _summary(counts: npt.NDArray[np.int64]) -> dict[str, float]:
    if not len(counts):
        return {"mean": math.nan, "median": math.nan, "p95": math.nan}
    return {
        "mean": float(counts.mean()),
        "median": float(np.median(counts)),
        "p95": float(np.percentile(counts, 95)),
    }


def _spread(values: npt.NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
