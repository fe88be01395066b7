"""``sylvan task extreme-classification``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sylvan.cli.options import input_options, together
from sylvan.errors import DataError
from sylvan.params.wording import counted

if TYPE_CHECKING:
    from sylvan.neural.loop.training import Job

OWNER = ("sylvan.tasks.extreme_classification", "ExtremeClassification")
DEFAULTS = {"epochs": 50, "patience": 10}
HELP = """Train embeddings of sparse features and of labels, and measure P@1, P@3 and P@5 over all labels.

DATA is whatever 'sylvan train' reads: texts with labels (JSONL, CSV, TSV, fastText's or PECOS's lines, Annif's corpora,
Parquet), which become TF-IDF features, or a matrix (the XMC repository's text format, svmlight, .npz with --labels
Y.npz). Without --validation a tenth of the rows is set apart; without --test the figures are those of validation. Of
texts, the vectorizer and the labels' names are saved in the folder of the results, for sylvan.load.

\b
Examples:
  sylvan task extreme-classification train.jsonl --test test.jsonl --out runs/xc
  sylvan task extreme-classification train.txt --validation dev.txt --test test.txt --sampler midx-pq --out runs/pq
  sylvan task extreme-classification X.trn.npz --labels Y.trn.npz --test X.tst.npz --test-labels Y.tst.npz --out runs/m
  sylvan task extreme-classification books.jsonl --text-field title --text-field author --loss full --out runs/full
"""
_PARTS = ("validation", "test")


# The options of this task alone: the holdout files, and how files are read.
options = together(
    click.option("--set-text", "text_settings", multiple=True, metavar="NAME=VALUE",
                 help="A parameter of the TfidfVectorizer, such as ngrams=1,2; repeat it for several."),
    click.option("--test-labels", metavar="Y.npz", help="Labels of a --test file without labels (CSR .npz)."),
    click.option("--test", metavar="FILE", help="Rows to measure the best model on."),
    click.option("--validation-labels", metavar="Y.npz", help="Labels of a --validation file that holds none."),
    click.option("--validation", metavar="FILE", help="Rows that decide which model is the best."),
    input_options,
)  # fmt: skip


def make_job(paths: Sequence[str], given: dict[str, Any], settings: dict[str, Any]) -> Job:
    """The job for the rows in the one file of ``paths``."""
    from sylvan.tasks.extreme_classification import ExtremeClassification

    if len(paths) != 1:
        raise DataError(f"DATA must be one file to train on. Got {counted(len(paths), 'word')} instead.")
    if given.get("read") is None:  # which several seeds share
        given["read"] = _read(paths[0], given)
    (features, labels), holdout = given["read"]
    return ExtremeClassification(features, labels, **holdout, **settings)


def save_beside(given: dict[str, Any]) -> None:
    """Keep what makes features of texts and names of labels, in the folder of the results."""
    for name, part in given.get("text_parts", {}).items():
        part.save(os.path.join(given["folder"], name))


def _read(path: str, given: dict[str, Any]) -> tuple[tuple[Any, Any], dict[str, tuple[Any, Any]]]:
    """Features and labels to train on, and those of the holdout parts by their names."""
    from sylvan.cli.io.inputs import MatrixInput, open_input

    source = open_input(path, given, part="trn")
    holdout = {}
    for part in _PARTS:
        if given[part] is None:
            if given[f"{part}_labels"] is not None:
                raise DataError(f"--{part}-labels goes with --{part}, which was not given.")
            continue
        holdout[part] = open_input(given[part], {**given, "labels": given[f"{part}_labels"], "format_": None})
        if holdout[part].is_text != source.is_text:
            words = [f"{place} is {one.words}" for place, one in ((path, source), (given[part], holdout[part]))]
            raise DataError(f"The --{part} file must be like the training file, but {' and '.join(words)}.")
    if source.is_text:
        return _read_texts(source, holdout, given)
    if given["text_settings"]:
        raise DataError(f"--set-text is for text, but {path} is {source.words}.")
    X: Any
    X, Y = source.read()
    for other in holdout.values():  # which count their features as the training file does
        if isinstance(source, MatrixInput) and isinstance(other, MatrixInput) and other.first_feature is None:
            other.first_feature = source.first_feature
    return (X, Y), {part: holdout[part].read() for part in holdout}


def _read_texts(
    source: Any, holdout: dict[str, Any], given: dict[str, Any]
) -> tuple[tuple[Any, Any], dict[str, tuple[Any, Any]]]:
    from sylvan.cli.options import parse_settings
    from sylvan.labels.targets import encode_labels, names_and_weights
    from sylvan.text import TfidfVectorizer

    parameters = parse_settings(TfidfVectorizer, given["text_settings"], "--set-text")
    vectorizer = TfidfVectorizer(**{"n_jobs": given["threads"], **parameters})
    texts, rows = source.read()
    vocabulary, Y = encode_labels(rows)
    X = vectorizer.fit_transform(texts)
    given["text_parts"] = {"vectorizer": vectorizer, "labels": vocabulary}
    parts = {}
    for part, other in holdout.items():
        texts, rows = other.read()
        names = [list(names_and_weights(row, number)) for number, row in enumerate(rows)]
        parts[part] = vectorizer.transform(texts), vocabulary.encode(names, unknown="ignore")
    return (X, Y), parts
