"""Reading JSON lines in pieces gives what reading them whole gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.errors import raises

from sylvan import data
from sylvan.errors import DataError, ParameterError


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


def test_an_empty_file_and_bad_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n")
    with raises(DataError, "objects"):
        list(data.stream_jsonl(path))
    with raises(ParameterError, "rows", 0):
        list(data.stream_jsonl(path, rows=0))
