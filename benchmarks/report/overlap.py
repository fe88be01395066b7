"""The section of docs/results/ on labels in several clusters: what ``benchmarks.linear.overlap`` measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import markdown
from benchmarks.common.markdown import Record
from benchmarks.linear.overlap import ROWS

__all__ = ["overlap_sections"]

SETS = ("eurlex57k", "gutenberg")
NONE, TREES, GEOMETRIC, LEARNED = "no overlap", "two trees", "geometric", "learned"
FIGURES = ("P@5", "model_mb", "train_cpu_s")
SCATTER = 1.25  # of CPU seconds of the same work, on a machine that does other things too
WORDS = (
    "By `python -m benchmarks.linear.overlap`: labels that stand in several clusters, on one thread, not calibrated, "
    "everything else at its default; texts by the default vectoriser, whose time doesn't count. Geometric is "
    "`XRLinear(overlap=…)`: the clusters of the nearest centres. [Learned](#how-a-matcher-chooses) are those where a "
    "trained matcher sends the label's rows (Liu, Chang, Yu, Hsieh and Dhillon, NeurIPS 2021), of ten clusters a row. "
    "Clusters hold up to 100 labels, and are built with 100 / overlap; \"of 200\" has as many clusters as no overlap. "
    "Then only the labels' rankers are trained, or all layers again. A row counts for a cluster as 1, or by the "
    "matcher's score; a label stays in its first cluster, or may leave its home. Matched is the share of the test "
    "rows' labels that stand in a cluster which a beam of 5 or 10 reaches, in any tree. Means over seeds of the tree; "
    "the gain over no overlap with the same seed is in points, with the lowest and the highest of the seeds. Ranking "
    "is in batches, with a beam of 10. The machine did other things too: CPU seconds of the same work scatter by a "
    "quarter."
)


def overlap_sections(folder: Path) -> list[str]:
    """A table for each set, and what follows; nothing where none was measured."""
    books = [found for name in SETS if (found := markdown.book(folder / f"overlap-{name}.json"))]
    if not books:
        return []
    lines = ["", "## Labels in several clusters", "", WORDS]
    for book in books:
        lines += ["", f"### {book['set']}, several clusters", "", *overlap_table(book), "", markdown.taken(book)]
    return [*lines, "", "### What learned overlap pays", "", *verdict(books), *HOW]


def _of(record: Record) -> dict[str, list[Record]]:
    """The runs of each row, in the order of the benchmark."""
    rows: dict[str, list[Record]] = {name: [] for name in ROWS}
    for run in record["runs"]:
        rows.setdefault(run["name"], []).append(run)
    return {name: runs for name, runs in rows.items() if runs}


def _mean(runs: Sequence[Record], key: str) -> float:
    return statistics.fmean(run[key] for run in runs)


def _gain(runs: Sequence[Record], usual: Sequence[Record]) -> str:
    """In P@5, with the lowest and the highest of the seeds."""
    of_seed = {run["seed"]: run["P@5"] for run in usual}
    gains = [run["P@5"] - of_seed[run["seed"]] for run in runs if run["seed"] in of_seed]
    return f"{statistics.fmean(gains):+.2f} ({min(gains):+.2f} to {max(gains):+.2f})" if gains else "–"


def overlap_table(record: Record) -> list[str]:
    """One set: what each row ranks, reaches and costs."""
    rows, found = [], _of(record)
    for name, runs in found.items():
        means = {key: _mean(runs, key) for key, value in runs[0].items() if key != "seed" and _is_figure(value)}
        rows.append([
            name, markdown.at(means, "P"), "–" if name == NONE else _gain(runs, found[NONE]),
            markdown.at(means, "PSP"), f"{means['matched@5']:.2f}/{means['matched@10']:.2f}",
            f"{means['leaves_per_label']:.2f}", f"{means['train_cpu_s']:.1f}", f"{means['rank_cpu_ms']:.3f}",
            f"{means['model_mb']:.1f}", str(len(runs)),
        ])  # fmt: skip
    head = (
        "| | P@1/3/5 | gain in P@5 | PSP@1/3/5 | matched, beam 5/10 | clusters a label | training, CPU-s | "
        "batch, CPU-ms a row | model, MB | seeds |"
    )
    return markdown.table(head, rows)


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def verdict(records: Sequence[Record]) -> list[str]:
    """Where learned overlap ranks better than two trees in a smaller model, or than a geometric one at no more cost."""
    lines, everywhere = [], []
    for record in records:
        found = _of(record)
        learned = [name for name in found if name.startswith(LEARNED)]
        geometric = [found[name] for name in found if name.startswith(GEOMETRIC)]
        best = [name for name in learned if _beats(found[name], found[TREES], in_time=False)]
        near = [name for name in learned if any(_beats(found[name], other) for other in geometric)]
        everywhere.append(set(best) & set(near))
        first = max(learned, key=lambda name: _mean(found[name], "P@5"))
        lines.append(
            f"- {record['set']}: {_listed(best)} a higher P@5 than two trees in a smaller model; {_listed(near)} a "
            "higher one than a geometric overlap, in a model no larger and about as little time. Over no overlap, "
            f"“{first}” gains {_price(found, first)}, two trees {_price(found, TREES)}."
        )
    both = sorted(set.intersection(*everywhere))
    end = "so the library offers the geometric overlap alone" if not both else "so it pays"
    return [*lines, f"- On every set, {_listed(both)} both, {end}."]


def _beats(own: Sequence[Record], other: Sequence[Record], in_time: bool = True) -> bool:
    """A higher P@5 in a model no larger, with the seeds that both were measured with."""
    seeds = {run["seed"] for run in own} & {run["seed"] for run in other}
    pairs = [[_mean([run for run in runs if run["seed"] in seeds], key) for runs in (own, other)] for key in FIGURES]
    (figure, than), (megabytes, most), (seconds, longest) = pairs
    return figure > than and megabytes <= most and (seconds <= SCATTER * longest or not in_time)


def _price(found: dict[str, list[Record]], name: str) -> str:
    """What a row gains in P@5 over no overlap, and for how much more memory and time."""
    megabytes, seconds = (_mean(found[name], key) / _mean(found[NONE], key) for key in FIGURES[1:])
    return f"{_gain(found[name], found[NONE])} for {megabytes:.2f} times the memory and {seconds:.2f} times the time"


def _listed(names: Sequence[str]) -> str:
    """The names as a subject, with its verb."""
    if not names:
        return "none of the learned overlaps has"
    quoted = [f"“{name}”" for name in names]
    return f"{quoted[0]} has" if len(names) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]} have"


HOW = ["", "### How a matcher chooses", "", (
    "`benchmarks/linear/learned_overlap.py` is made of parts of the library: `index` and a model whose labels are the "
    "clusters (the layers above the last, to the bit), `rank` for the clusters of each training row, a tree with the "
    "labels in their new clusters as `XRLinear(tree=…)`, and the matcher's layers as `fit(…, layers=…)`. "
    "[The formulas](papers/pecos.md#overlap-that-is-learned) stand with the papers."
)]  # fmt: skip
