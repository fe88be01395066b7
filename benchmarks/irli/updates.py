"""New labels that come to a trained IRLIClassifier, beside training anew; and what settings of updates give. JSON out.

``python -m benchmarks.irli.updates --data DATA``. A tenth of the labels are hidden. Of each, up to ten rows come later;
other rows that have a hidden label are left out. The labels come all at once, and then ten of them one after the other.
Then a fifth of the rows come later, in four updates, without new labels.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from benchmarks.common.hidden_labels import Hidden
from sylvan import IRLIClassifier, TopK, metrics
from sylvan.errors import RowsUnknownWarning
from sylvan.models.irli import fitted as updates

ROWS = {"eurlex57k": 12_000, "cpv-tenders": 14_000}  # of training; all of the smaller set
ONE_BY_ONE, DEPTH = 10, 10
AT, RECALLS = (1, 3, 5), (1, 5, 10)
Way = tuple[dict[str, Any], dict[str, Any], bool]  # constants of updates, parameters of update, known rows beside
WAYS: dict[str, Way] = {
    "update": ({}, {}, True),
    "update, without known rows": ({}, {}, False),
    "update, places alone": ({}, {}, True),
    "4 epochs": ({}, {"epochs": 4}, True),
    "16 epochs": ({}, {"epochs": 16}, True),
    "1 known row beside each new one": ({"BESIDE": 1}, {}, True),
    "4 known rows beside each new one": ({"BESIDE": 4}, {}, True),
    "10 buckets to choose from": ({"WIDER": 1}, {}, True),
    "60 buckets to choose from": ({"WIDER": 6}, {}, True),
    "8 epochs, without known rows": ({}, {"epochs": 8}, False),
}
SINGLE: dict[str, Way] = {
    "update": ({}, {}, True),
    "update, without known rows": ({}, {}, False),
    "20 known rows at least": ({"LEAST_BESIDE": 20}, {}, True),
    "2,000 known rows at least": ({"LEAST_BESIDE": 2000}, {}, True),
}


def judged(came: Hidden, model: Any, n_new: int) -> dict[str, Any]:
    """P@k of all rows and of those without a new label, recall of new labels, and their share of five answers."""
    truth = came.Y_test[:, : came.n_known + n_new].tocsr()
    new, top = truth[:, came.n_known :].tocsr(), model.rank(came.X_test, DEPTH)
    known = np.flatnonzero((np.diff(new.indptr) == 0) & (np.diff(truth.indptr) > 0))
    row = np.repeat(np.arange(new.shape[0]), np.diff(new.indptr))
    places = top.labels[row] == new.indices[:, None] + came.n_known
    of_known = TopK(top.labels[known], top.scores[known])
    found = metrics.precision(truth, top, at=AT), metrics.precision(truth[known], of_known, at=AT)
    return {
        "P": [100 * found[0][k] for k in AT],
        "P_known": [100 * found[1][k] for k in AT],
        "R_new": [100 * float(places[:, :k].any(axis=1).mean()) if len(row) else None for k in RECALLS],
        "new_in_top": 100 * float((top.labels[:, : AT[-1]] >= came.n_known).mean()),
    }


def measured(name: str, folder: Path, n_jobs: int) -> dict[str, Any]:
    """One set's figures."""
    came = Hidden(folder, 0, ROWS[name])
    n_hidden = came.Y_new.shape[1] - came.n_known
    model, first_s = _timed(lambda: IRLIClassifier(n_jobs=n_jobs).fit(*came.first()))
    parts = {"at once": (WAYS, [(0, n_hidden)]), "one by one": (SINGLE, [(at, at + 1) for at in range(ONE_BY_ONE)])}
    figures: dict[str, Any] = {}
    for part, (ways, ranges) in parts.items():
        last = ranges[-1][1]
        figures[part] = {"before": {**judged(came, model, last), "cpu_s": None}}
        for way, (constants, options, beside) in ways.items():
            made, spent = _updated(model, came, ranges, constants, options, beside, way.endswith("places alone"))
            figures[part][way] = {**judged(came, made, last), "cpu_s": spent}
            print(name, part, way, figures[part][way], flush=True)
    X, _ = came.first()
    X_new, Y_new = came.new(0, n_hidden)
    both = sp.vstack([X, X_new]).tocsr(), sp.vstack([came.Y[:, : Y_new.shape[1]], Y_new]).tocsr()
    anew, spent = _timed(lambda: IRLIClassifier(n_jobs=n_jobs).fit(*both))
    figures["at once"]["trained anew"] = {**judged(came, anew, n_hidden), "cpu_s": spent}
    print(name, figures["at once"]["trained anew"], flush=True)
    sizes = {"first_rows": X.shape[0], "new_rows": X_new.shape[0], "known": came.n_known, "new": n_hidden}
    return {"set": name, **sizes, "one_by_one": ONE_BY_ONE, "first_cpu_s": first_s, "parts": figures}


def rows_later(name: str, folder: Path, n_jobs: int) -> dict[str, Any]:
    """P@k where a fifth of the rows come later, of labels that are known, a quarter of them at a time."""
    X, Y, X_test, Y_test = datasets.load(folder, *datasets.NAMES)
    order = np.random.default_rng(0).permutation(min(ROWS[name], X.shape[0]))
    first, *later = np.split(order, [len(order) * share // 20 for share in (16, 17, 18, 19)])
    known = np.flatnonzero(np.diff(Y[first].tocsc().indptr))
    Y, Y_test = Y[:, known].tocsr(), Y_test[:, known].tocsr()
    tested = np.flatnonzero(np.diff(Y_test.indptr))[: len(order) // 4]
    model, spent = _timed(lambda: IRLIClassifier(n_jobs=n_jobs).fit(X[first], Y[first]))
    made = {"before": (model, spent)}
    for way, beside in (("update", True), ("update, without known rows", False)):
        made[way] = _timed(lambda beside=beside: _with_parts(model, X, Y, first, later, beside))
    made["trained anew"] = _timed(lambda: IRLIClassifier(n_jobs=n_jobs).fit(X[order], Y[order]))
    figures: dict[str, Any] = {"first_rows": len(first), "new_rows": len(order) - len(first), "updates": len(later)}
    for way, (each, seconds) in made.items():
        found = metrics.precision(Y_test[tested], each.rank(X_test[tested], DEPTH), at=AT)
        figures[way] = {"P": [100 * found[k] for k in AT], "cpu_s": seconds}
        print(name, way, figures[way], flush=True)
    return figures


def _with_parts(
    model: IRLIClassifier, X: Any, Y: Any, first: np.ndarray, parts: list[np.ndarray], beside: bool
) -> IRLIClassifier:
    """Updated with one part after the other, with all rows so far beside."""
    made, seen = copy.copy(model), first
    for part in parts:
        made.update(X[part], Y[part], rows=(X[seen], Y[seen]) if beside else None)
        seen = np.concatenate((seen, part))
    return made


def _updated(
    model: IRLIClassifier, came: Hidden, ranges: list[tuple[int, int]], constants: dict[str, Any],
    options: dict[str, Any], beside: bool, places_alone: bool,
) -> tuple[IRLIClassifier, float]:  # fmt: skip
    """What a model gives when labels come in these updates, and the seconds of all of them."""
    rows = came.first() if beside else None

    def work() -> IRLIClassifier:
        made = copy.copy(model)
        for begin, end in ranges:
            made.update(*came.new(begin, end), rows=rows, **options)
        return made

    learning = {"learned_on": lambda _, placed, __: placed} if places_alone else {}
    with ExitStack() as stack:
        for name, value in (constants | learning).items():
            stack.enter_context(patch.object(updates, name, value))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", RowsUnknownWarning)
        return _timed(work)


def _timed(work: Callable[[], IRLIClassifier]) -> tuple[IRLIClassifier, float]:
    with measure.Clock() as clock:
        made = work()
    return made, clock.cpu


def main() -> None:
    """Runs what the command line asks for."""
    options = records.command_line(__doc__, ",".join(ROWS)).parse_args()
    runs = []
    for name, folder in records.prepared(options):
        found = measured(name, folder, options.threads)
        runs.append({**found, "rows_later": rows_later(name, folder, options.threads)})
    records.save(Path(options.results) / "irli_updates.json", {**records.about(), "runs": runs})


if __name__ == "__main__":
    main()
