"""Tables as spreadsheets write them, fields of files: what is read, what is said, and what rankings keep of them."""

import csv
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import data

ROWS = [("u1", "Loaves", "bread flour", "Baking"), ("u2", "Planets", "stars comet", "Astronomy")] * 3


def write(name: str, delimiter: str, encoding: str = "utf-8") -> None:
    lines = [delimiter.join(row) for row in (("id", "title", "text", "labels"), *ROWS)]
    Path(name).write_text("\n".join(lines) + "\n", encoding)


@pytest.mark.parametrize(("name", "delimiter", "encoding"), [
    ("a.csv", ";", "utf-8"), ("a.csv", "\t", "utf-8-sig"), ("a.tsv", ";", "utf-8-sig"), ("a.csv", "|", "utf-8"),
])  # fmt: skip
def test_the_first_row_shows_the_delimiter(name: str, delimiter: str, encoding: str, call: Any) -> None:
    write(name, delimiter, encoding)
    first, second, third = call(f"train xr-linear {name} --model m").err.splitlines()
    assert first == f"{name}: its cells are separated by {delimiter!r}, as the first row shows."
    assert second == f"{name}: the text is read from text; not from id, title (--text-field A,B joins several)."
    assert third.startswith(f"Read 6 rows from {name}: a table in {name[2:].upper()}, ") and "text and labels" in third
    assert sylvan.load("m").rank(["bread"], k=1).names == [["Baking"]]
    given = {"\t": "tab"}.get(delimiter, delimiter)
    told = call(f"predict m {name} --delimiter '{given}' -k 1 --output-fields none")
    assert "separated" not in told.err and told.labels[0] == ["Baking"]
    assert call(f"predict m {name} -k 1 --output-fields none -q") == (0, told.out, "")


def test_numbers_of_columns_show_the_delimiter_too(call: Any) -> None:
    Path("a.csv").write_text("bread flour;Baking\nstars comet;Astronomy\n" * 3)
    for given in ("", "--delimiter ';'"):
        said = call(f"convert a.csv b.jsonl --text-field 1 --labels-field 2 {given}").err
        assert ("separated by ';'" in said) == (not given), said
        assert data.read_jsonl("b.jsonl").labels[:2] == [["Baking"], ["Astronomy"]]
    second = call("convert a.csv - --to csv --text-field 2 --no-header --texts-only").out
    assert second.splitlines()[:2] == ["text,1", "Baking,bread flour"]


def test_several_fields_by_commas(call: Any) -> None:
    write("a.csv", ",")
    call("train xr-linear a.csv --model m --text-field title,text -q")
    assert sylvan.load("m").text_fields_ == ("title", "text")
    read = "Read 6 rows from a.csv: a table in CSV, columns title, text and labels.\n"
    assert call("evaluate m a.csv -k 1").err == read, "nobody means an id as text"
    said = call("evaluate m a.csv -k 1 --text-field text").err
    assert "the text is read from text; not from id, title (" in said
    data.write_records("a.jsonl", [{"a,b": "bread", "a": "x", "labels": ["Baking"]}] * 2)
    named = call("convert a.jsonl - --to lines --text-field a,b --texts-only").out
    assert named == "bread\nbread\n", "a field may have a comma in its name"


def test_what_is_not_read_is_said_once(call: Any) -> None:
    data.write_records("a.jsonl", [{"text": "bread", "title": "b", "n": 1, "labels": ["Baking"]}] * 4)
    assert call("train xr-linear a.jsonl --model m --test a.jsonl").err == (
        "a.jsonl: the text is read from text; not from title (--text-field A,B joins several).\n"
        "Read 4 rows from a.jsonl: JSON lines of text, fields text and labels.\n"
    )
    plain = call("train xr-linear {train.jsonl} --model m").err
    assert plain.startswith("Read ") and plain.count("\n") == 1, "there is nothing else to read"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_missing_column_names_the_option(kind: str, refused: Any) -> None:
    pytest.importorskip("pyarrow")
    data.write_jsonl("a.jsonl", ["bread"], [["Baking"]], text_field="title")
    data.write_table("a.csv", ["bread"], [["Baking"]], text_column="title")
    data.write_parquet("a.parquet", ["bread"], [["Baking"]], text_field="title")
    train = f"train xr-linear a.{kind} --model m"
    refused("Say which has the text with --text-field", train)
    refused("Say which has the labels with --labels-field", f"{train} --text-field title --labels-field x")
    Path("b.csv").write_text("title;labels\nbread;Baking\n")
    refused("If ';' separates the cells, say --delimiter \";\".", "train xr-linear b.csv --model m")


@pytest.mark.parametrize("given", ["ab", "", '"'])
def test_delimiters_that_are_none(given: str, refused: Any) -> None:
    write("a.csv", ",")
    words = ("convert", "a.csv", "-", "--to", "jsonl", "--delimiter", given)
    refused("must be one character such as ; or the word tab.", *words)


BOOKS = [
    {"id": "b1", "title": "Loaves", "text": "bread flour oven", "year": 1901, "labels": ["Baking"]},
    {"id": "b2", "title": "Stars; and more", "text": "stars planet", "year": None, "labels": ["Astronomy", "Chess"]},
    {"id": "b3", "title": "", "text": "king queen", "year": 1999, "labels": []},
]


@pytest.fixture
def books(in_folder: Path) -> None:
    """The same rows as JSON lines, CSV and Parquet."""
    pytest.importorskip("pyarrow")
    data.write_records("books.jsonl", BOOKS)
    with open("books.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerow(BOOKS[0])
        writer.writerows([*list(row.values())[:-1], "|".join(row["labels"])] for row in BOOKS)
    others = [{name: row[name] for name in ("id", "title", "year")} for row in BOOKS]
    texts, labels = [str(row["text"]) for row in BOOKS], [row["labels"] for row in BOOKS]
    data.write_parquet("books.parquet", texts, labels, others=others)


def table(path: str, delimiter: str = ",") -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def picked(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names} for row in rows]


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_rankings_have_the_fields_of_their_rows(kind: str, call: Any) -> None:
    import pyarrow.parquet as pq

    predict = f"predict {{text-model}} books.{kind} -k 2"
    lines = call(predict).rows
    assert [list(line) for line in lines] == [["id", "title", "year", "labels", "probabilities"]] * 3
    assert [line["id"] for line in lines] == ["b1", "b2", "b3"]
    years = ["1901", "", "1999"] if kind == "csv" else [1901, None, 1999]
    assert [line["year"] for line in lines] == years
    call(f"{predict} -o top.parquet -q")
    fields = ("id", "title", "year", "labels")
    assert picked(pq.read_table("top.parquet").to_pylist(), *fields) == picked(lines, *fields)
    call(f"{predict} -o top.csv -q")
    cells = table("top.csv")
    assert list(cells[0]) == ["row", "id", "title", "year", "rank", "label", "probability"]
    assert [(c["row"], c["id"], c["rank"], c["label"], float(c["probability"])) for c in cells] == [
        (str(number), f"b{number + 1}", str(rank), label, score)
        for number, line in enumerate(lines)
        for rank, (label, score) in enumerate(zip(line["labels"], line["probabilities"], strict=True), 1)
    ]
    assert cells[2]["title"] == "Stars; and more"


@pytest.mark.usefixtures("books")
def test_fields_are_chosen(call: Any, refused: Any) -> None:
    predict = "predict {text-model} books.jsonl -k 1 -q --output-fields"
    for given, fields in (("text,id", ["text", "id"]), ("none", [])):
        assert [list(line) for line in call(f"{predict} {given}").rows] == [[*fields, "labels", "probabilities"]] * 3
    refused("there is no field 'ids' to write. Its fields are: 'id', 'title'", f"{predict} ids")
    refused("--output-fields can't name 'labels': the output has a column of that name", f"{predict} labels")
    refused("--output-fields is for texts whose ranking", f"{predict} id -o a.npz")


def test_a_field_that_the_output_has_itself_is_left_out_and_said(call: Any) -> None:
    data.write_records("a.jsonl", [{"text": "bread", "probability": 3, "id": "x"}])
    said = call("predict {text-model} a.jsonl -k 1 -o top.csv").err
    assert "a.jsonl: probability is left out, as the output has a column of that name." in said
    assert list(table("top.csv")[0]) == ["row", "id", "rank", "label", "probability"]


def test_fields_that_may_be_labels_but_are_not_read_are_written(call: Any) -> None:
    others = {"label": "mine", "subjects": ["s"], "weights": [2]}
    data.write_records("a.jsonl", [{"text": "bread", "labels": ["Baking"], **others}])
    predict = "predict {text-model} a.jsonl -k 1"
    (row,) = call(f"{predict} -q").rows
    assert {name: row[name] for name in others} == others
    assert "a.jsonl: label is left out" in call(f"{predict} -o top.csv").err


@pytest.mark.usefixtures("books")
def test_rules_names_and_delimiters_of_tables(call: Any) -> None:
    Path("v.tsv").write_text("Baking\tBacken\n")
    predict = "predict {text-model} books.jsonl --vocabulary v.tsv -q"
    call(f"{predict} --threshold 1 -o top.csv --output-delimiter ';' --output-fields id")
    assert Path("top.csv").read_text("utf-8").splitlines() == [
        "row;id;rank;label;name;probability", "0;b1;;;;", "1;b2;;;;", "2;b3;;;;",
    ]  # fmt: skip
    call(f"{predict} -k 1 -o top.tsv")
    (first, *_) = table("top.tsv", "\t")
    assert (first["label"], first["name"]) == ("Baking", "Backen")
    call("predict {matrix-model} {test.xmc} -k 2 -o top.csv -q")
    assert len(table("top.csv")) == 120
    assert list(table("top.csv")[0]) == ["row", "rank", "label", "probability"]


def test_fields_that_begin_late(call: Any, refused: Any) -> None:
    data.write_records("a.jsonl", [{"text": "bread"}] * 2048 + [{"text": "stars", "id": "late"}])
    predict = "predict {text-model} a.jsonl -k 1 -q"
    refused("Row 2048 has the field 'id', which the first rows don't have", f"{predict} -o top.csv")
    assert not Path("top.csv").exists()
    assert call(predict).rows[-1]["id"] == "late"


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize("source", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("target", ["jsonl", "csv", "tsv", "parquet"])
def test_convert_keeps_titles_and_ids(source: str, target: str, call: Any) -> None:
    call(f"convert books.{source} out.{target}" + (" --label-separator |" if source == "csv" else ""))
    call(f"convert out.{target} back.jsonl")
    found = list(data.read_records("back.jsonl"))
    fields = ("id", "title", "text", "labels")
    assert picked(found, *fields) == picked(BOOKS, *fields)
    as_text = "csv" in (source, target) or target == "tsv"
    assert [row["year"] for row in found] == (["1901", "", "1999"] if as_text else [1901, None, 1999])
    assert list(found[0])[:2] == ["text", "labels"]


def test_every_block_of_rows_has_its_own_fields(call: Any) -> None:
    ids = [f"b{at}" for at in range(5000)]
    data.write_jsonl("a.jsonl", ["bread"] * 5000, others=({"id": name} for name in ids))
    call("convert a.jsonl b.csv --texts-only")
    call("predict {text-model} b.csv -k 1 -o top.csv -q")
    for name in ("b.csv", "top.csv"):
        assert [row["id"] for row in table(name)] == ids


@pytest.mark.usefixtures("books")
def test_convert_says_what_an_output_cannot_hold(call: Any, refused: Any) -> None:
    said = call("convert books.jsonl a.txt --to fasttext --blanks _").err
    assert "a.txt holds texts and labels alone: id, title, year of " in said
    titles = call("convert books.jsonl - --to jsonl --text-field title --output-fields id").rows
    assert [list(line) for line in titles] == [["text", "labels", "id"]] * 3
    none = "--output-fields is for outputs with columns, but - is fastText's lines."
    refused(none, "convert books.jsonl - --to fasttext --output-fields id")
    texts = call("convert books.jsonl - --to csv --output-delimiter ';' --texts-only").out
    assert texts.splitlines()[:2] == ["text;id;title;year", "bread flour oven;b1;Loaves;1901"]


@pytest.mark.usefixtures("books")
def test_options_of_other_outputs_are_refused(call: Any, refused: Any) -> None:
    predict = "predict {text-model} books.jsonl"
    for option in ("--output-delimiter ';'", "--guard-formulas"):
        for output in ("-o a.jsonl", "-o a.npz", "", "-o a.parquet", "-o a.jsonl.gz", "--ray auto -o a/"):
            name = output.split()[-1] if output else "-"
            refused(f"{option.split()[0]} is for tables, and {name} is none of these.", f"{predict} {option} {output}")
        call(f"{predict} -q -o a.tsv.gz {option}")
    convert = "convert books.jsonl a.txt --to"
    for option, words, right in (
        ("--output-delimiter ';'", "tables", "csv"), ("--guard-formulas", "tables", "tsv"),
        ("--output-separator ,", "tables", "annif-csv"), ("--blanks _", "fastText's files", "fasttext"),
        ("--output-items i.txt", "PECOS's files", "pecos"),
    ):  # fmt: skip
        refused(f"{option.split()[0]} is for {words}, and a.txt is none of these.", f"{convert} jsonl {option}")
        call(f"{convert} {right} {option}")


def test_a_model_parts_labels_as_its_training_did(call: Any, refused: Any) -> None:
    """Names of products with the columns' own delimiter inside: said, and once they are told apart, remembered."""
    products = ["Corvo Flasche; 0,75 l", "Alder Zelt; 2 Personen", "Drachen"]
    rows = [(f"{word} {number}", products[number % 3]) for number in range(30) for word in ("such", "kauf")]
    Path("log.csv").write_text("query;name\n" + "".join(f'{query};"{name}"\n' for query, name in rows), "utf-8")
    train = "train xr-linear log.csv --text-field query --labels-field name --model"
    cut = call(f"{train} m").err
    assert "'Corvo Flasche; 0,75 l' is read as 2 labels, though ';' parts the columns too" in cut
    whole = call(f"{train} m --label-separator none --set keep_rows=true").err
    assert "parts the columns" not in whole and set(sylvan.load("m").vocabulary_) == set(products)
    Path("more.csv").write_text('query;name\nflasche;"Corvo Flasche; 0,75 l"\nneu;"Neu; rot"\n', "utf-8")
    call("update m more.csv")
    assert set(sylvan.load("m").vocabulary_) == {*products, "Neu; rot"}
    call("compress m -o small --max-size 1MB")
    for folder in ("m", "small"):
        measured = call(f"evaluate {folder} more.csv --json -").json
        assert (measured["rows_measured"], measured["labels_unknown"]) == (2, 0)
    refused("no row has a label that the model knows", "evaluate m more.csv --label-separator ';'")
    Path("empty").mkdir()
    for folder in ("m", "empty"):  # its --test is read as its own training is, whatever was there
        anew = call(f"{train} {folder} --test log.csv")
        assert "doesn't know" not in anew.out + anew.err, anew.err
