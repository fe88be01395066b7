"""What a tuning gives: the model, its setting, the trials, and how sure the choice is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sylvan.errors import DataError
from sylvan.explain.page import escape, page_head
from sylvan.metrics.figures import BLUE, GREY, ORANGE, draw_panels, need_matplotlib
from sylvan.models.base import Estimator
from sylvan.params.wording import counted
from sylvan.runtime.memory import shown_bytes
from sylvan.tune.limits import Limits, shown_time
from sylvan.tune.record import HEADER, Trial, cells_of, pareto_front
from sylvan.tune.setting import toml_of

# What a panel's x-axis is: a trial's attribute, its name, unit and the limit on it.
_AXES = (
    ("n_bytes", "saved model, MB", 1e-6, "size"), ("seconds", "training, s", 1.0, "train_time"),
    ("latency", "single query, ms", 1e3, "latency"),
)  # fmt: skip


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
