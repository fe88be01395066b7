"""Answers in files: read beside records with their subjects, written into a file of its own beside each text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.arrays.topk import TopK
from sylvan.cli.io.inputs import FILES, TextInput
from sylvan.cli.io.matrices import MatrixInput
from sylvan.data import Vocabulary, read_records
from sylvan.data.formats.rankings import Writer
from sylvan.errors import DataError, warn_data
from sylvan.labels.vocabulary import label_name
from sylvan.params.wording import counted

_MODEL = "A model is a folder; a file in its place holds answers, JSON lines as predict writes them."


def read_answers(path: str, source: TextInput, k: int) -> tuple[sp.csr_matrix, TopK, list[str]]:
    """The labels of all records, the answers to them, of which ``k`` are measured, and what the labels of both are
    called."""
    truths = [list(map(str, labels)) for block in source.training_blocks() for labels in block.labels]
    answers: list[list[str]] = []
    for number, (_, record) in enumerate(zip_longest(truths, _records(path)), 1):
        if record is None or number > len(truths):
            there = f"more than {len(truths):,}" if number > len(truths) else f"{number - 1:,}"
            raise DataError(f"{path} has answers to {there} records, but {source.name} has {len(truths):,}.")
        listed = record.get("uris", record.get("labels"))
        if not isinstance(listed, list) or not all(isinstance(label, str | int) for label in listed):
            raise DataError(f"{path}, object {number}: answers must be a list called 'labels'. {_MODEL}")
        answers.append(list(dict.fromkeys(label_name(str(label)) for label in listed)))
    names = Vocabulary.from_labels([*truths, *answers])
    labels = np.full((len(answers), max(1, *map(len, answers))), -1, np.int32)
    if (most := labels.shape[1]) < k:
        warn_data(
            f"{path} has at most {counted(most, 'answer')} to a record: figures at {k} can't be compared with those of "
            f"{k} answers. Predict with -k {k}, or give -k {most} here."
        )
    for row, listed in enumerate(answers):
        labels[row, : len(listed)] = names.ids(listed)
    scores = np.where(labels >= 0, -np.arange(labels.shape[1]), -np.inf).astype(np.float32)  # their order is all
    return names.encode(truths), TopK(labels, scores), list(names)


def _records(path: str) -> Iterator[dict[str, Any]]:
    """Those of a file of answers, unless it is none."""
    try:
        yield from read_records(path)
    except DataError as error:
        raise DataError(f"{error} {_MODEL}") from error


_READ = (".txt", ".json", ".tsv", ".key")  # what names of texts and of their subjects end in


@dataclass(frozen=True)
class FilesBeside:
    """A file of answers beside each text of a folder, or beside a text in a file of its own; written as a whole each.
    Its name is the text's, with a suffix in the place of the ending."""

    source: TextInput | MatrixInput
    suffix: str
    open: Callable[[str], AbstractContextManager[Writer]]  # a writer to a path

    def __post_init__(self) -> None:
        source, suffix = self.source, self.suffix
        if source.format not in FILES or source.path == "-":
            raise DataError(f"--output-suffix is for texts in files of their own, but {source.name} is {source.words}.")
        if os.sep in suffix or "." not in suffix or suffix.lower().endswith((*_READ, ".npz")):
            raise DataError(
                "--output-suffix must be an ending such as .jsonl or .top.csv, and none of texts and their subjects "
                f"({', '.join(_READ)}) or of a matrix. Got {suffix!r} instead."
            )

    def write(
        self, top: TopK, names: Sequence[Sequence[str]] | None, records: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """The answers to the next texts, whose records name their files."""
        is_folder = self.source.format != "text"
        folder = self.source.path if is_folder else os.path.dirname(self.source.path)
        for row, record in enumerate(records or ()):
            with self.open(os.path.join(folder, os.path.splitext(record["file"])[0] + self.suffix)) as writer:
                one_row = TopK(top.labels[row : row + 1], top.scores[row : row + 1])
                writer.write(one_row, None if names is None else names[row : row + 1], [record])
