"""What constraints cost, and what they give beside ranking more labels and dropping the forbidden ones; JSON out.

``python -m benchmarks.linear.constraints --data DIR --sets eurlex57k,gutenberg``

For shares of 0.1% to 99% of the labels drawn at random, for all rows at once and for each row (where one of the row's
true labels is always among them, as when candidates are to be ranked): CPU time in a batch and one query at a time
beside the unconstrained ranking, precision among the allowed labels, and the same for the naive way, which ranks
``answers / share`` labels (1,000 at most) with the same beam and keeps those that are allowed. The exhaustive ranking,
filtered, is the precision that there is to reach. Shares above one half are given as ``denied``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from sylvan import XRLinear, metrics
from sylvan.arrays.topk import TopK

SHARES = (0.001, 0.01, 0.1, 0.5, 0.99)
K = 5
MOST = 1000  # labels that the naive way ranks
SINGLE = 300  # queries asked one at a time
EVERYTHING = 100_000  # a beam as wide as any layer


def cpu_ms(work: Callable[[], Any], n: int, repeats: int = 3) -> tuple[float, Any]:
    """Median CPU milliseconds of one of ``n`` parts of ``work``, and what it gives."""
    answer, spent = work(), []
    for _ in range(repeats):
        with measure.Clock() as clock:
            answer = work()
        spent.append(clock.cpu * 1e3 / n)
    return statistics.median(spent), answer


def draw(Y: sp.csr_matrix, share: float, who: str, rng: np.random.Generator) -> sp.csr_matrix:
    """A mask of shape (n, L): the same share of the labels for all rows, or for each row with a true one of its own."""
    n, n_labels = Y.shape
    size = max(1, round(share * n_labels))
    if who == "all rows":
        chosen = np.tile(np.sort(rng.choice(n_labels, size, replace=False)), (n, 1))
    else:
        chosen = np.array([rng.choice(n_labels, size, replace=False) for _ in range(n)])
        some = [rng.choice(Y.indices[Y.indptr[row] : Y.indptr[row + 1]]) for row in range(n)]
        chosen[:, 0] = np.where((chosen == np.array(some)[:, None]).any(axis=1), chosen[:, 0], some)
    rows = np.repeat(np.arange(n), size)
    return sp.csr_matrix((np.ones(n * size, bool), (rows, chosen.ravel())), shape=Y.shape)


def given(mask: sp.csr_matrix, share: float, who: str) -> dict[str, Any]:
    """The constraint as ``rank`` takes it: the shorter of what is allowed and what is denied."""
    if share > 0.5:
        dense = ~mask.toarray()
        return {"denied": np.flatnonzero(dense[0]) if who == "all rows" else sp.csr_matrix(dense)}
    return {"allowed": mask.indices[: mask.indptr[1]] if who == "all rows" else mask}


def of_row(options: dict[str, Any], row: int) -> dict[str, Any]:
    """The constraint of one row."""
    return {name: value[row] if sp.issparse(value) else value for name, value in options.items()}


def filtered(top: TopK, mask: sp.csr_matrix) -> TopK:
    """The first answers of each row that are allowed."""
    allowed = np.zeros((len(top), mask.shape[1] + 1), bool)
    allowed[:, :-1] = mask.toarray()
    is_allowed = np.take_along_axis(allowed, top.labels, axis=1)
    order = np.argsort(~is_allowed, axis=1, kind="stable")[:, :K]
    labels = np.where(np.take_along_axis(is_allowed, order, axis=1), np.take_along_axis(top.labels, order, axis=1), -1)
    return TopK(labels.astype(np.int32), np.where(labels >= 0, np.take_along_axis(top.scores, order, axis=1), -np.inf))


def quality(truth: sp.csr_matrix, top: TopK) -> dict[str, float]:
    """P@1 and P@5 in percent over the rows with an allowed true label, and the answers a row."""
    rows = np.flatnonzero(np.diff(truth.indptr))
    if not len(rows):
        return {"rows": 0}
    part = TopK(top.labels[rows], top.scores[rows])
    found = metrics.precision(truth[rows], part, at=(1, K))
    answers = float((part.labels >= 0).sum(axis=1).mean())
    return {"rows": len(rows), "P@1": 100 * found[1], "P@5": 100 * found[K], "answers": answers}


def measure_share(
    model: XRLinear, X: sp.csr_matrix, Y: sp.csr_matrix, share: float, who: str, everything: TopK
) -> dict[str, Any]:
    """One line of the table."""
    mask = draw(Y, share, who, np.random.default_rng(0))
    truth, options, n = Y.multiply(mask).tocsr(), given(mask, share, who), X.shape[0]
    truth.eliminate_zeros()
    queries = [(X[row], of_row(options, row)) for row in range(min(SINGLE, n))]
    batch, top = cpu_ms(lambda: model.rank(X, k=K, **options), n)
    single, _ = cpu_ms(lambda: [model.rank(x, k=K, **own) for x, own in queries], len(queries))
    deep = int(min(MOST, model.n_labels_, np.ceil(K / share)))
    naive, naive_top = cpu_ms(lambda: filtered(model.rank(X, k=deep), mask), n)
    exhaustive = filtered(everything, mask)
    return {
        "share": share,
        "who": who,
        "batch_ms": batch,
        "single_ms": single,
        **quality(truth, top),
        "naive": {"k": deep, "batch_ms": naive, **quality(truth, naive_top)},
        "exhaustive": quality(truth, exhaustive),
    }


def measure_set(folder: Path, n_rows: int) -> dict[str, Any]:
    """Trains one model, and measures every share."""
    X_train, Y_train, X, Y = datasets.load(folder, "X.trn", "Y.trn", "X.tst", "Y.tst")
    model = XRLinear(seed=0, n_jobs=1).fit(X_train, Y_train)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(np.diff(Y.indptr)))[:n_rows]
    X, Y = X[rows], Y[rows]
    batch, _ = cpu_ms(lambda: model.rank(X, k=K), len(rows))
    queries = [X[row] for row in range(min(SINGLE, len(rows)))]
    single, _ = cpu_ms(lambda: [model.rank(x, k=K) for x in queries], len(queries))
    everything = model.rank(X, k=model.n_labels_, beam=EVERYTHING)
    runs = []
    for who in ("all rows", "each row"):
        for share in SHARES:
            runs.append(measure_share(model, X, Y, share, who, everything))
            print(f"{folder.name} {who} {share}: {runs[-1]}", flush=True)
    return {"rows": len(rows), "labels": Y.shape[1], "batch_ms": batch, "single_ms": single, "runs": runs}


def main() -> None:
    """Measures every set."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg", threads=None)
    parser.add_argument("--rows", type=int, default=2000, help="test rows")
    options = parser.parse_args()
    for set_name, folder in records.prepared(options):
        records.write("constraints", set_name, options, **measure_set(folder, options.rows))


if __name__ == "__main__":
    main()
