"""A text model brought up to date: texts that come and go, labels that come with rows or with nothing but a text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.labels.targets import grown_labels, need_as_many
from sylvan.models.base import Estimator
from sylvan.models.label_texts.answers import rankers_of
from sylvan.models.label_texts.label_texts import LabelTexts, judged_rows, named_texts, with_names_of, with_text_rows
from sylvan.models.label_texts.word_contexts import WordContexts
from sylvan.text import TfidfVectorizer


@dataclass(frozen=True)
class TextParts:
    """What a fitted text model is made of."""

    vectorizer: TfidfVectorizer
    model: Estimator
    vocabulary: Vocabulary
    label_texts: LabelTexts | None  # of a model whose labels have texts


@dataclass(frozen=True)
class Request:
    """What an update is to do, in the model's own terms."""

    vectorizer: TfidfVectorizer
    vocabulary: Vocabulary
    given: tuple[Any, Any, Any]  # X, Y and sample_weight of the model's update; texts of labels are their last rows
    options: dict[str, Any]  # of the model's update
    texts: Csr  # shape (m, d): the features of labels' texts that come
    labels: npt.NDArray[np.int32]  # shape (m,): whose they are
    # labels that are given texts, and the label encoder's vectors of these, in a model whose labels have such
    vectors: tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]] | None


def requested(
    parts: TextParts, texts: list[str] | None, Y: Any, sample_weight: Any, label_texts: Any, options: dict[str, Any],
    encode: Callable[[list[str]], npt.NDArray[np.float32]],
) -> Request:  # fmt: skip
    """The arguments in the model's own terms, verified as far as they are texts and names."""
    matrix, known, removed = Y, parts.label_texts, parts.model.removed_labels_
    vectorizer, names, described = parts.vectorizer, parts.vocabulary, {}
    if label_texts is not None:
        left_out = set(removed.tolist())
        described = named_texts(label_texts, (name for label, name in enumerate(names) if label not in left_out))
    vocabulary = with_names_of(names, described)
    if texts is not None and Y is not None:
        grown, matrix = grown_labels(names, len(names), Y, described)
        assert grown is not None
        vocabulary = grown
        need_as_many(len(texts), matrix.shape[0])
        n_rows = max(each.n_rows_ for each in rankers_of(parts.model)) - (0 if known is None else len(known.labels))
        vectorizer = vectorizer.with_terms_of(texts, n_rows)
        options = {**options, "n_features": vectorizer.n_terms_}
    labels = np.array([vocabulary.id(name) for name in described], np.int32)
    gone = np.intersect1d(labels, removed)
    if len(gone):
        raise DataError(f"label_texts has label {vocabulary[int(gone[0])]!r}, which was removed before.")
    rows = vectorizer.transform_rows(list(described.values()))
    kept = np.flatnonzero((np.diff(rows.indptr) > 0) | (labels >= parts.model.n_labels_))  # a new label needs a row
    vectors = None
    if len(labels) and known is not None and known.vectors is not None:
        vectors = labels, encode(list(described.values()))
    rows, labels = take_rows(rows, kept), labels[kept]
    features = None if texts is None else vectorizer.transform_rows(texts)
    given: tuple[Any, Any, Any] = features, matrix, sample_weight
    if len(labels) and (features is None) == (matrix is None):
        given = _with_texts_below(features, matrix, sample_weight, rows, labels, len(vocabulary))
        options = {**options, **_forgotten(parts, labels, options)}
    return Request(vectorizer, vocabulary, given, options, rows, labels, vectors)


def _with_texts_below(
    features: Csr | None, matrix: Any, sample_weight: Any, texts: Csr, labels: npt.NDArray[np.int32],
    n_labels: int,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The new rows, if there are any, and labels' texts as rows below them."""
    if features is None:
        features, matrix = Csr.empty(0, texts.shape[1]), Csr.empty(0, n_labels).to_scipy()
    truth = validate.labels(matrix)
    truth = truth._replace(shape=(truth.shape[0], n_labels))
    weight = validate.sample_weight(sample_weight, features.shape[0])
    rows, truth, weight = with_text_rows(features, truth, weight, texts, labels)
    return rows, truth.to_scipy(), weight


def _forgotten(parts: TextParts, labels: npt.NDArray[np.int32], options: dict[str, Any]) -> dict[str, Any]:
    """What makes the model forget the texts that labels have had until now."""
    known = parts.label_texts
    if known is None:
        return {}
    old = known.rows[np.isin(known.labels, labels)]
    kept: Any = getattr(parts.model, "training_rows_", None)
    if len(old) and (kept is None or (old < 0).any()):
        name = parts.vocabulary[int(known.labels[np.isin(known.labels, labels)][0])]
        raise DataError(
            f"label_texts gives label {name!r} another text, but the model keeps no rows and can't forget the one "
            "that it has."
        )
    if not len(old):
        return {}
    forget = options.get("forget")
    return {"forget": old if forget is None else np.union1d(kept.ids[kept.rows_of(forget)], old)}


def with_known_texts(known: LabelTexts, features: Csr, truth: Csr, n_labels: int) -> tuple[Csr, Csr]:
    """All rows of a model that keeps none, as its own model takes them: the texts of labels are the last ones."""
    own = take_rows(known.texts, known.labels)
    truth = truth._replace(shape=(truth.shape[0], n_labels))
    features, truth, _ = with_text_rows(features, truth, None, own, known.labels)
    return features, truth


def texts_after(
    known: LabelTexts | None, request: Request, model: Any, gone: npt.NDArray[np.int32]
) -> LabelTexts | None:
    """The texts of labels after an update; learned from the rows again where some are forgotten, or texts come."""
    if known is None and not len(request.labels):
        return None
    n_labels, n_features = model.n_labels_, model.n_features_
    kept = getattr(model, "training_rows_", None)
    ids = np.full(len(request.labels), -1) if kept is None else kept.ids[len(kept.ids) - len(request.labels) :]
    if known is None:
        known = LabelTexts.empty(n_labels, n_features)
    known = known.grown(n_labels, n_features)
    if len(request.labels):
        known = known.with_texts(request.texts, request.labels, ids.astype(np.int64))
    if request.vectors is not None and known.vectors is not None:
        known = replace(known, vectors=known.vectors.with_labels(*request.vectors))
    known = known.merged(request.options.get("merge") or {})
    if kept is not None:
        known = known.left_with(kept.ids)
    if len(gone):
        known = known.without(gone)
    forgets = request.options.get("forget") is not None
    if kept is not None and (forgets or len(gone) or len(request.labels)):
        real = np.flatnonzero(~np.isin(kept.ids, known.rows))
        features, labels, weight = kept.taken(real)
        judged, vectors = judged_rows(features.shape[0], weight), None
        if known.vectors is not None:  # of other rows there are no texts any more
            judged = np.flatnonzero(np.isin(kept.ids[real], known.vectors.judged)).astype(np.int32)
            vectors = known.vectors.rows[np.searchsorted(known.vectors.judged, kept.ids[real][judged])]
        return known.learned_from(features, labels, weight, judged, vectors, model.n_jobs)
    return replace(known, contexts=WordContexts.none(n_features)) if forgets else known
