"""load_xmc, load_svmlight and their writers: known answers, round trips, every fault a sentence."""

import io

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import data
from sylvan.errors import DataError, ParameterError


def dense(pair):
    return [matrix.toarray().tolist() for matrix in pair]


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes, name: str = "a.txt"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    return tmp_path_factory.mktemp("matrices") / "a.txt"


@st.composite
def matrices(draw):
    n, d, n_labels = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 6))
    value = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda v: v != 0) | st.just(0.0)
    x = [draw(st.lists(value, min_size=d, max_size=d)) for _ in range(n)]
    weight = st.sampled_from([0.0, 0.0, 1.0]) | st.floats(0, 100, width=32)
    y = [draw(st.lists(weight, min_size=n_labels, max_size=n_labels)) for _ in range(n)]
    return sp.csr_matrix(np.array(x, np.float32)), sp.csr_matrix(np.array(y, np.float32))


def same(got, want):
    want = sp.csr_matrix(want, dtype=np.float32)
    assert got.shape == want.shape
    assert got.dtype == np.float32
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(got, name), getattr(want, name))


@settings(max_examples=50, deadline=None)
@given(matrices(), st.booleans())
def test_xmc_round_trip(shared_path, pair, header):
    x, y = pair
    data.save_xmc(shared_path, x, y, header=header)
    weighted = bool((y.data != 1).any())
    sizes = {} if header else {"n_features": x.shape[1], "n_labels": y.shape[1]}
    for got, want in zip(data.load_xmc(shared_path, weighted_labels=weighted, **sizes), pair, strict=True):
        same(got, want)


@settings(max_examples=50, deadline=None)
@given(matrices(), st.booleans())
def test_svmlight_round_trip(shared_path, pair, zero_based):
    x, y = pair
    data.save_svmlight(shared_path, x, y, zero_based=zero_based, weighted_labels=True)
    options = {"n_features": x.shape[1], "n_labels": y.shape[1], "zero_based": zero_based, "weighted_labels": True}
    for got, want in zip(data.load_svmlight(shared_path, **options), pair, strict=True):
        same(got, want)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_packed_round_trip(tmp_path, suffix):
    rng = np.random.default_rng(0)
    x, y = sp.random(300, 40, 0.1, "csr", random_state=rng), sp.random(300, 20, 0.1, "csr", random_state=rng)
    path = tmp_path / f"a.txt{suffix}"
    data.save_xmc(path, x, y)
    got_x, got_y = data.load_xmc(path, weighted_labels=True)
    same(got_x, x)
    same(got_y, y)


def test_scikit_learn_reads_what_is_written_and_the_other_way_round(tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(1)
    x, y = sp.random(50, 30, 0.2, "csr", random_state=rng), sp.random(50, 9, 0.2, "csr", random_state=rng)
    y.data[:] = 1
    data.save_svmlight(tmp_path / "a.svm", x, y)
    theirs, labels = datasets.load_svmlight_file(
        str(tmp_path / "a.svm"), n_features=30, multilabel=True, zero_based=True, dtype=np.float32
    )
    # scikit-learn passes over lines that hold nothing but blanks.
    full = np.flatnonzero((x.getnnz(axis=1) > 0) | (y.getnnz(axis=1) > 0))
    same(theirs, x[full])
    assert [list(map(int, row)) for row in labels] == [y[i].indices.tolist() for i in full]
    datasets.dump_svmlight_file(x, y, str(tmp_path / "b.svm"), multilabel=True, comment="theirs")
    got_x, got_y = data.load_svmlight(tmp_path / "b.svm", n_features=30, n_labels=9, zero_based=True)
    same(got_x, x)
    same(got_y, y)


def test_header_can_be_demanded_or_denied(file):
    with raises(DataError, "line 1"):
        data.load_xmc(file("1 0:1\n"), header=True)
    with raises(DataError, "line 1", "'2'"):
        data.load_xmc(file("1 2 3\n"), header=False)
    with raises(ParameterError, "header", "True", "False", "auto", "yes"):
        data.load_xmc(file("1 2 3\n"), header="yes")


def test_a_row_of_many_unsorted_entries(file):
    order = np.random.default_rng(0).permutation(200_000)
    line = ",".join(map(str, order)) + " " + " ".join(f"{i}:{i % 100}" for i in order) + "\n"
    x, y = data.load_xmc(file(line))
    assert x.indices.tolist() == y.indices.tolist() == list(range(200_000))
    assert x.data.tolist() == [i % 100 for i in range(200_000)]


def test_bytes_that_are_no_text(file):
    with raises(DataError, "line 1", "0 \\xff\\xfe1"):
        data.load_xmc(file(b"0 \xff\xfe1\n"))
    with raises(DataError, "line 1"):
        data.load_svmlight(file(np.random.default_rng(0).bytes(10_000)))


@pytest.mark.parametrize("load", [data.load_xmc, data.load_svmlight])
@pytest.mark.parametrize("value", [-1, 2**31, 1.5, True, "3"])
def test_sizes_out_of_range(file, load, value):
    with raises(ParameterError, "n_labels"):
        load(file("0 1:1\n"), n_labels=value)


@pytest.mark.parametrize("n_jobs", [0, -5, 1.5])
def test_n_jobs_out_of_range(file, n_jobs):
    with raises(ParameterError, "n_jobs"):
        data.load_xmc(file("0 1:1\n"), n_jobs=n_jobs)


def test_writers_refuse_what_could_not_be_read(tmp_path):
    path = tmp_path / "a.txt"
    one = np.ones((2, 2))
    with raises(DataError, "Y", "(1, 2)", 2):
        data.save_xmc(path, one, one[:1])
    with raises(DataError, "X", "NaN", "inf", "row 1"):
        data.save_xmc(path, np.array([[1, 2], [np.nan, 1]]), one)
    with raises(DataError, "X", "float32", "row 0"):
        data.save_xmc(path, one * 1e300, one)
    with raises(DataError, "Y", "row 0"):
        data.save_xmc(path, one, -one)
    with raises(DataError, "X", "text"):
        data.save_xmc(path, ["text", "more"], one)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, np.asarray])
def test_writers_take_any_matrix_and_leave_it_alone(tmp_path, kind):
    x = kind(np.array([[0, 2.5], [1, 0]]))
    before = x.copy()
    data.save_xmc(tmp_path / "a.txt", x, np.eye(2, dtype=bool))
    assert (tmp_path / "a.txt").read_text() == "2 2 2\n0 1:2.5\n1 0:1\n"
    assert x.dtype == before.dtype and abs(x - before).sum() == 0


def test_unsorted_matrices_are_written_sorted_and_left_alone(tmp_path):
    x = sp.csr_matrix((np.ones(3, np.float32), np.array([1, 0, 1], np.int32), np.array([0, 3], np.int32)), (1, 2))
    data.save_xmc(tmp_path / "a.txt", x, np.ones((1, 1)))
    assert (tmp_path / "a.txt").read_text() == "1 2 1\n0 0:1 1:2\n"
    assert x.indices.tolist() == [1, 0, 1]


def test_stdin_and_stdout(monkeypatch, capfdbinary):
    data.save_xmc("-", np.array([[0.5, 0]]), np.array([[0, 1]]))
    written = capfdbinary.readouterr().out
    assert written == b"1 2 2\n1 0:0.5\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written)))
    assert dense(data.load_xmc("-")) == [[[0.5, 0]], [[0, 1]]]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 1 1\n0 0:x\n")))
    with raises(DataError, "line 2"):
        data.load_xmc("-")


def test_the_kernels_refuse_short_outputs():
    from sylvan import kernels

    text = np.frombuffer(b"1,2 3:4\n", np.uint8)
    rows, features, labels = kernels.bound_lines(text)

    def parse(rows, features, labels, highest=10):
        i64, i32, f32 = np.int64, np.int32, np.float32
        outputs = np.empty(rows, i64), np.empty(features, i32), np.empty(features, f32)
        more = np.empty(rows, i64), np.empty(labels, i32), np.empty(labels, f32)
        return kernels.parse_lines(text, 0, highest, 10, False, False, *outputs, *more)

    assert parse(rows, features, labels)[0] == 1
    for short in ((rows - 1, features, labels), (rows, features - 1, labels), (rows, features, labels - 1)):
        with raises(ValueError, "bound_lines"):
            parse(*short)
    with raises(ValueError, "high"):
        parse(rows, features, labels, 2**40)
    offsets, ids, values = np.array([0, 2], np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32)
    with raises(ValueError, "offsets"):
        kernels.format_lines(0, 1, offsets, ids, values, offsets, ids, values, False, 0, np.empty(999, np.uint8))
    offsets[1] = 1
    with raises(ValueError, "output"):
        kernels.format_lines(0, 1, offsets, ids, values, offsets, ids, values, False, 0, np.empty(9, np.uint8))


@pytest.mark.parametrize(("save", "content"), [(data.save_xmc, b"0 3 2\n"), (data.save_svmlight, b"")])
def test_a_matrix_without_rows_is_written(save, content, tmp_path):
    save(tmp_path / "a.txt", sp.csr_matrix((0, 3), dtype=np.float32), sp.csr_matrix((0, 2), dtype=np.float32))
    assert (tmp_path / "a.txt").read_bytes() == content
