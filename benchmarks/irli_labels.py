"""What ``irli.py`` measures on multilabel sets: ``IRLIClassifier`` beside ``XRLinear``, on the same features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import contenders
import measure
import threadpoolctl

__all__ = ["measured"]

TOP = 5
ALONE = 1000  # rows ranked one at a time


def measured(row: dict[str, Any], folder: Path, scratch: Path, threads: int) -> dict[str, Any]:
    """Trains once; ranks by one thread, with every number of probes that the row asks for."""
    settings = dict(row.get("settings", {}))
    contender = contenders.Sylvan(model=row["contender"], **settings)
    contender.seed = row["seed"]
    contender.load_imports()
    contender.prepare(folder, scratch)
    if "rows" in row:
        contender._X, contender._Y = contender._X[: row["rows"]], contender._Y[: row["rows"]]
    before, clock = contender.train_measured(threads)
    peak = measure.peak_resident()
    contender.save(scratch / "model")
    contender.open(scratch / "model", 1)
    threadpoolctl.threadpool_limits(1)  # from here to the end
    figures: dict[str, Any] = {
        "version": contender.version(),
        "build": {"wall_s": clock.wall, "cpu_s": clock.cpu, "before_mb": before, "peak_mb": peak},
        "model_mb": measure.folder_bytes(scratch / "model") / 1e6,
    }
    X, Y, Y_train = (contenders.read(folder, name) for name in ("X.tst", "Y.tst", "Y.trn"))
    if "rows" in row:
        X, Y = X[: row["rows"] // 4], Y[: row["rows"] // 4]
    rows = contender.rows(X[:ALONE])
    points = []
    own = contender._model.get_params(deep=False)
    for setting in row.get("rankings", [{}]):
        contender._model.set_params(**{**own, **setting})
        spent, answer = measure.batch(lambda: contender.rank_all(X), X.shape[0])
        alone = measure.one_by_one(contender.rank_one, rows)
        points.append({**setting, **spent, **alone, **measure.precision(contender.top(answer), Y, Y_train)})
    return figures | {"points": points}
