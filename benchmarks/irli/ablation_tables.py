"""IRLI's ablations for docs/results/: one thing changed at a time, and learning looked at round by round."""

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
                 "votes of a neighbour", "two open the same other, times chance", "load deviation", "largest bucket",
                 "moved in the last round", "affinity before and after it",
                 "training, CPU-s")  # fmt: skip
        table = []
        for run in rows:
            found = {way: at_recall(of_way(run, way)) for way in WAYS}
            cells = [f"{run[name]:,}", *(number(point and point["candidates"]) for point in found.values())]
            cells += [number((found["probability"] or {}).get("increments")), number(run.get("in_four"))]
            cells += [number(run["neighbour_votes"], 2), number(run["alike"], 2)]
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
             "affinity before", "affinity after", "load deviation", "recall of all opened", "votes of a neighbour",
             "two open the same other, times chance")  # fmt: skip
    words = (
        "One training, measured after each round, before the final epochs; 10 probes. Round 0 is the hashed partition. "
        "The last column is how often two repetitions open the same vector that is no true neighbour, where 1 is how "
        "often they would by chance."
    )
    rows = []
    for one in rounds:
        found = [at_recall([point for point in one["points"] if point["by"] == way]) for way in WAYS]
        cells = [str(one["number"]), *(number(point and point["candidates"]) for point in found)]
        cells += [number(one["in_four"]), f"{100 * one['moved']:.0f}%" if one["number"] else "–"]
        cells += [number(one.get("affinity_before"), 3), number(one.get("affinity_after"), 3)]
        cells += [number(one["load_deviation"], 1), number(one["recall_of_all"], 3)]
        rows.append([*cells, number(one["neighbour_votes"], 2), number(one["alike"], 2)])
    return ["", words, "", *markdown.table(heads, rows), *_worse(rounds), "", PAPER_FOUR]


def _worse(rounds: list[Record]) -> list[str]:
    """Why more rounds need more candidates, from the figures of the best round and the last."""
    counts = {one["number"]: at_recall([p for p in one["points"] if p["by"] == "probability"]) for one in rounds}
    known = {number: point["candidates"] for number, point in counts.items() if point is not None}
    best = min(known, key=lambda number: known[number], default=None)
    if best is None or best == rounds[-1]["number"]:
        return []
    then, last = next(one for one in rounds if one["number"] == best), rounds[-1]
    votes, alike = last["neighbour_votes"] / then["neighbour_votes"], last["alike"] / then["alike"]
    return [
        "",
        f"The fewest candidates are needed after round {best}. From there to round {last['number']} a true neighbour "
        f"gains {100 * (votes - 1):.0f}% in votes, but two repetitions open the same other vector {alike:.1f} times as "
        "often: all repetitions learn from the same neighbours, so their buckets become alike, and what one mistakes "
        f"for a neighbour the others mistake too. Everything that is opened holds {last['recall_of_all']:.3f} of the "
        f"neighbours ({then['recall_of_all']:.3f} then). The paper's table 4 counts vectors in at least four "
        "repetitions, whichever they are: these rise here as well, from "
        f"{then['in_four']:,.0f} to {last['in_four']:,.0f}, while the search gets worse.",
    ]
