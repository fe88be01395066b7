"""Files of kinds that aren't read: recognised by their first bytes, and refused by name with the way out."""

from __future__ import annotations

import re

from sylvan.errors import DataError

_SPREADSHEET = "save the sheet as CSV (UTF-8) in the program that made it, and give that"
_UNPACK = "unpack it, and give the file within"
_TEXTS = "take its text out, into JSON lines with text and labels, say"
_AS_PARQUET = "write it as Parquet, CSV or JSON lines"
# What a file begins with, what it is then, and what to do.
_BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (b"%PDF", "a PDF", _TEXTS),
    (b"{\\rtf", "a document in RTF", _TEXTS),
    (b"\xd0\xcf\x11\xe0", "a file of an older Microsoft Office, such as .xls or .doc", _SPREADSHEET),
    (b"7z\xbc\xaf", "a 7z archive", _UNPACK),
    (b"Rar!", "a RAR archive", _UNPACK),
    (b"\x04\x22\x4d\x18", "packed by LZ4", _UNPACK),
    (b"\x1f\x9d", "packed by compress (.Z)", _UNPACK),
    (b"ARROW1", "an Arrow (Feather) file", _AS_PARQUET),
    (b"ORC", "an ORC file", _AS_PARQUET),
    (b"Obj\x01", "an Avro file", _AS_PARQUET),
    (b"SQLite format 3\x00", "an SQLite database", "write the table's rows as CSV or JSON lines"),
    (b"\x89HDF", "an HDF5 file", "write its arrays as .npz or .npy"),
    (b"MATLAB 5.0", "a MATLAB file", "write its arrays as .npz or .npy"),
    (b"\x80\x04\x95", "a pickle, which could run anything", "write what it holds as .npz or JSON lines"),
    (b"\x80\x05\x95", "a pickle, which could run anything", "write what it holds as .npz or JSON lines"),
    (b"\x89PNG", "an image", "give texts or a matrix"),
    (b"\xff\xd8\xff", "an image", "give texts or a matrix"),
)  # fmt: skip
# Of archives of the kind .zip, by a word among the first bytes.
_ZIPS: tuple[tuple[bytes, str, str], ...] = (
    (b"opendocument.spreadsheet", "a spreadsheet (.ods)", _SPREADSHEET),
    (b"opendocument.text", "a document (.odt)", _TEXTS),
    (b"xl/", "a spreadsheet (.xlsx)", _SPREADSHEET),
    (b"word/", "a document (.docx)", _TEXTS),
    (b"epub", "an EPUB", _TEXTS),
)  # fmt: skip
_RECORDS = "turn its records into JSON lines or CSV with text and labels"
_MARKUP: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"<!doctype\s+html|<html[\s>]", re.I), "a page in HTML", _TEXTS),
    (re.compile(rb"<[\w:]*(?:collection|record|leader)[\s>].*?(?:MARC21/slim|<[\w:]*(?:leader|datafield|controlfield))|"
                rb"MARC21/slim", re.S), "records in MARCXML", _RECORDS),
    (re.compile(rb"<rdf:RDF", re.I), "RDF in XML",
     "a vocabulary goes with --vocabulary or --label-texts; texts are given as JSON lines or CSV"),
    (re.compile(rb"<\?xml"), "XML", _RECORDS),
)  # fmt: skip
_MARC = re.compile(rb"\d{5}[a-z].{3}[ a].{10}4500.*\x1e", re.S)  # a leader and the end of a directory
_TWO_NUMBERS = re.compile(rb"\s*\d+[ \t,]+\d+\s*$")
_PAIRS = re.compile(rb"\s*(?:\d+:[-+\d.eE]+\s*)*$")


def refuse_foreign(name: str, head: bytes, format_: str | None) -> None:
    """Refuse a file that is none of Sylvan's formats, by what it is."""
    found = _kind(name, head, format_)
    if found is not None:
        what, way_out = found
        raise DataError(f"{name} is {what}, which isn't read: {way_out}.")


def _kind(name: str, head: bytes, format_: str | None) -> tuple[str, str] | None:
    for beginning, what, way_out in _BEGINNINGS:
        if head.startswith(beginning):
            return what, way_out
    if head.startswith(b"PK\x03\x04"):
        if b".npy" in head[:200] or format_ == "npz":
            return None
        zips = (rest for word, *rest in _ZIPS if word in head)
        what, way_out = next(zips, ("a zip archive", _UNPACK))
        return str(what), str(way_out)
    if head[257:262] == b"ustar":
        return "a tar archive", _UNPACK
    if head.startswith((b"\x93NUMPY", b"PAR1")):
        return None
    start = head.lstrip()[:4096]
    if start.startswith(b"<") and format_ not in ("lines", "text"):
        for pattern, what, way_out in _MARKUP:
            found = pattern.search(start) if pattern.pattern != rb"<\?xml" else pattern.match(start)
            if found:
                return what, way_out
    if _MARC.match(head):
        return "records in MARC 21 (ISO 2709)", _RECORDS
    if b"\x00" in head:
        # Every second byte of plain words in UTF-16 is 0.
        for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            zeros = head[first:400:2]
            if zeros.count(0) > 0.8 * len(zeros) and head[1 - first : 400 : 2].count(0) == 0:
                return "text in UTF-16 without a byte order mark", f"say --encoding {encoding}, or save it as UTF-8"
        if 10 * head.count(0) > len(head) or b"\xef\xbf\xbd" in head.decode("utf-8", "replace").encode():
            return "a binary file", "give text, a matrix (.npz, .npy) or Parquet"
    return _two_numbers(head) if format_ is None else None


def _two_numbers(head: bytes) -> tuple[str, str] | None:
    """One matrix in text, with the header of two numbers that the XMC repository's ``trn_X_Y.txt`` has."""
    lines = head.split(b"\n")[:20]
    if len(lines) > 2 and _TWO_NUMBERS.match(lines[0]) and all(map(_PAIRS.match, lines[1:-1])) and b":" in head:
        return (
            "one matrix in text with a header of two numbers, its rows and columns, as the XMC repository's "
            "trn_X_Y.txt has labels without features",
            "give the file of both, whose header has three numbers, or write features and labels as .npz and name "
            "the labels with --labels",
        )
    return None
