"""The tables of new labels that come to a trained IRLIClassifier."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["updates_section"]

INTRO = (
    "By `python -m benchmarks.irli.updates`: a tenth of the labels are hidden from a first training with the defaults, "
    "then learned from ten rows each, or all there are; all at once, or ten of them one after the other, each in an "
    "update of its own. P@1/3/5 is that of all test rows, and of those that have no new label; R@1/5/10 is the share "
    "of new labels that are among the best answers to the rows that have them; the last but one column is the share of "
    "new labels in the best five answers. An update takes 8 epochs, 2 known rows in each for each new one (500 at "
    "least), and places a new label in one of 30 buckets (3 times `choices`); without known rows, it takes 4 epochs. "
    "Below it, one of these is changed at a time. \"Places alone\": the networks don't learn on. One thread."
)

LATER = (
    "Where a fifth of the rows come later, in four updates, with labels that are known and all rows before beside, or "
    "none:"
)


def updates_section(folder: Path) -> list[str]:
    """What ``updates.py`` measured."""
    book = markdown.book(folder / "irli_updates.json")
    if book is None:
        return []
    lines = ["", "### Labels that come to learned partitions", "", INTRO]
    for run in book["runs"]:
        sizes = (
            f"{run['set']}: {run['known']:,} labels known by {run['first_rows']:,} rows; {run['new']:,} new ones with "
            f"{run['new_rows']:,} rows."
        )
        lines += ["", sizes, "", *_table(run)]
    lines += ["", LATER, "", *_later(book["runs"])]
    return [*lines, "", markdown.taken(book)]


def _table(run: Record) -> list[str]:
    heads = ["new labels come", "model", "P@1/3/5", "P@1/3/5, rows without new labels", "R@1/5/10 of new labels",
             "new labels in the best five", "CPU-s"]  # fmt: skip
    rows = []
    for part, ways in run["parts"].items():
        for way, found in ways.items():
            known = way == "before"
            cells = ["/".join(f"{value:.2f}" for value in found[name]) for name in ("P", "P_known")]
            cells.append("–" if known else "/".join(f"{value:.1f}" for value in found["R_new"]))
            cells += ["–" if known else f"{found['new_in_top']:.1f}%", "–" if known else f"{found['cpu_s']:.1f}"]
            rows.append([part, way, *cells])
    return markdown.table(heads, rows)


def _later(runs: list[Record]) -> list[str]:
    heads = ["set", "model", "P@1/3/5", "CPU-s"]
    rows = []
    for run in runs:
        found = run["rows_later"]
        for way in ("before", "update", "update, without known rows", "trained anew"):
            precision = "/".join(f"{value:.2f}" for value in found[way]["P"])
            rows.append([run["set"], way, precision, f"{found[way]['cpu_s']:.1f}"])
    return markdown.table(heads, rows)
