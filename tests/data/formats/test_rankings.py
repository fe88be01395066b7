"""Rankings as files: JSON lines, Parquet with the same content, and nothing half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan.arrays.topk import TopK
from sylvan.data.formats.rankings import open_rankings
from sylvan.errors import DataError

NAMES = ["whaling", "baking", "voyages"]
TOP = TopK(
    np.array([[2, 0], [1, -1], [-1, -1]], np.int32),
    np.array([[1 / 3, 0.25], [1e-7, -np.inf], [-np.inf, -np.inf]], np.float32),
)


def label_of(uri: str) -> str | None:
    return {"whaling": "Whaling"}.get(uri)


def written(path: Path, names: Any = None, **options: Any) -> list[dict[str, Any]]:
    with open_rankings(str(path), 3, **options) as writer:
        for _ in range(2):
            writer.write(TOP, names)
    if path.suffix != ".parquet":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize(
    "options",
    [{}, {"key": "probabilities"}, {"names": NAMES}, {"label_of": label_of}],
    ids=["ids", "key", "names", "uris"],
)
def test_parquet_has_the_content_of_json_lines(options: dict[str, Any], tmp_path: Path) -> None:
    names = TOP.names(NAMES) if {"names", "label_of"} & set(options) else None
    given = {name: value for name, value in options.items() if name != "names"}
    lines, rows = (written(tmp_path / name, names, **given) for name in ("a.jsonl", "a.parquet"))
    key = given.get("key", "scores")
    assert [list(row) for row in rows] == [list(line) for line in lines] and len(rows) == 6
    exact = [scores[labels >= 0].tolist() for labels, scores in TOP] * 2
    assert [row.pop(key) for row in rows] == exact
    assert np.allclose(np.concatenate([line.pop(key) for line in lines]), np.concatenate(exact), rtol=1e-5)
    assert rows == lines


def test_parquet_of_no_rows_is_a_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    with open_rankings(str(tmp_path / "a.parquet"), 3):
        pass
    table = parquet.read_table(tmp_path / "a.parquet")
    assert (table.num_rows, table.column_names) == (0, ["labels", "scores"])


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.npz"])
def test_what_is_given_up_leaves_the_old_file(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    (tmp_path / name).write_text("old")
    with raises(DataError, "line 3"), open_rankings(str(tmp_path / name), 3) as writer:
        writer.write(TOP, None)
        raise DataError("line 3")
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "old"
    assert capfd.readouterr().err == ""


def test_names_that_are_half_characters_are_said(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    with raises(DataError, "\\ud800"):
        written(tmp_path / "a.parquet", [["\ud800", "b"], ["c"], []])
    assert list(tmp_path.iterdir()) == []
