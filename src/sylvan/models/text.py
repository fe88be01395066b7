"""TextModel: from strings to strings, a vectoriser and a model in one folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sylvan import store, validate
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError
from sylvan.models.base import Estimator
from sylvan.models.xr_linear import XRLinear
from sylvan.params import Constraint, Instance
from sylvan.registry import rebuild
from sylvan.store import JSON, State
from sylvan.text import TfidfVectorizer
from sylvan.topk import TopK

__all__ = ["NamedTopK", "TextModel"]

_KIND = "text-model"


@dataclass(frozen=True)
class NamedTopK(TopK):
    """A :class:`~sylvan.TopK` whose labels have names.

    Attributes
    ----------
    labels : ndarray of int32, shape (n, k)
    scores : ndarray of float32, shape (n, k)
    names : list of list of str
        The label names of each row, best first; shorter than k where there are fewer answers.
    """

    vocabulary: Vocabulary

    @cached_property
    def names(self) -> list[list[str]]:  # type: ignore[override]  # here the vocabulary is known already
        return TopK.names(self, self.vocabulary)


class TextModel(Estimator):
    """A vectoriser and a model that together go from strings to strings.

    Parameters
    ----------
    vectorizer : TfidfVectorizer, optional
        Turns texts into sparse features; a ``TfidfVectorizer()`` by default.
    model : Estimator, optional
        Any model over matrices; an ``XRLinear()`` by default.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        The label names; ``vocabulary_[label]`` is the name of a label id.
    text_fields_ : tuple of str
        The fields of JSON lines whose texts, joined, the model was trained on, so that the command line reads other
        files alike; may be set, and is ``("text",)`` unless it was.
    labels_field_ : str
        The field of their labels, likewise; "labels" unless it was set.

    Notes
    -----
    ``fit`` fits the two objects that were given, as a scikit-learn pipeline does. Parameters of either are
    reached with two underscores: ``set_params(model__beam=20)``.

    Examples
    --------
    >>> from sylvan import TextModel
    >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
    >>> tagger = TextModel().fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
    >>> tagger.rank(["how to bake bread"], k=1).names
    [['Baking']]
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "vectorizer": Instance((TfidfVectorizer,), "a TfidfVectorizer"),
        "model": Instance((Estimator,), "an estimator of Sylvan over matrices"),
    }

    vectorizer: TfidfVectorizer
    model: Estimator
    vocabulary_: Vocabulary
    text_fields_: tuple[str, ...] = ("text",)
    labels_field_: str = "labels"

    def __init__(self, vectorizer: TfidfVectorizer | None = None, model: Estimator | None = None) -> None:
        self.vectorizer = TfidfVectorizer() if vectorizer is None else vectorizer
        self.model = XRLinear() if model is None else model

    @property
    def classes_(self) -> Vocabulary:
        """The label names, in the order of the columns that :meth:`predict` answers with."""
        self._need_fit("classes_")
        return self.vocabulary_

    def fit(  # type: ignore[override]  # texts and label lists are what X and Y are here
        self, texts: Iterable[str], label_lists: Any, sample_weight: Any = None, **options: Any
    ) -> TextModel:
        """Learn from texts and their labels.

        Parameters
        ----------
        texts : iterable of str, length n
        label_lists : sequence of length n
            Each text's labels: a list of strings, or of pairs (name, relevance above 0). One string a text is
            allowed too. A matrix of shape (n, L) or lists of ints are label ids, named by their numbers.
        sample_weight : array-like of shape (n,), optional
            The weight of each text.
        **options
            Handed to the model's ``fit``.

        Returns
        -------
        TextModel
            This object, fitted.

        Raises
        ------
        DataError
            For texts or labels of another type, or not as many of the one as of the other.
        """
        self.check_params()
        texts = check_texts(texts)
        n_texts = len(texts)
        vocabulary, Y = encode_labels(label_lists)
        if n_texts != Y.shape[0]:
            raise DataError(f"There are {n_texts} texts, but the labels of {Y.shape[0]}.")
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        before = dict(self.vectorizer.__dict__)
        try:
            X = self.vectorizer.fit_transform(texts)
            del texts  # a caller who gave an iterator has not kept them either
            self.model.fit(X, Y, **options)
        except BaseException:  # with its old vectoriser the model is what it was
            self.vectorizer.__dict__ = before
            raise
        self._join(vocabulary)
        return self

    def _join(self, vocabulary: Vocabulary) -> None:
        self.vocabulary_ = vocabulary
        self.n_features_, self.n_labels_ = self.model.n_features_, self.model.n_labels_

    def rank(  # type: ignore[override]  # as in fit
        self, texts: Iterable[str], k: int = 10, **options: Any
    ) -> NamedTopK:
        """The best labels of each text, best first.

        Parameters
        ----------
        texts : iterable of str, length n
        k : int
            Labels a text; there may be fewer.
        **options
            Handed to the model's ``rank``, such as ``beam=20``.

        Returns
        -------
        NamedTopK
            ``labels`` and ``scores`` of shape (n, k), and ``names``.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When ``texts`` is anything but strings.
        """
        self._need_fit("rank")
        top = self.model.rank(self.vectorizer.transform_rows(check_texts(texts)), k, **options)
        return NamedTopK(top.labels, top.scores, self.vocabulary_)

    def _probabilities(self, top: TopK) -> Any:
        return self.model._probabilities(top)

    def to_state(self) -> State:
        """The parts of the model, for :func:`sylvan.store.save`."""
        self._need_fit("to_state")
        parts = {
            "vectorizer": self.vectorizer.to_state(),
            "model": self.model.to_state(),
            "vocabulary": self.vocabulary_.to_state(),
        }
        meta: dict[str, JSON] = {"text_fields": list(self.text_fields_), "labels_field": self.labels_field_}
        return State(_KIND, 1, meta=meta, parts=parts)

    @classmethod
    def from_state(cls, state: State) -> TextModel:
        """Rebuild a model from its parts.

        Raises
        ------
        ModelError
            When a part is missing, of a wrong kind, or the parts do not fit each other.
        """
        store.need_kind(state, _KIND)
        vectorizer = TfidfVectorizer.from_state(store.need_part(state, "vectorizer", "tfidf-vectorizer"))
        vocabulary = Vocabulary.from_state(store.need_part(state, "vocabulary", "vocabulary"))
        model = rebuild(store.need_part(state, "model"))
        fields, labels_field = state.meta.get("text_fields"), state.meta.get("labels_field")
        where = f"{state.where or 'The text-model'!r} is damaged"
        if not isinstance(fields, list) or not fields or not all(isinstance(name, str) for name in fields):
            raise ModelError(f"{where}: 'text_fields' must be a list of strings. Got {fields!r:.60} instead.")
        if not isinstance(labels_field, str):
            raise ModelError(f"{where}: 'labels_field' must be a string. Got {labels_field!r:.60} instead.")
        try:
            made = cls.from_parts(vectorizer, model, vocabulary)
        except DataError as error:
            raise ModelError(f"{where}: {error}") from error
        made.text_fields_, made.labels_field_ = tuple(map(str, fields)), labels_field
        return made

    @classmethod
    def from_parts(cls, vectorizer: TfidfVectorizer, model: Estimator, vocabulary: Vocabulary) -> TextModel:
        """Join a vectoriser and a model that were fitted one after the other.

        Parameters
        ----------
        vectorizer : TfidfVectorizer
            Fitted.
        model : Estimator
            Fitted on what the vectoriser gives.
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
        if not isinstance(model, Estimator) or isinstance(model, TextModel):
            raise DataError(f"A TextModel is made of a model over matrices, not of {type(model).__name__}.")
        if model.n_features_ != vectorizer.n_terms_:
            raise DataError(
                f"The vectorizer gives {vectorizer.n_terms_} features, but the model has {model.n_features_}."
            )
        if model.n_labels_ != len(vocabulary):
            raise DataError(f"The vocabulary has {len(vocabulary)} names, but the model {model.n_labels_} labels.")
        joined = cls(vectorizer, model)
        joined._join(vocabulary)
        return joined


def check_texts(texts: Iterable[str]) -> list[str]:
    """``texts`` as a list of strings.

    Raises
    ------
    DataError
        When it is one string, or holds anything else.
    """
    if isinstance(texts, str | bytes):
        raise DataError("texts must be a list of strings. Got one string instead: put it into a list.")
    if sp.issparse(texts) or (isinstance(texts, np.ndarray) and texts.dtype.kind not in "OU"):
        raise DataError("A TextModel takes a list of strings. Got a matrix of numbers instead.")
    listed = texts if isinstance(texts, list) else list(texts)
    for row, text in enumerate(listed):
        if not isinstance(text, str):
            raise DataError(f"texts must be strings. Got {type(text).__name__} in row {row} instead.")
    return listed


def encode_labels(label_lists: Any) -> tuple[Vocabulary, Any]:
    """Names and matrix of the labels that ``fit`` is given; see :meth:`TextModel.fit` for the forms."""
    if isinstance(label_lists, str | bytes):
        raise DataError("The labels must be a list with one item a text. Got one string instead.")
    if sp.issparse(label_lists) or (isinstance(label_lists, np.ndarray) and label_lists.ndim == 2):
        Y = validate.labels(label_lists)
        return Vocabulary(map(str, range(Y.shape[1]))), Y
    try:
        listed = list(label_lists)
    except TypeError:
        raise DataError(f"The labels must be a list with one item a text, not {type(label_lists).__name__}.") from None
    if all(type(row) is list and all(type(name) is str for name in row) for row in listed):  # the usual case
        vocabulary = Vocabulary.from_labels(listed)
        return vocabulary, vocabulary.encode(listed)
    found = [_names_and_weights(row, number) for number, row in enumerate(listed)]
    names = [list(row) for row in found]
    vocabulary = Vocabulary.from_labels(names)
    return vocabulary, vocabulary.encode(names, [list(row.values()) for row in found])


def _names_and_weights(row: Any, number: int) -> dict[str | int, float]:
    """The labels of one text with their relevance; one that is named twice counts once, its relevance is summed."""
    if isinstance(row, str | int | np.integer):
        row = [row]
    items = row.items() if isinstance(row, Mapping) else row
    found: dict[str | int, float] = {}
    try:
        for item in items:
            name, weight = item if isinstance(item, tuple | list) else (item, None)
            name = _name(name)
            found[name] = 1.0 if weight is None else found.get(name, 0.0) + float(weight)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The labels of text {number} must be a list of strings, of ints or of pairs (label, relevance). "
            f"Got {row!r:.60} instead."
        ) from error
    return found


def _name(label: Any) -> str | int:
    if isinstance(label, str):
        return str(label)
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        return int(label)
    raise TypeError("not a label")


store.register(_KIND, TextModel.from_state)
