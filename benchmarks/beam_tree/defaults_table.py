"""The table of Beam Tree's defaults on short texts, from ``results/beam_tree_defaults.json``."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks.common import markdown

__all__ = ["defaults_section"]

Record = dict[str, Any]
WITHIN = 0.5  # points below the tuned softmax, at most
NAMES = {
    "before": "default before averages (AdaGrad, rate after half an epoch)",
    "BeamTreeClassifier": "`BeamTreeClassifier()`",
    "CANE-9v10": "the same, 9 candidates",
    "path": "the same, a class's score the sum of its path",
    "paper": "the paper's: sums of paths, 9 candidates, 1 noise",
    "softmax": "softmax over all classes, tuned",
    "NCE-10": "NCE, 10 noises, tuned",
    "XRLinear": "`XRLinear()`",
    "logistic": "one-versus-rest logistic regression (liblinear), tuned",
}
INTRO = (
    "By `python -m benchmarks.beam_tree.defaults`: percent of the test rows whose class is ranked first, and CPU "
    "seconds of `fit` with all its trials, one thread. Mean ± standard deviation over random splits, where there are "
    "several. Softmax and NCE have the optimiser, rate and number of epochs of a grid that were best on a tenth of the "
    "first split's training rows, logistic regression the best of three factors of l2; their seconds are of one "
    "training with them, without the search. The rows of path sums have the default's tree and trials."
)


def defaults_section(folder: Path) -> list[str]:
    """A table for each set; nothing where nothing was measured."""
    book = markdown.book(folder / "beam_tree_defaults.json")
    runs = [run for run in (book or {}).get("runs", []) if run["step"] == "train"]
    if book is None or not runs:
        return []
    lines = ["", "### Defaults on short texts", "", INTRO]
    for name in dict.fromkeys(run["set"] for run in runs):
        lines += _table(name, [run for run in runs if run["set"] == name])
    return [*lines, "", markdown.taken(book)]


def _table(name: str, runs: list[Record]) -> list[str]:
    one = runs[0]
    kind = "dense" if one["dense"] else "sparse"
    rows = []
    groups = {key: [run for run in runs if run["contender"] == key] for key in NAMES}
    for key, group in groups.items():
        if group:
            optimizers = dict.fromkeys(run["optimizer"] for run in group if "optimizer" in run)
            rows.append([
                NAMES[key], str(len(group)), _mean(group, "accuracy", 2), _mean(group, "cpu_s", 1),
                ", ".join(optimizers) or "–", _mean(group, "passes", 0).split(" ")[0],
                _mean(group, "coverage", 1).split(" ")[0],
            ])  # fmt: skip
    heads = ("", "splits", "right, %", "CPU-s", "optimiser", "epochs", "coverage, %")
    size = f"{one['rows']:,} rows of {one['n_features']:,} features, {kind}, {one['n_classes']:,} classes"
    return ["", f"{name}: {size}.", "", *markdown.table(heads, rows), *_verdict(groups)]


def _mean(group: list[Record], key: str, digits: int) -> str:
    return markdown.mean([run[key] for run in group if run.get(key) is not None], digits, ",")


def _verdict(groups: dict[str, list[Record]]) -> list[str]:
    """How far the default is from the tuned softmax, over the splits that both have."""
    theirs = {run["seed"]: run["accuracy"] for run in groups["softmax"]}
    gaps = [run["accuracy"] - theirs[run["seed"]] for run in groups["BeamTreeClassifier"] if run["seed"] in theirs]
    if not gaps:
        return []
    gap = statistics.mean(gaps)
    verdict = "reached" if gap >= -WITHIN else "missed"
    return ["", f"The default beside the tuned softmax: {gap:+.2f} points; wanted at least -{WITHIN:g}: {verdict}."]
