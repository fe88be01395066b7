"""From ranking scores to probabilities: isotonic and Platt's calibration, by position in the ranking."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sylvan import store
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.arrays.topk import TopK
from sylvan.arrays.types import Array, Bool, Float32, Float64, Int32, Int64
from sylvan.errors import ModelError
from sylvan.metrics.tallies import hits

DEPTH = 50  # answers a held-out row is asked for: those further down share the last curve
MOST_ROWS = 5_000  # held out in a fold
_SHARE, _FEW = 10, 500
_PARTS = 5
KIND = "calibrator"
Method = Literal["isotonic", "platt"]
METHODS: tuple[Method, ...] = get_args(Method)
LEAST = 1e-7  # probabilities lie within [LEAST, 1 - LEAST]: nothing that was seen a few thousand times is certain
# A group of places needs so many right answers and so many wrong ones before it gets a curve of its own.
MIN_EACH = 30
_PLACES = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)  # where a group may begin; the last goes on for ever


def holdout_folds(n_rows: int, n_folds: int, weight: Float32 | None = None, most: int = MOST_ROWS) -> list[Int32]:
    """Disjoint sets of rows, rising row ids; none where there are too few rows to learn anything from. A fold is a
    tenth of the rows, yet 500 as long as that is no more than a quarter, and ``most`` at most: what a calibrator gains
    from more is small, and every held-out row costs time. Rows of no weight stay out of it. Which rows are taken
    depends on their number alone, not on a model's seed, so that models of one ensemble can hold out the same."""
    rows = np.arange(n_rows, dtype=np.int32) if weight is None else np.flatnonzero(weight > 0).astype(np.int32)
    size = min(max(len(rows) // _SHARE, min(_FEW, len(rows) // 4)), most, len(rows) // (n_folds + 1))
    if size < MIN_EACH:
        return []
    order = np.random.default_rng(0).permutation(len(rows))
    return [np.sort(rows[order[fold * size : (fold + 1) * size]]) for fold in range(n_folds)]


def calibrated(method: str, top: TopK, rows: Int32, labels: Csr, weight: Float32 | None = None) -> Calibrator | None:
    """A calibrator from answers to rows that were held out; None where they are too few."""
    # Shapes: top (n_held_out, k); rows (n_held_out,); weight (n,)
    right = hits(top, take_rows(labels, rows))
    return Calibrator.fit(method, top, right, None if weight is None else weight[rows])


def crosswise(calibrator: Calibrator, top: TopK, rows: Int32, labels: Csr, weight: Float32 | None = None) -> TopK:
    """Answers to held-out rows with probabilities by curves that other held-out rows gave, of which there are five
    parts. What is learned from these probabilities sees them as they are for new rows: where few answers are right,
    curves know their own too well. A part gets the calibrator's, where the others are too few for curves."""
    right, part = hits(top, take_rows(labels, rows)), np.arange(len(rows)) % _PARTS
    scores = np.empty_like(top.scores)
    for number in range(min(_PARTS, len(rows))):
        inside, outside = part == number, part != number
        own_weight = None if weight is None else weight[rows[outside]]
        curves = Calibrator.fit(calibrator.method, top.of_rows(outside), right[outside], own_weight) or calibrator
        scores[inside] = curves(top.of_rows(inside)).scores
    return TopK(top.labels, scores)


@dataclass(frozen=True, eq=False)
class Calibrator:
    """Curves from scores to probabilities, one for each group of positions. The first answer of a row with a score of
    0.6 is right more often than the tenth with the same score. So there is a curve for each group of positions: the
    first, the second, ... and wider groups further down. Curves never decrease, and within a row no probability exceeds
    the one before it: labels stay in the order of the ranking."""

    method: str
    places: Int64  # shape (n_groups,): the position at which each group begins, increasing from 0
    # shape (n_groups + 1,): isotonic: the knots of group g are `offsets[g]` to `offsets[g + 1] - 1`. Platt: one pair
    # per group
    offsets: Int64
    # inputs, outputs: isotonic: knots, scores to probabilities, straight lines between them. Platt: slope a and
    # intercept b of `1 / (1 + exp(-(a logit(score) + b)))`
    inputs: Float64
    outputs: Float64

    @classmethod
    def fit(cls, method: str, top: TopK, right: Bool, weight: Float32 | None = None) -> Calibrator | None:
        """Fit to answers for rows that the model was not trained on."""
        # Shapes: top (n, k); right (n, k); weight (n,)
        # Where the groups of places begin, each with enough right and wrong answers; what is left over is the last's.
        n_right, n_wrong = right.sum(axis=0), ((top.labels >= 0) & ~right).sum(axis=0)
        places, begin = [], 0
        for end in [*(place for place in _PLACES[1:] if place < right.shape[1]), right.shape[1]]:
            if min(n_right[begin:end].sum(), n_wrong[begin:end].sum()) >= MIN_EACH:
                places.append(begin)
                begin = end
        if not places:
            return None
        curves = []
        for first, last in itertools.pairwise([*places, top.k]):
            answered = top.labels[:, first:last] >= 0
            scores = top.scores[:, first:last][answered].astype(np.float64)
            true = right[:, first:last][answered]
            row_weight = None if weight is None else np.broadcast_to(weight[:, None], answered.shape)[answered]
            curves.append((isotonic if method == "isotonic" else platt)(scores, true, row_weight))
        offsets = np.concatenate(([0], np.cumsum([len(inputs) for inputs, _ in curves]))).astype(np.int64)
        inputs, outputs = (np.concatenate(part) for part in zip(*curves, strict=True))
        return cls(method, np.array(places, np.int64), offsets, inputs, outputs)

    def __call__(self, top: TopK) -> TopK:
        """The same answers with probabilities instead of scores, strictly decreasing within a row."""
        # Shape: top (n, k)
        result = np.full(top.scores.shape, LEAST, np.float64)
        known = np.where(top.labels >= 0, top.scores, 0).astype(np.float64)
        for group, (first, last) in enumerate(itertools.pairwise([*self.places.tolist(), top.k])):
            if first >= top.k:
                break
            knots, scores = slice(int(self.offsets[group]), int(self.offsets[group + 1])), known[:, first:last]
            if self.method == "isotonic":
                result[:, first:last] = np.interp(scores, self.inputs[knots], self.outputs[knots])
            else:
                result[:, first:last] = _sigmoid(self.inputs[knots][0] * _logit(scores) + self.outputs[knots][0])
        return TopK(top.labels, np.where(top.labels >= 0, falling(result), np.float32(-np.inf)))

    def to_state(self) -> store.State:
        """The curves as arrays."""
        arrays: dict[str, Array] = {name: getattr(self, name) for name in ("places", "offsets", "inputs", "outputs")}
        return store.State(KIND, 1, {}, {"method": self.method}, arrays)

    @classmethod
    def from_state(cls, state: store.State) -> Calibrator:
        """From :meth:`to_state`'s result, verified."""
        store.need_kind(state, KIND)
        method = store.need_choice(state, "method", METHODS)
        places = store.need_offsets(state, "places")
        offsets = store.need_offsets(state, "offsets", length=len(places) + 1)
        rising, lengths = (np.diff(places) > 0).all(), np.diff(offsets)
        if not rising or not (lengths >= 1).all() or (method == "platt" and not (lengths == 1).all()):
            raise _damage(state, "'places' and 'offsets' must rise at every place")
        inputs, outputs = (store.need_array(state, n, np.float64, (int(offsets[-1]),)) for n in ("inputs", "outputs"))
        store.need_finite(state, "inputs")
        if method == "platt":
            store.need_finite(state, "outputs")
            store.need_range(state, "inputs", 0, np.finfo(np.float64).max, np.float64, (None,))
        else:
            store.need_range(state, "outputs", 0, 1, np.float64, (None,))
            within = np.ones(max(len(inputs) - 1, 0), bool)
            within[offsets[1:-1] - 1] = False  # from one group to the next anything goes
            for name, array in (("inputs", inputs), ("outputs", outputs)):
                if (within & (np.diff(array) < 0)).any():
                    raise _damage(state, f"{name!r} must not fall within a group")
        return cls(method, places, offsets, inputs, outputs)


def _damage(state: store.State, fault: str) -> ModelError:
    return ModelError(f"{state.where or 'The calibrator'!r} is damaged: in the calibrator, {fault}.")


def falling(probabilities: Array) -> Float32:
    """Rows of probabilities as float32, each entry smaller than the one before it and as near as possible to its own.
    An entry that isn't smaller becomes the next float32 below the one before it, so a sparse matrix of them, which
    forgets places, still tells the order: ``min over i <= j of p_i``, less some 1e-7 of it where that is no strict
    fall. (The bits of positive floats, read as ints, are their order: one step is one ulp.)"""
    bits = np.clip(probabilities, LEAST, 1 - LEAST).astype(np.float32).view(np.int32).astype(np.int64)
    steps = np.arange(bits.shape[1])
    lowered = np.minimum.accumulate(bits + steps, axis=1) - steps
    return np.asarray(np.maximum(lowered, 1).astype(np.int32).view(np.float32))


def isotonic(scores: Float64, right: Bool, weight: Float32 | None = None) -> tuple[Float64, Float64]:
    """The rising step function nearest to the answers in squares, as knots of a function of straight lines.
    Pool-adjacent-violators (Ayer, Brunk, Ewing, Reid and Silverman 1955; for probabilities Zadrozny and Elkan 2002).
    The lowest and the highest step keep a distance from 0 and 1 that falls with the answers they stand for,
    ``1 / (2 n + 2)`` (Krichevsky and Trofimov 1981), but go no further than the step beside them."""
    levels, level = np.unique(scores, return_inverse=True)
    weights = np.bincount(level, weight).astype(np.float64)
    sums = np.bincount(level, right if weight is None else right * weight).astype(np.float64)
    used = weights > 0
    levels, weights, sums = levels[used], weights[used], sums[used]
    starts = pool(sums, weights)
    sums, weights = np.add.reduceat(sums, starts), np.add.reduceat(weights, starts)
    values = sums / weights
    least, most = 0.5 / (weights[0] + 1), 1 - 0.5 / (weights[-1] + 1)
    if len(values) == 1:
        values = np.clip(values, least, most)
    else:
        values[0], values[-1] = max(values[0], min(least, values[1])), min(values[-1], max(most, values[-2]))
    ends = np.append(starts[1:], len(levels)) - 1
    knots = np.unique(np.concatenate((starts, ends)))
    return levels[knots], np.repeat(values, np.where(starts == ends, 1, 2))


def pool(sums: Float64, weights: Float64) -> Int64:
    """Where the blocks of the isotonic fit to ``sums / weights`` begin. Neighbours that fall are pooled until none do;
    in which order doesn't matter, so runs that fall are pooled at once first."""
    values = sums / weights
    starts = np.flatnonzero(np.append(True, values[1:] > values[:-1]))
    blocks: list[tuple[float, float, int]] = []
    parts = np.add.reduceat(sums, starts).tolist(), np.add.reduceat(weights, starts).tolist(), starts.tolist()
    for total, mass, start in zip(*parts, strict=True):
        while blocks and blocks[-1][0] * mass >= total * blocks[-1][1]:
            below = blocks.pop()
            total, mass, start = total + below[0], mass + below[1], below[2]
        blocks.append((total, mass, start))
    return np.array([start for _, _, start in blocks], np.int64)


def platt(scores: Float64, right: Bool, weight: Float32 | None = None) -> tuple[Float64, Float64]:
    """Slope and intercept of the logistic curve over ``logit(score)`` that is likeliest to give these answers. Platt
    (1999) with the targets that he proposes, ``(n_right + 1) / (n_right + 2)`` and ``1 / (n_wrong + 2)``, by Newton's
    method with step halving (Lin, Lin and Weng 2007). A slope that would be negative is 0."""
    # Returns slope, intercept (1,)
    x = _logit(scores)
    mass = np.ones(len(x)) if weight is None else weight.astype(np.float64)
    n_right, n_wrong = mass[right].sum(), mass[~right].sum()
    target = np.where(right, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    center, scale = (x * mass).sum() / mass.sum(), max(float(np.abs(x).max(initial=0)), 1.0)
    z = (x - center) / scale
    a, b = 0.0, float(np.log((n_right + 1) / (n_wrong + 1)))

    def loss(a: float, b: float) -> float:
        s = a * z + b
        return float((mass * (np.logaddexp(0, s) - target * s)).sum())

    best = loss(a, b)
    for _ in range(100):
        p = _sigmoid(a * z + b)
        slack, curve = mass * (p - target), mass * p * (1 - p)
        gradient = np.array([(slack * z).sum(), slack.sum()])
        if np.abs(gradient).max() < 1e-9 * mass.sum():
            break
        mixed = (curve * z).sum()
        hessian = np.array([[(curve * z * z).sum(), mixed], [mixed, curve.sum()]]) + 1e-12 * mass.sum() * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        for halving in range(40):
            tried = a - step[0] / 2**halving, b - step[1] / 2**halving
            loss_now = loss(*tried)
            if loss_now < best:
                break
        else:
            break
        (a, b), best = tried, loss_now
    if a < 0:  # answers are right more often where scores are lower: the score says nothing
        share = float((mass * target).sum() / mass.sum())
        return np.zeros(1), np.array([np.log(share / (1 - share))])
    return np.array([a / scale]), np.array([b - a * center / scale])


def _logit(scores: Float64) -> Float64:
    clipped = np.clip(scores, 1e-6, 1 - 1e-6)
    return np.asarray(np.log(clipped / (1 - clipped)))


def _sigmoid(values: Float64) -> Float64:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -80, 80))))


store.register(KIND, Calibrator.from_state)
