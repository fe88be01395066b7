"""What scikit-learn's tools expect of an estimator besides ``fit`` and ``predict``; doesn't need scikit-learn."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import feature_names
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError, UnsupportedError
from sylvan.labels.lookup import ids_of_names
from sylvan.labels.named_topk import NamedTopK
from sylvan.labels.targets import Targets, true_labels
from sylvan.labels.vocabulary import Numbers
from sylvan.models.label_changes import LabelChanges
from sylvan.params.wording import counted

_Self = TypeVar("_Self", bound="SklearnMixin")


class SklearnMixin(LabelChanges):
    """Names of labels and of features, classes where ``fit`` was given one a row, a score, and what scikit-learn asks
    before it uses an estimator."""

    n_features_: int
    feature_names_in_: npt.NDArray[Any]  # only where the columns of X had names
    single_label_: bool = False  # whether fit was given one class a row: an array, list or column of ids or names

    def rank(self, X: Any, k: int = 10) -> TopK:
        """The ``k`` best labels of each row of X."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no rank.")

    def __sklearn_is_fitted__(self) -> bool:
        return "n_labels_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask before they use an estimator; only they load scikit-learn. A model of matrices
        is a classifier, of one class or several labels a row, so that folds are stratified where there is one. A model
        of texts says so once it is fitted on one class a row: its labels are mostly lists, which scikit-learn refuses
        to stratify."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        texts = bool(getattr(self, "takes_texts", False))
        target = TargetTags(required=True, two_d_labels=True, multi_output=True)
        tags = Tags(estimator_type=None, target_tags=target, input_tags=InputTags(sparse=True))
        if texts:
            tags.input_tags = InputTags(two_d_array=False, string=True)
        if self.single_label_ or not texts:
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=True)
        return tags

    @property
    def n_features_in_(self) -> int:
        """scikit-learn's name for ``n_features_``."""
        return self.n_features_

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels in the order of :meth:`predict_proba`'s columns: names, or else the ids 0 to n_labels_ - 1."""
        self._need_fit("classes_")
        return np.arange(self.n_labels_) if self.vocabulary_ is None else self._as_classes(list(self.vocabulary_))

    @property
    def partial_fit(self) -> Any:
        """Not available: ``hasattr`` is False, for scikit-learn's tools too.

        Raises
        ------
        UnsupportedError
        """
        name = type(self).__name__
        raise UnsupportedError(f"{name} has no partial_fit: call fit with all rows, or update where a model has one.")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """P@1: the share of rows whose best label is correct.

        For several labels per row, scikit-learn's own classifiers report the share of rows with exactly the right
        labels; with thousands of labels that is nearly always 0.

        Parameters
        ----------
        X : as in :meth:`rank`
        y : as in ``fit``
            Labels that the model doesn't know count as missed.
        sample_weight : array of shape (n,), optional

        Raises
        ------
        DataError
            When X and y have different numbers of rows.
        """
        best = self.rank(X, k=1).labels[:, 0]
        truth = self._truth(y)
        if truth.shape[0] != len(best):
            raise DataError(f"X has {counted(len(best), 'row')}, but y has shape {truth.shape}.")
        width = max(truth.shape[1], self.n_labels_) + 1
        rows = np.arange(len(best), dtype=np.int64)
        right = np.isin(rows * width + best, np.repeat(rows, np.diff(truth.indptr)) * width + truth.indices)
        weight = validate.sample_weight(sample_weight, len(best))
        return float(np.average(right & (best >= 0), weights=weight)) if len(best) else float("nan")

    def _truth(self, Y: Any) -> Csr:
        """True labels by their ids; those that the model doesn't know are left out, or beyond its own."""
        return validate.labels(Y) if self.vocabulary_ is None else true_labels(Y, self.vocabulary_, unknown="drop")

    # ---------------------------------------- what concrete estimators build on

    def to_state(self) -> store.State:
        state = super().to_state()
        if self.single_label_:
            state.meta["single_label"] = True
        return state

    @classmethod
    def from_state(cls: type[_Self], state: store.State) -> _Self:
        made = super().from_state(state)
        made.single_label_ = "single_label" in state.meta and store.need_bool(state, "single_label")
        return made

    def _best_classes(self, top: TopK) -> npt.NDArray[Any]:
        """The class of each row that is ranked first, as it was called in ``fit``; the most frequent where none is."""
        best = top.labels[:, 0]
        if (best < 0).any():
            best = np.where(best < 0, np.int32(self._usual_class()), best)
        return self._classes_of(best)

    def _usual_class(self) -> int:
        """The label with most training rows."""
        return int(np.argmax(self.label_counts_))

    def _classes_of(self, ids: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
        """What labels are called; only those that occur are read from the vocabulary."""
        if self.vocabulary_ is None:
            return ids.astype(np.int64)
        different, place = np.unique(ids, return_inverse=True)
        return self._as_classes([self.vocabulary_[label] for label in different.tolist()])[place]

    def _as_classes(self, names: list[str]) -> npt.NDArray[Any]:
        """Names as an array, of numbers where labels are such."""
        if isinstance(self.vocabulary_, Numbers):
            numbers_ = [int(name) if name.removeprefix("-").isdecimal() else name for name in names]
            return np.array(numbers_, np.int64 if all(type(number) is int for number in numbers_) else object)
        return np.array(names, object)  # as long as they are; each as wide as the longest otherwise

    def _shares(self, top: TopK) -> npt.NDArray[np.float32]:
        """Probabilities of all classes, which sum to 1 in each row, as the class is one of them."""
        dense: npt.NDArray[np.float32] = top.to_csr(self.n_labels_).toarray()
        sums = dense.sum(axis=1, keepdims=True)
        equal = np.full_like(dense, 1 / dense.shape[1])
        shares: npt.NDArray[np.float32] = np.divide(dense, sums, out=equal, where=sums > 0)
        return shares

    def _training_pair(self, X: Any, Y: Any) -> tuple[Csr, Csr, Vocabulary | None]:
        """Features, labels and the names of the labels, where they have any."""
        Y, vocabulary = self._without_names(Y)
        return (*validate.pair(X, Y, owner=type(self).__name__), vocabulary)

    def _without_names(self, Y: Any) -> tuple[Csr, Vocabulary | None]:
        """Labels by ids, and their names, where they have any."""
        targets = Targets.read(Y)
        return targets.matrix, targets.names

    def _keep_names(self, X: Any, vocabulary: Vocabulary | None, single_label: bool = False) -> None:
        """At the end of ``fit``: the names of labels and columns, and whether each row has one class."""
        self.vocabulary_, self.single_label_ = vocabulary, single_label
        for name in ("feature_names_in_", "_removed"):
            self.__dict__.pop(name, None)
        columns = feature_names(X, "X")
        if columns is not None:
            self.feature_names_in_ = np.array(columns, dtype=object)

    def _features(self, X: Any) -> Csr:
        """What ``rank`` is given, verified; columns with other names than in ``fit`` are refused."""
        if "feature_names_in_" in self.__dict__:
            _need_columns(X, self.feature_names_in_.tolist(), type(self).__name__)
        return validate.features(X, n_features=self.n_features_, owner=type(self).__name__)

    def _filter(self, allowed: Any, denied: Any, n_rows: int) -> LabelFilter | None:
        """What ``rank`` may answer with; by name too, where labels have names."""
        if allowed is None and denied is None:
            return None
        if self.vocabulary_ is not None:
            allowed = ids_of_names(allowed, self.vocabulary_, "allowed")
            denied = ids_of_names(denied, self.vocabulary_, "denied")
        return LabelFilter.of(allowed, denied, n_rows=n_rows, n_labels=self.n_labels_)

    def _named(self, top: TopK) -> TopK:
        """An answer with names, where labels have names."""
        return top if self.vocabulary_ is None else NamedTopK(top.labels, top.scores, self.vocabulary_)

    def _names_to_parts(self) -> dict[str, store.State]:
        """The names of labels and columns as parts of a state."""
        parts = {}
        if self.vocabulary_ is not None:
            parts["numbers" if isinstance(self.vocabulary_, Numbers) else "classes"] = self.vocabulary_.to_state()
        if "feature_names_in_" in self.__dict__:
            parts["columns"] = Vocabulary.verbatim(self.feature_names_in_.tolist()).to_state()
        return parts

    def _names_from_parts(self, state: store.State) -> None:
        """The names that :meth:`_names_to_parts` gave, verified."""
        names = {}
        for name, size in (("classes", self.n_labels_), ("numbers", self.n_labels_), ("columns", self.n_features_)):
            if name in state.parts:
                kind = Numbers if name == "numbers" else Vocabulary
                names[name] = kind.from_state(store.need_part(state, name, "vocabulary"))
                if len(names[name]) != size:
                    raise ModelError(
                        f"{state.where!r} is damaged: {name!r} must hold {counted(size, 'name')}. Got "
                        f"{len(names[name])} instead."
                    )
        self.vocabulary_ = names.get("classes", names.get("numbers"))
        if "columns" in names:
            self.feature_names_in_ = np.array(list(names["columns"]), dtype=object)


def _need_columns(X: Any, expected: list[str], owner: str) -> None:
    columns = feature_names(X, "X")
    if columns is None or columns == expected:
        return
    unseen, missing = [n for n in columns if n not in set(expected)], [n for n in expected if n not in set(columns)]
    words = [f"{what}: {', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}" for what, names in
             (("not seen in fit", unseen), ("missing", missing)) if names]  # fmt: skip
    raise DataError(
        f"The feature names should match those that were passed during fit of {owner}: "
        f"{'; '.join(words) or 'they stand in another order'}."
    )
