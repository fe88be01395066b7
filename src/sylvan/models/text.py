"""TextModel: from texts to label names, a vectoriser and a model in one folder."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import take_rows
from sylvan.arrays.topk import TopK, answers_of
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError
from sylvan.labels.targets import LabelNumbers, encode_labels, named_rows, names_for, need_as_many
from sylvan.models.base import Estimator
from sylvan.models.compress import Compressible, has_weights
from sylvan.models.encoders.dense_features import encoded
from sylvan.models.encoders.described import EncoderSource, described_encoder, made_encoder
from sylvan.models.encoders.saved_encoder import SavedEncoder, encoder_files
from sylvan.models.label_changes import one_class_a_row
from sylvan.models.label_texts.label_texts import (
    Described,
    LabelTexts,
    LabelVectors,
    judged_rows,
    named_texts,
    with_names_of,
    with_text_rows,
)
from sylvan.models.text_estimator import Unknown, check_texts
from sylvan.models.text_updates import TextUpdates
from sylvan.models.xr.estimate import TrainingSize
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import resolve_jobs
from sylvan.params.fields import Instance, fresh, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import holdout_folds
from sylvan.runtime.memory import resident_bytes
from sylvan.runtime.plan import Phase, Plan, state_bytes, timed
from sylvan.store import ScratchFiles, State
from sylvan.store.registry import rebuild
from sylvan.text import TfidfVectorizer
from sylvan.text.estimate import estimate_texts
from sylvan.weights.layer import WeightDtype

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

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
    from sylvan.neural import open_encoder

    seconds, dim = 0.0, 0
    with timed(1) as opening:
        encoder = open_encoder(source)
        dim = encoded(encoder, labels[:1], n_jobs).shape[1]  # what happens once
    for texts in (labels, rows):
        some = texts[:: max(1, len(texts) // _TIMED_TEXTS)]
        with timed(1) as clock:
            encoded(encoder, some, n_jobs)
        seconds += clock.seconds * len(texts) / max(1, len(some))
    weights = sum(weight.numel() * weight.element_size() for weight in encoder.parameters())
    vectors = 2 * dim * len(labels)
    phase = Phase("encoding", opening.seconds + seconds, weights + 4 * vectors)
    plan = replace(plan, peak_bytes=plan.peak_bytes + phase.peak_bytes)  # the encoder stays
    return plan.after(phase, weights + vectors)


def _sampled_plan(
    vectorizer: Any, model: XRLinear, texts: list[str], label_lists: Any, options: dict[str, Any]
) -> Plan:
    """As :func:`text_plan`; of the texts no more than a sample is read."""
    given, now = _ListedLabels(label_lists), resident_bytes()
    need_as_many(len(texts), given.n_rows)
    seen = estimate_texts(vectorizer, texts)
    ids_matter = model.tree is not None or any(
        options.get(name) is not None for name in ("label_features", "label_embeddings")
    )
    Y, name_bytes = given.of(seen.rows, ids_matter)
    weight = validate.sample_weight(options.get("sample_weight"), len(texts))
    if weight is not None:
        options["sample_weight"] = weight[seen.rows]
    phase = Phase("features", seen.seconds, seen.peak_bytes)
    whole = None
    if len(seen.rows) < len(texts):
        whole = TrainingSize(len(texts), given.n_labels, seen.n_terms, seen.n_entries, given.n_positives)
    plan = model.plan(seen.features, Y, whole=whole, **options)
    plan = replace(plan, peak_bytes=max(plan.peak_bytes, now + seen.peak_bytes))
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


def usual_vectorizer(**params: Any) -> TfidfVectorizer:
    """The vectoriser that texts have by default."""
    return TfidfVectorizer(**{"ngrams": "auto", **params})


@parameterized
class TextModel(TextUpdates, Compressible):
    """A vectoriser and a model that together go from texts to label names.

    Parameters
    ----------
    vectorizer : TfidfVectorizer, optional
        Turns texts into sparse features; a ``TfidfVectorizer(ngrams="auto")`` by default, which counts words, and
        pairs of words where texts are short.
    model : Estimator, optional
        Any model of matrices; an ``XRLinear()`` by default.
    label_encoder : str, path or TextEncoder, optional
        A sentence encoder, by whose cosines labels that are known by their texts alone are found besides: a folder, a
        name on the Hugging Face hub, or an encoder. It is used where ``fit`` is given ``label_texts``, goes into the
        model's folder, and needs the extra ``neural``. Texts to rank are encoded then as long as there are such labels.
    unknown : {"none", "prior"}, default "none"
        What a text gets of which the model knows no word, as it is blank or in another language: no labels, or those
        that the model gives to a row without features, by how frequent they are.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The label names; ``vocabulary_[label]`` is the name of a label id.
    text_fields_ : tuple of str
        The fields of JSON lines whose joined texts the model was trained on. The command line reads other files in the
        same way. You may set it; ``("text",)`` by default.
    labels_field_ : str
        The field of their labels, in the same way; "labels" by default.
    label_texts_ : LabelTexts or None
        Of a model whose labels have texts.
    unlearned_labels_ : ndarray of int32
        The labels that are known by their texts alone. As long as there are any, scores are probabilities.

    Notes
    -----
    ``fit`` fits the two given objects, as a scikit-learn pipeline does. Their parameters are set with two underscores:
    ``set_params(model__beam=20)``.

    Examples
    --------
    >>> from sylvan import TextModel
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> tagger = TextModel().fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> tagger.rank(["how to bake bread"], k=1).names
    [['Baking']]
    """

    kind = "text-model"
    not_saved = ("vectorizer", "model")
    added = MappingProxyType({"label_encoder": None, "unknown": "none"})

    vectorizer: TfidfVectorizer = fresh(factory=usual_vectorizer)
    model: Annotated[Estimator, Instance(words="an estimator of Sylvan over matrices")] = fresh(factory=XRLinear)
    label_encoder: Annotated[Any | None, EncoderSource()] = None
    unknown: Unknown = "none"

    def inner(self) -> Estimator:
        """The model over matrices that ranks the features of texts: ``model``."""
        return self.model

    @property
    def most_held_out(self) -> int:
        """That of the model over matrices."""
        return self.model.most_held_out

    def _text_features(self, texts: list[str]) -> Csr:
        return self.vectorizer.transform_rows(texts)

    def _feature_name(self, column: int) -> str:
        return self.vectorizer.term(column)

    def fit(
        self, X: Iterable[str], Y: Any, sample_weight: Any = None, *, label_texts: Any = None, **options: Any
    ) -> TextModel:
        """Train on texts and their labels.

        Parameters
        ----------
        X : iterable of str, length n
            The texts.
        Y : sequence of length n
            Each text's labels: a list of strings, or of pairs (name, relevance above 0), or one string. A matrix of
            shape (n, L) and lists of ints are label ids; their names are these numbers.
        sample_weight : array-like of shape (n,), optional
            The weight of each text.
        label_texts : mapping of str to (str or list of str), or "names", optional
            A text for some or all labels: their names in words, synonyms, definitions; with "names", each label's name
            is its text. A label's text is one more training row of this label. A label without any other row is
            ranked by its text: its similarity to the row, and to rows whose labels have texts with the same words, as
            a probability that is fitted to labels that have rows, without these. Labels of the mapping that no text
            has get ids behind the others, in alphabetical order.
        **options
            Passed to the model's ``fit``.

        Returns
        -------
        TextModel
            This object, fitted.

        Raises
        ------
        DataError
            For texts or labels of another type, or different numbers of texts and labels.

        Notes
        -----
        Labels' texts as rows, and the sparse map from their words to words of rows, are ideas of PECOS's PIFA + LF
        (section 2.1.1) and of zero-shot extreme classification (Gupta, Bohra, Prabhu, Purohit & Varma 2021).
        """
        listed = [check_texts(X, "TextModel")]
        del X  # a caller who gave an iterator has not kept them either
        self._fit_texts(listed, Y, sample_weight, label_texts, options, None)
        return self

    def fit_holding_out(
        self, X: Any, Y: Any, rows: npt.NDArray[np.int32], sample_weight: Any = None, *, label_texts: Any = None,
        **options: Any,
    ) -> TopK | None:  # fmt: skip
        """As :meth:`fit`; see :meth:`Estimator.fit_holding_out`."""
        return self._fit_texts([check_texts(X, "TextModel")], Y, sample_weight, label_texts, options, rows)

    def _fit_texts(
        self, listed: list[list[str]], Y: Any, sample_weight: Any, label_texts: Any, options: dict[str, Any],
        rows: npt.NDArray[np.int32] | None,
    ) -> TopK | None:  # fmt: skip
        """From a list of one item, the texts, which is emptied."""
        self.check_params()
        n_texts = len(listed[0])
        vocabulary, labels = encode_labels(Y)
        need_as_many(n_texts, labels.shape[0])
        described = None
        if label_texts is not None:
            if options.get("memory_limit") is not None:
                raise DataError("label_texts and memory_limit don't go together: texts of labels are rows in memory.")
            named, encoder = named_texts(label_texts, vocabulary), self._opened_encoder()  # before any work is done
            described = Described(named, self._judged_texts(listed[0], sample_weight), encoder)
        top = self._fit(
            lambda: self.vectorizer.fit_transform_rows(listed.pop()).to_scipy(), lambda: (vocabulary, labels),
            sample_weight, options, rows, described,
        )  # fmt: skip
        self.single_label_ = one_class_a_row(Y)
        return top

    def plan(
        self, X: Iterable[str], Y: Any, sample_weight: Any = None, *, label_texts: Any = None, **options: Any
    ) -> Plan:
        """Estimate what ``fit`` with the same arguments would need: time, memory and the size of the model.

        At most 5,000 of the texts are read, from which the vocabulary of all is estimated; the rest is the model's own
        plan. (A BeamTreeClassifier's takes the features of all texts.) This object doesn't change. Parameters and
        errors as in :meth:`fit`.

        Returns
        -------
        Plan

        Raises
        ------
        ParameterError
            For a model that has no plan.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> TextModel().plan(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]]).fits
        True
        """
        self.check_params()
        texts, described, judged = check_texts(X, "TextModel"), {}, []
        if label_texts is not None:  # as many rows more
            names, labels = encode_labels(Y)
            described, judged = named_texts(label_texts, names), self._judged_texts(texts, sample_weight)
            Y = [*named_rows(names, labels), *([name] for name in described)]
            texts = [*texts, *described.values()]
            if sample_weight is not None:
                sample_weight = np.append(sample_weight, np.ones(len(described)))
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        plan = text_plan(self.vectorizer, self.model, texts, Y, options)
        if self.label_encoder is None or not described:
            return plan
        return with_encoding(plan, self.label_encoder, list(described.values()), judged, self.vectorizer.n_jobs)

    def fit_blocks(self, blocks: Iterable[Any], sample_weight: Any = None, **options: Any) -> TextModel:
        """As :meth:`fit`, from texts that come in blocks and are never all in memory: the same model, to the bit.

        Parameters
        ----------
        blocks : iterable of (texts, label lists) or TextData
            As from :func:`sylvan.data.stream_jsonl`: some thousands of texts at a time, each with a list of names or
            ints, and optionally their relevances as a third item.
        sample_weight : array-like of shape (n,), optional
        **options
            Passed to the model's ``fit``. With ``memory_limit`` the features are in files.

        Raises
        ------
        DataError
            As :meth:`fit`, and when a block is no such pair.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> blocks = [(["whales at sea"], [["Whaling"]]), (["bread and cakes"], [["Baking"]])]
        >>> TextModel().fit_blocks(blocks).rank(["the whales"], k=1).names
        [['Whaling']]
        """
        self.check_params()
        if "label_texts" in options:
            raise DataError("fit_blocks takes no label_texts: give all texts to fit at once.")
        labels = LabelNumbers()
        texts = _texts_of(blocks, labels.take)
        scratch = _scratch_for(options)
        self._fit(
            lambda: self.vectorizer.fit_transform_blocks(texts, scratch=scratch), labels.finish, sample_weight, options
        )
        self.single_label_ = False
        return self

    def _fit(
        self,
        features: Callable[[], Any],
        labels: Callable[[], tuple[Vocabulary, Any]],
        sample_weight: Any,
        options: dict[str, Any],
        rows: npt.NDArray[np.int32] | None = None,
        described: Described | None = None,
    ) -> TopK | None:
        """Vectoriser first, then the labels, then the model, perhaps with answers to held-out ``rows``."""
        before, known = dict(self.vectorizer.__dict__), None
        try:
            X = features()
            vocabulary, Y = labels()
            if described is not None:
                vocabulary = with_names_of(vocabulary, described.labels)
                X, Y, sample_weight, known = self._with_label_texts(X, Y, sample_weight, vocabulary, described)
                if rows is None and getattr(self.model, "calibration", None) is not None:
                    folds = holdout_folds(X.shape[0] - len(known.labels), 1)
                    rows = folds[0] if folds else None  # rows alone say what a score means, not labels' texts
            if sample_weight is not None:
                options["sample_weight"] = sample_weight
            options |= names_for(self.model, vocabulary)
            if rows is None:
                top = None
                self.model.fit(X, Y, **options)
            else:
                top = self.model.fit_holding_out(X, Y, rows, **options)
                if top is not None and self.unknown == "none":
                    top = answers_of(top, np.diff(X.indptr)[rows] > 0)
        except BaseException:  # with its old vectoriser the model is what it was
            self.vectorizer.__dict__ = before
            raise
        self.label_texts_, self._label_encoder = known, None if described is None else described.encoder
        self._take_labels(vocabulary)
        return top

    def _judged_texts(self, texts: list[str], sample_weight: Any) -> list[str]:
        """Those that an encoder is to be judged by, where there is one."""
        if self.label_encoder is None:
            return []
        weight = validate.sample_weight(sample_weight, len(texts))
        return [texts[row] for row in judged_rows(len(texts), weight).tolist()]

    def _opened_encoder(self) -> TextEncoder | None:
        """An encoder of the model's own, whatever becomes of the one that was given."""
        if self.label_encoder is None:
            return None
        from sylvan.neural import open_encoder

        encoder = open_encoder(self.label_encoder)
        return encoder.copy() if encoder is self.label_encoder else encoder

    def _with_label_texts(
        self, X: Any, Y: Any, sample_weight: Any, vocabulary: Vocabulary, described: Described
    ) -> tuple[Any, Any, Any, LabelTexts]:
        """The training rows with labels' texts below them, and what is kept of these texts."""
        features, truth = validate.pair(X, Y, owner="TextModel")
        weight = validate.sample_weight(sample_weight, features.shape[0])
        truth = truth._replace(shape=(truth.shape[0], len(vocabulary)))
        texts = self.vectorizer.transform_rows(list(described.labels.values()))
        labels = np.array([vocabulary.id(name) for name in described.labels], np.int32)
        seen = np.bincount(truth.indices, minlength=len(vocabulary)) > 0
        kept = np.flatnonzero((np.diff(texts.indptr) > 0) | ~seen[labels])  # a label needs a row
        n, n_jobs, judged = features.shape[0], self.vectorizer.n_jobs, judged_rows(features.shape[0], weight)
        keeps_rows = getattr(self.model, "keep_rows", False)
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

    @classmethod
    def _params_from(cls, state: State) -> dict[str, Any]:
        params = super()._params_from(state)
        params["vectorizer"] = TfidfVectorizer.from_state(store.need_part(state, "vectorizer", "tfidf-vectorizer"))
        params["model"] = _over_matrices(rebuild(store.need_part(state, "model")))
        return {**params, "label_encoder": made_encoder(state, params["label_encoder"])}

    def _plain_params(self) -> dict[str, Any]:
        return {**super()._plain_params(), "label_encoder": described_encoder(self.label_encoder)}

    def to_state(self) -> State:
        """The parts of the model, and the files of the encoder of its labels, for :func:`sylvan.store.save`."""
        state, encoder = super().to_state(), self._label_encoder
        if encoder is not None:
            state.files.update(encoder.files() if isinstance(encoder, SavedEncoder) else encoder_files(encoder))
        return state

    def _drop_labels(self, ids: npt.NDArray[np.int32]) -> None:
        self.model = self.model.without_label_ids(ids)
        if self.label_texts_ is not None:
            self.label_texts_ = self.label_texts_.without(ids)

    def _with_weights(self, share: float, weight_dtype: WeightDtype | None) -> TextModel:
        made = copy.copy(self)
        if has_weights(self.model):
            made.model = self.model.pruned(share, weight_dtype)
        return made

    def weight_dtypes(self) -> set[str]:
        return self.model.weight_dtypes() if has_weights(self.model) else set()

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, State]]:
        meta, arrays, parts = super()._fitted_state()
        if self.label_texts_ is not None:
            parts["label_texts"] = self.label_texts_.to_state()
        return meta, arrays, {"vectorizer": self.vectorizer.to_state(), "model": self.model.to_state(), **parts}

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self._join(self.vocabulary_)
        if "label_texts" in state.parts:
            part = store.need_part(state, "label_texts", "label-texts")
            self.label_texts_ = LabelTexts.from_state(part, self.n_labels_, self.n_features_)
            if self.label_texts_.vectors is not None:
                self._label_encoder = SavedEncoder(state)

    @classmethod
    def from_parts(cls, vectorizer: TfidfVectorizer, model: Estimator, vocabulary: Vocabulary) -> TextModel:
        """Combine a vectoriser and a model that were fitted separately.

        Parameters
        ----------
        vectorizer : TfidfVectorizer
            Fitted.
        model : Estimator
            Fitted on features from the vectoriser.
        vocabulary : Vocabulary
            The name of each of the model's labels.

        Raises
        ------
        DataError
            When they do not fit each other.
        NotFittedError
            When one of the two is not fitted.

        Examples
        --------
        >>> from sylvan import TextModel, TfidfVectorizer, XRLinear, data
        >>> texts, labels = ["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]]
        >>> vectorizer, names = TfidfVectorizer(), data.Vocabulary.from_labels(labels)
        >>> model = XRLinear().fit(vectorizer.fit_transform(texts), names.encode(labels))
        >>> TextModel.from_parts(vectorizer, model, names).rank(["the whales"], k=1).names
        [['Whaling']]
        """
        joined = cls(vectorizer, _over_matrices(model))
        joined._join(vocabulary)
        return joined

    def _join(self, vocabulary: Vocabulary) -> None:
        """Take the names of labels, when all that was fitted fits each other."""
        n_terms, model = self.vectorizer.n_terms_, self.model
        if model.n_features_ != n_terms:
            raise DataError(
                f"The vectorizer gives {counted(n_terms, 'feature')}, but the model has {model.n_features_}."
            )
        if model.n_labels_ != len(vocabulary):
            raise DataError(
                f"The vocabulary has {counted(len(vocabulary), 'name')}, but the model "
                f"{counted(model.n_labels_, 'label')}."
            )
        self._take_labels(vocabulary)


def _over_matrices(model: Any) -> Estimator:
    """A model, when it is one that a text model can be made of."""
    if not isinstance(model, Estimator) or model.takes_texts:
        raise DataError(f"A TextModel is made of a model over matrices, not of {type(model).__name__}.")
    return model


def _scratch_for(options: dict[str, Any]) -> ScratchFiles | None:
    """Files for the features where the model is to be trained within a limit; None for memory."""
    return None if options.get("memory_limit") is None else ScratchFiles(tempfile.gettempdir())


def _texts_of(blocks: Iterable[Any], take: Callable[[list[Any], Any], None]) -> Iterator[list[str]]:
    """The texts of one block after another; ``take(labels, weights)`` is given its labels."""
    for number, block in enumerate(blocks):
        try:
            texts, labels, *rest = block
            n_texts, n_labels = len(texts), len(labels)
        except (TypeError, ValueError):
            raise DataError(
                f"Block {number} must be a pair of texts and labels, or a TextData. Got {type(block).__name__} instead."
            ) from None
        if n_texts != n_labels:
            raise DataError(f"Block {number} has {counted(n_texts, 'text')}, but labels for {n_labels:,}.")
        take(labels, rest[0] if rest else None)
        yield texts


store.register(TextModel.kind, TextModel.from_state)
