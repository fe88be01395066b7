"""Texts in every format: what reads a file, block by block, and what writes one."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat, tee
from typing import Any

from sylvan import data
from sylvan.cli.io.label_files import need_language
from sylvan.data.formats.annif import read_document
from sylvan.data.formats.cells import declared_delimiter
from sylvan.data.formats.subjects import KnownSubjects
from sylvan.data.label_cells import AUTO
from sylvan.data.streams import head_of, open_read, open_write
from sylvan.data.text_rows import Row, collect, encoded, on_one_line, text_lines, unweighted
from sylvan.errors import DataError

TABLES = {"csv": ",", "annif-csv": ",", "tsv": "\t"}  # and what separates their cells by default
FILES = ("text", "annif-folder")  # formats whose texts are files of their own, which have names
_DELIMITERS = (",", ";", "\t", "|")
_OBJECTS = 20  # of JSON lines, looked at
LABELS = ("labels", "label", "subjects", "subject_uris", "weights")  # fields of labels by their usual names
_IDS = {"id", "_id", "uid", "uuid", "doc_id", "document_id", "uri", "url"}  # fields that nobody means as text
_TEXTS = ("string", "large_string", "string_view")
COLUMNS = ("jsonl", "csv", "tsv", "annif-csv", "parquet", "dataset")  # formats whose fields have names
NO_LABELS = ("lines", "text")


def fields_of(
    path: str, format_: str, delimiter: str | None = None, header: bool | None = None, texts: bool = True
) -> list[str]:
    """The names of a file's fields, in its order; none where they have no names, or the file can't be read. With
    ``texts``, only those of text, as far as that is known."""
    if format_ in FILES:
        return [] if texts else ["file"]
    if format_ in TABLES:
        return [] if header is False else _first_row(path, delimiter or TABLES[format_])
    if format_ == "jsonl":
        return _of_objects(path, texts)
    if format_ == "dataset":
        return _of_dataset(path, texts)
    return _of_parquet(path, texts) if format_ == "parquet" and path != "-" else []


def delimiter_of(path: str, format_: str, columns: Sequence[str], header: bool | None) -> str:
    """The separator of a table's cells: what its format usually has, or another mark if only that gives the columns."""
    usual = TABLES[format_]
    numbers = [int(column) for column in columns if column.isdecimal()]
    names = [] if header is False else [column for column in columns if not column.isdecimal()]
    for mark in (usual, *(mark for mark in _DELIMITERS if mark != usual)):
        row = _first_row(path, mark)
        if set(names) <= set(row) and len(row) >= max(numbers, default=1):
            return mark
    return usual


def split_names(names: Iterable[str], fields: Sequence[str]) -> tuple[str, ...]:
    """Names of fields as they were typed, those with commas between being several unless a field is called so."""
    return tuple(
        part for name in names for part in ([name] if name in fields else map(str.strip, name.split(","))) if part
    )


def unread(fields: Sequence[str], texts: Sequence[str], labels: str) -> list[str]:
    """The fields that are neither read as text nor hold labels; none where all are ids, or a field is missing."""
    others = [name for name in fields if name not in texts and name != labels and name not in LABELS]
    return others if set(texts) <= set(fields) and not {name.lower() for name in others} <= _IDS else []


def _first_row(path: str, delimiter: str) -> list[str]:
    text = head_of(path).decode("utf-8", "replace")
    first, _, rest = text.partition("\n")
    if (declared := declared_delimiter(first)) is not None:
        text, delimiter = rest, declared
    with suppress(csv.Error):
        return next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), [])
    return []


def _of_objects(path: str, texts: bool) -> list[str]:
    names: dict[str, None] = {}
    lines = [line for line in head_of(path).split(b"\n") if line.strip()]
    for line in lines[:_OBJECTS]:
        with suppress(ValueError, RecursionError):  # the last may be cut off, and faults are the reader's to say
            record = json.loads(line)
            if isinstance(record, dict):
                found = (name for name, value in record.items() if not texts or isinstance(value, str))
                names.update(dict.fromkeys(found))
    return list(names)


def _of_dataset(path: str, texts: bool) -> list[str]:
    with suppress(OSError, ValueError, AttributeError):
        with open(os.path.join(path, "dataset_info.json"), encoding="utf-8") as file:
            features = json.load(file)["features"]
        return [name for name, feature in features.items() if not texts or feature.get("dtype") in _TEXTS]
    return []


def _of_parquet(path: str, texts: bool) -> list[str]:
    with suppress(Exception):  # what is wrong with it, or that pyarrow is missing, is the reader's to say
        from pyarrow import parquet

        schema = parquet.read_schema(path)
        return [field.name for field in schema if not texts or str(field.type) in _TEXTS]
    return []


@dataclass(frozen=True)
class TextOptions:
    """How a file of texts is laid out, as far as its format leaves it open."""

    text_fields: tuple[str, ...] = ("text",)
    labels_field: str = "labels"
    delimiter: str | None = None
    label_separator: str | None = AUTO
    header: bool | None = None
    quoting: bool | None = None
    guards: bool = False
    output_separator: str | None = None
    items: str | None = None
    vocabulary: str | None = None
    language: str | None = None
    one_line: bool = False
    blanks: str | None = None

    def subjects(self) -> data.SubjectVocabulary | None:
        """The vocabulary, read."""
        if self.vocabulary is None:
            return None
        stamp = os.stat(self.vocabulary) if os.path.exists(self.vocabulary) else None
        changed = None if stamp is None else (stamp.st_mtime_ns, stamp.st_size)
        return _read_subjects(self.vocabulary, self.language, changed)


@functools.lru_cache(maxsize=1)
def _read_subjects(path: str, language: str | None, changed: tuple[int, int] | None) -> data.SubjectVocabulary:
    """Read once for reading labels and for writing their names."""
    return need_language(data.read_subjects(path), language, path, "a label in any of them is found")


def stream_texts(
    path: str, format_: str, options: TextOptions, labels: bool, rows: int,
    records: list[Mapping[str, Any]] | None = None,
) -> Iterator[data.TextData]:  # fmt: skip
    """The rows of a file in any of the formats, some at a time; with ``labels`` or without. Where fields have names,
    all of each row's are appended to ``records``."""
    named: dict[str, Any] = {
        "text_fields": options.text_fields, "labels_field": options.labels_field, "rows": rows,
        "label_separator": options.label_separator,
    }  # fmt: skip
    subjects = options.subjects() if labels else None
    if format_ == "annif-folder":  # whose files of subjects may be of two kinds
        return data.stream_annif_folder(path, vocabulary=subjects, rows=rows, labels=labels, records=records)
    if not labels:
        named["labels_field"] = None
    blocks = _blocks(path, format_, options, labels, named, records)
    return blocks if subjects is None else _with_uris(blocks, KnownSubjects(subjects, path))


def _with_uris(blocks: Iterator[data.TextData], known: KnownSubjects) -> Iterator[data.TextData]:
    """Rows whose labels are those of a vocabulary, by their URIs."""
    for block in blocks:
        rows = []
        for text, labels, weights in block.rows():
            named: dict[str, float] = {}
            for label, weight in zip(labels, weights or repeat(1.0)):  # noqa: B905
                if (uri := known.uri(label)) is not None:
                    named[uri] = named.get(uri, 0.0) + weight
            rows.append((text, list(named), None if weights is None else list(named.values())))
        yield collect(rows)
    known.warn()


def _blocks(
    path: str, format_: str, options: TextOptions, labels: bool, named: dict[str, Any],
    records: list[Mapping[str, Any]] | None,
) -> Iterator[data.TextData]:  # fmt: skip
    rows = named["rows"]
    if format_ == "lines":
        return _lines(path, rows)
    if format_ == "text":
        return _text(path, records)
    if format_ in TABLES:
        return _table(path, format_, options, labels, rows, records)
    if format_ == "pecos":
        return data.stream_pecos(path, items=options.items, rows=rows)
    readers: dict[str, Callable[..., Iterator[data.TextData]]] = {
        "jsonl": data.stream_jsonl, "annif-jsonl": data.stream_jsonl,
        "parquet": data.stream_parquet, "dataset": data.stream_dataset,
    }  # fmt: skip
    if format_ in readers:
        return readers[format_](path, **named, records=records)
    short = {"fasttext": data.stream_fasttext, "annif-tsv": data.stream_annif_tsv}[format_]
    return short(path, rows=rows)


def _table(
    path: str, format_: str, options: TextOptions, labels: bool, rows: int, records: list[Mapping[str, Any]] | None
) -> Iterator[data.TextData]:
    separator = options.label_separator
    annif = format_ == "annif-csv" and separator == AUTO
    texts, field = [_column(name) for name in options.text_fields], _column(options.labels_field)
    # Whether there is a header must not depend on whether labels are wanted this time.
    header = options.header if options.header is not None else any(isinstance(c, str) for c in (*texts, field))
    return data.stream_table(
        path,
        text_columns=texts,
        labels_columns=field if labels else None,
        label_separator=" " if annif else separator,
        delimiter=options.delimiter or TABLES[format_],
        header=header,
        quoting=options.quoting,
        rows=rows,
        records=records,
    )


def _column(name: str) -> str | int:
    return int(name) if name.isdecimal() else name


def _text(path: str, records: list[Mapping[str, Any]] | None) -> Iterator[data.TextData]:
    text = read_document(path)
    if records is not None:
        records.append({"file": os.path.basename(path)})
    yield data.TextData([text], [[]])


def _lines(path: str, rows: int) -> Iterator[data.TextData]:
    with open_read(path) as stream:
        texts: list[str] = []
        for _, line in text_lines(stream):
            texts.append(line)
            if len(texts) == rows:
                yield data.TextData(texts, [[] for _ in texts])
                texts = []
        if texts:
            yield data.TextData(texts, [[] for _ in texts])


def write_texts(
    path: str, format_: str, rows: Iterable[Row], options: TextOptions, labels: bool,
    others: Iterable[Mapping[str, Any]] | None = None,
) -> None:  # fmt: skip
    """Write rows in any of the formats, with ``labels`` or the texts alone, and other fields where it has columns."""
    if format_ == "lines":
        _write_lines(path, rows, options)
        return
    columns = _apart(rows) if labels else ((row[0] for row in rows), None, None)
    if format_ == "pecos":
        data.write_pecos(path, *columns, items=options.items, one_line=options.one_line)
    elif format_ == "fasttext":
        data.write_fasttext(path, *columns, blanks=options.blanks, one_line=options.one_line)
    elif format_ == "annif-tsv":
        data.write_annif_tsv(path, *columns, one_line=options.one_line)
    elif format_ == "annif-folder":
        data.write_annif_folder(path, *columns, vocabulary=options.subjects(), others=others)
    elif format_ in TABLES:
        annif = format_ == "annif-csv"
        data.write_table(
            path,
            *columns,
            labels_column="subject_uris" if annif else "labels",
            label_separator=options.output_separator or (" " if annif else ";"),
            delimiter=options.delimiter or TABLES[format_],
            header=options.header is not False,
            guards=options.guards,
            others=others,
        )
    elif format_ == "annif-jsonl":
        data.write_annif_jsonl(path, *columns)
    else:
        (data.write_jsonl if format_ == "jsonl" else data.write_parquet)(path, *columns, others=others)


def _apart(rows: Iterable[Row]) -> tuple[Iterator[str], Iterator[list[Any]], Iterator[list[float] | None]]:
    """Texts, labels and weights; writers take them together, so that no more than a row lies between them."""
    first, second, third = tee(rows, 3)
    return (row[0] for row in first), (row[1] for row in second), (row[2] for row in third)


def _write_lines(path: str, rows: Iterable[Row], options: TextOptions) -> None:
    with open_write(path) as stream:
        for number, text, labels in unweighted(rows, "plain text"):
            if labels:
                raise DataError(
                    f"Row {number} has labels, and plain text holds none: name another format, or say --texts-only."
                )
            stream.write(encoded(number, on_one_line(number, text, options.one_line, "plain text") + "\n"))
