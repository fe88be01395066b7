"""Beam search down the label tree (PECOS Algorithm 2 and Section 2.5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sylvan import kernels
from sylvan.arrays.canonical import within
from sylvan.arrays.label_filter import LabelFilter
from sylvan.arrays.topk import TopK, keep, resized
from sylvan.arrays.types import Array, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import RowParts, Rows
from sylvan.errors import ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.parallel import map_parallel, split_ranges
from sylvan.params.fields import PerLayer
from sylvan.runtime.jobs import Arrays, Job, Packing, Runner
from sylvan.weights.layer import LayerWeights

COMBINES = {"l3_hinge": 1, "ranker": 0, "sigmoid": 2, "l1_hinge": 1, "l2_hinge": 1, "l4_hinge": 1}
SHARED = ("l3_hinge", "sigmoid", "l1_hinge", "l2_hinge", "l4_hinge")  # rules that take a weight, as in "l3_hinge:0.25"
NESTED = 3  # the kernel's number of hinges that take the score above too, as in "l3_hinge:nested"
_JOB_ROWS = 1 << 15  # of a job that may go to another machine
_MOST_ROWS = 1 << 15  # that a thread takes at a time: clusters are unpacked once for all of them

Beam = tuple[Int32, Float32]


class RowChanges(NamedTuple):
    """What is added to single scores of a layer's nodes: CSR of rows by nodes."""

    offsets: Int64
    nodes: Int32
    changes: Float32


@dataclass(frozen=True)
class Combine(PerLayer):
    """A way to combine a layer's scores with those above, or a list of them; ``"l3_hinge:0.25"`` has a weight too."""

    options: Collection[str] = (*COMBINES, "paper", "paper:nested", "damped")

    def accepts(self, value: Any) -> bool:
        words = value if isinstance(value, (list, tuple)) else [value]
        try:
            return len(words) > 0 and all(word in self.options or combine_rule(word)[0] in SHARED for word in words)
        except (AttributeError, ValueError):
            return False

    def _words(self) -> str:
        return (
            f"one of {', '.join(repr(option) for option in self.options)}, a rule with the weight of the score above "
            "such as 'l3_hinge:0.25', a hinge of both scores such as 'l3_hinge:nested', or a list of them, one a layer"
        )


def combine_rule(word: str) -> tuple[str, float | None]:
    """A way to combine scores and the weight of the score above, in [0, 1]: ``("l3_hinge", 0.25)``; None for a hinge
    that the score above goes through as well."""
    name, colon, text = word.partition(":")
    if text == "nested" and name.endswith("_hinge"):
        return name, None
    weight = float(text) if colon else 1.0
    if not 0 <= weight <= 1:
        raise ValueError("not a weight in [0, 1]")
    return name, weight


@lru_cache(maxsize=128)  # a single query takes some microseconds
def _rules(combines: tuple[str, ...]) -> tuple[list[int], float, list[float]]:
    """What the kernel is told of each layer's rule: its number, the power of hinges, the weight of the score above."""
    rules = [combine_rule(word) for word in combines]
    numbers = [NESTED if weight is None else COMBINES[name] for name, weight in rules]
    return numbers, hinge_power(combines), [1.0 if weight is None else weight for _, weight in rules]


def hinge_power(combines: Sequence[str]) -> float:
    """p of Eq. 13, which all layers with a hinge share."""
    hinges = sorted({word for word, _ in map(combine_rule, combines) if word.endswith("_hinge")})
    if len(hinges) > 1:
        raise ParameterError(
            f"The 'combine' parameter must name one power of the hinge for all layers. Got {', '.join(hinges)} instead."
        )
    return float(hinges[0][1]) if hinges else 3.0


def hinge_measure(margins: Float32, power: float) -> Float32:
    """Eq. 13's measure of rankers' own scores: exp(-max(0, 1 - s)^power), which is 1 from a margin of 1 on."""
    slack = np.clip(1 - margins, 0, 104)  # from 104 on all measures are 0 in float32, and powers might overflow
    return np.asarray(np.exp(-(slack**power)).astype(np.float32))


def root_beam(n_rows: int) -> Beam:
    """The root alone, with score 0 (the logarithm of 1), for every row."""
    return np.zeros((n_rows, 1), np.int32), np.zeros((n_rows, 1), np.float32)


def next_beam(
    features: Csr, weights: LayerWeights, above: Beam, width: int, combine: str, n_jobs: int = 1,
    changes: RowChanges | None = None,
) -> Beam:  # fmt: skip
    """The ``width`` best children of the clusters in ``above``: node ids and scores, shape (n, width), best first.
    ``changes`` are added to the rankers' scores first."""
    n_rows, width = features.shape[0], min(width, len(weights.intercepts))
    (rule,), power, (share,) = _rules((combine,))
    nodes, scores = np.empty((n_rows, width), np.int32), np.empty((n_rows, width), np.float32)

    def search(rows: tuple[int, int]) -> None:
        kernels.search_layer(
            weights.native, features.indptr, features.indices, features.data, *rows, *above, rule, power, share,
            nodes, scores, *(changes or ()),
        )  # fmt: skip

    map_parallel(search, _shares(n_rows, n_jobs), n_jobs)
    return nodes, scores


def searched_beam(
    t: int, features: Rows, weights: LayerWeights, above: Beam, width: int, combine: str, runner: Runner
) -> Beam:
    """:func:`next_beam` below layer t for all rows of a training, as one job; on other machines and for rows in parts
    as jobs of some rows each."""
    inputs = {"weights": weights, "above": above, "width": width, "combine": combine}
    title = "searching the training rows' clusters"
    if isinstance(features, Csr) and not runner.elsewhere:
        # A layer that is older than some columns doesn't know of these.
        inputs |= {"features": within(features, weights.n_features), "n_jobs": runner.n_jobs}
        size = beam_bytes(features.shape[0], width)
        return runner.one(Job(f"layer{t}.beam", next_beam, inputs, peak_bytes=size, packing=_PACKING, title=title))
    ranges = features.ranges() if isinstance(features, RowParts) else split_ranges(features.shape[0], _JOB_ROWS)
    jobs = [
        Job(
            f"layer{t}.beam{first}-{last}", _search_rows, {**inputs, "features": features, "rows": (first, last)},
            float(last - first),
            beam_bytes(last - first, width) + (features.bytes_of(first, last) if isinstance(features, RowParts) else 0),
            _PACKING, title, cut=_own_beam,
        )
        for first, last in ranges
    ]  # fmt: skip
    beams = runner.run(jobs, f"Searching layer {t + 1}")
    nodes, scores = (np.concatenate(part) for part in zip(*beams, strict=True))
    return nodes, scores


def _own_beam(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Of the beam above, the rows of one job."""
    return {**inputs, "above": [part[slice(*inputs["rows"])] for part in inputs["above"]]}


def _search_rows(features: Rows, rows: tuple[int, int], above: Sequence[Array], **inputs: Any) -> Beam:
    """Read some rows, and search."""
    nodes, scores = map(np.array, above)  # the search asks for arrays that could be written to
    return next_beam(features.take(np.arange(*rows)), above=(nodes, scores), **inputs)


def _pack(beam: Beam) -> Arrays:
    return {"nodes": beam[0], "scores": beam[1]}


def _unpack(arrays: Arrays) -> Beam:
    nodes, scores = arrays.get("nodes"), arrays.get("scores")
    if nodes is None or scores is None or nodes.shape != scores.shape or nodes.dtype != np.int32:
        raise ModelError("A stored beam is damaged: its nodes and scores don't agree.")
    return np.array(nodes), np.array(scores)  # the search asks for arrays that could be written to


_PACKING: Packing[Beam] = Packing(_pack, _unpack)


def beam_bytes(n_rows: int, width: int) -> int:
    """Two beams, the one above and the one below, of all training rows; matcher-aware negatives only."""
    return 16 * n_rows * width


def rank_changed(
    features: Csr, layers: Sequence[LayerWeights], leaf_labels: Int32,
    changes: Sequence[RowChanges | None], *, k: int, beam: int, combines: Sequence[str], n_copies: int = 1,
    n_jobs: int = 1,
) -> TopK:  # fmt: skip
    """As :func:`rank`, with ``changes`` of single scores in each layer."""
    followed = root_beam(features.shape[0])
    for t, (weights, changed, combine) in enumerate(zip(layers, changes, combines, strict=True)):
        width = k * n_copies if t == len(layers) - 1 else beam
        followed = next_beam(features, weights, followed, width, combine, n_jobs, changed)
    nodes, scores = followed
    labels = np.where(nodes >= 0, leaf_labels[nodes], np.int32(-1))
    if n_copies > 1:  # of a label's leaves the best counts
        order = np.argsort(labels, axis=1, kind="stable")
        ordered = np.take_along_axis(labels, order, axis=1)
        again = np.zeros(labels.shape, bool)
        np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
        best = resized(keep(TopK(labels, scores), ~again & (labels >= 0)), k)
        labels, scores = best.labels, best.scores
    if combines[-1] != "ranker":
        scores = np.where(labels >= 0, np.exp(scores), np.float32(-np.inf))
    return TopK(labels, scores)


def label_paths(tree: LabelTree) -> kernels.LabelPaths:
    """The way from each label up to the root, which :func:`rank` needs for a filter of labels."""
    offsets, leaves = tree.leaves_of_labels()
    above = range(tree.depth - 1)
    if tree.depth == 1:  # one cluster: the root, which is always open
        clusters, offsets = leaves[:0], np.zeros_like(offsets)
    else:
        clusters = tree.parents(tree.depth - 1)[leaves]
    n_children = [np.diff(tree.child_offsets[t + 1]).astype(np.int32) for t in above]
    return kernels.LabelPaths(tree.leaf_labels, offsets, clusters, [tree.parents(t) for t in above], n_children)


def rank(
    features: Csr, layers: Sequence[LayerWeights], leaf_labels: Int32, *, k: int, beam: int,
    combines: Sequence[str], n_copies: int = 1, labels: LabelFilter | None = None,
    paths: kernels.LabelPaths | None = None, n_jobs: int = 1, description: str | None = None,
) -> TopK:  # fmt: skip
    """The ``k`` best labels of each row among those that a beam of ``beam`` clusters per layer reaches. ``combines``
    says for each layer how its scores are combined with those above; ``n_copies`` is the largest number of leaves of a
    label. The scores of the product rules are exponentiated, those of ``"ranker"`` are the last ranker's own. With a
    filter of ``labels``, which needs the tree's ``paths``, a cluster is opened, and takes a place in the beam, only
    when it has a label below it that may be answered."""
    n_rows = features.shape[0]
    best, scores = np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32)
    handles = [weights.native for weights in layers]
    how, power, shares = _rules(tuple(combines))
    exponentiate = combines[-1] != "ranker"
    listed = None if labels is None else labels.to_kernel()

    def search(rows: tuple[int, int]) -> None:
        kernels.rank(
            handles, features.indptr, features.indices, features.data, *rows, beam, how, power, shares, leaf_labels,
            n_copies, exponentiate, best, scores, paths, listed,
        )  # fmt: skip

    if n_rows == 1:  # a single query has no work to share and no bar to draw
        search((0, 1))
    else:
        map_parallel(search, _shares(n_rows, n_jobs), n_jobs, description=description)
    return TopK(best, scores)


def _shares(n_rows: int, n_jobs: int) -> list[tuple[int, int]]:
    return split_ranges(n_rows, min(_MOST_ROWS, max(256, -(-n_rows // n_jobs))))
