"""The section of docs/results/ on baskets."""

from __future__ import annotations

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["BASKETS", "baskets_table"]

BASKETS = (
    "By `python -m benchmarks.linear.baskets`, on one thread: a user's items are a basket, and of some baskets one "
    "item is hidden and to be found from those that are left. The settings of every contender, item-kNN's too, were "
    "chosen from a grid (it is in the JSON, with what each setting finds) by nDCG@10 on a fifth of the baskets, drawn "
    "with a seed. With them it learned from four fifths, and the figures are of the last fifth, which chose nothing. "
    "Behind nDCG@10 is how far that is from item-kNN's, compared basket by basket (95% interval). Where nothing else "
    "is said, Sylvan's models are fitted on (baskets, baskets) and ranked with `denied=seen` "
    "([the tutorial](../tutorials/baskets.md)). Item-kNN is SciPy's: cosines of the items' columns, summed over the "
    "basket; of each item's nearest or all, with a shrinkage that makes those smaller that rest on few baskets, and "
    "from baskets of ones or of unit length."
)


def baskets_table(record: Record) -> list[str]:
    """What ``baskets.py`` measured."""
    rows = []
    for run in record["runs"]:
        chosen = ", ".join(f"{name}={'all' if value is None else value}" for name, value in run["settings"].items())
        ndcg = f"{run['nDCG@10']:.2f}"
        if "gain" in run:
            ndcg += f" ({run['gain'][0]:+.2f} to {run['gain'][1]:+.2f})"
        cells = (f"{run['P@1']:.2f}", f"{run['R@10']:.2f}", ndcg, f"{run['fit_cpu_s']:.2f}", f"{run['row_cpu_ms']:.4f}")
        rows.append([run["model"], f"{chosen}, of {len(run['tried'])}" if chosen else "–", *cells])
    words = (
        f"{record['baskets']:,} baskets of {record['items']:,} items; an item is hidden of {record['choosing']:,} that "
        f"choose and of {record['test']:,} that are reported."
    )
    head = "| | chosen settings, of how many | P@1 | R@10 | nDCG@10 | fit, CPU-s | a basket, CPU-ms |"
    return [words, "", *markdown.table(head, rows)]
