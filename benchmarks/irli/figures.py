"""The figures of ``python -m benchmarks.irli``: SVG, the same bytes for the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common.drawing import draw_figure
from benchmarks.irli import ablation_tables
from benchmarks.irli.points import NAMES, TARGET, WAYS, at_recall, frontier, of_way, timed, title, ways

__all__ = ["draw"]

Record = dict[str, Any]
# Okabe and Ito's colours, told apart by people who see few; a dashed line is a threshold of votes.
COLOURS = {"irli": "#D55E00", "kmeans": "#0072B2", "ivf": "#000000", "hnsw": "#009E73", "random": "#56B4E9",
           "neural-lsh": "#CC79A7"}  # fmt: skip
BEYOND = 10  # times the fewest candidates, from which a point would only squeeze the others together
STYLES = {"probability": "-", "votes": ":", "min_votes": "--", None: "-"}


def draw(part: str, runs: list[Record], folder: Path, prefix: str = "irli") -> list[Path]:
    """Draws a part's figure; nothing where there is none, or matplotlib is missing."""
    if part not in _DRAWN:
        return []
    return draw_figure(folder / f"{prefix}_{part}", lambda figure: _DRAWN[part](figure, runs))


def _neighbors(figure: Any, runs: list[Record]) -> None:
    """Recall against candidates, a panel a set and number of buckets."""
    shown = [run for run in runs if run["seed"] == 0 and run["contender"] != "exact"]
    ours = [run for run in shown if run["contender"] == "irli"]
    panels = sorted({(run["set"], run["n_buckets"]) for run in ours}, reverse=True)
    if not panels:
        return
    figure.set_size_inches(4.4 * len(panels), 5.0)
    for axes, (name, n_buckets) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for run in shown:
            alike = run.get("n_buckets") == n_buckets or run["contender"] == "hnsw"
            other = run["contender"] in ("ivf-pq", "ivf-rabitq", "hnswlib")  # whose candidates aren't all that they see
            skipped = other or run.get("sample", 1) > 1 or "room" in run
            if run["set"] != name or not alike or skipped:
                continue
            for way in ways(run):
                _curve(axes, run, way)
        axes.set(xscale="log", xlabel="candidates", title=f"{name}, {n_buckets:,} buckets", ylim=(0.5, 1.0))
        axes.axhline(TARGET, color="#BBBBBB", linewidth=0.7, zorder=0)
        _plain(axes)
    figure.axes[0].set_ylabel("recall10@10")
    lines = {line.get_label(): line for axes in figure.axes for line in axes.lines if line.get_label()[0] != "_"}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, fontsize=7, frameon=False)


def _curve(axes: Any, run: Record, way: str | None) -> None:
    if way == "votes":
        return  # between the other two
    points = frontier(of_way(run, way))
    words = title(run) + (f", {WAYS[way]}" if way else "")
    colour = COLOURS["random" if run.get("sample") == 1 else run["contender"]]
    thin = run.get("hidden", 512) < 512 or run.get("links", 32) < 32
    axes.plot([point["candidates"] for point in points], [point["recall"] for point in points], STYLES[way],
              color=colour, linewidth=0.8 if thin else 1.6, alpha=0.6 if thin else 1.0,
              label=words)  # fmt: skip


def _ablation(figure: Any, runs: list[Record]) -> None:
    """Candidates at the target, a panel for each thing that is changed."""
    rows = {name: ablation_tables.varied(runs, name) for name in ablation_tables.ABLATED}
    names = [name for name in rows if len(rows[name]) > 1]
    if not names:
        return
    rounds = ablation_tables.watched(runs)
    figure.set_size_inches(3 * (len(names) + bool(rounds)) + 0.6, 3.4)
    panels = figure.subplots(1, len(names) + bool(rounds), sharey=True, squeeze=False)[0]
    if rounds:
        _rounds(panels[-1], rounds)
    for axes, name in zip(panels, names, strict=False):
        for way, words in WAYS.items():
            found = [(run[name], at_recall(of_way(run, way))) for run in rows[name]]
            points = [(value, point["candidates"]) for value, point in found if point is not None]
            least = min((count for _, count in points), default=0)
            points = [(value, count) for value, count in points if count < BEYOND * least]
            if points:
                axes.plot(*zip(*points, strict=True), STYLES[way], color=COLOURS["irli"], marker="o", markersize=3,
                          label=words)  # fmt: skip
        if name not in ("rounds", "room"):
            axes.set_xscale("log")
        values = [run[name] for run in rows[name]]
        axes.set_xticks(values, [str(value) for value in values], fontsize=7)
        axes.minorticks_off()
        axes.set(xlabel=ablation_tables.ABLATED[name][1], yscale="log")
        _plain(axes)
    panels[0].set_ylabel(f"candidates at recall {TARGET:g}")
    panels[0].legend(fontsize=7, frameon=False)


def _rounds(axes: Any, rounds: list[Record]) -> None:
    """Candidates after each round of one training."""
    for way in WAYS:
        found = [(one["number"], at_recall([p for p in one["points"] if p["by"] == way])) for one in rounds]
        points = [(place, point["candidates"]) for place, point in found if point is not None]
        if points:
            axes.plot(*zip(*points, strict=True), STYLES[way], color=COLOURS["irli"], marker="o", markersize=3)
    axes.set(xlabel="round of one training", yscale="log")
    _plain(axes)


def _scaling(figure: Any, runs: list[Record]) -> None:
    """Time and memory against the number of vectors."""
    figure.set_size_inches(12.5, 3.6)
    build, anew, memory, query = figure.subplots(1, 4)
    for contender in ("ivf", "irli"):
        rows = sorted((run for run in runs if run["contender"] == contender), key=lambda run: run["base"])
        style = {"color": COLOURS[contender], "marker": "o", "markersize": 3, "label": NAMES[contender]}
        sizes = [run["base"] for run in rows]
        build.plot(sizes, [run["build"]["wall_s"] for run in rows], **style)
        memory.plot(sizes, [run["build"]["peak_mb"] for run in rows], **style)
        way = "probability" if contender == "irli" else None
        times = [(run["base"], timed(of_way(run, way), "ms")) for run in rows]
        known = [(size, point["ms"]) for size, point in times if point is not None]
        if known:
            query.plot(*zip(*known, strict=True), **style)
        placed = [run for run in rows if "repartition" in run]
        for key, dashes, words in (("affinity_s", "-", "the networks"), ("placing_s", ":", "the least loaded")):
            if placed:
                values = [run["repartition"][key] for run in placed]
                anew.plot([run["base"] for run in placed], values, **{**style, "label": words, "linestyle": dashes})
    labels = ("building, s", "placing all anew, s", "peak memory of building, MB", "milliseconds of a query")
    for axes, label in zip((build, anew, memory, query), labels, strict=True):
        axes.set(xscale="log", yscale="log", xlabel="vectors", ylabel=label)
        axes.legend(fontsize=7, frameon=False)
        _plain(axes)


def _plain(axes: Any) -> None:
    """Two sides of a frame, and numbers at logarithmic axes where powers of ten are too far apart."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

    axes.spines[["top", "right"]].set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            low, high = axis.get_view_interval()
            if high < 300 * low and not isinstance(axis.get_major_locator(), FixedLocator):
                axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
                axis.set_minor_formatter(NullFormatter())


_DRAWN = {"neighbors": _neighbors, "ablation": _ablation, "scaling": _scaling}
