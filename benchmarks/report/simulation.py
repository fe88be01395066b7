"""The section of docs/results/ on trainings of very many labels on many workers, which were simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.common.drawing import draw_figure, plain_log

__all__ = ["draw_simulation", "simulation_section"]

Record = dict[str, Any]
WORDS = (
    "By `python -m benchmarks.cluster.simulation`: none of these trainings was run, but those that a table says were. "
    "[Scaling on paper](background/scale.md) describes the model and its assumptions. Each training has as many rows "
    "as labels, 5 labels and 100 features a row. Workers have one core, nodes 16 workers and 10 Gbit/s, the store 20 "
    "GB/s. Of the ideal: the CPU time of all jobs divided by the workers, beside the time that it takes. Where the "
    "time goes is what the end waited for, back to the beginning; the job is the one that took longest there."
)
SPLIT_WORDS = (
    "Minutes, when more is divided among jobs, one thing at a time but for the last two rows. One row is worse than "
    "the design: searches that read the layers above for each task."
)
TROUBLE_WORDS = "Minutes, when something goes wrong or is slower; a lost worker is replaced after a minute."
CHECK_WORDS = (
    "The same costs beside trainings in one process that `python -m benchmarks.linear.scale` measured: CPU seconds "
    "measured / on paper. The sets have the same kind of rows as the one that the costs are from, the processor may be "
    "another."
)
SHAPE_WORDS = (
    "Clusters of real trees, layer by layer, beside those on paper: how many a row is trained on, and what share of "
    "all rows the largest one has."
)
MEASURED_WORDS = (
    "Trainings that `python -m benchmarks.cluster` measured, with all nodes and the driver on the two cores of one "
    "machine, beside the simulation of the jobs that Sylvan makes of them there."
)
SETTINGS = {"tfn": "TFN", "tfn+man": "TFN, in the last layer TFN+MAN"}


def simulation_section(folder: Path) -> list[str]:
    """The tables; nothing where nothing was simulated."""
    record = markdown.book(folder / "cluster-simulation.json")
    if record is None or "rows" not in record:
        return []
    lines = ["", "## Scaling on paper", "", f"{WORDS} Costs: {markdown.taken(record)}"]
    lines += ["", "![Hours by workers](figures/cluster_simulation.svg)"]
    for setting, words in SETTINGS.items():
        rows = [row for row in record["rows"] if row["setting"] == setting]
        head = (
            "| labels | workers | time | of the ideal | where it goes | longest job there | peak memory of a worker, "
            "GB | of the driver, GB | moved, TB | to the least |"
        )
        lines += ["", f"### On paper: {words}", "", *markdown.table(head, map(_row, rows))]
    lines += ["", "### On paper: what dividing more brings", "", SPLIT_WORDS]
    lines += _minutes(record["splits"], "split", "divided")
    lines += ["", "### On paper: what goes wrong", "", TROUBLE_WORDS]
    lines += _minutes(record["troubles"], "trouble", "")
    if record.get("check"):
        lines += ["", "### On paper: one process", "", CHECK_WORDS, "", *_check(record["check"])]
    if record.get("shapes"):
        lines += ["", "### On paper: clusters of real sets", "", SHAPE_WORDS, "", *_shapes(record["shapes"])]
    for name, own in record.get("measured", {}).items():
        words = f"{MEASURED_WORDS} {markdown.taken(own)}"
        lines += ["", f"### On paper: {name} on one to three nodes", "", words, "", *_measured(own)]
    return lines


def _row(row: Record) -> list[str]:
    phases = sorted(row["chain"]["phases"].items(), key=lambda item: -item[1])
    total = sum(seconds for _, seconds in phases)
    where = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in phases[:3])
    job = f"{row['chain']['longest']} ({row['chain']['longest_s'] / total:.0%})"
    return [
        f"{row['labels']:,}", f"{row['workers']:,}", _time(row["seconds"]), f"{row['of_ideal']:.1%}", where, job,
        f"{row['worker_bytes'] / 1e9:.1f}", f"{row['driver_bytes'] / 1e9:.0f}", f"{row['store_bytes'] / 1e12:.2f}",
        f"{row['store_bytes'] / row['least_bytes']:.0f}×",
    ]  # fmt: skip


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 2 * 3600 else f"{seconds / 60:.1f} min"


def _minutes(rows: Sequence[Record], key: str, head: str) -> list[str]:
    """A table with a column for each setting, number of labels and of workers."""
    lines: list[str] = []
    for setting, words in SETTINGS.items():
        own = [row for row in rows if row["setting"] == setting]
        columns = list(dict.fromkeys((row["labels"], row["workers"]) for row in own))
        names = list(dict.fromkeys(row[key] for row in own))
        found = {(row[key], row["labels"], row["workers"]): row["seconds"] / 60 for row in own}
        heads = [f"{words}{': ' + head if head else ''}", *(f"{n:,} labels, {w:,} workers" for n, w in columns)]
        cells = [[name, *(f"{found[name, labels, workers]:.1f}" for labels, workers in columns)] for name in names]
        lines += ["", *markdown.table(heads, cells)]
    return lines


def _check(rows: Sequence[Record]) -> list[str]:
    phases = list(dict.fromkeys(phase for row in rows for phase in row["phases"]))

    def cell(row: Record, phase: str) -> str:
        own = row["phases"].get(phase)
        return "–" if own is None else f"{own['measured_s']:.0f} / {own['paper_s']:.0f}"

    heads = ["rows × labels", "negatives", *phases, "model, MB", "measured on"]
    return markdown.table(heads, [
        [f"{row['rows']:,} × {row['labels']:,}", SETTINGS[row["setting"]], *(cell(row, phase) for phase in phases),
         f"{row['model_mb']:.0f} / {row['paper_model_mb']:.0f}", row["cpu"]]
        for row in rows
    ])  # fmt: skip


def _shapes(rows: Sequence[Record]) -> list[str]:
    heads = ["set", "negatives", "layer", "clusters", "clusters a row", "on paper", "largest", "on paper"]
    return markdown.table(heads, [
        [row["set"], SETTINGS[row["setting"]], str(row["layer"]), f"{row['clusters']:,}", f"{row['rows']:.2f}",
         f"{row['paper_rows']:.2f}", f"{row['largest']:.1%}", f"{row['paper_largest']:.1%}"]
        for row in rows
    ])  # fmt: skip


def _measured(own: Record) -> list[str]:
    heads = [
        "setting", "nodes", "rows in", "tasks", "measured, s", "on paper, s", "on paper to measured", "one process, s",
        "MB to workers", "on paper",
    ]  # fmt: skip
    return markdown.table(heads, [
        [row["setting"], str(row["nodes"]), row["where"], str(row["tasks"]), f"{row['wall_s']:.2f}",
         f"{row['paper_s']:.2f}", f"{row['paper_s'] / row['wall_s']:.2f}×", f"{row['one_process_s']:.2f}",
         f"{row['bytes'] / 1e6:.1f}", f"{row['paper_bytes'] / 1e6:.1f}"]
        for row in own["rows"]
    ])  # fmt: skip


def draw_simulation(results: Path, path: Path) -> list[Path]:
    """Draw hours by workers, a panel a setting; nothing where nothing was simulated."""
    record = markdown.book(results / "cluster-simulation.json")
    if record is None or "rows" not in record:
        return []
    return draw_figure(path, lambda figure: _fill(figure, record))


def _fill(figure: Any, record: Record) -> None:
    figure.set_size_inches(9, 3.6)
    for axis, (setting, words) in zip(figure.subplots(1, 2, sharey=True), SETTINGS.items(), strict=True):
        for at, labels in enumerate(dict.fromkeys(row["labels"] for row in record["rows"])):
            rows = [row for row in record["rows"] if (row["setting"], row["labels"]) == (setting, labels)]
            workers, color = [row["workers"] for row in rows], f"C{at}"
            _line(axis, workers, rows, lambda row: row["seconds"], "o-", color, f"{labels:,} labels")
            _line(axis, workers, rows, lambda row: row["cpu_s"] / row["workers"], ":", color, None)
            best = [row for row in record["splits"] if (row["setting"], row["labels"], row["split"])
                    == (setting, labels, "groups of 8, assigning and layout")]  # fmt: skip
            _line(axis, [row["workers"] for row in best], best, lambda row: row["seconds"], "^", color, None)
        axis.set_xscale("log")
        axis.set_yscale("log")
        plain_log(axis.xaxis)
        axis.set_title(words, fontsize=10)
        axis.set_xlabel("workers (dotted: ideal; triangles: more divided)", fontsize=9)
        axis.grid(alpha=0.3)
    figure.axes[0].set_ylabel("hours", fontsize=9)
    figure.axes[0].legend(fontsize=8, frameon=False)


def _line(
    axis: Any, workers: Sequence[int], rows: Sequence[Record], value: Callable[[Record], float], style: str, color: str,
    label: str | None,
) -> None:  # fmt: skip
    axis.plot(workers, [value(row) / 3600 for row in rows], style, color=color, markersize=4, label=label)
