"""What goes with a basket: models fitted on (baskets, baskets), beside item-kNN and a split of baskets; JSON out.

``python -m benchmarks.linear.baskets --data DATA``

Each user's items are a basket, whatever their order. Four baskets in five are learned from. Of each of the others one
item is hidden, drawn at random, and is to be found from those that are left, which are no answers (leave one out).
Item-kNN is SciPy's: cosines between the items' columns, summed over the basket, of all items or of each item's 50
nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import measure, records
from sylvan import Ensemble, NeighborRanker, XRLinear, data, metrics
from sylvan.arrays.topk import TopK

K = 10
NEAREST = 50
Answer = Callable[[sp.csr_matrix], TopK]


def read_baskets(path: Path) -> sp.csr_matrix:
    """Baskets of two items or more, shape (users, items)."""
    log = data.read_sequences(path, min_interactions=1)
    shape = (len(log.offsets) - 1, int(log.ids.max()) + 1)
    baskets = sp.csr_matrix((np.ones(len(log.ids), np.float32), log.ids, log.offsets), shape=shape)
    baskets.sum_duplicates()
    baskets.data[:] = 1
    return baskets[np.diff(baskets.indptr) > 1]


def hide(baskets: sp.csr_matrix, share: float | None, rng: np.random.Generator) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """What is left of each basket, and what is hidden: one item, or a share of its items."""
    rows = np.repeat(np.arange(baskets.shape[0]), np.diff(baskets.indptr))
    order = np.lexsort((rng.random(baskets.nnz), rows))  # each basket's items, shuffled
    place = np.arange(baskets.nnz) - baskets.indptr[rows]
    sizes = np.diff(baskets.indptr)[rows]
    hidden = np.zeros(baskets.nnz, bool)
    hidden[order] = place < (1 if share is None else np.maximum(1, np.floor(share * sizes)))
    parts = []
    for chosen in (~hidden, hidden):
        entries = np.ones(int(chosen.sum()), np.float32), (rows[chosen], baskets.indices[chosen])
        parts.append(sp.csr_matrix(entries, shape=baskets.shape))
    return parts[0], parts[1]


def best(scores: sp.csr_matrix, seen: sp.csr_matrix) -> TopK:
    """The K items of the highest scores that aren't in the basket."""
    labels = np.full((scores.shape[0], K), -1, np.int32)
    values = np.full((scores.shape[0], K), -np.inf, np.float32)
    for row in range(scores.shape[0]):
        items, found = (each[scores.indptr[row] : scores.indptr[row + 1]] for each in (scores.indices, scores.data))
        new = ~np.isin(items, seen.indices[seen.indptr[row] : seen.indptr[row + 1]])
        items, found = items[new], found[new]
        order = np.lexsort((items, -found))[:K]
        labels[row, : len(order)], values[row, : len(order)] = items[order], found[order]
    return TopK(labels, values)


def popular(train: sp.csr_matrix, _: int) -> Answer:
    """The items of the most baskets."""
    counts = sp.csr_matrix(np.asarray(train.sum(axis=0)))
    top = sp.csr_matrix(np.where(counts.toarray() >= np.sort(counts.data)[-200], counts.toarray(), 0))
    return lambda seen: best(sp.vstack([top] * seen.shape[0], format="csr"), seen)


def item_knn(nearest: int | None) -> Callable[[sp.csr_matrix, int], Answer]:
    """Cosines between items, each item's nearest or all."""

    def fit(train: sp.csr_matrix, _: int) -> Answer:
        lengths = np.sqrt(np.asarray(train.multiply(train).sum(axis=0)).ravel())
        unit = (train @ sp.diags(1 / np.maximum(lengths, 1))).tocsc()
        cosines = (unit.T @ unit).tocsr()
        if nearest is not None:
            for item in range(cosines.shape[0]):
                values = cosines.data[cosines.indptr[item] : cosines.indptr[item + 1]]
                if len(values) > nearest:
                    values[np.argpartition(-values, nearest)[nearest:]] = 0
            cosines.eliminate_zeros()
        return lambda seen: best((seen @ cosines).tocsr(), seen)

    return fit


def whole(make: Callable[[int], Any]) -> Callable[[sp.csr_matrix, int], Answer]:
    """A model whose rows and labels are the same baskets."""

    def fit(train: sp.csr_matrix, threads: int) -> Answer:
        model = make(threads).fit(train, train)
        return lambda seen: model.rank(seen, k=K, denied=seen)

    return fit


def linear(threads: int) -> XRLinear:
    """XR-Linear for baskets."""
    return XRLinear(cost=0.1, beam=50, calibration=None, seed=0, n_jobs=threads)


def neighbors(threads: int) -> NeighborRanker:
    """Nearest baskets."""
    return NeighborRanker(n_neighbors=100, power=1.0, n_jobs=threads)


def split(train: sp.csr_matrix, threads: int) -> Answer:
    """XR-Linear that learns one half of each basket from the other."""
    left, hidden = hide(train, 0.5, np.random.default_rng(1))
    model = XRLinear(seed=0, n_jobs=threads).fit(left, hidden)
    return lambda seen: model.rank(seen, k=K, denied=seen)


CONTENDERS: dict[str, Callable[[sp.csr_matrix, int], Answer]] = {
    "most frequent items": popular,
    "item-kNN, all": item_knn(None),
    f"item-kNN, {NEAREST} nearest": item_knn(NEAREST),
    "`XRLinear()`, half of each basket from the other": split,
    "`XRLinear()`": whole(lambda threads: XRLinear(seed=0, n_jobs=threads)),
    "`XRLinear(cost=0.1, beam=50)`": whole(linear),
    "`NeighborRanker(n_neighbors=100, power=1)`": whole(neighbors),
    "`Ensemble` of both": whole(lambda threads: Ensemble([linear(threads), neighbors(threads)], n_jobs=threads)),
}


def measure_set(path: Path, threads: int) -> dict[str, Any]:
    """Every contender on one set."""
    baskets, rng = read_baskets(path), np.random.default_rng(0)
    order = rng.permutation(baskets.shape[0])
    n_test = len(order) // 5
    train, test = baskets[np.sort(order[n_test:])], baskets[np.sort(order[:n_test])]
    seen, hidden = hide(test, None, rng)
    runs = []
    for name, fit in CONTENDERS.items():
        with measure.Clock() as fitting:
            answer = fit(train, threads)
        with measure.Clock() as ranking:
            top = answer(seen)
        hits = metrics.recall(hidden, top, at=(1, K))
        ndcg = metrics.ndcg(hidden, top, at=(K,))[K]
        run = {"model": name, "P@1": 100 * hits[1], f"R@{K}": 100 * hits[K], f"nDCG@{K}": 100 * ndcg}
        run |= {"fit_cpu_s": fitting.cpu, "row_cpu_ms": 1e3 * ranking.cpu / seen.shape[0]}
        runs.append(run)
        print(f"{path.name}: {run}", flush=True)
    return {"baskets": baskets.shape[0], "items": baskets.shape[1], "test": seen.shape[0], "runs": runs}


def main() -> None:
    """Measures every set."""
    parser = records.command_line(__doc__, "beauty,games")
    options = parser.parse_args()
    for name in options.sets.split(","):
        figures = measure_set(Path(options.data) / "sequences" / f"{name}.txt.xz", options.threads)
        records.write("baskets", name, options, **figures)


if __name__ == "__main__":
    main()
