"""Tables as spreadsheets write them, fields of files: what is read, what is said, and what rankings keep of them."""

from __future__ import annotations

import csv
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


BOOKS = [
    {"id": "b1", "title": "Loaves", "text": "bread flour oven", "year": 1901, "labels": ["Baking"]},
    {"id": "b2", "title": "Stars; and more", "text": "stars planet", "year": None, "labels": ["Astronomy", "Chess"]},
    {"id": "b3", "title": "", "text": "king queen", "year": 1999, "labels": []},
]


@pytest.fixture
def books(tmp_path: Path) -> dict[str, str]:
    """The same rows as JSON lines, CSV and Parquet."""
    pytest.importorskip("pyarrow")
    data.write_records(tmp_path / "books.jsonl", BOOKS)
    with open(tmp_path / "books.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerow(BOOKS[0])
        writer.writerows([*list(row.values())[:-1], "|".join(row["labels"])] for row in BOOKS)
    others = [{name: row[name] for name in ("id", "title", "year")} for row in BOOKS]
    texts, labels = [str(row["text"]) for row in BOOKS], [row["labels"] for row in BOOKS]
    data.write_parquet(tmp_path / "books.parquet", texts, labels, others=others)
    return {name: str(tmp_path / f"books.{name}") for name in ("jsonl", "csv", "parquet")}


def table(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_rankings_have_the_fields_of_their_rows(
    kind: str, books: dict[str, str], call: Any, files: Any, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    words = ["predict", files.text_model, books[kind], "-k", "2"]
    lines = [json.loads(line) for line in call(*words).out.splitlines()]
    plain = [{name: line[name] for name in ("labels", "probabilities")} for line in lines]
    assert [list(line) for line in lines] == [["id", "title", "year", "labels", "probabilities"]] * 3
    assert [line["id"] for line in lines] == ["b1", "b2", "b3"]
    years = ["1901", "", "1999"] if kind == "csv" else [1901, None, 1999]
    assert [line["year"] for line in lines] == years
    assert call(*words, "-o", str(tmp_path / "top.parquet"), "-q").code == 0
    rows = pq.read_table(tmp_path / "top.parquet").to_pylist()
    assert [{name: row[name] for name in ("id", "title", "year", "labels")} for row in rows] == [
        {name: line[name] for name in ("id", "title", "year", "labels")} for line in lines
    ]
    assert call(*words, "-o", str(tmp_path / "top.csv"), "-q").code == 0
    cells = table(tmp_path / "top.csv")
    assert list(cells[0]) == ["row", "id", "title", "year", "rank", "label", "probability"]
    assert [(c["row"], c["id"], c["rank"], c["label"], float(c["probability"])) for c in cells] == [
        (str(number), f"b{number + 1}", str(rank), label, score)
        for number, line in enumerate(plain)
        for rank, (label, score) in enumerate(zip(line["labels"], line["probabilities"], strict=True), 1)
    ]
    assert cells[2]["title"] == "Stars; and more"


def test_fields_are_chosen(books: dict[str, str], call: Any, files: Any, tmp_path: Path) -> None:
    words = ["predict", files.text_model, books["jsonl"], "-k", "1", "-q"]
    chosen = [json.loads(line) for line in call(*words, "--output-fields", "text,id").out.splitlines()]
    assert [list(line) for line in chosen] == [["text", "id", "labels", "probabilities"]] * 3
    none = [json.loads(line) for line in call(*words, "--output-fields", "none").out.splitlines()]
    assert [list(line) for line in none] == [["labels", "probabilities"]] * 3
    for given, sentence in (
        (["--output-fields", "ids"], "there is no field 'ids' to write. Its fields are: 'id', 'title'"),
        (["--output-fields", "labels"], "--output-fields can't name 'labels': the output has a column of that name"),
        (["--output-fields", "id", "-o", str(tmp_path / "a.npz")], "--output-fields is for texts whose ranking"),
    ):
        outcome = call(*words, *given)
        assert outcome.code == 2 and sentence in outcome.err, outcome.err


def test_a_field_that_the_output_has_itself_is_left_out_and_said(call: Any, files: Any, tmp_path: Path) -> None:
    data.write_records(tmp_path / "a.jsonl", [{"text": "bread", "probability": 3, "id": "x"}])
    outcome = call("predict", files.text_model, str(tmp_path / "a.jsonl"), "-k", "1", "-o", str(tmp_path / "top.csv"))
    assert "a.jsonl: probability is left out, as the output has a column of that name." in outcome.err
    assert list(table(tmp_path / "top.csv")[0]) == ["row", "id", "rank", "label", "probability"]


def test_rules_names_and_delimiters_of_tables(books: dict[str, str], call: Any, files: Any, tmp_path: Path) -> None:
    vocabulary, out = tmp_path / "v.tsv", tmp_path / "top.csv"
    vocabulary.write_text("Baking\tBacken\n")
    words = ["predict", files.text_model, books["jsonl"], "--threshold", "1", "--vocabulary", str(vocabulary), "-q"]
    assert call(*words, "-o", str(out), "--output-delimiter", ";", "--output-fields", "id").code == 0
    assert out.read_text("utf-8").splitlines() == [
        "row;id;rank;label;name;probability", "0;b1;;;;", "1;b2;;;;", "2;b3;;;;",
    ]  # fmt: skip
    words = ["predict", files.text_model, books["jsonl"], "-k", "1", "--vocabulary", str(vocabulary), "-q"]
    assert call(*words, "-o", str(tmp_path / "top.tsv")).code == 0
    (first, *_) = table(tmp_path / "top.tsv", "\t")
    assert (first["label"], first["name"]) == ("Baking", "Backen")
    matrix = call("predict", files.matrix_model, files("test.xmc"), "-k", "2", "-o", str(out), "-q")
    assert matrix.code == 0 and len(table(out)) == 120
    assert list(table(out)[0]) == ["row", "rank", "label", "probability"]


def test_fields_that_begin_late(call: Any, files: Any, tmp_path: Path) -> None:
    records = [{"text": "bread"}] * 2048 + [{"text": "stars", "id": "late"}]
    data.write_records(tmp_path / "a.jsonl", records)
    words = ["predict", files.text_model, str(tmp_path / "a.jsonl"), "-k", "1", "-q"]
    outcome = call(*words, "-o", str(tmp_path / "top.csv"))
    assert outcome.code == 2 and "Row 2048 has the field 'id', which the first rows don't have" in outcome.err
    assert not (tmp_path / "top.csv").exists()
    assert json.loads(call(*words).out.splitlines()[-1])["id"] == "late"


@pytest.mark.parametrize("source", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("target", ["jsonl", "csv", "tsv", "parquet"])
def test_convert_keeps_titles_and_ids(
    source: str, target: str, books: dict[str, str], call: Any, tmp_path: Path
) -> None:
    separator = ("--label-separator", "|") if source == "csv" else ()
    out, back = str(tmp_path / f"out.{target}"), str(tmp_path / "back.jsonl")
    there = call("convert", books[source], out, *separator)
    assert there.code == 0, there.err
    assert call("convert", out, back).code == 0
    found = list(data.read_records(back))
    as_text = "csv" in (source, target) or target == "tsv"
    assert [(row["id"], row["title"], row["text"], row["labels"]) for row in found] == [
        (row["id"], row["title"], row["text"], row["labels"]) for row in BOOKS
    ]
    assert [row["year"] for row in found] == (["1901", "", "1999"] if as_text else [1901, None, 1999])
    assert list(found[0])[:2] == ["text", "labels"]


def test_every_block_of_rows_has_its_own_fields(call: Any, files: Any, tmp_path: Path) -> None:
    texts, ids = ["bread"] * 5000, [f"b{at}" for at in range(5000)]
    data.write_jsonl(tmp_path / "a.jsonl", texts, others=({"id": name} for name in ids))
    out = tmp_path / "b.csv"
    assert call("convert", str(tmp_path / "a.jsonl"), str(out), "--texts-only").code == 0
    assert [row["id"] for row in table(out)] == ids
    assert call("predict", files.text_model, str(out), "-k", "1", "-o", str(tmp_path / "top.csv"), "-q").code == 0
    assert [row["id"] for row in table(tmp_path / "top.csv")] == ids


def test_convert_says_what_an_output_cannot_hold(books: dict[str, str], call: Any, tmp_path: Path) -> None:
    outcome = call("convert", books["jsonl"], str(tmp_path / "a.txt"), "--to", "fasttext", "--blanks", "_")
    assert outcome.code == 0
    assert "a.txt holds texts and labels alone: id, title, year of " in outcome.err
    outcome = call("convert", books["jsonl"], "-", "--to", "jsonl", "--text-field", "title", "--output-fields", "id")
    assert [list(json.loads(line)) for line in outcome.out.splitlines()] == [["text", "labels", "id"]] * 3
    outcome = call("convert", books["jsonl"], "-", "--to", "fasttext", "--output-fields", "id")
    assert outcome.code == 2
    assert "--output-fields is for outputs with columns, but - is fastText's lines." in outcome.err
    outcome = call("convert", books["jsonl"], "-", "--to", "csv", "--output-delimiter", ";", "--texts-only")
    assert outcome.out.splitlines()[:2] == ["text;id;title;year", "bread flour oven;b1;Loaves;1901"]


def test_a_model_parts_labels_as_its_training_did(call: Any, tmp_path: Path) -> None:
    """Names of products with the columns' own delimiter inside: said, and once they are told apart, remembered."""
    products = ["Corvo Flasche; 0,75 l", "Alder Zelt; 2 Personen", "Drachen"]
    rows = [(f"{word} {number}", products[number % 3]) for number in range(30) for word in ("such", "kauf")]
    log, model = tmp_path / "log.csv", str(tmp_path / "m")
    log.write_text("query;name\n" + "".join(f'{query};"{name}"\n' for query, name in rows), encoding="utf-8")
    columns = ("--text-field", "query", "--labels-field", "name")
    cut = call("train", str(log), "--model", model, *columns)
    assert "'Corvo Flasche; 0,75 l' is read as 2 labels, though ';' parts the columns too" in cut.err
    whole = call("train", str(log), "--model", model, *columns, "--label-separator", "none", "--set", "keep_rows=true")
    assert "parts the columns" not in whole.err and set(sylvan.load(model).vocabulary_) == set(products)
    more = tmp_path / "more.csv"
    more.write_text('query;name\nflasche;"Corvo Flasche; 0,75 l"\nneu;"Neu; rot"\n', encoding="utf-8")
    updated = call("update", model, str(more))
    assert updated.code == 0 and set(sylvan.load(model).vocabulary_) == {*products, "Neu; rot"}, updated.err
    small = str(tmp_path / "small")
    assert call("compress", model, "-o", small, "--max-size", "1MB").code == 0
    for folder in (model, small):
        measured = json.loads(call("evaluate", folder, str(more), "--json", "-").out)
        assert (measured["rows_measured"], measured["labels_unknown"]) == (2, 0)
    told = call("evaluate", model, str(more), "--label-separator", ";")
    assert told.code == 2 and "no row has a label that the model knows" in told.err
    (tmp_path / "empty").mkdir()
    for folder in (model, str(tmp_path / "empty")):  # its --test is read as its own training is, whatever was there
        anew = call("train", str(log), "--model", folder, *columns, "--test", str(log))
        assert anew.code == 0 and "doesn't know" not in anew.out + anew.err, anew.err
