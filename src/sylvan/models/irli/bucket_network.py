"""BucketNetwork: which buckets of every repetition an input's labels are in, by one network a repetition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import store
from sylvan.arrays.topk import best_columns
from sylvan.arrays.types import Array, Float32, Int32, UInt8
from sylvan.parallel import map_parallel, split_ranges

LEAST, MOST = -8, 7
CLIPPED = 2.7  # standard deviations from 0 beyond which weights are cut, which makes the others finer
_ROWS = 4096  # rounded at once
Inputs = Float32 | sp.csr_matrix
_BLOCK_VALUES = 1 << 22  # logits in memory at once, a thread
_AFFINITIES = 1 << 24  # and probabilities that are summed over a label's inputs
_MOST_ROWS = 512
_FEW_ROWS = 8  # rows of which all repetitions are computed in one call
_FEWEST_ROWS = 2  # a product of one row goes another way through BLAS, to other bits


def rounded(layer: Float32, n_repetitions: int) -> tuple[Float32, Float32]:
    """The weights rounded, and their scales."""
    # Shape: layer (n, n_repetitions * hidden); returns scales (n, n_repetitions)
    result, scales = np.empty_like(layer), np.empty((len(layer), n_repetitions), np.float32)
    for start in range(0, len(layer), _ROWS):
        rows = slice(start, start + _ROWS)
        part = layer[rows].reshape(-1, n_repetitions, layer.shape[1] // n_repetitions)
        squares = np.mean(np.square(part, dtype=np.float64), axis=2)  # those of large weights are beyond float32
        steps = (np.sqrt(squares) * (CLIPPED / MOST)).astype(np.float32)
        steps[steps == 0] = 1
        values = np.clip(np.rint(part / steps[:, :, None]), LEAST, MOST) * steps[:, :, None]
        result[rows], scales[rows] = values.reshape(-1, layer.shape[1]), steps
    return result, scales


def packed(layer: Float32, scales: Float32) -> UInt8:
    """What :func:`rounded` gave, two weights in a byte, the first in its lower half; (n, half the width)."""
    n, width = layer.shape
    codes = np.empty((n, (width + 1) // 2), np.uint8)
    for start in range(0, n, _ROWS):
        rows = slice(start, start + _ROWS)
        part = layer[rows].reshape(-1, scales.shape[1], width // scales.shape[1])
        rounded = (np.rint(part / scales[rows, :, None]) - LEAST).astype(np.uint8).reshape(-1, width)
        codes[rows] = rounded[:, ::2]
        codes[rows, : width // 2] |= rounded[:, 1::2] << 4
    return codes


def unpacked(codes: UInt8, scales: Float32, width: int) -> Float32:
    """The layer that :func:`packed` was given, to the last bit; its shape is (n, width)."""
    n, n_repetitions = scales.shape
    layer = np.empty((n, width), np.float32)
    buffer = np.empty((min(_ROWS, n), width), np.float32)
    with np.errstate(all="ignore"):  # scales from a damaged file
        for start in range(0, n, _ROWS):
            part = codes[start : start + _ROWS]
            values = buffer[: len(part)]
            values[:, ::2], values[:, 1::2] = part & 15, part[:, : width // 2] >> 4
            values += LEAST
            steps = np.repeat(scales[start : start + _ROWS], width // n_repetitions, axis=1)
            np.multiply(values, steps, out=layer[start : start + _ROWS])
    return layer


@dataclass(eq=False)
class BucketNetwork:
    """R networks of one hidden layer with ReLU, each with a score for every bucket of its repetition: the f_r of the
    IRLI paper (section 3.2). The sigmoid of a logit is the probability that the bucket holds a label of the input.
    Sparse inputs take the rows of ``first`` that belong to their features, as an embedding bag does."""

    # shape (n_features, n_repetitions * hidden): first layers of all repetitions side by side, so that one product
    # serves them all
    first: Float32
    first_bias: Float32  # shape (n_repetitions * hidden,)
    second: Float32  # shape (n_repetitions, hidden, n_buckets)
    second_bias: Float32  # shape (n_repetitions, n_buckets)
    # shape (n_inputs, n_features): what inputs are multiplied with first, once for all repetitions
    projection: Float32 | None = None
    # shape (n_features, n_repetitions): of a first layer as `rounded` gives it, saved in four bits a weight
    scales: Float32 | None = None

    def __post_init__(self) -> None:
        self.n_repetitions, self.hidden, self.n_buckets = self.second.shape
        self.n_features = len(self.first)
        self.n_inputs = self.n_features if self.projection is None else len(self.projection)

    def rounded(self) -> BucketNetwork:
        """The same networks with first layers of four bits a weight, which are much smaller when they are saved."""
        first, scales = rounded(self.first, self.n_repetitions)
        return replace(self, first=first, scales=scales)

    def rounded_again(self, before: BucketNetwork, features: npt.NDArray[np.integer[Any]]) -> BucketNetwork:
        """The same networks, rounded as ``before``; only the weights of some features differ from those there."""
        if before.scales is None:
            return self
        first, scales = before.first.copy(), before.scales.copy()
        first[features], scales[features] = rounded(self.first[features], self.n_repetitions)
        return replace(self, first=first, scales=scales)

    def widened(self, n_features: int) -> BucketNetwork:
        """The same networks with more features, whose weights are 0."""
        new, scales = n_features - self.n_features, self.scales
        first = np.concatenate((self.first, np.zeros((new, self.first.shape[1]), np.float32)))
        if scales is not None:
            scales = np.concatenate((scales, np.ones((new, self.n_repetitions), np.float32)))
        return replace(self, first=first, scales=scales)

    def only(self, repetition: int) -> BucketNetwork:
        """The network of one repetition, sharing the weights."""
        part, rows = slice(repetition * self.hidden, (repetition + 1) * self.hidden), slice(repetition, repetition + 1)
        layers = self.first[:, part], self.first_bias[part], self.second[rows], self.second_bias[rows]
        return BucketNetwork(*layers, self.projection)

    def hidden_values(self, X: Inputs) -> Float32:
        """The hidden layers of all repetitions, (n, n_repetitions * hidden)."""
        with np.errstate(all="ignore"):  # weights from a damaged file
            rows = X if sp.issparse(X) else _enough_rows(X)
            if self.projection is not None:
                rows = rows @ self.projection
            values = np.asarray(rows @ self.first, dtype=np.float32)
            values += self.first_bias
            np.maximum(values, 0, out=values)
        return values[: X.shape[0]]

    def bucket_logits(self, hidden: Float32, repetition: int) -> Float32:
        """The logits of one repetition, (n, n_buckets), from :meth:`hidden_values`."""
        part = hidden[:, repetition * self.hidden : (repetition + 1) * self.hidden]
        with np.errstate(all="ignore"):
            logits: Float32 = _enough_rows(part) @ self.second[repetition]
            logits += self.second_bias[repetition]
        return logits[: len(hidden)]

    def _all_logits(self, hidden: Float32) -> Float32:
        """The logits of all repetitions, (n_repetitions, n, n_buckets): for a few rows, where calls cost the most."""
        parts = _enough_rows(hidden).reshape(-1, self.n_repetitions, self.hidden).swapaxes(0, 1)
        with np.errstate(all="ignore"):
            logits: Float32 = parts @ self.second  # the same products as those of bucket_logits, to the last bit
            logits += self.second_bias[:, None]
        return logits[:, : len(hidden)]

    def top(self, X: Inputs, m: int, n_jobs: int = 1) -> tuple[Int32, Float32]:
        """The ``m`` best buckets of every repetition."""
        # Shape: X (n, n_features); returns chosen (n, n_repetitions, m), probabilities (n, n_repetitions, m)
        n, shape = X.shape[0], (X.shape[0], self.n_repetitions, m)
        chosen, probabilities = np.empty(shape, np.int32), np.empty(shape, np.float32)

        def work(rows: tuple[int, int]) -> None:
            part = slice(*rows)
            hidden = self.hidden_values(X[part])
            if len(hidden) <= _FEW_ROWS:
                best = best_columns(self._all_logits(hidden).reshape(-1, self.n_buckets), m)
                for answer, values in zip((chosen, probabilities), best, strict=True):
                    answer[part] = values.reshape(self.n_repetitions, -1, m).swapaxes(0, 1)
            else:
                for repetition in range(self.n_repetitions):
                    best = best_columns(self.bucket_logits(hidden, repetition), m)
                    chosen[part, repetition], probabilities[part, repetition] = best
            probabilities[part] = sigmoid(probabilities[part])

        size = self.block_rows()
        if 0 < n <= size:
            work((0, n))
        else:
            map_parallel(work, split_ranges(n, size), n_jobs)
        return chosen, probabilities

    def block_rows(self) -> int:
        """How many rows are computed at once: by the networks' sizes alone, so that threads change no bit."""
        widest = max(self.n_buckets, self.n_repetitions * self.hidden)
        return int(min(max(_BLOCK_VALUES // widest, 16), _MOST_ROWS))

    def arrays(self) -> dict[str, Array]:
        """The weights by name, for a :class:`~sylvan.store.State`."""
        arrays = {name: getattr(self, name) for name in ("first_bias", "second", "second_bias")}
        if self.projection is not None:
            arrays["projection"] = self.projection
        if self.scales is None:
            arrays["first"] = self.first
        else:
            arrays |= {"first_codes": packed(self.first, self.scales), "first_scales": self.scales}
        return {f"network.{name}": array for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, state: store.State, n_inputs: int, n_repetitions: int, n_buckets: int) -> BucketNetwork:
        """The networks that :meth:`arrays` gave to a State."""

        def need(name: str, *shape: int | None, dtype: type = np.float32) -> Array:
            return store.need_array(state, f"network.{name}", dtype, shape)

        second = need("second", n_repetitions, None, n_buckets)
        width, n_features, projection, scales = second.shape[1] * n_repetitions, n_inputs, None, None
        if "network.projection" in state.arrays:
            projection = need("projection", n_inputs, None)
            n_features = projection.shape[1]
        if "network.first_scales" in state.arrays:
            scales = need("first_scales", n_features, n_repetitions)
            first = unpacked(need("first_codes", n_features, (width + 1) // 2, dtype=np.uint8), scales, width)
        else:
            first = need("first", n_features, width)
        first_bias, second_bias = need("first_bias", width), need("second_bias", n_repetitions, n_buckets)
        return cls(first, first_bias, second, second_bias, projection, scales)


def best_buckets(network: BucketNetwork, X: Any, truths: sp.csr_matrix, choices: int) -> Int32:
    """The buckets that each label has most affinity to, by the IRLI paper's Definition 1: the sum over its instances.
    The sums of all labels to all buckets are never made: some buckets are computed at a time, and of these for some
    labels at a time, and each label's best so far are compared with them."""
    # Shapes: X (n, n_features); truths (n, n_labels); returns (n_labels, choices)
    n, n_labels = truths.shape
    by_label = sp.csr_matrix((np.ones(truths.nnz, np.float32), truths.indices, truths.indptr), truths.shape).T.tocsr()
    parts = [slice(start, start + network.block_rows()) for start in range(0, n, network.block_rows())]
    hidden = np.concatenate([network.hidden_values(X[part]) for part in parts])
    best, values = np.full((n_labels, choices), -1, np.int32), np.full((n_labels, choices), -np.inf, np.float32)
    width = max(_AFFINITIES // max(n, 1), 16)
    for start in range(0, network.n_buckets, width):
        second, second_bias = network.second[:, :, start : start + width], network.second_bias[:, start : start + width]
        some = BucketNetwork(network.first, network.first_bias, second, second_bias)
        scores = np.concatenate([sigmoid(some.bucket_logits(hidden[part], 0)) for part in parts])
        height = max(_AFFINITIES // some.n_buckets, 1)
        for first in range(0, n_labels, height):
            block = slice(first, first + height)
            sums = np.asarray(by_label[block] @ scores)
            columns, most = best_columns(sums, min(choices, some.n_buckets))
            numbers = np.concatenate([best[block], columns + np.int32(start)], axis=1)
            # those of lower buckets stand first
            places, values[block] = best_columns(np.concatenate([values[block], most], axis=1), choices)
            best[block] = np.take_along_axis(numbers, places, axis=1)
    best[np.diff(by_label.indptr) == 0] = -1
    return best


def expected_affinity(
    network: BucketNetwork, X: Any, truths: sp.csr_matrix, assignment: Int32, n_jobs: int = 1
) -> float:
    """The mean probability of the bucket that a label is in, over inputs, their labels and repetitions. This is what
    Theorem 1 of the IRLI paper says grows by a re-partition and the training after it."""
    # Shapes: X (n, n_features); truths (n, n_labels); assignment (n_repetitions, n_labels)

    def work(part: tuple[int, int]) -> float:
        block = truths[slice(*part)]
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        hidden = network.hidden_values(X[slice(*part)])
        total = 0.0
        for repetition in range(network.n_repetitions):
            logits = network.bucket_logits(hidden, repetition)
            total += float(sigmoid(logits[rows, assignment[repetition, block.indices]]).sum(dtype=np.float64))
        return total

    sums = map_parallel(work, split_ranges(X.shape[0], network.block_rows()), n_jobs)
    return float(sum(sums) / max(truths.nnz * network.n_repetitions, 1))


def sigmoid(logits: Float32) -> Float32:
    """Probabilities of logits; of a NaN 0."""
    with np.errstate(all="ignore"):
        probabilities = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
    return np.nan_to_num(probabilities.astype(np.float32, copy=False), copy=False)


def _enough_rows(X: Float32) -> Float32:
    if 0 < len(X) < _FEWEST_ROWS:
        return np.concatenate([X, np.zeros((_FEWEST_ROWS - len(X), X.shape[1]), np.float32)])
    return X
