"""What a text model keeps of its labels' texts: how labels are ranked by them, and how they are brought up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, stacked, take_rows
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK, answers_of
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.labels.names import label_name
from sylvan.labels.targets import grown_labels, need_as_many
from sylvan.models.base import CANDIDATES, Estimator
from sylvan.models.encoders import encoded
from sylvan.models.label_texts.text_evidence import (
    TextScorer,
    WordContexts,
    fitted_curve,
    has_text,
    joined,
    n_evidence,
    row_means,
)
from sylvan.ranking.calibrate import holdout_folds
from sylvan.ranking.tail import label_gains, reweigh, tail_of
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

_Vectors = npt.NDArray[np.float16]
KIND = "label-texts"
MOST_JUDGED = 2_000  # rows that the curve is fitted to, of which it takes four numbers
_Ids = npt.NDArray[np.int32]
NamedTexts = dict[str, str]


@dataclass(frozen=True, eq=False)
class LabelVectors:
    """Vectors of length 1, in half precision."""

    labels: _Vectors  # shape (n_labels, dim): of each label's text; zeros where it has none
    # shape (m,): the ids of the training rows that the curve is fitted to, rising; none in a model that keeps no rows,
    # whose curve stays as it is
    judged: npt.NDArray[np.int64]
    rows: _Vectors  # shape (m, dim): of these rows' texts

    @classmethod
    def empty(cls, n_labels: int, judged: npt.NDArray[np.int64], rows: _Vectors) -> LabelVectors:
        """Of labels without texts."""
        return cls(np.zeros((n_labels, rows.shape[1]), np.float16), judged, rows)

    def grown(self, n_labels: int) -> LabelVectors:
        """With more labels, without texts."""
        more = np.zeros((n_labels - len(self.labels), self.labels.shape[1]), np.float16)
        return replace(self, labels=np.concatenate((self.labels, more)))

    def with_labels(self, labels: npt.NDArray[Any], vectors: npt.NDArray[Any] | None) -> LabelVectors:
        """With other vectors for some labels, or with none."""
        changed = self.labels.copy()
        changed[labels] = 0 if vectors is None else vectors
        return replace(self, labels=changed)

    def left_with(self, ids: npt.NDArray[np.int64]) -> LabelVectors:
        """When other training rows are forgotten."""
        there = np.isin(self.judged, ids)
        return replace(self, judged=self.judged[there], rows=self.rows[there])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays to store."""
        return {"vectors.labels": self.labels, "vectors.judged": self.judged, "vectors.rows": self.rows}

    @classmethod
    def from_state(cls, state: store.State, n_labels: int) -> LabelVectors | None:
        """From what :meth:`to_arrays` gave, verified; None where there is nothing."""
        if "vectors.labels" not in state.arrays:
            return None
        labels = store.need_array(state, "vectors.labels", np.float16, (n_labels, None))
        judged = store.need_rising(state, "vectors.judged", 0, 2**62, np.int64)
        rows = store.need_array(state, "vectors.rows", np.float16, (len(judged), labels.shape[1]))
        for name in ("vectors.labels", "vectors.rows"):
            store.need_finite(state, name)
        return cls(labels, judged, rows)


@dataclass(frozen=True)
class Described:
    """What fit was told of labels' texts."""

    labels: NamedTexts
    judged: list[str]  # the texts of the rows that the curve is fitted to, where they have to be encoded
    encoder: TextEncoder | None  # what encodes these, and the labels' texts


def named_texts(label_texts: Any, names: Iterable[str]) -> NamedTexts:
    """The text of each label that has one, from a caller's ``label_texts``."""
    if isinstance(label_texts, str) and label_texts == "names":
        return {name: name for name in names}
    if not isinstance(label_texts, Mapping):
        raise DataError(
            f"label_texts must be a mapping of labels to texts, or 'names'. Got {type(label_texts).__name__} instead."
        )
    result: NamedTexts = {}
    for name, text in label_texts.items():
        parts = [text] if isinstance(text, str) else text
        fine = isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts)
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer) or not fine:
            raise DataError(
                f"label_texts must give a string, or a list of strings, for each label. "
                f"Got {text!r:.60} for label {name!r:.60} instead."
            )
        result[label_name(str(name))] = " ".join(parts)
    return dict(sorted(result.items()))  # rows are in this order, whatever the mapping's


@dataclass(frozen=True, eq=False)
class LabelTexts:
    """What a text model keeps of its labels' texts."""

    # shape (n_labels, n_features): the features of each label's text; empty where it has none, or no known word
    texts: Csr
    # shape (m,): the ids of the training rows that are labels' texts; -1 in a model that keeps no rows
    rows: npt.NDArray[np.int64]
    # shape (m,): the labels of these rows; of several rows of a label, which is then merged, the first is its own text
    labels: _Ids
    contexts: WordContexts  # what rows look like whose labels have a word in their texts
    # shape (4,) or with vectors (6,), or None: what makes probabilities of `TextScorer`'s evidence; None where there
    # were too few rows to learn it from
    curve: npt.NDArray[np.float64] | None
    vectors: LabelVectors | None = None  # of a model with a text encoder for its labels

    def learned_from(
        self, features: Csr, truth: Csr, weight: npt.NDArray[np.float32] | None, judged: _Ids,
        vectors: npt.NDArray[np.float16] | None, n_jobs: int | None,
    ) -> LabelTexts:  # fmt: skip
        """With contexts and curve of training rows, of which none is a label's text."""
        # Shapes: features, truth (n, d); weight (n,); judged (m,); vectors (m, dim)
        both = None if self.vectors is None or vectors is None else (self.vectors.labels, vectors)
        curve = fitted_curve(features, truth, self.texts, judged, weight, n_jobs, both)
        means = row_means(features.to_scipy(), truth.to_scipy(), n_jobs)
        return replace(self, contexts=WordContexts.of(means, self.texts.to_scipy()), curve=curve)

    @classmethod
    def empty(cls, n_labels: int, n_features: int) -> LabelTexts:
        """Of labels without texts."""
        none, contexts = Csr.empty(n_labels, n_features), WordContexts.none(n_features)
        return cls(none, np.zeros(0, np.int64), np.zeros(0, np.int32), contexts, None)

    def text_counts(self) -> npt.NDArray[np.int64]:
        """How many of each label's training rows are texts of its own."""
        return np.bincount(self.labels, minlength=self.texts.shape[0]).astype(np.int64)

    def unlearned(self, counts: npt.NDArray[np.int64]) -> _Ids:
        """The labels that are known by their texts alone, by how many training rows each has; rising."""
        described = has_text(self.texts, None if self.vectors is None else self.vectors.labels)
        return np.flatnonzero(described & (counts <= self.text_counts())).astype(np.int32)

    def scorer(self, labels: _Ids) -> TextScorer:
        """What scores some labels by their texts."""
        vectors = None if self.vectors is None else self.vectors.labels
        return TextScorer(self.texts, labels, self.contexts, vectors=vectors)

    def grown(self, n_labels: int, n_features: int) -> LabelTexts:
        """With more labels, without texts, and more columns."""
        more = np.full(n_labels - self.texts.shape[0], self.texts.indptr[-1])
        texts = self.texts._replace(indptr=np.concatenate((self.texts.indptr, more)), shape=(n_labels, n_features))
        vectors = None if self.vectors is None else self.vectors.grown(n_labels)
        return replace(self, texts=texts, contexts=self.contexts.widened(n_features), vectors=vectors)

    def with_texts(self, texts: Csr, labels: _Ids, rows: npt.NDArray[np.int64]) -> LabelTexts:
        """With other texts for some labels, one a row of ``texts``, and the ids of these rows."""
        left = self._less(labels)
        order = np.argsort(labels, kind="stable")
        place = sp.csr_matrix(
            (np.ones(len(labels), np.float32), (labels[order], order)), shape=(left.texts.shape[0], len(labels))
        )
        both = sp.csr_matrix(left.texts.to_scipy() + place @ texts.to_scipy())
        both.sort_indices()
        return replace(
            left, texts=Csr.of(both), rows=np.concatenate((left.rows, rows)),
            labels=np.concatenate((left.labels, labels)).astype(np.int32),
        )  # fmt: skip

    def merged(self, merges: Mapping[int, Iterable[int]]) -> LabelTexts:
        """When labels become others: their texts are rows of these, whose own texts stay."""
        becomes = np.arange(self.texts.shape[0], dtype=np.int32)
        for into, labels in merges.items():
            becomes[list(labels)] = into
        order = np.argsort(becomes[self.labels] != self.labels, kind="stable")  # a label's own text comes first
        return replace(self, rows=self.rows[order], labels=becomes[self.labels][order])

    def left_with(self, ids: npt.NDArray[np.int64]) -> LabelTexts:
        """When other training rows are forgotten: a text goes with its row, and what is known of its words."""
        there = np.isin(self.rows, ids)
        labels, first = np.unique(self.labels, return_index=True)
        left = self.without(labels[~there[first]])
        if left.vectors is not None:
            left = replace(left, vectors=left.vectors.left_with(ids))
        return replace(left, rows=self.rows[there], labels=self.labels[there])

    def without(self, labels: npt.NDArray[Any]) -> LabelTexts:
        """Without the texts of some labels, and without what is known of their words."""
        gone = np.isin(np.arange(self.texts.shape[0]), labels)
        words = self.texts.indices[np.repeat(gone, np.diff(self.texts.indptr))]
        left = self._less(labels)
        return replace(left, contexts=left.contexts.without(np.unique(words)))

    def _less(self, labels: npt.NDArray[Any]) -> LabelTexts:
        """Without the texts of some labels, and their rows."""
        kept = np.repeat(~np.isin(np.arange(self.texts.shape[0]), labels), np.diff(self.texts.indptr))
        indptr = np.concatenate(([0], np.cumsum(kept)))[self.texts.indptr].astype(np.int64)
        texts = Csr(indptr, self.texts.indices[kept], self.texts.data[kept], self.texts.shape)
        stays = ~np.isin(self.labels, labels)
        vectors = None if self.vectors is None else self.vectors.with_labels(labels, None)
        return replace(self, texts=texts, rows=self.rows[stays], labels=self.labels[stays], vectors=vectors)

    def to_state(self) -> store.State:
        """All of it as arrays."""
        arrays: dict[str, npt.NDArray[Any]] = {
            f"texts.{name}": getattr(self.texts, name) for name in ("indptr", "indices", "data")
        }
        arrays |= {"rows": self.rows, "labels": self.labels, **self.contexts.to_arrays()}
        if self.curve is not None:
            arrays["curve"] = self.curve
        if self.vectors is not None:
            arrays |= self.vectors.to_arrays()
        return store.State(KIND, 1, {}, {}, arrays)

    @classmethod
    def from_state(cls, state: store.State, n_labels: int, n_features: int) -> LabelTexts:
        """From :meth:`to_state`'s result, verified."""
        store.need_kind(state, KIND)
        labels = store.need_range(state, "labels", 0, n_labels - 1, np.int32, (None,))
        rows = store.need_range(state, "rows", -1, 2**62, np.int64, (len(labels),))
        curve, vectors = None, LabelVectors.from_state(state, n_labels)
        if "curve" in state.arrays:
            curve = store.need_array(state, "curve", np.float64, (1 + n_evidence(vectors is not None),))
            store.need_finite(state, "curve")
        texts = store.need_csr(state, "texts", (n_labels, n_features))
        return cls(texts, rows, labels, WordContexts.from_state(state, n_features), curve, vectors)


def judged_rows(n: int, weight: npt.NDArray[np.float32] | None) -> _Ids:
    """Which of n training rows the curve is fitted to, rising; none where there are too few rows."""
    folds = holdout_folds(n, 1, weight, MOST_JUDGED)
    return folds[0].astype(np.int32) if folds else np.zeros(0, np.int32)


def with_text_rows(
    features: Csr, labels: Csr, weight: npt.NDArray[np.float32] | None, texts: Csr, of: _Ids
) -> tuple[Csr, Csr, npt.NDArray[np.float32] | None]:
    """Training rows and, below them, labels' texts as rows of their labels, of weight 1."""
    own = Csr(
        np.arange(len(of) + 1, dtype=np.int64), of.astype(np.int32), np.ones(len(of), np.float32),
        (len(of), labels.shape[1]),
    )  # fmt: skip
    weights = None if weight is None else np.concatenate((weight, np.ones(len(of), np.float32)))
    return stacked(features, texts), stacked(labels, own), weights


def with_names_of(vocabulary: Vocabulary, texts: Mapping[str, str]) -> Vocabulary:
    """The label names with those that have a text alone behind them, in alphabetical order."""
    new = sorted(name for name in texts if name not in vocabulary)
    return vocabulary.extended(new)


def fitted_texts(
    vectorizer: TfidfVectorizer, keeps_rows: bool, X: Any, Y: Any, sample_weight: Any, vocabulary: Vocabulary,
    described: Described,
) -> tuple[Any, Any, Any, LabelTexts]:  # fmt: skip
    """The training rows with labels' texts below them, and what is kept of these texts."""
    features, truth = validate.pair(X, Y, owner="TextModel")
    weight = validate.sample_weight(sample_weight, features.shape[0])
    truth = truth._replace(shape=(truth.shape[0], len(vocabulary)))
    texts = vectorizer.transform_rows(list(described.labels.values()))
    labels = np.array([vocabulary.id(name) for name in described.labels], np.int32)
    seen = np.bincount(truth.indices, minlength=len(vocabulary)) > 0
    kept = np.flatnonzero((np.diff(texts.indptr) > 0) | ~seen[labels])  # a label needs a row
    n, n_jobs, judged = features.shape[0], vectorizer.n_jobs, judged_rows(features.shape[0], weight)
    rows_of_texts = take_rows(texts, kept)
    ids = np.arange(n, n + len(kept)) if keeps_rows else np.full(len(kept), -1)
    known = LabelTexts.empty(len(vocabulary), features.shape[1])
    known, of_rows = known.with_texts(rows_of_texts, labels[kept], ids.astype(np.int64)), None
    if (encoder := described.encoder) is not None:
        of_rows = encoded(encoder, described.judged, n_jobs, "Encoding texts of rows").astype(np.float16)
        again = slice(None if keeps_rows else 0)  # a curve is fitted again where rows are kept
        vectors = LabelVectors.empty(len(vocabulary), judged[again].astype(np.int64), of_rows[again])
        of_texts = encoded(encoder, list(described.labels.values()), n_jobs, "Encoding texts of labels")
        known = replace(known, vectors=vectors.with_labels(labels, of_texts))
    known = known.learned_from(features, truth, weight, judged, of_rows, n_jobs)
    rows, truth, weight = with_text_rows(features, truth, weight, rows_of_texts, labels[kept])
    return rows.to_scipy(), truth.to_scipy(), weight, known


class Query(NamedTuple):
    """Texts to rank: their features, and the label encoder's vectors where labels are scored by such."""

    rows: Csr
    vectors: npt.NDArray[np.float32] | None
    answered: npt.NDArray[np.bool_]  # those that get labels that rows have taught
    readable: npt.NDArray[np.bool_]  # those that get others

    @classmethod
    def of(
        cls, texts: list[str], rows: Csr, vectors: npt.NDArray[np.float32] | None, answered: npt.NDArray[np.bool_]
    ) -> Query:
        """An encoder knows something of every text that isn't blank."""
        if vectors is None:
            return cls(rows, vectors, answered, answered)
        readable = np.fromiter((not text.isspace() and text != "" for text in texts), bool, len(texts))
        return cls(rows, vectors, answered, answered | readable)


@dataclass(frozen=True, eq=False)
class LabelTextRanker:
    """Joins answers with labels that are known by their texts alone to those of a model that knows the others."""

    known: LabelTexts
    counts: npt.NDArray[np.int64]  # how many training rows each label has
    labels: _Ids  # those that are known by their texts alone, rising; at least one

    @cached_property
    def scorer(self) -> TextScorer:
        """What scores these labels."""
        return self.known.scorer(self.labels)

    def rank(self, model: Estimator, query: Query, k: int, options: dict[str, Any]) -> TopK:
        """The ``k`` best labels of either kind, by the options of the model's ``rank``."""
        options, n_labels = dict(options), len(self.counts)
        allowed, denied = options.pop("allowed", None), options.pop("denied", None)
        labels = LabelFilter.of(allowed, denied, n_rows=query.rows.shape[0], n_labels=n_labels)
        if not hasattr(model, "tail"):
            return self._joined(model, query, k, labels, options)
        tail = tail_of(model.tail, options.pop("tail", None))
        options["tail"] = "none"
        if tail is None:
            return self._joined(model, query, k, labels, options)
        gains = label_gains(tail, model.label_counts_, model.n_rows_)
        return reweigh(self._joined(model, query, max(k, CANDIDATES), labels, options), gains, k)

    def _joined(
        self, model: Estimator, query: Query, k: int, labels: LabelFilter | None, options: dict[str, Any]
    ) -> TopK:
        """Probabilities of the model's labels and of those that are known by their texts."""
        assert self.known.curve is not None
        n_labels = len(self.counts)
        everything = LabelFilter(False, np.zeros(0, np.int32), None, n_labels)
        learned = (everything if labels is None else labels).denying(self.labels)
        first = model.probabilities(model.rank(query.rows, min(k, n_labels), **learned.as_given(), **options))
        second = self.scorer.rank(query.rows, k, self.known.curve, labels, query.vectors)
        return joined(answers_of(first, query.answered), answers_of(second, query.readable), k)


def rankers_of(model: Estimator) -> list[Estimator]:
    """The models that were trained on the rows; an ensemble's members have the same counts of them."""
    return list(getattr(model, "members", ())) or [model]


def label_counts(model: Estimator) -> npt.NDArray[np.int64]:
    """How many training rows each label has."""
    counts: npt.NDArray[np.int64] = np.maximum.reduce([each.label_counts_ for each in rankers_of(model)])
    return counts


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
