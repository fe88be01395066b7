"""Rows in folders and in parts are the rows of one matrix, whichever are taken; what is damaged or missing is named."""

import itertools
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.bits import same_bits
from kit.books import load_sample
from kit.errors import raises

from sylvan import TfidfVectorizer, XRLinear, data
from sylvan.arrays import validate
from sylvan.data import RowParts
from sylvan.data.parts import part_folders
from sylvan.data.parts import row_parts as module
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.neighbors import NeighborRanker
from sylvan.ranking.linear import LayerProblem, LinearOptions, block_jobs
from sylvan.runtime import Runner
from sylvan.runtime.checkpoint import Checkpoint, identity_of

RNG = np.random.default_rng(0)
X = validate.features(sp.random(50, 12, 0.3, "csr", np.float32, RNG))
Y = validate.labels(sp.random(50, 7, 0.3, "csr", np.float32, RNG))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> RowParts:
    folder = tmp_path_factory.mktemp("parts")
    data.save_parts(folder, X, Y, rows_per_part=11)
    return data.open_parts(folder)[0]


@settings(max_examples=40)
@given(
    n_rows=st.integers(1, 40), n_columns=st.integers(1, 9), rows_per_part=st.integers(1, 50), seed=st.integers(0, 99),
    chosen=st.lists(st.integers(0, 39), max_size=12, unique=True), as_url=st.booleans(),
)  # fmt: skip
def test_taken_rows_are_those_of_the_matrix(
    n_rows: int, n_columns: int, rows_per_part: int, seed: int, chosen: list[int], as_url: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    whole = validate.features(sp.random(n_rows, n_columns, 0.3, "csr", np.float32, np.random.default_rng(seed)))
    folder = tmp_path_factory.mktemp("parts")
    data.save_parts(folder, whole, rows_per_part=rows_per_part)
    opened, labels = data.open_parts(f"file://{folder}" if as_url else folder)
    assert labels is None and opened.shape == whole.shape and opened.nnz == whole.nnz
    rows = np.array(sorted(row for row in chosen if row < n_rows), np.int64)
    taken, wanted = opened.take(rows), whole.take(rows)
    same_bits(taken, wanted)
    assert opened.row_squares().tobytes() == whole.row_squares().tobytes()
    for one, other in zip(opened.column_squares(), whole.column_squares(), strict=True):
        assert one.tobytes() == other.tobytes()


def test_scaled_rows_are_scaled_when_they_are_read(parts: RowParts) -> None:
    factors = np.arange(1, 13, dtype=np.float32)
    rows = np.array([3, 20, 49])
    wanted = X.times_columns(factors).unit_rows().take(rows)
    assert parts.times_columns(factors).unit_rows().take(rows).data.tobytes() == wanted.data.tobytes()


def test_large_ones_lie_in_files(parts: RowParts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 16)
    rows = np.arange(50)
    taken = parts.take(rows)
    assert taken.data.base is not None and not taken.data.flags.owndata
    assert taken.data.tobytes() == X.data.tobytes()


def test_a_copy_in_another_process_opens_the_parts_anew(parts: RowParts) -> None:
    parts.take(np.array([1]))
    copied = pickle.loads(pickle.dumps(parts))
    assert copied._files == {} and copied.take(np.array([1])).indices.tolist() == X.take(np.array([1])).indices.tolist()


@pytest.mark.parametrize("negatives", ["tfn", "tfn+man"])
def test_a_job_reads_the_rows_of_its_clusters_alone(
    parts: RowParts, negatives: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[int]] = []
    take = RowParts.take

    def recorded(self: RowParts, rows: Any) -> Any:
        read.append(np.asarray(rows).tolist())
        return take(self, rows)

    monkeypatch.setattr(RowParts, "take", recorded)
    problem = LayerProblem(
        np.array([0, 2, 4, 7]), Y, np.array([0, 3, 4, 8]), np.array([0, 7, 30, 12, 1, 7, 40, 49], np.int32)
    )
    norms = np.ones(50, np.float32)
    jobs = block_jobs(parts, norms, problem, 0, LinearOptions())
    Runner().run(jobs)
    rows = {row for each in read for row in each}
    assert rows == {0, 1, 7, 12, 30, 40, 49}
    problem_of_one, own = problem.part(range(1, 2))
    assert own.tolist() == [12] and problem_of_one.rows.tolist() == [0] and problem_of_one.first == 1
    assert set(problem_of_one.positives.indices.tolist()) <= {2, 3}


def test_a_checkpoint_knows_the_data(tmp_path: Path) -> None:
    for name, scale in (("one", 1.0), ("two", 2.0)):
        data.save_parts(tmp_path / name, X.to_scipy() * scale, Y, rows_per_part=20)
    one, two = (data.open_parts(tmp_path / name)[0] for name in ("one", "two"))
    first = Checkpoint(tmp_path / "work")
    first.open(identity_of("XRLinear", {}, X=one))
    first.begin()
    first.close()
    again = Checkpoint(tmp_path / "work")
    again.open(identity_of("XRLinear", {}, X=data.open_parts(tmp_path / "one")[0]))
    again.close()
    with raises(ModelError, "training"):
        Checkpoint(tmp_path / "work").open(identity_of("XRLinear", {}, X=two))


# ---------------------------------------- what is wrong


def spoilt(folder: Path, name: str, change: Any) -> None:
    path = folder / "part-00001" / f"{name}.npy"
    array = np.load(path)
    array = change(array)
    np.save(path, array)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("indices", lambda a: np.where(np.arange(len(a)) == 5, np.int32(99), a), ("part-00001' is damaged", "row 1")),
        ("data", lambda a: np.where(np.arange(len(a)) == 5, np.float32(np.nan), a), "part-00001"),
        ("indices", lambda a: a[::-1].copy(), "part-00001"),
        ("indptr", lambda a: a[::-1].copy(), ("indptr", 0)),
        ("indptr", lambda a: a[:-1], ("indptr", 12)),
        ("indices", lambda a: a.astype(np.int64), ("int32", "int64")),
        ("shape", lambda a: np.array([11, -1]), ("shape", 0)),
        ("shape", lambda a: np.array([11, 13]), ("columns", 13)),
        ("data", lambda a: a[:-1], ("indices", "data")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_url", [False, True])
def test_what_is_damaged_is_named(name: str, change: Any, words: object, as_url: bool, tmp_path: Path) -> None:
    data.save_parts(tmp_path, X, rows_per_part=11)
    spoilt(tmp_path, name, change)
    with raises(DataError, words):
        data.open_parts(f"file://{tmp_path}" if as_url else tmp_path)[0].row_squares()


@pytest.mark.parametrize("as_url", [False, True])
def test_what_is_cut_short_or_gone_is_named(as_url: bool, tmp_path: Path) -> None:
    place = f"file://{tmp_path}" if as_url else tmp_path
    data.save_parts(tmp_path, X, rows_per_part=11)
    opened = data.open_parts(place)[0]
    os.truncate(tmp_path / "part-00002" / "data.npy", 140)
    with raises(DataError, "part-00002/data.npy", "part"):
        pickle.loads(pickle.dumps(opened)).row_squares()
    (tmp_path / "part-00001" / "data.npy").unlink()
    with raises(DataError, "part-00001/data.npy", "part"):
        data.open_parts(place)
    with raises(DataError, "read"):
        data.open_parts(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with raises(DataError, "parts"):
        data.open_parts(tmp_path / "empty")
    with raises(DataError, "part"):
        data.open_parts([])


def test_a_part_that_has_changed_is_refused(tmp_path: Path) -> None:
    data.save_parts(tmp_path, X, rows_per_part=11)
    opened = data.open_parts(tmp_path)[0]
    data.save_csr(tmp_path / "part-00002", X.take(np.arange(10)))
    with raises(DataError, "part-00002", "(10, 12)"):
        pickle.loads(pickle.dumps(opened)).take(np.array([25]))


def test_what_doesnt_fit_is_said(parts: RowParts, tmp_path: Path) -> None:
    with raises(DataError, "X", "(50, 12)", "Y", "(49, 7)"):
        XRLinear().fit(parts, Y.take(np.arange(49)))
    with raises(ParameterError, "keep_rows", "XRLinear", "False"):
        XRLinear(keep_rows=True).fit(parts, Y)
    data.save_parts(tmp_path, X, Y)
    with raises(DataError, "already"):
        data.save_parts(tmp_path, X, Y)
    large = X.to_scipy() * np.float32(1e16)
    data.save_parts(tmp_path / "large", large, rows_per_part=11)
    with raises(DataError, "1e+15"):
        XRLinear().fit(data.open_parts(tmp_path / "large")[0], Y)


def test_other_models_say_what_they_take(parts: RowParts) -> None:
    with raises(DataError, "X", "XRLinear.fit"):
        NeighborRanker().fit(parts, Y)


# ---------------------------------------- files of texts and of features


def test_files_of_texts_become_parts(tmp_path: Path) -> None:
    train, _ = load_sample()
    files = []
    for at in range(3):
        rows = slice(100 * at, 100 * at + 100)
        path = tmp_path / f"{at}.{'parquet' if at == 1 else 'jsonl'}"
        if at == 1:
            pytest.importorskip("pyarrow")
        (data.write_parquet if at == 1 else data.write_jsonl)(path, train.texts[rows], train.labels[rows])
        files.append(path)
    vectorizer = TfidfVectorizer().fit(train.texts[:300])
    names = data.write_parts(files, tmp_path / "parts", vectorizer, n_jobs=2)
    opened, labels = data.open_parts(tmp_path / "parts")
    whole = validate.features(vectorizer.transform(train.texts[:300]))
    assert opened.take(np.arange(300)).data.tobytes() == whole.data.tobytes()
    assert labels is not None
    assert (labels.to_scipy() != names.encode(train.labels[:300])).nnz == 0
    changed = {path: os.stat(path / "shape.npy").st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    (tmp_path / "parts" / "part-00001" / "shape.npy").unlink()  # as an interruption leaves it
    data.write_parts(files, tmp_path / "parts", vectorizer)
    again = {path: os.stat(path / "shape.npy").st_mtime_ns for path in changed}
    assert [path.name for path in changed if changed[path] != again[path]] == ["part-00001"]
    data.write_jsonl(files[0], ["other"], [["words"]])
    with raises(DataError, "file"):
        data.write_parts(files, tmp_path / "parts", vectorizer)
    with raises(DataError, "part-00001"):
        data.write_parts(files[:1], tmp_path / "parts", vectorizer)
    with raises(DataError, "gone.jsonl", "read"):
        data.write_parts([tmp_path / "gone.jsonl"], tmp_path / "elsewhere", vectorizer)


def test_files_of_features_become_parts(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as pq

    def written(name: str, **columns: Any) -> Path:
        pq.write_table(pa.table(columns), tmp_path / name)
        return tmp_path / name

    labels_of_one = [["a"], ["b", "a"], []]
    one = written("a.parquet", indices=[[1, 0], None, [2]], values=[[0.5, 1.0], [], [2.0]], labels=labels_of_one)
    two = written("b.parquet", indices=[[4]], values=[[3]], labels=[["c"]])
    names = data.write_parts([one, two], tmp_path / "parts")
    opened, labels = data.open_parts(tmp_path / "parts")
    assert opened.take(np.arange(4)).to_scipy().toarray().tolist() == [
        [1, 0.5, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 2, 0, 0], [0, 0, 0, 0, 3]
    ]  # fmt: skip
    assert list(names) == ["a", "b", "c"] and labels is not None
    assert labels.to_scipy().toarray().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 0, 1]]
    for name, columns, words in [
        ("c", {"indices": [[1]], "values": [[1.0, 2.0]], "labels": [["a"]]}, ("indices", 1, 2)),
        ("d", {"indices": [[-1]], "values": [[1.0]], "labels": [["a"]]}, "an index out of range in row 0"),
        ("e", {"indices": [["x"]], "values": [[1.0]], "labels": [["a"]]}, "whole"),
        ("f", {"values": [[1.0]], "labels": [["a"]]}, "indices"),
        ("g", {"indices": [[1, None]], "values": [[1.0, 1.0]], "labels": [["a"]]}, "null"),
    ]:  # fmt: skip
        with raises(DataError, words):
            data.write_parts([written(f"{name}.parquet", **columns)], tmp_path / name)


def test_parts_are_keys_as_themselves(parts: RowParts) -> None:
    assert {parts: 1}[parts] == 1 and parts != pickle.loads(pickle.dumps(parts))


DRAWS = np.random.default_rng(0)
MATRIX = sp.random(90, 25, 0.2, "csr", np.float32, DRAWS)


@settings(max_examples=40)
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
    data.save_csr(tmp_path, MATRIX)
    assert (data.open_csr(tmp_path).to_scipy() != MATRIX).nnz == 0
    data.save_csr(tmp_path, MATRIX.toarray()[:3].tolist())
    assert data.open_csr(tmp_path).shape == (3, 25)


def test_a_mapped_matrix_trains_the_same_model_and_is_not_copied(tmp_path: Path) -> None:
    Y = sp.random(90, 150, 0.03, "csr", np.float32, DRAWS)
    data.save_csr(tmp_path / "X", MATRIX)
    data.save_csr(tmp_path / "Y", Y)
    features, labels = data.open_csr(tmp_path / "X"), data.open_csr(tmp_path / "Y")
    assert validate.features(features).data is features.data
    ours, theirs = XRLinear().fit(features, labels), XRLinear().fit(MATRIX, Y)
    assert (ours.rank(features, k=5).scores == theirs.rank(MATRIX, k=5).scores).all()


FAULTS: dict[str, tuple[str, Any, str]] = {
    "dtype": ("indices", MATRIX.indices.astype(np.int64), ("int32", "int64")),
    "dimensions": ("data", MATRIX.data.reshape(1, -1), ("float32", "(1, 450)")),
    "lengths": ("data", MATRIX.data[1:], ("indices", "data")),
    "rows": ("indptr", MATRIX.indptr[:-1].astype(np.int64), ("indptr", 91)),
    "offsets": ("indptr", MATRIX.indptr[::-1].astype(np.int64), ("indptr", 0)),
    "end": ("indptr", np.minimum(MATRIX.indptr, 9).astype(np.int64), ("indptr", 0)),
    "columns": ("indices", MATRIX.indices + np.int32(20), ("row 0", "indices", "[0, 24]")),
    "order": ("indices", MATRIX.indices[::-1].copy(), "rising"),
    "values": ("data", MATRIX.data * np.float32(np.nan), ("row 0", "data")),
    "zeros": ("data", MATRIX.data * np.float32(0), "row 0"),
    "shape": ("shape", np.array([90, 25, 1]), "shape"),
    "negative": ("shape", np.array([90, -1]), "shape"),
    "objects": ("data", np.array([None]), r"data.npy' has a header other than those that Sylvan writes"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_refused(fault: str, tmp_path: Path) -> None:
    data.save_csr(tmp_path, MATRIX)
    name, array, sentence = FAULTS[fault]
    np.save(tmp_path / f"{name}.npy", array)
    with raises(DataError, sentence):
        data.open_csr(tmp_path)


def test_missing_and_cut_files(tmp_path: Path) -> None:
    assert not part_folders.is_csr_folder(tmp_path)
    with raises(DataError, "shape.npy", "read"):
        data.open_csr(tmp_path)
    data.save_csr(tmp_path, MATRIX)
    assert part_folders.is_csr_folder(tmp_path)
    path = tmp_path / "data.npy"
    path.write_bytes(path.read_bytes()[:-5])
    with raises(DataError, "data.npy", "read"):
        data.open_csr(tmp_path)


def test_a_writing_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    for matrix in (MATRIX, data.open_csr):  # also of the very files that are replaced
        data.save_csr(tmp_path, matrix(tmp_path) if matrix is data.open_csr else matrix)
        with raises(DataError, "columns", 3, 25):
            data.save_csr(tmp_path, [MATRIX, np.eye(3)])
        assert (data.open_csr(tmp_path).to_scipy() != MATRIX).nnz == 0
        assert len(os.listdir(tmp_path)) == 4
    with raises(DataError, "NaN"):
        data.save_csr(tmp_path, np.array([[np.inf]]))
    shutil.rmtree(tmp_path)
    tmp_path.write_text("")
    with raises(DataError, "written"):
        data.save_csr(tmp_path, MATRIX)
    tmp_path.unlink()
