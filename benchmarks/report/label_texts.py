"""The tables of texts of labels: as training rows, and where labels have no other rows."""

from __future__ import annotations

from statistics import fmean

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["LABEL_TEXTS", "NAME_ROWS", "label_texts_table", "name_rows_table"]

NAME_ROWS = (
    "By `python -m benchmarks.linear.name_rows`: `TextModel(model=XRLinear(n_jobs=1))` without texts of labels, with "
    "what its labels are called, and with what others are called, in a random order: `fit` refuses these, and the "
    "last row of each three is what they would do. Likeness is the mean product of the features of held-out rows with "
    "those of their labels' texts, and by chance, which decides. Promised is the sum of the probabilities of five "
    "answers, divided by how many are right. In percent; means of three draws of rows, but for all rows."
)
LABEL_TEXTS = (
    "By `python -m benchmarks.linear.label_texts`: a tenth of the labels have a text (the names of concepts in "
    "eurlex57k, the headings themselves in gutenberg) and no training row. Recall@10 of labels with rows (seen) and "
    "without (unseen), in rankings of all labels, and of the unseen ones among themselves; P@5 counts answers that are "
    "right among labels with rows, or among all. In percent, means of draws of the labels; the others' rankings order "
    "all labels by that one thing, but for the nearest seen labels, whose scores are added to those of the tree."
)
FIGURES = ("P@1", "P@3", "P@5", "macro recall@5", "promised", "right", "cpu_s")


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
        promise = f"{means['promised'] / means['right']:.2f}"
        rows.append([f"{n_rows:,}", names, likeness, are_rows, markdown.at(means, "P"), recall, promise, seconds])
    head = "| rows | names | likeness, by chance | are rows | P@1/3/5 | macro recall@5 | promised | fit, CPU-s |"
    return markdown.table(head, rows)


def label_texts_table(record: Record) -> list[str]:
    """What ``label_texts.py`` measured."""
    draws, rows = record["seeds"], []
    for at, ranking in enumerate(draws[0]["rankings"]):
        each = [draw["rankings"][at] for draw in draws]
        cells = ["seen_recall", "unseen_recall", "recall_among_unseen", "seen_P5", "P5"]
        means = [f"{fmean(one[cell] for one in each):.2f}" if cell in each[0] else "–" for cell in cells]
        rows.append([ranking["what"], *means])
    head = "| labels are found by | recall@10, seen | unseen | unseen among themselves | P@5, seen | P@5 |"
    spent = [fmean(draw["fit_cpu_s"][at] for draw in draws) for at in (0, 1)]
    asked = [fmean(draw["query_ms"][what] for draw in draws) for what in ("without texts", "texts (default)")]
    unseen = fmean(draw["unseen"] for draw in draws)
    about = (
        f"{len(draws)} draws, with {unseen:.0f} of {draws[0]['labels']:,} labels unseen. Training took {spent[0]:.1f} "
        f"CPU-s without texts and {spent[1]:.1f} with them, a query of one text {asked[0]:.2f} and {asked[1]:.2f} ms."
    )
    for encoder, seconds in draws[0].get("encoder_fit_cpu_s", {}).items():
        query = draws[0]["query_ms"][f"texts and {encoder}"]
        about += f" With {encoder} it took {seconds:.0f} CPU-s and {query:.2f} ms (first draw)."
    return [*markdown.table(head, rows), "", about]
