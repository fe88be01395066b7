"""MARCXML and spreadsheets: what is read of real cataloguing and real sheets, and every fault is a sentence."""

from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises, warns
from kit.records import SLIM, cell, marcxml, workbook

from sylvan import data
from sylvan.errors import DataError, DataWarning, ParameterError

pytest.importorskip("pymarc")
openpyxl = pytest.importorskip("openpyxl")

WHALE = [
    ("001", "ocm1"), ("245 14", "aThe whale :|ba tale /|cHerman Melville."), ("520", "aWhales are hunted."),
    ("650  0", "aWhaling|xHistory."), ("650  7", "aWhaling.|2fast|0(DE-588)4064822-9"), ("650  0", "aShips, U.S."),
    ("653", "asea,|aharpoons /"),
]  # fmt: skip
DOG = [("001", "ocm2"), ("245 00", "a\x98Der\x9c Hund"), ("520", "aA dog."), ("650  0", "aDogs (Pets).")]


def marc(folder: Path, content: bytes, **options: Any) -> data.TextData:
    path = folder / "a.xml"
    path.write_bytes(content)
    return data.read_marc(path, **options)


@pytest.mark.parametrize(("labels", "first"), [
    ("650a", ["Whaling", "Ships, U.S."]),  # a full stop stays behind an abbreviation
    ("650ax", ["Whaling -- History", "Whaling", "Ships, U.S."]),
    ("650", ["Whaling -- History", "Whaling", "Ships, U.S."]),  # numbers of subfields are no words
    ("650|*0|a", ["Whaling", "Ships, U.S."]), ("650| 7|a", ["Whaling"]), ("6500", ["(DE-588)4064822-9"]),
    ("653a", ["sea", "harpoons"]), ("653a,650|*7|a", ["sea", "harpoons", "Whaling"]), (["001"], ["ocm1"]),
])  # fmt: skip
def test_labels_of_a_marc_record(labels: Any, first: list[str], tmp_path: Path) -> None:
    assert marc(tmp_path, marcxml(WHALE, DOG), labels_field=labels).labels[0] == first


@pytest.mark.parametrize(("text", "label"), [
    ("Whaling /", "Whaling"), ("Whaling :", "Whaling"), ("Whaling ;", "Whaling"), ("Melville, H.", "Melville, H."),
    ("Melville, Herman,", "Melville, Herman"), ("1819-1891.", "1819-1891"), ("U.S. Navy.", "U.S. Navy"),
    ("B.C.", "B.C."), ('"Essex" (Ship).', '"Essex" (Ship)'), ("http://id.org/1/", "http://id.org/1/"),
    ("Cafe\u0301.", "Café"), ("Öl.", "Öl."), ("Recipes, etc.", "Recipes, etc."), ("1838-.", "1838-"),
])  # fmt: skip
def test_punctuation_at_the_end_of_labels(text: str, label: str, tmp_path: Path) -> None:
    record = [("245 00", "aMoby Dick"), ("650  0", f"a{text}")]
    assert marc(tmp_path, marcxml(record)).labels == [[label]]


def test_texts_and_ids_of_marc_records(tmp_path: Path) -> None:
    content, records = marcxml(WHALE, DOG, [("245 00", "aUntitled")]), []
    (tmp_path / "a.xml").write_bytes(content)
    blocks = list(data.stream_marc(tmp_path / "a.xml", text_fields=("245ab", "520a"), records=records, rows=2))
    texts = [text for block in blocks for text in block.texts]
    assert texts == ["The whale : a tale / Whales are hunted.", "Der Hund A dog.", "Untitled"]
    assert blocks[1].labels == [[]] and [record["id"] for record in records] == ["ocm1", "ocm2", None]
    assert records[0] == {"id": "ocm1", "245ab": "The whale : a tale /", "520a": "Whales are hunted."}


@pytest.mark.parametrize("kind", ["utf-16", "latin-1", "none", "oai", "gz"])
def test_marcxml_as_it_comes(kind: str, tmp_path: Path) -> None:
    content = marcxml([("245 00", "aKüsten"), ("650  0", "aWale.")])
    if kind == "utf-16":
        content = content.decode().replace('"1.0"', '"1.0" encoding="UTF-16"').encode("utf-16")
    elif kind == "latin-1":
        content = content.decode().replace('"1.0"', '"1.0" encoding="iso-8859-1"').encode("latin-1")
    elif kind == "none":
        content = content.replace(f' xmlns="{SLIM}"'.encode(), b"")
    elif kind == "oai":
        inner = content.partition(b"?>")[2].replace(b"collection", b"metadata")
        outer = b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><record><header/>%s</record></OAI-PMH>'
        content = outer % inner
    else:
        import gzip

        content = gzip.compress(content)
    assert marc(tmp_path, content) == (["Küsten"], [["Wale"]], None)


BOMB = '<!DOCTYPE a [<!ENTITY b "lol">' + "".join(f'<!ENTITY c{n} "{"&b;" * 999}">' for n in range(99)) + "]>"
_GOOD = marcxml(WHALE, DOG)


@pytest.mark.parametrize(("content", "options", "values"), [
    (_GOOD[:600], {}, ("line 1", "cut short")),
    (_GOOD[:-3], {}, ("line 1", "cut short")),
    (marcxml(WHALE, namespace="http://www.loc.gov/mods/v3"), {}, ("'http://www.loc.gov/mods/v3'", SLIM)),
    (b"<books><book/></books>", {}, ("'books'", SLIM)),
    (b"title,labels\n", {}, ("line 1",)), (b"\x00\xff" * 200, {}, ("line 1",)), (b"", {}, (SLIM,)),
    (marcxml(WHALE, head=BOMB), {}, ("document type",)),
    (marcxml(WHALE, head='<!DOCTYPE a SYSTEM "/etc/passwd">'), {}, ("document type",)),
    (_GOOD.replace(b' code="a"', b""), {}, ("record 1",)),
    (_GOOD.replace(b' tag="520"', b""), {}, ("record 1",)),
    (_GOOD, {"text_fields": ("245a", "502a")}, ("502a", "001, 245abc, 520a, 650ax02, 653a")),
    (_GOOD, {"labels_field": "650z"}, ("650z", "650ax02")),
    (_GOOD, {"text_fields": "999a", "labels_field": None}, ("999a", "245abc")),
])  # fmt: skip
def test_faults_of_marcxml(content: bytes, options: Any, values: Any, tmp_path: Path) -> None:
    with raises(DataError, "a.xml", *values):
        marc(tmp_path, content, **options)


@pytest.mark.parametrize("name", ["text", "24a", "245A", "650_0a", "245$a", "", "650|0|a"])
def test_names_that_are_none_of_marc(name: str, tmp_path: Path) -> None:
    with raises(ParameterError, "245a", repr(name), "--text-field"):
        marc(tmp_path, _GOOD, text_fields=name)


def test_texts_alone_may_lack_a_field(tmp_path: Path) -> None:
    with warns(DataWarning, "a.xml", "502a", "245abc"):
        read = marc(tmp_path, _GOOD, text_fields=("245a", "502a"), labels_field=None)
    assert read.texts == ["The whale :", "Der Hund"]


def sheet(folder: Path, content: bytes, **options: Any) -> data.TextData:
    path = folder / "a.xlsx"
    path.write_bytes(content)
    return data.read_spreadsheet(path, **options)


def test_cells_as_a_sheet_shows_them(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (
        ["id", "isbn", "title", "labels", "day", "at", "ok", None],
        [7, 9783161484100, "Moby\r\nDick", "Whaling; Sea", date(2024, 5, 31), time(12, 30), True],
        [None] * 3, ["007", 0.1, 1984, 813.54, datetime(2024, 5, 31, 12, 30), None, False],
        [123456, 1e20, "x", "y", None, None, None],
    ):  # fmt: skip
        book.active.append(row)
    for reference, form in (("A2", "0000"), ("A5", "00\\-00"), ("B2", "0"), ("D4", "0.0")):
        book.active[reference].number_format = form
    book.create_sheet("Notes").sheet_state = "hidden"
    book["Notes"].append(["nothing"])
    book.create_sheet("Sheet3")
    book.save(tmp_path / "a.xlsx")
    records: list[Any] = []
    (block,) = data.stream_spreadsheet(tmp_path / "a.xlsx", text_columns="title", records=records)
    assert block == (["Moby\nDick", "1984", "x"], [["Whaling", "Sea"], ["813.54"], ["y"]], None)
    assert [list(record.values()) for record in records] == [
        ["0007", "9783161484100", "Moby\nDick", "Whaling; Sea", "2024-05-31", "12:30:00", "TRUE"],
        ["007", "0.1", "1984", "813.54", "2024-05-31 12:30:00", "", "FALSE"],
        ["1234-56", "1e+20", "x", "y", "", "", ""],
    ]
    assert data.read_spreadsheet(tmp_path / "a.xlsx", sheet="Notes", text_columns=1, labels_columns=None).texts == [
        "nothing"
    ]


_HEAD = "<row r='1'>" + cell("A1", "text") + cell("B1", "labels") + "</row>"
_ROW = "<row r='2'>" + cell("A2", "whales") + cell("B2", "Sea") + "</row>"
_ODD = '<row r="2"><c r="A2"><f>1+1</f>{}</c></row>'


def test_a_formula_has_the_value_that_was_saved(tmp_path: Path) -> None:
    rows = "<row r='2'><c r='A2' t='str'><f>1&amp;2</f><v>12</v></c><c r='B2' t=\"str\"><f>A9</f><v></v></c></row>"
    assert sheet(tmp_path, workbook({"A": _HEAD + rows})) == (["12"], [[]], None)


@pytest.mark.parametrize(("content", "options", "values"), [
    (b"text,labels\nwhales,Sea\n", {}, ("zip",)), (workbook({"A": _HEAD})[:-40], {}, ("zip",)), (b"", {}, ("damaged",)),
    (workbook({}), {}, ("no sheet",)), (workbook({"A": ""}), {}, ("no sheet",)),
    (workbook({"A": _HEAD}), {}, ("rows",)),
    (workbook({"A": _HEAD + _ROW, "B b": _ROW}), {}, ("--sheet", "'A', 'B b'")),
    (workbook({"A": _HEAD + _ROW}), {"sheet": "B"}, ("'B'", "'A'")),
    (workbook({"A": _HEAD + _ROW}), {"text_columns": "title"}, ("sheet 'A'", "row 1", "'title'", "'labels'")),
    (workbook({"A": _HEAD + _ROW}), {"labels_columns": 3}, ("row 1", 3, 2)),
    (workbook({"A": _HEAD + _HEAD.replace("1'>", "3'>").replace("B1", "C3").replace("A1", "A3")}), {}, ("row 3", 3, 2)),
    (workbook({"A": _HEAD + _ROW + '|<mergeCells><mergeCell ref="A2:A5"/></mergeCells>'}), {}, ("'A'", "A2:A5")),
    (workbook({"A": _HEAD + _ODD.format("")}), {}, ("'A'", "cell A2", "formula")),
    (workbook({"A": _HEAD + _ODD.format("<v/>")}), {}, ("cell A2", "formula")),
    (workbook({"A": _HEAD + _ODD.format("<v></v>")}), {}, ("cell A2", "formula")),
    (workbook({"A": _HEAD + "<row r='2'><c r='B2' t='e'><v>#N/A</v></c></row>"}), {}, ("row 2", "cell B2", "#N/A")),
    (workbook({"A": _HEAD + "<row r='2'><c r='A2' s='9'><v>a</v></c></row>"}), {}, ("damaged",)),
    (workbook({"A": _HEAD}, head="<!DOCTYPE worksheet>"), {}, ("sheet1.xml", "document type")),
    (workbook({"A": _HEAD + "<row r='2'>"}), {}, ("damaged",)),
    (workbook({"A": _HEAD}).replace(b"worksheets/sheet1.xml", b"worksheets/sheet9.xml"), {}, ("no sheet",)),
])  # fmt: skip
def test_faults_of_spreadsheets(content: bytes, options: Any, values: Any, tmp_path: Path) -> None:
    with raises(DataError, "a.xlsx", *values):
        sheet(tmp_path, content, **options)


def test_a_row_beyond_the_last_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sylvan.data.formats.spreadsheets._MOST_ROWS", 1 << 10)
    with raises(DataError, "a.xlsx", "1,024"):
        sheet(tmp_path, workbook({"A": _HEAD + "<row r='3000'>" + cell("A3000", "far") + "</row>"}))


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sylvan.data.formats.spreadsheets._BOMB", 1 << 20)
    content = workbook({"A": _HEAD + _ROW}, extra={"xl/sharedStrings.xml": bytes(1 << 21)})
    with raises(DataError, "a.xlsx", "'xl/sharedStrings.xml'"):
        sheet(tmp_path, content)


def test_a_huge_cell_is_read(tmp_path: Path) -> None:
    rows = _HEAD + "<row r='2'>" + cell("A2", "whale " * 200_000) + cell("B2", "Sea") + "</row>"
    assert len(sheet(tmp_path, workbook({"A": rows})).texts[0]) == 1_200_000
