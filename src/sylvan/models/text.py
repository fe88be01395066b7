"""TextModel: from strings to strings, a vectoriser and a model in one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sylvan import store, validate
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError
from sylvan.models import explanation as explaining
from sylvan.models.base import Estimator
from sylvan.models.explanation import Example, Explanation
from sylvan.models.label_names import NamedTopK, ids_of_names, names_for
from sylvan.models.plan import Plan, text_plan
from sylvan.models.text_examples import nearest_texts
from sylvan.models.text_labels import LabelNumbers, encode_labels, scratch_for, texts_of
from sylvan.models.xr_linear import XRLinear
from sylvan.params import Constraint, Instance
from sylvan.registry import rebuild
from sylvan.store import JSON, State
from sylvan.text import TfidfVectorizer
from sylvan.topk import TopK
from sylvan.validate import Csr

__all__ = ["NamedTopK", "TextModel"]

_KIND = "text-model"


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
    def takes_texts(self) -> bool:
        """Whether the model ranks texts, not matrices: always."""
        return True

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
        listed = [check_texts(texts)]
        del texts  # a caller who gave an iterator has not kept them either
        n_texts = len(listed[0])
        vocabulary, Y = encode_labels(label_lists)
        if n_texts != Y.shape[0]:
            raise DataError(f"There are {n_texts} texts, but the labels of {Y.shape[0]}.")
        return self._fit(
            lambda: self.vectorizer.fit_transform(listed.pop()), lambda: (vocabulary, Y), sample_weight, options
        )

    def plan(self, texts: Iterable[str], label_lists: Any, sample_weight: Any = None, **options: Any) -> Plan:
        """What ``fit`` with the same arguments would take: time, memory and the size of the model.

        The texts are turned into features for it as ``fit`` would do; the rest is the model's own plan. Nothing of
        this object changes. Parameters and errors as in :meth:`fit`.

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
        texts, (vocabulary, Y) = check_texts(texts), encode_labels(label_lists)
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        return text_plan(self.vectorizer, self.model, texts, vocabulary, Y, options)

    def fit_blocks(self, blocks: Iterable[Any], sample_weight: Any = None, **options: Any) -> TextModel:
        """As :meth:`fit`, from texts that come block by block and are never all there: the same model, to the bit.

        Parameters
        ----------
        blocks : iterable of (texts, label lists) or TextData
            Such as :func:`sylvan.data.stream_jsonl` gives: some thousands of texts at a time, each with a list of names
            or ints, and their relevances as a third item where there are any.
        sample_weight : array-like of shape (n,), optional
        **options
            Handed to the model's ``fit``. With ``memory_limit`` the features lie in files.

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
        labels = LabelNumbers()
        texts = texts_of(blocks, labels.take)
        scratch = scratch_for(options)
        return self._fit(
            lambda: self.vectorizer.fit_transform_blocks(texts, scratch=scratch), labels.finish, sample_weight, options
        )

    def _fit(
        self,
        features: Callable[[], Any],
        labels: Callable[[], tuple[Vocabulary, Any]],
        sample_weight: Any,
        options: dict[str, Any],
    ) -> TextModel:
        """Vectoriser first, then the labels, then the model."""
        if sample_weight is not None:
            options["sample_weight"] = sample_weight
        before = dict(self.vectorizer.__dict__)
        try:
            X = features()
            vocabulary, Y = labels()
            self.model.fit(X, Y, **options, **names_for(self.model, vocabulary))
        except BaseException:  # with its old vectoriser the model is what it was
            self.vectorizer.__dict__ = before
            raise
        self._join(vocabulary)
        return self

    def _truth(self, Y: Any) -> Csr:
        if sp.issparse(Y) or (isinstance(Y, np.ndarray) and Y.ndim == 2):
            return validate.labels(Y)
        rows: list[Any] = [[row] if isinstance(row, str | int | np.integer) else row for row in Y]
        return validate.labels(self.vocabulary_.encode(rows, unknown="ignore"))

    def _join(self, vocabulary: Vocabulary) -> None:
        self.vocabulary_ = vocabulary
        self.n_features_, self.n_labels_ = self.model.n_features_, self.model.n_labels_

    def rank(  # type: ignore[override]  # as in fit
        self, texts: Iterable[str], k: int = 10, *, allowed: Any = None, denied: Any = None, **options: Any
    ) -> NamedTopK:
        """The best labels of each text, best first.

        Parameters
        ----------
        texts : iterable of str, length n
        k : int
            Labels a text; there may be fewer.
        allowed, denied : list of str or int, list of such lists, or mask of shape (n, n_labels_), optional
            The only labels to answer with, for every text or text by text, and labels not to answer with. Strings
            are names, ints label ids.
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
            When ``texts`` is anything but strings, or a label's name isn't known.
        """
        self._need_fit("rank")
        for name, labels in (("allowed", allowed), ("denied", denied)):
            if labels is not None:
                options[name] = ids_of_names(labels, self.vocabulary_, name)
        top = self.model.rank(self.vectorizer.transform_rows(check_texts(texts)), k, **options)
        return NamedTopK(top.labels, top.scores, self.vocabulary_)

    def explain(  # type: ignore[override]  # a text and a name are what x and label are here
        self,
        text: str | list[str],
        label: str | int,
        top: int = 10,
        *,
        examples: Any = None,
        n_examples: int = 3,
        **options: Any,
    ) -> Explanation:
        """Why the model gives ``label`` to a text, or why it doesn't.

        Parameters
        ----------
        text : str, or list of one
        label : str or int
            The label's name.
        top : int
            Most words listed for, and most against, each node on the label's path.
        examples : pair (texts, label_lists), NeighborRanker, or pair (NeighborRanker, texts), optional
            Training texts and their labels, or a ranker fitted on this model's features of them (or a TextModel of
            one), with the texts if they are to be shown; the nearest of those that have the label are added.
        n_examples : int
            How many of them.
        **options
            What the model's ``rank`` takes too, such as ``beam=20``.

        Returns
        -------
        Explanation
            Data, with ``text()``, ``html()`` and ``save(path)``.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When ``text`` is not one string, or there is no such label; with the names that look like it.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> tagger = TextModel().fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
        >>> found = tagger.explain("the white whales", "Whaling")
        >>> found.place, found.trees[0].paths[0].steps[-1].positive[0].name
        (1, 'whales')
        """
        self._need_fit("explain")
        texts = check_texts([text] if isinstance(text, str) else text)
        if len(texts) != 1:
            raise DataError(f"explain takes one text. Got {len(texts)} instead.")
        found = self.model.explain(
            self.vectorizer.transform_rows(texts), explaining.find_label(str(label), self.n_labels_, self.vocabulary_),
            top, n_examples=n_examples, feature_names=self.vectorizer.term, label_names=self.vocabulary_, **options,
        )  # fmt: skip
        nearest: tuple[Example, ...] = ()
        if examples is not None:
            n_examples = explaining.check_count(n_examples, "n_examples")
            nearest = nearest_texts(self, texts, found.name, examples, n_examples)
        elif found.examples:  # of a model that keeps its rows
            nearest = found.examples
        return replace(found, excerpt=explaining.excerpt(texts[0]), examples=nearest)

    def _untailed(self) -> dict[str, Any]:
        return self.model._untailed()

    def choose(self, texts: Iterable[str], **options: Any) -> NamedTopK:  # type: ignore[override]  # as in fit
        """The labels that a stopping rule picks for each text, best first, with their probabilities and names.

        Parameters
        ----------
        texts : iterable of str, length n
        **options
            ``k``, ``threshold``, ``expected`` and ``precision`` as in :meth:`XRLinear.choose`; ``threshold`` may also
            be a dict from names to numbers, and is 0.5 for names that it lacks. Others are handed to the model's
            ``rank``.

        Returns
        -------
        NamedTopK
            ``labels`` and ``scores``, and ``names``: each text's list.

        Examples
        --------
        >>> from sylvan import TextModel
        >>> texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"]
        >>> tagger = TextModel().fit(texts, [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"]])
        >>> tagger.choose(["how to bake bread"], expected="f1").names
        [['Baking']]
        """
        top = super().choose(texts, **options)
        return NamedTopK(top.labels, top.scores, self.vocabulary_)

    def probabilities(self, top: TopK) -> TopK:
        """What :meth:`rank` answered, with probabilities for scores, as :meth:`predict_proba` gives them."""
        self._need_fit("probabilities")
        found = self.model.probabilities(top)
        return NamedTopK(found.labels, found.scores, self.vocabulary_)

    def _probabilities(self, top: TopK) -> Any:
        return self.model._probabilities(top)

    def _thresholds(self, threshold: Any) -> Any:
        return thresholds_by_name(threshold, self.vocabulary_)

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
        if not isinstance(model, Estimator) or model.takes_texts:
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


def thresholds_by_name(threshold: Any, vocabulary: Vocabulary) -> Any:
    """``threshold`` with a dict from names turned into one number a label, 0.5 for those that it lacks.

    Raises
    ------
    DataError
        When it names a label that there isn't.
    """
    if not isinstance(threshold, Mapping):
        return threshold
    labels: list[int] = []
    for name in threshold:
        label = vocabulary.get(name)
        if label is None:
            raise DataError(f"threshold names {name!r}, which is no label of the model.")
        labels.append(label)
    each = np.full(len(vocabulary), 0.5)
    each[labels] = validate.real_numbers(list(threshold.values()), "threshold")
    return each


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


store.register(_KIND, TextModel.from_state)
