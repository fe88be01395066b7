"""The native reader against its slow reference implementation: the same matrices, or the same sentence."""

import contextlib
import re

import numpy as np
import pytest
import text_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import data
from sylvan.data import streams
from sylvan.errors import DataError

ids = st.integers(0, 12).map(str) | st.sampled_from(["007", "-1", "2147483646", "2147483647", "99999999999999999999"])
floats = (
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30).map(repr)
    | st.decimals(-1000, 1000, places=4).map(str)
    | st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,2})?", fullmatch=True)
    | st.sampled_from(["1e-45", "7e-46", "1e38", "3.5e38", "nan", "-Inf", "16777217", "1e400", "1e-400", "0e999999"])
)
pairs = st.builds("{}:{}".format, ids, floats)
good_pairs = st.builds("{}:{}".format, st.integers(0, 12), st.decimals(-9, 9, places=2))
odd = st.text("0123456789:,.-+ e\t#qid\r\0é", max_size=8)
label_lists = st.lists(st.integers(0, 9).map(str), max_size=4).map(",".join)
weighted_lists = st.lists(st.builds("{}:{}".format, st.integers(0, 9), floats), max_size=3).map(",".join)
good_lines = st.builds("{} {}".format, label_lists, st.lists(good_pairs, max_size=6).map(" ".join))
any_lines = st.builds(
    "{}{}{}".format,
    label_lists | weighted_lists | odd,
    st.sampled_from([" ", "", "  ", "\t"]),
    st.lists(pairs | odd, max_size=4).map(" ".join),
)
headers = st.just("") | st.builds("{} {} {}\n".format, *[st.integers(0, 13)] * 3) | odd.map("{}\n".format)


@st.composite
def files(draw) -> bytes:
    lines = draw(st.lists(good_lines | any_lines, max_size=6) | st.lists(good_lines, max_size=6))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = draw(headers) + end.join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    return draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + text.encode()


def outcome(load, path, **options):
    try:
        return [as_dicts(matrix) for matrix in load(path, n_jobs=1, **options)]
    except DataError as error:
        return re.sub(rf"^{re.escape(str(path))}(, |: )", "", str(error))


def as_dicts(matrix):
    assert matrix.dtype == np.float32
    rows = [
        dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        for row in (matrix[i] for i in range(matrix.shape[0]))
    ]
    return matrix.shape[1], rows


def reference_outcome(load, content, **options):
    try:
        return list(load(content, **options))
    except text_reference.ReadingError as error:
        return str(error)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("reference") / "file.txt"


# What chance seldom writes: faults of every kind, and all that a line may hold beside labels and features.
BY_HAND = [
    "1 2 2\n0 0:1\n0 1:1\n", "3 2 2\n0 0:1\n0 1:1\n", "1 2 2\n0 2:1\n", "1 2 2\n2 1:1\n", "1 2 2\n-1 1:1\n",
    "1 2 2\n0 -1:1\n", "1 2 2\n0, 1:1\n", "1 2 2\nWhaling 1:1\n", "1 2 2\n0 1\n", "1 2 2\n0 1:\n",
    "1 2 2\n0 1:1,5\n", "1 2 2\n0 1:0x10\n", "1 2 2\n0 1:nan\n", "1 2 2\n0 1:-inf\n", "1 2 2\n0 1:1e39\n",
    "1 2 2\n0 1:3e38 1:3e38\n", "1 2 2\n1:1\n", "1 2 2\n0:1,1:2 1:1\n", "1 2 9999999999\n0 1:1\n",
    "1 2147483648 2\n0 1:1\n", "1 2\n0 1:1\n",
    "0 2147483647:1\n", "0 99999999999999999999999:1\n", "", "\n\n", "0 1:1\0\n", " " + "x" * 1000,
    "2 4 3\r\n0,2 1:0.5 3:2\r\n 0:1", "1 4 4\n3,1,3 2:1 0:2 2:0.5\n", "3:0.5,1:2,0,3:1 0:1\n 0:1\n",
    "7 3:1\n 9:1\n\n\n", "3 2 2\n0 0:1\n\n1 1:1\n", "0 0:1\n\n1 1:1\n\n", "3 2 2\n0 0:1\n\n\n\n\n",
    "# made by hand\n\n0,1 qid:3 1:1 # the first 5:6\nqid:4 2:1\n2:3\n \n", "0 1:1 3:1\n", "0 0:1 3:1\n",
    "0 0:1 2:1\n0 3:1\n", *(f"0:{weight} 0:1\n" for weight in ("x", "-1", "nan", "1e39", "")),
]  # fmt: skip


@pytest.mark.parametrize("content", BY_HAND, ids=repr)
def test_by_hand(path, content):
    path.write_bytes(content.encode())
    for options in ({}, {"weighted_labels": True}, {"n_features": 3, "n_labels": 9}):
        expected = reference_outcome(text_reference.load_xmc, content.encode(), **options)
        assert repr(outcome(data.load_xmc, path, **options)) == repr(expected)
        for zero_based in (True, False, "auto"):
            options["zero_based"] = zero_based
            expected = reference_outcome(text_reference.load_svmlight, content.encode(), **options)
            assert repr(outcome(data.load_svmlight, path, **options)) == repr(expected)


sizes = st.none() | st.integers(0, 13)


@settings(max_examples=150, deadline=None)
@given(files(), sizes, sizes, st.booleans())
def test_xmc(path, content, n_features, n_labels, weighted):
    path.write_bytes(content)
    options = {"n_features": n_features, "n_labels": n_labels, "weighted_labels": weighted}
    expected = reference_outcome(text_reference.load_xmc, content, **options)
    assert repr(outcome(data.load_xmc, path, **options)) == repr(expected)


@settings(max_examples=150, deadline=None)
@given(files(), st.sampled_from([True, False, "auto"]), sizes, sizes, st.booleans())
def test_svmlight(path, content, zero_based, n_features, n_labels, weighted):
    path.write_bytes(content)
    options = {"zero_based": zero_based, "n_features": n_features, "n_labels": n_labels, "weighted_labels": weighted}
    expected = reference_outcome(text_reference.load_svmlight, content, **options)
    assert repr(outcome(data.load_svmlight, path, **options)) == repr(expected)


@settings(max_examples=300, deadline=None)
@given(floats)
def test_numbers_are_correctly_rounded(path, text):
    path.write_text(f" 0:{text}\n")
    expected = text_reference.to_float(text)
    with contextlib.suppress(DataError):
        x, _ = data.load_xmc(path, n_jobs=1)
        assert repr(x.data.tolist()) == repr([expected])
        return
    assert isinstance(expected, str)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-3, 3))
def test_numbers_at_the_middle_between_two_floats(path, bits, nudge):
    """The exact middle goes to the even neighbour, a hair beside it to the nearer one."""
    from fractions import Fraction

    value = np.array([bits & 0x7FFFFFFF], np.uint32).view(np.float32)[0]
    if not (1e-30 < value < 1e30):
        return
    above = np.nextafter(value, np.float32(np.inf))
    middle = (Fraction(float(value)) + Fraction(float(above))) / 2
    middle += Fraction(nudge) * middle / 10**40
    text = f"{middle.numerator * 10**200 // middle.denominator}e-200"
    path.write_text(f" 0:{text}\n")
    x, _ = data.load_xmc(path, n_jobs=1)
    assert x.data.tolist() == [text_reference.to_float(text)]


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("size", [1, 7, 64])
def test_blocks_and_threads_change_nothing(path, monkeypatch, n_jobs, size):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(200):
        labels = ",".join(map(str, rng.integers(0, 30, rng.integers(0, 4))))
        lines.append(labels + " " + " ".join(f"{i}:{rng.normal():.3g}" for i in rng.integers(0, 50, 8)))
    content = "\n".join([*lines, ""]).encode()
    path.write_bytes(content)
    monkeypatch.setattr(streams.InputStream.blocks, "__defaults__", (size,))
    x, y = data.load_xmc(path, n_jobs=n_jobs)
    assert [as_dicts(x), as_dicts(y)] == list(text_reference.load_xmc(content))
    path.write_bytes(content + b"3 x\n5 y\n")
    with raises(DataError, "line 201", "'x'"):
        data.load_xmc(path, n_jobs=n_jobs)
