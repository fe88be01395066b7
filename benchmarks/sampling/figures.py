"""The figures of ``sampled_softmax.py``: SVG, the same bytes for the same results."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common.drawing import draw_figure, plain_log
from benchmarks.sampling import tables
from benchmarks.sampling.contenders import CONTENDERS, CORRECTED

Record = dict[str, Any]
# Okabe and Ito's colours, told apart by people who see few; the index samplers in the warm ones.
COLOURS = {
    "full": "#000000", "softmax": "#767676", "uniform": "#999999", "unigram": "#0072B2", "lsh": "#56B4E9",
    "sphere": "#009E73", "rff": "#80C9B0", "midx-pq": "#E69F00", "midx-rq": "#D55E00", "midx-pq-weighted": "#E69F00",
    "midx-rq-weighted": "#D55E00", "midx-learned-pq": "#F0C040", "midx-learned-rq": "#A02000",
    "midx-aware-pq": "#F0E442", "midx-aware-rq": "#CC0000", "midx-aware-learned-rq": "#800000",
    "midx-joint-pq": "#C0B070", "midx-joint-rq": "#804030",
    "unigram-500-shared": "#0072B2", "midx-rq-500-shared": "#D55E00", "nce-40": "#CC79A7", "blackout-40": "#8B3A6B",
    "cane-40": "#B8A000", "cane-20-20": "#6B6000", "cane-tree-40": "#5B8C00", "cane-tree-20-20": "#2F4A00",
    "cane-tree-40-unigram": "#9FC060", "uniform-all": "#999999", "unigram-all": "#0072B2", "midx-rq-all": "#D55E00",
    "midx-rq-weighted-all": "#D55E00", "midx-aware-rq-all": "#CC0000", "head-1000-unigram": "#00308F",
    "lsh-all": "#56B4E9", "midx-pq-all": "#E69F00", "midx-learned-rq-all": "#A02000", "midx-joint-rq-all": "#804030",
    "midx-rq-all-once": "#F0A070", "midx-joint-rq-weighted-all": "#603020", "midx-gumbel-rq-all-fast": "#906040",
    "midx-gumbel-rq-all": "#C08060", "sphere-all": "#009E73", "rff-all": "#80C9B0", "adaptive": "#404040",
    "unigram-1000-shared-all": "#004C80", "midx-rq-1000-shared-all": "#8C3A00", "head-1000-unigram-shared": "#2E8B9A",
    "head-500-midx-rq": "#6A0DAD", "head-500-unigram": "#3060C0", "head-2000-unigram": "#001030",
    "head-1000-midx-rq": "#4A0080", "head-2000-midx-rq": "#2A0050", "head-1000-midx-aware-rq": "#B57EDC",
    "head-1000-midx-rq-shared": "#D81B90",
}  # fmt: skip
STYLES = {
    "midx-pq": "--", "midx-rq": "--", "unigram-500-shared": ":", "midx-rq-500-shared": ":", "softmax": "--",
    "adaptive": "--", "full": "-", **dict.fromkeys(CORRECTED, "-."),
}  # fmt: skip


def draw(what: str, runs: list[Record], folder: Path) -> list[Path]:
    """Draws the figure of a table or a figure; nothing where matplotlib is missing."""
    return draw_figure(folder / f"sampled_softmax_{what}", lambda figure: _DRAWN[what](figure, runs))


def _largest(runs: list[Record]) -> list[Record]:
    """The runs of the budget that most of them have."""
    budgets = [tables.budget_of(run) for run in runs]
    most = max(set(budgets), key=lambda budget: (budgets.count(budget), repr(budget)))
    return [run for run, budget in zip(runs, budgets, strict=True) if budget == most]


def _final_and_way(figure: Any, runs: list[Record]) -> None:
    """Test perplexities of all seeds as dots, and how validation went."""
    group = _largest([run for run in runs if run["model"] == runs[0]["model"]])
    means = {}
    for name in CONTENDERS:
        found = [v for v in tables.values(group, "perplexity", contender=name) if math.isfinite(v)]
        if found:
            means[name] = (sum(found) / len(found), found)
    names = sorted(means, key=lambda name: -means[name][0])
    figure.set_size_inches(15, 0.28 * len(names) + 2.2)
    dots, way = figure.subplots(1, 2, width_ratios=(1.1, 1))
    for place, name in enumerate(names):
        mean, found = means[name]
        dots.scatter(found, [place] * len(found), s=14, color=COLOURS[name], alpha=0.5)
        dots.scatter([mean], [place], s=42, color=COLOURS[name])
    if "full" in means:
        dots.axvline(means["full"][0], color="#999999", linewidth=0.8)
    dots.set_yticks(range(len(names)), [CONTENDERS[name].title for name in names], fontsize=8)
    dots.set(xlabel="test perplexity", xscale="log")
    plain_log(dots.xaxis)
    for name in reversed(names):
        steps, heights = _mean_way([run for run in group if run["contender"] == name])
        title = CONTENDERS[name].title
        way.plot(steps, heights, color=COLOURS[name], linestyle=STYLES.get(name, "-"), linewidth=1.3, label=title)
    way.set(xlabel="steps", ylabel="validation perplexity", yscale="log")
    plain_log(way.yaxis)
    way.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for axes in (dots, way):
        axes.spines[["top", "right"]].set_visible(False)


def _mean_way(runs: list[Record]) -> tuple[list[int], list[float]]:
    """Steps and validation perplexity, the mean of the seeds where all have an entry."""
    by_step: dict[int, list[float]] = {}
    for run in runs:
        for entry in run["validation"]:
            value = entry.get("perplexity")
            if value is not None and math.isfinite(value):
                by_step.setdefault(entry["step"], []).append(value)
    steps = [step for step in sorted(by_step) if len(by_step[step]) == len(runs)]
    return steps, [sum(by_step[step]) / len(runs) for step in steps]


def _by_second(figure: Any, runs: list[Record]) -> None:
    """Validation perplexity against the processor's seconds of training, a panel a set."""
    sets = list(dict.fromkeys(run["set"] for run in runs))
    figure.set_size_inches(5 * len(sets) + 4, 4.2)
    for axes, name in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        group = _largest([run for run in runs if run["set"] == name])
        for contender in CONTENDERS:
            points = [
                [(e["cpu_s"], e["perplexity"]) for e in r["validation"]] for r in group if r["contender"] == contender
            ]
            if points:
                xs, ys = zip(*[(sum(column) / len(points) for column in zip(*mark, strict=True))
                               for mark in zip(*points, strict=True)], strict=True)  # fmt: skip
                axes.plot(xs, ys, color=COLOURS[contender], marker="o", markersize=3.5,
                          linestyle=STYLES.get(contender, "-"), label=CONTENDERS[contender].title)  # fmt: skip
        axes.set(xlabel="CPU seconds of training", title=name, yscale="log")
        plain_log(axes.yaxis)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("validation perplexity")
    figure.axes[-1].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _distance(figure: Any, runs: list[Record]) -> None:
    """Perplexity against ln d₂ and against KL: which of the two orders the samplers."""
    group = [run for run in _largest(runs) if run.get("distribution")]
    figure.set_size_inches(10, 4.2)
    for axes, key, label in zip(figure.subplots(1, 2, sharey=True), ("ln_d2", "kl_q_p"), ("ln d₂(P‖Q)", "KL(Q‖P)"),
                                strict=True):  # fmt: skip
        for name in CONTENDERS:
            points = [(run["distribution"][key], run["test"].get("perplexity")) for run in group
                      if run["contender"] == name]  # fmt: skip
            points = [point for point in points if None not in point and math.isfinite(point[1])]
            if points:
                x, y = (sum(column) / len(points) for column in zip(*points, strict=True))
                axes.scatter([x], [y], color=COLOURS[name], s=36)
                axes.annotate(name, (x, y), textcoords="offset points", xytext=(5, 3), fontsize=7)
        axes.set(xlabel=label, yscale="log")
        plain_log(axes.yaxis)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("test perplexity")


def _bars(figure: Any, runs: list[Record]) -> None:
    """The first measure of each contender, a panel for each set and model."""
    panels = sorted({(run["set"], run["model"]) for run in runs})
    names = [name for name in CONTENDERS if any(run["contender"] == name for run in runs)]
    figure.set_size_inches(3.1 * len(panels) + 2.4, 0.28 * len(names) + 1.6)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    measure = tables.MEASURES[runs[0]["task"]][0]
    for axes, (set_name, model) in zip(grid, panels, strict=True):
        group = _largest([run for run in runs if (run["set"], run["model"]) == (set_name, model)])
        for place, name in enumerate(reversed(names)):
            found = [v for v in tables.values(group, measure, contender=name) if math.isfinite(v)]
            if found:
                axes.barh(place, sum(found) / len(found), color=COLOURS[name], height=0.62)
                axes.scatter(found, [place] * len(found), s=8, color="#333333", zorder=3)
        axes.set_title(f"{set_name}, {model}", fontsize=9)
        axes.set_xlabel(f"test {measure}")
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_yticks(range(len(names)), [CONTENDERS[name].title for name in reversed(names)], fontsize=8)


def _lines(name: str, label: str) -> Callable[[Any, list[Record]], None]:
    """Perplexity against what is varied."""

    def drawn(figure: Any, runs: list[Record]) -> None:
        group = _largest(runs)
        figure.set_size_inches(7.5, 4.4)
        axes = figure.subplots()
        for contender in CONTENDERS:
            points: dict[int, list[float]] = {}
            for run in group:
                value = run["test"].get("perplexity")
                if run["contender"] == contender and value is not None and run["stopped"] != "diverged":
                    points.setdefault(run.get(name, 0), []).append(value)
            if not points:
                continue
            title = CONTENDERS[contender].title
            if list(points) == [0]:
                axes.axhline(sum(points[0]) / len(points[0]), color=COLOURS[contender], linewidth=0.9, label=title)
                continue
            xs = sorted(points)
            axes.plot(xs, [sum(points[x]) / len(points[x]) for x in xs], color=COLOURS[contender], marker="o",
                      markersize=3.5, linestyle=STYLES.get(contender, "-"), label=title)  # fmt: skip
        axes.set(xlabel=label, ylabel="test perplexity", xscale="log", yscale="log")
        ticks = sorted({run[name] for run in group if name in run})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        plain_log(axes.yaxis)
        axes.legend(fontsize=7, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)

    return drawn


def _times(figure: Any, runs: list[Record]) -> None:
    """Drawing against the number of classes."""
    figure.set_size_inches(7, 4.4)
    axes = figure.subplots()
    for name in CONTENDERS:
        points = sorted((run["n_classes"], run["draw_ms"]) for run in runs if run["contender"] == name)
        if points:
            axes.plot(*zip(*points, strict=True), color=COLOURS[name], marker="o", markersize=3.5,
                      linestyle=STYLES.get(name, "-"), label=CONTENDERS[name].title)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="classes", ylabel="milliseconds a batch")
    axes.legend(fontsize=7, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _curves(figure: Any, runs: list[Record]) -> None:
    """Mean probability by the softmax's rank, before and after training."""
    run = runs[-1]
    figure.set_size_inches(11, 4.4)
    for axes, stage, title in zip(figure.subplots(1, 2), ("before", "after"), ("before training", "after training"),
                                  strict=True):  # fmt: skip
        found = run[stage]
        for name in run["contenders"]:
            heights = found["samplers"][name]["probability"]
            label = "softmax" if name == "full" else CONTENDERS[name].title
            axes.plot(found["ranks"], heights, color=COLOURS[name], linestyle=STYLES.get(name, "-"), label=label,
                      linewidth=2 if name == "full" else 1.2)  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="rank of the class by the softmax", title=title)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("mean probability")
    figure.axes[1].legend(fontsize=7, frameon=False)


_DRAWN: dict[str, Callable[[Any, list[Record]], None]] = {
    "table4": _final_and_way,
    "tablewords": _final_and_way,
    "tablemany": _by_second,
    "table5": _distance,
    "table7": _bars,
    "table9": _bars,
    "samples": _lines("n_samples", "samples a query"),
    "codewords": _lines("codewords", "codewords of each codebook"),
    "sampling-time": _times,
    "distribution": _curves,
}
