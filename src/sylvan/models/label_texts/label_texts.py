"""What a text model keeps of its labels' texts: how labels are ranked by them, and how they are brought up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK, answers_of
from sylvan.arrays.types import Array, Bool, Float16, Float32, Float64, Int32, Int64
from sylvan.data import Vocabulary
from sylvan.data.label_terms import named_texts
from sylvan.errors import DataError, warn_data
from sylvan.labels.targets import grown_labels, need_as_many, need_uris
from sylvan.models.base import CANDIDATES, Estimator
from sylvan.models.encoders import OF_LABELS, EncodedLabels, ModelEncoder, encoded
from sylvan.models.label_changes import denying, rows_by_id
from sylvan.models.label_texts import name_rows, text_evidence
from sylvan.models.label_texts.name_rows import with_text_rows
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import holdout_folds
from sylvan.ranking.tail import label_gains, reweigh, tail_of
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.models.encoders import AnyEncoder

KIND = "label-texts"
_OF_ENCODER = ("vectors.labels", "vectors.judged", "vectors.rows")  # the arrays of a model with an encoder
MOST_JUDGED = 2_000  # rows that the curve is fitted to, of which it takes four numbers


@dataclass(frozen=True)
class Described:
    """What fit was told of labels' texts."""

    labels: dict[str, str]
    judged: list[str]  # the texts of the rows that the curve is fitted to, where they have to be encoded
    encoder: AnyEncoder | None  # what encodes these, and the labels' texts
    optional: bool = False  # whether they are rows only where they are like the rows of their labels


@dataclass(frozen=True, eq=False)
class LabelTexts:
    """What a text model keeps of its labels' texts."""

    # shape (n_labels, n_features): the features of each label's text; empty where it has none, or no known word
    texts: Csr
    # shape (m,): the ids of the training rows that are labels' texts; -1 in a model that keeps no rows
    rows: Int64
    # shape (m,): the labels of these rows; of several rows of a label, which is then merged, the first is its own text
    labels: Int32
    contexts: text_evidence.WordContexts  # what rows look like whose labels have a word in their texts
    # shape (4,) or with vectors (6,), or None: what makes probabilities of `TextScorer`'s evidence; None where there
    # were too few rows to learn it from
    curve: Float64 | None = None
    encoded: EncodedLabels | None = None  # of a model with a text encoder for its labels
    # shape (j,): the ids of the training rows that the curve is fitted to, rising; none in a model that keeps no rows,
    # whose curve stays as it is
    judged: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    # shape (j, dim): the encoder's, of these rows' texts
    judged_vectors: Float16 = field(default_factory=lambda: np.zeros((0, 0), np.float16))

    def learned_from(
        self, features: Csr, truth: Csr, weight: Float32 | None, judged: Int32,
        vectors: Float16 | None, n_jobs: int | None,
    ) -> LabelTexts:  # fmt: skip
        """With contexts and curve of training rows, of which none is a label's text."""
        # Shapes: features, truth (n, d); weight (n,); judged (m,); vectors (m, dim)
        encoded_pair = None if self.encoded is None or vectors is None else (self.encoded.vectors, vectors)
        curve = text_evidence.fitted_curve(features, truth, self.texts, judged, weight, n_jobs, encoded_pair)
        means = text_evidence.row_means(features.to_scipy(), truth.to_scipy(), n_jobs)
        contexts = text_evidence.WordContexts.of(means, self.texts.to_scipy(), n_jobs)
        return replace(self, contexts=contexts, curve=curve)

    @classmethod
    def empty(cls, n_labels: int, n_features: int) -> LabelTexts:
        """Of labels without texts."""
        none = Csr.empty(n_labels, n_features)
        return cls(none, np.zeros(0, np.int64), np.zeros(0, np.int32), text_evidence.WordContexts.none(n_features))

    @property
    def label_vectors(self) -> Float16 | None:
        """The encoder's vectors of labels' texts, where there is one."""
        return None if self.encoded is None else self.encoded.vectors

    def unlearned(self, counts: Int64) -> Int32:
        """The labels that are known by their texts alone, by how many training rows each has; rising."""
        of_texts = np.bincount(self.labels, minlength=self.texts.shape[0])
        alone = text_evidence.has_text(self.texts, self.label_vectors) & (counts <= of_texts)
        return np.flatnonzero(alone).astype(np.int32)

    def grown(self, n_labels: int, n_features: int) -> LabelTexts:
        """With more labels, without texts, and more columns."""
        indptr = np.pad(self.texts.indptr, (0, n_labels - self.texts.shape[0]), "edge")
        texts = self.texts._replace(indptr=indptr, shape=(n_labels, n_features))
        encoded = None if self.encoded is None else self.encoded.grown(n_labels)
        return replace(self, texts=texts, contexts=self.contexts.widened(n_features), encoded=encoded)

    def with_texts(self, texts: Csr, labels: Int32, rows: Int64) -> LabelTexts:
        """With other texts for some labels, one a row of ``texts``, and the ids of these rows."""
        left = self._less(labels)
        entries = np.ones(len(labels), np.float32), (labels, np.arange(len(labels)))
        place = sp.csr_matrix(entries, shape=(left.texts.shape[0], len(labels)))
        matrix = sp.csr_matrix(left.texts.to_scipy() + place @ texts.to_scipy())
        matrix.sort_indices()
        ids = np.concatenate((left.labels, labels)).astype(np.int32)
        return replace(left, texts=Csr.of(matrix), rows=np.concatenate((left.rows, rows)), labels=ids)

    def merged(self, merges: Mapping[int, Iterable[int]]) -> LabelTexts:
        """When labels become others: their texts are rows of these, whose own texts stay."""
        becomes = np.arange(self.texts.shape[0], dtype=np.int32)
        for into, labels in merges.items():
            becomes[list(labels)] = into
        order = np.argsort(becomes[self.labels] != self.labels, kind="stable")  # a label's own text comes first
        return replace(self, rows=self.rows[order], labels=becomes[self.labels][order])

    def left_with(self, ids: Int64) -> LabelTexts:
        """When other training rows are forgotten: a text goes with its row, and what is known of its words."""
        stays = np.isin(self.rows, ids)
        labels, first = np.unique(self.labels, return_index=True)
        left = self.without(labels[~stays[first]])
        if left.encoded is not None:
            judged = np.isin(self.judged, ids)
            left = replace(left, judged=self.judged[judged], judged_vectors=self.judged_vectors[judged])
        return replace(left, rows=self.rows[stays], labels=self.labels[stays])

    def without(self, labels: Array) -> LabelTexts:
        """Without the texts of some labels, and without the contexts of their words."""
        words = take_rows(self.texts, np.unique(labels)).indices
        return replace(self._less(labels), contexts=self.contexts.without(words))

    def _less(self, labels: Array) -> LabelTexts:
        """Without the texts of some labels, and their rows."""
        stays_there = np.repeat(~np.isin(np.arange(self.texts.shape[0]), labels), np.diff(self.texts.indptr))
        indptr = np.concatenate(([0], np.cumsum(stays_there)))[self.texts.indptr].astype(np.int64)
        texts = Csr(indptr, self.texts.indices[stays_there], self.texts.data[stays_there], self.texts.shape)
        stays = ~np.isin(self.labels, labels)
        encoded = None if self.encoded is None else self.encoded.with_labels(labels)
        return replace(self, texts=texts, rows=self.rows[stays], labels=self.labels[stays], encoded=encoded)

    def to_state(self) -> store.State:
        """All of it as arrays."""
        arrays: dict[str, Array] = {"rows": self.rows, "labels": self.labels, **self.contexts.to_arrays()}
        arrays |= {f"texts.{name}": getattr(self.texts, name) for name in text_evidence.CSR_ARRAYS}
        if self.curve is not None:
            arrays["curve"] = self.curve
        if self.encoded is not None:
            arrays |= dict(zip(_OF_ENCODER, (self.encoded.vectors, self.judged, self.judged_vectors), strict=True))
        return store.State(KIND, 1, {}, {}, arrays)

    @classmethod
    def from_state(cls, state: store.State, n_labels: int, n_features: int, of_model: store.State) -> LabelTexts:
        """From :meth:`to_state`'s result, verified, and the state of the model, which has the encoder's files."""
        store.need_kind(state, KIND)
        labels = store.need_range(state, "labels", 0, n_labels - 1, np.int32, (None,))
        rows = store.need_range(state, "rows", -1, 2**62, np.int64, (len(labels),))
        curve, has_encoder = None, _OF_ENCODER[0] in state.arrays
        if "curve" in state.arrays:
            curve = store.need_array(state, "curve", np.float64, (1 + text_evidence.n_evidence(has_encoder),))
            store.need_finite(state, "curve")
        texts = store.need_csr(state, "texts", (n_labels, n_features))
        label_texts = cls(texts, rows, labels, text_evidence.WordContexts.from_state(state, n_features), curve)
        if not has_encoder:
            return label_texts
        vectors = store.need_array(state, _OF_ENCODER[0], np.float16, (n_labels, None))
        judged = store.need_rising(state, _OF_ENCODER[1], 0, 2**62, np.int64)
        of_rows = store.need_array(state, _OF_ENCODER[2], np.float16, (len(judged), vectors.shape[1]))
        for name in _OF_ENCODER[::2]:
            store.need_finite(state, name)
        encoded = EncodedLabels(ModelEncoder.of_state(of_model, vectors.shape[1], OF_LABELS), vectors)
        return replace(label_texts, encoded=encoded, judged=judged, judged_vectors=of_rows)


def judged_rows(n: int, weight: Float32 | None) -> Int32:
    """Which of n training rows the curve is fitted to, rising; none where there are too few rows."""
    folds = holdout_folds(n, 1, weight, MOST_JUDGED)
    return folds[0].astype(np.int32) if folds else np.zeros(0, np.int32)


def with_names_of(vocabulary: Vocabulary, texts: Mapping[str, str]) -> Vocabulary:
    """The label names with those that have a text alone behind them, in alphabetical order."""
    return vocabulary.extended(sorted(name for name in texts if name not in vocabulary))


def fitted_texts(
    model: Any, X: Any, Y: Any, sample_weight: Any, vocabulary: Vocabulary, described: Described,
    held_out: Int32 | None, scratch: store.ScratchFiles | None = None,
) -> tuple[Any, Any, Any, LabelTexts | None, name_rows.Likeness | None]:  # fmt: skip
    """The training rows of a TextModel with labels' texts below them, what is kept of these texts, and how like
    the rows are to them. Where that is too little, the training rows as they are, and None."""
    features, truth = validate.pair(X, Y, owner="TextModel")
    weight, vectorizer = validate.sample_weight(sample_weight, features.shape[0]), model.vectorizer
    truth = truth._replace(shape=(truth.shape[0], len(vocabulary)))
    texts = vectorizer.transform_rows(list(described.labels.values()))
    labels = np.array([vocabulary.id(name) for name in described.labels], np.int32)
    seen, answers = np.bincount(truth.indices, minlength=len(vocabulary)) > 0, model.unlearned == "answer"
    has_words = np.diff(texts.indptr) > 0
    if answers:
        _warn_of_unreadable(vocabulary, labels[~has_words & ~seen[labels]], described.encoder is not None)
    chosen = np.flatnonzero(has_words | ~seen[labels] if answers else has_words & seen[labels])  # a label needs a row
    rows_of_texts, like = take_rows(texts, chosen), None
    label_texts = LabelTexts.empty(len(vocabulary), features.shape[1])
    label_texts = label_texts.with_texts(rows_of_texts, labels[chosen], np.full(len(chosen), -1))
    if not answers:
        folds = holdout_folds(features.shape[0], 1, weight) if held_out is None else [held_out]
        like = name_rows.likeness(features, truth, label_texts.texts, folds[0]) if folds else None
        if not len(chosen) or (described.optional if like is None else not like.helps):
            return X, Y, sample_weight, None, like
    n, n_jobs, judged = features.shape[0], vectorizer.n_jobs, judged_rows(features.shape[0], weight)
    keeps_rows = getattr(model.model, "keep_rows", False)
    if keeps_rows:
        label_texts = replace(label_texts, rows=np.arange(n, n + len(chosen), dtype=np.int64))
    of_rows = None
    if (encoder := described.encoder) is not None:
        of_rows = encoded(encoder, described.judged, n_jobs, "Encoding texts of rows").astype(np.float16)
        vectors = np.zeros((len(vocabulary), of_rows.shape[1]), np.float16)
        vectors[labels] = encoded(encoder, list(described.labels.values()), n_jobs, "Encoding texts of labels")
        again = slice(None if keeps_rows else 0)  # a curve is fitted again where rows are kept
        label_texts = replace(
            label_texts, encoded=EncodedLabels(ModelEncoder(encoder), vectors), judged=judged[again].astype(np.int64),
            judged_vectors=of_rows[again],
        )  # fmt: skip
    if answers:
        label_texts = label_texts.learned_from(features, truth, weight, judged, of_rows, n_jobs)
    empty = np.empty if scratch is None else scratch.zeros
    rows, truth, weight = with_text_rows(features, truth, weight, rows_of_texts, labels[chosen], empty)
    return rows.to_scipy(), truth.to_scipy(), weight, label_texts, like


@dataclass(frozen=True, eq=False)
class LabelTextRanker:
    """Joins answers with labels that are known by their texts alone to those of a model that knows the others."""

    label_texts: LabelTexts
    counts: Int64  # how many training rows each label has
    labels: Int32  # those that are known by their texts alone, rising; at least one

    @cached_property
    def scorer(self) -> text_evidence.TextScorer:
        """What scores these labels."""
        texts = self.label_texts
        return text_evidence.TextScorer(texts.texts, self.labels, texts.contexts, vectors=texts.label_vectors)

    def rank(
        self, model: Estimator, texts: list[str], rows: Csr, vectors: Float32 | None,
        answered: Bool, k: int, options: dict[str, Any],
    ) -> TopK:  # fmt: skip
        """The ``k`` best labels of either kind for texts, of which some are ``answered`` with labels that rows have
        taught, by the options of the model's ``rank``."""
        # Shapes: rows (n, d); vectors (n, dim), the label encoder's; answered (n,)
        options, n_labels, tail, readable = dict(options), len(self.counts), None, answered
        allowed, denied = options.pop("allowed", None), options.pop("denied", None)
        labels = LabelFilter.of(allowed, denied, n_rows=rows.shape[0], n_labels=n_labels)
        if vectors is not None:  # an encoder knows something of every text that isn't blank
            readable = answered | np.fromiter((not text.isspace() and text != "" for text in texts), bool, len(texts))
        if hasattr(model, "tail"):
            tail = tail_of(model.tail, options.pop("tail", None))
            options["tail"] = "none"
        n, curve = k if tail is None else max(k, CANDIDATES), self.label_texts.curve
        assert curve is not None
        learned = denying(labels, self.labels, n_labels)
        first = model.probabilities(model.rank(rows, min(n, n_labels), **learned.as_given(), **options))
        second = self.scorer.rank(rows, n, curve, labels, vectors)
        top = text_evidence.joined(answers_of(first, answered), answers_of(second, readable), n)
        return top if tail is None else reweigh(top, label_gains(tail, model.label_counts_, model.n_rows_), k)


def rankers_of(model: Estimator) -> list[Estimator]:
    """The models that were trained on the rows; an ensemble's members have the same counts of them."""
    return list(getattr(model, "members", ())) or [model]


def label_counts(model: Estimator) -> Int64:
    """How many training rows each label has."""
    return np.asarray(np.maximum.reduce([each.label_counts_ for each in rankers_of(model)]))


@dataclass(frozen=True)
class Request:
    """What an update is to do, in the model's own terms."""

    vectorizer: TfidfVectorizer
    vocabulary: Vocabulary
    arrays: tuple[Any, Any, Any]  # X, Y and sample_weight of the model's update; texts of labels are their last rows
    options: dict[str, Any]  # of the model's update
    texts: Csr  # shape (m, d): the features of labels' texts that come
    labels: Int32  # shape (m,): whose they are
    # labels that are given texts, and the label encoder's vectors of these, in a model whose labels have such
    vectors: tuple[Int32, Float32] | None


def requested(
    model: Any, texts: list[str] | None, Y: Any, sample_weight: Any, label_texts: Any, options: dict[str, Any]
) -> Request:
    """What an update of a TextModel is given in its own model's terms, verified as far as it is texts and names."""
    matrix, before, removed = Y, model.label_texts_, model.removed_labels_
    vectorizer, names, described = model.vectorizer, model.vocabulary_, {}
    if label_texts is not None:
        left_out = set(removed.tolist())
        described = named_texts(label_texts, (name for label, name in enumerate(names) if label not in left_out))
        need_uris(names, described, "label_texts")
    vocabulary = with_names_of(names, described)
    if texts is not None and Y is not None:
        grown, matrix = grown_labels(names, len(names), Y, described)
        assert grown is not None
        vocabulary = grown
        need_as_many(len(texts), matrix.shape[0])
        n_rows = max(each.n_rows_ for each in rankers_of(model.model)) - (0 if before is None else len(before.labels))
        vectorizer = vectorizer.with_terms_of(texts, n_rows)
        options = {**options, "n_features": vectorizer.n_terms_}
    labels, named = np.array([vocabulary.id(name) for name in described], np.int32), list(described.values())
    if len(gone := np.intersect1d(labels, removed)):
        raise DataError(f"label_texts has label {vocabulary[int(gone[0])]!r}, which was removed before.")
    rows = vectorizer.transform_rows(named)
    has_words = np.diff(rows.indptr) > 0
    chosen = np.flatnonzero(has_words | (labels >= model.model.n_labels_))  # a new label needs a row
    encodes = len(labels) > 0 and before is not None and before.encoded is not None
    _warn_of_unreadable(vocabulary, labels[~has_words], encodes)
    vectors = (labels, before.encoded.encode(named, vectorizer.n_jobs)) if encodes else None
    rows, labels = take_rows(rows, chosen), labels[chosen]
    features = None if texts is None else vectorizer.transform_rows(texts)
    rows_of_model: tuple[Any, Any, Any] = features, matrix, sample_weight
    if len(labels) and (features is None) == (matrix is None):
        if features is None:
            features, matrix = Csr.empty(0, rows.shape[1]), Csr.empty(0, len(vocabulary)).to_scipy()
        truth = validate.labels(matrix)
        truth = truth._replace(shape=(truth.shape[0], len(vocabulary)))
        weight = validate.sample_weight(sample_weight, features.shape[0])
        below, truth, weight = with_text_rows(features, truth, weight, rows, labels)
        rows_of_model = below, truth.to_scipy(), weight
        options = {**options, **_forgotten(model, labels, options)}
    return Request(vectorizer, vocabulary, rows_of_model, options, rows, labels, vectors)


def _forgotten(model: Any, labels: Int32, options: dict[str, Any]) -> dict[str, Any]:
    """What makes a model forget the texts that labels have had until now."""
    label_texts = model.label_texts_
    old = np.zeros(0, np.int64) if label_texts is None else label_texts.rows[np.isin(label_texts.labels, labels)]
    if not len(old):
        return {}
    stored: Any = getattr(model.model, "training_rows_", None)
    if stored is None or (old < 0).any():
        name = model.vocabulary_[int(label_texts.labels[np.isin(label_texts.labels, labels)][0])]
        raise DataError(
            f"label_texts gives label {name!r} another text, but the model keeps no rows and can't forget the one "
            "that it has."
        )
    if (forget := options.get("forget")) is None:
        return {"forget": old}
    return {"forget": np.union1d(stored.ids[rows_by_id(forget, stored.ids, stored.next_id)], old)}


def with_known_texts(label_texts: LabelTexts, features: Csr, truth: Csr, n_labels: int) -> tuple[Csr, Csr]:
    """All rows of a model that keeps none, as its own model takes them: the texts of labels are the last ones."""
    texts = take_rows(label_texts.texts, label_texts.labels)
    truth = truth._replace(shape=(truth.shape[0], n_labels))
    features, truth, _ = with_text_rows(features, truth, None, texts, label_texts.labels)
    return features, truth


def warn_of_unranked(texts: LabelTexts | None, model: Any, answers: bool) -> None:
    """Say how many labels without rows aren't ranked by their texts, as there was too little to learn a curve from."""
    if answers and texts is not None and texts.curve is None and len(alone := texts.unlearned(label_counts(model))):
        warn_data(
            f"Nothing could be learned of what labels' texts are worth: labels without rows ({len(alone):,}), whose "
            "texts are a row each, may never be answered. Give texts of labels that have rows, too, or more rows.", 5,
        )  # fmt: skip


def _warn_of_unreadable(vocabulary: Vocabulary, labels: Int32, encodes: bool) -> None:
    """Say how many labels have no text with a known word, where no encoder reads it."""
    if len(labels) and not encodes:
        texts = f"The texts of {counted(len(labels), 'label')}, such as {vocabulary[int(labels[0])]!r:.60},"
        warn_data(f"{texts} have no word that the model knows: these labels aren't found by them.", 6)


def texts_after(
    texts: LabelTexts | None, request: Request, model: Any, gone: Int32, answers: bool
) -> LabelTexts | None:
    """The texts of labels after an update; learned from the rows again where some are forgotten, or texts come."""
    if texts is None and not len(request.labels):
        return None
    n_labels, n_features = model.n_labels_, model.n_features_
    stored = getattr(model, "training_rows_", None)
    ids = np.full(len(request.labels), -1) if stored is None else stored.ids[len(stored.ids) - len(request.labels) :]
    texts = (LabelTexts.empty(n_labels, n_features) if texts is None else texts).grown(n_labels, n_features)
    if len(request.labels):
        texts = texts.with_texts(request.texts, request.labels, ids.astype(np.int64))
    if request.vectors is not None and texts.encoded is not None:
        texts = replace(texts, encoded=texts.encoded.with_labels(*request.vectors))
    texts = texts.merged(request.options.get("merge") or {})
    if stored is not None:
        texts = texts.left_with(stored.ids)
    if len(gone):
        texts = texts.without(gone)
    forgets = request.options.get("forget") is not None
    if stored is not None and answers and (forgets or len(gone) or len(request.labels)):
        real = np.flatnonzero(~np.isin(stored.ids, texts.rows))
        features, labels, weight = stored.taken(real)
        judged, vectors = judged_rows(features.shape[0], weight), None
        if texts.encoded is not None:  # of other rows there are no texts any more
            judged = np.flatnonzero(np.isin(stored.ids[real], texts.judged)).astype(np.int32)
            vectors = texts.judged_vectors[np.searchsorted(texts.judged, stored.ids[real][judged])]
        return texts.learned_from(features, labels, weight, judged, vectors, model.n_jobs)
    return replace(texts, contexts=text_evidence.WordContexts.none(n_features)) if forgets else texts
