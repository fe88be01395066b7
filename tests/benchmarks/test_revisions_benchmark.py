"""The benchmark that compares two revisions of Sylvan, here one with itself."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.common import datasets
from benchmarks.linear import revisions
from sylvan import XRLinear


def test_arrays_are_compared_without_the_mark_of_the_save(tmp_path: Path) -> None:
    X, Y = np.eye(6, dtype=np.float32).repeat(4, axis=0), np.arange(6).repeat(4)
    for name, threshold in (("one", 0.1), ("again", 0.1), ("other", 0.5)):
        XRLinear(max_leaf=2, threshold=threshold).fit(X, Y).save(tmp_path / name)
    one, again, other = (revisions.arrays_checksum(tmp_path / name) for name in ("one", "again", "other"))
    assert one == again != other


def test_a_revision_beside_itself_saves_the_same_arrays(tmp_path: Path) -> None:
    source = Path(revisions.ROOT) / "src"
    if not list((source / "sylvan").glob("_native.*")):
        pytest.skip("the kernels of this checkout aren't built")
    X, Y = sp.random(200, 40, 0.3, "csr", dtype=np.float32, random_state=0), sp.identity(20, np.float32, "csr")
    Y = sp.vstack([Y] * 10, format="csr")
    folder = tmp_path / "set"
    folder.mkdir()
    datasets.save(folder, {"X.trn": X, "Y.trn": Y, "X.tst": X, "Y.tst": Y})
    run = revisions.pairs(source, source, folder, {}, Namespace(rounds=1, threads=1))
    assert "error" not in run and run["same_arrays"] and run["model_mb"]["ratio"] == pytest.approx(1, abs=0.01)
