"""Which format a file is in, by its name and by its first bytes."""

from __future__ import annotations

import os
import re
from itertools import pairwise

from sylvan.cli.io.foreign import refuse_foreign
from sylvan.data.parts.part_folders import is_parts_folder
from sylvan.data.streams import head_of, unpacked_name
from sylvan.errors import DataError

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
    ".ft": "fasttext", ".fasttext": "fasttext", ".parquet": "parquet", ".pq": "parquet", ".xmc": "xmc",
    ".lines": "lines", ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".npz": "npz", ".npy": "npy",
}  # fmt: skip
_FOLDERS = ("annif-folder", "dataset", "parts")
_HEAD = 1 << 16
_HEADER = re.compile(rb"\s*\d+[ \t]+\d+[ \t]+\d+\s*$")
# A line of a sparse matrix: perhaps labels, then nothing but feature:value pairs.
_SPARSE = re.compile(rb"\s*(?:[\d,:.eE+-]+\s)?\s*\d+:[-+\d.eE]+(?:\s+\d+:[-+\d.eE]+)*\s*(?:#.*)?$")
_PECOS = re.compile(rb"(?:\d+(?:::[-+\d.eE]+)?(?:,\d+(?:::[-+\d.eE]+)?)*)?\t[^\t]*$")
_ARRAY = re.compile(rb"\s*\[\s*\{")
_ANNIF = re.compile(rb"[^\t]*\t\s*(?:<[^<>\s]+>\s*)*$")


def format_of_name(path: str) -> str | None:
    """The format that a file's name tells, packed or not; None when it tells none."""
    return _EXTENSIONS.get(os.path.splitext(unpacked_name(path))[1])


def detect(path: str, given: str | None) -> str:
    """The format of ``path`` ("-" for stdin): the one that is given, else by its name, else by its content."""
    if os.path.isdir(path) and given in (None, *_FOLDERS):
        return given or _folder(path)
    head = head_of(path)
    name = "stdin" if path == "-" else path
    if not head.strip() and given not in ("lines", "text"):
        raise DataError(f"{name}: the input is empty.")
    refuse_foreign(name, head, given)
    result = given or _of_bytes(head) or _named(path, head) or _sniff(head, "lines" if path == "-" else "text")
    if result == "pecos" and given is None:
        _doubt_pecos(name, head)
    if result in ("npz", "npy") and path == "-":
        raise DataError(f"stdin carries text formats only, not {result}: give the path of a file.")
    if result in ("npz", "npy") and not head.startswith(b"PK" if result == "npz" else b"\x93NUMPY"):
        raise DataError(f"{path}: this is no .{result} file.")
    return result


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
    if result == "csv" and b"subject_uris" in _first_line(head):
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
    return bool(_HEADER.match(_first_line(head_of(path))))


def _first_line(head: bytes) -> bytes:
    return head.split(b"\n", 1)[0]


def _of_bytes(head: bytes) -> str | None:
    """The format of a file that its first bytes tell whatever its name says."""
    beginnings = ((b"PK", "npz"), (b"\x93NUMPY", "npy"), (b"PAR1", "parquet"))
    return next((format_ for beginning, format_ in beginnings if head.startswith(beginning)), None)


def _doubt_pecos(name: str, head: bytes) -> None:
    """Refuse lines of one number, a tab and text where the numbers rise from line to line, as ids of rows do."""
    numbers = [line.split(b"\t", 1)[0] for line in _whole_lines(head)]
    values = [int(number) for number in numbers if number.isdigit()]
    steps = [second - first for first, second in pairwise(values)]
    if len(values) < len(numbers) or len(steps) < 3:
        return
    if set(steps) == {1} or (len(steps) > 6 and min(steps) > 0):
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
    if _HEADER.match(_first_line(head)) or all(_SPARSE.match(line) for line in lines[:20]):
        return "xmc"
    whole = _whole_lines(head)
    if any(line.lstrip().startswith(b"__label__") for line in whole):
        return "fasttext"
    if _all(_PECOS, whole) or _with_uris(whole):
        return "pecos" if _all(_PECOS, whole) else "annif-tsv"
    n_tabs = {line.count(b"\t") for line in whole}
    return "tsv" if len(whole) > 1 and len(n_tabs) == 1 and 0 not in n_tabs else plain
