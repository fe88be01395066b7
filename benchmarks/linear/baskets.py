"""What goes with a basket: models fitted on (baskets, baskets), beside item-kNN and a split of baskets; JSON out.

``python -m benchmarks.linear.baskets --data DATA``

Each user's items are a basket, whatever their order. Of some baskets one item is hidden, drawn at random, and is to be
found from those that are left, which are no answers (leave one out). A fifth of the baskets, drawn with a seed, chooses
every contender's settings from its grid, by nDCG@10 of models that learned from three fifths. Models with the chosen
settings then learn from four fifths, and what they find in the last fifth, which chose nothing, is reported. Item-kNN
is SciPy's: the cosines between the items' columns, summed over the basket.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.common import measure, records
from sylvan import Ensemble, NeighborRanker, XRLinear, data, metrics
from sylvan.arrays.topk import TopK
from sylvan.metrics.pairs import row_values
from sylvan.metrics.resampling import difference

K = 10
CHOICE = f"nDCG@{K}"
Answer = Callable[[sp.csr_matrix], TopK]
Settings = dict[str, Any]


class Contender(NamedTuple):
    """What learns from (baskets, threads, settings), and the values that each setting may have."""

    fit: Callable[..., Answer]
    grid: dict[str, tuple[Any, ...]]

    def settings(self) -> list[Settings]:
        """Every combination of the grid's values."""
        return [dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())]


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
    top = sp.csr_matrix(np.where(counts.toarray() >= np.sort(counts.data)[-200:][0], counts.toarray(), 0))
    return lambda seen: best(sp.vstack([top] * seen.shape[0], format="csr"), seen)


def item_knn(train: sp.csr_matrix, _: int, nearest: int | None, shrinkage: float, unit_baskets: bool) -> Answer:
    """Cosines between items, each item's nearest or all; shrinkage makes those that rest on few baskets smaller."""
    if unit_baskets:
        train = sp.diags(1 / np.sqrt(np.diff(train.indptr))) @ train
    lengths = np.sqrt(np.asarray(train.multiply(train).sum(axis=0)).ravel())
    pairs = (train.T @ train).tocoo()
    pairs.data /= lengths[pairs.row] * lengths[pairs.col] + shrinkage
    pairs.data[pairs.row == pairs.col] = 0
    cosines = pairs.tocsr()
    for item in range(cosines.shape[0] if nearest is not None else 0):
        values = cosines.data[cosines.indptr[item] : cosines.indptr[item + 1]]
        if len(values) > nearest:
            values[np.argpartition(-values, nearest)[nearest:]] = 0
    cosines.eliminate_zeros()
    return lambda seen: best((seen @ cosines).tocsr(), seen)


def linear(threads: int, **settings: Any) -> XRLinear:
    """XR-Linear whose scores are an order and no probabilities."""
    return XRLinear(calibration=None, seed=0, n_jobs=threads, **settings)


def ensemble(threads: int, of_linear: Settings, of_neighbors: Settings) -> Ensemble:
    """Both models."""
    members = [linear(threads, **of_linear), NeighborRanker(n_jobs=threads, **of_neighbors)]
    return Ensemble(members, n_jobs=threads)


def whole(make: Callable[..., Any], train: sp.csr_matrix, threads: int, **settings: Any) -> Answer:
    """A model whose rows and labels are the same baskets."""
    model = make(threads, **settings).fit(train, train)
    return lambda seen: model.rank(seen, k=K, denied=seen)


def half(train: sp.csr_matrix, threads: int, **settings: Any) -> Answer:
    """XR-Linear that learns one half of each basket from the other."""
    left, hidden = hide(train, 0.5, np.random.default_rng(1))
    model = linear(threads, **settings).fit(left, hidden)
    return lambda seen: model.rank(seen, k=K, denied=seen)


OF_LINEAR: dict[str, tuple[Any, ...]] = {"cost": (0.03, 0.1, 0.3, 1.0), "beam": (10, 50), "normalize": (False, True)}
KNN, LINEAR, NEIGHBORS = "item-kNN", "`XRLinear`", "`NeighborRanker`"
CONTENDERS = {
    KNN: Contender(
        item_knn,
        {"nearest": (50, 200, None), "shrinkage": (0, 2, 5, 10, 20, 50), "unit_baskets": (False, True)},
    ),
    "most frequent items": Contender(popular, {}),
    "`XRLinear()`, nothing set": Contender(partial(whole, lambda threads: XRLinear(seed=0, n_jobs=threads)), {}),
    "`XRLinear`, half of each basket from the other": Contender(half, OF_LINEAR),
    LINEAR: Contender(partial(whole, linear), OF_LINEAR),
    NEIGHBORS: Contender(
        partial(whole, lambda threads, **settings: NeighborRanker(n_jobs=threads, **settings)),
        {"n_neighbors": (30, 100, 300, 1000), "power": (0.5, 1.0, 2.0, 5.0)},
    ),
}


class Parts(NamedTuple):
    """Baskets to learn from, those that choose settings, and those that are reported."""

    train: sp.csr_matrix
    choosing: sp.csr_matrix
    reported: sp.csr_matrix


def divide(baskets: sp.csr_matrix, rng: np.random.Generator) -> Parts:
    """Three fifths, a fifth and a fifth."""
    order, fifth = rng.permutation(baskets.shape[0]), baskets.shape[0] // 5
    rows = order[2 * fifth :], order[:fifth], order[fifth : 2 * fifth]
    return Parts(*(baskets[np.sort(part)] for part in rows))


def choose(contender: Contender, parts: Parts, threads: int) -> tuple[Settings, list[dict[str, Any]]]:
    """The settings that find most in the choosing baskets, and what each of the grid finds."""
    tried = []
    seen, hidden = hide(parts.choosing, None, np.random.default_rng(2))
    for settings in contender.settings():
        top = contender.fit(parts.train, threads, **settings)(seen)
        tried.append({"settings": settings, CHOICE: 100 * metrics.ndcg(hidden, top, at=(K,))[K]})
    return max(tried, key=lambda record: record[CHOICE])["settings"], tried


def measure_set(path: Path, threads: int) -> dict[str, Any]:
    """Every contender on one set."""
    baskets = read_baskets(path)
    parts = divide(baskets, np.random.default_rng(0))
    train = sp.vstack([parts.train, parts.choosing], format="csr")
    seen, hidden = hide(parts.reported, None, np.random.default_rng(3))
    runs: list[dict[str, Any]] = []
    chosen: dict[str, Settings] = {}
    values: dict[str, Any] = {}

    def add(name: str, contender: Contender) -> None:
        chosen[name], tried = choose(contender, parts, threads) if contender.grid else ({}, [])
        with measure.Clock() as fitting:
            answer = contender.fit(train, threads, **chosen[name])
        with measure.Clock() as ranking:
            top = answer(seen)
        hits = metrics.recall(hidden, top, at=(1, K))
        values[name] = 100 * row_values(hidden, top, (K,))["nDCG"][:, 0]
        run = {"model": name, "settings": chosen[name], "P@1": 100 * hits[1], f"R@{K}": 100 * hits[K]}
        run |= {CHOICE: float(values[name].mean())}
        if name != KNN:
            gap = difference(values[KNN], values[name])
            run |= {"gain": [gap.low, gap.high]}
        run |= {"fit_cpu_s": fitting.cpu, "row_cpu_ms": 1e3 * ranking.cpu / seen.shape[0]}
        print(f"{path.name}: {run}", flush=True)
        runs.append({**run, "tried": tried})

    for name, contender in CONTENDERS.items():
        add(name, contender)
    both = partial(ensemble, of_linear=chosen[LINEAR], of_neighbors=chosen[NEIGHBORS])
    add("`Ensemble` of the last two", Contender(partial(whole, both), {}))
    sizes = {"baskets": baskets.shape[0], "items": baskets.shape[1]}
    return {**sizes, "choosing": parts.choosing.shape[0], "test": seen.shape[0], "runs": runs}


def main() -> None:
    """Measures every set."""
    parser = records.command_line(__doc__, "beauty,games")
    options = parser.parse_args()
    for name in options.sets.split(","):
        figures = measure_set(Path(options.data) / "sequences" / f"{name}.txt.xz", options.threads)
        records.write("baskets", name, options, **figures)


if __name__ == "__main__":
    main()
