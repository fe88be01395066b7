"""The section of docs/results.md that ``ablation.py`` fills, beside the figures of the paper."""

from __future__ import annotations

from typing import Any

__all__ = ["ablation_section"]

# Yu, Zhong, Zhang, Chang & Dhillon (2022), Table 6: Prec@1/3/5 by trees and branching. The random clusters of
# Eurlex-4K stand in Section 6.4, which doesn't say how many trees.
PAPER = {
    "Eurlex-4K": {
        (3, 2): "81.47/69.13/57.87", (3, 8): "81.79/69.30/58.04", (3, 32): "82.07/69.61/58.23",
        (1, 32): "82.48/68.83/57.61",
    },
    "Wiki10-31K": {
        (3, 2): "84.19/72.57/63.39", (3, 8): "84.40/72.87/64.09", (3, 32): "84.55/73.02/64.24",
        (1, 32): "84.14/72.85/64.09",
    },
    "Wiki-500K": {
        (3, 2): "68.44/49.28/38.58", (3, 8): "68.27/49.19/38.50", (3, 32): "68.12/49.07/38.39",
        (1, 32): "66.60/47.67/37.19",
    },
}  # fmt: skip
PAPER_RANDOM = {"Eurlex-4K": "79.3/67.1/55.9"}
WORDS = (
    "By `benchmarks/ablation.py`, as in Section 6.4 of PECOS: P@1/3/5 by the number of trees T and the branching B, "
    "with TFN, beam 10 and leaves of up to 100 labels (the paper gives no leaf size; these give its depths). CPU "
    "seconds of all threads, one run. The paper's figures stand "
    "beside ours as it prints them; they are of **other sets** (its Eurlex-4K has 15,449 training rows and 3,956 "
    "labels), so what compares is how a column changes from line to line, not one column with another. Where the "
    "paper has no figure there is a dash; its random clusters are reported without a number of trees."
)


def ablation_section(records: list[dict[str, Any]]) -> list[str]:
    """The lines of the section; none where nothing was measured."""
    if not records:
        return []
    heads = [f"{r['set']}: depth | P@1/3/5 | training, CPU-s | ranking, CPU-s" for r in records]
    heads += [f"paper's {name}" for name in PAPER]
    width = 3 + 4 * len(records) + len(PAPER)
    lines = ["", "## Branching, trees and clusters", "", WORDS, ""]
    lines += ["| T | B | clusters | " + " | ".join(heads) + " |", "|---" * width + "|"]
    found = [{_key(run): run for run in record["runs"]} for record in records]
    keys = dict.fromkeys(key for runs in found for key in runs)
    for key in sorted(keys, key=lambda key: (key[2], -key[0], key[1])):
        n_trees, branching, random = key
        cells = [_cells(runs.get(key)) for runs in found]
        cells += [
            (PAPER_RANDOM.get(name, "–") if n_trees == 1 else "–") if random else table.get((n_trees, branching), "–")
            for name, table in PAPER.items()
        ]
        lines.append(f"| {n_trees} | {branching} | {'random' if random else 'PIFA'} | " + " | ".join(cells) + " |")
    return lines


def _key(run: dict[str, Any]) -> tuple[int, int, bool]:
    return run["n_trees"], run["branching"], run.get("clustering") == "random"


def _cells(run: dict[str, Any] | None) -> str:
    if run is None:
        return "– | – | – | –"
    precision = "/".join(f"{run[f'P@{k}']:.2f}" for k in (1, 3, 5))
    return f"{run['depth']} | {precision} | {run['train_cpu_s']:.2f} | {run['rank_cpu_s']:.2f}"
