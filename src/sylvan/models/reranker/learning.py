"""How the order of candidates is learned, and what each column adds to a score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from sylvan.arrays.topk import TopK, ranking_order
from sylvan.arrays.types import Bool, Float32, Float64, Int32, Int64
from sylvan.params.wording import counted
from sylvan.ranking.boosted_trees import GROWERS, BoostedTrees, Growing, Rows, Scorer
from sylvan.ranking.calibrate import Calibrator

Objective = Literal["rank", "right"]
LEAST_ROWS = 200
_LEAST_RIGHT = 50  # candidates
_LEAST_CALIBRATING = 1_000  # rows: with fewer, curves are further from the truth than the scorer's own probabilities
_CHECKED = 5  # one row in so many checks what was learned, and calibrates it
_CUTOFFS = (1, 3, 5)
_ALL_WRONG = 5  # places of which all wrong candidates teach


class Candidates(NamedTuple):
    """Candidates of rows that no member has seen."""

    top: TopK  # shape (n, k): by mean score; -1 where a row has no more
    columns: Float32  # shape (n, k, n_features)
    right: Bool  # shape (n, k)
    weight: Float32  # shape (n,)

    def some(self, rows: Bool) -> Candidates:
        """Those of some rows."""
        return Candidates(self.top.of_rows(rows), self.columns[rows], self.right[rows], self.weight[rows])

    def listed(self, seed: int | None) -> Rows:
        """One after another, without empty places; with a seed, not all of the wrong ones. Nearly all candidates are
        wrong, and the further down the list the more alike: of those at place p from 1, a share of 5 / p is drawn, and
        each counts p / 5 times. Learned from a third, the order is as good."""
        is_taken = self.top.labels >= 0
        share = np.broadcast_to(np.minimum(1, _ALL_WRONG / np.arange(1, is_taken.shape[1] + 1)), is_taken.shape)
        weight = np.broadcast_to(self.weight[:, None], is_taken.shape)
        if seed is not None:
            is_taken = is_taken & (self.right | (np.random.default_rng(seed).random(is_taken.shape) < share))
            weight = np.where(self.right, weight, weight / share)
        sizes = is_taken.sum(axis=1)
        return Rows(self.columns[is_taken], self.right[is_taken], weight[is_taken].astype(np.float32), sizes[sizes > 0])


def ordering_rows(n_rows: int, most: int, weight: Float32 | None) -> Int32 | None:
    """Rows from which the order is learned, a quarter at most; None where there are too few."""
    n_used = n_rows if weight is None else int((weight > 0).sum())
    size = min(most, n_used // 4)
    if size < LEAST_ROWS:
        return None
    used = np.arange(n_rows) if weight is None else np.flatnonzero(weight > 0)
    return np.sort(used[np.random.default_rng(0).permutation(len(used))[:size]]).astype(np.int32)


def learned(
    candidates: Candidates, name: Scorer, growing: Growing, calibration: str | None
) -> tuple[BoostedTrees | None, Calibrator | None]:
    """The order of candidates. Four rows in five teach it, and the fifth checks it: an order that puts fewer right
    labels first there than the mean score does, by more than the standard error of the difference, is dropped. The
    calibrator is fitted on the fifth, too, where it has a thousand rows or scores aren't probabilities. With fewer than
    50 right candidates in either part, or no wrong one, there is nothing to learn, and the order is that of the mean
    score."""
    checked = np.random.default_rng(growing.seed).permutation(len(candidates.weight)) % _CHECKED == 0
    check, teach = candidates.some(checked), candidates.some(~checked)
    scorer, rows = None, teach.listed(growing.seed if growing.objective == "right" else None)
    n_wrong = int((~rows.right & (rows.weight > 0)).sum())
    n_right = min(int(part.right[part.weight > 0].sum()) for part in (teach, check))
    if n_right >= _LEAST_RIGHT and n_wrong:
        scorer = GROWERS[name](rows, growing)
    top, right = check.top, check.right  # by the mean
    if scorer is not None:
        scores = _scored(scorer, check.top, check.columns)
        order = ranking_order(check.top.labels, scores)
        by_scorer = np.take_along_axis(check.right, order, axis=1)
        if _worse(_quality(by_scorer), _quality(right), check.weight):
            scorer = None
        else:
            top, right = _in_order(check.top.labels, scores, order), by_scorer
    calibrator = None
    probable = scorer is not None and growing.objective == "right"  # its scores are probabilities already
    if calibration is not None and not (probable and len(check.weight) < _LEAST_CALIBRATING):
        calibrator = Calibrator.fit(calibration, top, right, check.weight)
    return scorer, calibrator


def _quality(right: Bool) -> Float64:
    """The sum of P@1, P@3 and P@5 of each row."""
    return np.asarray(np.sum([right[:, :k].sum(axis=1) / k for k in _CUTOFFS], axis=0, dtype=np.float64))


def _worse(measured: Float64, baseline: Float64, weight: Float32) -> bool:
    """Whether the first is lower on the mean of the rows, by more than the standard error of the difference."""
    gains = (measured - baseline) * weight
    return bool(gains.mean() + gains.std() / np.sqrt(len(gains)) < 0)


def order_by(scorer: BoostedTrees, candidates: TopK, columns: Float32) -> TopK:
    """Candidates in their learned order, with scores in [0, 1]; among equal scores the lower label comes first."""
    scores = _scored(scorer, candidates, columns)
    return _in_order(candidates.labels, scores, ranking_order(candidates.labels, scores))


def _scored(scorer: BoostedTrees, candidates: TopK, columns: Float32) -> Float32:
    """The score of each candidate in [0, 1]; -inf where there is none."""
    is_label = candidates.labels >= 0
    scores = np.full(is_label.shape, -np.inf, np.float32)
    odds = scorer.scores(np.ascontiguousarray(columns[is_label])).astype(np.float64)
    scores[is_label] = 1 / (1 + np.exp(-np.clip(odds, -80, 80)))
    return scores


def _in_order(labels: Int32, scores: Float32, order: Int64) -> TopK:
    return TopK(np.take_along_axis(labels, order, axis=1), np.take_along_axis(scores, order, axis=1))


def contributions(trees: BoostedTrees, row: Float32) -> tuple[float, Float64]:
    """The expected answer, and what each column of a row adds to it; together they are the row's answer. These are the
    path-dependent Shapley values of Lundberg, Erion & Lee (2018): where a column isn't known, a node sends a row both
    ways, by the shares of training rows."""
    # Shape: row (n_features,); returns (n_features,)
    features, taken, share, worth = _paths(trees, row)
    expected = trees.base + float((worth * share.prod(axis=1)).sum())
    depth = features.shape[1]
    result = np.zeros(len(row))
    chances = [math.factorial(k) * math.factorial(depth - 1 - k) / math.factorial(depth) for k in range(depth)]
    for player in range(depth):
        products = np.zeros((len(features), depth))  # coefficients of the product
        products[:, 0] = 1
        for other in range(depth):
            if other != player:
                shifted = np.pad(products[:, :-1], ((0, 0), (1, 0)))
                products = products * share[:, other, None] + shifted * taken[:, other, None]
        value = worth * (taken[:, player] - share[:, player]) * (products @ np.array(chances))
        result += np.bincount(features[:, player], value, minlength=len(row))
    return expected, result


def _paths(trees: BoostedTrees, row: Float32) -> tuple[Int64, Float64, Float64, Float64]:
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
    taken, share = np.ones((n_trees, n_leaves, depth)), np.ones((n_trees, n_leaves, depth))
    for layer in range(depth):
        node = leaf >> (depth - layer)
        child = leaf >> (depth - layer - 1)
        node_number = 2**layer - 1 + node
        column = trees.features[:, node_number]
        right = row[column] > trees.thresholds[:, node_number]
        features[..., layer] = column
        taken[..., layer] = right == (child % 2 == 1)
        to_left = np.broadcast_to(child % 2 == 0, taken.shape[:2]).astype(np.float64)
        above, below = covers[depth - layer][:, node], covers[depth - layer - 1][:, child]
        share[..., layer] = np.divide(below, above, out=to_left, where=above > 0)
    counts = ((taken > 0) | (share > 0)).all(axis=2)
    features, taken, share = features[counts], taken[counts], share[counts]
    for layer in range(1, depth):
        for earlier in range(layer):
            same = features[:, layer] == features[:, earlier]
            taken[same, earlier] *= taken[same, layer]
            share[same, earlier] *= share[same, layer]
            taken[same, layer] = share[same, layer] = 1
    return features, taken, share, trees.leaves[counts].astype(np.float64)


def candidate_notes(
    candidates: TopK, columns: Float32, label: int, scorer: BoostedTrees | None, names: Sequence[str], top: int
) -> tuple[str, ...]:
    """Where a label stands among one row's candidates, and which columns move it."""
    # Shapes: candidates (1, k); columns (1, k, n_features)
    places = np.flatnonzero(candidates.labels[0] == label)
    n_there = int((candidates.labels[0] >= 0).sum())
    if not len(places):
        return (f"It is none of the {counted(n_there, 'candidate')} of the highest mean probability.",)
    place = int(places[0])
    first = f"By its mean probability of {candidates.scores[0, place]:.3g} it is number {place + 1} of {n_there}."
    if scorer is None:
        return (f"{first} Candidates are in that order: nothing better could be learned.",)
    row = columns[0, place]
    if scorer.covers is None:
        return (first,)
    expected, added = contributions(scorer, row)
    order = np.argsort(-np.abs(added), kind="stable")[:top]
    moved = [f"{names[i]} = {row[i]:.3g} ({added[i]:+.2f})" for i in order.tolist() if added[i] != 0]
    total = expected + float(added.sum())
    return (first, f"Its log odds are {total:.2f}: {expected:.2f} for any candidate, and {', '.join(moved)}.")
