"""What a hundred million vectors over eight machines would take, on paper, from what a million took."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["section"]

VECTORS, MACHINES, DIM = 100_000_000, 8, 96
REPETITIONS, HIDDEN, PROBES, CANDIDATES = 4, 1024, 8, 10_000  # four networks a machine, as in the paper's section 5.3
QUERIES, EPOCHS, ROUNDS = 1_000_000, 20, 3  # of training, on each machine
FLOAT = 4  # bytes


def section(runs: list[dict[str, Any]]) -> list[str]:
    """A table, from the largest row of ours; nothing where that is below 100,000 vectors."""
    ours = [run for run in runs if run["contender"] == "irli" and run["base"] >= 100_000 and "parts" in run]
    if not ours:
        return []
    run = max(ours, key=lambda run: run["base"])
    rows = [f"| {what} | {value} |" for what, value in estimate(run).items()]
    return [
        "", "### On paper: 100 million vectors over eight machines", "",
        f"Each machine has {VECTORS // MACHINES:,} vectors of {DIM} dimensions, {REPETITIONS} repetitions of "
        f"{buckets():,} buckets and networks of hidden size {HIDDEN:,}, trained on {QUERIES:,} queries for {EPOCHS} "
        f"epochs with {ROUNDS} repartitions; a query goes to all machines, with {PROBES} probes and {CANDIDATES:,} "
        f"candidates on each. Rates are those of one thread at {run['base']:,} vectors above, and nothing but the "
        "arithmetic was done; a threads' worth of them is to be divided by the threads of a machine.", "",
        "| on each machine | |", "|---|---|", *rows,
    ]  # fmt: skip


def buckets() -> int:
    """As ``n_buckets="auto"`` has it."""
    return int(2 ** round(math.log2(0.8 * math.sqrt(VECTORS // MACHINES))))


def estimate(run: dict[str, Any]) -> dict[str, str]:
    """The table's lines."""
    parts, anew, size = run["parts"], run["repartition"], run["base"]
    n_buckets, n = buckets(), VECTORS // MACHINES
    measured = run["points"][0]["scoring"] * run["dimensions"]  # multiplications of a query's scores
    rate = size * measured / anew["affinity_s"]
    network = REPETITIONS * HIDDEN * (DIM + n_buckets)
    placing = anew["placing_s"] / (size * run["n_repetitions"])
    counter = parts["counting_ms"] / parts["increments"]
    distance = parts["ranking_ms"] / parts["candidates"]
    increments = REPETITIONS * PROBES * n / n_buckets
    hours = {
        "exact neighbours of the training queries": QUERIES * n * DIM / rate,
        "training": 3 * QUERIES * EPOCHS * network / rate,
        "repartitions": ROUNDS * (n * network / rate + n * REPETITIONS * placing),
    }
    query = {"networks": 1e3 * network / rate, "counting": increments * counter, "distances": CANDIDATES * distance}
    lines = {
        "vectors": f"{n * DIM * FLOAT / 1e9:.1f} GB",
        "buckets": f"{2 * n * REPETITIONS * FLOAT / 1e9:.2f} GB",
        "networks": f"{network * FLOAT / 1e6:.0f} MB",
    }
    lines |= {what: f"{seconds / 3600:.1f} hours of a thread" for what, seconds in hours.items()}
    told = ", ".join(f"{what} {value:.2f}" for what, value in query.items())
    return lines | {"a query, milliseconds of a thread": f"{sum(query.values()):.2f} ({told})"}
