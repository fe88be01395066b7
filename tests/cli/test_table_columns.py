"""Tables as spreadsheets write them, the fields of files, and what is said of those that aren't read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import data

ROWS = [("u1", "Loaves", "bread flour", "Baking"), ("u2", "Planets", "stars comet", "Astronomy")] * 3


def write(path: Path, delimiter: str, header: str = "id,title,text,labels", encoding: str = "utf-8") -> str:
    lines = [header.replace(",", delimiter), *(delimiter.join(row) for row in ROWS)]
    path.write_text("\n".join(lines) + "\n", encoding)
    return str(path)


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", ";"), ("a.csv", "|")])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_the_first_row_shows_the_delimiter(name: str, delimiter: str, encoding: str, call: Any, tmp_path: Path) -> None:
    path, folder = write(tmp_path / name, delimiter, encoding=encoding), str(tmp_path / "m")
    outcome = call("train", "xr-linear", path, "--model", folder)
    assert outcome.code == 0, outcome.err
    first, second, third = outcome.err.splitlines()
    assert first == f"{path}: its cells are separated by {delimiter!r}, as the first row shows."
    assert second == f"{path}: the text is read from text; not from id, title (--text-field A,B joins several)."
    assert third.startswith(f"Read 6 rows from {path}: a table in {name[2:].upper()}, ") and "text and labels" in third
    assert sylvan.load(folder).rank(["bread"], k=1).names == [["Baking"]]
    given = {"\t": "tab"}.get(delimiter, delimiter)
    told = call("predict", folder, path, "--delimiter", given, "-k", "1", "--output-fields", "none")
    assert "separated" not in told.err and json.loads(told.out.splitlines()[0])["labels"] == ["Baking"]
    quiet = call("predict", folder, path, "-k", "1", "--output-fields", "none", "-q")
    assert (quiet.out, quiet.err) == (told.out, "")


def test_numbers_of_columns_show_the_delimiter_too(call: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("bread flour;Baking\nstars comet;Astronomy\n" * 3)
    words = ("convert", str(path), str(tmp_path / "b.jsonl"), "--text-field", "1", "--labels-field", "2")
    for given in ((), ("--delimiter", ";")):
        outcome = call(*words, *given)
        assert outcome.code == 0 and ("separated by ';'" in outcome.err) == (not given), outcome.err
        assert data.read_jsonl(tmp_path / "b.jsonl").labels[:2] == [["Baking"], ["Astronomy"]]
    second = ("--text-field", "2", "--no-header", "--texts-only")
    outcome = call("convert", str(path), "-", "--to", "csv", *second)
    assert outcome.out.splitlines()[:2] == ["text,1", "Baking,bread flour"]


def test_several_fields_by_commas(call: Any, tmp_path: Path) -> None:
    path, folder = write(tmp_path / "a.csv", ","), str(tmp_path / "m")
    assert call("train", "xr-linear", path, "--model", folder, "--text-field", "title,text", "-q").code == 0
    assert sylvan.load(folder).text_fields_ == ("title", "text")
    outcome = call("evaluate", folder, path, "-k", "1")
    read = f"Read 6 rows from {path}: a table in CSV, columns title, text and labels.\n"
    assert (outcome.code, outcome.err) == (0, read), "nobody means an id as text"
    outcome = call("evaluate", folder, path, "-k", "1", "--text-field", "text")
    assert "the text is read from text; not from id, title (" in outcome.err
    data.write_records(tmp_path / "a.jsonl", [{"a,b": "bread", "a": "x", "labels": ["Baking"]}] * 2)
    named = call("convert", str(tmp_path / "a.jsonl"), "-", "--to", "lines", "--text-field", "a,b", "--texts-only")
    assert named.out == "bread\nbread\n", "a field may have a comma in its name"


def test_what_is_not_read_is_said_once(call: Any, files: Any, tmp_path: Path) -> None:
    data.write_records(tmp_path / "a.jsonl", [{"text": "bread", "title": "b", "n": 1, "labels": ["Baking"]}] * 4)
    path = str(tmp_path / "a.jsonl")
    outcome = call("train", "xr-linear", path, "--model", str(tmp_path / "m"), "--test", path)
    read = f"Read 4 rows from {path}: JSON lines of text, fields text and labels.\n"
    unread = f"{path}: the text is read from text; not from title (--text-field A,B joins several).\n"
    assert outcome.err == unread + read
    plain = call("train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m"))
    assert plain.err.startswith("Read ") and plain.err.count("\n") == 1, "there is nothing else to read"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_missing_column_names_the_option(kind: str, call: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    data.write_jsonl(tmp_path / "a.jsonl", ["bread"], [["Baking"]], text_field="title")
    data.write_table(tmp_path / "a.csv", ["bread"], [["Baking"]], text_column="title")
    data.write_parquet(tmp_path / "a.parquet", ["bread"], [["Baking"]], text_field="title")
    words = ["train", "xr-linear", str(tmp_path / f"a.{kind}"), "--model", str(tmp_path / "m")]
    for given, what, option in (
        ((), "text", "--text-field"),
        (("--text-field", "title", "--labels-field", "x"), "labels", "--labels-field"),
    ):
        outcome = call(*words, *given)
        assert outcome.code == 2 and f"Say which has the {what} with {option}" in outcome.err, outcome.err
    (tmp_path / "b.csv").write_text("title;labels\nbread;Baking\n")
    outcome = call("train", "xr-linear", str(tmp_path / "b.csv"), "--model", str(tmp_path / "m"))
    assert "If ';' separates the cells, say --delimiter \";\"." in outcome.err


@pytest.mark.parametrize("given", ["ab", "", '"'])
def test_delimiters_that_are_none(given: str, call: Any, tmp_path: Path) -> None:
    outcome = call("convert", write(tmp_path / "a.csv", ","), "-", "--to", "jsonl", "--delimiter", given)
    assert outcome.code == 2 and "must be one character such as ; or the word tab." in outcome.err
