"""What goes from texts to names, whatever turns its texts into features: asking, explaining, choosing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.frames import texts_of
from sylvan.arrays.topk import TopK, answers_of
from sylvan.arrays.validate import Csr
from sylvan.data import Vocabulary
from sylvan.errors import DataError
from sylvan.explain.explanation import Example, Explanation, excerpt
from sylvan.explain.paths import Candidates
from sylvan.explain.question import check_count, check_ranker, nearest_rows, with_excerpts
from sylvan.labels.targets import names_and_weights, true_labels
from sylvan.labels.vocabulary import NamedTopK, find_label, ids_of_names, label_name
from sylvan.models.base import Estimator
from sylvan.parallel import of_one_state
from sylvan.params.fields import Choice, Number, check_value
from sylvan.params.wording import counted
from sylvan.ranking.votes import LabelRows

Unknown = Literal["none", "prior"]  # what a text of which a model knows nothing gets: no labels, or what is usual
_UNKNOWN = Choice(get_args(Unknown))
UNKNOWN_TEXT = "The model knows no word of this text: it gives it no labels."


class TextEstimator(Estimator):
    """Base of the models over texts; a concrete one says what a text's features are and which model ranks them."""

    vocabulary_: Vocabulary  # the label names; `vocabulary_[label]` is the name of a label id
    unknown: Unknown = "none"
    text_fields_: tuple[str, ...] = ("text",)  # the fields of JSON lines whose joined texts the model was trained on
    labels_field_: str = "labels"  # the field of their labels, in the same way; "labels" by default

    def inner(self) -> Estimator:
        """The model over matrices that ranks the features of texts; the model itself where there is none."""
        return self

    def _by_inner(self, name: str, *args: Any) -> Any:
        """What the model over matrices says, or where there is none, what any model says."""
        inner: Any = self.inner()
        value = getattr(super() if inner is self else inner, name)
        return value(*args) if callable(value) else value

    def _text_features(self, texts: list[str]) -> Csr:
        """The features of checked texts, as :meth:`inner` takes them."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no features.")

    def _feature_name(self, column: int) -> str:
        """What a column of the features is called."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no features.")

    @property
    def takes_texts(self) -> bool:
        """Whether the model ranks texts, not matrices: always."""
        return True

    def known_texts(self, X: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which texts the model knows anything of; with ``unknown="none"`` the others get no labels.

        Parameters
        ----------
        X : iterable of str, length n

        Returns
        -------
        ndarray of bool, shape (n,)
            False for a text without a feature: of blanks, of words that were in no training text, of another script.

        Raises
        ------
        NotFittedError, DataError

        Examples
        --------
        >>> from sylvan import TextModel
        >>> tagger = TextModel().fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
        >>> tagger.known_texts(["the whales", "Πάντα ῥεῖ"]).tolist(), tagger.rank(["Πάντα ῥεῖ"], k=1).names
        ([True, False], [[]])
        """
        self._need_fit("known_texts")
        texts = check_texts(X, type(self).__name__)
        return self._known(self._text_features(texts), texts)

    def _known(self, features: Csr, texts: list[str]) -> npt.NDArray[np.bool_]:
        """Which texts have features; a blank one has none, whatever an encoder makes of it."""
        has_words = [text != "" and not text.isspace() for text in texts]
        if len(texts) == 1:  # an array of one row costs more to make than to ask
            return np.array([has_words[0] and bool(features.indptr[1] > 0)])
        return np.array(has_words, bool) & (np.diff(features.indptr) > 0)

    def _answered(self, features: Csr, texts: list[str], unknown: str | None) -> npt.NDArray[np.bool_]:
        """Which texts get labels."""
        mode = self.unknown if unknown is None else unknown
        if mode == "none":
            return self._known(features, texts)
        check_value("unknown", mode, _UNKNOWN, f"{type(self).__name__}.rank")
        return np.ones(len(texts), bool)

    @of_one_state
    def rank(
        self, X: Iterable[str], k: int = 10, *, allowed: Any = None, denied: Any = None, unknown: Unknown | None = None,
        **options: Any,
    ) -> NamedTopK:  # fmt: skip
        """The best labels of each text, best first.

        Parameters
        ----------
        X : iterable of str, length n
        k : int
            Number of labels per text; there may be fewer.
        allowed, denied : list of str or int, list of such lists, or mask of shape (n, n_labels_), optional
            The only labels that may be answered, and labels that may not, for all texts or for each text. Strings are
            names, ints label ids.
        unknown : {"none", "prior"}, optional
            What a text gets of which the model knows nothing; by default the parameter.
        **options
            Passed to the model's ``rank``, such as ``beam=20``.

        Returns
        -------
        NamedTopK
            ``labels`` and ``scores`` of shape (n, k), and ``names``.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        DataError
            When ``X`` is anything but strings, or a label's name isn't known.
        """
        self._need_fit("rank")
        for name, labels in (("allowed", allowed), ("denied", denied)):
            if labels is not None:
                options[name] = ids_of_names(labels, self.vocabulary_, name)
        top = self._rank_texts(check_texts(X, type(self).__name__), k, options, unknown)
        return NamedTopK(top.labels, top.scores, self.vocabulary_)

    def rank_voted(self, X: Iterable[str], k: int, **options: Any) -> TopK:
        if not self.has_voters:
            return super().rank_voted(X, k, **options)
        for name in ("allowed", "denied"):
            if name in options:
                options[name] = ids_of_names(options[name], self.vocabulary_, name)
        options.pop("unknown", None)  # without features there are no neighbours that would vote
        return self.inner().rank_voted(self._text_features(check_texts(X, type(self).__name__)), k, **options)

    @property
    def has_voters(self) -> bool:
        return bool(self._by_inner("has_voters"))

    @property
    def voters_(self) -> LabelRows | None:
        voters: LabelRows | None = self._by_inner("voters_")
        return voters

    def _rank_texts(self, texts: list[str], k: int, options: dict[str, Any], unknown: str | None) -> TopK:
        """The ranking of checked texts; ``allowed`` and ``denied`` are among the options, by ids."""
        features = self._text_features(texts)
        return answers_of(self.inner().rank(features, k, **options), self._answered(features, texts, unknown))

    @of_one_state
    def explain(
        self, x: str | list[str], label: str | int, top: int = 10, *, examples: Any = None, n_examples: int = 3,
        unknown: Unknown | None = None, **options: Any,
    ) -> Explanation:  # fmt: skip
        """Why the model gives ``label`` to a text, or why it doesn't."""
        self._need_fit("explain")
        texts = one_text(x, type(self).__name__)
        features = self._text_features(texts)
        name = self.vocabulary_[find_label(label, self.n_labels_, self.vocabulary_)]
        result = self.inner().explain(
            features, name,
            top, n_examples=n_examples, feature_names=self._feature_name, label_names=self.vocabulary_, **options,
        )  # fmt: skip
        nearest: tuple[Example, ...] = ()
        if examples is not None:
            n_examples = check_count(n_examples, "n_examples")
            nearest = _nearest_texts(self, texts, result.name, examples, n_examples)
        elif result.examples:  # of a model that keeps its rows
            nearest = result.examples
        if not self._answered(features, texts, unknown)[0]:
            result = replace(result, place=None, score=None, probability=None, trees=(), notes=(UNKNOWN_TEXT,))
        return replace(result, excerpt=excerpt(texts[0]), examples=nearest)

    def searched(self, x: str | list[str], tree: int = 0, beam: int | None = None) -> list[Candidates]:
        """The nodes that the search for one text scores; see :meth:`Estimator.searched`."""
        self._need_fit("searched")
        inner = self.inner()
        if inner is self:
            return super().searched(x, tree, beam)
        texts = check_texts([x] if isinstance(x, str) else x, type(self).__name__)
        return inner.searched(self._text_features(texts), tree, beam)

    @property
    def removed_labels_(self) -> npt.NDArray[np.int32]:
        self._need_fit("removed_labels_")
        removed: npt.NDArray[np.int32] = self._by_inner("removed_labels_")
        return removed

    def rank_options(self) -> list[str]:
        return list(dict.fromkeys([*super().rank_options(), *self.inner().rank_options()]))

    def _untailed(self) -> dict[str, Any]:
        return dict(self._by_inner("_untailed"))

    @of_one_state
    def probabilities(self, top: TopK) -> TopK:
        """The result of :meth:`rank` with probabilities instead of scores, as in :meth:`predict_proba`."""
        self._need_fit("probabilities")
        result = self._by_inner("probabilities", top)
        return NamedTopK(result.labels, result.scores, self.vocabulary_)

    def _probabilities(self, top: TopK) -> Any:
        return self._by_inner("_probabilities", top)

    def _usual_class(self) -> int:
        return int(self._by_inner("_usual_class"))

    def _thresholds(self, threshold: Any) -> Any:
        return thresholds_by_name(threshold, self.vocabulary_)

    def _truth(self, Y: Any) -> Csr:
        return true_labels(Y, self.vocabulary_, unknown="drop")

    def _all_rows(self, rows: Any) -> tuple[Csr, Csr]:
        """Features and labels of texts that are given again."""
        if not (isinstance(rows, tuple | list) and len(rows) == 2):
            raise DataError(f"rows must be a pair of texts and labels. Got {type(rows).__name__} instead.")
        return self._text_features(check_texts(rows[0], type(self).__name__)), self._truth(rows[1])

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        fields = {"text_fields": list(self.text_fields_), "labels_field": self.labels_field_}
        return fields, {}, {"vocabulary": self.vocabulary_.to_state()}

    def _restore(self, state: store.State) -> None:
        fields, labels_field = state.meta.get("text_fields"), state.meta.get("labels_field")
        if not isinstance(fields, list) or not fields or not all(isinstance(name, str) for name in fields):
            raise DataError(f"'text_fields' must be a list of strings. Got {fields!r:.60} instead.")
        if not isinstance(labels_field, str):
            raise DataError(f"'labels_field' must be a string. Got {labels_field!r:.60} instead.")
        self.text_fields_, self.labels_field_ = tuple(map(str, fields)), labels_field
        self.vocabulary_ = Vocabulary.from_state(store.need_part(state, "vocabulary", "vocabulary"))


def thresholds_by_name(threshold: Any, vocabulary: Vocabulary) -> Any:
    """``threshold`` with a dict from names turned into one number a label, 0.5 for those that it lacks."""
    if not isinstance(threshold, Mapping):
        return threshold
    labels: list[Any] = [vocabulary.get(name) for name in threshold]
    if None in labels:
        unknown = list(threshold)[labels.index(None)]
        raise DataError(f"threshold names {unknown!r}, which is no label of the model.")
    if len(set(labels)) < len(labels):
        twice = next(name for place, name in enumerate(threshold) if labels[place] in labels[:place])
        raise DataError(f"threshold names the label {label_name(str(twice))!r} twice, once as {twice!r}.")
    for name, value in threshold.items():
        if not Number(float, 0, 1).accepts(value):
            raise DataError(f"threshold must give each label a number in [0, 1]. Got {value!r} for {name!r} instead.")
    each = np.full(len(vocabulary), 0.5)
    each[np.array(labels, np.int64)] = list(threshold.values())
    return each


def check_texts(texts: Iterable[str], owner: str = "This model") -> list[str]:
    """``texts`` as a list of strings; ``owner`` is who takes them, in errors."""
    if isinstance(texts, str | bytes):
        raise DataError("texts must be a list of strings. Got one string instead: put it into a list.")
    texts = texts_of(texts)
    if sp.issparse(texts) or (isinstance(texts, np.ndarray) and texts.dtype.kind not in "OUT"):
        raise DataError(f"{owner} takes a list of strings. Got a matrix of numbers instead.")
    if not np.iterable(texts):
        raise DataError(f"texts must be a list of strings. Got {type(texts).__name__} instead.")
    listed = texts if isinstance(texts, list) else list(texts)
    for row, text in enumerate(listed):
        if not isinstance(text, str):
            raise DataError(f"texts must be strings. Got {type(text).__name__} in row {row} instead.")
    return listed


def one_text(x: str | list[str], owner: str) -> list[str]:
    """What ``explain`` is given: one text, in a list or not."""
    texts = check_texts([x] if isinstance(x, str) else x, owner)
    if len(texts) != 1:
        raise DataError(f"explain takes one text. Got {len(texts)} instead.")
    return texts


def _nearest_texts(model: TextEstimator, texts: list[str], name: str, examples: Any, n: int) -> tuple[Example, ...]:
    """The ``n`` training texts of a label that are nearest to the one in ``texts``: by a NeighborRanker, over the
    model's features or in a TextModel of its own, or of texts and their labels."""
    source, example_labels = examples if isinstance(examples, tuple | list) and len(examples) == 2 else (examples, None)
    if isinstance(source, Estimator):
        checked, owner = None if example_labels is None else check_texts(example_labels), model
        ranker: Any = source
        if isinstance(source, TextEstimator):
            owner, ranker = source, source.inner()
        if not hasattr(ranker, "nearest_with"):
            raise DataError(f"examples must be a NeighborRanker or hold one. Got {type(ranker).__name__} instead.")
        if owner is model:
            check_ranker(ranker, model.n_features_, model.n_labels_)
        if (label := owner.vocabulary_.get(name)) is None:
            return ()
        result: tuple[Example, ...] = ranker.nearest_with(owner._text_features(texts), label, n, owner._feature_name)
        if checked is not None and len(checked) != ranker.n_rows_:
            raise DataError(
                f"examples have {counted(len(checked), 'text')}, but the NeighborRanker was fitted on {ranker.n_rows_}."
            )
        return result if checked is None else with_excerpts(result, checked)
    if example_labels is None:
        raise DataError(
            "examples must be a pair (texts, label_lists) of training texts and their labels, or a fitted "
            f"NeighborRanker. Got {type(examples).__name__} instead."
        )
    checked, label_lists = check_texts(source), list(example_labels)
    if len(checked) != len(label_lists):
        raise DataError(f"examples have {counted(len(checked), 'text')}, but labels for {len(label_lists):,}.")
    rows = [i for i, row in enumerate(label_lists) if name in map(str, names_and_weights(row, i))]
    if not rows:
        return ()
    X = model._text_features([checked[i] for i in rows]).to_scipy()
    nearest = nearest_rows(model._text_features(texts), X, np.array(rows, int), n, model._feature_name)
    return with_excerpts(nearest, checked)
