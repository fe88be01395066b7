"""BucketCenters: buckets around vectors drawn at random, several times over; nothing is learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sylvan import store
from sylvan.arrays.topk import best_columns
from sylvan.arrays.types import Array, Float32, Int32
from sylvan.models.irli.bucket_network import _enough_rows
from sylvan.parallel import map_parallel, split_ranges

_BLOCK_VALUES = 1 << 20  # scores in memory at once, a thread
_MOST_ROWS = 512
# The temperature of the softmax that makes probabilities of scores, in standard deviations of a query's scores. From a
# tenth to eight tenths the candidates needed hardly differ.
_TEMPERATURE = 0.3
_SAMPLE = 256  # centres whose scores say how far scores are spread


@dataclass(frozen=True, eq=False)
class BucketCenters:
    """R times B vectors of the base, each the centre of a bucket. A vector is in the bucket of the nearest centre of
    each repetition; a query looks into those of the nearest, or under inner products of those with the largest
    product."""

    centers: Float32  # shape (n_repetitions, n_buckets, n_dimensions)
    inner_product: bool  # whether queries are compared by products
    spread: float  # standard deviation of a query's scores, above 0

    def __post_init__(self) -> None:
        halves = np.square(self.centers).sum(axis=2) / 2
        object.__setattr__(self, "_halves", halves)
        object.__setattr__(self, "_columns", self.centers.swapaxes(1, 2))

    @classmethod
    def draw(cls, base: Float32, n_buckets: int, n_repetitions: int, inner_product: bool, seed: int) -> BucketCenters:
        """Centres drawn from the base without replacement, for each repetition anew; some are drawn again where there
        are fewer vectors than buckets."""
        rows = np.empty((n_repetitions, n_buckets), np.int64)
        for repetition, numbers in enumerate(rows):
            random = np.random.default_rng([seed, 9, repetition])
            numbers[:] = np.resize(random.permutation(len(base))[:n_buckets], n_buckets)
        drawn = cls(base[np.sort(rows, axis=1)], inner_product, 1.0)
        scores = drawn._scores(drawn.centers[0, :_SAMPLE], n_repetitions - 1, False).astype(np.float64)
        spread = float(scores.std(axis=1).mean())
        return cls(drawn.centers, inner_product, spread or 1.0)

    def assign(self, vectors: Float32, n_jobs: int = 1) -> Int32:
        """The bucket of the nearest centre in every repetition, (n_repetitions, n); the first of centres as near."""
        chosen = np.empty((len(self.centers), len(vectors)), np.int32)

        def work(rows: tuple[int, int]) -> None:
            part = slice(*rows)
            for repetition in range(len(self.centers)):
                chosen[repetition, part] = self._scores(vectors[part], repetition, False).argmax(axis=1)

        map_parallel(work, split_ranges(len(vectors), self._block_rows()), n_jobs)
        return chosen

    def top(self, X: Float32, m: int, n_jobs: int = 1) -> tuple[Int32, Float32]:
        """The ``m`` best buckets of every repetition, as of a :class:`BucketNetwork`; probabilities are the softmax
        over the repetition's buckets."""
        # Shape: X (n, n_dimensions); returns chosen (n, n_repetitions, m), probabilities (n, n_repetitions, m)
        shape = (len(X), len(self.centers), m)
        chosen, probabilities = np.empty(shape, np.int32), np.empty(shape, np.float32)

        def work(rows: tuple[int, int]) -> None:
            part = slice(*rows)
            with np.errstate(all="ignore"):  # centres from a damaged file
                for repetition in range(shape[1]):
                    scores = self._scores(X[part], repetition, self.inner_product)
                    chosen[part, repetition], best = best_columns(scores, m)
                    scores -= best[:, :1]
                    scores /= np.float32(_TEMPERATURE * self.spread)
                    shares = np.take_along_axis(np.exp(scores, out=scores), chosen[part, repetition], axis=1)
                    probabilities[part, repetition] = np.nan_to_num(shares / scores.sum(axis=1, keepdims=True))

        size = self._block_rows()
        if 0 < len(X) <= size:
            work((0, len(X)))
        else:
            map_parallel(work, split_ranges(len(X), size), n_jobs)
        return chosen, probabilities

    def _scores(self, X: Float32, repetition: int, products: bool) -> Float32:
        """Products with the centres, or these less half of the centres' squares: the larger, the nearer."""
        scores: Float32 = _enough_rows(X) @ self._columns[repetition]  # type: ignore[attr-defined]
        if not products:
            scores -= self._halves[repetition]  # type: ignore[attr-defined]
        return scores[: len(X)]

    def _block_rows(self) -> int:
        """How many rows are computed at once: by the number of buckets alone, so that threads change no bit."""
        return int(min(max(_BLOCK_VALUES // self.centers.shape[1], 16), _MOST_ROWS))

    def arrays(self) -> dict[str, Array]:
        """What is saved, by name."""
        return {"centers": self.centers}

    @classmethod
    def from_arrays(
        cls, state: store.State, n_dimensions: int, n_repetitions: int, n_buckets: int, metric: str
    ) -> BucketCenters:
        """From what :meth:`arrays` gave to a State, verified."""
        centers = store.need_array(state, "centers", np.float32, (n_repetitions, n_buckets, n_dimensions))
        return cls(centers, metric == "inner_product", store.need_float(state, "spread", 0))
