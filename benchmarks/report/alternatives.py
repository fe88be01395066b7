"""Sections of docs/results/ on XRLinear: ``linear/{alternatives,unreached,lookups,batches}.py`` measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.report.linear import by_order

__all__ = ["alternatives_sections"]

Record = dict[str, Any]
DEFAULT, KEPT = "default", "features a label"
GROUPS = (DEFAULT, "embedding", "clustering", "overlap", "negatives", "loss", "combine", "relevance")
ALTERNATIVES = (
    "By `python -m benchmarks.linear.alternatives`: one choice of `XRLinear` changed at a time, everything else at its "
    "default, not calibrated, on one thread. Means over seeds of the tree; the gain in P@5 over the default with the "
    "same seed is in points, with the lowest and the highest of the seeds. Times are CPU seconds, memory is what the "
    "phase adds to the process at its peak. PIFA + LF mixes PIFA with TF-IDF of the labels' names (the descriptors and "
    "their other names, the headings), by half or, `alpha` by count, by n / (n + 5) for a label with n rows; labels of "
    "cpv-tenders are numbers. Relevances have a mean of 1."
)
FEATURES = (
    "From the same runs: PIFA with only the largest values of each label (`max_features_per_label`). "
    "The default keeps 1,024."
)
UNREACHED = (
    "By `python -m benchmarks.linear.unreached`: a tenth of the labels, drawn at random, lose their training rows and "
    "stand in clusters of their own, as new labels do in a tree that is given. They remain true labels of the test "
    "rows. The rankers of such a cluster see no row: 0 minimises Eq. 10, and Sylvan takes -1. One model ranks with "
    "both. Without rows: the share of the first 5 or 100 answers that are such labels, in percent. Means over seeds."
)
LOOKUPS = (
    "By `python -m benchmarks.linear.lookups`, PECOS's Table 1: the same clusters of the same models, scored for one "
    "query after the other, on one thread. Blocks of keys are Sylvan's. Except for the label-indexed structure, which "
    "is Parabel's, all have the same entries, added by the same code, and differ in how they find a feature's row. "
    "Megabytes are those beside the entries, in models with weights of 32 bits. CPU time, medians of rounds in turns."
)

BATCHES = (
    "By `python -m benchmarks.linear.batches`: all test rows ranked at once on one thread, by models with a beam of "
    "10, in turns, each time in a process of its own. Microseconds of CPU time a row: medians of the repeats, with the "
    "lowest and the highest. The ratio is libpecos's time to that of Sylvan's default."
)


def alternatives_sections(folder: Path) -> list[str]:
    """Everything that was measured of it."""
    lines = []
    if records := by_order(folder, "alternatives"):
        lines += ["", "## Choices of XR-Linear", "", ALTERNATIVES]
        for record in records:
            lines += ["", f"### {record['set']}, choices", "", *choices_table(record), "", markdown.taken(record)]
        lines += ["", *verdict(records), "", "### Features that PIFA keeps", "", FEATURES, "", *kept_table(records)]
    if records := by_order(folder, "unreached"):
        lines += ["", "## Clusters without rows", "", UNREACHED, "", *unreached_table(records)]
    if records := by_order(folder, "lookups"):
        lines += ["", "## Finding a row of weights", "", LOOKUPS, "", *lookups_table(records)]
    if records := by_order(folder, "batches"):
        lines += ["", "## Ranking batches", "", BATCHES, "", *batches_table(records)]
        taken: dict[str, list[str]] = {}  # sets by machine and day
        for record in records:
            taken.setdefault(markdown.taken(record), []).append(record["set"])
        lines += ["", " ".join(f"{', '.join(names)}: {when}" for when, names in taken.items())]
    return lines


def _of(runs: Iterable[Record], group: str, name: str) -> list[Record]:
    return [run for run in runs if (run["group"], run["name"]) == (group, name)]


def _mean(runs: Sequence[Record], key: str) -> float:
    return statistics.fmean(run[key] for run in runs)


def _means(runs: Sequence[Record]) -> Record:
    return {key: _mean(runs, key) for key, value in runs[0].items() if isinstance(value, float)}


def _gains(runs: Sequence[Record], of: Sequence[Record], key: str = "P@5") -> list[float]:
    """What each seed gains over the default."""
    usual = {run["seed"]: run[key] for run in of}
    return [run[key] - usual[run["seed"]] for run in runs if run["seed"] in usual]


def _names(runs: Iterable[Record]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((run["group"], run["name"]) for run in runs))


def choices_table(record: Record) -> list[str]:
    """One set: what each choice ranks and costs."""
    usual, rows = _of(record["runs"], DEFAULT, DEFAULT), []
    for group, name in sorted(_names(record["runs"]), key=lambda pair: (*GROUPS, KEPT).index(pair[0])):
        if group == KEPT:
            continue
        runs = _of(record["runs"], group, name)
        means, gains = _means(runs), _gains(runs, usual)
        gain = f"{statistics.fmean(gains):+.2f} ({min(gains):+.2f} to {max(gains):+.2f})" if group != DEFAULT else "–"
        costs = [f"{means[key]:.{digits}f}" for key, digits in (
            ("index_cpu_s", 2), ("train_cpu_s", 2), ("rank_cpu_ms", 3), ("model_mb", 1))]  # fmt: skip
        ranks = [markdown.at(means, "P"), gain, markdown.at(means, "PSP"), f"{means['R@10']:.2f}"]
        names = ["", f"**{name}**"] if group == DEFAULT else [group, name]
        rows.append([*names, *ranks, *costs, str(len(runs))])
    head = (
        "| | choice | P@1/3/5 | gain in P@5 | PSP@1/3/5 | R@10 | index, CPU-s | rankers, CPU-s | "
        "batch, CPU-ms a row | model, MB | seeds |"
    )
    return markdown.table(head, rows)


def verdict(records: list[Record]) -> list[str]:
    """Which choices are better, or worse, than the default on every set and with every seed."""
    better, worse = [], []
    for group, name in dict.fromkeys(key for record in records for key in _names(record["runs"])):
        found = [(_of(r["runs"], group, name), _of(r["runs"], DEFAULT, DEFAULT)) for r in records]
        gains = [gain for runs, usual in found for gain in _gains(runs, usual)]
        if group in (DEFAULT, KEPT) or not gains:
            continue
        shown = f"{group}: {name}"
        better += [shown] if min(gains) > 0 else []
        worse += [shown] if max(gains) < 0 else []
    lists = (("Better", better), ("Worse", worse))
    return [
        f"- {word} in P@5 than the default with every seed on every set where it was measured: "
        f"{'; '.join(names) if names else 'no choice'}."
        for word, names in lists
    ]


def kept_table(records: list[Record]) -> list[str]:
    """How many features of a label PIFA keeps."""
    rows = []
    for record in records:
        for name in ("16", "64", "256", "1,024", "4,096", "all"):
            group, own = (DEFAULT, DEFAULT) if name == "1,024" else (KEPT, name)
            if runs := _of(record["runs"], group, own):
                means, n = _means(runs), len(runs)
                spread = f"{statistics.stdev(run['P@5'] for run in runs):.2f}" if n > 1 else "–"
                costs = [f"{means['index_cpu_s']:.2f}", f"{means['index_mb']:.1f}"]
                ranks = [markdown.at(means, "P"), spread, markdown.at(means, "PSP")]
                rows.append([record["set"], name, *ranks, *costs, str(n)])
    head = (
        "| set | features a label | P@1/3/5 | of P@5 between seeds ± | PSP@1/3/5 | index, CPU-s | index, MB | seeds |"
    )
    return markdown.table(head, rows)


def unreached_table(records: list[Record]) -> list[str]:
    """Both intercepts, for each way of combining."""
    rows = []
    for record in records:
        keys = dict.fromkeys((run["combine"], run["intercept"]) for run in record["runs"])
        for combine, intercept in keys:
            runs = [run for run in record["runs"] if (run["combine"], run["intercept"]) == (combine, intercept)]
            means = _means(runs)
            ranks = [markdown.at(means, "P"), f"{means['R@10']:.2f}/{means['R@100']:.2f}"]
            new = f"{means['new@5']:.1f}/{means['new@100']:.1f}"
            rows.append([record["set"], combine, f"{intercept:g}", *ranks, new, str(len(runs))])
    return markdown.table("| set | combine | intercept | P@1/3/5 | R@10/100 | without rows, of 5/100 | seeds |", rows)


def lookups_table(records: list[Record]) -> list[str]:
    """Microseconds and megabytes of every structure, on each set."""
    heads = ["structure", *(f"{r['set']}: µs a query | MB" for r in records)]
    found = [{run["structure"]: run for run in record["runs"]} for record in records]
    rows = [
        [name, *(f"{runs[name]['us']:.0f} | {runs[name]['index_mb']:.1f}" for runs in found)] for name in found[0]
    ]  # fmt: skip
    sizes = [
        f"{r['set']}: {r['runs'][0]['entries']:,} entries, {r['runs'][0]['n_features']:,} features, "
        f"{r['runs'][0]['features_a_query']:.0f} a query"
        for r in records
    ]  # fmt: skip
    return [f"{'; '.join(sizes)}.", "", *markdown.table(heads, rows)]


def batches_table(records: list[Record]) -> list[str]:
    """Microseconds of every contender on each set, and the ratio."""
    names = [run["contender"] for run in records[0]["runs"]]
    rows = []
    for record in records:
        by_name = {run["contender"]: run for run in record["runs"]}
        cells = []
        for name in names:
            each = sorted(1e3 * row["cpu_ms_per_row"] for row in by_name[name]["raw"])
            cells.append(f"{statistics.median(each):.1f} ({each[0]:.1f}–{each[-1]:.1f})")
        ratio = by_name["libpecos"]["cpu_ms_per_row"] / by_name["sylvan"]["cpu_ms_per_row"]
        rows.append([record["set"], *cells, f"{ratio:.1f}"])
    return markdown.table(["set", *names, "ratio"], rows)
