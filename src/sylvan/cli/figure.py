"""The picture of an evaluation: precision and recall against k, reliability, the tail beside the head."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sylvan import metrics
from sylvan.errors import DataError
from sylvan.metrics.figures import BLUE, GREEN, GREY, ORANGE, draw_panels, need_matplotlib
from sylvan.models.at_work import inner_of

FORMATS = (".png", ".svg", ".pdf")
CURVES_TO = 10  # the k that curves go to, at least


def check_figures(paths: Sequence[str]) -> None:
    """Refuse what can't be drawn, before hours of work."""
    for path in paths:
        if os.path.splitext(path)[1].lower() not in FORMATS:
            raise DataError(f"--figure takes a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file. Got {path!r} instead.")
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise DataError(f"There is no folder {os.path.dirname(path)!r} to draw {path!r} in.")
    if paths:
        need_matplotlib()


def draw_evaluation(paths: Sequence[str], model: Any, measured: Any, folder: str, test: str) -> None:
    """Draw what ``sylvan evaluate`` measured of the model in ``folder`` on the file ``test``."""
    truth, top = measured.truth, measured.top
    at = range(1, min(top.k, model.n_labels_) + 1)
    curves = {"P": metrics.precision(truth, top, at=at), "R": metrics.recall(truth, top, at=at)}
    k = min(5, top.k)
    slices = {name: values["R"] for name, values in measured.slices.items()}
    title = f"{os.path.basename(os.path.normpath(folder))} on {os.path.basename(test)}"
    if getattr(inner_of(model), "tail", None) is not None:  # scores are gains, not probabilities
        draw(paths, title, curves, {}, slices)
        return
    calibrated, bounded = model.probabilities(top), model.bounded(top)
    reliability = {"probabilities": metrics.reliability(truth, calibrated, k=k, bins="mass")}
    if not np.array_equal(calibrated.scores, bounded.scores):
        reliability["before calibration"] = metrics.reliability(truth, bounded, k=k, bins="mass")
    draw(paths, title, curves, reliability, slices)


def draw(
    paths: Sequence[str],
    title: str,
    curves: Mapping[str, Mapping[int, float]],
    reliability: Mapping[str, Any],
    slices: Mapping[str, Mapping[int, float]] | None = None,
) -> None:
    """Draw an evaluation into each of ``paths``."""
    panels: list[Any] = [partial(_draw_curves, curves)]
    if reliability:
        panels.append(partial(_draw_reliability, reliability))
    if slices:
        panels.append(partial(_draw_slices, slices))
    draw_panels(paths, title, panels)


def _draw_curves(curves: Mapping[str, Mapping[int, float]], axes: Any) -> None:
    styles = {"P": ("precision", BLUE, "o"), "R": ("recall", ORANGE, "s")}
    for measure, values in curves.items():
        name, colour, marker = styles[measure]
        at = sorted(values)
        axes.plot(at, [100 * values[k] for k in at], marker=marker, markersize=3.5, color=colour, label=name)
    axes.set(xlabel="k: labels answered a row", ylabel="percent", ylim=(0, 100), title="Precision and recall")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)


def _draw_reliability(result: Mapping[str, Any], axes: Any) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1)
    for (name, bins), colour in zip(result.items(), (BLUE, GREY), strict=False):
        used = bins.counts > 0
        sizes = 10 + 90 * np.sqrt(bins.counts[used] / bins.counts.max())
        axes.plot(bins.predicted[used], bins.observed[used], color=colour, linewidth=1)
        axes.scatter(bins.predicted[used], bins.observed[used], s=sizes, color=colour, alpha=0.75, label=name)
    axes.set(
        xlabel="probability given", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1), title="Reliability",
        aspect="equal",
    )  # fmt: skip
    axes.legend(frameon=False, loc="upper left")


def _draw_slices(slices: Mapping[str, Mapping[int, float]], axes: Any) -> None:
    names, at = list(slices), sorted(next(iter(slices.values())))
    width = 0.8 / len(at)
    for number, (k, colour) in enumerate(zip(at, _shades(len(at)), strict=True)):
        places = np.arange(len(names)) - 0.4 + width * (number + 0.5)
        axes.bar(places, [100 * slices[name][k] for name in names], width * 0.95, color=colour, label=f"k = {k}")
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="recall, percent", ylim=(0, 100), title="Frequent and rare labels")
    axes.legend(frameon=False)


def _shades(n: int) -> list[tuple[float, float, float]]:
    """``n`` greens, from light to full."""
    full = np.array([int(GREEN[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return [tuple(1 - (1 - full) * share) for share in np.linspace(0.4, 1, n)]
