"""The choices of XRLinear, labels without rows, data structures, macro-recall, and two revisions compared."""

import itertools
import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import linear_reference as reference

from benchmarks.common import datasets
from benchmarks.linear import alternatives, lookups, revisions, unreached
from benchmarks.linear.macro import MEASURES, expected_macro, select_macro
from benchmarks.report import alternatives as tables
from sylvan import TopK, XRLinear

Y_TRAIN = sp.random(300, 150, 0.02, "csr", np.float32, np.random.default_rng(0))
Y_TRAIN.data[:] = 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared set of 150 labels, and features of their names."""
    random, made = np.random.default_rng(1), tmp_path_factory.mktemp("set")
    X = sp.random(300, 80, 0.2, "csr", np.float32, random)
    datasets.save(made, {"X.trn": X, "Y.trn": Y_TRAIN, "X.tst": X[:40], "Y.tst": Y_TRAIN[:40]})
    datasets.save(made, {"names": sp.random(150, 80, 0.1, "csr", np.float32, random)})
    return made


def measured(folder: Path, scratch: Path, settings: dict[str, Any], seed: int = 0) -> dict[str, float]:
    job = {"set": str(folder), "names": str(folder / "names.npz"), "settings": settings, "seed": seed}
    return alternatives.one(job | {"scratch": str(scratch)})


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, rows in alternatives.GROUPS.items() for name in rows]
)
def test_every_choice_is_measured(group: str, name: str, folder: Path, tmp_path: Path) -> None:
    figures = measured(folder, tmp_path, alternatives.GROUPS[group][name])
    assert 0 < figures["P@1"] <= 100 and 0 < figures["R@10"] <= 100


def test_an_intercept_of_0_answers_with_labels_without_rows(folder: Path) -> None:
    matrices = datasets.load(folder, *datasets.NAMES)
    rows = unreached.measured(*matrices, seed=0)
    assert [(row["combine"], row["intercept"]) for row in rows[:2]] == [("damped", -1.0), ("damped", 0.0)]
    assert rows[0]["new@100"] <= rows[1]["new@100"]
    lines = tables.unreached_table([{"set": "some", "runs": rows}])
    assert len(lines) == 2 + len(rows)


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "c++")) is None, reason="no C++ compiler")
def test_every_structure_answers_the_same(folder: Path, tmp_path: Path) -> None:
    rows = lookups.measured(lookups.compiled(str(tmp_path)), folder, rounds=1)
    assert [row["structure"] for row in rows] == list(lookups.STRUCTURES)
    assert all(row["us"] > 0 and row["index_mb"] > 0 for row in rows)
    assert len(tables.lookups_table([{"set": "some", "runs": rows}])) == 4 + len(rows)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.tuples(*[st.integers(1, 4)] * 3), st.sampled_from(sorted(MEASURES)))
def test_macro_selection_is_the_best_that_row_by_row_gives(
    seed: int, shape: tuple[int, int, int], measure: str
) -> None:
    n, n_labels, k = shape
    random = np.random.default_rng(seed)
    chances = (random.integers(1, 64, (n, n_labels)) / 64).astype(np.float32)
    probabilities = sp.csr_matrix(chances)
    top = select_macro(probabilities, k, measure, tolerance=0)
    k = min(k, n_labels)
    assert ((top.labels >= 0).sum(axis=1) == k).all()
    reached, best = expected_macro(probabilities, top, measure), reference.best_macro(chances, k, measure)
    order = np.argsort(-chances, axis=1, kind="stable")[:, :k].astype(np.int32)
    plain = expected_macro(probabilities, TopK(order, np.ones(order.shape, np.float32)), measure)
    assert plain - 1e-6 <= reached <= best + 1e-6
    if measure == "recall":
        assert reached == pytest.approx(best, rel=1e-6)
    for row, labels in itertools.product(range(n), itertools.combinations(range(n_labels), k)):
        other = TopK(top.labels[:, :k].copy(), top.scores[:, :k])
        other.labels[row] = labels
        assert expected_macro(probabilities, other, measure) <= reached + 1e-5, "no one row can do better"


def test_arrays_are_compared_without_the_mark_of_the_save(tmp_path: Path) -> None:
    X, Y = np.eye(6, dtype=np.float32).repeat(4, axis=0), np.arange(6).repeat(4)
    for name, threshold in (("one", 0.1), ("again", 0.1), ("other", 0.5)):
        XRLinear(max_leaf=2, threshold=threshold).fit(X, Y).save(tmp_path / name)
    one, again, other = (revisions.arrays_checksum(tmp_path / name) for name in ("one", "again", "other"))
    assert one == again != other


def test_a_revision_beside_itself_saves_the_same_arrays(tmp_path: Path) -> None:
    source = Path(revisions.ROOT) / "src"
    if not list((source / "sylvan").glob("_native*.so")):
        pytest.skip("the kernels of this checkout aren't built")
    X, Y = sp.random(200, 40, 0.3, "csr", dtype=np.float32, random_state=0), sp.identity(20, np.float32, "csr")
    Y = sp.vstack([Y] * 10, format="csr")
    folder = tmp_path / "set"
    folder.mkdir()
    datasets.save(folder, {"X.trn": X, "Y.trn": Y, "X.tst": X, "Y.tst": Y})
    run = revisions.pairs(source, source, folder, {}, Namespace(rounds=1, threads=1))
    assert "error" not in run and run["same_arrays"] and run["model_mb"]["ratio"] == pytest.approx(1, abs=0.01)
