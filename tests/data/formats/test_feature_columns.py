"""Features in columns of lists, of Parquet, of JSON lines and of tables of Arrow: read block by block, or refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sylvan import data
from sylvan.data.formats.columnar import features_of_table, stream_features
from sylvan.errors import DataError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"indices": [0, 9_000_000], "values": [1.0, 1.0]}, r": 'indices' must be in \[0, 99\]\. Got 9000000 instead"),
        (
            {"indices": [0, 1], "values": [1.0]},
            ": 'indices' and 'values' must be of one length in each row. Got 2 and 1",
        ),
        ({"indices": [0.5], "values": [1.0]}, "'indices' must hold lists of whole numbers. Got list<"),
        ({"indices": ["a"], "values": [1.0]}, "'indices' must .+ numbers. Got "),
        ({"indices": 3, "values": [1.0]}, "'indices' must .+ numbers. Got "),
        ({"indices": [1], "values": [True]}, "'values' must .+ numbers. Got "),
        ({"indices": [1], "values": [None]}, "'values' (must .+ numbers. Got |holds a list with null)"),
        ({"indices": None, "values": [1.0]}, "'indices' (must .+ numbers. Got |has no list in 1 row)"),
        ({"indices": [1], "text": "a"}, "there is no column 'values'. Its columns are: indices, text"),
    ],
)
def test_features_that_are_none(row: dict[str, Any], sentence: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{form}"
    if form == "jsonl":
        data.write_records(path, [row])
    else:
        parquet.write_table(pa.Table.from_pylist([row]), path)
    with pytest.raises(DataError, match=rf"rows\.{form}.*{sentence}"):
        list(stream_features(str(path), ("indices", "values"), 100, 10))


@pytest.mark.parametrize("values", [["a"], [True], [[1]], [1, None], None, "1", {}])
def test_a_list_of_json_that_is_none_is_named(values: Any, tmp_path: Path) -> None:
    rows = [{"indices": [1], "values": [1.0], "other": at} for at in range(3)]
    data.write_records(tmp_path / "rows.jsonl", [*rows, {"indices": [1], "values": values}])
    sentence = f"rows.jsonl, object 3: 'values' must be a list of numbers. Got {values!r} instead."
    with pytest.raises(DataError, match=re.escape(sentence)):
        list(stream_features(str(tmp_path / "rows.jsonl"), ("indices", "values"), 100, 2))


def test_numbers_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    data.write_records(tmp_path / "rows.jsonl", [{"indices": [2**64], "values": [1.0]}])
    with pytest.raises(DataError, match=r"rows\.jsonl, objects 0 to 0: there is a number beyond the range of 64 bits"):
        list(stream_features(str(tmp_path / "rows.jsonl"), ("indices", "values"), 100, 2))


def test_rows_without_features_and_numbers_of_both_kinds(tmp_path: Path) -> None:
    rows = [([], []), ([], []), ([3, 1], [2, 0.5]), ([], []), ([0], [7])]
    data.write_records(tmp_path / "rows.jsonl", [{"indices": ids, "values": values} for ids, values in rows])
    blocks = list(stream_features(str(tmp_path / "rows.jsonl"), ("indices", "values"), 4, 2))
    expected = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0.5, 0, 2], [0, 0, 0, 0], [7, 0, 0, 0]]
    assert [block.shape for block in blocks] == [(2, 4), (2, 4), (1, 4)]
    assert np.concatenate([block.toarray() for block in blocks]).tolist() == expected


def test_nulls_and_vectors_of_another_length_are_refused() -> None:
    for rows, sentence in (
        ([None, [1.0, 2.0]], "has no list in 1 row"),
        ([[1.0, None]], "holds a list with null"),
        ([[1.0, 2.0], [1.0]], "has 1 feature in a row, but the model was trained on 2"),
    ):
        with pytest.raises(DataError, match=sentence):
            features_of_table("x", pa.table({"v": pa.array(rows, pa.list_(pa.float32()))}), ("v",), 2)
