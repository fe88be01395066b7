"""Measuring a model: what ``evaluate`` and ``demo`` print, and what ``train --test`` writes into the model's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from sylvan import metrics, store
from sylvan.arrays.topk import TopK, resized
from sylvan.cli.io.inputs import MatrixInput, TextInput
from sylvan.cli.io.label_files import FilteredPairs
from sylvan.cli.io.matrices import widened
from sylvan.cli.io.text_files import NO_LABELS
from sylvan.cli.models import codes_of, input_for, training_name
from sylvan.cli.report import Intervals, metric_table
from sylvan.errors import DataError
from sylvan.hub.card import MEASURED
from sylvan.labels.targets import true_labels
from sylvan.labels.vocabulary import Numbers
from sylvan.models.at_work import has_probabilities, inner_of, rank_blocks
from sylvan.parallel import progress
from sylvan.params.wording import counted
from sylvan.ranking.stopping import DEPTH, StoppingRule

_AT = (1, 3, 5)  # cut-offs of the figures of training
_PROMISED = 5  # answers a row whose probabilities are compared with how many of them are right
_LEARNED = 0.1  # share of rows, above which it is said; short texts are there twice by chance
THRESHOLD = 0.5  # that of predict


@dataclass(frozen=True)
class Measured:
    """Measures by name and cut-off, as fractions, and what they were taken over: ``truth`` and ``top``, row by row."""

    measures: dict[str, dict[int, float]]
    n_rows: int
    n_measured: int
    n_unknown: int  # different labels that the model doesn't know
    unknown: int  # and how often the rows have them
    known_labels: bool = False  # whether these were left out
    without_psp: bool = False
    intervals: Intervals = field(default_factory=dict)
    slices: dict[str, dict[str, Any]] = field(default_factory=dict)
    threshold: dict[str, float] = field(default_factory=dict)
    truth: Any = field(default=None, repr=False)
    top: TopK | None = field(default=None, repr=False)
    learned_from: str | None = None  # the name of the file, where the model has learned from it
    learned: tuple[int, int] = (0, 0)  # rows that the model keeps from its training, and so many were compared
    promise: metrics.ExpectedHits | None = None  # of the first answers, where probabilities are calibrated
    n_unknown_texts: int = 0  # those of which the model knows no word, which have no answers

    def coverage(self) -> str:
        """Which rows and labels the numbers are over, and what was left out: to be read before them."""
        if self.learned_from is not None:
            words = f"The model has learned from these rows ({self.learned_from}): the figures say nothing of others."
            return f"{words}\n{replace(self, learned_from=None).coverage()}"
        n_learned, n_compared = self.learned
        if n_learned > _LEARNED * n_compared:
            words = f"The model has learned from {n_learned:,} of the first {counted(n_compared, 'row')}, which it"
            return f"{words} keeps: the figures say little of others.\n{replace(self, learned=(0, 0)).coverage()}"
        n_rows, n_left = self.n_measured, self.n_rows - self.n_measured
        unknown = f"{counted(self.unknown, 'label')} ({self.n_unknown:,} different) that the model doesn't know"
        if self.known_labels:
            left = [unknown] * bool(self.unknown) + [f"{counted(n_left, 'row')} without a label that it knows"] * bool(
                n_left
            )
            words = f"Measured over {counted(n_rows, 'row')} and the labels that the model knows."
            return f"{words} Left out: {', and '.join(left)}." if left else words
        sentences = [f"Measured over {counted(n_rows, 'row')} and all their labels."]
        if n_left:
            sentences.append(f"Left out: {counted(n_left, 'row')} without any label.")
        if self.unknown:
            count = "counts" if self.unknown == 1 else "count"
            sentences.append(f"{unknown} {count} as missed; --known-labels leaves them out.")
        return " ".join(sentences)

    def notes(self) -> list[str]:
        """What a reader has to know beside the numbers."""
        notes = ["Percentages."]
        unknown = []
        if self.n_unknown_texts:
            unknown = [
                f"The model knows no word of {counted(self.n_unknown_texts, 'text')}, so there are no labels for them; "
                "--set unknown=prior gives the usual ones."
            ]
        if self.intervals:
            notes = [
                "Percentages; after ±: half the width of a 95% confidence interval, for other rows of the same kind."
            ]
        if self.without_psp:
            notes.append(
                "PSP and slices are missing: the model does not hold how often each label occurred in training."
            )
        if self.promise is not None and not self.promise.holds():
            much = "much" if self.promise.ratio > 1 else "little"
            notes.append(
                f"Warning: the probabilities promise too {much} for these rows. Those of the {_PROMISED} best labels "
                f"add up to {self.promise.expected:,.0f} right answers, {self.promise.right:,} are right."
            )
        return [*unknown, *notes]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "measures": {name: {str(k): v for k, v in values.items()} for name, values in self.measures.items()},
            "intervals": {
                name: {str(k): list(ends) for k, ends in values.items()} for name, values in self.intervals.items()
            },
            "slices": {
                name: {
                    "labels": values["labels"],
                    "rows": values["rows"],
                    **{measure: {str(k): v for k, v in values[measure].items()} for measure in ("P", "R")},
                }
                for name, values in self.slices.items()
            },
            **({"threshold": self.threshold} if self.threshold else {}),
            **(
                {}
                if self.promise is None
                else {
                    "expected_hits": {"expected": self.promise.expected, "right": self.promise.right},
                }
            ),
            "rows": self.n_rows,
            "rows_measured": self.n_measured,
            "known_labels": self.known_labels,
            "learned_from": self.learned_from,
            "rows_learned": self.learned[0],
            "labels_unknown": self.unknown,
            "distinct_labels_unknown": self.n_unknown,
            "texts_unknown": self.n_unknown_texts,
        }


def measure(
    model: Any,
    source: TextInput | MatrixInput,
    at: Sequence[int],
    a: float = 0.55,
    b: float = 1.5,
    depth: int = 0,
    filter_labels: str | None = None,
    threshold: float = THRESHOLD,
    known_labels: bool = False,
) -> Measured:
    """Rank every row of ``source`` and compare the answers with its labels."""
    tops, truths, depth = [], [], max(*at, depth, _PROMISED)
    chosen = _Chosen(model, threshold)
    deep = max(depth, chosen.depth)
    filtered = FilteredPairs(filter_labels, model)
    truth, n_rows, n_unknown = _Truth(model, known_labels), 0, 0
    apart = source.read_labels() if isinstance(source, MatrixInput) else None
    with progress("ranking", None, "row") as bar:
        for top, _, labels, unknown in rank_blocks(model, source, deep + filtered.most, with_labels=True):
            n_unknown += unknown
            rows = slice(n_rows, n_rows + len(top))
            top = filtered.apply(top, n_rows, deep)
            n_rows += len(top)
            Y = truth.matrix(labels if apart is None else apart[rows])
            labelled = np.diff(Y.indptr) > 0
            chosen.add(Y, top)
            tops.append(resized(TopK(top.labels[labelled], top.scores[labelled]), depth))
            truths.append(Y[labelled])
            bar.update(len(top))
    if apart is not None and apart.shape[0] != n_rows:
        raise DataError(f"{source.name} has {counted(n_rows, 'row')}, but its labels {apart.shape[0]}.")
    filtered.check(n_rows)
    truth.check(source.name)
    Y = sp.vstack([widened(rows, truth.n_columns) for rows in truths], format="csr")
    top = TopK(np.concatenate([t.labels for t in tops]), np.concatenate([t.scores for t in tops]))
    measures = score(model, Y, top, at, a, b)
    intervals = _intervals(Y, top, at, _propensities(model, a, b, truth.n_columns))
    return Measured(
        measures, n_rows, len(top), truth.n_others, truth.n_missing, known_labels, "PSP" not in measures, intervals,
        _slices(model, Y, top, at), chosen.result(), Y, top, promise=_promise(model, Y, top), n_unknown_texts=n_unknown,
    )  # fmt: skip


class _Truth:
    """The true labels of rows, block by block: the model's by their ids, and after these all others of the file."""

    def __init__(self, model: Any, known_labels: bool) -> None:
        self._model, self._known_labels = model, known_labels
        self._others: dict[Any, int] = {}  # columns of labels that the model doesn't know
        self._n_known = self.n_missing = 0

    @property
    def n_others(self) -> int:
        """How many different labels there were that the model doesn't know."""
        return len(self._others)

    @property
    def n_columns(self) -> int:
        """Of the matrix of all rows."""
        return int(self._model.n_labels_) + (0 if self._known_labels else len(self._others))

    def matrix(self, labels: Any) -> sp.csr_matrix:
        """The labels of a block of rows."""
        known, rows, others = _split(self._model, labels)
        self._n_known, self.n_missing = self._n_known + known.nnz, self.n_missing + len(others)
        first = self._model.n_labels_
        columns = [self._others.setdefault(label, first + len(self._others)) for label in others]
        if self._known_labels or not others:
            return known
        beside = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (known.shape[0], self.n_columns))
        beside.data[:] = 1  # also where a row names a label twice
        return sp.csr_matrix(widened(known, self.n_columns) + beside)

    def check(self, name: str) -> None:
        """Refuse a file without any label of the model: it is of other labels, or calls them otherwise."""
        if self._n_known:
            return
        if not self._others:
            raise DataError(f"{name}: no row has a label.")
        example, codes = next(iter(self._others)), codes_of(self._model)
        raise DataError(
            f"{name}: no row has a label that the model knows. The file has {counted(len(self._others), 'label')} such "
            f"as {str(example)!r:.80}, the model {counted(len(codes), 'label')} such as {codes[0]!r:.80}."
        )


class _Chosen:
    """F1 of the labels with at least some probability, block by block. Nothing for answers that a ``tail`` ordered,
    whose scores are no probabilities."""

    def __init__(self, model: Any, threshold: float) -> None:
        self._model, self._threshold = model, threshold
        self._rule = StoppingRule.of(None, threshold, None, None, model.n_labels_)
        self._measured = metrics.SetF1(model.n_labels_)
        self._has_probabilities = getattr(inner_of(model), "tail", None) is None

    @property
    def depth(self) -> int:
        """How many answers a row it looks at."""
        return DEPTH if self._has_probabilities else 0

    def add(self, Y: sp.csr_matrix, top: TopK) -> None:
        """Some rows' true labels and answers."""
        if self._has_probabilities:
            self._measured.add(Y, self._rule(self._model.probabilities(top)))

    def result(self) -> dict[str, float]:
        """The threshold and what :func:`sylvan.metrics.set_f1` says of it."""
        return {"threshold": self._threshold, **self._measured.result()} if self._has_probabilities else {}


def _slices(model: Any, Y: sp.csr_matrix, top: TopK, at: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Sizes, and precision and recall by cut-off, of head, torso and tail; nothing where label counts are unknown."""
    counts = _label_counts(model, Y.shape[1])
    if counts is None:
        return {}
    return {
        name: {
            "labels": values["labels"],
            "rows": values["rows"],
            **{measure: {k: values[f"{measure}@{k}"] for k in at} for measure in ("P", "R")},
        }
        for name, values in metrics.slices(Y, top, counts, at).items()
    }


def _calibration(model: Any, Y: sp.csr_matrix, top: TopK, at: Sequence[int]) -> dict[str, dict[int, float]]:
    """ECE of the probabilities, and of scores before calibration where there was one. Nothing for answers that a
    ``tail`` ordered: their scores are gains, of which no probability can be made."""
    inner = inner_of(model)
    if getattr(inner, "tail", None) is not None:
        return {}
    raw = metrics.calibration_error(Y, model.bounded(top), at)
    if inner.calibrator_ is None:
        return {"ECE": raw}
    return {"ECE raw": raw, "ECE cal.": metrics.calibration_error(Y, _probabilities(model, top), at)}


def _probabilities(model: Any, top: TopK) -> TopK:
    """Probabilities for scores, by the ids of labels: the truth has columns behind those that have names."""
    likely = model.probabilities(top)
    return TopK(likely.labels, likely.scores)


def _promise(model: Any, Y: sp.csr_matrix, top: TopK) -> metrics.ExpectedHits | None:
    """How many of the first answers the probabilities say to be right; None where they don't claim to."""
    if not has_probabilities(model) or getattr(inner_of(model), "tail", None) is not None:
        return None
    return metrics.expected_hits(Y, _probabilities(model, top), k=_PROMISED)


def _intervals(Y: sp.csr_matrix, top: TopK, at: Sequence[int], likely: Any) -> Intervals:
    """95% intervals by measure and cut-off."""
    results: dict[str, dict[int, tuple[float, float]]] = {}
    for name, ends in metrics.intervals(Y, top, at, likely).items():
        measure, _, k = name.rpartition("@")
        results.setdefault(measure, {})[int(k)] = ends
    return results


def _label_counts(model: Any, n_columns: int) -> Any:
    """How many training rows each label had: none those after the model's own; None where the model doesn't know."""
    counts = getattr(inner_of(model), "label_counts_", None)
    return None if counts is None else np.pad(counts, (0, n_columns - len(counts)))


def _propensities(model: Any, a: float, b: float, n_columns: int) -> Any:
    """How likely each label is to be named where it is true; None where label counts are unknown."""
    counts, n_rows = _label_counts(model, n_columns), getattr(inner_of(model), "n_rows_", None)
    return None if counts is None or not n_rows else metrics.propensities_of_counts(counts, n_rows, a, b)


def _split(model: Any, labels: Any) -> tuple[sp.csr_matrix, list[int], list[Any]]:
    """The labels that the model has, as a matrix, and the rows and names (or ids) of all others."""
    if model.takes_texts:
        vocabulary = model.vocabulary_
        others = [(row, name) for row, names in enumerate(labels) for name in names if name not in vocabulary]
        return vocabulary.encode(labels, unknown="ignore"), [row for row, _ in others], [name for _, name in others]
    if isinstance(model.vocabulary_, Numbers):
        numbers = np.split(labels.indices, labels.indptr[1:-1])  # those of columns are names
        known = true_labels(numbers, model.vocabulary_, unknown="drop").to_scipy()
        missing = np.array([str(number) not in model.vocabulary_ for number in labels.indices.tolist()], bool)
    else:
        Y = widened(labels, model.n_labels_)
        known, missing = sp.csr_matrix(Y[:, : model.n_labels_]), labels.indices >= model.n_labels_
    row_of = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    return known, row_of[missing].tolist(), labels.indices[missing].tolist()


def score(
    model: Any, Y: sp.csr_matrix, top: TopK, at: Sequence[int], a: float = 0.55, b: float = 1.5
) -> dict[str, dict[int, float]]:
    """P, R, nDCG, F1, PSP, PSnDCG and ECE of answers; PSP and PSnDCG only for a model that holds its label counts."""
    measures = {
        "P": metrics.precision(Y, top, at=at),
        "R": metrics.recall(Y, top, at=at),
        "nDCG": metrics.ndcg(Y, top, at=at),
        "F1": metrics.f1(Y, top, at=at),
    }
    likely = _propensities(model, a, b, Y.shape[1])
    if likely is not None:
        measures["PSP"] = metrics.psp(Y, top, likely, at=at)
        measures["PSnDCG"] = metrics.psndcg(Y, top, likely, at=at)
    return measures | _calibration(model, Y, top, at)


def open_test(model: Any, given: Mapping[str, Any]) -> TextInput | MatrixInput | None:
    """What ``--test`` names, refused before the work of training where it can be; None without the option."""
    path = given["test"]
    if path is None:
        if given["test_labels"] is not None:
            raise DataError("--test-labels goes with --test, which was not given.")
        return None
    if path == "-" == given["train"]:
        raise DataError("stdin can't be both the training file and the --test file.")
    source = input_for(model, given["folder"], path, {**given, "labels": given["test_labels"], "format_": None})
    if isinstance(source, MatrixInput):
        source.read_labels()
    elif source.format in NO_LABELS:
        source.read()  # which says that such a file holds no labels
    return source


def add_figures(model: Any, source: TextInput | MatrixInput, folder: str, quiet: bool) -> None:
    """Measure the model that was just saved, and write the figures into its manifest."""
    result = replace(measure(model, source, _AT), learned_from=training_name(folder, source.path))
    on = os.path.basename(os.path.abspath(source.path)) if source.path != "-" else "stdin"
    store.annotate(folder, {MEASURED: {"on": on, **result.as_json()}})
    if not quiet:
        click.echo(result.coverage())
        click.echo(metric_table(result.measures, _AT, result.intervals))
        for note in result.notes():
            click.echo(note)
