"""Answers in a file, as ``sylvan predict`` writes them in JSON lines, beside records with their subjects."""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
import scipy.sparse as sp

from sylvan.arrays.topk import TopK
from sylvan.cli.io.inputs import TextInput
from sylvan.data import Vocabulary, read_records
from sylvan.errors import DataError
from sylvan.labels.vocabulary import label_name


def read_answers(path: str, source: TextInput) -> tuple[sp.csr_matrix, TopK, list[str]]:
    """The labels of all records, the answers to them, and what the labels of both are called."""
    truths = [list(map(str, labels)) for block in source.training_blocks() for labels in block.labels]
    answers: list[list[str]] = []
    for number, (_, record) in enumerate(zip_longest(truths, read_records(path)), 1):
        if record is None or number > len(truths):
            there = f"more than {len(truths):,}" if number > len(truths) else f"{number - 1:,}"
            raise DataError(f"{path} has answers to {there} records, but {source.name} has {len(truths):,}.")
        listed = record.get("uris", record.get("labels"))
        if not isinstance(listed, list) or not all(isinstance(label, str | int) for label in listed):
            raise DataError(f"{path}, object {number}: answers must be a list called 'labels', as predict writes it.")
        answers.append(list(dict.fromkeys(label_name(str(label)) for label in listed)))
    names = Vocabulary.from_labels([*truths, *answers])
    labels = np.full((len(answers), max(1, *map(len, answers))), -1, np.int32)
    for row, listed in enumerate(answers):
        labels[row, : len(listed)] = names.ids(listed)
    scores = np.where(labels >= 0, -np.arange(labels.shape[1]), -np.inf).astype(np.float32)  # their order is all
    return names.encode(truths), TopK(labels, scores), list(names)
