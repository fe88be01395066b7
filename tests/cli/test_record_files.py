"""Catalogue records, spreadsheets and folders of texts through the commands, with the ids of what is ranked."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from kit.records import cell, marcxml, workbook

import sylvan
from sylvan import data

pytest.importorskip("pymarc")
pytest.importorskip("openpyxl")

BOOKS = [("b1", "Loaves of bread", "flour and yeast", "Baking"), ("b2", "The planets", "stars, comets", "Stars")] * 4
# For each kind of file, where its texts and labels are, and what is said of it.
KINDS = {
    "xml": ("--text-field 245a,520a --labels-field 650a",
            "records in MARCXML, fields 245a, 520a and 650a, labels without the punctuation at their end"),
    "xlsx": ("--text-field title,text --labels-field subject",
             "a spreadsheet (.xlsx), columns title, text and subject"),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def records(request: Any, call: Any) -> str:
    """The ending of a file books.* of records from which the model m was trained."""
    kind = str(request.param)
    if kind == "xml":
        content = marcxml(*(
            [("001", identity), ("245 10", f"a{title} /"), ("520", f"a{text}"), ("650  0", f"a{subject}.")]
            for identity, title, text, subject in BOOKS
        ))  # fmt: skip
    else:
        rows = ""
        for n, row in enumerate([("id", "title", "text", "subject"), *BOOKS], 1):
            cells = (cell(f"{column}{n}", text) for column, text in zip("ABCD", row, strict=True))
            rows += f"<row r='{n}'>{''.join(cells)}</row>"
        content = workbook({"Books": rows})
    Path(f"books.{kind}").write_bytes(content)
    options, read = KINDS[kind]
    outcome = call(f"train xr-linear books.{kind} --model m {options}")
    assert outcome.err == f"Read 8 rows from books.{kind}: {read}.\n"
    return kind


def test_records_through_the_commands(records: str, call: Any) -> None:
    path, (options, _) = f"books.{records}", KINDS[records]
    assert sylvan.load("m").rank(["bread"], k=1).names == [["Baking"]]
    assert "Measured over 8 rows" in call(f"evaluate m {path} -k 1 --per-row rows.csv").out
    assert Path("rows.csv").read_text().splitlines()[1].startswith("0,b1,")
    assert "Read 8 rows" in call(f"update m {path} --rows {path} --plan").err
    call("inspect m")
    checked = call(f"check {path} {options}", code=None).out
    assert "8 records with 2 subjects" in checked and "Record 3 (b1) is record 1 (b1): 'Loaves" in checked
    first = call(f"convert {path} - --to jsonl {options}").rows[0]
    assert (first["id"], first["labels"]) == ("b1", ["Baking"]) and first["text"].startswith("Loaves of bread")


@pytest.mark.parametrize("name", ["top.jsonl", "top.csv", "top.tsv", "top.parquet"])
def test_answers_name_their_records(name: str, records: str, call: Any) -> None:
    call(f"predict m books.{records} -k 1 -o {name} -q")
    if name.endswith("parquet"):
        rows = pytest.importorskip("pyarrow.parquet").read_table(name).to_pylist()
    elif name.endswith("jsonl"):
        rows = list(data.read_records(name))
    else:
        with open(name, encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="," if name.endswith("csv") else "\t"))
    assert [row["id"] for row in rows] == ["b1", "b2"] * 4
    field = "245a" if records == "xml" else "title"
    named = call(f"predict m books.{records} -k 1 --output-fields {field},id -q").rows
    assert named[1][field].startswith("The planets")


def test_options_of_other_formats_are_refused(records: str, refused: Any) -> None:
    predict = f"predict m books.{records}"
    refused(f"--delimiter is for tables, but books.{records} is", f"{predict} --delimiter ';'")
    refused(f"--encoding is for files of text, but books.{records} is", f"{predict} --encoding utf-8")
    refused("--to", f"convert books.{records} out.{records} {KINDS[records][0]}")
    refused("--output-suffix is for texts in files of their own", f"{predict} --output-suffix .jsonl")
    refused("stdin", "predict m - --output-suffix .jsonl", stdin=b"bread\n")


def test_a_sheet_by_its_name(call: Any, refused: Any) -> None:
    Path("a.xlsx").write_bytes(workbook({
        "Books": "<row r='1'>" + cell("A1", "whales") + cell("B1", "Sea") + "</row>",
        "More": "<row r='1'>" + cell("A1", "stars") + cell("B1", "Sky") + "</row>",
    }))  # fmt: skip
    convert = "convert a.xlsx - --to csv --text-field 1 --labels-field 2"
    assert "(--sheet)" not in refused("'Books', 'More'", convert)
    assert call(f"{convert} --sheet More").out == "text,labels\nstars,Sky\n"
    Path("a.csv").write_text("text,labels\nx,y\n")
    refused("--sheet is for spreadsheets", "convert a.csv - --to jsonl --sheet More")


@pytest.fixture
def texts(in_folder: Path) -> Path:
    folder = Path("texts")
    folder.mkdir()
    (folder / "a.txt").write_text("bread with flour")
    (folder / "b.TXT").write_text("a comet among stars")
    (folder / "b.key").write_text("Stars\n")
    return folder


@pytest.mark.parametrize("suffix", [".jsonl", ".top.csv", "-top.parquet"])
@pytest.mark.usefixtures("records")
def test_answers_beside_texts(suffix: str, texts: Path, call: Any) -> None:
    for path in (texts, texts / "a.txt"):
        predict = f"predict m {path} -k 1 --output-suffix {suffix}"
        assert call(f"{predict} -q").out == ""
        names = {file.name for file in texts.iterdir()} - {"a.txt", "b.TXT", "b.key"}
        assert names == ({f"a{suffix}", f"b{suffix}"} if path == texts else {f"a{suffix}"})
        content = (texts / f"a{suffix}").read_bytes()
        if suffix == ".jsonl":
            answer = json.loads(content)
            assert (answer["file"], answer["labels"]) == ("a.txt", ["Baking"])
        elif suffix == ".top.csv":
            header, row = content.decode().splitlines()[:2]
            assert header.startswith("row,file,rank,label,") and row.startswith("0,a.txt,1,Baking,")
        if suffix[0] == ".":  # a second time, the answers are no files of which anything is said
            assert "passed over" not in call(predict).err
        for name in names:
            (texts / name).unlink()


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
def test_a_text_in_a_file_whose_name_is_no_text(texts: Path, call: Any) -> None:
    (texts / "a.txt").rename(texts / os.fsdecode(b"\xfc.txt"))
    assert [row["file"] for row in call("predict {text-model} texts -k 1 -q").rows] == ["b.TXT", "?.txt"]


def test_suffixes_that_are_refused(texts: Path, refused: Any) -> None:
    before = sorted(texts.iterdir())
    for words, said in (
        (".tsv", ".key"), (".top.JSON", ".json"), ("''", "ending"), (".npz", "matrix"), ("/x.jsonl", "ending"),
        ("out", "ending"), (".docx", ".jsonl"), (".jsonl -o x.jsonl", "without -o"),
        (".jsonl --output-fields none", "--output-fields"),
    ):  # fmt: skip
        refused(said, f"predict {{text-model}} texts --output-suffix {words}")
        assert sorted(texts.iterdir()) == before, words
