"""Files about labels: lists of ``--allowed`` and ``--denied``, pairs of ``--filter-labels``, texts, vocabularies."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from sylvan import data, metrics
from sylvan.arrays.topk import TopK
from sylvan.data.formats.rdf import RDF_FORMS
from sylvan.data.formats.subjects import header_separator
from sylvan.data.label_terms import label_terms
from sylvan.data.streams import head_of, open_read, unpacked_name
from sylvan.errors import DataError, DataWarning
from sylvan.labels.vocabulary import Numbers, ids_of_names
from sylvan.params.wording import counted


def read_labels(path: str, model: Any) -> list[Any]:
    """The labels that a file names, one a line, as the model's ``rank`` takes them; ``"-"`` for stdin."""
    labels: list[Any] = []
    with open_read(path) as stream:
        for number, line in stream.lines():
            where = f"{stream.name}, line {number}"
            try:
                word = line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(f"{where}: the label is not UTF-8.") from error
            if not (bare := word.strip()):
                continue
            if model.vocabulary_ is not None:
                (label,) = ids_of_names([word], model.vocabulary_, f"{where}: the list")
                labels.append(model.vocabulary_[label])
            elif bare.isascii() and bare.isdigit() and int(bare) < model.n_labels_:
                labels.append(int(bare))
            else:
                last = model.n_labels_ - 1
                raise DataError(f"{where}: a label of this model is an id in [0, {last}]. Got {bare!r:.60} instead.")
    return labels


def read_names(path: str) -> list[str]:
    """The names in a file, one a line."""
    with open_read(path) as stream:
        return [line.decode("utf-8", "replace") for _, line in stream.lines()]


class FilteredPairs:
    """The pairs of a file, as the labels of a model; none without a file."""

    def __init__(self, path: str | None, model: Any) -> None:
        self.path = path
        pairs: Any = sp.csr_matrix(np.zeros((0, 0), np.float32)) if path is None else data.load_filter_labels(path)
        self._n_rows = pairs.shape[0]
        rows, labels = (ids.astype(np.int64) for ids in pairs.nonzero())
        if model.takes_texts or isinstance(model.vocabulary_, Numbers):  # numbers in the file are names too
            labels = model.vocabulary_.ids(map(str, labels.tolist()))
        known = (labels >= 0) & (labels < model.n_labels_)
        entries = np.ones(int(known.sum()), np.float32), (rows[known], labels[known])
        self._pairs = sp.csr_matrix(entries, shape=(self._n_rows, model.n_labels_))
        self.most = int(np.diff(self._pairs.indptr).max(initial=0))

    def apply(self, top: TopK, first: int, k: int) -> TopK:
        """The first ``k`` answers that count of the rows from ``first`` on."""
        if not self.most:
            return top
        pairs: Any = self._pairs[first : first + len(top)]
        pairs.resize((len(top), self._pairs.shape[1]))
        counting = metrics.filter_answers(top, pairs)
        return TopK(counting.labels[:, :k], counting.scores[:, :k])

    def check(self, n_rows: int) -> None:
        """Refuse a file that names rows beyond the last."""
        if self._n_rows > n_rows:
            raise DataError(
                f"{self.path} names row {self._n_rows - 1}, but there are {counted(n_rows, 'row')}, counted from 0."
            )


def read_given_texts(path: str | None, language: str | None = None) -> dict[str, Any]:
    """The option ``label_texts`` of a model's ``fit``; nothing without a path."""
    if path is None or path == "names":
        return {} if path is None else {"label_texts": path}
    if not is_vocabulary(path):
        return {"label_texts": data.read_label_texts(path)}
    subjects = data.read_subjects(path)
    return {"label_texts": subjects if language is None else need_language(subjects, language, path)}


def need_language(
    subjects: data.SubjectVocabulary, language: str | None, path: str, otherwise: str = ""
) -> data.SubjectVocabulary:
    """A vocabulary in one language; without one, a warning names its languages and says what holds ``otherwise``."""
    if language is not None:
        named = [known for known in subjects.languages if known]
        if named and not subjects.has_language(language):
            raise DataError(f"{path} has no labels in the language {language!r}: its languages are {', '.join(named)}.")
        return subjects.in_language(language)
    if subjects.several_languages:
        warnings.warn(
            f"{path} names its subjects in several languages ({subjects.several_languages}), and {otherwise}: "
            "--language CODE chooses one.", DataWarning, stacklevel=2,
        )  # fmt: skip
    return subjects


def is_vocabulary(path: str) -> bool:
    """Whether a file is a vocabulary of subjects, by its name or its first line; lines of label and text are none."""
    suffix = os.path.splitext(unpacked_name(path))[1]
    if suffix == ".jsonl":
        return "uri" in next(data.read_records(path), {})
    if suffix in RDF_FORMS or suffix == ".csv" or path == "-":
        return path != "-"
    first = head_of(path).split(b"\n", 1)[0]
    return header_separator(first.decode("utf-8", "replace").rstrip("\r")) is not None


def plain_texts(given: Any, names: Any) -> Any:
    """A vocabulary as a mapping of labels to texts, for models that know no kinds of them; anything else as it is."""
    if not isinstance(given, data.SubjectVocabulary):
        return given
    listed = (name for row in names for name in ([row] if isinstance(row, str) else row))
    terms = label_terms(given, (name for name in listed if isinstance(name, str)))
    return {name: [*words.names, *words.definitions] for name, words in terms.items()}


@dataclass(frozen=True)
class LabelTitles:
    """From a code, such as a URI, to what it is called in a language; None where the file doesn't say."""

    vocabulary: data.SubjectVocabulary = field(repr=False)
    language: str | None
    path: str = field(default="", repr=False)

    def __call__(self, code: str) -> str | None:
        return self.vocabulary.label(code, self.language)

    def check(self, codes: Sequence[str]) -> None:
        """Refuse a file that names none of a model's labels."""
        if not len(codes):
            raise DataError(f"{self.path} names labels, of which there are none here: leave --vocabulary out.")
        if not any(code in self.vocabulary for code in codes):
            words = f"it has {next(iter(self.vocabulary))!r}, for instance, and the model {codes[0]!r}"
            raise DataError(f"{self.path} names none of the model's labels: {words}.")


def read_titles(given: Mapping[str, Any]) -> LabelTitles | None:
    """The file of ``--vocabulary`` in the language of ``--language``; None without the option."""
    path, language = given["vocabulary"], given["language"]
    if path is None:
        if language is not None:
            raise click.UsageError("--language is for the labels of a --vocabulary.")
        return None
    if path.lower().removesuffix(".gz").removesuffix(".xz").endswith(".jsonl") and not is_vocabulary(path):
        texts = data.read_label_texts(path)
        vocabulary = data.SubjectVocabulary({label: {"": names[0]} for label, names in texts.items() if names})
    else:
        vocabulary = data.read_subjects(path)
    # With a language, a label that has no name in it is called as it is in another.
    need_language(vocabulary, language, path, "labels are called by their English or else their first name")
    return LabelTitles(vocabulary, language, path)
