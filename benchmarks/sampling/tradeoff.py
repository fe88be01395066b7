"""What a sampler costs against what it brings, from the results of two other benchmarks: a figure and a table.

``python -m benchmarks.sampling.tradeoff`` draws docs/figures/sampling_tradeoff.svg: the perplexity that
``sampled_softmax.py --table 4`` found with each sampler against the time of a step that ``output_layer.py`` found.
``benchmarks.report`` puts the table, and the figure where it was drawn, into docs/sampling.md. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import FIGURES, RESULTS
from benchmarks.common import markdown
from benchmarks.common.drawing import draw_figure, plain_log

__all__ = ["section"]

# Contenders of table 4, the one of output_layer.json with the same cost, and how both are called here.
SAME = {
    "full": ("full softmax, chunked", "full softmax"),
    "uniform-all": ("uniform", "uniform"),
    "unigram-all": ("unigram", "unigram"),
    "lsh-all": ("lsh", "LSH"),
    "sphere": ("sphere", "Sphere, Eq. (1)"),
    "rff": ("rff", "RFF, Eq. (1)"),
    "midx-pq-all": ("midx-pq", "MIDX-pq"),
    "midx-rq-all": ("midx-rq", "MIDX-rq"),
    "midx-rq-weighted-all": ("midx-rq", "MIDX-rq, weighted"),
    "midx-aware-rq-all": ("midx-aware-rq", "MIDX-rq, query-aware"),
}


FAR = 3  # times the least perplexity: points beyond would press all others together
MARKS = (  # Okabe and Ito's colours
    ("#000000", "s"), ("#0072B2", "o"), ("#56B4E9", "D"), ("#009E73", "v"), ("#CC79A7", "P"), ("#E69F00", "o"),
    ("#D55E00", "^"), ("#CC0000", "X"), ("#800000", "*"), ("#6B6000", "<"), ("#8B3A6B", ">"), ("#999999", "h"),
)  # fmt: skip


class Point(NamedTuple):
    """One sampler: perplexity, and milliseconds of a step by number of classes."""

    name: str
    perplexity: float
    steps: dict[int, float]


class Tradeoff(NamedTuple):
    """All samplers, and in words what trained how long."""

    points: list[Point]
    words: str


def load(folder: Path) -> Tradeoff | None:
    """Both benchmarks' figures, where both ran."""
    layer, table = (markdown.book(folder / f"{name}.json") for name in ("output_layer", "sampled_softmax_table4"))
    if layer is None or table is None:
        return None
    trained = longest([run for run in table["runs"] if run["task"] == "language-model" and run["model"] == "lstm"])
    points = []
    for name, (cost, title) in SAME.items():
        found = [perplexity(run) for run in trained if run["contender"] == name]
        steps = step_times(layer, cost)
        if found and steps:
            points.append(Point(title, statistics.mean(found), steps))
    if not points:
        return None
    found = [len({run["seed"] for run in trained if run["contender"] == name}) for name in SAME]
    fewest, most = min(n for n in found if n), max(found)
    seeds = f"{most} seed{'s' if most > 1 else ''}" if fewest == most else f"{fewest} to {most} seeds"
    epochs = trained[0]["epochs"]
    words = (
        f"an LSTM's test perplexity on {trained[0]['set']} after {epochs} epoch{'s' if epochs != 1 else ''} ({seeds})"
    )
    return Tradeoff(points, words)


def perplexity(run: dict[str, Any]) -> float:
    """Of the test set; infinite where training diverged."""
    value = run["test"].get("perplexity")
    return math.inf if value is None or run["stopped"] == "diverged" else float(value)


def longest(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs of the budget that most contenders had, of the longer one where they are as many."""
    budgets: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for run in runs:
        budgets.setdefault((run["epochs"], run.get("max_steps") or 10**12), []).append(run)
    most = max(budgets, key=lambda budget: (len({run["contender"] for run in budgets[budget]}), budget), default=None)
    return budgets[most] if most else []


def step_times(layer: dict[str, Any], contender: str) -> dict[int, float]:
    """Milliseconds of a forward and backward pass on the CPU, by number of classes."""
    found = {}
    for run in layer["runs"]:
        if run["contender"] == contender and run["device"] == "cpu" and "median" in run:
            median = run["median"]
            found[run["n_classes"]] = float(median.get("own", median)["step_ms"])
    return dict(sorted(found.items()))


def section(folder: Path) -> list[str]:
    """The lines that docs/sampling.md has of it."""
    loaded = load(folder)
    if loaded is None:
        return []
    sizes = sorted({size for point in loaded.points for size in point.steps})
    head = "| | perplexity | " + " | ".join(f"step, {size:,} classes" for size in sizes) + " |"
    rows = []
    for point in loaded.points:
        cells = [f"{point.steps[size]:,.1f} ms" if size in point.steps else "–" for size in sizes]
        rows.append([point.name, f"{point.perplexity:.1f}" if math.isfinite(point.perplexity) else "diverged", *cells])
    words = f"Cost against quality: the same step beside {loaded.words}, by `python -m benchmarks.sampling.tradeoff`."
    lines = ["", words, "", *markdown.table(head, rows)]
    if (FIGURES / "sampling_tradeoff.svg").exists():
        lines += ["", "![Perplexity against the time of a step](figures/sampling_tradeoff.svg)"]
    return lines


def draw(found: Tradeoff, folder: Path) -> list[Path]:
    """One panel a number of classes; down and to the left is better. What is far above all others is only named."""
    full = min(point.perplexity for point in found.points)
    shown = [point for point in found.points if point.perplexity <= FAR * full]
    beyond = [point.name for point in found.points if point not in shown]
    sizes = sorted({size for point in found.points for size in point.steps})

    def fill(figure: Any) -> None:
        figure.set_size_inches(4 * len(sizes) + 2.2, 4)
        panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
        for panel, size in zip(panels, sizes, strict=True):
            for point, (colour, marker) in zip(shown, MARKS, strict=False):
                if size in point.steps:
                    place = point.steps[size], point.perplexity
                    panel.plot(*place, marker, color=colour, label=point.name, linestyle="none")
            panel.set_xscale("log")
            plain_log(panel.xaxis)
            panel.margins(x=0.15, y=0.1)
            panel.set_xlabel(f"ms a step, {size:,} classes")
            panel.spines[["top", "right"]].set_visible(False)
        panels[0].set_ylabel("perplexity")
        panels[-1].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
        not_shown = f"; more than {FAR} times the least: {', '.join(beyond)}" if beyond else ""
        figure.suptitle(f"Down and left is better: {found.words}{not_shown}", fontsize=10)

    return draw_figure(folder / "sampling_tradeoff", fill)


def main() -> None:
    """Draws the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=FIGURES)
    options = parser.parse_args()
    found = load(options.results)
    if found is None:
        parser.error("output_layer.py and sampled_softmax.py --table 4 must have run; their results aren't both there.")
    draw(found, options.out)


if __name__ == "__main__":
    main()
