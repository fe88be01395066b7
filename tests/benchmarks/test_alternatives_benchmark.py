"""The choices of XRLinear: each can be trained; labels without rows; every data structure answers the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.common import datasets
from benchmarks.linear import alternatives, lookups, unreached
from benchmarks.report import alternatives as tables
from sylvan import LabelTree

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


def test_relevances_have_a_mean_of_1() -> None:
    row, rare = (alternatives.relevances(Y_TRAIN, word) for word in ("row", "propensity"))
    for found in (row, rare):
        assert found.data.mean() == pytest.approx(1, abs=1e-5) and found.data.std() > 0.05
    sums = np.asarray(row.sum(axis=1)).ravel()
    np.testing.assert_allclose(sums[sums > 0], sums.max(), rtol=1e-5)
    counts = np.bincount(Y_TRAIN.indices, minlength=150)
    assert (np.diff(rare.data[np.argsort(counts[rare.indices], kind="stable")]) <= 0).all()
    assert alternatives.relevances(Y_TRAIN, None) is Y_TRAIN


@pytest.mark.parametrize(("branching", "max_leaf"), [(16, 200), (16, 10), (2, 10)])
def test_new_labels_have_clusters_of_their_own(branching: int, max_leaf: int) -> None:
    new, seen = np.arange(0, 450, 3), np.delete(np.arange(450), np.arange(0, 450, 3))
    before = LabelTree.random(len(seen), branching, max_leaf)
    tree = unreached.with_new_labels(before, seen, new)
    clusters, others = (
        [sorted(one) for one in np.split(labels, each.child_offsets[-1][1:-1])]
        for each, labels in ((tree, tree.leaf_labels), (before, seen[before.leaf_labels]))
    )
    assert [len(one) for one in clusters[-2:]] == [unreached.CLUSTER, 50]
    assert clusters[-2] + clusters[-1] == new.tolist()
    assert clusters[:-2] == others
    assert tree.layer_sizes[:-1] == tuple(
        size + (2 if t == before.depth - 2 else 1) for t, size in enumerate(before.layer_sizes[:-1])
    )


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
