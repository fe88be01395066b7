"""Fields of records beside text and labels, from every reader to every writer; rankings as files of any kind."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

from sylvan import data
from sylvan.arrays.topk import TopK
from sylvan.data.formats.rankings import columns_of_output, open_rankings
from sylvan.data.other_fields import OtherFields, RecordSource, cell_of, plain
from sylvan.errors import DataError

N = 5
TEXTS, LABELS = [f"text {i}" for i in range(N)], [["a"], [], ["b", "a"], ["b"], ["a"]]
OTHERS = [{"id": f"r{i}", "n": i} for i in range(N)]


def written(folder: Path, kind: str, **options: Any) -> str:
    """The rows in a format."""
    path = str(folder / f"rows.{kind}")
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    write: Any = {"jsonl": data.write_jsonl, "csv": data.write_table, "parquet": data.write_parquet}[kind]
    write(path, TEXTS, LABELS, **{"others": iter(OTHERS), **options})
    return path


def streamed(path: str, **options: Any) -> tuple[list[Any], list[list[Any]]]:
    """The blocks of a file, and the records that came with each."""
    taken: list[Any] = []
    kind = path.rpartition(".")[2]
    stream: Any = {"jsonl": data.stream_jsonl, "csv": data.stream_table, "parquet": data.stream_parquet}[kind]
    blocks, records = [], []
    for block in stream(path, records=taken, **{"rows": 2, **options}):
        blocks.append(block)
        records.append(taken[:])
        taken.clear()
    return blocks, records


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_records_come_with_their_blocks(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    blocks, records = streamed(path)
    assert [len(rows) for rows in records] == [len(block.texts) for block in blocks] == [2, 2, 1]
    flat = [record for rows in records for record in rows]
    n: Any = str if kind == "csv" else int
    assert [(one["text"], one["id"], one["n"]) for one in flat] == [
        (text, other["id"], n(other["n"])) for text, other in zip(TEXTS, OTHERS, strict=True)
    ]
    assert [label for block in blocks for label in block.labels] == LABELS
    read: Any = {"jsonl": data.read_jsonl, "csv": data.read_table, "parquet": data.read_parquet}[kind]
    assert read(path) == (TEXTS, LABELS, None)
    alone, also = streamed(path, **{"labels_columns" if kind == "csv" else "labels_field": None})
    assert [block.texts for block in alone] == [block.texts for block in blocks] and also == records


def test_cells_without_a_header_are_named_by_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,1\ny,2\n")
    blocks, records = streamed(str(tmp_path / "a.csv"), text_columns=1, labels_columns=2)
    assert records == [[{"1": "x", "2": "1"}, {"1": "y", "2": "2"}]] and blocks[0].texts == ["x", "y"]
    (tmp_path / "a.csv").write_text("x\ny\n")
    assert streamed(str(tmp_path / "a.csv"), text_columns=1, labels_columns=None)[1] == [[{"1": "x"}, {"1": "y"}]]


def test_of_several_columns_without_names_each_has_its_number(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,labels,,\nx,1,p,q\n")
    assert streamed(str(tmp_path / "a.csv"))[1] == [[{"text": "x", "labels": "1", "3": "p", "4": "q"}]]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_writers_leave_out_what_they_write_themselves(kind: str, tmp_path: Path) -> None:
    others = [{"text": "other", "labels": "other", "id": "x"}] * N
    path = written(tmp_path, kind, others=others)
    _, records = streamed(path)
    assert [list(record) for record in records[0]] == [["text", "labels", "id"]] * 2
    assert records[0][0]["text"] == "text 0"
    with pytest.raises(DataError):
        written(tmp_path, kind, others=others[:-1])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_are_those_of_the_first_rows(kind: str, tmp_path: Path) -> None:
    n = 4097  # one more than are written together
    path = tmp_path / f"a.{kind}"
    write: Any = data.write_table if kind == "csv" else data.write_parquet
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    with raises(DataError, 4096, "late"):
        write(path, ["t"] * n, [["a"]] * n, others=[{"id": 1}] * (n - 1) + [{"late": 1}])
    assert not path.exists()
    write(path, ["t"] * n, [["a"]] * n, others=[{"id": None}] * 4096 + [{}])
    assert sum(len(rows) for rows in streamed(str(path), rows=2000)[1]) == n


def test_values_as_json_has_them() -> None:
    day = datetime.date(1851, 10, 18)
    assert plain({"a": [day, float("nan"), 1.5, True, None, "x"]}) == {"a": ["1851-10-18", None, 1.5, True, None, "x"]}
    assert [cell_of(value) for value in ("x", None, 3, True, ["é", 1])] == ["x", "", "3", "true", '["é", 1]']


def test_a_source_gives_texts_and_then_their_fields() -> None:
    class Source:
        path = name = "rows"

        def records(self) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
            yield TEXTS[:3], [{"text": "t", **other} for other in OTHERS[:3]]
            yield TEXTS[3:], [{"text": "t", **other} for other in OTHERS[3:]]

    source = RecordSource(Source(), OtherFields(None, ("text",)))
    assert [texts for texts, _ in source.blocks()] == [TEXTS[:3], TEXTS[3:]]
    assert source.next_fields() == OTHERS[:3] and source.next_fields() == OTHERS[3:]
    chosen = RecordSource(Source(), OtherFields(("n",)))
    next(iter(chosen.blocks()))
    assert chosen.next_fields() == [{"n": i} for i in range(3)]
    with raises(DataError, "'m'", "text", "id", "'n'"):
        next(iter(RecordSource(Source(), OtherFields(("m",))).blocks()))


TOP = TopK(np.array([[2, 0], [-1, -1]], np.int32), np.array([[1 / 3, 0.25], [-np.inf, -np.inf]], np.float32))


def test_a_ranking_as_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with open_rankings(str(path), 3) as writer:
        writer.write(TOP, [["x", 'y "z"'], []], [{"id": "a,b"}, {"id": None}])
        writer.write(TOP, [["x", "y"], []], [{"id": 3}, {}])
    assert path.read_bytes().decode().splitlines() == [
        "row,id,rank,label,score", '0,"a,b",1,x,0.333333', '0,"a,b",2,"y ""z""",0.25', "1,,,,",
        "2,3,1,x,0.333333", "2,3,2,y,0.25", "3,,,,",
    ]  # fmt: skip
    with open_rankings(str(tmp_path / "b.tsv.gz"), 3, {"2": "two"}.get, "probabilities") as writer:
        writer.write(TOP, None)
    texts = data.read_table(tmp_path / "b.tsv.gz", text_columns=("row", "rank", "label", "name"), labels_columns=None)
    assert texts.texts == ["0 1 2 two", "0 2 0", "1"]
    with open_rankings(str(path), 3, delimiter=";"):
        pass
    assert path.read_text() == "row;rank;label;score\n"
    assert columns_of_output("b.TSV.xz", "probabilities", True) == ("row", "rank", "label", "name", "probability")
    assert columns_of_output("b.parquet", titled=True) == ("labels", "scores", "uris")


def test_other_fields_as_columns_of_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = str(tmp_path / "a.parquet")
    with open_rankings(path, 3) as writer:
        for first in (None, 2):
            writer.write(TOP, None, [{"id": "x", "none": None, "n": 1, "list": [1]}, {"id": "y", "n": first}])
            writer.write(TOP, None, [{"list": []}, {"list": None}])
    rows = parquet.read_table(path).to_pylist()
    assert [(row["id"], row["none"], row["list"]) for row in rows[:2]] == [("x", None, [1]), ("y", None, None)]
    for later in ("x", 2.5):
        with raises(DataError, "int64", "field"), open_rankings(path, 3) as writer:
            writer.write(TOP, None, [{"id": 1}, {"id": 2}])
            writer.write(TOP, None, [{"id": later}, {"id": later}])
    for large, said in ((2**63, 2**63), ([2**63], "an int in a list")):
        with raises(DataError, "'id'", said), open_rankings(path, 3) as writer:
            writer.write(TOP, None, [{"id": None}, {"id": large}])
    with open_rankings(path, 3) as writer:
        writer.write(TOP, None, [{"id": -(2**63)}, {"id": 2**63 - 1}])
    with raises(DataError, "'x'"), open_rankings(path, 3) as writer:
        writer.write(TOP, None, [{"id": 1}, {"id": "x"}])
    with open_rankings(path, 3) as writer:
        writer.write(TOP, None, [{"list": []}, {"list": None}])
        writer.write(TOP, None, [{"list": ["x"]}, {}])
    assert [row["list"] for row in parquet.read_table(path).to_pylist()] == [[], None, ["x"], None]
    with open_rankings(str(tmp_path / "a.jsonl"), 3) as writer:
        writer.write(TOP, None, [{"id": 1}, {}])
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert list(lines[0]) == ["id", "labels", "scores"] and list(lines[1]) == ["labels", "scores"]


NAMES = ["whaling", "baking", "voyages"]
TOP_OF_THREE = TopK(
    np.array([[2, 0], [1, -1], [-1, -1]], np.int32),
    np.array([[1 / 3, 0.25], [1e-7, -np.inf], [-np.inf, -np.inf]], np.float32),
)


def label_of(uri: str) -> str | None:
    return {"whaling": "Whaling"}.get(uri)


def ranked_file(path: Path, names: Any = None, **options: Any) -> list[dict[str, Any]]:
    with open_rankings(str(path), 3, **options) as writer:
        for _ in range(2):
            writer.write(TOP_OF_THREE, names)
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
    names = TOP_OF_THREE.names(NAMES) if {"names", "label_of"} & set(options) else None
    given = {name: value for name, value in options.items() if name != "names"}
    lines, rows = (ranked_file(tmp_path / name, names, **given) for name in ("a.jsonl", "a.parquet"))
    key = given.get("key", "scores")
    assert [list(row) for row in rows] == [list(line) for line in lines] and len(rows) == 6
    exact = [scores[labels >= 0].tolist() for labels, scores in TOP_OF_THREE] * 2
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
        writer.write(TOP_OF_THREE, None)
        raise DataError("line 3")
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "old"
    assert capfd.readouterr().err == ""


def test_names_that_are_half_characters_are_said(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    with raises(DataError, "\\ud800"):
        ranked_file(tmp_path / "a.parquet", [["\ud800", "b"], ["c"], []])
    assert list(tmp_path.iterdir()) == []
