"""What updates give and take beside training anew: rows and labels that come in twenty parts; JSON out.

``python -m benchmarks.linear.updates --data DIR --sets eurlex57k,gutenberg,cpv-tenders``. The rows come in a fixed
shuffle: a model is trained on the first 60%, which a tenth of the labels are hidden from, and updated by 2% twenty
times. Beside it, at every fifth update, two models are trained anew on the same rows: one with the updated model's tree
and one with a new tree. At the end a label comes with ten rows, and a row is forgotten. With ``--peers PEER_PYTHON``,
what others do is added to what was measured before: napkinXC's online PLT goes through all rows once, and fastText is
trained on them.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.common import datasets, measure, process, records
from sylvan import XRLinear, metrics
from sylvan.runtime.plan import state_bytes

AT = (1, 3, 5)
PEERS = {"napkinxc-online": ("train", "rank"), "fasttext": ("text",)}
MOST_SECONDS = 900  # that one of them may take
FIRST, PARTS, HIDDEN, EVERY, REPEATS = 0.6, 20, 0.1, 5, 5


def scores(
    model: Any, X: sp.csr_matrix, Y: sp.csr_matrix, counts: npt.NDArray[np.int64], n_rows: int
) -> dict[str, list[float]]:
    """P@k and PSP@k in percent, by the propensities of all rows that come."""
    top = model.rank(X, max(AT))
    found = metrics.precision(Y, top, at=AT)
    propensities = metrics.propensities_of_counts(counts, n_rows)
    weighed = metrics.psp(Y, top, propensities, at=AT)
    return {"P": [100 * found[k] for k in AT], "PSP": [100 * weighed[k] for k in AT]}


class Arrivals:
    """Rows in the order in which they come, and labels numbered by when they come, as a model numbers them."""

    def __init__(self, folder: Path, seed: int) -> None:
        X, Y, self.X_test, Y_test = datasets.load(folder, *datasets.NAMES)
        random = np.random.default_rng(seed)
        order = random.permutation(X.shape[0])
        n_first, size = int(FIRST * X.shape[0]), X.shape[0] // 50
        hidden = random.random(Y.shape[1]) < HIDDEN
        first = Y[order[:n_first]].tocoo()
        kept = ~hidden[first.col]
        known = (first.data[kept], (first.row[kept], first.col[kept]))
        Y = sp.vstack([sp.csr_matrix(known, shape=first.shape), Y[order[n_first:]]], format="csr")
        self.ends = [n_first + at * size for at in range(PARTS)] + [X.shape[0]]
        came = np.full(Y.shape[1], len(self.ends))
        for number in reversed(range(len(self.ends))):
            came[np.unique(Y[: self.ends[number]].indices)] = number
        by_arrival = np.argsort(came, kind="stable")
        self.order = order
        self.X, self.Y, self.Y_test = X[order], Y[:, by_arrival], Y_test[:, by_arrival]
        self.n_labels = [int((came <= number).sum()) for number in range(len(self.ends))]

    def part(self, number: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """The rows that come in an update, 1 to 20, and their labels."""
        rows = slice(self.ends[number - 1], self.ends[number])
        return self.X[rows], self.Y[rows, : self.n_labels[number]]

    def until(self, number: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """All rows until then."""
        return self.X[: self.ends[number]], self.Y[: self.ends[number], : self.n_labels[number]]


def measured(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One set's figures."""
    came = Arrivals(folder, options.seed)
    settings: dict[str, Any] = {"n_jobs": options.threads}
    counts = np.bincount(came.Y.indices, minlength=came.Y.shape[1])

    def judged(model: Any) -> dict[str, list[float]]:
        return scores(model, came.X_test, came.Y_test, counts, came.X.shape[0])

    with measure.Clock() as clock:
        model = XRLinear(keep_rows=True, **settings).fit(*came.until(0))
    steps: list[dict[str, Any]] = [{"update": 0, "rows": came.ends[0], "cpu_s": clock.cpu, **judged(model)}]
    for number in range(1, PARTS + 1):
        with measure.Clock() as clock:
            model.update(*came.part(number))
        step: dict[str, Any] = {"update": number, "rows": came.ends[number], "cpu_s": clock.cpu}
        if number % EVERY == 0:
            step |= judged(model)
            with measure.Clock() as clock:
                anew = XRLinear(**settings).fit(*came.until(number))
            step["anew"] = {"cpu_s": clock.cpu, **judged(anew)}
            same = XRLinear(tree=model.tree_, **settings).fit(*came.until(number))
            step["same_tree"] = judged(same)
        steps.append(step)
        print(step, flush=True)
    return {"seed": options.seed, "steps": steps, "drift": model.drift_, **_ends(model, came)}


def peers(came: Arrivals, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Others trained on all rows with labels, in the order in which they come, in processes of their own."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch)
        X, Y = came.until(PARTS)
        labelled = np.flatnonzero(np.diff(Y.indptr))
        X, Y = X[labelled], Y[labelled]
        datasets.save(rows, {"X.trn": X, "Y.trn": Y, "X.tst": came.X_test, "Y.tst": came.Y_test[:, : Y.shape[1]]})
        texts = (folder / "train.txt").read_text(encoding="utf-8").split("\n")
        lines = [texts[row] for row in came.order[labelled].tolist()]
        (rows / "train.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        names = (",".join(map(str, Y.indices[a:b].tolist())) for a, b in itertools.pairwise(Y.indptr.tolist()))
        (rows / "labels.txt").write_text("".join(line + "\n" for line in names), encoding="ascii")
        shutil.copy(folder / "test.txt", rows)
        job = {"set": scratch, "threads": options.threads, "seed": options.seed, "model": f"{scratch}/model"}
        for name, steps in PEERS.items():
            figures: dict[str, Any] = {"contender": name}
            for step in steps:
                if "error" not in figures:
                    own = {**job, "contender": name, "step": step}
                    found_now = process.run(options.peers, "benchmarks.linear.worker", own, timeout=MOST_SECONDS)
                    figures = found_now | figures
            found.append(figures)
            print(figures, flush=True)
    return found


def _ends(model: Any, came: Arrivals) -> dict[str, Any]:
    """Medians of single changes to the last model, made one after another, and what keeping the rows takes on disk."""
    wall, tried = {}, copy.copy(model)
    for what in ("label of ten rows", "ten rows", "row forgotten"):
        each = []
        for time in range(REPEATS):
            ten = slice(10 * time, 10 * time + 10)
            with measure.Clock() as clock:
                if what == "row forgotten":
                    tried.update(forget=[5 + time])
                else:
                    new = what.startswith("label")
                    tried.update(came.X[ten], np.full(10, tried.n_labels_) if new else came.Y[ten])
            each.append(clock.wall)
        wall[what] = 1000 * statistics.median(each)
    state = model.to_state()
    kept = state_bytes(state.parts["rows"])
    return {"milliseconds": wall, "model_mb": (state_bytes(state) - kept) / 1e6, "rows_mb": kept / 1e6}


def main() -> None:
    """Runs what the command line asks for."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,cpv-tenders")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peers", help="interpreter with napkinXC and fastText: add their rows to the records")
    options = parser.parse_args()
    for name, folder in records.prepared(options):
        if options.peers is not None:
            path = Path(options.results) / f"updates-{name}.json"
            record = json.loads(path.read_text())
            options.seed = record["seed"]
            records.save(path, {**record, "peers": peers(Arrivals(folder, options.seed), folder, options)})
            continue
        records.write("updates", name, options, **measured(folder, options))


if __name__ == "__main__":
    main()
