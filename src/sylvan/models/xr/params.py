"""What parameters and rows make of XR-Linear: its trees, how each one's rankers are trained, and the scale of features:
what costs, pruning and the bias mean doesn't depend on the unit that they are measured in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from sylvan.arrays.types import Float32
from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import Rows
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.indexing.embeddings import embed_labels
from sylvan.indexing.tree import TREE
from sylvan.matching import beam as matching
from sylvan.matching.negatives import Negatives
from sylvan.params.wording import counted
from sylvan.ranking.linear import LANES, LinearOptions
from sylvan.ranking.training import TreeTraining
from sylvan.runtime import Job, Once, Runner

# Words that stand for two others, one for the layers above the last and one for the last. "paper" is what the paper
# settles on (Section 3, "Choice of Negative Sampling Schemes and Transform functions").
Scheme = Literal[Negatives, "paper"]
PAIRS = {
    "negatives": {"paper": ("tfn", "tfn+man")},
    "combine": {
        "paper": ("l3_hinge", "ranker"), "paper:nested": ("l3_hinge:nested", "ranker"),
        "damped": ("l3_hinge", "l3_hinge:0.35"),
    },
}
# "damped" after teacher forcing: its rankers know less of what lies above them.
DAMPED_TFN = "l3_hinge:0.65"
# Features a row from which on negatives count as much as positives, and what they count for in the shortest rows. The
# shorter a row, the more of its labels it doesn't say: a search brings rows that lack a label by chance.
FULL_ROW, LEAST_NEGATIVE_COST = 30, 0.3
# Feature values times groups of labels solved side by side, up to which a training takes a moment however precisely it
# is solved; and what it's then solved with.
SMALL, PRECISE_TOLERANCE, PRECISE_ITERATIONS = 350_000, 1e-4, 300
# Columns whose values differ by more than this are of different units. Those of TF-IDF differ by about ten, and on
# purpose: rare words count for more.
_SPREAD = 100.0
_NEAR_1 = 1e-3  # lengths this near to 1 are 1, but for rounding
_RANGE = (1e-14, 1e14)  # beyond it float32 would overflow in squares


def layer_words(params: Any, name: str, depth: int) -> list[str]:
    """The parameter ``negatives`` or ``combine``, which is one word or one a layer, as one a layer."""
    value, negatives = getattr(params, name), params.negatives
    if not isinstance(value, str):
        value = tuple(value)
    return list(_layer_words(name, value, negatives if isinstance(negatives, str) else tuple(negatives), depth))


@cache  # of few values, and asked for by each query
def _layer_words(
    name: str, value: str | tuple[str, ...], negatives: str | tuple[str, ...], depth: int
) -> tuple[str, ...]:
    pairs = PAIRS[name]
    if isinstance(value, str) and value not in pairs:
        return (value,) * depth
    words = [value] * depth if isinstance(value, str) else list(value)
    if len(words) != depth:
        raise ParameterError(
            f"The {name!r} parameter of XRLinear names {counted(len(words), 'layer')}, but the tree has {depth}."
        )
    damped = words[-1] == "damped"
    words = [pairs.get(word, (word, word))[t == depth - 1] for t, word in enumerate(words)]
    if damped and _layer_words("negatives", negatives, negatives, depth)[-1] == "tfn":
        words[-1] = DAMPED_TFN
    if name == "combine" and len(set(words)) > 1:
        matching.hinge_power(words)
    return tuple(words)


def chosen_by_rows(params: Any, features: Rows, depth: int, n_entries: int | None = None) -> dict[str, float]:
    """The solver's parameters that are "auto", as the rows decide; with ``n_entries`` in all, if there are more."""
    n_entries = features.nnz if n_entries is None else n_entries
    small = n_entries * -(-params.max_leaf // LANES) <= SMALL
    choices = {
        "negative_cost": 1.0,
        "tolerance": PRECISE_TOLERANCE if small else LinearOptions.tolerance,
        "max_iterations": PRECISE_ITERATIONS if small else LinearOptions.max_iterations,
    }
    entries = np.diff(features.indptr)
    entries = entries[entries > 0]
    if entries.size and layer_words(params, "negatives", depth)[-1] != "tfn":  # what a search brings
        choices["negative_cost"] = float(np.clip(np.median(entries) / FULL_ROW, LEAST_NEGATIVE_COST, 1.0))
    return {name: value for name, value in choices.items() if getattr(params, name) == "auto"}


def tree_training(
    params: Any, depth: int, number: int, features: Rows, length: float = 1.0,
    chosen: Mapping[str, float] = MappingProxyType({}),
) -> TreeTraining:  # fmt: skip
    """How the rankers of a tree, by its number, are trained on these rows of about this length. ``chosen`` is what the
    rows of an earlier training made of parameters that are "auto"."""
    options = {field.name: getattr(params, field.name) for field in dataclasses.fields(LinearOptions)}
    options |= chosen_by_rows(params, features, depth)
    options |= {name: value for name, value in chosen.items() if getattr(params, name) == "auto"}
    linear = LinearOptions(**options | {"seed": tree_seed(params, number)})
    return TreeTraining(
        layer_words(params, "negatives", depth), layer_words(params, "combine", depth), params.beam,
        linear.for_rows_of(length), params.weight_dtype, params.man_threshold, params.relevance,
    )  # fmt: skip


def tree_seed(params: Any, number: int) -> int:
    """The seed of a tree, by its number."""
    return (int(params.seed) + number * 1_000_003) % 2**31


class TrainingData(NamedTuple):
    """What a training learns from, verified."""

    features: Rows  # shape (n, d)
    labels: Csr  # shape (n, n_labels)
    weight: Float32 | None  # shape (n,), or None
    about_labels: Mapping[str, Any]  # label_features, label_embeddings
    factors: Float32 | None = None  # shape (d,): what has scaled the columns
    length: float = 1.0  # usual length of the rows

    def scaled(self, params: Any) -> TrainingData:
        """As the rankers see it."""
        scale = Scale.of(params, self.features)
        features = scaled(self.features, scale.factors, params.normalize)
        return self._replace(features=features, factors=scale.factors, length=scale.length)


def build_trees(params: Any, data: TrainingData, run: Runner) -> list[LabelTree]:
    """Phase 1: the trees, all before any ranker, so that the embeddings needn't stay."""
    labels = data.labels
    if params.tree is not None:
        if params.tree.n_labels != labels.shape[1]:
            raise DataError(f"The tree has {counted(params.tree.n_labels, 'label')}, but Y has shape {labels.shape}.")
        return [params.tree]
    if labels.shape[1] <= params.max_leaf:
        return [LabelTree.flat(labels.shape[1])] * params.n_trees

    names = ("embedding", "alpha", "max_features_per_label", "spectral_dimensions", "seed")
    options = {name: getattr(params, name) for name in names} | {
        "features": data.features, "labels": labels, "n_jobs": run.n_jobs, "zeros": run.zeros_briefly, "runner": run,
        **data.about_labels,
    }  # fmt: skip
    shape = {name: getattr(params, name) for name in ("branching", "max_leaf", "clustering", "overlap")}
    shape |= {"embeddings": Once(Job("embeddings", embed_labels, options)), "n_jobs": run.n_jobs, "runner": run}
    numbers = range(params.n_trees)
    jobs = [
        Job(f"tree{n}.tree", LabelTree.build, {**shape, "seed": tree_seed(params, n)}, packing=TREE) for n in numbers
    ]
    return [run.one(job) for job in jobs]


@dataclass(frozen=True)
class Scale:
    """What features are of another scale than TF-IDF's, whose rows have length 1."""

    length: float = 1.0  # the usual length of their rows
    # shape (n_features,), or None: what makes the columns' values about 1, where they are of different units
    factors: Float32 | None = None

    @classmethod
    def of(cls, params: Any, features: Rows) -> Scale:
        """What parameters make of features."""
        if params.scaling == "none":
            return cls()
        length = _usual_length(features)
        factors = None if length == 1 else _column_factors(features)
        if params.normalize:  # rows are yet to become as long
            return cls(1.0, factors)
        return cls(length if factors is None else _usual_length(features.times_columns(factors)), factors)


@overload
def scaled(features: Csr, factors: Float32 | None, normalized: bool) -> Csr: ...


@overload
def scaled(features: Rows, factors: Float32 | None, normalized: bool) -> Rows: ...


def scaled(features: Rows, factors: Float32 | None, normalized: bool) -> Rows:
    """Features as rankers see them: columns times ``factors``, then rows of unit length if they are ``normalized``."""
    features = features if factors is None else features.times_columns(factors)
    return features.unit_rows() if normalized else features


def _usual_length(features: Rows) -> float:
    """The median length of the rows that hold a value; 1 for rows of unit length."""
    lengths = np.sqrt(features.row_squares())
    lengths = lengths[lengths > 0]
    length = float(np.median(lengths)) if lengths.size else 1.0
    return 1.0 if abs(length - 1) < _NEAR_1 else float(np.clip(length, *_RANGE))


def _column_factors(features: Rows) -> Float32 | None:
    """One by the root mean square of the values that each column holds; None where these are of one unit."""
    compact, columns = features.used_columns()
    squares, counts = compact.column_squares()
    filled = np.flatnonzero(squares > 0)
    if filled.size < 2:
        return None
    units = np.sqrt(squares[filled] / counts[filled])
    low, high = np.quantile(units, (0.01, 0.99))
    if high <= _SPREAD * low:
        return None
    factors = np.ones(features.shape[1], np.float32)
    factors[filled if columns is None else columns[filled]] = np.clip(1 / units, *_RANGE)
    return factors
