"""``sylvan evaluate``: precision, recall, nDCG, F1 and their propensity-scored kin on rows with known labels."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import click
import numpy as np
import scipy.sparse as sp

from sylvan import metrics, store
from sylvan.arrays.topk import TopK, resized
from sylvan.cli import options as of
from sylvan.cli.details import Details, check_figures, show_groups, show_side_by_side, side_by_side, write_table
from sylvan.cli.groups import titles_for
from sylvan.cli.io.answers import read_answers
from sylvan.cli.io.inputs import NO_LABELS, FilteredPairs, TextInput, open_input, read_titles
from sylvan.cli.io.matrices import MatrixInput, widened
from sylvan.cli.models import codes_of, input_for, learned_rows, load_model, save_model, text_name, training_name
from sylvan.cli.session import Session, folder_size, keep_inputs, quietly, say, write_text
from sylvan.data.other_fields import plain
from sylvan.errors import DataError
from sylvan.hub.card import MEASURED
from sylvan.labels.vocabulary import Numbers
from sylvan.metrics import figures
from sylvan.models.blocks import has_probabilities, inner_of, rank_blocks, training_counts
from sylvan.parallel import progress
from sylvan.params.wording import counted
from sylvan.ranking.stopping import DEPTH, StoppingRule

AT = (1, 3, 5)  # cut-offs of the figures of training
_PROMISED = 5  # answers a row whose probabilities are compared with how many of them are right
LEARNED = 0.1  # share of rows, above which it is said; short texts are there twice by chance
THRESHOLD = 0.5  # that of predict
_PLAIN = {"P": metrics.precision, "R": metrics.recall, "nDCG": metrics.ndcg, "F1": metrics.f1}
# Lower and upper ends, by measure and cut-off.
Intervals = Mapping[str, Mapping[int, tuple[float, float]]]


def metric_table(
    measures: Mapping[str, Mapping[int, float]], at: Sequence[int], intervals: Intervals | None = None
) -> str:
    """Percentages, a row a measure and a column a cut-off; after each ± half of its interval, where there is one."""
    width = 8 if intervals is None else 14
    lines = [" " * 8 + "".join(f"{f'@{k}':>8}".ljust(width) for k in at).rstrip()]
    for name, values in measures.items():
        cells = []
        for k in at:
            low, high = (intervals or {}).get(name, {}).get(k, (np.nan, np.nan))
            half = 100 * max(values[k] - low, high - values[k])
            cells.append(f"{100 * values[k]:8.2f}" + ("" if np.isnan(half) else f" ±{half:<4.2f}"))
        lines.append(f"{name:<8}" + "".join(cell.ljust(width) for cell in cells).rstrip())
    return "\n".join(lines)


def shortened(text: str, length: int) -> str:
    """``text`` on one line, cut to ``length`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


@dataclass(frozen=True)
class Measured:
    """Measures by name and cut-off, as fractions, and what they were taken over: ``truth`` and ``top``, row by row."""

    measures: dict[str, dict[int, float]]
    n_rows: int
    n_measured: int
    n_unknown: int  # different labels that the model doesn't know
    unknown: int  # and how often the rows have them
    known_labels: bool = False  # whether these were left out
    intervals: Intervals = field(default_factory=dict)
    slices: dict[str, dict[str, Any]] = field(default_factory=dict)
    threshold: dict[str, float] = field(default_factory=dict)
    truth: Any = field(default=None, repr=False)
    top: TopK | None = field(default=None, repr=False)
    learned_from: str | None = None  # the name of the file, where the model has learned from it
    learned: tuple[int, int] = (0, 0)  # rows that the model keeps from its training, and so many were compared
    promise: metrics.ExpectedHits | None = None  # of the first answers, where probabilities are calibrated
    n_unknown_texts: int = 0  # those of which the model knows no word, which have no answers
    others: Sequence[Any] = ()  # labels that the model doesn't know, by their columns behind its own
    rows: Any = field(default=None, repr=False)  # of ``truth`` and ``top``: their numbers in the file

    def coverage(self) -> str:
        """Which rows and labels the numbers are over, and what was left out: to be read before them."""
        n_left, learned = self.n_rows - self.n_measured, self.learned_words("The model")
        unknown = f"{counted(self.unknown, 'label')} ({self.n_unknown:,} different) that the model doesn't know"
        over = (f"{learned}\n" if learned else "") + f"Measured over {counted(self.n_measured, 'row')} and "
        if self.known_labels:
            left = [unknown] if self.unknown else []
            left += [f"{counted(n_left, 'row')} without a label that it knows"] if n_left else []
            return f"{over}the labels that the model knows." + (f" Left out: {', and '.join(left)}." if left else "")
        sentences = [f"{over}all their labels."]
        if n_left:
            sentences.append(f"Left out: {counted(n_left, 'row')} without any label.")
        if self.unknown:
            count = "counts" if self.unknown == 1 else "count"
            sentences.append(f"{unknown} {count} as missed; --known-labels leaves them out.")
        return " ".join(sentences)

    def learned_words(self, model: str) -> str:
        """That the model, called so, has learned from these rows; empty where it hasn't, or that isn't known."""
        n_learned, n_compared = self.learned
        if self.learned_from is not None:
            return f"{model} has learned from these rows ({self.learned_from}): the figures say nothing of others."
        if n_learned <= LEARNED * n_compared:
            return ""
        rows = f"{n_learned:,} of the first {counted(n_compared, 'row')}, which it keeps"
        return f"{model} has learned from {rows}: the figures say little of others."

    def show(self, at: Sequence[int], all_tables: bool = False) -> None:
        """Print the figures, with what has to be known of them before and after."""
        click.echo(self.coverage())
        click.echo(metric_table(self.measures, at, self.intervals))
        if all_tables and self.slices:  # recall of labels by how often they were in training
            click.echo(f"{'recall':<8}" + "".join(f"{f'@{k}':>8}" for k in at) + f"{'labels':>12}{'rows':>10}")
            for name, values in self.slices.items():
                cells = "".join(f"{100 * values['R'][k]:8.2f}" for k in at)
                click.echo(f"{name:<8}{cells}{values['labels']:>12,}{values['rows']:>10,}")
        if all_tables and self.threshold:  # F1 of the labels with at least some probability
            kinds = (("by rows", "F1"), ("micro", "micro-F1"), ("macro", "macro-F1"))
            shares = ", ".join(f"{name} {100 * self.threshold[key]:.2f}" for name, key in kinds)
            words = f"{self.threshold['threshold']:g} or more, {self.threshold['labels']:.2f} a row"
            click.echo(f"Labels with a probability of {words}: F1 {shares}.")
        notes = [unknown_words(counted(self.n_unknown_texts, "text"))] if self.n_unknown_texts else []
        interval = "; after ±: half the width of a 95% confidence interval, for other rows of the same kind"
        notes.append(f"Percentages{interval if self.intervals else ''}.")
        if "PSP" not in self.measures:
            notes.append(
                "PSP and slices are missing: the model does not hold how often each label occurred in training."
            )
        if self.promise is not None and not self.promise.holds():
            amount = "much" if self.promise.ratio > 1 else "little"
            notes.append(
                f"Warning: the probabilities promise too {amount} for these rows. Those of the {_PROMISED} best labels "
                f"add up to {self.promise.expected:,.0f} right answers, {self.promise.right:,} are right."
            )
        click.echo("\n".join(notes))

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        result: dict[str, Any] = {"measures": self.measures, "intervals": self.intervals, "slices": self.slices}
        if self.threshold:
            result["threshold"] = self.threshold
        if self.promise is not None:
            result["expected_hits"] = {"expected": self.promise.expected, "right": self.promise.right}
        plain: dict[str, Any] = json.loads(json.dumps(result))  # cut-offs as strings, as they are read from a manifest
        return plain | {
            "rows": self.n_rows, "rows_measured": self.n_measured, "known_labels": self.known_labels,
            "learned_from": self.learned_from, "rows_learned": self.learned[0], "labels_unknown": self.unknown,
            "distinct_labels_unknown": self.n_unknown, "texts_unknown": self.n_unknown_texts,
        }  # fmt: skip


def unknown_words(texts: str) -> str:
    """That a model can say nothing of some texts."""
    words = f"The model knows no word of {texts}, so there are no labels for them"
    return f"{words}; --set unknown=prior gives the usual ones."


def measure(
    model: Any, source: TextInput | MatrixInput, at: Sequence[int], a: float = 0.55, b: float = 1.5, depth: int = 0,
    filter_labels: str | None = None, threshold: float = THRESHOLD, known_labels: bool = False,
) -> Measured:  # fmt: skip
    """Rank every row of ``source`` and compare the answers with its labels."""
    tops, truths, numbers, depth = [], [], [], max(*at, depth, _PROMISED)
    # A ``tail`` orders by gains, of which no probability can be made: no F1 of a threshold, no ECE, no promise.
    likely = getattr(inner_of(model), "tail", None) is None
    rule, chosen = StoppingRule.of(None, threshold, None, None, model.n_labels_), metrics.SetF1(model.n_labels_)
    deep = max(depth, DEPTH if likely else 0)
    filtered = FilteredPairs(filter_labels, model)
    truth, n_rows, n_unknown = _Truth(model, known_labels), 0, 0
    apart = source.read_labels() if isinstance(source, MatrixInput) else None
    with progress("ranking", None, "row") as bar:
        for top, _, labels, unknown in rank_blocks(model, source, deep + filtered.most, with_labels=True):
            n_unknown += unknown
            top = filtered.apply(top, n_rows, deep)
            Y = truth.matrix(labels if apart is None else apart[n_rows : n_rows + len(top)])
            if likely:
                chosen.add(Y, rule(model.probabilities(top)))
            labelled = np.diff(Y.indptr) > 0
            numbers.append(n_rows + np.flatnonzero(labelled))
            n_rows += len(top)
            tops.append(resized(TopK(top.labels[labelled], top.scores[labelled]), depth))
            truths.append(Y[labelled])
            bar.update(len(top))
    if apart is not None and apart.shape[0] != n_rows:
        raise DataError(f"{source.name} has {counted(n_rows, 'row')}, but its labels {apart.shape[0]}.")
    filtered.check(n_rows)
    truth.check(source.name)
    Y = sp.vstack([widened(rows, truth.n_columns) for rows in truths], format="csr")
    top = TopK(np.concatenate([t.labels for t in tops]), np.concatenate([t.scores for t in tops]))
    promises = likely and has_probabilities(model)
    promise = metrics.expected_hits(Y, probabilities_of(model, top), k=_PROMISED) if promises else None
    counts = _label_counts(model, Y.shape[1])
    slices = {} if counts is None else metrics.slices(Y, top, counts, at)
    intervals = metrics.intervals(Y, top, at, _propensities(model, a, b, truth.n_columns))
    return Measured(
        score(model, Y, top, at, a, b), n_rows, len(top), len(truth.others), truth.n_missing, known_labels,
        _by_cutoff(intervals), {name: _by_cutoff(values) for name, values in slices.items()},
        {"threshold": threshold, **chosen.result()} if likely else {}, Y, top, promise=promise,
        n_unknown_texts=n_unknown, others=() if known_labels else tuple(truth.others), rows=np.concatenate(numbers),
    )  # fmt: skip


def _by_cutoff(values: Mapping[str, Any]) -> dict[str, Any]:
    """What is called as ``P@5`` by its name and then its cut-off; all else as it is."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        kind, cut, k = name.partition("@")
        if cut:
            result.setdefault(kind, {})[int(k)] = value
        else:
            result[name] = value
    return result


class _Truth:
    """The true labels of rows, block by block: the model's by their ids, and after these all others of the file."""

    def __init__(self, model: Any, known_labels: bool) -> None:
        self._model, self._known_labels = model, known_labels
        self.others: dict[Any, int] = {}  # columns of labels that the model doesn't know
        self._n_known = self.n_missing = 0

    @property
    def n_columns(self) -> int:
        """Of the matrix of all rows."""
        return int(self._model.n_labels_) + (0 if self._known_labels else len(self.others))

    def matrix(self, labels: Any) -> sp.csr_matrix:
        """The labels of a block of rows."""
        matrix, rows, unknown = _split(self._model, labels)
        self._n_known, self.n_missing = self._n_known + matrix.nnz, self.n_missing + len(unknown)
        columns = [self.others.setdefault(label, self._model.n_labels_ + len(self.others)) for label in unknown]
        if self._known_labels or not unknown:
            return matrix
        beside = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (matrix.shape[0], self.n_columns))
        beside.data[:] = 1  # also where a row names a label twice
        return sp.csr_matrix(widened(matrix, self.n_columns) + beside)

    def check(self, name: str) -> None:
        """Refuse a file without any label of the model: it is of other labels, or calls them otherwise."""
        if self._n_known:
            return
        if not self.others:
            raise DataError(f"{name}: no row has a label.")
        example, codes = next(iter(self.others)), codes_of(self._model)
        raise DataError(
            f"{name}: no row has a label that the model knows. The file has {counted(len(self.others), 'label')} such "
            f"as {str(example)!r:.80}, the model {counted(len(codes), 'label')} such as {codes[0]!r:.80}."
        )


def probabilities_of(model: Any, top: TopK) -> TopK:
    """Probabilities for scores, by the ids of labels: the truth has columns behind those that have names."""
    likely = model.probabilities(top)
    return TopK(likely.labels, likely.scores)


def _label_counts(model: Any, n_columns: int) -> Any:
    """How many training rows each label had: none those after the model's own; None where the model doesn't know."""
    counts = training_counts(model)[0]
    return None if counts is None else np.pad(counts, (0, n_columns - len(counts)))


def _propensities(model: Any, a: float, b: float, n_columns: int) -> Any:
    """How likely each label is to be named where it is true; None where label counts are unknown."""
    counts, n_rows = _label_counts(model, n_columns), training_counts(model)[1]
    return None if counts is None or not n_rows else metrics.propensities_of_counts(counts, n_rows, a, b)


def _split(model: Any, labels: Any) -> tuple[sp.csr_matrix, list[int], list[Any]]:
    """The labels that the model has, as a matrix, and the rows and names (or ids) of all others."""
    vocabulary = model.vocabulary_
    if model.takes_texts or isinstance(vocabulary, Numbers):
        if not model.takes_texts:  # numbers of columns are names
            labels = [list(map(str, row)) for row in np.split(labels.indices, labels.indptr[1:-1])]
        unknown = [(row, name) for row, names in enumerate(labels) for name in names if name not in vocabulary]
        return vocabulary.encode(labels, unknown="ignore"), [row for row, _ in unknown], [name for _, name in unknown]
    matrix, missing = widened(labels, model.n_labels_)[:, : model.n_labels_], labels.indices >= model.n_labels_
    row_of = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    return sp.csr_matrix(matrix), row_of[missing].tolist(), labels.indices[missing].tolist()


def score(
    model: Any, Y: sp.csr_matrix, top: TopK, at: Sequence[int], a: float = 0.55, b: float = 1.5
) -> dict[str, dict[int, float]]:
    """P, R, nDCG, F1, PSP, PSnDCG and ECE of answers; PSP and PSnDCG only for a model that holds its label counts."""
    measures = {name: function(Y, top, at=at) for name, function in _PLAIN.items()}
    likely = _propensities(model, a, b, Y.shape[1])
    if likely is not None:
        weighed = {"PSP": metrics.psp, "PSnDCG": metrics.psndcg}
        measures |= {name: function(Y, top, likely, at=at) for name, function in weighed.items()}
    inner = inner_of(model)
    if getattr(inner, "tail", None) is None:
        raw = metrics.calibration_error(Y, model.bounded(top), at)
        if inner.calibrator_ is None:
            return measures | {"ECE": raw}
        measures["ECE raw"] = raw
        measures["ECE cal."] = metrics.calibration_error(Y, probabilities_of(model, top), at)
    return measures


def open_test(model: Any, flags: Mapping[str, Any]) -> TextInput | MatrixInput | None:
    """What ``--test`` names, refused before the work of training where it can be; None without the option."""
    path = flags["test"]
    if path is None:
        if flags["test_labels"] is not None:
            raise DataError("--test-labels goes with --test, which was not given.")
        return None
    if path == "-" == flags["train"]:
        raise DataError("stdin can't be both the training file and the --test file.")
    of_test = {"labels": flags["test_labels"], "format_": None, "usual_separator": None}  # a model there is another one
    source = input_for(model, flags["folder"], path, {**flags, **of_test})
    if isinstance(source, MatrixInput):
        source.read_labels()
    elif source.format in NO_LABELS:
        source.read()  # which says that such a file holds no labels
    return source


def save_trained(
    session: Session, model: Any, flags: Mapping[str, Any], test: TextInput | MatrixInput | None, words: str,
    checkpoint: Any = None,
) -> None:  # fmt: skip
    """Save a trained model, say so, and measure it on a ``--test`` file; the figures go into its manifest."""
    folder = flags["folder"]
    replaced = save_model(session, model, folder, flags, checkpoint)
    say(flags, f"{words} {folder} ({folder_size(folder)}).{replaced}")
    if test is None:
        return
    result = replace(measure(model, test, AT), learned_from=training_name(folder, test.path))
    store.annotate(folder, {MEASURED: {"on": text_name(test.path), **result.as_json()}})
    if not flags["quiet"]:
        result.show(AT)


CURVES_TO = 10  # the k that curves go to, at least


def draw_evaluation(paths: Sequence[str], model: Any, measured: Measured, folder: str, test: str) -> None:
    """Draw what ``sylvan evaluate`` measured of the model in ``folder`` on the file ``test``."""
    truth, top = measured.truth, measured.top
    assert top is not None
    panels: list[Any] = [partial(_draw_curves, truth, top, range(1, min(top.k, model.n_labels_) + 1))]
    if getattr(inner_of(model), "tail", None) is None:  # else scores are gains, not probabilities
        panels.append(partial(_draw_reliability, truth, probabilities_of(model, top), model.bounded(top)))
    if measured.slices:
        panels.append(partial(_draw_slices, {name: values["R"] for name, values in measured.slices.items()}))
    figures.draw_panels(paths, f"{os.path.basename(os.path.normpath(folder))} on {os.path.basename(test)}", panels)


def _draw_curves(truth: Any, top: Any, at: Sequence[int], axes: Any) -> None:
    curves = ("precision", metrics.precision, figures.BLUE, "o"), ("recall", metrics.recall, figures.ORANGE, "s")
    for name, metric, colour, marker in curves:
        values = [100 * value for value in metric(truth, top, at=at).values()]
        axes.plot(list(at), values, marker=marker, markersize=3.5, color=colour, label=name)
    axes.set(xlabel="k: labels answered a row", ylabel="percent", ylim=(0, 100), title="Precision and recall")
    figures.whole_numbers(axes)
    axes.legend(frameon=False)


def _draw_reliability(truth: Any, calibrated: Any, bounded: Any, axes: Any) -> None:
    tops = {"probabilities": calibrated, "before calibration": bounded}
    if np.array_equal(calibrated.scores, bounded.scores):
        del tops["before calibration"]
    axes.plot([0, 1], [0, 1], color=figures.GREY, linestyle=":", linewidth=1)
    for (name, top), colour in zip(tops.items(), (figures.BLUE, figures.GREY), strict=False):
        bins = metrics.reliability(truth, top, k=min(5, top.k), bins="mass")
        used = bins.counts > 0
        sizes = 10 + 90 * np.sqrt(bins.counts[used] / bins.counts.max())
        axes.plot(bins.predicted[used], bins.observed[used], color=colour, linewidth=1)
        axes.scatter(bins.predicted[used], bins.observed[used], s=sizes, color=colour, alpha=0.75, label=name)
    axes.set(xlabel="probability given", ylabel="share that is right", title="Reliability", aspect="equal")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, loc="upper left")


def _draw_slices(slices: dict[str, dict[int, float]], axes: Any) -> None:
    names, ks = list(slices), sorted(next(iter(slices.values())))
    full, width = np.array([int(figures.GREEN[i : i + 2], 16) / 255 for i in (1, 3, 5)]), 0.8 / len(ks)
    for number, (k, share) in enumerate(zip(ks, np.linspace(0.4, 1, len(ks)), strict=True)):
        places = np.arange(len(names)) - 0.4 + width * (number + 0.5)
        colour = tuple(1 - (1 - full) * share)  # greens, from light to full
        axes.bar(places, [100 * slices[name][k] for name in names], width * 0.95, color=colour, label=f"k = {k}")
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="recall, percent", ylim=(0, 100), title="Frequent and rare labels")
    axes.legend(frameon=False)


@click.command("evaluate")
@click.argument("model", metavar="MODEL")
@click.argument("test", metavar="TEST")
@click.option("-k", "at", multiple=True, default=("1", "3", "5"), callback=of.cutoffs, metavar="K",
              help="Cut-offs, such as -k 1,3,5 or -k 1 -k 10. [default: 1,3,5]")  # fmt: skip
@click.option("--json", "json_", metavar="FILE", help="Write the numbers to this file too (- for stdout alone).")
@click.option("--figure", "figures", multiple=True, metavar="FILE",
              help="Draw precision and recall against k, and reliability (.png, .svg, .pdf).")  # fmt: skip
@click.option("--threshold", type=of.Share(), default=0.5, show_default=True, metavar="P",
              help="F1 of the labels with at least this probability.")  # fmt: skip
@click.option("--propensity-a", type=click.FloatRange(min=0), default=0.55, show_default=True, metavar="A",
              help="A of the propensities; 0.6 for Amazon's sets, 0.5 for Wikipedia's.")  # fmt: skip
@click.option("--propensity-b", type=click.FloatRange(min=0), default=1.5, show_default=True, metavar="B",
              help="B of the propensities; 2.6 for Amazon's sets, 0.4 for Wikipedia's.")  # fmt: skip
@click.option("--per-label", metavar="FILE", help="Write how well each label does (.csv, .tsv or .jsonl).")
@click.option("--per-row", metavar="FILE", help="Write each row's figures, and the labels found, wrong and missed.")
@click.option("--groups", multiple=True, metavar="NAME",
              help="Figures by branch (of a --vocabulary with broader subjects), by frequency (of labels in training), "
              "or by a field of the records, such as language.")  # fmt: skip
@click.option("--compare", metavar="MODEL", help="Another model, or file of answers: is it better by more than chance?")
@of.known_labels_option
@of.ranking_option
@click.option("--filter-labels", metavar="FILE", help="Answers that don't count, one row and label per line (the XMC "
                                                      "repository's filter_labels_test.txt).")  # fmt: skip
@of.device_option
@of.subjects_options
@of.input_options
@of.config_option
def command(model: str, test: str, at: tuple[int, ...], json_: str | None, **flags: Any) -> None:
    """Measure the model in the folder MODEL on TEST (- for stdin), which also contains the correct labels.

    MODEL may be a file of answers, too, as predict writes it (.jsonl): its figures are P, R, nDCG and F1.

    All rows that have labels count, and all their labels: those that the model doesn't know are missed, unless
    --known-labels leaves them out. F1@k is the mean of the rows' F1 with their first k
    answers (Annif's F1@5); the line below the tables has the F1 of all labels with at least a probability, as the mean
    over rows, over all pairs of row and label (micro) and over labels (macro). PSP gives labels that are rare in
    training more weight.
    ECE is the difference between probabilities and the share that is correct (raw: before calibration). The second
    table is recall by the labels' frequency in training, in three groups with a third of all its labels each.

    --per-label, --per-row and --groups are of the first answers, as many as the largest -k; their intervals are by the
    bootstrap over rows. --compare shows two models side by side, over the same rows.

    \b
    Examples:
      sylvan evaluate runs/m test.jsonl
      sylvan evaluate runs/m test.jsonl --known-labels
      sylvan evaluate runs/m X.tst.npz --labels Y.tst.npz -k 1,3,5,10 --json result.json
      sylvan evaluate runs/m test.jsonl --threshold 0.3
      sylvan evaluate runs/m test.jsonl --figure result.svg --figure result.png
      sylvan evaluate runs/m test.jsonl --groups branch --groups language --vocabulary subjects.ttl
      sylvan evaluate runs/m test.jsonl --per-label labels.csv --per-row rows.csv
      sylvan evaluate runs/m test.jsonl --compare runs/n
    """
    keep_inputs("json_", "per_label", "per_row", "figures")
    check_figures(flags["figures"], filter(None, (flags["per_label"], flags["per_row"])))
    if test == "-" and flags["compare"] is not None:
        raise DataError("--compare reads the rows twice, and stdin can be read once: save them.")
    if flags["figures"] and os.path.isfile(model):
        raise DataError(f"--figure is for models, and {model} holds answers.")
    with quietly(flags):
        loaded, result, details = _detailed(model, test, at, flags)
        groups = {name: details.by_group(name) for name in flags["groups"]}
        for name, rows in (("per_label", details.by_label), ("per_row", details.by_row)):
            if flags[name] is not None:
                write_table(flags[name], rows())
        compared = None
        if flags["compare"]:
            _, second, of_second = _detailed(flags["compare"], test, at, flags)
            compared = side_by_side(details, of_second, at)
    if json_ is not None:
        extra = ({"groups": plain(groups)} if groups else {}) | ({} if compared is None else {"comparison": compared})
        write_text(json_, json.dumps(result.as_json() | extra, indent=2) + "\n")
    if flags["figures"]:
        draw_evaluation(flags["figures"], loaded, result, model, details.source.name)
    if json_ != "-":
        result.show(at, all_tables=True)
        for name, found in groups.items():
            show_groups(name, at[-1], found)
        if compared is not None:
            show_side_by_side(model, flags["compare"], compared, second.learned_words(f"{flags['compare']} (second)"))


def _detailed(model: str, test: str, at: tuple[int, ...], flags: Mapping[str, Any]) -> tuple[Any, Measured, Details]:
    """A model (None for a file of answers), what is measured of it, and what that is made of."""
    if os.path.isfile(model):
        if unused := next((name for name in ("known_labels", "filter_labels") if flags[name]), None):
            raise DataError(f"--{unused.replace('_', '-')} is for models, and {model} holds answers.")
        titles, source = read_titles({**flags, "vocabulary": flags["subjects"]}), open_input(test, flags)
        if not isinstance(source, TextInput):
            raise DataError(f"Answers in a file are to texts with labels, but {source.name} is {source.words}.")
        Y, top, names = read_answers(model, source, max(at))
        n_rows, rows = Y.shape[0], np.flatnonzero(np.diff(Y.indptr))
        Y, top = Y[rows], resized(TopK(top.labels[rows], top.scores[rows]), max(*at, top.k))
        measures, ends = {name: each(Y, top, at=at) for name, each in _PLAIN.items()}, metrics.intervals(Y, top, at)
        measured = Measured(measures, n_rows, len(rows), 0, 0, intervals=_by_cutoff(ends))
        return None, measured, Details(Y, top, at[-1], rows, names, titles, None, source)
    loaded = load_model(model, flags["settings"], flags["threads"], flags["device"])
    titles, flags = titles_for(loaded, flags)
    source = input_for(loaded, model, test, flags)
    result = measure(
        loaded, source, at, flags["propensity_a"], flags["propensity_b"], CURVES_TO if flags["figures"] else 0,
        flags["filter_labels"], flags["threshold"], flags["known_labels"],
    )  # fmt: skip
    name = training_name(model, source.path)
    result = replace(result, learned_from=name, learned=learned_rows(loaded, source) if name is None else (0, 0))
    assert result.top is not None
    counts, codes = _label_counts(loaded, result.truth.shape[1]), [*codes_of(loaded), *map(str, result.others)]
    return loaded, result, Details(result.truth, result.top, at[-1], result.rows, codes, titles, counts, source)
