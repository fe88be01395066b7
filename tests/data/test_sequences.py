"""Sequences of interactions: both layouts, the filter, order, names, hostile lines, round trips."""

import gzip
import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import data
from sylvan.errors import DataError, ParameterError


def named(found: data.SequenceData) -> dict[str, list[str]]:
    return {found.users[u]: [found.items[i] for i in ids] for u, ids in enumerate(found)}


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "log.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "ann tea 30\nbob tea 5\nann rice 10\nann nori 20\n",
        "ann\ttea\t30\nbob\ttea\t5\nann\trice\t10\nann\tnori\t20",
        "ann,tea,30.5\r\nbob, tea,5\r\n\r\nann,rice,1e1\r\nann,nori,+20\r\n",
        "\ufeffann tea 30\nbob tea 5\nann rice 10\nann nori 20\n",
    ],
    ids=["blanks", "tabs", "commas", "byte order mark"],
)
def test_interactions_in_the_order_of_their_timestamps(tmp_path: Path, text: str) -> None:
    found = data.read_sequences(written(tmp_path, text), min_interactions=1)
    assert named(found) == {"ann": ["rice", "nori", "tea"], "bob": ["tea"]}
    assert found.items[0] == "tea"  # the most frequent first
    assert found.counts().tolist() == [2, 1, 1]
    assert found.describe() == "2 users, 3 items, 4 interactions"
    by_line = data.read_sequences(tmp_path / "log.txt", min_interactions=1, order="line")
    assert named(by_line)["ann"] == ["tea", "rice", "nori"]


def test_equal_timestamps_stay_in_the_order_of_lines_and_nanoseconds_are_told_apart(tmp_path: Path) -> None:
    base = 1_700_000_000_000_000_000  # two neighbours of it are one float64
    lines = [f"u c {base + 1}", f"u a {base}", f"u d {base + 1}", f"u b {base}"]
    found = data.read_sequences(written(tmp_path, "\n".join(lines)), min_interactions=1)
    assert named(found) == {"u": ["a", "b", "c", "d"]}


def test_two_fields_are_in_the_order_of_lines(tmp_path: Path) -> None:
    found = data.read_sequences(written(tmp_path, "1 9\n2 9\n1 8\n1 9\n"), min_interactions=1)
    assert named(found) == {"1": ["9", "8", "9"], "2": ["9"]}


def test_one_user_a_line(tmp_path: Path) -> None:
    path = written(tmp_path, "u1 a b c\nu2 b\n\nu3 a a\n")
    assert named(data.read_sequences(path, min_interactions=1)) == {
        "u1": ["a", "b", "c"],
        "u2": ["b"],
        "u3": ["a", "a"],
    }
    # Three fields a line and no number as the third: users too.
    path = written(tmp_path, "u1 a b\nu2 b c\n")
    assert named(data.read_sequences(path, min_interactions=1)) == {"u1": ["a", "b"], "u2": ["b", "c"]}
    # Three numbers a line could be either: interactions unless said otherwise.
    path = written(tmp_path, "1 7 8\n2 8 9\n")
    assert named(data.read_sequences(path, min_interactions=1)) == {"1": ["7"], "2": ["8"]}
    as_users = data.read_sequences(path, min_interactions=1, layout="users")
    assert named(as_users) == {"1": ["7", "8"], "2": ["8", "9"]}


def test_tabs_and_commas_leave_blanks_in_names_alone(tmp_path: Path) -> None:
    found = data.read_sequences(written(tmp_path, "Ann Lee\tgreen tea\nBo\tgreen tea\n"), min_interactions=1)
    assert named(found) == {"Ann Lee": ["green tea"], "Bo": ["green tea"]}
    found = data.read_sequences(written(tmp_path, "Ann\tgreen, hot\n"), min_interactions=1)
    assert found.items[0] == "green, hot"


def test_a_header_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, "user,item,time\nann,tea,3\nann,rice,1\n")
    found = data.read_sequences(path, min_interactions=1, header=True)
    assert named(found) == {"ann": ["rice", "tea"]}


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_packed_files(tmp_path: Path, suffix: str) -> None:
    packed = {".gz": gzip.compress, ".xz": lzma.compress}[suffix](b"a x\na y\n")
    path = tmp_path / f"log.txt{suffix}"
    path.write_bytes(packed)
    assert named(data.read_sequences(path, min_interactions=1)) == {"a": ["x", "y"]}


def naive_core(pairs: list[tuple[int, int]], least: int, until_stable: bool) -> list[tuple[int, int]]:
    while True:
        users, items = Counter(u for u, _ in pairs), Counter(i for _, i in pairs)
        left = [(u, i) for u, i in pairs if users[u] >= least and items[i] >= least]
        if left == pairs or not until_stable:
            return left
        pairs = left


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=60), st.integers(1, 5), st.booleans()
)
def test_the_filter_agrees_with_a_naive_reference(pairs: list[tuple[int, int]], least: int, until_stable: bool) -> None:
    wanted = naive_core(pairs, least, until_stable)
    users, items = zip(*pairs, strict=True)
    if not wanted:
        with raises(DataError, "left"):
            data.build_sequences(users, items, min_interactions=least, until_stable=until_stable)
        return
    found = data.build_sequences(users, items, min_interactions=least, until_stable=until_stable)
    expected: dict[str, list[str]] = {}
    for user, item in wanted:
        expected.setdefault(str(user), []).append(str(item))
    assert named(found) == expected
    assert list(named(found)) == list(expected)  # users as they first occur
    counts = found.counts()
    assert (np.diff(counts) <= 0).all()
    if until_stable:
        assert counts.min() >= least and np.diff(found.offsets).min() >= least


def test_dropping_once_and_until_stable_differ() -> None:
    users, items = "aabbc", "xyxyx"  # c goes; x keeps 2 of 3
    once = data.build_sequences(users, items, min_interactions=2, until_stable=False)
    assert named(once) == {"a": ["x", "y"], "b": ["x", "y"]}
    with raises(DataError, "left", 3, 2):
        data.build_sequences("aab", "xyx", min_interactions=2, until_stable=True)
    assert named(data.build_sequences("aab", "xyx", min_interactions=2, until_stable=False)) == {"a": ["x"]}


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("a x\nb\n", {}, "line 2: a line must be a user and at least one item. Got 'b' alone"),
        ("a x 1\nb y 2\nc z soon\n", {"layout": "interactions"}, "line 3: a timestamp must be a finite number"),
        ("a x nan\n", {"layout": "interactions"}, "line 1: a timestamp must be a finite number. Got 'nan'"),
        ("a x 1e999\n", {}, "line 1: a timestamp must be a finite number. Got '1e999'"),
        ("a x 1_0\n", {"layout": "interactions"}, "Got '1_0'"),
        ("a x\n\nb y 1\n", {"layout": "interactions"}, "line 3: a line must be 2 fields, as those before. Got 3"),
        ("a x 1 2\n", {"layout": "interactions"}, "line 1: a line must be 'user item' or 'user item timestamp'. Got 4"),
        ("a x y z\nb x y z\na x y\n", {}, "line 3: the user 'a' has had a line before"),
        ("a x y z\nb x y z\na x y z\n", {}, "line 1: every line has 4 fields"),
        ("a,x\nb,,\n", {}, "line 2: field 2 is empty; fields are parted by commas. Got 'b,,'"),
        (b"a x\n\xff y\n", {}, "line 2: the text is not UTF-8"),
        ("\n \n", {}, "there are no interactions"),
        ("", {}, "there are no interactions"),
        ("a x\na y\n", {"min_interactions": 10}, "of 2 interactions of 1 user with 2 items none is left"),
    ],
)
def test_hostile_lines_get_sentences(tmp_path: Path, text: str | bytes, options: dict[str, Any], sentence: str) -> None:
    options = {"min_interactions": 1, **options}
    with pytest.raises(DataError) as caught:
        data.read_sequences(written(tmp_path, text), **options)
    assert sentence in str(caught.value) and "log.txt" in str(caught.value)


def test_a_line_after_those_that_decided_the_layout_is_still_checked(tmp_path: Path) -> None:
    path = written(tmp_path, "u i 5\n" * 1500 + "u i five\n")
    with raises(DataError, "line 1501"):
        data.read_sequences(path, min_interactions=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"layout": "rows"}, ("layout", "interactions", "users", "None", "rows")),
        ({"separator": ";"}, ("separator", "';'")),
        ({"order": "random"}, ("order", "time", "line")),
        ({"min_interactions": 0}, ("min_interactions", "[1, inf)", 0)),
        ({"until_stable": 1}, ("until_stable", "True", "False")),
    ],
)
def test_parameters_are_checked(tmp_path: Path, options: dict[str, Any], sentence: object) -> None:
    with raises(ParameterError, sentence):
        data.read_sequences(written(tmp_path, "a x\n"), **options)


def test_columns_that_do_not_fit_together() -> None:
    with raises(DataError, "length"):
        data.build_sequences("ab", "x", min_interactions=1)
    for missing in (None, float("nan"), np.datetime64("NaT")):
        with raises(DataError, "items", "row 1", str(missing)):
            data.build_sequences("aab", ["x", missing, "y"], min_interactions=1)
    assert data.build_sequences("aa", ["nan", "None"], min_interactions=1).n_items == 2
    with raises(DataError, "length"):
        data.build_sequences("ab", "xy", times=[1], min_interactions=1)
    with raises(DataError, "finite"):
        data.build_sequences("ab", "xy", times=[1, float("nan")], min_interactions=1)
    with raises(IndexError, "[0, 0]", 1):
        data.build_sequences("a", "x", min_interactions=1)[1]


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=","), min_size=1, max_size=5)
SEQUENCES = st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=6), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(SEQUENCES, st.sampled_from(["users", "interactions"]), st.sampled_from([" ", "\t", ","]))
def test_round_trips(tmp_path_factory: Any, wanted: dict[str, list[str]], layout: Any, separator: str) -> None:
    path = tmp_path_factory.getbasetemp() / "round.txt"
    users = [user for user, items in wanted.items() for _ in items]
    items = [item for row in wanted.values() for item in row]
    first = data.build_sequences(users, items, min_interactions=1)
    data.write_sequences(path, first, layout=layout, separator=separator)
    again = data.read_sequences(path, layout=layout, separator=separator, min_interactions=1)
    assert named(again) == wanted == named(first)
    assert again.items == first.items and again.users == first.users
    np.testing.assert_array_equal(again.ids, first.ids)
    np.testing.assert_array_equal(again.offsets, first.offsets)


@pytest.mark.parametrize("name", ["", "a b", " a", "a\n", "a\tb"])
def test_names_that_a_file_cannot_hold(tmp_path: Path, name: str) -> None:
    sequences = data.build_sequences(["u"], [name], min_interactions=1)
    with raises(DataError, "empty"):
        data.write_sequences(tmp_path / "out.txt", sequences)
    assert not (tmp_path / "out.txt").exists()
