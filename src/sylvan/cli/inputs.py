"""What a command reads: text or a matrix, in whatever format the file is in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sylvan import data
from sylvan.cli.formats import FORMATS, TEXT_FORMATS, detect
from sylvan.cli.matrices import MatrixInput
from sylvan.data.streams import open_read
from sylvan.errors import DataError

__all__ = ["MatrixInput", "TextInput", "open_input"]

_ROWS = 2048
_MATRIX_OPTIONS = (
    ("--labels", "labels"),
    ("--first-feature", "first_feature"),
    ("--weighted-labels", "weighted_labels"),
)


@dataclass(frozen=True)
class TextInput:
    """Texts in a file, and their labels where it holds them."""

    path: str
    format: str
    text_fields: tuple[str, ...] = ("text",)
    labels_field: str = "labels"

    is_text = True

    @property
    def name(self) -> str:
        """How messages call the file."""
        return "stdin" if self.path == "-" else self.path

    @property
    def words(self) -> str:
        """What the format is, in words."""
        return FORMATS[self.format]

    def read(self) -> tuple[list[str], list[list[Any]]]:
        """All texts and their labels, as pairs of label and relevance where the file weighs them.

        Raises
        ------
        DataError
            When the file is at fault or holds no labels.
        """
        if self.format == "lines":
            raise DataError(f"{self.name} is {self.words} and holds no labels: give JSON lines with a field of labels.")
        found = data.read_jsonl(self.path, text_fields=self.text_fields, labels_field=self.labels_field)
        if not any(found.labels):
            raise DataError(f"{self.name}: no row has a label in the field {self.labels_field!r}.")
        return found.texts, _pairs(found)

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], list[list[Any]] | None]]:
        """Texts, and labels if asked for, a few thousand rows at a time."""
        if self.format == "lines":
            if with_labels:
                self.read()
            yield from self._lines()
            return
        labels_field = self.labels_field if with_labels else None
        for block in data.stream_jsonl(self.path, text_fields=self.text_fields, labels_field=labels_field, rows=_ROWS):
            yield block.texts, block.labels if with_labels else None

    def _lines(self) -> Iterator[tuple[list[str], None]]:
        with open_read(self.path) as stream:
            texts: list[str] = []
            for number, line in stream.lines():
                try:
                    texts.append(line.decode())
                except UnicodeDecodeError as error:
                    raise DataError(f"{self.name}, line {number}: the text is not UTF-8.") from error
                if len(texts) == _ROWS:
                    yield texts, None
                    texts = []
            if texts:
                yield texts, None


def _pairs(found: data.TextData) -> list[list[Any]]:
    if found.weights is None:
        return found.labels
    return [list(zip(row, weights, strict=True)) for row, weights in zip(found.labels, found.weights, strict=True)]


def open_input(path: str, given: Mapping[str, Any], model: object = None, part: str = "tst") -> TextInput | MatrixInput:
    """The input that the options of a command describe.

    Parameters
    ----------
    path : str
        A file, "-" for stdin, or a folder that holds ``X.trn.npz`` and ``Y.trn.npz`` as PECOS lays them out.
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
    format_ = detect(path, given["format_"])
    if format_ in TEXT_FORMATS:
        for option, name in _MATRIX_OPTIONS:
            if given[name] is not None:
                raise DataError(f"{option} is for matrices, but {path} is {FORMATS[format_]}.")
        known = getattr(model, "text_fields_", ("text",)), getattr(model, "labels_field_", "labels")
        return TextInput(path, format_, given["text_fields"] or known[0], given["labels_field"] or known[1])
    if given["text_fields"]:
        raise DataError(f"--text-field is for JSON lines, but {path} is {FORMATS[format_]}.")
    first = given["first_feature"]
    return MatrixInput(
        path, format_, labels, None if first is None else int(first), given["threads"], bool(given["weighted_labels"])
    )
