"""The tables of ``benchmarks.linear.peers``: a set's, and all sets' in short, in docs/results/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.report.linear import NAMES, by_order

__all__ = ["peers_sections", "summary"]

PEERS = ("libpecos", "libpecos-matched", "omikuji", "napkinxc")
TOLERANCE = 0.2  # points of precision
Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line of a table: where its figure lies, whom it is compared with, and what is wanted of ``own``."""

    title: str
    step: str
    key: str
    against: tuple[str, ...] = ()
    least: float = 0.0
    aim: float = 0.0
    digits: int = 1
    own: str = "sylvan"


def rows(threads: list[int], single: int) -> list[Row]:
    """The lines of a set's table."""
    lines = []
    for count in threads:
        title = f"training, s, {threads_word(count)}"
        lines.append(Row(title, f"train {count}", "wall_s", PEERS, 2, 4, 2))
        lines.append(Row(f"{title} (fast)", f"train {count}", "wall_s", PEERS, 4, 8, 2, "sylvan-fast"))
        lines.append(Row(f"training, CPU-s, {threads_word(count)}", f"train {count}", "cpu_s", PEERS, digits=2))
    for count in threads:
        title = f"batch, ms a row, {threads_word(count)}"
        lines.append(Row(title, f"rank {count}", "ms_per_row", PEERS, 2, 4, 4))
    lines += [
        Row("one query, p50, ms", f"rank {single}", "p50_ms", PEERS, 3, 6, 4),
        Row("one query, p99, ms", f"rank {single}", "p99_ms", PEERS, 3, 6, 4),
        Row("model on disk, MB", f"train {single}", "model_mb", ("libpecos",), 1 / 0.6, 1 / 0.3),
        Row("loading the model, ms", f"rank {single}", "load_s", PEERS, digits=1),
        Row("peak memory in training, MB", f"train {single}", "peak_mb", ("libpecos",), 1, 2, 0),
        Row("of it before training, MB", f"train {single}", "before_mb", digits=0),
    ]
    for count in threads:
        title = f"raw text to model, s, {threads_word(count)}"
        lines.append(Row(title, f"text {count}", "wall_s", ("libpecos",), 3, 6, 2))
    lines.append(Row("P@1, raw text", f"text {single}", "P@1", digits=2))
    lines += [Row(name, f"rank {single}", name, digits=2) for name in ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")]
    return lines


def threads_word(count: int) -> str:
    """"1 thread", "2 threads"."""
    return f"{count} thread" + ("s" if count > 1 else "")


def figure(record: Record, contender: str, step: str, key: str) -> float | None:
    """One median, or None where it was not measured."""
    found = record["contenders"].get(contender, {}).get("median", {}).get(step, {}).get(key)
    return None if found is None else float(found) * (1e3 if key == "load_s" else 1.0)


def verdict(row: Row, own: float | None, others: list[float]) -> tuple[str, str]:
    """How many times better than the best peer, and how that stands to what is wanted."""
    if own is None or not others or not row.against:
        return "", ""
    ratio = min(others) / own
    text = f"{ratio:.2f}×"
    if ratio < 1:
        text += " **behind**"
    if not row.least:
        return text, ""
    wanted = f"{row.least:.3g}× / {row.aim:.3g}×"
    return text, wanted + (": aim" if ratio >= row.aim else ": least" if ratio >= row.least else ": missed")


def table(record: Record) -> list[str]:
    """One set's table in Markdown."""
    contenders = [name for name in NAMES if name in record["contenders"]]
    measured = [name for name in contenders if not record["contenders"][name].get("missing")]
    heads = [f"{NAMES[name]} {record['contenders'][name]['version']}" for name in measured]
    table_rows = []
    for row in rows(record["threads"], min(record["threads"])):
        values = {name: figure(record, name, row.step, row.key) for name in measured}
        if all(value is None for value in values.values()):
            continue
        others = [value for name in row.against if (value := values.get(name)) is not None]
        cells = ["–" if value is None else f"{value:.{row.digits}f}" for value in values.values()]
        ratio, wanted = verdict(row, values.get(row.own), others)
        table_rows.append([row.title, *cells, ratio, wanted])
    lines = markdown.table("| | " + " | ".join(heads) + " | against the best other | at least / aim |", table_rows)
    missing = [NAMES[name] for name in contenders if name not in measured]
    if missing:
        lines += ["", f"Missing, so not measured: {', '.join(missing)}."]
    return lines + notes(record, measured)


def notes(record: Record, measured: list[str]) -> list[str]:
    """Sentences below a table: precision beside the peers', the gain of a second thread, what failed."""
    lines = [""]
    for name in measured:
        if name in PEERS and "sylvan" in measured:
            worst = worst_gap(record, min(record["threads"]), (name,))
            if worst is not None:
                verdict = "within" if worst >= -TOLERANCE else "**outside**"
                lines.append(f"- P@1/3/5 against {NAMES[name]}: {worst:+.2f} points at worst, {verdict} {TOLERANCE}.")
    if {1, 2} <= set(record["threads"]):
        for title, verb, key in (("Training", "train", "wall_s"), ("Batch ranking", "rank", "ms_per_row")):
            parts = []
            for name in measured:
                one, two = (figure(record, name, f"{verb} {count}", key) for count in (1, 2))
                if one and two:
                    parts.append(f"{NAMES[name]} {one / two:.2f}×")
            if parts:
                lines.append(f"- {title}, speedup with two threads: {', '.join(parts)}.")
    for name in measured:
        for at, found in record["contenders"][name]["median"].items():
            if "error" in found:
                lines.append(f"- {NAMES[name]}, {at}: failed ({found['error']}).")
    return lines


def peers_sections(folder: Path) -> list[str]:
    """A section a set."""
    lines: list[str] = []
    for record in by_order(folder, "peers"):
        machine = record["machine"]
        lines += [
            "",
            f"## {record['set']}",
            "",
            f"{record['rows']:,} training rows, {record['test_rows']:,} test rows, {record['features']:,} features, "
            f"{record['labels']:,} labels. {machine['cpu']}, {machine['cores']} cores, {machine['system']}; "
            f"Python {record['python']}; {record['repeats']} repeat{'s' if record['repeats'] > 1 else ''}; "
            f"{record['date']}.",
            "",
            *table(record),
        ]
    return lines


def summary(folder: Path) -> str:
    """The table of docs/results/index.md: one column a set, one row a goal."""
    records = by_order(folder, "peers")
    if not records:
        return "Nothing has been measured yet."
    words = (
        "How many times better Sylvan, without calibration, is than the best other library (for model size, memory and "
        "raw text: than libpecos); below 1, it is worse."
    )
    lines, threads = [], records[0]["threads"]
    for row in rows(threads, min(threads)):
        if row.least:
            title = row.title
            for unit in (", ms a row", ", ms", ", MB", ", s"):
                title = title.replace(f"{unit},", ",").removesuffix(unit)
            lines.append([title, *(ratio_text(record, row) for record in records)])
    gaps = [worst_gap(record, min(threads)) for record in records]
    lines.append(["P@1/3/5, points, worst case", *("–" if gap is None else f"{gap:+.2f}" for gap in gaps)])
    head = "| | " + " | ".join(record["set"] for record in records) + " |"
    return "\n".join([words, "", *markdown.table(head, lines)])


def ratio_text(record: Record, row: Row) -> str:
    """How many times better than the best peer, as in the table of the set."""
    found = {name: figure(record, name, row.step, row.key) for name in (row.own, *row.against)}
    others = [value for name, value in found.items() if name != row.own and value is not None]
    return verdict(row, found[row.own], others)[0] or "–"


def worst_gap(record: Record, threads: int, peers: tuple[str, ...] = PEERS) -> float | None:
    """The least that Sylvan's P@1, P@3 or P@5 is above a peer's, in points."""
    gaps = []
    for key in ("P@1", "P@3", "P@5"):
        own = figure(record, "sylvan", f"rank {threads}", key)
        others = [figure(record, name, f"rank {threads}", key) for name in peers]
        gaps += [own - other for other in others if own is not None and other is not None]
    return min(gaps, default=None)
