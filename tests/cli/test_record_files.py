"""Catalogue records, spreadsheets and folders of texts through the commands, with the ids of what is ranked."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from kit.records import cell, marcxml, workbook

import sylvan
from sylvan import data

pytest.importorskip("pymarc")
pytest.importorskip("openpyxl")

BOOKS = [("b1", "Loaves of bread", "flour and yeast", "Baking"), ("b2", "The planets", "stars, comets", "Stars")] * 4
MARC = ("--text-field", "245a,520a", "--labels-field", "650a")
SHEET = ("--text-field", "title,text", "--labels-field", "subject")


@pytest.fixture(params=["marcxml", "xlsx"])
def records(request: Any, tmp_path: Path) -> tuple[str, tuple[str, ...]]:
    """A file of records, and the options that say where their texts and labels are."""
    if request.param == "marcxml":
        path, options = tmp_path / "books.xml", MARC
        path.write_bytes(marcxml(*(
            [("001", identity), ("245 10", f"a{title} /"), ("520", f"a{text}"), ("650  0", f"a{subject}.")]
            for identity, title, text, subject in BOOKS
        )))  # fmt: skip
    else:
        path, options = tmp_path / "books.xlsx", SHEET
        rows = ""
        for n, row in enumerate([("id", "title", "text", "subject"), *BOOKS], 1):
            cells = (cell(f"{column}{n}", text) for column, text in zip("ABCD", row, strict=True))
            rows += f"<row r='{n}'>{''.join(cells)}</row>"
        path.write_bytes(workbook({"Books": rows}))
    return str(path), options


@pytest.fixture
def model(records: Any, call: Any, tmp_path: Path) -> str:
    path, options = records
    folder = str(tmp_path / "m")
    outcome = call("train", "xr-linear", path, "--model", folder, *options)
    read = {
        "xml": "records in MARCXML, fields 245a, 520a and 650a, labels without the punctuation at their end",
        "lsx": "a spreadsheet (.xlsx), columns title, text and subject",
    }[path[-3:]]
    assert (outcome.code, outcome.err) == (0, f"Read 8 rows from {path}: {read}.\n")
    return folder


def test_records_through_the_commands(records: Any, model: str, call: Any, tmp_path: Path) -> None:
    path, _ = records
    assert sylvan.load(model).rank(["bread"], k=1).names == [["Baking"]]
    out = tmp_path / "rows.csv"
    assert "Measured over 8 rows" in call("evaluate", model, path, "-k", "1", "--per-row", str(out)).out
    assert out.read_text().splitlines()[1].startswith("0,b1,")
    assert "Read 8 rows" in call("update", model, path, "--rows", path, "--plan").err
    assert call("inspect", model).code == 0
    checked = call("check", path, *records[1]).out
    assert "8 records with 2 subjects" in checked and "Record 3 (b1) is record 1 (b1): 'Loaves" in checked
    converted = call("convert", path, "-", "--to", "jsonl", *records[1])
    first = json.loads(converted.out.splitlines()[0])
    assert (first["id"], first["labels"]) == ("b1", ["Baking"]) and first["text"].startswith("Loaves of bread")


@pytest.mark.parametrize("name", ["top.jsonl", "top.csv", "top.tsv", "top.parquet"])
def test_answers_name_their_records(name: str, records: Any, model: str, call: Any, tmp_path: Path) -> None:
    path, out = records[0], tmp_path / name
    assert call("predict", model, path, "-k", "1", "-o", str(out), "-q").code == 0
    if name.endswith("parquet"):
        rows = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
    elif name.endswith("jsonl"):
        rows = list(data.read_records(out))
    else:
        with open(out, encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="," if name.endswith("csv") else "\t"))
    assert [row["id"] for row in rows] == ["b1", "b2"] * 4
    field = "245a" if path.endswith("xml") else "title"
    named = call("predict", model, path, "-k", "1", "--output-fields", f"{field},id", "-q")
    assert json.loads(named.out.splitlines()[1])[field].startswith("The planets")


def test_options_of_other_formats_are_refused(records: Any, model: str, call: Any) -> None:
    path, _ = records
    for options, word in ((("--delimiter", ";"), "tables"), (("--encoding", "utf-8"), "files of text")):
        outcome = call("predict", model, path, *options)
        assert outcome.code == 2 and f"{options[0]} is for {word}, but {path} is" in outcome.err
    outcome = call("convert", path, path.replace("books", "out"), *records[1])
    assert outcome.code == 2 and "--to" in outcome.err


def test_a_sheet_by_its_name(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(workbook({
        "Books": "<row r='1'>" + cell("A1", "whales") + cell("B1", "Sea") + "</row>",
        "More": "<row r='1'>" + cell("A1", "stars") + cell("B1", "Sky") + "</row>",
    }))  # fmt: skip
    words = "convert", str(tmp_path / "a.xlsx"), "-", "--to", "csv", "--text-field", "1", "--labels-field", "2"
    refused = call(*words)
    assert refused.code == 2 and "'Books', 'More'" in refused.err and "(--sheet)" not in refused.err
    assert call(*words, "--sheet", "More").out == "text,labels\nstars,Sky\n"
    (tmp_path / "a.csv").write_text("text,labels\nx,y\n")
    outcome = call("convert", str(tmp_path / "a.csv"), "-", "--to", "jsonl", "--sheet", "More")
    assert outcome.code == 2 and "--sheet is for spreadsheets" in outcome.err


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("bread with flour")
    (folder / "b.TXT").write_text("a comet among stars")
    (folder / "b.key").write_text("Stars\n")
    return folder


@pytest.mark.parametrize("suffix", [".jsonl", ".top.csv", "-top.parquet"])
def test_answers_beside_texts(suffix: str, texts: Path, model: str, call: Any) -> None:
    for path in (texts, texts / "a.txt"):
        outcome = call("predict", model, str(path), "-k", "1", "--output-suffix", suffix, "-q")
        assert (outcome.code, outcome.out) == (0, "")
        names = {file.name for file in texts.iterdir()} - {"a.txt", "b.TXT", "b.key"}
        assert names == ({f"a{suffix}", f"b{suffix}"} if path == texts else {f"a{suffix}"})
        content = (texts / f"a{suffix}").read_bytes()
        if suffix == ".jsonl":
            answer = json.loads(content)
            assert (answer["file"], answer["labels"]) == ("a.txt", ["Baking"])
        elif suffix == ".top.csv":
            row, header = content.decode().splitlines()[1], content.decode().splitlines()[0]
            assert header.startswith("row,file,rank,label,") and row.startswith("0,a.txt,1,Baking,")
        if suffix[0] == ".":  # a second time, the answers are no files of which anything is said
            outcome = call("predict", model, str(path), "-k", "1", "--output-suffix", suffix)
            assert (outcome.code, "passed over" in outcome.err) == (0, False), outcome
        for name in names:
            (texts / name).unlink()


@pytest.mark.parametrize(("words", "said"), [
    (["--output-suffix", ".tsv"], ".key"), (["--output-suffix", ".top.JSON"], ".json"),
    (["--output-suffix", ""], "ending"), (["--output-suffix", ".npz"], "matrix"),
    (["--output-suffix", "/x.jsonl"], "ending"), (["--output-suffix", ".docx"], ".jsonl"),
    (["--output-suffix", ".jsonl", "-o", "x.jsonl"], "without -o"),
    (["--output-suffix", ".jsonl", "--output-fields", "none"], "--output-fields"),
])  # fmt: skip
def test_suffixes_that_are_refused(words: list[str], said: str, texts: Path, model: str, call: Any) -> None:
    before = sorted(texts.iterdir())
    outcome = call("predict", model, str(texts), *words)
    assert outcome.code == 2 and said in outcome.err and sorted(texts.iterdir()) == before


def test_a_suffix_is_for_files_of_one_text(records: Any, model: str, call: Any) -> None:
    outcome = call("predict", model, records[0], "--output-suffix", ".jsonl")
    assert outcome.code == 2 and "--output-suffix is for texts in files of their own" in outcome.err
    outcome = call("predict", model, "-", "--output-suffix", ".jsonl", stdin=b"bread\n")
    assert outcome.code == 2 and "stdin" in outcome.err
