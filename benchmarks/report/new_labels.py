"""The tables of new labels that are learned with a model's own rows, and without any."""

from __future__ import annotations

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["NEW_LABELS", "new_labels_table"]

NEW_LABELS = (
    "By `python -m benchmarks.linear.new_labels`: a tenth of the labels are hidden from a first training, then learned "
    "from ten rows each, or all there are; all at once, or a hundred of them one after the other, each in an update of "
    "its own. Rows that have a hidden label otherwise are left out. P@1/3/5 is that of all labels, R@10 that of the "
    "new ones, and the last but one column their share of the five best answers. \"Without stand-ins\" is what an "
    "update without rows would give if nothing stood in for the rows of known labels."
)


def new_labels_table(record: Record) -> list[str]:
    """What ``new_labels.py`` measured of one set."""
    rows = []
    for part, ways in record["parts"].items():
        for way, found in ways.items():
            recall = "–" if way == "before" else f"{found['recall_new']:.1f}"
            spent = "–" if way == "before" else f"{found['cpu_s']:.2f}"
            precision = "/".join(f"{value:.2f}" for value in found["P"])
            rows.append([part, way, precision, recall, f"{found['new_in_top']:.1f}%", spent])
    sizes = (
        f"{record['known']:,} labels known by {record['first_rows']:,} rows; {record['new']:,} new ones with "
        f"{record['new_rows']:,} rows."
    )
    head = "| new labels come | learned | P@1/3/5 | R@10 of new labels | new labels in the best five | CPU-s |"
    return [sizes, "", *markdown.table(head, rows)]
