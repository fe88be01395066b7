"""Which format a file is in, by its name and by its first bytes."""

from __future__ import annotations

import os
import re
from itertools import pairwise

from sylvan.data.parts.part_folders import is_parts_folder
from sylvan.data.streams import head_of, unpacked_name
from sylvan.errors import DataError

_SPREADSHEET = "save it as .xlsx, without a password, in the program that made it, and give that"
_UNPACK = "unpack it, and give the file within"
_TEXTS = "take its text out, into JSON lines with text and labels, say"
_PICKLE = "a pickle, which could run anything", "write what it holds as .npz or JSON lines"
_AS_PARQUET = "write it as Parquet, CSV or JSON lines"
# What a file begins with, what it is then, and what to do.
_BEGINNINGS: tuple[tuple[bytes, str, str], ...] = (
    (b"%PDF", "a PDF", _TEXTS),
    (b"{\\rtf", "a document in RTF", _TEXTS),
    (b"\xd0\xcf\x11\xe0", "a file of an older Microsoft Office, such as .xls, or one with a password", _SPREADSHEET),
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
    (b"\x80\x04\x95", *_PICKLE),
    (b"\x80\x05\x95", *_PICKLE),
    (b"\x89PNG", "an image", "give texts or a matrix"),
    (b"\xff\xd8\xff", "an image", "give texts or a matrix"),
)  # fmt: skip
# Of archives of the kind .zip, by a word among the first bytes.
_ZIPS: tuple[tuple[bytes, str, str], ...] = (
    (b"opendocument.spreadsheet", "a spreadsheet (.ods)", _SPREADSHEET),
    (b"opendocument.text", "a document (.odt)", _TEXTS),
    (b"word/", "a document (.docx)", _TEXTS),
    (b"epub", "an EPUB", _TEXTS),
)  # fmt: skip
_RECORDS = "turn its records into JSON lines or CSV with text and labels"
_MARCXML = re.compile(
    rb"<[\w:]*(?:collection|record|leader)[\s>].*?(?:MARC21/slim|<[\w:]*(?:leader|datafield|controlfield))|MARC21/slim",
    re.S,
)
_MARKUP: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"<!doctype\s+html|<html[\s>]", re.I), "a page in HTML", _TEXTS),
    (re.compile(rb"<rdf:RDF", re.I), "RDF in XML",
     "a vocabulary goes with --vocabulary or --label-texts; texts are given as JSON lines or CSV"),
    (re.compile(rb"\A<\?xml"), "XML", _RECORDS),
)  # fmt: skip
_ONE_MATRIX = (
    "one matrix in text with a header of two numbers, its rows and columns, as the XMC repository's trn_X_Y.txt has "
    "labels without features",
    "give the file of both, whose header has three numbers, or write features and labels as .npz and name the labels "
    "with --labels",
)
_MARC = re.compile(rb"\d{5}[a-z].{3}[ a].{10}4500.*\x1e", re.S)  # a leader and the end of a directory
_TWO_NUMBERS = re.compile(rb"\s*\d+[ \t,]+\d+\s*$")
_PAIRS = re.compile(rb"\s*(?:\d+:[-+\d.eE]+\s*)*$")
FORMATS = {
    "jsonl": "JSON lines of text",
    "lines": "one text a line",
    "text": "one text",
    "csv": "a table in CSV",
    "tsv": "a table in TSV",
    "fasttext": "fastText's lines",
    "pecos": "PECOS's lines of label ids and text",
    "annif-tsv": "Annif's TSV of texts and URIs",
    "annif-csv": "Annif's CSV",
    "annif-jsonl": "Annif's JSON lines",
    "annif-folder": "a folder of Annif's texts",
    "xlsx": "a spreadsheet (.xlsx)",
    "marcxml": "records in MARCXML",
    "parquet": "a Parquet file",
    "dataset": "a saved dataset",
    "xmc": "a matrix in the XMC repository's text format",
    "svmlight": "a matrix in svmlight format",
    "npz": "a CSR matrix in an .npz",
    "csr": "a CSR matrix in a folder of .npy files",
    "parts": "a folder of parts of a CSR matrix",
    "npy": "a dense matrix in an .npy",
}
MATRIX_FORMATS = ("xmc", "svmlight", "npz", "npy", "csr", "parts")
TEXT_FORMATS = tuple(name for name in FORMATS if name not in MATRIX_FORMATS)
_EXTENSIONS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv",
    ".xlsx": "xlsx", ".xlsm": "xlsx", ".ft": "fasttext", ".fasttext": "fasttext", ".parquet": "parquet",
    ".pq": "parquet", ".xmc": "xmc", ".lines": "lines", ".svm": "svmlight", ".svmlight": "svmlight",
    ".libsvm": "svmlight", ".npz": "npz", ".npy": "npy",
}  # fmt: skip
# What a file begins with, whatever its name says; of PK also what tells a spreadsheet.
_OURS = {b"PK": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet"}
_SHEETS = b"xl/"
_FOLDERS = ("annif-folder", "dataset", "parts")
_HEAD = 1 << 16
_HEADER = re.compile(rb"\s*\d+[ \t]+\d+[ \t]+\d+\s*$")
# A line of a sparse matrix: perhaps labels, then nothing but feature:value pairs.
_SPARSE = re.compile(rb"\s*(?:[\d,:.eE+-]+\s)?\s*\d+:[-+\d.eE]+(?:\s+\d+:[-+\d.eE]+)*\s*(?:#.*)?$")
_PECOS = re.compile(rb"(?:\d+(?:::[-+\d.eE]+)?(?:,\d+(?:::[-+\d.eE]+)?)*)?\t[^\t]*$")
_ARRAY = re.compile(rb"\s*\[\s*\{")
_ANNIF = re.compile(rb"[^\t]*\t\s*(?:<[^<>\s]+>\s*)*$")


def _foreign(head: bytes, format_: str | None) -> tuple[str, str] | None:
    """What a file is that is none of Sylvan's formats, and what to do; None for any other."""
    if entry := next((entry for entry in _BEGINNINGS if head.startswith(entry[0])), None):
        return entry[1:]
    if head.startswith(b"PK\x03\x04"):
        if b".npy" in head[:200] or format_ in ("npz", "xlsx") or _SHEETS in head:
            return None
        return next(((kind, way_out) for word, kind, way_out in _ZIPS if word in head), ("a zip archive", _UNPACK))
    if head[257:262] == b"ustar":
        return "a tar archive", _UNPACK
    if head.startswith((b"\x93NUMPY", b"PAR1")):
        return None
    start = head.lstrip()[:4096] if format_ not in ("lines", "text") else b""
    is_foreign = start.startswith(b"<") and format_ != "marcxml" and not _is_marcxml(start)
    for pattern, kind, way_out in _MARKUP if is_foreign else ():
        if pattern.search(start):
            return kind, way_out
    if _MARC.match(head):
        return "records in MARC 21 (ISO 2709)", "turn them into MARCXML: yaz-marcdump -o marcxml a.mrc > a.xml"
    if b"\x00" in head:
        # Every second byte of plain words in UTF-16 is 0.
        for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            zeros = head[first:400:2]
            if zeros.count(0) > 0.8 * len(zeros) and head[1 - first : 400 : 2].count(0) == 0:
                return "text in UTF-16 without a byte order mark", f"say --encoding {encoding}, or save it as UTF-8"
        if 10 * head.count(0) > len(head) or b"\xef\xbf\xbd" in head.decode("utf-8", "replace").encode():
            return "a binary file", "give text, a matrix (.npz, .npy) or Parquet"
    lines = head.split(b"\n")[:20]
    headed = format_ is None and len(lines) > 2 and _TWO_NUMBERS.match(lines[0]) and b":" in head
    return _ONE_MATRIX if headed and all(map(_PAIRS.match, lines[1:-1])) else None


def format_of_name(path: str) -> str | None:
    """The format that a file's name tells, packed or not; None when it tells none."""
    return _EXTENSIONS.get(os.path.splitext(unpacked_name(path))[1])


def detect(path: str, declared: str | None) -> str:
    """The format of ``path`` ("-" for stdin): the one that is given, else by its name, else by its content."""
    if os.path.isdir(path) and declared in (None, *_FOLDERS):
        return declared or _folder(path)
    head = head_of(path)
    name = "stdin" if path == "-" else path
    if not head.strip() and declared not in ("lines", "text"):
        raise DataError(f"{name}: the input is empty.")
    if (foreign := _foreign(head, declared)) is not None:
        raise DataError(f"{name} is {foreign[0]}, which isn't read: {foreign[1]}.")
    result = declared or _ours(head) or _named(path, head) or _sniff(head, "lines" if path == "-" else "text")
    if result == "pecos" and declared is None:
        _doubt_pecos(name, head)
    begins = {"npz": b"PK", "npy": b"\x93NUMPY"}.get(result)
    if begins and path == "-":
        raise DataError(f"stdin carries text formats only, not {result}: give the path of a file.")
    if begins and not head.startswith(begins):
        raise DataError(f"{path}: this is no .{result} file.")
    return result


def _ours(head: bytes) -> str | None:
    """The format that a file's beginning tells for certain."""
    if head.startswith(b"PK") and _SHEETS in head and b".npy" not in head[:200]:
        return "xlsx"
    if _is_marcxml(head):
        return "marcxml"
    return next((format_ for beginning, format_ in _OURS.items() if head.startswith(beginning)), None)


def _is_marcxml(head: bytes) -> bool:
    start = head.lstrip()[:4096]
    return start.startswith(b"<") and _MARCXML.search(start) is not None


def _folder(path: str) -> str:
    """The format of a folder."""
    files = set(os.listdir(path))
    suffixes = {os.path.splitext(file)[1].lower() for file in files}
    if "dataset_dict.json" in files:
        parts = ", ".join(sorted(file for file in files if os.path.isdir(os.path.join(path, file))))
        raise DataError(f"{path} holds several datasets: give the path of one of {parts}.")
    if {"dataset_info.json", "state.json"} <= files:
        return "dataset"
    if is_parts_folder(path):
        return "parts"
    if ".txt" in suffixes and not files & {"manifest.json", "X.trn.npz", "indptr.npy"}:
        return "annif-folder"
    raise DataError(
        f"{path!r} is a folder, not a file, and holds neither X.trn.npz and Y.trn.npz nor parts nor a saved dataset "
        "nor texts, name.txt, perhaps with their subjects, name.tsv or name.key."
    )


def _named(path: str, head: bytes) -> str | None:
    """The format that the name tells, or the kind of it that the content tells."""
    result = format_of_name(path)
    if result == "csv" and b"subject_uris" in head.partition(b"\n")[0]:
        return "annif-csv"
    if result == "tsv":
        lines = _whole_lines(head)
        return "annif-tsv" if _with_uris(lines) else "pecos" if _all(_PECOS, lines) else "tsv"
    return result


def _whole_lines(head: bytes) -> list[bytes]:
    """The first lines that aren't empty; the last may be cut off, and is dropped then."""
    lines = [line for line in head.split(b"\n") if line.strip(b" \r")]
    return lines[:20] if len(lines) > 20 or len(head) < _HEAD else lines[:-1] or lines


def _with_uris(lines: list[bytes]) -> bool:
    """Whether lines are texts and URIs; some texts may have none."""
    return _all(_ANNIF, lines) and any(line.rstrip().endswith(b">") for line in lines)


def _all(form: re.Pattern[bytes], lines: list[bytes]) -> bool:
    return bool(lines) and all(form.match(line) for line in lines)


def has_header(path: str) -> bool:
    """Whether the first line of a sparse matrix in text is three bare numbers: its rows, features and labels."""
    return bool(_HEADER.match(head_of(path).partition(b"\n")[0]))


def _doubt_pecos(name: str, head: bytes) -> None:
    """Refuse lines of one number, a tab and text where the numbers rise from line to line, as ids of rows do."""
    numbers = [line.partition(b"\t")[0] for line in _whole_lines(head)]
    if len(numbers) < 4 or not all(map(bytes.isdigit, numbers)):
        return
    steps = {int(second) - int(first) for first, second in pairwise(numbers)}
    if steps == {1} or (len(numbers) > 7 and min(steps) > 0):
        raise DataError(
            f"{name}: its lines look like ids and texts, as their numbers rise from line to line: say --format pecos "
            "if they are ids of labels, or --format tsv --text-field 2 for the texts."
        )


def _sniff(head: bytes, plain: str) -> str:
    """The format that the content tells; ``plain`` where it tells none."""
    if head.lstrip().startswith(b"{") or _ARRAY.match(head):
        return "jsonl"
    lines = [line for line in head.split(b"\n") if line.strip()]
    if len(head) >= _HEAD and lines:  # the last line, or pair of the only one, may be cut off
        lines = lines[:-1] or [lines[0].rpartition(b" ")[0]]
    if _HEADER.match(head.partition(b"\n")[0]) or all(_SPARSE.match(line) for line in lines[:20]):
        return "xmc"
    full_lines = _whole_lines(head)
    if any(line.lstrip().startswith(b"__label__") for line in full_lines):
        return "fasttext"
    if _all(_PECOS, full_lines) or _with_uris(full_lines):
        return "pecos" if _all(_PECOS, full_lines) else "annif-tsv"
    n_tabs = {line.count(b"\t") for line in full_lines}
    return "tsv" if len(full_lines) > 1 and len(n_tabs) == 1 and 0 not in n_tabs else plain
