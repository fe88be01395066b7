"""The section of docs/results/ on small faults that tests should notice."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import Record, book, table, taken
from benchmarks.mutation.areas import AREAS

__all__ = ["mutation_section"]


def mutation_section(folder: Path) -> list[str]:
    """A row for each area that was tried; nothing without one."""
    records = [record for area in AREAS if (record := book(folder / f"mutation-{area}.json")) and record["trials"]]
    if not records:
        return []
    rows = [_row(record["area"], [record]) for record in records]
    unexplained = [survivor for record in records for survivor in record["survivors"] if not survivor["reason"]]
    lines = [
        "", "## Faults that tests notice", "",
        "Small faults in the Python sources, one at a time (another operator, number or comparison, a loop that isn't "
        f"entered, and so on; {records[0]['tool']}), and tests that reach it run against each, a minute at most, "
        "and those that are marked as slow where quick ones noticed nothing in `neural` and `data`. "
        "Faults are a random sample of the places where one can be made; a survivor may fail in one that didn't run. "
        "Noticed at first: by the tests as they were. No test can notice a fault that changes nothing "
        "but speed, memory or a default value: `mutation-*.json` says why of each.",
        "",
        *table(
            ["", "places", "faults tried", "noticed at first", "noticed now", "survive with a reason", "without one"],
            [*rows, _row("all", records)],
        ),
    ]  # fmt: skip
    if unexplained:
        lines += ["", "Without a reason: " + "; ".join(f"`{each['path']}` `{each['after']}`" for each in unexplained)]
    return [*lines, "", taken(records[0])]


def _row(name: str, records: list[Record]) -> list[str]:
    def count(when: str) -> int:
        return sum(number for record in records for what, number in record[when].items() if what != "survived")

    tried = sum(record["tried"] for record in records)
    unexplained = sum(record["without_a_reason"] for record in records)
    return [
        name, f"{sum(record['places'] for record in records):,}", str(tried), _share(count("at_first"), tried),
        _share(count("now"), tried), str(tried - count("now") - unexplained), str(unexplained),
    ]  # fmt: skip


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.0f}%)"
