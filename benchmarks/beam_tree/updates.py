"""Classes that come later: 60% are known first, the others arrive with their rows; beside training anew. JSON out.

``python -m benchmarks.beam_tree.updates --data DATA``
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beam_tree import sets
from benchmarks.common import measure, records
from sylvan import BeamTreeClassifier

KNOWN, SEEDS = 0.6, 3


def measured(found: sets.ClassSet, seed: int, n_jobs: int) -> dict[str, Any]:
    """One seed's figures of one set: percent right of all test rows, of those of first classes, and of the others."""
    random = np.random.default_rng(seed)
    number = random.permutation(found.n_classes)
    n_known = int(KNOWN * found.n_classes)
    y, y_test = number[found.y], number[found.y_test]
    first, later = np.flatnonzero(y < n_known), np.flatnonzero(y >= n_known)
    beside = random.permutation(first)[: len(later)]
    settings = {"n_jobs": n_jobs, "seed": seed}
    model, spent = _timed(lambda: BeamTreeClassifier(**settings).fit(found.X[first], y[first]))
    ways = {"known classes alone": (model, spent)}
    some = np.union1d(later, beside)
    given = {"new rows alone": later, "as many known rows beside": some, "all rows": np.arange(len(y))}
    for way, rows in given.items():
        ways[f"update, {way}"] = _timed(lambda rows=rows: copy.copy(model).update(found.X[rows], y[rows]))
    ways["trained anew"] = _timed(lambda: BeamTreeClassifier(**settings).fit(found.X, y))
    figures: dict[str, Any] = {}
    for way, (made, cpu_s) in ways.items():
        right = made.rank(found.X_test, 1).labels[:, 0] == y_test
        known = y_test < n_known
        shares = {"all": right.mean(), "known": right[known].mean(), "new": right[~known].mean()}
        figures[way] = {**{name: 100 * float(share) for name, share in shares.items()}, "cpu_s": cpu_s}
    return {"set": found.name, "seed": seed, "known_rows": len(first), "new_rows": len(later), "ways": figures}


def _timed(work: Any) -> tuple[BeamTreeClassifier, float]:
    with measure.Clock() as clock:
        made = work()
    return made, clock.cpu


def main() -> None:
    """Runs what the command line asks for."""
    options = records.command_line(__doc__, ",".join(sets.TEXTS)).parse_args()
    runs = []
    for name in options.sets.split(","):
        found = sets.load(sets.prepare(name, Path(options.data), Path(options.cache)))
        for seed in range(SEEDS):
            runs.append(measured(found, seed, options.threads))
            print(runs[-1], flush=True)
    records.save(Path(options.results) / "beam_tree_updates.json", {**records.about(), "runs": runs})


if __name__ == "__main__":
    main()
