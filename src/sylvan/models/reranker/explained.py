"""Why a reranker puts a label where it does, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sylvan.arrays.topk import TopK
from sylvan.params.wording import counted
from sylvan.ranking.boosted_trees import BoostedTrees

_Doubles = npt.NDArray[np.float64]


def contributions(trees: BoostedTrees, row: npt.NDArray[np.float32]) -> tuple[float, _Doubles]:
    """The expected answer, and what each column of a row adds to it; together they are the row's answer. These are the
    path-dependent Shapley values of Lundberg, Erion & Lee (2018): where a column isn't known, a node sends a row both
    ways, by the shares of training rows."""
    # Shape: row (n_features,); returns (n_features,)
    features, known, share, worth = _paths(trees, row)
    expected = trees.base + float((worth * share.prod(axis=1)).sum())
    depth = features.shape[1]
    result = np.zeros(len(row))
    chances = [math.factorial(k) * math.factorial(depth - 1 - k) / math.factorial(depth) for k in range(depth)]
    for player in range(depth):
        others = np.zeros((len(features), depth))  # coefficients of the product
        others[:, 0] = 1
        for other in range(depth):
            if other != player:
                shifted = np.pad(others[:, :-1], ((0, 0), (1, 0)))
                others = others * share[:, other, None] + shifted * known[:, other, None]
        value = worth * (known[:, player] - share[:, player]) * (others @ np.array(chances))
        result += np.bincount(features[:, player], value, minlength=len(row))
    return expected, result


def _paths(
    trees: BoostedTrees, row: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int64], _Doubles, _Doubles, _Doubles]:
    """Of each leaf that counts: the columns on its path, whether the row goes it, shares of rows, and its value. A
    column that a path has twice is one factor; the second is 1 either way, which no column gains from. A leaf counts
    unless a split on its path sends neither the row nor any training row that way. Below a node that no training row
    came to, all go to the left."""
    if trees.covers is None:
        raise ValueError("Trees without covers say nothing of their columns.")
    n_trees, n_leaves = trees.leaves.shape
    depth = n_leaves.bit_length() - 1
    covers = [trees.covers.astype(np.float64)]  # of the nodes of each layer, leaves first
    for _ in range(depth):
        covers.append(covers[-1].reshape(n_trees, -1, 2).sum(axis=2))
    leaf = np.arange(n_leaves)
    features = np.zeros((n_trees, n_leaves, depth), np.int64)
    known, share = np.ones((n_trees, n_leaves, depth)), np.ones((n_trees, n_leaves, depth))
    for layer in range(depth):
        node = leaf >> (depth - layer)
        child = leaf >> (depth - layer - 1)
        at = 2**layer - 1 + node
        column = trees.features[:, at]
        right = row[column] > trees.thresholds[:, at]
        features[..., layer] = column
        known[..., layer] = right == (child % 2 == 1)
        to_left = np.broadcast_to(child % 2 == 0, known.shape[:2]).astype(np.float64)
        above, below = covers[depth - layer][:, node], covers[depth - layer - 1][:, child]
        share[..., layer] = np.divide(below, above, out=to_left, where=above > 0)
    counts = ((known > 0) | (share > 0)).all(axis=2)
    features, known, share = features[counts], known[counts], share[counts]
    for layer in range(1, depth):
        for earlier in range(layer):
            same = features[:, layer] == features[:, earlier]
            known[same, earlier] *= known[same, layer]
            share[same, earlier] *= share[same, layer]
            known[same, layer] = share[same, layer] = 1
    return features, known, share, trees.leaves[counts].astype(np.float64)


def candidate_notes(
    candidates: TopK,
    columns: npt.NDArray[np.float32],
    label: int,
    scorer: BoostedTrees | None,
    names: Sequence[str],
    top: int,
) -> tuple[str, ...]:
    """Where a label stands among one row's candidates, and which columns move it."""
    # Shapes: candidates (1, k); columns (1, k, n_features)
    places = np.flatnonzero(candidates.labels[0] == label)
    n_there = int((candidates.labels[0] >= 0).sum())
    if not len(places):
        return (f"It is none of the {counted(n_there, 'candidate')} of the highest mean probability.",)
    at = int(places[0])
    first = f"By its mean probability of {candidates.scores[0, at]:.3g} it is number {at + 1} of {n_there}."
    if scorer is None:
        return (f"{first} Candidates are in that order: nothing better could be learned.",)
    row = columns[0, at]
    if scorer.covers is None:
        return (first,)
    expected, added = contributions(scorer, row)
    order = np.argsort(-np.abs(added), kind="stable")[:top]
    moved = [f"{names[one]} = {row[one]:.3g} ({added[one]:+.2f})" for one in order.tolist() if added[one] != 0]
    total = expected + float(added.sum())
    return (first, f"Its log odds are {total:.2f}, of which {expected:.2f} are any candidate's: {', '.join(moved)}.")
