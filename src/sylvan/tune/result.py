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
from typing import Any, NamedTuple

from sylvan.errors import DataError, ParameterError
from sylvan.explain.explanation import escape, page_head
from sylvan.metrics import figures
from sylvan.models.base import Estimator
from sylvan.params.wording import counted, shown_bytes, shown_time
from sylvan.runtime.memory import parse_bytes
from sylvan.tune.space import Setting, toml_of

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]+)\s*", re.IGNORECASE)
HEADER = ("trial", "score", "rows", "training", "size", "query", "state", "setting")


class Cost(NamedTuple):
    """What a trial takes and a limit may be on."""

    attribute: str  # of a trial
    limit: str
    words: str  # before its value
    words_of: Callable[[Any], str]
    axis: str  # of a figure
    unit: float  # of the axis


COSTS = (
    Cost("latency", "latency", "a single query takes", shown_time, "single query, ms", 1e3),
    Cost("n_bytes", "size", "it takes", shown_bytes, "saved model, MB", 1e-6),
    Cost("seconds", "train_time", "its training takes", shown_time, "training, s", 1.0),
)


def parse_seconds(value: Any, name: str) -> float:
    """A duration in seconds."""
    seconds = -1.0
    if isinstance(value, str):
        parts = _PART.findall(text := f"{value}s" if re.fullmatch(r"[\s0-9.]+", value) else value)
        if parts and not _PART.sub("", text) and all(unit.lower() in _UNITS for _, unit in parts):
            seconds = sum(float(amount) * _UNITS[unit.lower()] for amount, unit in parts)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < 1e9:
        raise ParameterError(
            f"The {name!r} parameter must be a number of seconds above 0, or text such as '10m', '1h30m', '90s' or "
            f"'1ms'. Got {value!r} instead."
        )
    return seconds


@dataclass(frozen=True)
class Limits:
    """What the tuned model must hold to; None where there is no limit."""

    latency: float | None = None  # most seconds of a single query, the median of some on this machine
    size: int | None = None  # most bytes of the saved model's folder
    train_time: float | None = None  # most seconds of the training on all rows

    @classmethod
    def of(cls, max_latency: Any = None, max_size: Any = None, max_train_time: Any = None) -> Limits:
        """The limits as a caller writes them: ``"1ms"``, ``"50MB"``, ``"5m"``."""
        latency = None if max_latency is None else parse_seconds(max_latency, "max_latency")
        size = None if max_size is None else parse_bytes(max_size, "max_size")
        return cls(latency, size, None if max_train_time is None else parse_seconds(max_train_time, "max_train_time"))


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
        member = self.members[0]
        return member.model, str(member.text.get("analyzer")), str(member.text.get("ngrams"))

    def excesses(self, limits: Limits) -> dict[str, float]:
        """How much it exceeds each limit, as a share of it; at most 0 where it's held. Unknown values hold."""
        pairs = ((cost.limit, getattr(self, cost.attribute), getattr(limits, cost.limit)) for cost in COSTS)
        return {name: value / limit - 1 for name, value, limit in pairs if limit is not None and value is not None}

    def broken(self, limits: Limits) -> list[str]:
        """A few words for each limit that isn't held."""
        over = ((cost, cost.words_of) for cost in COSTS if self.excesses(limits).get(cost.limit, 0) > 0)
        words = "{} {}, which is more than {}".format
        return [words(c.words, write(getattr(self, c.attribute)), write(getattr(limits, c.limit))) for c, write in over]

    def holds(self, limits: Limits) -> bool:
        """Whether it is within all limits, as far as is known."""
        return max(self.excesses(limits).values(), default=0.0) <= 0

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
    first: dict[tuple[str, ...], Trial] = {}
    for trial in trials:
        first.setdefault(trial.family, trial)
    return list(first.values())


def pareto_front(trials: Sequence[Trial]) -> list[Trial]:
    """The complete trials that no other beats: none is at least as good in score, latency, size and training time. Best
    score first."""
    complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]

    def costs(trial: Trial) -> list[float]:
        return [-(trial.score or 0.0), *(getattr(trial, cost.attribute) or 0.0 for cost in COSTS)]

    def beats(first: Trial, other: Trial) -> bool:
        no_worse = all(a <= b for a, b in zip(costs(first), costs(other), strict=True))
        return no_worse and (costs(first) != costs(other) or first.number < other.number)

    front = [trial for trial in complete if not any(beats(other, trial) for other in complete if other is not trial)]
    return sorted(front, key=lambda trial: (-(trial.score or 0.0), trial.number))


def cells_of(trial: Trial) -> tuple[str, ...]:
    """A trial as a row of a table, in words."""
    columns: tuple[tuple[Any, Callable[[Any], str]], ...] = (
        (trial.score, lambda score: f"{100 * score:.2f}"), (trial.n_rows or None, lambda n: f"{n:,}"),
        *((getattr(trial, cost.attribute), cost.words_of) for cost in (COSTS[2], COSTS[1], COSTS[0])),
    )  # fmt: skip
    cells = ("-" if value is None else written(value) for value, written in columns)
    return f"#{trial.number}", *cells, trial.state, trial.words() + (f" ({trial.note})" if trial.note else "")


def _paint(result: TuneResult, trials: Sequence[Trial], cost: Cost, axes: Any) -> None:
    """One panel: the score of trials against what they cost, the default (a square) and the best (a star) marked."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    points = [(cost.unit * getattr(each, cost.attribute), 100 * (each.score or 0.0), each.number) for each in trials]
    front: list[tuple[float, float]] = []
    for price, score, _ in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or score > front[-1][1]:
            front.append((price, score))
    axes.plot(*zip(*front, strict=True), color=figures.BLUE, linewidth=1, drawstyle="steps-post", label="Pareto front")
    axes.scatter([p[0] for p in points], [p[1] for p in points], s=14, color=figures.GREY, label="trials")
    for number, marker, size, name in ((0, "s", 36, "default"), (result.best.number, "*", 110, "best")):
        costs, scores = ([point[axis] for point in points if point[2] == number] for axis in (0, 1))
        axes.scatter(costs, scores, marker=marker, s=size, color=figures.ORANGE, label=name)
    if (most := getattr(result.limits, cost.limit)) is not None:
        axes.axvline(cost.unit * most, color=figures.ORANGE, linestyle=":", linewidth=1, label="limit")
    axes.set_xscale("log")
    for ticks, subs in (("major", (1,)), ("minor", (2, 5))):
        getattr(axes.xaxis, f"set_{ticks}_locator")(LogLocator(subs=subs))
        getattr(axes.xaxis, f"set_{ticks}_formatter")(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set(xlabel=cost.axis, ylabel=f"{result.metric}, percent")
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _page(result: TuneResult, picture: str) -> Iterator[str]:
    """The result of a tuning as a page: what was found, the figure, the Pareto front, all trials, the configuration."""
    yield page_head(f"Tuning for {result.metric}")
    yield f"<h1>Tuning for {escape(result.metric)}</h1>\n"
    for line in result.summary().splitlines():
        yield f"<p>{escape(line)}</p>\n"
    if picture:
        yield f'<div style="background: #fff; overflow-x: auto">{picture[picture.index("<svg") :]}</div>\n'
    yield "<h2>Pareto front</h2>\n<p class=soft>No other trial is at least as good in score, latency, size "
    yield "and training time at once.</p>\n"
    yield from _table(result.pareto(), result.best.number)
    yield "<h2>All trials</h2>\n"
    yield from _table(result.trials, result.best.number)
    toml = "\n".join(map(escape, result.to_toml().splitlines()))
    yield f"<h2>Configuration that trains this model without tuning</h2>\n<pre>{toml}</pre>\n</body>\n</html>\n"


def _table(trials: Sequence[Trial], best: int) -> Iterator[str]:
    head = "".join(f"<td class=soft>{name}</td>" for name in HEADER)
    yield f'<div style="overflow-x: auto"><table>\n<tr>{head}</tr>\n'
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
        fields = (("text-field", "text_fields_", ("text",)), ("labels-field", "labels_field_", "labels"))
        values = [(name, getattr(self.model, attribute, usual), usual) for name, attribute, usual in fields]
        options = {name: value for name, value, usual in values if value != usual}
        return toml_of(self.best.members, self.best.weights, options, self.pruned_to)

    def table(self, trials: Sequence[Trial] | None = None) -> str:
        """Trials, all by default, as lines of text; the final model's is marked."""
        rows = [HEADER, *(cells_of(trial) for trial in (self.trials if trials is None else trials))]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER) - 1)]
        lines = []
        for number, row in enumerate(rows):
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            mark = "*" if number and row[0] == f"#{self.best.number}" else " "
            lines.append(f"{mark} {'  '.join(cells)}  {row[-1]}".rstrip())
        return "\n".join(lines)

    def summary(self) -> str:
        """What was found, in a few sentences."""
        best, default = self.best, self.default
        score = f"{self.metric} {100 * (best.score or 0):.2f} on {self.n_holdout:,} holdout rows"
        if default is not None and default.score is not None and default.n_rows == best.n_rows:
            gain = 100 * ((best.score or 0) - default.score)
            between = ""
            if self.interval is not None:
                low, high = (100 * end for end in self.interval)
                between = f" (95% interval {low:+.2f} to {high:+.2f})"
            kind = "default" if self.limits.size is None else "default within the size"
            score += f", the {kind} {100 * default.score:.2f}: {gain:+.2f}{between}"
        final = (
            f"The final model: training {shown_time(best.seconds or 0)}, {shown_bytes(best.n_bytes or 0)}, "
            f"{shown_time(best.latency or 0)} a query. {counted(len(self.trials), 'trial')} in "
            f"{shown_time(self.seconds)}."
        )
        return "\n".join([f"Best: {best.words()}.", f"{score}.", final, *self.notes])

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
        drawings = ["pareto.svg", "pareto.png"]
        try:
            self.draw([place / name for name in drawings])
            picture = (place / drawings[0]).read_text("utf-8")
        except DataError:  # without matplotlib the tables say the same
            drawings, picture = [], ""
        (place / "report.html").write_text("".join(_page(self, picture)), "utf-8")
        return [*texts, "report.html", *drawings]

    def draw(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> None:
        """Draw every complete trial's score against its size, training time and latency, and the Pareto front of each.

        Parameters
        ----------
        paths : path or sequence of path
            ``.png``, ``.svg`` or ``.pdf`` files.

        Raises
        ------
        DataError
            When matplotlib isn't installed, or a name ends otherwise.
        """
        figures.need_matplotlib()
        complete = [trial for trial in self.trials if trial.state == "complete" and trial.score is not None]
        panels: list[Callable[[Any], None]] = []
        for cost in (*COSTS[1:], COSTS[0]):
            if measured := [trial for trial in complete if getattr(trial, cost.attribute) is not None]:
                panels.append(partial(_paint, self, measured, cost))
        title = f"{self.metric} on the holdout against what it costs"
        figures.draw_panels(paths, title, panels or [lambda axes: None])
