"""What scikit-learn's tools expect of an estimator besides ``fit`` and ``predict``: tags, classes, names of columns, a
score. Doesn't need scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import feature_names
from sylvan.arrays.topk import TopK
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError
from sylvan.labels.vocabulary import Numbers
from sylvan.params.wording import counted


def sklearn_tags(takes_texts: bool, single_label: bool) -> Any:
    """What scikit-learn's tools ask before they use an estimator; only they load scikit-learn. A model of matrices
    is a classifier, of one class or several labels a row, so that folds are stratified where there is one. A model
    of texts says so once it is fitted on one class a row: its labels are mostly lists, which scikit-learn refuses
    to stratify."""
    from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

    target = TargetTags(required=True, two_d_labels=True, multi_output=True)
    tags = Tags(estimator_type=None, target_tags=target, input_tags=InputTags(sparse=True))
    if takes_texts:
        tags.input_tags = InputTags(two_d_array=False, string=True)
    if single_label or not takes_texts:
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=True)
    return tags


def classes_of(vocabulary: Vocabulary | None, ids: npt.NDArray[np.int32]) -> npt.NDArray[Any]:
    """What labels are called; only those that occur are read from the vocabulary."""
    if vocabulary is None:
        return ids.astype(np.int64)
    different, place = np.unique(ids, return_inverse=True)
    return as_classes(vocabulary, [vocabulary[label] for label in different.tolist()])[place]


def as_classes(vocabulary: Vocabulary, names: list[str]) -> npt.NDArray[Any]:
    """Names as an array, of numbers where labels are such."""
    if isinstance(vocabulary, Numbers):
        numbers_ = [int(name) if name.removeprefix("-").isdecimal() else name for name in names]
        return np.array(numbers_, np.int64 if all(type(number) is int for number in numbers_) else object)
    return np.array(names, object)  # as long as they are; each as wide as the longest otherwise


def shares(top: TopK, n_labels: int) -> npt.NDArray[np.float32]:
    """Probabilities of all classes, which sum to 1 in each row, as the class is one of them."""
    dense: npt.NDArray[np.float32] = top.to_csr(n_labels).toarray()
    sums = dense.sum(axis=1, keepdims=True)
    equal = np.full_like(dense, 1 / dense.shape[1])
    shares: npt.NDArray[np.float32] = np.divide(dense, sums, out=equal, where=sums > 0)
    return shares


def accuracy(best: npt.NDArray[np.int32], truth: Csr, n_labels: int, sample_weight: Any) -> float:
    """The weighted share of rows whose best label is one of the true ones."""
    if truth.shape[0] != len(best):
        raise DataError(f"X has {counted(len(best), 'row')}, but y has shape {truth.shape}.")
    width = max(truth.shape[1], n_labels) + 1
    rows = np.arange(len(best), dtype=np.int64)
    right = np.isin(rows * width + best, np.repeat(rows, np.diff(truth.indptr)) * width + truth.indices)
    weight = validate.sample_weight(sample_weight, len(best))
    return float(np.average(right & (best >= 0), weights=weight)) if len(best) else float("nan")


def names_to_parts(vocabulary: Vocabulary | None, columns: Sequence[str] | None) -> dict[str, store.State]:
    """The names of labels and columns as parts of a state."""
    parts = {}
    if vocabulary is not None:
        parts["numbers" if isinstance(vocabulary, Numbers) else "classes"] = vocabulary.to_state()
    if columns is not None:
        parts["columns"] = Vocabulary.verbatim(columns).to_state()
    return parts


def names_from_parts(state: store.State, n_labels: int, n_features: int) -> tuple[Vocabulary | None, Vocabulary | None]:
    """The names that :func:`names_to_parts` gave, verified: of labels, and of columns."""
    names = {}
    for name, size in (("classes", n_labels), ("numbers", n_labels), ("columns", n_features)):
        if name in state.parts:
            kind = Numbers if name == "numbers" else Vocabulary
            names[name] = kind.from_state(store.need_part(state, name, "vocabulary"))
            if len(names[name]) != size:
                raise ModelError(
                    f"{state.where!r} is damaged: {name!r} must hold {counted(size, 'name')}. Got "
                    f"{len(names[name])} instead."
                )
    return names.get("classes", names.get("numbers")), names.get("columns")


def need_columns(X: Any, expected: list[str], owner: str) -> None:
    """Refuse columns with other names than in ``fit``."""
    columns = feature_names(X, "X")
    if columns is None or columns == expected:
        return
    unseen, missing = [n for n in columns if n not in set(expected)], [n for n in expected if n not in set(columns)]
    words = [f"{fault}: {', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}" for fault, names in
             (("not seen in fit", unseen), ("missing", missing)) if names]  # fmt: skip
    raise DataError(
        f"The feature names should match those that were passed during fit of {owner}: "
        f"{'; '.join(words) or 'they stand in another order'}."
    )
