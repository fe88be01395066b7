"""The sections of docs/results/ on forms and parts of words."""

from __future__ import annotations

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["WORD_FORMS", "WORD_PARTS", "word_forms_table", "word_parts_table"]

WORD_FORMS = (
    "By `python -m benchmarks.linear.word_forms`, on one thread: the vectoriser alone, the first time and again, when "
    "each word has been looked up, in MB of text per CPU-second; then the default model from raw texts. The last "
    "column is P@5 less that of words as they are, with half the width of its 95% interval."
)
WORD_PARTS = (
    "By `python -m benchmarks.linear.word_parts`, on one thread: models that keep their rows (`keep_rows=True`), and "
    "so learn later ones, of words or of parts of words (`analyzer=\"char_wb\", ngrams=(3, 5)`), without and with the "
    "labels' names as training rows (`label_texts`, in Finnish). Sizes are with the rows."
)


def word_forms_table(record: Record) -> list[str]:
    """What ``word_forms.py`` measured."""
    rows = []
    for run in record["runs"]:
        name = f"{run['settings']} ({run['library']})" if run["library"] else run["settings"]
        speeds = [f"{run['first_mb_s']:.1f}", f"{run['again_mb_s']:.1f}", f"{run['alone_cpu_ms']:.3f}"]
        more = f"{run['P@5_more']:+.2f} ±{run['P@5_half_width']:.2f}" if "P@5_more" in run else "–"
        costs = [f"{run['train_cpu_s']:.2f}", f"{run['model_mb']:.1f}"]
        rows.append([name, f"{run['terms']:,}", *speeds, *costs, markdown.at(run, "P"), markdown.at(run, "PSP"), more])
    return markdown.table(
        "| counted | terms | MB/s, first | MB/s, again | one text, CPU-ms | training, CPU-s | model, MB | P@1/3/5 | "
        "PSP@1/3/5 | P@5, more |",
        rows,
    )


def word_parts_table(record: Record) -> list[str]:
    """What ``word_parts.py`` measured."""
    rows = [
        [run["features"], "with" if run["named"] else "without", markdown.at(run, "P"), f"{run['train_cpu_s']:.1f}",
         f"{run['rank_cpu_ms']:.3f}", f"{run['model_mb']:.1f}"]
        for run in record["runs"]
    ]  # fmt: skip
    return markdown.table("| counted | names | P@1/3/5 | train, CPU-s | rank, CPU-ms a text | MB |", rows)
