"""JSON lines: fields, labels of every form, round trips whole and in pieces, every fault a sentence."""

import io
import json
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises

from sylvan import data
from sylvan.errors import DataError, ParameterError
from sylvan.labels.vocabulary import label_name


@pytest.fixture
def file(tmp_path):
    def write(*lines: object):
        path = tmp_path / "a.jsonl"
        texts = [line if isinstance(line, (str, bytes)) else json.dumps(line) for line in lines]
        path.write_bytes(b"".join((t.encode() if isinstance(t, str) else t) + b"\n" for t in texts))
        return path

    return write


@pytest.fixture(scope="module")
def shared_path(tmp_path_factory):
    return tmp_path_factory.mktemp("jsonl") / "a.jsonl"


text = st.text(st.characters(exclude_categories=["Cs"]))
names = text.map(label_name).filter(bool)
label_rows = st.lists(names, max_size=4, unique=True) | st.just([])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(text, label_rows), min_size=1, max_size=5))
def test_round_trip(shared_path, rows):
    texts, labels = [row[0] for row in rows], [row[1] for row in rows]
    data.write_jsonl(shared_path, texts, labels)
    assert data.read_jsonl(shared_path) == (texts, labels, None)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.dictionaries(st.integers(-5, 5), st.floats(0, 1e30), max_size=3), min_size=1, max_size=4))
def test_round_trip_of_weighted_ints(shared_path, rows):
    texts = ["x"] * len(rows)
    labels, weights = [list(row) for row in rows], [list(row.values()) for row in rows]
    data.write_jsonl(shared_path, texts, labels, weights, text_field="t", labels_field="l")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a pair of a label and a weight looks like no cell of several labels
        got = data.read_jsonl(shared_path, text_fields="t", labels_field="l")
    assert got == (texts, labels, weights if any(labels) else None)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_packed(tmp_path, suffix):
    path = tmp_path / f"a.jsonl{suffix}"
    data.write_jsonl(path, ["Überall \u2028 Meer\r"] * 1000, [["Wal"]] * 1000)
    assert data.read_jsonl(path) == (["Überall \u2028 Meer\r"] * 1000, [["Wal"]] * 1000, None)


def test_texts_from_several_fields(file):
    path = file({"title": "Moby Dick", "author": None, "year": "1851", "labels": []})
    assert data.read_jsonl(path, text_fields=("title", "author", "year")).texts == ["Moby Dick 1851"]
    assert data.read_jsonl(path, text_fields=["year", "title"], separator=" | ").texts == ["1851 | Moby Dick"]
    assert data.read_jsonl(path, text_fields="author").texts == [""]


def test_labels_of_every_form(file):
    path = file(
        {"text": "a", "labels": ["x", "y", "x"]}, {"text": "b", "labels": {"y": 2, "z": 0.5}},
        {"text": "c", "labels": [["x", 3], "z", ["x", 1]]}, {"text": "d", "labels": "y"}, {"text": "e", "label": "z"},
        {"text": "f", "label": ["z", "x"]}, {"text": "g", "labels": []},
    )  # fmt: skip
    got = data.read_jsonl(path)
    assert got.labels == [["x", "y"], ["y", "z"], ["x", "z"], ["y"], ["z"], ["z", "x"], []]
    assert got.weights == [[1, 1], [2, 0.5], [4, 1], [1], [1], [1, 1], []]
    assert data.read_jsonl(file({"text": "a", "labels": 3})).labels == [[3]]
    assert data.read_jsonl(file({"text": "a", "labels": [3, 1]})).weights is None


def test_labels_may_be_missing_when_asked(file):
    path = file({"text": "a"}, {"text": "b", "labels": None})
    assert data.read_jsonl(path, require_labels=False) == (["a", "b"], [[], []], None)
    assert data.read_jsonl(file({"text": "a", "labels": 1.5}), labels_field=None).labels == [[]]


def test_empty_lines_and_a_byte_order_mark(file):
    assert data.read_jsonl(file(b'\xef\xbb\xbf{"text": "a", "labels": []}\r', "", "  ")).texts == ["a"]


FAULTS = [
    ("[1]", "line 2: must be a JSON object. Got '[1]' instead"),
    ("null", "line 2: must be a JSON object"),
    ("{", "line 2: not JSON, Expecting property name enclosed in double quotes"),
    ('{"text": "a"} x', "line 2: not JSON, Extra data at character 15"),
    (b'{"text": "\xff"}', "line 2: the text is not UTF-8 (byte 11 of the line)"),
    (r'{"text": "\ud800", "labels": []}', "line 2: an escape \\ud800 to \\udfff stands alone"),
    ("[" * 100_000, "line 2: the JSON is nested too deeply"),
    ('{"text": ' + "9" * 5000 + "}", "line 2: "),
    ({"labels": []}, "line 2: the object has no field 'text'. Its fields are: 'labels'"),
    ({}, "line 2: the object has no field 'text'. Its fields are: none"),
    ({"text": 5, "labels": []}, "line 2: the field 'text' must be a string. Got 5 instead"),
    ({"text": ["a"], "labels": []}, "line 2: the field 'text' must be a string. Got ['a'] instead"),
    ({"text": "a"}, "line 2: the object has no field 'labels'. Its fields are: 'text'"),
    ({"text": "a", "labels": None}, "line 2: the field 'labels' must hold labels, or [] where there are none. Got"),
    ({"text": "a", "labels": [1.5]}, "line 2: a label must be a string or an int. Got 1.5 instead"),
    ({"text": "a", "labels": [True]}, "line 2: a label must be a string or an int. Got True instead"),
    ({"text": "a", "labels": [None]}, "line 2: a label must be a string or an int. Got None instead"),
    ({"text": "a", "labels": [{}]}, "line 2: a label must be a string or an int. Got {} instead"),
    ({"text": "a", "labels": [["x"]]}, "line 2: a label must be a name or a pair [label, weight]. Got ['x'] instead"),
    ({"text": "a", "labels": [["x", "y"]]}, "line 2: a label's weight must be a finite number of at least 0. Got 'y'"),
    ({"text": "a", "labels": {"x": -1}}, "line 2: a label's weight must be a finite number of at least 0. Got -1"),
    ('{"text": "a", "labels": {"x": NaN}}', "line 2: a label's weight must be a finite number of at least 0. Got nan"),
    ('{"text": "a", "labels": {"x": 1e999}}', "line 2: a label's weight must be a finite number"),
    ({"text": "a", "labels": {"x": 10**400}}, "line 2: a label's weight must be a finite number"),
    ({"text": "a", "labels": [1]}, "line 2: labels must be all strings or all ints, and those before are strings"),
]


@pytest.mark.parametrize(("line", "message"), FAULTS)
def test_every_fault_is_a_sentence(file, line, message):
    path = file({"text": "fine", "labels": ["x"]}, line, "never read")
    with pytest.raises(DataError) as caught:
        data.read_jsonl(path)
    assert str(caught.value).startswith(f"{path}, {message}")
    assert len(str(caught.value)) < 400 + len(str(path))


def test_files_without_objects(file):
    for path in (file(), file("", " ")):
        with raises(DataError, "objects"):
            data.read_jsonl(path)


@pytest.mark.parametrize("fields", [(), 5, ("a", 5), None])
def test_text_fields_out_of_range(file, fields):
    with raises(ParameterError, "text_fields"):
        data.read_jsonl(file({"text": "a"}), text_fields=fields)


def test_writers_refuse_what_could_not_be_read(tmp_path):
    path = tmp_path / "a.jsonl"
    with raises(DataError, "length"):
        data.write_jsonl(path, ["a", "b"], [["x"]])
    with raises(DataError, "length"):
        data.write_jsonl(path, ["a"], [["x"]], [[1.0, 2.0]])
    with raises(DataError, "character", 0):
        data.write_jsonl(path, ["\ud800"])
    with raises(DataError, 1, "JSON"):
        data.write_records(path, [{}, {"x": float("nan")}])
    with raises(DataError, 0, "JSON"):
        data.write_records(path, [{"x": object()}])
    assert list(tmp_path.iterdir()) == []


def test_records_and_stdin_and_stdout(monkeypatch, capfdbinary):
    data.write_records("-", [{"a": "ü"}, {"b": [1, None]}])
    written = capfdbinary.readouterr().out
    assert written == '{"a": "ü"}\n{"b": [1, null]}\n'.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written)))
    assert list(data.read_records("-")) == [{"a": "ü"}, {"b": [1, None]}]


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_the_pieces_make_the_whole(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "a.jsonl.gz"
    data.write_jsonl(path, [f"text {i}" for i in range(5)], [["a", "b"][: i % 3] for i in range(5)])
    whole = data.read_jsonl(path)
    pieces = list(data.stream_jsonl(path, rows=rows))
    assert [text for piece in pieces for text in piece.texts] == whole.texts
    assert [row for piece in pieces for row in piece.labels] == whole.labels
    assert all(len(piece.texts) <= rows for piece in pieces)


def test_a_fault_is_told_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one", "labels": ["a"]}\n{"text": "two", "labels": [3]}\n')
    pieces = data.stream_jsonl(path, rows=1)
    assert next(pieces).texts == ["one"]
    with raises(DataError, "line 2"):
        next(pieces)


def test_an_empty_stream_and_bad_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n")
    with raises(DataError, "objects"):
        list(data.stream_jsonl(path))
    with raises(ParameterError, "rows", 0):
        list(data.stream_jsonl(path, rows=0))
