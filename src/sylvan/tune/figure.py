"""A tuning as a figure, score against what it costs, and as one HTML page that holds all it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from sylvan.explain.page import escape, page_head
from sylvan.figures import BLUE, GREY, ORANGE, draw_panels, need_matplotlib
from sylvan.tune.limits import Limits
from sylvan.tune.record import HEADER, Trial, cells_of

__all__ = ["draw_front", "tuning_page"]

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
