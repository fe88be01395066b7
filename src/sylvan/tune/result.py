"""What a tuning gives: the model, its setting, the trials, and how sure the choice is."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sylvan.errors import DataError, ParameterError
from sylvan.explain.explanation import escape, page_head
from sylvan.metrics.figures import BLUE, GREY, ORANGE, draw_panels, need_matplotlib
from sylvan.models.base import Estimator
from sylvan.params.wording import counted
from sylvan.runtime.memory import parse_bytes, shown_bytes
from sylvan.runtime.plan import shown_seconds
from sylvan.tune.setting import Setting, toml_of

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]+)\s*", re.IGNORECASE)
HEADER = ("trial", "score", "rows", "training", "size", "query", "state", "setting")
# What a panel's x-axis is: a trial's attribute, its name, unit and the limit on it.
_AXES = (
    ("n_bytes", "saved model, MB", 1e-6, "size"), ("seconds", "training, s", 1.0, "train_time"),
    ("latency", "single query, ms", 1e3, "latency"),
)  # fmt: skip


def parse_seconds(value: Any, name: str) -> float:
    """A duration in seconds."""
    seconds = -1.0
    if isinstance(value, str):
        parts = _PART.findall(value)
        if parts and not _PART.sub("", value) and all(unit.lower() in _UNITS for _, unit in parts):
            seconds = sum(float(amount) * _UNITS[unit.lower()] for amount, unit in parts)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < 1e9:
        raise ParameterError(
            f"The {name!r} parameter must be a number of seconds above 0, or text such as '10m', '1h30m', '90s' or "
            f"'1ms'. Got {value!r} instead."
        )
    return seconds


def shown_time(seconds: float) -> str:
    """A time as sentences show it, short ones too: ``"0.8 ms"``, ``"4.2 s"``."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.1 else shown_seconds(seconds)


@dataclass(frozen=True)
class Limits:
    """What the tuned model must hold to; None where there is no limit."""

    latency: float | None = None  # most seconds of a single query, the median of some on this machine
    size: int | None = None  # most bytes of the saved model's folder
    train_time: float | None = None  # most seconds of the training on all rows

    @classmethod
    def of(cls, max_latency: Any = None, max_size: Any = None, max_train_time: Any = None) -> Limits:
        """The limits as a caller writes them: ``"1ms"``, ``"50MB"``, ``"5m"``."""
        return cls(
            None if max_latency is None else parse_seconds(max_latency, "max_latency"),
            None if max_size is None else parse_bytes(max_size, "max_size"),
            None if max_train_time is None else parse_seconds(max_train_time, "max_train_time"),
        )

    def excesses(self, latency: float | None, size: float | None, train_time: float | None) -> dict[str, float]:
        """How much each limit is exceeded, as a share of it; at most 0 where it's held. Unknown values hold."""
        pairs = {"latency": (latency, self.latency), "size": (size, self.size),
                 "train_time": (train_time, self.train_time)}  # fmt: skip
        return {
            name: value / limit - 1 for name, (value, limit) in pairs.items() if value is not None and limit is not None
        }

    def broken(self, latency: float | None, size: float | None, train_time: float | None) -> list[str]:
        """A few words for each limit that isn't held."""
        shown: dict[str, Callable[[Any], str]] = {"latency": shown_time, "size": shown_bytes, "train_time": shown_time}
        words = {"latency": "a single query takes", "size": "it takes", "train_time": "its training takes"}
        values = {"latency": latency, "size": size, "train_time": train_time}
        return [
            f"{words[name]} {shown[name](values[name])}, which is more than {shown[name](getattr(self, name))}"
            for name, excess in self.excesses(latency, size, train_time).items()
            if excess > 0
        ]


@dataclass
class Budget:
    """The time that a tuning may take, the final training included; without end where ``seconds`` is None."""

    seconds: float | None = None
    clock: Callable[[], float] = time.perf_counter
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.clock()

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.start

    @property
    def remaining(self) -> float:
        """Seconds that are left; infinity without a budget."""
        return float("inf") if self.seconds is None else self.seconds - self.spent


@dataclass(frozen=True)
class Trial:
    """A setting, or an ensemble of several, and what was measured of it."""

    number: int  # 0 for the default model; ensembles follow after all others
    members: tuple[Setting, ...]  # one, or those of an ensemble
    weights: tuple[float, ...] = (1.0,)  # of the members
    # "complete" if it was measured with all training rows, "pruned" if it wasn't good enough for that, "skipped" if it
    # couldn't fit, "failed" if its training failed
    state: str = "complete"
    score: float | None = None  # the metric over the holdout, after training on `n_rows` rows
    n_rows: int = 0
    seconds: float | None = None  # of the training on all rows
    n_bytes: int | None = None  # of the saved model
    latency: float | None = None  # seconds of a single query
    note: str = ""  # why it was skipped or failed
    of_trials: tuple[int, ...] = field(default=())

    def words(self) -> str:
        """The setting in a few words."""
        if len(self.members) == 1:
            return self.members[0].words()
        parts = (f"{weight:.2f} of #{number}" for weight, number in zip(self.weights, self.of_trials, strict=True))
        return f"ensemble: {', '.join(parts)}"

    @property
    def family(self) -> tuple[str, ...]:
        """The model and what its terms are made of: settings of different families make the better ensembles."""
        one = self.members[0]
        return one.model, str(one.text.get("analyzer")), str(one.text.get("ngrams"))

    def excesses(self, limits: Limits) -> dict[str, float]:
        """By how much it exceeds each limit."""
        return limits.excesses(self.latency, self.n_bytes, self.seconds)

    def holds(self, limits: Limits) -> bool:
        """Whether it is within all limits, as far as is known."""
        return all(excess <= 0 for excess in self.excesses(limits).values())

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Trial:
        """What :meth:`as_json` gave."""
        trial = cls(**{**values, "members": tuple(Setting(**member) for member in values["members"])})
        return replace(trial, weights=tuple(trial.weights), of_trials=tuple(trial.of_trials))


def leaders(trials: Sequence[Trial]) -> list[Trial]:
    """The first trial of each family, in the order of these, each of one setting."""
    found: dict[tuple[str, ...], Trial] = {}
    for trial in trials:
        found.setdefault(trial.family, trial)
    return list(found.values())


def pareto_front(trials: Sequence[Trial]) -> list[Trial]:
    """The complete trials that no other beats: none is at least as good in score, latency, size and training time. Best
    score first."""
    complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]

    def costs(trial: Trial) -> list[float]:
        return [-(trial.score or 0.0), trial.latency or 0.0, trial.n_bytes or 0.0, trial.seconds or 0.0]

    def beats(one: Trial, other: Trial) -> bool:
        pairs = list(zip(costs(one), costs(other), strict=True))
        return all(a <= b for a, b in pairs) and (any(a < b for a, b in pairs) or one.number < other.number)

    front = [trial for trial in complete if not any(beats(other, trial) for other in complete if other is not trial)]
    return sorted(front, key=lambda trial: (-(trial.score or 0.0), trial.number))


def cells_of(trial: Trial) -> tuple[str, ...]:
    """A trial as a row of a table, in words."""
    return (
        f"#{trial.number}",
        "-" if trial.score is None else f"{100 * trial.score:.2f}",
        f"{trial.n_rows:,}" if trial.n_rows else "-",
        "-" if trial.seconds is None else shown_time(trial.seconds),
        "-" if trial.n_bytes is None else shown_bytes(trial.n_bytes),
        "-" if trial.latency is None else shown_time(trial.latency),
        trial.state,
        trial.words() + (f" ({trial.note})" if trial.note else ""),
    )


def draw_front(
    paths: Sequence[str | os.PathLike[str]], trials: Sequence[Trial], best: int, metric: str, limits: Limits
) -> None:
    """Draw the complete trials into each of ``paths``, with the default (a square) and the best (a star) marked."""
    need_matplotlib()
    complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]
    panels: list[Callable[[Any], None]] = [
        partial(_paint, complete, best, attribute, label, unit, getattr(limits, limit), metric)
        for attribute, label, unit, limit in _AXES
        if any(getattr(trial, attribute) is not None for trial in complete)
    ]
    draw_panels(paths, f"{metric} on the holdout against what it costs", panels or [lambda axes: None])


def _paint(
    trials: Sequence[Trial], best: int, attribute: str, label: str, unit: float, limit: float | None, metric: str,
    axes: Any,
) -> None:  # fmt: skip
    from matplotlib.ticker import FuncFormatter, LogLocator

    points = [
        (unit * getattr(trial, attribute), 100 * (trial.score or 0.0), trial.number)
        for trial in trials
        if getattr(trial, attribute) is not None
    ]
    front: list[tuple[float, float]] = []
    for cost, score, _ in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or score > front[-1][1]:
            front.append((cost, score))
    axes.plot(*zip(*front, strict=True), color=BLUE, linewidth=1, drawstyle="steps-post", label="Pareto front")
    axes.scatter([p[0] for p in points], [p[1] for p in points], s=14, color=GREY, label="trials")
    for number, marker, size, name in ((0, "s", 36, "default"), (best, "*", 110, "best")):
        here = [point for point in points if point[2] == number]
        axes.scatter([p[0] for p in here], [p[1] for p in here], marker=marker, s=size, color=ORANGE, label=name)
    if limit is not None:
        axes.axvline(unit * limit, color=ORANGE, linestyle=":", linewidth=1, label="limit")
    axes.set_xscale("log")
    for which in ("major", "minor"):
        places = LogLocator(subs=(1,) if which == "major" else (2, 5))
        getattr(axes.xaxis, f"set_{which}_locator")(places)
        getattr(axes.xaxis, f"set_{which}_formatter")(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set(xlabel=label, ylabel=f"{metric}, percent")
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def tuning_page(result: Any, picture: str = "") -> str:
    """The result of a tuning as a page: what was found, the figure, the Pareto front, all trials, the configuration."""
    return "".join(_parts(result, picture))


def _parts(result: Any, picture: str) -> Iterator[str]:
    yield page_head(f"Tuning for {result.metric}")
    yield f"<h1>Tuning for {escape(result.metric)}</h1>\n"
    for line in result.summary().splitlines():
        yield f"<p>{escape(line)}</p>\n"
    if picture:
        drawn = picture[picture.index("<svg") :]
        yield f'<div style="background: #fff; overflow-x: auto">{drawn}</div>\n'
    yield "<h2>Pareto front</h2>\n<p class=soft>No other trial is at least as good in score, latency, size "
    yield "and training time at once.</p>\n"
    yield from _table(result.pareto(), result.best.number)
    yield "<h2>All trials</h2>\n"
    yield from _table(result.trials, result.best.number)
    yield f"<h2>Configuration that trains this model without tuning</h2>\n<pre>{escape_lines(result.to_toml())}</pre>\n"
    yield "</body>\n</html>\n"


def escape_lines(text: str) -> str:
    """Several lines as they may stand in the page."""
    return "\n".join(escape(line) for line in text.splitlines())


def _table(trials: Sequence[Trial], best: int) -> Iterator[str]:
    yield '<div style="overflow-x: auto"><table>\n<tr>'
    yield "".join(f"<td class=soft>{name}</td>" for name in HEADER)
    yield "</tr>\n"
    for trial in trials:
        style = ' style="font-weight: bold"' if trial.number == best else ""
        yield f"<tr{style}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells_of(trial))}</tr>\n"
    yield "</table></div>\n"


@dataclass(frozen=True)
class TuneResult:
    """The best model within a budget and limits, and how it was found.

    Attributes
    ----------
    model : Estimator
        Trained on all rows.
    best : Trial
        Its setting and its score on the holdout; time, size and latency are those of ``model``.
    trials : tuple of Trial
        All that were tried, the default model first.
    metric : str
    limits : Limits
    interval : (float, float) or None
        95% bootstrap interval of the best's score minus the default's, over holdouts of the same kind; the default is
        pruned to ``limits.size`` as all trials are. None where one of them wasn't measured with all training rows.
    n_holdout : int
        Number of holdout rows.
    seconds : float
        Of the whole tuning.
    pruned_to : int or None
        The bytes that the final model was compressed to, as :meth:`sylvan.XRLinear.compress` does, to hold to a size.
    notes : tuple of str
        What else there is to know.
    """

    model: Estimator = field(repr=False)
    best: Trial
    trials: tuple[Trial, ...] = field(repr=False)
    metric: str
    limits: Limits
    interval: tuple[float, float] | None
    n_holdout: int
    seconds: float
    pruned_to: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def default(self) -> Trial | None:
        """The trial of the default model."""
        return next((trial for trial in self.trials if trial.number == 0), None)

    def pareto(self) -> list[Trial]:
        """The trials that no other beats in score, latency, size and training time at once; best score first."""
        return pareto_front(self.trials)

    def to_toml(self) -> str:
        """A configuration file that trains the same model with ``sylvan train``, without tuning."""
        options = {}
        for name, attribute, usual in (("text-field", "text_fields_", ("text",)),
                                       ("labels-field", "labels_field_", "labels")):  # fmt: skip
            if (value := getattr(self.model, attribute, usual)) != usual:
                options[name] = value
        return toml_of(self.best.members, self.best.weights, options, self.pruned_to)

    def table(self, trials: Sequence[Trial] | None = None) -> str:
        """Trials, all by default, as lines of text; the final model's is marked."""
        rows = [HEADER, *(cells_of(trial) for trial in (self.trials if trials is None else trials))]
        widths = [max(len(row[at]) for row in rows) for at in range(len(HEADER) - 1)]
        lines = []
        for number, row in enumerate(rows):
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            mark = "*" if number and row[0] == f"#{self.best.number}" else " "
            lines.append(f"{mark} {'  '.join(cells)}  {row[-1]}".rstrip())
        return "\n".join(lines)

    def summary(self) -> str:
        """What was found, in a few sentences."""
        best = self.best
        lines = [f"Best: {best.words()}."]
        default = self.default
        score = f"{self.metric} {100 * (best.score or 0):.2f} on {self.n_holdout:,} holdout rows"
        if default is not None and default.score is not None and default.n_rows == best.n_rows:
            gain = 100 * ((best.score or 0) - default.score)
            between = ""
            if self.interval is not None:
                low, high = (100 * end for end in self.interval)
                between = f" (95% interval {low:+.2f} to {high:+.2f})"
            kind = "default" if self.limits.size is None else "default within the size"
            score += f", the {kind} {100 * default.score:.2f}: {gain:+.2f}{between}"
        lines.append(f"{score}.")
        trials = counted(len(self.trials), "trial")
        lines.append(
            f"The final model: training {shown_time(best.seconds or 0)}, {shown_bytes(best.n_bytes or 0)}, "
            f"{shown_time(best.latency or 0)} a query. {trials} in {shown_time(self.seconds)}."
        )
        return "\n".join([*lines, *self.notes])

    def as_json(self) -> dict[str, Any]:
        """Everything but the model as plain values."""
        return {
            "metric": self.metric, "best": self.best.as_json(), "interval": self.interval, "holdout": self.n_holdout,
            "seconds": self.seconds, "limits": vars(self.limits), "notes": list(self.notes),
            "pareto": [trial.number for trial in self.pareto()],
            "trials": [trial.as_json() for trial in self.trials],
        }  # fmt: skip

    def save_report(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the configuration, the trials and figures of the Pareto front into a folder.

        ``tuned.toml``, ``trials.txt``, ``trials.json`` and ``report.html``; ``pareto.svg`` and ``pareto.png`` where
        matplotlib is installed.

        Returns
        -------
        list of str
            The names of the files.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        texts = {
            "tuned.toml": self.to_toml(),
            "trials.txt": f"{self.summary()}\n\n{self.table()}\n\nPareto front:\n{self.table(self.pareto())}\n",
            "trials.json": json.dumps(self.as_json(), indent=2) + "\n",
        }
        for name, text in texts.items():
            (place / name).write_text(text, "utf-8")
        figures = ["pareto.svg", "pareto.png"]
        try:
            self.draw([place / name for name in figures])
            picture = (place / figures[0]).read_text("utf-8")
        except DataError:  # without matplotlib the tables say the same
            figures, picture = [], ""
        (place / "report.html").write_text(tuning_page(self, picture), "utf-8")
        return [*texts, "report.html", *figures]

    def draw(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        """Draw every complete trial's score against its size, training time and latency, and the Pareto front of each.

        Parameters
        ----------
        paths : sequence of path
            ``.png``, ``.svg`` or ``.pdf`` files.

        Raises
        ------
        DataError
            When matplotlib isn't installed.
        """
        draw_front(paths, self.trials, self.best.number, self.metric, self.limits)
