"""Sparse matrices in folders: what is written is opened as it was, everything else is refused with a sentence."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import XRLinear, data
from sylvan.arrays import validate
from sylvan.data.parts import part_folders
from sylvan.errors import DataError

RNG = np.random.default_rng(0)
X = sp.random(90, 25, 0.2, "csr", np.float32, RNG)


@given(
    n_rows=st.integers(0, 40),
    n_columns=st.integers(0, 9),
    seed=st.integers(0, 2**31),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
def test_blocks_are_one_matrix(
    n_rows: int, n_columns: int, seed: int, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = np.random.default_rng(seed)
    matrix = sp.random(n_rows, n_columns, 0.3, "csr", np.float32, rng)
    edges = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    folder = tmp_path_factory.mktemp("csr")
    data.save_csr(folder, [matrix[first:last] for first, last in itertools.pairwise(edges)])
    opened, wanted = data.open_csr(folder), validate.features(matrix)
    assert opened.shape == matrix.shape
    for name in ("indptr", "indices", "data"):
        found = getattr(opened, name)
        assert found.tobytes() == getattr(wanted, name).tobytes() and not (found.size and found.flags.writeable)


def test_rows_are_written_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_folders, "_ROWS", 7)
    data.save_csr(tmp_path, X)
    assert (data.open_csr(tmp_path).to_scipy() != X).nnz == 0
    data.save_csr(tmp_path, X.toarray()[:3].tolist())
    assert data.open_csr(tmp_path).shape == (3, 25)


def test_a_mapped_matrix_trains_the_same_model_and_is_not_copied(tmp_path: Path) -> None:
    Y = sp.random(90, 150, 0.03, "csr", np.float32, RNG)
    data.save_csr(tmp_path / "X", X)
    data.save_csr(tmp_path / "Y", Y)
    features, labels = data.open_csr(tmp_path / "X"), data.open_csr(tmp_path / "Y")
    assert validate.features(features).data is features.data
    ours, theirs = XRLinear().fit(features, labels), XRLinear().fit(X, Y)
    assert (ours.rank(features, k=5).scores == theirs.rank(X, k=5).scores).all()


FAULTS: dict[str, tuple[str, Any, str]] = {
    "dtype": ("indices", X.indices.astype(np.int64), ("int32", "int64")),
    "dimensions": ("data", X.data.reshape(1, -1), ("float32", "(1, 450)")),
    "lengths": ("data", X.data[1:], ("indices", "data")),
    "rows": ("indptr", X.indptr[:-1].astype(np.int64), ("indptr", 91)),
    "offsets": ("indptr", X.indptr[::-1].astype(np.int64), ("indptr", 0)),
    "end": ("indptr", np.minimum(X.indptr, 9).astype(np.int64), ("indptr", 0)),
    "columns": ("indices", X.indices + np.int32(20), ("row 0", "indices", "[0, 24]")),
    "order": ("indices", X.indices[::-1].copy(), "rising"),
    "values": ("data", X.data * np.float32(np.nan), ("row 0", "data")),
    "zeros": ("data", X.data * np.float32(0), "row 0"),
    "shape": ("shape", np.array([90, 25, 1]), "shape"),
    "negative": ("shape", np.array([90, -1]), "shape"),
    "objects": ("data", np.array([None]), r"data.npy' has a header other than those that Sylvan writes"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_refused(fault: str, tmp_path: Path) -> None:
    data.save_csr(tmp_path, X)
    name, array, sentence = FAULTS[fault]
    np.save(tmp_path / f"{name}.npy", array)
    with raises(DataError, sentence):
        data.open_csr(tmp_path)


def test_missing_and_cut_files(tmp_path: Path) -> None:
    assert not part_folders.is_csr_folder(tmp_path)
    with raises(DataError, "shape.npy", "read"):
        data.open_csr(tmp_path)
    data.save_csr(tmp_path, X)
    assert part_folders.is_csr_folder(tmp_path)
    path = tmp_path / "data.npy"
    path.write_bytes(path.read_bytes()[:-5])
    with raises(DataError, "data.npy", "read"):
        data.open_csr(tmp_path)


def test_a_writing_that_fails_leaves_no_matrix(tmp_path: Path) -> None:
    data.save_csr(tmp_path, X)
    with raises(DataError, "columns", 3, 25):
        data.save_csr(tmp_path, [X, np.eye(3)])
    assert not part_folders.is_csr_folder(tmp_path)
    with raises(DataError, "NaN"):
        data.save_csr(tmp_path, np.array([[np.inf]]))
    shutil.rmtree(tmp_path)
    tmp_path.write_text("")
    with raises(DataError, "written"):
        data.save_csr(tmp_path, X)
    tmp_path.unlink()
