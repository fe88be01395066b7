"""Sparse .npz and dense .npy: round trips, SciPy's own files, every damage a sentence."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan import data
from sylvan.data.formats.arrays import load_npz_columns
from sylvan.errors import DataError


def example(n=20, d=9, seed=0):
    return sp.random(n, d, 0.3, "csr", random_state=np.random.default_rng(seed))


def same(got, want):
    assert isinstance(got, sp.csr_matrix) and got.dtype == np.float32
    assert got.shape == want.shape
    assert got.has_canonical_format
    np.testing.assert_array_equal(got.toarray(), want.toarray().astype(np.float32))


@pytest.mark.parametrize("compressed", [True, False])
def test_npz_round_trip_and_scipy_reads_it(tmp_path, compressed):
    path = tmp_path / "X.trn.npz"
    data.save_npz(path, example(), compressed=compressed)
    same(data.load_npz(path), example())
    same(sp.csr_matrix(sp.load_npz(path)), example())
    same(load_npz_columns(path), example().T.tocsr())


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_what_scipy_writes(tmp_path, kind, dtype):
    matrix = kind((example() * 5).astype(dtype))
    sp.save_npz(tmp_path / "a.npz", matrix, compressed=False)
    same(data.load_npz(tmp_path / "a.npz"), matrix)


def test_wide_indices_unsorted_and_repeated_entries(tmp_path):
    write(tmp_path / "a.npz", indices=np.array([2, 0, 2]), indptr=np.array([0, 3, 3]), data=np.ones(3), shape=(2, 3))
    matrix = data.load_npz(tmp_path / "a.npz")
    assert matrix.toarray().tolist() == [[1, 0, 2], [0, 0, 0]]
    matrix.data[:] = 7  # what is read may be changed


def test_pairs_as_pecos_lays_them_out(tmp_path):
    x, y = example(), example(20, 5, 1)
    data.save_npz_pair(tmp_path / "set", x, y, "tst")
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == ["X.tst.npz", "Y.tst.npz"]
    got_x, got_y = data.load_npz_pair(tmp_path / "set", "tst")
    same(got_x, x)
    same(got_y, y)
    data.save_npz(tmp_path / "set" / "Y.tst.npz", y[:3])
    with raises(DataError, "(3, 5)", 20):
        data.load_npz_pair(tmp_path / "set", "tst")
    data.save_npz(tmp_path / "set" / "Y.tst.npz", -y)
    with raises(DataError, "Y.tst.npz", "negative"):
        data.load_npz_pair(tmp_path / "set", "tst")
    with raises(DataError, "X.trn.npz"):
        data.load_npz_pair(tmp_path / "set")
    with raises(DataError, "rows", 20):
        data.save_npz_pair(tmp_path / "set", x, y[:3])


def write(path, **changes):
    """An .npz of a sound 2 × 3 matrix, except for the arrays given; None leaves one out."""
    arrays = {
        "format": np.array(b"csr"), "shape": np.array([2, 3]), "data": np.array([1.0, 2.0], np.float32),
        "indices": np.array([0, 2], np.int32), "indptr": np.array([0, 1, 2], np.int32), **changes,
    }  # fmt: skip
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})


FAULTS = {
    "not of SciPy": ({"format": None}, "has no array 'format'. Its arrays are: data, indices, indptr, shape"),
    "bsr": ({"format": np.array(b"bsr")}, "'format' must be 'csr', 'csc' or 'coo'. Got 'bsr'"),
    "format of two": ({"format": np.array([b"csr", b"csc"])}, "'format' must be 'csr', 'csc' or 'coo'"),
    "shape of three": ({"shape": np.array([2, 3, 4])}, "no sparse matrix of shape [2, 3, 4] ("),
    "negative shape": ({"shape": np.array([-2, 3])}, "no sparse matrix of shape [-2, 3] ("),
    "huge shape": ({"shape": np.array([2, 2**40])}, "has shape (2, 1099511627776); no more than 2147483647 columns"),
    "fractional shape": ({"shape": np.array([2.0, 3.0])}, "'shape' must hold ints. Got dtype float64"),
    "short indptr": ({"indptr": np.array([0, 2])}, "no sparse matrix of shape [2, 3] ("),
    "falling indptr": ({"indptr": np.array([0, 3, 2])}, "is an inconsistent sparse matrix: its offsets are wrong"),
    "indptr past the end": ({"indptr": np.array([0, 1, 9])}, "no sparse matrix of shape [2, 3] ("),
    "indptr not from 0": ({"indptr": np.array([1, 1, 2])}, "no sparse matrix of shape [2, 3] ("),
    "huge indptr": ({"indptr": np.array([0, 2**63, 2], np.uint64)}, "its offsets are wrong"),
    "negative id": ({"indices": np.array([0, -1])}, "holds an index out of range in row 1"),
    "id too high": ({"indices": np.array([0, 3])}, "holds an index out of range in row 1"),
    "id beyond int32": ({"indices": np.array([0, 2**32])}, "holds an index out of range in row 1"),
    "fractional ids": ({"indices": np.array([0.0, 1.0])}, "'indices' must hold ints. Got dtype float64"),
    "lengths differ": ({"data": np.ones(3)}, "no sparse matrix of shape [2, 3] ("),
    "data of two dimensions": ({"data": np.ones((1, 2))}, "no sparse matrix of shape [2, 3] ("),
    "text": ({"data": np.array(["a", "b"])}, "'data' must hold numbers. Got dtype <U1"),
    "complex": ({"data": np.array([1j, 2])}, "'data' must hold numbers. Got dtype complex128"),
    "pickle": ({"data": np.array([{}, None], object)}, "array 'data': holds pickled Python objects, which are never"),
    "nan": ({"data": np.array([1, np.nan])}, "holds NaN or infinity (inf) in row 1"),
    "beyond float32": ({"data": np.array([1e300, 1])}, "holds a value too large for float32 in row 0"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.filterwarnings("ignore")
def test_faulty_arrays(tmp_path, name):
    changes, message = FAULTS[name]
    write(tmp_path / "a.npz", **changes)
    with pytest.raises(DataError) as caught:
        data.load_npz(tmp_path / "a.npz")
    assert str(caught.value).startswith(str(tmp_path / "a.npz"))
    assert message in str(caught.value)


def test_coo_faults(tmp_path):
    coo = {"format": np.array(b"coo"), "row": np.array([0, 1]), "col": np.array([0, 5])}
    write(tmp_path / "a.npz", **coo)
    with raises(DataError, "[2, 3]"):
        data.load_npz(tmp_path / "a.npz")
    write(tmp_path / "a.npz", **{**coo, "col": np.array([0])})
    with raises(DataError, "[2, 3]"):
        data.load_npz(tmp_path / "a.npz")


def test_every_truncation_and_many_flipped_bytes(tmp_path):
    """Whatever is cut or flipped: a sentence, or a sound matrix where it did not matter."""
    path = tmp_path / "a.npz"
    for compressed in (False, True):
        data.save_npz(path, example(6, 4), compressed=compressed)
        whole = path.read_bytes()
        rng = np.random.default_rng(0)
        for length in range(0, len(whole), 13):
            path.write_bytes(whole[:length])
            with pytest.raises(DataError):
                data.load_npz(path)
        for at in rng.integers(0, len(whole), 400).tolist():
            path.write_bytes(whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :])
            try:
                assert np.isfinite(data.load_npz(path).toarray()).all()
            except DataError as error:
                assert str(path) in str(error)


def test_a_header_that_promises_more_than_there_is(tmp_path):
    path = tmp_path / "a.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (2**50,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.npy", header.getvalue())
    with raises(DataError, "data", 4503599627370496, 0):
        data.load_npz(path)


def test_npz_is_neither_text_nor_folder(tmp_path):
    (tmp_path / "a.npz").write_text("0 1:1\n")
    with raises(DataError, "a.npz"):
        data.load_npz(tmp_path / "a.npz")
    with raises(DataError, "folder"):
        data.load_npz(tmp_path)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint64, bool])
def test_npy_round_trip(tmp_path, dtype, suffix):
    path = tmp_path / f"X.npy{suffix}"
    matrix = (np.arange(12).reshape(4, 3) % 2).astype(dtype)
    for given in (matrix, np.asfortranarray(matrix), matrix[:, ::-1][:, ::-1]):
        data.save_npy(path, given)
        got = data.load_npy(path)
        assert got.dtype == np.float32 and got.flags.c_contiguous and got.flags.writeable
        np.testing.assert_array_equal(got, matrix.astype(np.float32))


def test_npy_as_numpy_writes_it(tmp_path):
    for matrix in (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6, dtype=">i4").reshape(3, 2)):
        np.save(tmp_path / "X.npy", matrix)
        np.testing.assert_array_equal(data.load_npy(tmp_path / "X.npy"), matrix)
    np.save(tmp_path / "X.npy", np.empty((0, 5)))
    assert data.load_npy(tmp_path / "X.npy").shape == (0, 5)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), ("float64", "(3,)")), (np.ones((1, 2, 3)), "X.npy"), (np.array([["a"]]), ("U1", "dtype")),
        (np.array([[None]]), "pickled"), (np.zeros((2, 2), [("a", "f4")]), "X.npy"),
        (np.array([[1, 2], [3, np.inf]]), "row 1"), (np.array([[1e39]]), "row 0"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_npy_faults(tmp_path, array, message):
    np.save(tmp_path / "X.npy", array)
    with raises(DataError, message):
        data.load_npy(tmp_path / "X.npy")


def test_npy_damage(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.ones((4, 4)))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with raises(DataError, "X.npy"):
            data.load_npy(path)
    path.write_bytes(whole + b"more")
    with raises(DataError, 128, 132):
        data.load_npy(path)
    path.write_bytes(whole.replace(b"(4, 4)", b"(4,-4)"))
    with raises(DataError, "X.npy", "(4, -4)"):
        data.load_npy(path)
    path.write_bytes(whole.replace(b"(4, 4)", b"exit()"))
    with raises(DataError, "X.npy", "header"):
        data.load_npy(path)


def test_stdin(monkeypatch, tmp_path):
    data.save_npy(tmp_path / "X.npy", np.eye(2))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "X.npy").read_bytes())))
    assert data.load_npy("-").tolist() == [[1, 0], [0, 1]]
    data.save_npz(tmp_path / "X.npz", np.eye(2))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "X.npz").read_bytes())))
    assert data.load_npz("-").toarray().tolist() == [[1, 0], [0, 1]]


def test_a_directory_that_promises_more_than_the_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("data.npy", b"")
        archive.infolist()[0].compress_size = archive.infolist()[0].file_size = 2**30
    with raises(DataError, "'data'", 2**30, "more than the file can hold"):
        data.load_npz(tmp_path / "a.npz")
