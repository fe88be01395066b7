"""The section on napkinXC and LibMultiLabel: processor time alone, of ``benchmarks.linear.peers --busy``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common import markdown
from benchmarks.report.linear import NAMES, by_order

__all__ = ["more_peers_sections"]

Record = dict[str, Any]
OWN = "sylvan"
COLUMNS = (  # heading, step, figure, digits, and whether less is better
    ("training, CPU-s", "train", "cpu_s", 2, True),
    ("peak memory, MB", "train", "peak_mb", 0, True),
    ("model, MB", "train", "model_mb", 1, True),
    ("batch, CPU-ms a row", "rank", "cpu_ms_per_row", 4, True),
    ("one at a time, CPU-ms", "rank", "cpu_mean_ms", 4, True),
    ("P@1", "rank", "P@1", 2, False),
    ("P@3", "rank", "P@3", 2, False),
    ("P@5", "rank", "P@5", 2, False),
)
WORDS = (
    "By `python -m benchmarks.linear.peers --busy --threads 1`: the same matrices, test rows and settings as above, "
    "on one core, one run each. The machine was very busy meanwhile, so times are those of the processor, not of the "
    "clock; even so they vary by a third or so. They can't be compared with the tables above, which are of another "
    "processor. napkinXC has the settings of the others (a 16-ary tree, the squared hinge, C 1, beam 10). "
    "LibMultiLabel has its defaults: a tree of 100 branches, and no weight is dropped. It ranks 256 rows at once, as "
    "in its own evaluation."
)


def more_peers_sections(folder: Path) -> list[str]:
    """A table a set, where it was measured."""
    records = by_order(folder, "more-peers")
    lines = ["", "## napkinXC and LibMultiLabel", "", WORDS] if records else []
    for record in records:
        heads = ["", *(heading for heading, *_ in COLUMNS)]
        found = [name for name in NAMES if name in record["contenders"]]
        rows = [_row(name, record["contenders"][name]) for name in found]
        title = f"### {record['set']}, with napkinXC and LibMultiLabel"
        lines += ["", title, "", markdown.taken(record), "", *markdown.table(heads, rows), "", _behind(record)]
    return lines


def _row(name: str, contender: Record) -> list[str]:
    """A contender's figures; the reason where there are none."""
    if contender.get("missing"):
        return [NAMES[name], "not installed", *["–"] * (len(COLUMNS) - 1)]
    cells = []
    for _, step, key, digits, _ in COLUMNS:
        value = _figure(contender, step, key)
        cells.append("–" if value is None else f"{value:.{digits}f}")
    error = next((step["error"] for step in contender["median"].values() if "error" in step), None)
    if error is not None:
        cells[cells.index("–")] = f"failed ({error})"
    return [f"{NAMES[name]} {contender['version']}", *cells]


def _figure(contender: Record, step: str, key: str) -> float | None:
    value = contender.get("median", {}).get(f"{step} 1", {}).get(key)
    return None if value is None else float(value)


def _behind(record: Record) -> str:
    """The sentence that says in which column another library is ahead of Sylvan's defaults."""
    contenders = record["contenders"]
    worse = []
    for heading, step, key, digits, less in COLUMNS:
        own = _figure(contenders.get(OWN, {}), step, key)
        if own is None:
            return "Sylvan itself wasn't measured."
        sign = -1 if less else 1
        others = {name: _figure(found, step, key) for name, found in contenders.items() if not name.startswith(OWN)}
        ahead = {name: value for name, value in others.items() if value is not None and sign * value > sign * own}
        if ahead:
            best = max(ahead, key=lambda name: sign * ahead[name])
            worse.append(f"{heading} ({NAMES[best]}, {ahead[best]:.{digits}f} beside {own:.{digits}f})")
    if worse:
        return f"Sylvan's defaults are **behind** in {'; '.join(worse)}."
    return "No other library is ahead of Sylvan's defaults in any of these columns."
