"""The section of docs/results.md on CANE's language model."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from report_cane_epochs import cane_epochs_section

__all__ = ["cane_section", "cane_tables"]

Found = dict[tuple[str, float], dict[int, tuple[float, float | None]]]


def cane_section(folder: Path) -> list[str]:
    """What ``cane.py`` found."""
    path, epochs = folder / "cane_language_model.json", cane_epochs_section(folder)
    if not path.exists():
        return epochs
    intro = (
        "By `benchmarks/cane.py`: an LSTM's validation perplexity on Penn Treebank with candidates and noises (Han and "
        "others, arXiv 1711.00658, Section 5) beside its rivals with 40 unigram noises, Adagrad on both tables at the "
        "rate given; mean ± standard deviation where there are several seeds. A name tells how subsets learn "
        "(`path`: their scores are part of the class's; `own`), how words are split (`mass`, `count`) into how many, "
        "whether what the best subset lacks is filled up from the next ones (`fill`), the noise, candidates "
        "against noises, and `together` where all noises of a query stand in one sum, which is an extension of ours. "
        "`frequent` takes the most frequent words for candidates, `best` and `softmax` look at all scores. Coverage is "
        "how often the word itself was a candidate."
    )
    reading = (
        "So the paper's claim, near the softmax and better than NCE and BlackOut, doesn't hold here as we read the "
        "paper (the best subset's words drawn uniformly, one noise): the word is too seldom a candidate. With the "
        "subsets filled up and several noises in one sum it is level with both rivals."
    )
    runs = json.loads(path.read_text())["runs"]
    return ["", "## Candidates against noises", "", intro, *cane_tables(runs), "", reading, *epochs]


def cane_tables(runs: list[dict[str, Any]]) -> list[str]:
    """A table for each number of steps, the best first."""
    # A longer run passes through a shorter one's mark with the same figures: each seed once.
    by_mark: dict[int, Found] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        for mark, value in run["perplexity"].items():
            by_mark[int(mark)][run["setting"], run["rate"]][run["seed"]] = value, run["coverage"]
    lines = []
    for mark, found in sorted(by_mark.items()):
        lines += ["", f"After {mark:,} steps:", "", "| setting | rate | seeds | perplexity | coverage |"]
        lines.append("|---|---|---|---|---|")
        rows = [(name, rate, list(seeds.values())) for (name, rate), seeds in found.items()]
        for name, rate, seeds in sorted(rows, key=lambda row: statistics.mean(value for value, _ in row[2])):
            values, covered = [value for value, _ in seeds], [share for _, share in seeds if share is not None]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            share = f"{statistics.mean(covered):.2f}" if covered else ""
            lines.append(f"| {name} | {rate:g} | {len(values)} | {statistics.mean(values):.1f}{spread} | {share} |")
    return lines
