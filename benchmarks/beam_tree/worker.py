"""One row in a process of its own, by the interpreter that has what it needs.

The job: ``{"step": "accuracy", "row": {...}, "set": FOLDER}``; the steps are ``version``, ``tuning``, ``accuracy`` and
``speed``.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beam_tree import sets
from benchmarks.common import measure, process

Figures = dict[str, Any]
ALONE = 500  # rows ranked one at a time
ROUNDS = 3  # passes that are timed for the speed, after one that isn't


def version(job: dict[str, Any]) -> Figures:
    """What the interpreter has."""
    if "vw" in job["row"]:
        from benchmarks.beam_tree import vw

        return {"version": vw.version()}
    import sylvan

    return {"version": sylvan.__version__}


def read(job: dict[str, Any]) -> sets.ClassSet:
    """The row's set."""
    found = sets.load(Path(job["set"]))
    return sets.small(found, job["row"]["rows"]) if "rows" in job["row"] else found


def passes(n_rows: int, epochs: float, seed: int, *, halved: bool) -> Iterator[tuple[float, np.ndarray]]:
    """Rows in another order each time, and how many epochs there were after them."""
    rng = np.random.default_rng(seed)
    for epoch in range(1, round(epochs) + 1):
        order = rng.permutation(n_rows)
        if halved and epoch == 1:
            yield 0.5, order[: n_rows // 2]
            order = order[n_rows // 2 :]
        yield float(epoch), order


def correct(labels: np.ndarray, y: np.ndarray) -> float:
    """Percent of rows whose class is among the labels, (n, k)."""
    return 100 * float((labels == y[:, None]).any(axis=1).mean())


def tuning(job: dict[str, Any]) -> Figures:
    """Accuracy on the held-out rows for each rate, after half an epoch and after each epoch of a few."""
    row, found = job["row"], sets.split(read(job))
    points = []
    if "vw" in row:
        from benchmarks.beam_tree import vw

        marks = vw.marks_of(row, found, Path(job["scratch"]))
        return {"points": [{"rate": rate, "marks": own} for rate, own in zip(row["rates"], marks, strict=True)]}
    from benchmarks.beam_tree import ours

    tree, _ = ours.plant(row, found)
    for rate in row["rates"]:
        one, marks, spent = ours.contender(row, rate, found, tree), [], 0.0
        try:
            for mark, rows in passes(len(found.y), row["epochs"], row["seed"], halved=True):
                spent += one.learn(rows).cpu
                marks.append([mark, correct(one.rank(found.X_test, 1), found.y_test)])
        except Exception as error:  # a rate that is too large may be refused; it isn't chosen
            points.append({"rate": rate, "marks": marks, "error": str(error)[:300]})
            continue
        points.append({"rate": rate, "marks": marks, "cpu_s": spent})
    return {"points": points}


def accuracy(job: dict[str, Any]) -> Figures:
    """Trains once, asks for the test rows after each epoch, and times training and ranking."""
    row, found = job["row"], read(job)
    about = {"rows_trained": len(found.y), "rows_tested": len(found.y_test), "skipped": found.skipped,
             "n_classes": found.n_classes, "n_features": found.X.shape[1]}  # fmt: skip
    if "vw" in row:
        from benchmarks.beam_tree import vw

        return about | vw.accuracy_of(row, found, Path(job["scratch"]))
    import threadpoolctl

    from benchmarks.beam_tree import ours

    threadpoolctl.threadpool_limits(1)
    tree, tree_s = ours.plant(row, found)
    one = ours.contender(row, row["rate"], found, tree)
    curve, wall, cpu = [], 0.0, 0.0
    measure.forget_peak()
    peak = 0.0
    for epoch, rows in passes(len(found.y), row["epochs"], row["seed"], halved=False):
        clock = one.learn(rows)
        wall, cpu, peak = wall + clock.wall, cpu + clock.cpu, max(peak, measure.peak_resident())
        point = {"epoch": epoch, "cpu_s": cpu, "accuracy": correct(one.rank(found.X_test, 1), found.y_test)}
        candidates = one.candidates(found.X_test)
        if candidates is not None:
            point["coverage"] = correct(candidates, found.y_test)
        curve.append(point)
        measure.forget_peak()
    figures = about | version(job) | {"curve": curve, **final(one, found, Path(job["scratch"])), "tree_s": tree_s}
    return figures | {"training": {"wall_s": wall, "cpu_s": cpu, "peak_mb": peak}}


def final(one: Any, found: sets.ClassSet, scratch: Path) -> Figures:
    """What is asked of a trained model."""
    X, y = found.X_test, found.y_test
    one.save(scratch / "model")
    size = measure.folder_bytes(scratch / "model") / 1e6
    return {
        "accuracy": correct(one.rank(X, 1), y),
        "among_five": correct(one.rank(X), y),
        "exact": correct(one.exact(X), y),
        "log_loss": one.log_loss(X, y),
        "ranking": ranking(one, X),
        "model_mb": size,
    }


def ranking(one: Any, X: Any) -> Figures:
    """Milliseconds of a row, in a batch and alone."""
    spent, _ = measure.batch(lambda: one.rank(X), X.shape[0])
    return spent | measure.one_by_one(one.rank, [X[at : at + 1] for at in range(min(ALONE, X.shape[0]))])


def speed(job: dict[str, Any]) -> Figures:
    """What a step and a query cost with so many made classes."""
    import threadpoolctl

    from benchmarks.beam_tree import ours

    threadpoolctl.threadpool_limits(1)
    row = job["row"]
    n_classes = row["n_classes"]
    n_rows, n_test = max(row["rows"], 2 * n_classes), row.get("tested", 2000)
    made = sets.made(n_classes, n_rows, n_test, noise=2.0)
    scale = np.float32(1 / np.sqrt(np.square(made[0][:1000]).sum(axis=1).mean()))
    X, X_test = made[0] * scale, made[2] * scale
    found = sets.ClassSet("made", X, made[1], X_test, made[3], n_classes, 0)
    tree, tree_s = ours.plant(row, found)
    one = ours.contender(row, row["rate"], found, tree)
    rows = np.arange(row["rows"])
    measure.forget_peak()
    one.learn(rows)
    clocks = [one.learn(rows) for _ in range(ROUNDS)]
    peak = measure.peak_resident()
    step = statistics.median(clock.cpu for clock in clocks) * 1e6 / len(rows)
    candidates = one.candidates(X_test)
    return version(job) | {
        "tree_s": tree_s,
        "step_us": step,
        "raw_us": [clock.cpu * 1e6 / len(rows) for clock in clocks],
        "coverage": None if candidates is None else correct(candidates, made[3]),
        "ranking": ranking(one, X_test),
        "peak_mb": peak,
    }


STEPS = {"version": version, "tuning": tuning, "accuracy": accuracy, "speed": speed}

if __name__ == "__main__":
    process.serve(lambda job: STEPS[job["step"]](job))
