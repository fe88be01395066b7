"""IRLI's ablations for docs/results.md: one thing changed at a time, and learning looked at round by round."""

from __future__ import annotations

import math
import statistics
from typing import Any

from benchmarks.common import markdown
from benchmarks.irli.points import WAYS, at_recall, number, of_way

__all__ = ["ABLATED", "drawn_deviation", "section", "varied", "watched"]

Record = dict[str, Any]
ABLATED = {
    "rounds": ("Rounds", "rounds"),
    "choices": ("Choices (K)", "choices"),
    "room": ("Room (soft capacity, in mean loads)", "room"),
    "n_repetitions": ("Repetitions (R)", "repetitions"),
    "hidden": ("Hidden size", "hidden"),
    "n_neighbors": ("Neighbours of a training query", "neighbours"),
    "n_buckets": ("Buckets (B)", "buckets"),
}
PAPER_LOADS = "The paper's table 3 (GloVe, its own load): random 15.3, K = 5 17.08, K = 10 2.66, K = 25 0.46."
PAPER_FOUR = (
    "The paper's table 4 (GloVe, candidates in at least four of 32 repetitions after 5, 10, ... 30 epochs): 5,011, "
    "19,151, 36,252, 43,605, 47,072, 48,969."
)


def _usual(runs: list[Record]) -> Record:
    """What a thing is where it isn't changed."""
    return {key: statistics.mode([run[key] for run in runs]) for key in ABLATED}


def watched(runs: list[Record]) -> list[Record]:
    """The rounds of the row that was looked at after each."""
    return next((run["watched"] for run in runs if run["contender"] == "irli-rounds"), [])


def varied(runs: list[Record], name: str) -> list[Record]:
    """The rows in which nothing but ``name`` is changed, in its order."""
    runs = [run for run in runs if run["contender"] == "irli"]
    usual = _usual(runs)
    rows = [run for run in runs if all(run[key] == usual[key] for key in ABLATED if key != name)]
    return sorted(rows, key=lambda run: run[name])


def section(runs: list[Record]) -> list[str]:
    if not any(run["contender"] == "irli" for run in runs):
        return []
    usual = _usual([run for run in runs if run["contender"] == "irli"])
    shown = ", ".join(f"{key} {value}" for key, value in usual.items())
    lines = ["", f"### Ablations, {runs[0]['set']}", "", f"Where it isn't what is changed: {shown}.", ""]
    for name, (head, _) in ABLATED.items():
        rows = varied(runs, name)
        if len(rows) < 2:
            continue
        heads = (head, *(f"candidates {words}" for words in WAYS.values()), "counters", "in four or more, 10 probes",
                 "load deviation", "largest bucket", "moved in the last round", "affinity before and after it",
                 "training, CPU-s")  # fmt: skip
        table = []
        for run in rows:
            found = {way: at_recall(of_way(run, way)) for way in WAYS}
            cells = [f"{run[name]:,}", *(number(point and point["candidates"]) for point in found.values())]
            cells += [number((found["probability"] or {}).get("increments")), number(run.get("in_four"))]
            last = run["rounds_told"][-1] if run.get("rounds_told") else {}
            gain = [last.get(key) for key in ("affinity_before", "affinity_after")]
            cells += [number(run["load_deviation"], 1), number(run["largest_bucket"])]
            cells.append("–" if last.get("moved") is None else f"{100 * last['moved']:.0f}%")
            cells.append("–" if None in gain else f"{gain[0]:.3f} → {gain[1]:.3f}")
            table.append([*cells, f"{run['build']['cpu_s']:.0f}"])
        lines += ["", *markdown.table(heads, table)]
    lines += ["", f"{PAPER_LOADS} {_random(runs[0]['vectors'], usual['n_buckets'])}"]
    lines += _round_by_round(watched(runs))
    return [*lines, "", "![Ablations](figures/irli_ablation.svg)"]


def _random(n_vectors: int, n_buckets: int) -> str:
    return (
        f"A map that is drawn at random has {drawn_deviation(n_vectors, n_buckets):.1f} here, by the binomial "
        "distribution; the hash that learning begins with spreads consecutive ids more evenly."
    )


def drawn_deviation(n_vectors: int, n_buckets: int) -> float:
    """The load deviation to expect of buckets that are drawn: a load is then binomially distributed."""
    return math.sqrt(n_vectors / n_buckets * (1 - 1 / n_buckets))


def _round_by_round(rounds: list[Record]) -> list[str]:
    """The paper's table 4 and figure 4, of one training."""
    if not rounds:
        return []
    heads = ("round", *(f"candidates {words}" for words in WAYS.values()), "in four or more", "moved",
             "affinity before", "affinity after", "load deviation")  # fmt: skip
    words = (
        "One training, measured after each round, before the final epochs; 10 probes. Round 0 is the hashed partition."
    )
    rows = []
    for one in rounds:
        found = [at_recall([point for point in one["points"] if point["by"] == way]) for way in WAYS]
        cells = [str(one["number"]), *(number(point and point["candidates"]) for point in found)]
        cells += [number(one["in_four"]), f"{100 * one['moved']:.0f}%" if one["number"] else "–"]
        cells += [number(one.get("affinity_before"), 3), number(one.get("affinity_after"), 3)]
        rows.append([*cells, number(one["load_deviation"], 1)])
    return ["", words, "", *markdown.table(heads, rows), "", PAPER_FOUR]
