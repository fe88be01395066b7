"""What a command reads: text or a matrix, in whatever format the file is in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sylvan import data
from sylvan.cli.io.formats import FORMATS, TEXT_FORMATS, detect
from sylvan.cli.io.matrices import MatrixInput
from sylvan.cli.io.text_files import COLUMNS, NO_LABELS, TextOptions, stream_texts
from sylvan.data.mapped import is_csr_folder
from sylvan.data.text_rows import collect
from sylvan.errors import DataError

__all__ = ["MatrixInput", "TextInput", "open_input"]

_ROWS = 2048
_MATRIX_OPTIONS = (
    ("--labels", "labels"),
    ("--first-feature", "first_feature"),
    ("--weighted-labels", "weighted_labels"),
)
_TEXT_OPTIONS = (
    ("--text-field", "text_fields"),
    ("--label-separator", "label_separator"),
    ("--header", "header"),
    ("--items", "items"),
)
# Which formats an option is for, by what is said when it is given for another.
_ONLY_FOR = (
    ("--text-field", "text_fields", COLUMNS, "fields with names"),
    ("--labels-field", "labels_field", COLUMNS, "fields with names"),
    ("--label-separator", "label_separator", ("csv", "tsv", "annif-csv"), "tables"),
    ("--header", "header", ("csv", "tsv", "annif-csv"), "tables"),
    ("--items", "items", ("pecos",), "PECOS's files"),
)


@dataclass(frozen=True)
class TextInput:
    """Texts in a file, and their labels where it holds them."""

    path: str
    format: str
    text_fields: tuple[str, ...] = ("text",)
    labels_field: str = "labels"
    options: TextOptions = field(default_factory=TextOptions)

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
        """All texts and their labels, as pairs of label and relevance where the file weighs them.

        Raises
        ------
        DataError
            When the file is at fault or holds no labels.
        """
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

    def stream(self, with_labels: bool = True) -> Iterator[data.TextData]:
        """The rows a few thousand at a time; without labels also from a file that holds none."""
        options = replace(self.options, text_fields=self.text_fields, labels_field=self.labels_field)
        return stream_texts(self.path, self.format, options, with_labels, _ROWS)


def _pairs(result: data.TextData) -> list[list[Any]]:
    if result.weights is None:
        return result.labels
    return [list(zip(row, weights, strict=True)) for row, weights in zip(result.labels, result.weights, strict=True)]


def open_input(path: str, given: Mapping[str, Any], model: object = None, part: str = "tst") -> TextInput | MatrixInput:
    """The input that the options of a command describe.

    Parameters
    ----------
    path : str
        A file, "-" for stdin, a folder that holds ``X.trn.npz`` and ``Y.trn.npz`` as PECOS lays them out, or the
        folder of a matrix that is to be mapped.
    given : mapping
        The values of ``input_options`` and ``--threads``.
    model : object
        The model that the input is for: what is not given of the fields is as in its training.
    part : str
        Which part of such a folder is meant: "trn" or "tst".

    Raises
    ------
    DataError
        When the file cannot be read, is empty or in no known format, or an option does not go with it.
    """
    labels = given["labels"]
    pair = [os.path.join(path, f"{letter}.{part}.npz") for letter in "XY"]
    if all(map(os.path.isfile, pair)):
        path, labels = pair[0], labels or pair[1]
    format_ = "csr" if is_csr_folder(path) else detect(path, given["format_"])
    if format_ in TEXT_FORMATS:
        for option, name in _MATRIX_OPTIONS:
            if given[name] is not None:
                raise DataError(f"{option} is for matrices, but {path} is {FORMATS[format_]}.")
        return _text_input(path, format_, given, model)
    for option, name in _TEXT_OPTIONS:
        if given[name] not in (None, ()):
            raise DataError(f"{option} is for text, but {path} is {FORMATS[format_]}.")
    first = given["first_feature"]
    return MatrixInput(
        path, format_, labels, None if first is None else int(first), given["threads"], bool(given["weighted_labels"])
    )


def _text_input(path: str, format_: str, given: Mapping[str, Any], model: object) -> TextInput:
    for option, name, formats, words in _ONLY_FOR:
        if given[name] not in (None, ()) and format_ not in formats:
            raise DataError(f"{option} is for {words}, but {path} is {FORMATS[format_]}.")
    known = getattr(model, "text_fields_", ("text",)), getattr(model, "labels_field_", "labels")
    options = TextOptions(
        label_separator=given["label_separator"], header=given["header"], items=given["items"],
        vocabulary=given.get("vocabulary"),
    )  # fmt: skip
    return TextInput(
        path, format_, tuple(given["text_fields"]) or tuple(known[0]), given["labels_field"] or known[1], options
    )
