"""Asking a model why it gives a label to a row: what is asked is checked, and what is found is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ParameterError
from sylvan.explain.explanation import Example, Explanation, LeafPath, Names, Step, TreeVote, WeighedFeature, excerpt
from sylvan.labels.vocabulary import find_label
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import Calibrator
from sylvan.ranking.tail import tail_of

SHARED = 5  # features named an example
MEANING = "the text's meaning (encoder)"


def nearest_examples(
    row: Csr, label: int, examples: Any, n: int, feature_name: Callable[[int], str], n_labels: int
) -> tuple[Example, ...]:
    """The ``n`` rows of ``examples`` with ``label`` of the greatest cosine with ``row``, lower rows among equals."""
    # Shape: row (1, n_features)
    if hasattr(examples, "nearest_with"):
        check_ranker(examples, row.shape[1], n_labels)
        result: tuple[Example, ...] = examples.nearest_with(row, label, n, feature_name)
        return result
    if not isinstance(examples, tuple | list) or len(examples) != 2:
        raise DataError(
            "examples must be a pair (X, Y) of training features and labels, or a fitted NeighborRanker. "
            f"Got {type(examples).__name__} instead."
        )
    X = validate.features(examples[0], n_features=row.shape[1], name="the features of examples", owner="the model")
    Y = validate.labels(examples[1], n_rows=X.shape[0], name="the labels of examples").to_scipy()
    if Y.shape[1] > n_labels:
        raise DataError(f"The labels of examples have shape {Y.shape}, but the model has {counted(n_labels, 'label')}.")
    rows = np.flatnonzero(np.diff(Y[:, [label]].indptr)) if label < Y.shape[1] else np.zeros(0, np.int64)
    return nearest_rows(row, X.to_scipy()[rows], rows, n, feature_name)


def check_ranker(ranker: Any, n_features: int, n_labels: int) -> None:
    """Refuse a ranker of other features or labels than the model's."""
    if not ranker.__sklearn_is_fitted__():
        raise DataError("The NeighborRanker given as examples is not fitted yet: call its fit first.")
    if (ranker.n_features_, ranker.n_labels_) != (n_features, n_labels):
        raise DataError(
            f"The NeighborRanker given as examples has {counted(ranker.n_features_, 'feature')} and "
            f"{counted(ranker.n_labels_, 'label')}, but the model has {n_features} and {n_labels}."
        )


def nearest_rows(
    row: Csr, X: sp.csr_matrix, numbers: Any, n: int, feature_name: Callable[[int], str]
) -> tuple[Example, ...]:
    """The ``n`` of the rows ``X``, which are called ``numbers``, that are nearest to ``row``."""
    query = row.to_scipy()
    dots = np.asarray((X @ query.T).todense(), np.float64).ravel()
    squares = np.asarray(X.multiply(X).sum(axis=1), np.float64).ravel() * float(np.square(row.data, dtype=float).sum())
    similarities = np.divide(dots, np.sqrt(squares), out=np.zeros(len(dots)), where=squares > 0)
    results = []
    for place in np.lexsort((numbers, -similarities))[:n].tolist():
        products = X[place].multiply(query).tocsr()
        shared = strongest(products.indices, products.data, feature_name)
        results.append(Example(int(numbers[place]), float(similarities[place]), shared))
    return tuple(results)


def strongest(features: Any, products: Any, feature_name: Callable[[int], str]) -> tuple[str, ...]:
    """The names of the features that add most to a similarity, the lower feature first among equals."""
    order = np.lexsort((features, -products))[:SHARED]
    return tuple(feature_name(int(features[i])) for i in order if products[i] > 0)


def with_excerpts(result: tuple[Example, ...], texts: Sequence[str]) -> tuple[Example, ...]:
    """The examples with the beginnings of their texts."""
    return tuple(replace(example, excerpt=excerpt(texts[example.row])) for example in result)


class Ranks(Protocol):
    """What is asked of a fitted model that explains itself."""

    n_features_: int
    n_labels_: int
    calibrator_: Calibrator | None

    @property
    def vocabulary_(self) -> Any: ...

    @property
    def removed_labels_(self) -> Any: ...

    def rank(self, X: Any, k: int = 10) -> TopK: ...

    def rank_plainly(self, X: Any, k: Any, **options: Any) -> TopK: ...

    def probabilities(self, top: TopK) -> TopK: ...


def explain_label(
    model: Ranks, x: Any, label: Any, top: Any, options: Mapping[str, Any], *,
    votes: Callable[..., tuple[TreeVote, ...]], notes: Callable[[Csr, int], tuple[str, ...]], examples: Any = None,
    n_examples: Any = 3, feature_names: Any = None, label_names: Any = None,
) -> Explanation:  # fmt: skip
    """Why a fitted model gives ``label`` to the row ``x``, with ``top`` features a node and sign, and ``options`` of
    its ranking: the label's place, what trees (``votes``) and the model (``notes``) say, the nearest ``examples``."""
    for name in ("allowed", "denied"):
        if options.get(name) is not None:
            raise ParameterError(f"explain looks at the ranking of all labels: it takes no {name!r}.")
    top = check_count(top, "top")
    row = validate.features(x, n_features=model.n_features_, owner=type(model).__name__)
    if row.shape[0] != 1:
        raise DataError(f"explain takes one row, as X[[7]]. X has shape ({row.shape[0]}, {row.shape[1]}).")
    label_names = model.vocabulary_ if label_names is None else label_names
    feature_names = getattr(model, "feature_names_in_", None) if feature_names is None else feature_names
    number = find_label(label, model.n_labels_, label_names)
    counts = getattr(model, "label_counts_", None)
    names = _names_of(feature_names, label_names, counts, model.n_features_, model.n_labels_)
    if number in model.removed_labels_:
        raise DataError(f"Label {number} was removed: there is nothing to explain.")
    trees, said = votes(row, number, top, names, **options), notes(row, number)
    place, score, probability, weighed = standing(model, row, number, options)
    nearest: tuple[Example, ...] = ()
    if examples is None and hasattr(model, "nearest_with"):
        examples = model  # it keeps its rows
    if examples is not None:
        n_examples = check_count(n_examples, "n_examples")
        nearest = nearest_examples(row, number, examples, n_examples, names.feature, model.n_labels_)
    return Explanation(
        type(model).__name__, number, names.label(number), place, score, model.n_labels_, model.n_features_, row.nnz,
        trees, nearest, probability=probability, notes=(*said, *weighed),
    )  # fmt: skip


def standing(
    model: Ranks, x: Any, label: int, options: Mapping[str, Any]
) -> tuple[int | None, float | None, float | None, tuple[str, ...]]:
    """A label's place, score and calibrated probability for one row or text, and what a ``tail`` does to them."""
    place, score = place_of(model.rank(x, k=model.n_labels_, **options), label)
    probability = None
    if model.calibrator_ is not None:
        plainly = {name: value for name, value in options.items() if name != "tail"}
        probability = place_of(model.probabilities(model.rank_plainly(x, model.n_labels_, **plainly)), label)[1]
    if (tail := tail_of(getattr(model, "tail", None), options.get("tail"))) is None:
        return place, score, probability, ()
    paths = "place and score are by probability times the label's gain; paths are without it."
    return place, score, probability, (f"With tail={tail!r} {paths}",)


def check_count(value: Any, name: str) -> int:
    """``top`` and ``n_examples``."""
    return validate.count(value, name, owner="explain", high=10_000)


def place_of(top: TopK, label: int) -> tuple[int | None, float | None]:
    """Place, from 1, and score of a label in the ranking of one row."""
    places = np.flatnonzero(top.labels[0] == label)
    return (int(places[0]) + 1, float(top.scores[0, places[0]])) if len(places) else (None, None)


def _names_of(feature_names: Any, label_names: Any, counts: Any, n_features: int, n_labels: int) -> Names:
    """What features and labels are called, by lists of the right length, a Vocabulary, functions or nothing."""
    results: list[Callable[[int], str]] = []
    for parameter, names, n in (("feature_names", feature_names, n_features), ("label_names", label_names, n_labels)):
        word = parameter.partition("_")[0]
        if names is None:
            results.append(f"{word} {{}}".format)
        elif callable(names):
            results.append(names)
        else:
            if len(names) != n:
                raise DataError(f"{parameter} has {counted(len(names), 'name')}, but the model has {counted(n, word)}.")
            results.append(lambda i, listed=names: str(listed[i]))  # type: ignore[misc]  # one list a function
    return Names(results[0], results[1], counts)


def gathered(result: Explanation, top: int, n_terms: int) -> Explanation:
    """An explanation that lists the ``top`` strongest features a sign, with those from ``n_terms`` on added up."""
    top = check_count(top, "top")
    trees = []
    for tree in result.trees:
        steps = [(path.leaf, tuple(_gathered_step(step, top, n_terms) for step in path.steps)) for path in tree.paths]
        trees.append(replace(tree, paths=tuple(LeafPath(*each) for each in steps)))
    examples = tuple(replace(each, shared=tuple(dict.fromkeys(each.shared))) for each in result.examples)
    return replace(result, trees=tuple(trees), examples=examples)


def _gathered_step(step: Step, top: int, n_terms: int) -> Step:
    listed = [*step.positive, *step.negative]
    words = [feature for feature in listed if feature.feature < n_terms]
    dense = [feature for feature in listed if feature.feature >= n_terms]
    if dense:
        together = sum(feature.contribution for feature in dense)
        words.append(WeighedFeature(n_terms, MEANING, 1.0, together))
    strongest = sorted(words, key=lambda feature: (-abs(feature.contribution), feature.feature))
    positive = tuple([feature for feature in strongest if feature.contribution > 0][:top])
    negative = tuple([feature for feature in strongest if feature.contribution < 0][:top])
    displayed = sum(feature.contribution for feature in (*positive, *negative))
    remainder = step.rest + sum(feature.contribution for feature in listed) - displayed
    n_weighed = step.n_weighed - len(dense) + bool(dense)
    return replace(step, positive=positive, negative=negative, rest=remainder, n_weighed=n_weighed)
