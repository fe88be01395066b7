"""What the training of a text model would need: time, memory and the size of the model."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import take_rows
from sylvan.errors import ParameterError
from sylvan.labels.targets import encode_labels, names_for, need_as_many
from sylvan.models.encoders import encoded, encoder_bytes, opened_encoder
from sylvan.models.xr.estimate import TrainingSize
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import resolve_jobs
from sylvan.runtime.memory import resident_bytes
from sylvan.runtime.plan import Phase, Plan, state_bytes, timed
from sylvan.text.estimate import estimate_texts

_TIMED_TEXTS = 64  # of each kind that go through an encoder to see how long it takes


def need_plan(model: Any) -> None:
    """Say that a model's training can't be estimated, if that is so."""
    if not hasattr(model, "plan"):
        raise ParameterError(
            f"{type(model).__name__} has no plan: only trainings of XRLinear and BeamTreeClassifier can be estimated."
        )


def text_plan(vectorizer: Any, model: Any, texts: list[str], label_lists: Any, options: dict[str, Any]) -> Plan:
    """The plan of a text model: its features are made by a copy of the vectoriser, the rest is its model's plan."""
    need_plan(model)
    if isinstance(model, XRLinear):
        return _sampled_plan(vectorizer, model, texts, label_lists, options)
    vocabulary, Y = encode_labels(label_lists)
    vectorizer, before = copy.copy(vectorizer), resident_bytes()
    with timed(resolve_jobs(vectorizer.n_jobs)) as clock:
        X = vectorizer.fit_transform_rows(texts).to_scipy()
    phase = Phase("features", clock.seconds, max(0, resident_bytes() - before))
    plan: Plan = model.plan(X, Y, **options, **names_for(model, vocabulary))
    return plan.after(phase, state_bytes(vectorizer.to_state()) + state_bytes(vocabulary.to_state()))


def with_encoding(plan: Plan, source: Any, labels: list[str], rows: list[str], n_jobs: int | None) -> Plan:
    """A plan with an encoder of labels, by which the texts of ``labels`` and of ``rows`` are encoded."""
    seconds, dim = 0.0, 0
    with timed(1) as opening:
        encoder = opened_encoder(source)
        dim = encoded(encoder, labels[:1], n_jobs).shape[1]  # what happens once
    for texts in (labels, rows):
        some = texts[:: max(1, len(texts) // _TIMED_TEXTS)]
        with timed(1) as clock:
            encoded(encoder, some, n_jobs)
        seconds += clock.seconds * len(texts) / max(1, len(some))
    weights = encoder_bytes(encoder)
    vectors = 2 * dim * len(labels)
    phase = Phase("encoding", opening.seconds + seconds, weights + 4 * vectors)
    plan = replace(plan, peak_bytes=plan.peak_bytes + phase.peak_bytes)  # the encoder stays
    return plan.after(phase, weights + vectors)


def _sampled_plan(
    vectorizer: Any, model: XRLinear, texts: list[str], label_lists: Any, options: dict[str, Any]
) -> Plan:
    """As :func:`text_plan`; of the texts no more than a sample is read."""
    listed, resident = _ListedLabels(label_lists), resident_bytes()
    need_as_many(len(texts), listed.n_rows)
    seen = estimate_texts(vectorizer, texts)
    ids_matter = model.tree is not None or any(
        options.get(name) is not None for name in ("label_features", "label_embeddings")
    )
    Y, name_bytes = listed.of(seen.rows, ids_matter)
    weight = validate.sample_weight(options.get("sample_weight"), len(texts))
    if weight is not None:
        options["sample_weight"] = weight[seen.rows]
    phase = Phase("features", seen.seconds, seen.peak_bytes)
    full_size = None
    if len(seen.rows) < len(texts):
        full_size = TrainingSize(len(texts), listed.n_labels, seen.n_terms, seen.n_entries, listed.n_positives)
    plan = model.plan(seen.features, Y, whole=full_size, **options)
    plan = replace(plan, peak_bytes=max(plan.peak_bytes, resident + seen.peak_bytes))
    return plan.after(phase, seen.vectorizer_bytes + name_bytes)


class _ListedLabels:
    """Labels as ``fit`` is given them, counted; only those of some rows are encoded."""

    def __init__(self, label_lists: Any) -> None:
        self._lists: list[list[str]] | None = None
        if isinstance(label_lists, list) and all(type(row) is list for row in label_lists):
            with contextlib.suppress(TypeError):  # of items that aren't hashable
                names = set().union(*label_lists)
                if all(type(name) is str for name in names):
                    self._lists, self.n_rows, self.n_labels = label_lists, len(label_lists), len(names)
                    self.n_positives = sum(map(len, label_lists))
        if self._lists is None:
            self._vocabulary, self._matrix = encode_labels(label_lists)
            self.n_rows, self.n_labels = self._matrix.shape
            self.n_positives = int(self._matrix.nnz)

    def of(self, rows: npt.NDArray[np.int64], ids_matter: bool) -> tuple[Any, int]:
        """The matrix of some rows' labels, by their ids among all if these matter, and the bytes of all names."""
        if self._lists is None or ids_matter:
            vocabulary, matrix = encode_labels(self._lists) if self._lists else (self._vocabulary, self._matrix)
            listed = validate.labels(matrix)
            taken = take_rows(listed, _labelled(rows, np.diff(listed.indptr))).to_scipy()
            return taken, state_bytes(vocabulary.to_state())
        some = [self._lists[row] for row in _labelled(rows, np.fromiter(map(len, self._lists), np.int64))]
        vocabulary, matrix = encode_labels(some)
        return matrix, state_bytes(vocabulary.to_state()) * self.n_labels // max(1, len(vocabulary))


def _labelled(rows: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The rows; as many of those that have labels, where none of them has one."""
    if counts[rows].any() or not counts.any():
        return rows
    return np.resize(np.flatnonzero(counts), len(rows))
