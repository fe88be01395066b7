"""What a sampler costs against what it is worth, from the results of two other benchmarks: a figure and a table.

``python benchmarks/tradeoff.py`` draws docs/figures/sampling_tradeoff.png and .svg: the perplexity that
``sampled_softmax.py --table 4`` found with each sampler against the time of a step that ``output_layer.py`` found.
``report.py`` puts the table, and the figure where it was drawn, into docs/sampling.md. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["section"]

HERE = Path(__file__).resolve().parent
FIGURES = HERE.parent / "docs" / "figures"
# Contenders of table 4, the one of output_layer.json with the same cost, and how both are called here.
SAME = {
    "full": ("full softmax, chunked", "full softmax"),
    "uniform": ("uniform", "uniform"),
    "unigram": ("unigram", "unigram"),
    "lsh": ("lsh", "LSH"),
    "sphere": ("sphere", "Sphere"),
    "rff": ("rff", "RFF"),
    "midx-pq": ("midx-pq", "MIDX-pq"),
    "midx-rq": ("midx-rq", "MIDX-rq"),
    "midx-pq-weighted": ("midx-pq", "MIDX-pq, weighted"),
    "midx-rq-weighted": ("midx-rq", "MIDX-rq, weighted"),
    "midx-aware-rq": ("midx-aware-rq", "MIDX-rq, query-aware"),
    "midx-aware-learned-rq": ("midx-aware-rq", "MIDX-rq, query-aware, learned"),
}


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
    paths = [folder / "output_layer.json", folder / "sampled_softmax_table4.json"]
    if not all(path.exists() for path in paths):
        return None
    layer, table = (json.loads(path.read_text()) for path in paths)
    trained = longest([run for run in table["runs"] if run["task"] == "language-model" and run["model"] == "lstm"])
    points = []
    for name, (cost, title) in SAME.items():
        found = [perplexity(run) for run in trained if run["contender"] == name]
        steps = step_times(layer, cost)
        if found and steps:
            points.append(Point(title, statistics.mean(found), steps))
    if not points:
        return None
    seeds = len({run["seed"] for run in trained})
    epochs = trained[0]["epochs"]
    words = (
        f"an LSTM's test perplexity on {trained[0]['set']} after {epochs} epoch{'s' if epochs != 1 else ''} "
        f"({seeds} seed{'s' if seeds != 1 else ''})"
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
    lines = [
        "", f"Cost against quality: the same step beside {loaded.words}, by `benchmarks/tradeoff.py`.", "",
        "| | perplexity | " + " | ".join(f"step, {size:,} classes" for size in sizes) + " |",
        "|---" * (2 + len(sizes)) + "|",
    ]  # fmt: skip
    for point in loaded.points:
        cells = [f"{point.steps[size]:,.1f} ms" if size in point.steps else "–" for size in sizes]
        quality = f"{point.perplexity:.1f}" if math.isfinite(point.perplexity) else "diverged"
        lines.append(f"| {point.name} | {quality} | " + " | ".join(cells) + " |")
    if (FIGURES / "sampling_tradeoff.png").exists():
        lines += ["", "![Perplexity against the time of a step](figures/sampling_tradeoff.png)"]
    return lines


def draw(found: Tradeoff, folder: Path) -> None:
    """One panel a number of classes; down and to the left is better."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes = sorted({size for point in found.points for size in point.steps})
    shown = [point for point in found.points if math.isfinite(point.perplexity)]
    figure = Figure(figsize=(4.2 * len(sizes), 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    for panel, size in zip(panels, sizes, strict=True):
        for point in shown:
            if size not in point.steps:
                continue
            ours, full = point.name.startswith("MIDX"), point.name.startswith("full")
            colour = "#D55E00" if ours else "#000000" if full else "#0072B2"
            panel.plot(point.steps[size], point.perplexity, "s" if full else "o", color=colour)
            place = {"textcoords": "offset points", "xytext": (5, 4), "fontsize": 8}
            panel.annotate(point.name, (point.steps[size], point.perplexity), **place)
        panel.set_xscale("log")
        panel.margins(x=0.25, y=0.1)
        panel.set_xlabel(f"ms a step, {size:,} classes")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("perplexity")
    figure.suptitle(f"Down and left is better: {found.words}", fontsize=10)
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.hashsalt": "sylvan", "svg.fonttype": "none"}):
        for suffix in ("png", "svg"):
            figure.savefig(
                folder / f"sampling_tradeoff.{suffix}", dpi=120, metadata=None if suffix == "png" else {"Date": None}
            )


def main() -> None:
    """Draws the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, default=FIGURES)
    options = parser.parse_args()
    found = load(options.results)
    if found is None:
        parser.error("output_layer.py and sampled_softmax.py --table 4 must have run; their results aren't both there.")
    draw(found, options.out)


if __name__ == "__main__":
    main()
