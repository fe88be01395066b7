"""What a command reads: texts or a matrix, in whatever format the file is in, and files about labels."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from sylvan import data, metrics
from sylvan.arrays.topk import TopK
from sylvan.cli.io.formats import FORMATS, MATRIX_FORMATS, TEXT_FORMATS, detect, format_of_name
from sylvan.cli.io.matrices import FileInput, MatrixInput
from sylvan.cli.session import say_once
from sylvan.data.formats.annif import ANNIF_FOLDER, ANNIF_JSONL, ANNIF_TSV
from sylvan.data.formats.columnar import DATASET, PARQUET
from sylvan.data.formats.format import Layout, Records
from sylvan.data.formats.jsonl import JSONL
from sylvan.data.formats.lines_of_text import FASTTEXT, LINES, PECOS, TEXT
from sylvan.data.formats.marc import MARCXML
from sylvan.data.formats.rdf import RDF_FORMS
from sylvan.data.formats.spreadsheets import XLSX
from sylvan.data.formats.subjects import by_uris, header_separator
from sylvan.data.formats.tables import ANNIF_CSV, CSV, TSV, first_row, typed_column
from sylvan.data.label_cells import AUTO
from sylvan.data.other_fields import OtherFields, RecordSource
from sylvan.data.parts.part_folders import is_csr_folder
from sylvan.data.streams import EncodedPath, encoding_of, head_of, open_read, unpacked_name
from sylvan.data.text_rows import collect, in_blocks
from sylvan.errors import DataError, DataWarning
from sylvan.labels.vocabulary import Numbers, ids_of_names
from sylvan.params.wording import counted, noun


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


def read_names(path: str, errors: str = "replace") -> list[str]:
    """The names in a file, one a line; where it isn't UTF-8, ``errors`` are replaced, or "strict"."""
    with open_read(path) as stream:
        try:
            return [line.decode("utf-8", errors) for _, line in stream.lines()]
        except UnicodeDecodeError as error:
            raise DataError(f"{path!r} is not UTF-8 text ({error}).") from error


class FilteredPairs:
    """The pairs of a file, as the labels of a model; none without a file."""

    def __init__(self, path: str | None, model: Any) -> None:
        self.path = path
        pairs: Any = sp.csr_matrix(np.zeros((0, 0), np.float32)) if path is None else data.load_filter_labels(path)
        self._n_rows = pairs.shape[0]
        rows, labels = (ids.astype(np.int64) for ids in pairs.nonzero())
        if model.takes_texts or isinstance(model.vocabulary_, Numbers):  # numbers in the file are names too
            labels = model.vocabulary_.ids(map(str, labels.tolist()))
        valid = (labels >= 0) & (labels < model.n_labels_)
        entries = np.ones(int(valid.sum()), np.float32), (rows[valid], labels[valid])
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
    if path in (None, "names", "none"):
        return {} if path is None else {"label_texts": "names" if path == "names" else None}
    if not is_vocabulary(path):
        return {"label_texts": data.read_label_texts(path)}
    return {"label_texts": read_vocabulary(path, language)}


def read_vocabulary(path: str, language: str | None) -> data.SubjectVocabulary:
    """A vocabulary, in one language if asked."""
    subjects = data.read_subjects(path)
    return subjects if language is None else need_language(subjects, language, path)


def need_language(
    subjects: data.SubjectVocabulary, language: str | None, path: str, otherwise: str = ""
) -> data.SubjectVocabulary:
    """A vocabulary in one language; without one, a warning names its languages and says what holds ``otherwise``."""
    if language is not None:
        named = [code for code in subjects.languages if code]
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


def read_titles(flags: Mapping[str, Any]) -> LabelTitles | None:
    """The file of ``--vocabulary`` in the language of ``--language``; None without the option."""
    path, language = flags["vocabulary"], flags["language"]
    if path is None:
        if language is not None:
            raise click.UsageError("--language is for the labels of a --vocabulary.")
        return None
    if unpacked_name(path).endswith(".jsonl") and not is_vocabulary(path):
        texts = data.read_label_texts(path)
        vocabulary = data.SubjectVocabulary({label: {"": names[0]} for label, names in texts.items() if names})
    else:
        vocabulary = data.read_subjects(path)
    # With a language, a label that has no name in it is called as it is in another.
    need_language(vocabulary, language, path, "labels are called by their English or else their first name")
    return LabelTitles(vocabulary, language, path)


_ROWS = 2048
TEXTS = {
    "jsonl": JSONL, "lines": LINES, "text": TEXT, "csv": CSV, "tsv": TSV, "fasttext": FASTTEXT, "pecos": PECOS,
    "annif-tsv": ANNIF_TSV, "annif-csv": ANNIF_CSV, "annif-jsonl": ANNIF_JSONL, "annif-folder": ANNIF_FOLDER,
    "xlsx": XLSX, "marcxml": MARCXML, "parquet": PARQUET, "dataset": DATASET,
}  # fmt: skip
_TABLES = tuple(name for name, format_ in TEXTS.items() if format_.delimiter)
_HEADED = (*_TABLES, "xlsx")  # whose columns may have no names
_MARKS = (",", ";", "\t", "|")  # that may separate the cells of a table
_ENCODED = ("xlsx", "marcxml", "parquet", "dataset")  # formats that name their encoding, or have always the same
FILES = ("text", "annif-folder")  # formats whose texts are files of their own, which have names
LABELS = ("labels", "label", "subjects", "subject_uris")  # fields of labels by their usual names
# Fields that say which record it is, and that nobody means as text.
IDS = ("id", "_id", "uid", "uuid", "doc_id", "document_id", "uri", "url", "file")
COLUMNS = ("jsonl", "marcxml", *_HEADED, "parquet", "dataset")  # formats whose fields have names
NO_LABELS = ("lines", "text")
# Options: the formats that each is for, and what is said when it is given for another.
_OPTIONS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "--labels": ("labels", MATRIX_FORMATS, "matrices"),
    "--first-feature": ("first_feature", MATRIX_FORMATS, "matrices"),
    "--weighted-labels": ("weighted_labels", MATRIX_FORMATS, "matrices"),
    "--text-field": ("text_fields", COLUMNS, "fields with names"),
    "--labels-field": ("labels_field", COLUMNS, "fields with names"),
    "--label-separator": ("label_separator", COLUMNS, "fields with names"),
    "--delimiter": ("delimiter", _TABLES, "tables"),
    "--header": ("header", _HEADED, "tables"),
    "--sheet": ("sheet", ("xlsx",), "spreadsheets"),
    "--quoting": ("quoting", _TABLES, "tables"),
    "--items": ("items", ("pecos",), "PECOS's files"),
    "--encoding": ("encoding", tuple({*TEXTS} - {*_ENCODED, "annif-folder"}), "files of text"),
}


@dataclass(frozen=True)
class TextInput(FileInput):
    """Texts in a file, and their labels where it holds them."""

    path: str
    format: str
    text_fields: tuple[str, ...] = ("text",)
    labels_field: str = "labels"
    options: Layout = field(default_factory=Layout)
    quiet: bool = False
    guessed: bool = False  # whether the format is told by the content alone
    labels_found: str | None = None  # the field that is read where "labels" is asked for and isn't there

    is_text = True

    def training_blocks(self) -> Iterator[data.TextData]:
        """As :meth:`read`, a few thousand rows at a time."""
        if self.format in NO_LABELS:
            raise DataError(f"{self.name} is {self.words} and holds no labels: give JSON lines with a field of labels.")
        return self.stream()

    def read(self) -> tuple[list[str], list[list[Any]]]:
        """All texts and their labels, as pairs of label and relevance where the file weighs them."""
        result = collect(row for block in self.training_blocks() for row in block.rows())
        if not any(result.labels):
            raise DataError(f"{self.name}: no row has a label in the field {self.labels_field!r}.")
        if result.weights is None:
            return result.texts, result.labels
        return result.texts, [list(zip(*row, strict=True)) for row in zip(result.labels, result.weights, strict=True)]

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], list[list[Any]] | None]]:
        """Texts, and labels if asked for, a few thousand rows at a time."""
        for block in self.training_blocks() if with_labels else self.stream(False):
            yield block.texts, block.labels if with_labels else None

    def fields(self, texts: bool = False) -> list[str]:
        """The names of the file's fields, in its order; with ``texts`` those of text alone, as far as that is known."""
        return TEXTS[self.format].fields(self.path, self.options, texts)

    def stream(self, with_labels: bool = True, records: Records | None = None) -> Iterator[data.TextData]:
        """The rows a few thousand at a time; without labels also from a file that holds none. Where fields have names,
        all of each row's are appended to ``records``."""
        header = self.options.header
        if header is None and self.format in _HEADED:  # which must not depend on whether labels are wanted this time
            header = any(isinstance(typed_column(name), str) for name in (*self.text_fields, self.labels_field))
        labels_field = self.labels_field if with_labels else None
        layout = replace(self.options, text_fields=self.text_fields, labels_field=labels_field, header=header)
        rows = TEXTS[self.format].rows(self.path, layout, records)
        subjects = self.options.subjects() if with_labels and self.format != "annif-folder" else None
        if subjects is not None:  # a folder's files of subjects may be of two kinds, and are looked up there
            rows = by_uris(rows, subjects, self.path)
        n_rows = 0
        try:
            for block in in_blocks(rows, _ROWS):
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
            word = noun(len(fields), "field" if self.format in ("jsonl", "marcxml") else "column")
            parts.append(f"{word} {' and '.join([', '.join(fields[:-1]), fields[-1]] if len(fields) > 1 else fields)}")
            if self.format == "marcxml" and with_labels:
                parts.append("labels without the punctuation at their end")
        return ", ".join(parts)

    def records(self) -> Iterator[tuple[list[str], list[Mapping[str, Any]]]]:
        """Texts, and all fields of their rows, a few thousand rows at a time; for a format whose fields have names."""
        taken: Records = []
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
            clashing = [name for name in names if name in output]
            if clashing:
                raise DataError(f"--output-fields can't name {clashing[0]!r}: the output has a column of that name.")
            return OtherFields(() if tuple(names) == ("none",) else tuple(names))
        weights = ("weights",) if self.format in ("parquet", "dataset") else ()  # where a column holds them
        read = (*self.text_fields, self.labels_found or self.labels_field, *weights)
        lost = [name for name in self.fields() if name in output and name not in read]
        if lost:
            say_once(f"{self.name}: {', '.join(lost)} is left out, as the output has a column of that name.")
        return OtherFields(None, (*read, *output))


def open_input(
    path: str, flags: Mapping[str, Any], model: object = None, part: str = "tst", says_unread: bool = True
) -> TextInput | MatrixInput:
    """The input that the options of a command describe."""
    labels = flags["labels"]
    if flags.get("encoding") is not None:
        path = EncodedPath(path, flags["encoding"])
    pair = [os.path.join(path, f"{letter}.{part}.npz") for letter in "XY"]
    if all(map(os.path.isfile, pair)):
        path, labels = pair[0], labels or pair[1]
    format_ = "csr" if is_csr_folder(path) else detect(path, flags["format_"])
    is_text = format_ in TEXT_FORMATS
    for option, (name, formats, words) in _OPTIONS.items():
        if flags.get(name) not in (None, ()) and format_ not in formats and (is_text or option != "--labels-field"):
            raise DataError(f"{option} is for {words if is_text else 'text'}, but {path} is {FORMATS[format_]}.")
    if is_text:
        return _text_input(path, format_, flags, model, says_unread)
    first = flags["first_feature"]
    of_model = getattr(model, "first_feature_", None) if format_ == "svmlight" and first is None else None
    return MatrixInput(
        path, format_, labels, of_model if first is None else int(first), flags["threads"],
        bool(flags["weighted_labels"]), bool(flags.get("quiet")), of_model is not None,
    )  # fmt: skip


def remember_base(model: Any, source: TextInput | MatrixInput, test: TextInput | MatrixInput | None = None) -> None:
    """Let a model, and the file that it is tested on, count features as the svmlight file that it learned from."""
    if isinstance(source, MatrixInput) and source.format == "svmlight":
        model.first_feature_ = source.first_feature
        if isinstance(test, MatrixInput) and test.format == "svmlight" and test.first_feature is None:
            test.first_feature, test.as_trained = source.first_feature, True


def with_fields(
    source: TextInput | MatrixInput, columns: Sequence[str], output: str, flags: Mapping[str, Any]
) -> TextInput | MatrixInput | RecordSource:
    """The source of a ranking, with the rows' other fields where the output, of its own ``columns``, can have them."""
    names = flags["output_fields"]
    if output.lower().endswith(".npz") or isinstance(source, MatrixInput):
        if names and names != ("none",):
            raise DataError("--output-fields is for texts whose ranking is written as JSONL, a table or Parquet.")
        return source
    fields = source.other_fields(columns, names)
    return source if fields is None else RecordSource(source, fields)


def _text_input(path: str, format_: str, flags: Mapping[str, Any], model: object, says_unread: bool) -> TextInput:
    defaults = tuple(getattr(model, "text_fields_", ("text",))), str(getattr(model, "labels_field_", "labels"))
    delimiter, usual, labels = flags.get("delimiter"), TEXTS[format_].delimiter, flags["labels_field"]
    if delimiter is None and usual:
        columns = _split_names(tuple(flags["text_fields"]) or defaults[0], ())
        wanted = [columns] if labels is None else [(*columns, labels), columns]
        marks = (_delimiter_of(path, usual, names, flags["header"]) for names in wanted)
        delimiter = next((mark for mark in marks if mark != usual), usual)
    named = flags["label_separator"]
    separator = flags.get("usual_separator") if named is None else named
    options = Layout(
        delimiter=delimiter, label_separator=AUTO if separator is None else None if separator == "none" else separator,
        header=flags["header"], items=flags["items"], quoting=flags["quoting"], sheet=flags["sheet"],
        subjects=functools.partial(_subjects, flags.get("subjects"), flags.get("language")),
    )  # fmt: skip
    guessed = flags["format_"] is None and format_of_name(path) is None
    result = TextInput(path, format_, labels_field=labels or defaults[1], options=options, guessed=guessed)
    fields = result.fields(texts=True)
    result = replace(result, text_fields=_split_names(flags["text_fields"], fields) or defaults[0])
    if result.labels_field == "labels":
        result = replace(result, labels_found=next((name for name in LABELS if name in result.fields()), None))
    if flags.get("quiet"):
        return replace(result, quiet=True)
    if format_ == "text" and flags["format_"] is None and b"\n" in head_of(path).strip():
        say_once(f"{result.name}: all lines are read as one text (--format lines reads a text a line).")
    if flags.get("delimiter") is None and delimiter != (usual or None):
        say_once(f"{result.name}: its cells are separated by {delimiter!r}, as the first row shows.")
    read = (*result.text_fields, result.labels_field, *LABELS, "weights")
    unread = [name for name in fields if name not in read]  # that may be text, too
    if says_unread and set(result.text_fields) <= set(fields) and not {name.lower() for name in unread} <= {*IDS}:
        say_once(
            f"{result.name}: the text is read from {' and '.join(result.text_fields)}; not from {', '.join(unread)} "
            "(--text-field A,B joins several).",
            (result.text_fields, tuple(unread)),
        )
    return result


def _delimiter_of(path: str, usual: str, columns: Sequence[str], header: bool | None) -> str:
    """The separator of a table's cells: what its format usually has, or another mark if only that gives the columns."""
    n_columns = max((int(column) for column in columns if column.isdecimal()), default=1)
    names = set() if header is False else {column for column in columns if not column.isdecimal()}
    rows = ((mark, first_row(path, mark)) for mark in (usual, *_MARKS))
    return next((mark for mark, row in rows if names <= set(row) and len(row) >= n_columns), usual)


def _split_names(names: Iterable[str], fields: Sequence[str]) -> tuple[str, ...]:
    """Names of fields as they were typed, those with commas between being several unless a field is called so."""
    return tuple(
        part for name in names for part in ([name] if name in fields else map(str.strip, name.split(","))) if part
    )


def _subjects(path: str | None, language: str | None) -> data.SubjectVocabulary | None:
    """The vocabulary of ``--vocabulary``."""
    if path is None:
        return None
    stamp = os.stat(path) if os.path.exists(path) else None
    return _read_subjects(path, language, None if stamp is None else (stamp.st_mtime_ns, stamp.st_size))


@functools.lru_cache(maxsize=1)
def _read_subjects(path: str, language: str | None, changed: tuple[int, int] | None) -> data.SubjectVocabulary:
    """Read once for reading labels and for writing their names."""
    return need_language(data.read_subjects(path), language, path, "a label in any of them is found")
