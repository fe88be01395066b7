"""Features in columns of lists, of Parquet, of JSON lines and of tables of Arrow: read block by block, or refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import data
from sylvan.data.formats.columnar import features_of_table, stream_features
from sylvan.errors import DataError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"indices": [0, 9_000_000], "values": [1.0, 1.0]}, ("indices", "[0, 99]", 9000000)),
        ({"indices": [0, 1], "values": [1.0]}, ("indices", "values", 2, 1)),
        ({"indices": [0.5], "values": [1.0]}, ("indices", "numbers")),
        ({"indices": ["a"], "values": [1.0]}, ("indices", "numbers")),
        ({"indices": 3, "values": [1.0]}, ("indices", "numbers")),
        ({"indices": [1], "values": [True]}, ("values", "numbers")),
        ({"indices": [1], "values": [None]}, "values"),
        ({"indices": None, "values": [1.0]}, "indices"),
        ({"indices": [1], "text": "a"}, ("values", "indices", "text")),
    ],
)
def test_features_that_are_none(row: dict[str, Any], sentence: object, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{form}"
    if form == "jsonl":
        data.write_records(path, [row])
    else:
        parquet.write_table(pa.Table.from_pylist([row]), path)
    with raises(DataError, path, sentence):
        list(stream_features(str(path), ("indices", "values"), 100, 10))


@pytest.mark.parametrize("values", [["a"], [True], [[1]], [1, None], None, "1", {}])
def test_a_list_of_json_that_is_none_is_named(values: Any, tmp_path: Path) -> None:
    rows = [{"indices": [1], "values": [1.0], "other": at} for at in range(3)]
    data.write_records(tmp_path / "rows.jsonl", [*rows, {"indices": [1], "values": values}])
    with raises(DataError, "rows.jsonl", "object 3", "values", repr(values)):
        list(stream_features(str(tmp_path / "rows.jsonl"), ("indices", "values"), 100, 2))


def test_numbers_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    data.write_records(tmp_path / "rows.jsonl", [{"indices": [2**64], "values": [1.0]}])
    with raises(DataError, "rows.jsonl", 0, 64):
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
        ([None, [1.0, 2.0]], (1, "'v'", "list")),
        ([[1.0, None]], "null"),
        ([[1.0, 2.0], [1.0]], ("trained", 1, 2)),
    ):
        with raises(DataError, sentence):
            features_of_table("x", pa.table({"v": pa.array(rows, pa.list_(pa.float32()))}), ("v",), 2)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_every_kind_of_list_is_read(kind: Any) -> None:
    table = pa.table({"v": pa.array([[1.0, 2.0], [3.0, 4.0]], kind)})
    assert features_of_table("x", table, ("v",), 2).tolist() == [[1, 2], [3, 4]]
