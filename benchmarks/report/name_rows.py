"""The tables of what labels are called as training rows."""

from __future__ import annotations

from statistics import fmean

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["NAME_ROWS", "name_rows_table"]

NAME_ROWS = (
    "By `python -m benchmarks.linear.name_rows`: `TextModel(model=XRLinear(n_jobs=1))` without texts of labels, with "
    "what its labels are called, and with what others are called, in a random order: `fit` refuses these, and the "
    "last row of each three is what they would do. Likeness is the mean product of the features of held-out rows with "
    "those of their labels' texts, and by chance, which decides. In percent; means of three draws of rows, but for all "
    "rows."
)
FIGURES = ("P@1", "P@3", "P@5", "macro recall@5", "cpu_s")


def name_rows_table(record: Record) -> list[str]:
    """What ``name_rows.py`` measured of one set."""
    groups: dict[tuple[int, str], list[Record]] = {}
    for run in record["runs"]:
        groups.setdefault((run["n_rows"], run["names"]), []).append(run)
    rows = []
    for (n_rows, names), runs in groups.items():
        means = {figure: fmean(run[figure] for run in runs) for figure in FIGURES}
        likeness = "–"
        if "likeness" in runs[0]:
            likeness = " / ".join(f"{fmean(run[key] for run in runs):.4f}" for key in ("likeness", "chance"))
        are_rows = f"{sum(run['are_rows'] for run in runs)} of {len(runs)}"
        recall, seconds = f"{means['macro recall@5']:.2f}", f"{means['cpu_s']:.2f}"
        rows.append([f"{n_rows:,}", names, likeness, are_rows, markdown.at(means, "P"), recall, seconds])
    head = "| rows | names | likeness, by chance | are rows | P@1/3/5 | macro recall@5 | fit, CPU-s |"
    return markdown.table(head, rows)
