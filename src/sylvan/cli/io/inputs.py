"""What a command reads: text or a matrix, in whatever format the file is in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sylvan import data
from sylvan.cli.io.formats import FORMATS, TEXT_FORMATS, detect, format_of_name
from sylvan.cli.io.matrices import MatrixInput
from sylvan.cli.io.text_files import (
    COLUMNS,
    FILES,
    LABELS,
    NO_LABELS,
    TABLES,
    TextOptions,
    delimiter_of,
    fields_of,
    split_names,
    stream_texts,
    unread,
)
from sylvan.cli.session import say_once
from sylvan.data.label_cells import AUTO
from sylvan.data.other_fields import OtherFields, RecordSource
from sylvan.data.parts.mapped import is_csr_folder
from sylvan.data.streams import EncodedPath, encoding_of, head_of
from sylvan.data.text_rows import collect
from sylvan.errors import DataError
from sylvan.params.wording import counted, noun

__all__ = ["MatrixInput", "TextInput", "open_input", "remember_base", "with_fields"]

_ROWS = 2048
_MATRIX_OPTIONS = (
    ("--labels", "labels"),
    ("--first-feature", "first_feature"),
    ("--weighted-labels", "weighted_labels"),
)
_TEXT_OPTIONS = (
    ("--text-field", "text_fields"),
    ("--label-separator", "label_separator"),
    ("--delimiter", "delimiter"),
    ("--header", "header"),
    ("--quoting", "quoting"),
    ("--items", "items"),
    ("--encoding", "encoding"),
)
_ENCODED = tuple(name for name in TEXT_FORMATS if name not in ("parquet", "dataset", "annif-folder"))
# Which formats an option is for, by what is said when it is given for another.
_ONLY_FOR = (
    ("--text-field", "text_fields", COLUMNS, "fields with names"),
    ("--labels-field", "labels_field", COLUMNS, "fields with names"),
    ("--label-separator", "label_separator", COLUMNS, "fields with names"),
    ("--delimiter", "delimiter", tuple(TABLES), "tables"),
    ("--header", "header", tuple(TABLES), "tables"),
    ("--quoting", "quoting", tuple(TABLES), "tables"),
    ("--items", "items", ("pecos",), "PECOS's files"),
    ("--encoding", "encoding", _ENCODED, "files of text"),
)


@dataclass(frozen=True)
class TextInput:
    """Texts in a file, and their labels where it holds them."""

    path: str
    format: str
    text_fields: tuple[str, ...] = ("text",)
    labels_field: str = "labels"
    options: TextOptions = field(default_factory=TextOptions)
    quiet: bool = False
    guessed: bool = False  # whether the format is told by the content alone
    labels_found: str | None = None  # the field that is read where "labels" is asked for and isn't there

    is_text = True

    @property
    def name(self) -> str:
        """How messages call the file."""
        return "stdin" if self.path == "-" else self.path

    @property
    def words(self) -> str:
        """What the format is, in words."""
        return FORMATS[self.format]

    def training_blocks(self) -> Iterator[Any]:
        """As :meth:`read`, a few thousand rows at a time."""
        self._need_labels()
        yield from self.stream()

    def read(self) -> tuple[list[str], list[list[Any]]]:
        """All texts and their labels, as pairs of label and relevance where the file weighs them."""
        self._need_labels()
        result = collect(row for block in self.stream() for row in block.rows())
        if not any(result.labels):
            raise DataError(f"{self.name}: no row has a label in the field {self.labels_field!r}.")
        return result.texts, _pairs(result)

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], list[list[Any]] | None]]:
        """Texts, and labels if asked for, a few thousand rows at a time."""
        if with_labels:
            self._need_labels()
        for block in self.stream(with_labels):
            yield block.texts, block.labels if with_labels else None

    def _need_labels(self) -> None:
        if self.format in NO_LABELS:
            raise DataError(f"{self.name} is {self.words} and holds no labels: give JSON lines with a field of labels.")

    def stream(
        self, with_labels: bool = True, records: list[Mapping[str, Any]] | None = None
    ) -> Iterator[data.TextData]:
        """The rows a few thousand at a time; without labels also from a file that holds none. Where fields have names,
        all of each row's are appended to ``records``."""
        options = replace(self.options, text_fields=self.text_fields, labels_field=self.labels_field)
        n_rows = 0
        try:
            for block in stream_texts(self.path, self.format, options, with_labels, _ROWS, records):
                n_rows += len(block.texts)
                yield block
        except DataError as error:
            if not self.guessed:
                raise
            taken = f"{self.name} was taken for {self.words}; --format says otherwise."
            raise DataError(f"{error} {taken}") from error.__cause__
        if not self.quiet:
            say_once(f"Read {counted(n_rows, 'row')} from {self.name}: {self._recognised(with_labels)}.")

    def _recognised(self, with_labels: bool) -> str:
        """The format in words, its encoding where that isn't UTF-8, and the fields that are read."""
        parts = [self.words]
        encoding = encoding_of(self.path)
        if encoding not in (None, "utf-8"):
            parts.append(f"in {encoding}")
        if self.format in COLUMNS:
            fields = [*self.text_fields, *([self.labels_found or self.labels_field] if with_labels else [])]
            what = noun(len(fields), "column" if self.format in (*TABLES, "parquet", "dataset") else "field")
            parts.append(f"{what} {' and '.join([', '.join(fields[:-1]), fields[-1]] if len(fields) > 1 else fields)}")
        return ", ".join(parts)

    def records(self) -> Iterator[tuple[list[str], list[Mapping[str, Any]]]]:
        """Texts, and all fields of their rows, a few thousand rows at a time; for a format whose fields have names."""
        taken: list[Mapping[str, Any]] = []
        for block in self.stream(with_labels=False, records=taken):
            yield block.texts, taken[:]
            taken.clear()

    def other_fields(self, output: Sequence[str], names: Sequence[str] = ()) -> OtherFields | None:
        """Which fields of its rows an output has, whose own columns are ``output``; None where fields have no names. By
        default those that are neither text nor labels; ``names`` says others, "none" that there are none."""
        if self.format not in (*COLUMNS, *FILES):
            if names and tuple(names) != ("none",):
                raise DataError(f"--output-fields is for fields with names, but {self.name} is {self.words}.")
            return None
        if names:
            own = [name for name in names if name in output]
            if own:
                raise DataError(f"--output-fields can't name {own[0]!r}: the output has a column of that name.")
            return OtherFields(() if tuple(names) == ("none",) else tuple(names))
        read = (*self.text_fields, self.labels_field, *(LABELS if self.labels_field == "labels" else ()), "weights")
        there = fields_of(self.path, self.format, self.options.delimiter, self.options.header, texts=False)
        lost = [name for name in there if name in output and name not in read]
        if lost:
            say_once(f"{self.name}: {', '.join(lost)} is left out, as the output has a column of that name.")
        return OtherFields(None, (*read, *output))


def _pairs(result: data.TextData) -> list[list[Any]]:
    if result.weights is None:
        return result.labels
    return [list(zip(row, weights, strict=True)) for row, weights in zip(result.labels, result.weights, strict=True)]


def open_input(
    path: str, given: Mapping[str, Any], model: object = None, part: str = "tst", says_unread: bool = True
) -> TextInput | MatrixInput:
    """The input that the options of a command describe."""
    labels = given["labels"]
    if given.get("encoding") is not None:
        path = EncodedPath(path, given["encoding"])
    pair = [os.path.join(path, f"{letter}.{part}.npz") for letter in "XY"]
    if all(map(os.path.isfile, pair)):
        path, labels = pair[0], labels or pair[1]
    format_ = "csr" if is_csr_folder(path) else detect(path, given["format_"])
    if format_ in TEXT_FORMATS:
        for option, name in _MATRIX_OPTIONS:
            if given[name] is not None:
                raise DataError(f"{option} is for matrices, but {path} is {FORMATS[format_]}.")
        return _text_input(path, format_, given, model, says_unread)
    for option, name in _TEXT_OPTIONS:
        if given.get(name) not in (None, ()):
            raise DataError(f"{option} is for text, but {path} is {FORMATS[format_]}.")
    first, of_model = given["first_feature"], None
    if format_ == "svmlight" and first is None:
        of_model = getattr(model, "first_feature_", None)
    return MatrixInput(
        path, format_, labels, of_model if first is None else int(first), given["threads"],
        bool(given["weighted_labels"]), bool(given.get("quiet")), of_model is not None,
    )  # fmt: skip


def remember_base(model: Any, source: TextInput | MatrixInput, test: TextInput | MatrixInput | None = None) -> None:
    """Let a model, and the file that it is tested on, count features as the svmlight file that it learned from."""
    if isinstance(source, MatrixInput) and source.format == "svmlight":
        model.first_feature_ = source.first_feature
        if isinstance(test, MatrixInput) and test.format == "svmlight" and test.first_feature is None:
            test.first_feature, test.as_trained = source.first_feature, True


def with_fields(
    source: TextInput | MatrixInput, columns: Sequence[str], output: str, given: Mapping[str, Any]
) -> TextInput | MatrixInput | RecordSource:
    """The source of a ranking, with the rows' other fields where the output, of its own ``columns``, can have them."""
    names = given["output_fields"]
    if output.lower().endswith(".npz") or isinstance(source, MatrixInput):
        if names and names != ("none",):
            raise DataError("--output-fields is for texts whose ranking is written as JSONL, a table or Parquet.")
        return source
    fields = source.other_fields(columns, names)
    return source if fields is None else RecordSource(source, fields)


def _text_input(path: str, format_: str, given: Mapping[str, Any], model: object, says_unread: bool) -> TextInput:
    for option, name, formats, words in _ONLY_FOR:
        if given.get(name) not in (None, ()) and format_ not in formats:
            raise DataError(f"{option} is for {words}, but {path} is {FORMATS[format_]}.")
    known = tuple(getattr(model, "text_fields_", ("text",))), str(getattr(model, "labels_field_", "labels"))
    delimiter, header = given.get("delimiter"), given["header"]
    asked = tuple(given["text_fields"]) or known[0]
    found = delimiter is None and format_ in TABLES
    if found:
        columns = split_names(asked, ())
        wanted = [columns] if given["labels_field"] is None else [(*columns, given["labels_field"]), columns]
        marks = [delimiter_of(path, format_, names, header) for names in wanted]
        delimiter = next((mark for mark in marks if mark != TABLES[format_]), TABLES[format_])
    fields = fields_of(path, format_, delimiter, header)
    texts, labels = split_names(given["text_fields"], fields) or known[0], given["labels_field"] or known[1]
    options = TextOptions(
        delimiter=delimiter, label_separator=_separator(given["label_separator"]), header=header, items=given["items"],
        vocabulary=given.get("subjects"), language=given.get("language"), quoting=given.get("quoting"),
    )  # fmt: skip
    guessed = given["format_"] is None and format_of_name(path) is None
    there = fields_of(path, format_, delimiter, header, texts=False) if labels == "labels" else []
    found_labels = next((name for name in LABELS if name in there), None)
    result = TextInput(path, format_, texts, labels, options, bool(given.get("quiet")), guessed, found_labels)
    if not given.get("quiet"):
        if format_ == "text" and given["format_"] is None:
            _say_one_text(result)
        if found and delimiter != TABLES[format_]:
            say_once(f"{result.name}: its cells are separated by {delimiter!r}, as the first row shows.")
        _say_what_is_read(result, unread(fields, texts, labels) if says_unread else [])
    return result


def _separator(typed: str | None) -> str | None:
    """What ``--label-separator`` says to the readers: "none" is one label a cell, and nothing is what they find."""
    return AUTO if typed is None else None if typed == "none" else typed


def _say_one_text(source: TextInput) -> None:
    """A sentence on stderr where a file of several lines is one text."""
    if b"\n" in head_of(source.path).strip():
        say_once(f"{source.name}: all lines are read as one text (--format lines reads a text a line).")


def _say_what_is_read(source: TextInput, others: Sequence[str]) -> None:
    """A sentence on stderr where a file has further fields of text."""
    if others:
        say_once(
            f"{source.name}: the text is read from {' and '.join(source.text_fields)}; not from {', '.join(others)} "
            "(--text-field A,B joins several).",
            (source.text_fields, tuple(others)),
        )
