"""The contract's heaviest clauses on the bundled real sample, whose sizes reach every path of the kernels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits, same_bits
from kit.books import books

import sylvan
from sylvan import LabelTree, XRLinear

ROWS = 600  # more than one share of rows a thread
FEW: dict[str, Any] = {"max_iterations": 3}  # weights of any quality have the sizes


@pytest.fixture(scope="module")
def sample() -> tuple[sp.csr_matrix, sp.csr_matrix, sp.csr_matrix]:
    return books().X, books().Y, books().X_test[:ROWS]


@pytest.fixture(scope="module")
def tree(sample: tuple[Any, ...]) -> LabelTree:
    """One tree for all models here."""
    X, Y, _ = sample
    return LabelTree.build(sylvan.indexing.pifa(X, Y), branching=16, max_leaf=100)


@pytest.fixture(scope="module", params=["uint8", "uint4", "float16", "float32"])
def model(request: pytest.FixtureRequest, sample: tuple[Any, ...], tree: LabelTree) -> XRLinear:
    X, Y, _ = sample
    return XRLinear(tree=tree, weight_dtype=request.param, n_jobs=2, **FEW).fit(X, Y)


def test_threads_and_loading_change_no_bit(model: XRLinear, sample: tuple[Any, ...], tmp_path: Path) -> None:
    X, Y, queries = sample
    model.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model")
    same_bits(model, loaded)
    expected = bits(model.rank(queries, k=10))
    assert bits(loaded.rank(queries, k=10)) == expected
    for n_jobs in (1, 5):
        loaded.set_params(n_jobs=n_jobs)
        assert bits(loaded.rank(queries, k=10)) == expected
    if model.weight_dtype == "uint4":
        same_bits(model, XRLinear(tree=model.tree_, weight_dtype="uint4", n_jobs=5, **FEW).fit(X, Y))


@pytest.mark.parametrize("beam", [1, 10, 1000])
def test_batches_of_any_size_answer_alike(model: XRLinear, sample: tuple[Any, ...], beam: int) -> None:
    queries = sample[2]
    together = model.rank(queries, k=10, beam=beam)
    for size in (1, 7, 300):
        for start in range(0, min(queries.shape[0], 20 * size), size):
            part = model.rank(queries[start : start + size], k=10, beam=beam)
            assert part.labels.tobytes() == together.labels[start : start + size].tobytes()
            assert part.scores.tobytes() == together.scores[start : start + size].tobytes()


def test_wide_and_dense_queries(model: XRLinear) -> None:
    """Rows with every feature, which no text has, and an answer that holds every label."""
    random = np.random.default_rng(0)
    queries = random.random((3, model.n_features_), np.float32) * 0.01
    top = model.rank(queries, k=model.n_labels_ + 1, beam=10**6)
    assert (np.sort(top.labels[:, :-1], axis=1) == np.arange(model.n_labels_)).all()
    assert (top.labels[:, -1] == -1).all()
    assert bits(model.rank(queries[1:2], k=5)) == bits(model.rank(queries, k=5).of_rows(slice(1, 2)))
