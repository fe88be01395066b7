"""The table of static vectors: votes of nearest rows, cosines to labels' names, PEFA."""

from __future__ import annotations

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["STATIC_VECTORS", "static_vectors_table"]

STATIC_VECTORS = (
    "By `python -m benchmarks.linear.static_vectors`, on one thread: the vectors of all-MiniLM-L6-v2, an encoder "
    "of English, for single tokens, made into a table by model2vec's recipe. TF-IDF and static vectors are "
    "`NeighborRanker`s (30 neighbours) on either; the means of probabilities give either of \"both\" a half, and "
    "neighbours beside a tree a tenth in all. PEFA (arXiv 2312.02429) adds, in its variant XL, the mean cosine of "
    "the 32 nearest rows to the cosine to a label's name, which has the share that is named; in XS a label's "
    "vector is such a mean of its name's and its rows'. The preset `best` has two more columns: how near a "
    "label's name is to the text. CPU time of static vectors' neighbours is without that of encoding."
)


def static_vectors_table(record: Record) -> list[str]:
    """What ``static_vectors.py`` measured of one set."""
    rows = []
    for run in record["runs"]:
        costs = [
            f"{run[key]:.{digits}f}" if key in run else "–"
            for key, digits in (("fit_cpu_s", 1), ("rank_cpu_ms", 3), ("alone_cpu_ms", 2))
        ]
        rows.append([run["what"], markdown.at(run, "P"), f"{run['PSP@5']:.2f}", *costs])
    head = "| labels are found by | P@1/3/5 | PSP@5 | fit, CPU-s | batch, CPU-ms a row | alone, CPU-ms |"
    about = (
        f"{record['dim']} dimensions, {record['mb']:.1f} MB; a text was encoded in {record['encoding_cpu_us']:.0f} "
        "CPU-µs, one of many."
    )
    return [*markdown.table(head, rows), "", about]
