"""Measuring a saved model: what ``evaluate`` and ``demo`` print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import metrics
from sylvan.cli.inputs import MatrixInput, TextInput
from sylvan.cli.matrices import widened
from sylvan.cli.saved import rank_blocks
from sylvan.errors import DataError
from sylvan.models.text import TextModel
from sylvan.parallel import progress
from sylvan.topk import TopK

__all__ = ["Measured", "measure", "score"]


@dataclass(frozen=True)
class Measured:
    """Measures by name and cut-off, as fractions, and what they were taken over."""

    measures: dict[str, dict[int, float]]
    n_rows: int
    n_measured: int
    n_unknown: int
    unknown: int
    without_psp: bool = False

    def notes(self) -> list[str]:
        """What a reader has to know beside the numbers."""
        notes = [f"Percentages over {self.n_measured:,} rows with at least one label that the model knows."]
        left_out = self.n_rows - self.n_measured
        if left_out:
            notes.append(f"{left_out:,} rows without such a label are left out.")
        if self.unknown:
            notes.append(f"{self.unknown:,} labels ({self.n_unknown:,} different) were not known from training.")
        if self.without_psp:
            notes.append("PSP is left out: the model does not hold how often each label occurred in training.")
        return notes

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "measures": {name: {str(k): v for k, v in values.items()} for name, values in self.measures.items()},
            "rows": self.n_rows,
            "rows_measured": self.n_measured,
            "labels_unknown": self.unknown,
            "distinct_labels_unknown": self.n_unknown,
        }


def measure(
    model: Any, source: TextInput | MatrixInput, at: Sequence[int], a: float = 0.55, b: float = 1.5
) -> Measured:
    """Rank every row of ``source`` and hold the answers against its labels.

    Parameters
    ----------
    model : Estimator
    source : TextInput or MatrixInput
    at : sequence of int
        The cut-offs.
    a, b : float
        A and B of the propensities.

    Raises
    ------
    DataError
        When the file holds no labels, or none that the model knows.
    """
    tops, known = [], []
    unknown, unknown_names, n_rows = 0, set(), 0
    given = source.read_labels() if isinstance(source, MatrixInput) else None
    with progress("ranking", None, "row") as bar:
        for top, _, labels in rank_blocks(model, source, max(at), with_labels=True):
            rows = slice(n_rows, n_rows + len(top))
            n_rows += len(top)
            Y, missing = _known_part(model, labels if given is None else given[rows])
            unknown += len(missing)
            unknown_names.update(missing)
            kept = np.diff(Y.indptr) > 0
            tops.append(_padded(top.labels[kept], top.scores[kept], max(at)))
            known.append(Y[kept])
            bar.update(len(top))
    if given is not None and given.shape[0] != n_rows:
        raise DataError(f"{source.name} has {n_rows} rows, but its labels {given.shape[0]}.")
    n_measured = sum(len(top) for top in tops)
    if not n_measured:
        raise DataError(f"{source.name}: no row has a label that the model knows.")
    Y = sp.vstack(known, format="csr")
    top = TopK(np.concatenate([t.labels for t in tops]), np.concatenate([t.scores for t in tops]))
    measures = score(model, Y, top, at, a, b)
    return Measured(measures, n_rows, n_measured, len(unknown_names), unknown, "PSP" not in measures)


def _padded(labels: Any, scores: Any, k: int) -> TopK:
    """Answers with at least ``k`` places a row, which those of a model with fewer labels do not have."""
    missing = ((0, 0), (0, max(0, k - labels.shape[1])))
    return TopK(np.pad(labels, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf))


def _known_part(model: Any, labels: Any) -> tuple[sp.csr_matrix, list[Any]]:
    """The labels that the model has, as a matrix, and the others one by one."""
    n_labels = model.n_labels_
    if isinstance(model, TextModel):
        vocabulary = model.vocabulary_
        missing = [name for row in labels for name in row if vocabulary.get(name) is None]
        return vocabulary.encode(labels, unknown="ignore"), missing
    Y = widened(labels, n_labels)
    missing = Y.indices[Y.indices >= n_labels].tolist()
    return sp.csr_matrix(Y[:, :n_labels]), missing


def score(
    model: Any, Y: sp.csr_matrix, top: TopK, at: Sequence[int], a: float = 0.55, b: float = 1.5
) -> dict[str, dict[int, float]]:
    """P, R, nDCG, PSP and PSnDCG of answers; the last two only for a model that holds its label counts."""
    measures = {
        "P": metrics.precision(Y, top, at=at),
        "R": metrics.recall(Y, top, at=at),
        "nDCG": metrics.ndcg(Y, top, at=at),
    }
    inner = model.model if isinstance(model, TextModel) else model
    counts, n_rows = getattr(inner, "label_counts_", None), getattr(inner, "n_rows_", None)
    if counts is not None and n_rows is not None:
        likely = metrics.propensities_of_counts(counts, n_rows, a, b)
        measures["PSP"] = metrics.psp(Y, top, likely, at=at)
        measures["PSnDCG"] = metrics.psndcg(Y, top, likely, at=at)
    return measures
