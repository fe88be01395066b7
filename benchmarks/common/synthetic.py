"""Synthetic long-tailed sets: labels by Zipf's law, grouped into topics, in text-like sparse features.

Every label has a few words of its own and shares its topic's words; a row mixes the words of its labels, its topics'
words and common words, counted, weighted by tf-idf and scaled to unit length. Made in blocks of rows, so that the large
set needs little more memory than it takes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

BLOCK = 50_000  # rows made at a time


@dataclass(frozen=True)
class Shape:
    """Sizes of a set."""

    n_train: int
    n_test: int
    n_labels: int
    n_features: int
    labels_per_topic: int = 40
    words_per_label: int = 14
    words_per_topic: int = 60
    label_tokens: float = 3.0  # tokens a label leaves in a row, on average
    topic_tokens: float = 7.0
    common_tokens: float = 65.0


SHAPES = {
    "synthetic": Shape(100_000, 10_000, 50_000, 100_000),
    "synthetic-large": Shape(490_000, 20_000, 670_000, 150_000),
    "synthetic-small": Shape(4_000, 1_000, 1_500, 6_000),
}


SIZED = re.compile(r"synthetic-([1-9][0-9]*)x([1-9][0-9]*)")
SIZED_TEST_ROWS, SIZED_FEATURES = 20_000, 300_000


def shape_named(name: str) -> Shape:
    """The sizes of a set: one of :data:`SHAPES`, or ``synthetic-ROWSxLABELS``.

    Raises
    ------
    ValueError
        When there is no such set.
    """
    if name in SHAPES:
        return SHAPES[name]
    match = SIZED.fullmatch(name)
    if match is None:
        raise ValueError(f"no set {name!r}; there are {', '.join(SHAPES)}, and synthetic-ROWSxLABELS")
    return Shape(int(match[1]), SIZED_TEST_ROWS, int(match[2]), SIZED_FEATURES)


def zipf(size: int, exponent: float) -> np.ndarray:
    """Cumulative probabilities of ranks 0, 1, ... under Zipf's law."""
    weights = 1.0 / np.arange(1, size + 1) ** exponent
    total = np.cumsum(weights)
    return total / total[-1]


def draw(rng: np.random.Generator, cumulative: np.ndarray, size: int | tuple[int, ...]) -> np.ndarray:
    """Ranks drawn from cumulative probabilities, int64."""
    found = np.searchsorted(cumulative, rng.random(size), side="right")
    return np.minimum(found, len(cumulative) - 1)


class World:
    """The fixed part of a set: which words tell which label."""

    def __init__(self, shape: Shape, rng: np.random.Generator) -> None:
        self.shape = shape
        n_topics = max(1, shape.n_labels // shape.labels_per_topic)
        self.label_of_rank = rng.permutation(shape.n_labels)
        self.topic = rng.integers(0, n_topics, shape.n_labels)
        order = np.argsort(self.topic, kind="stable")
        self.members = order  # labels sorted by topic
        self.member_start = np.searchsorted(self.topic[order], np.arange(n_topics + 1))
        self.popularity = zipf(shape.n_labels, 0.85)
        self.word_of_rank = rng.permutation(shape.n_features)
        self.words = zipf(shape.n_features, 1.0)
        rare = zipf(shape.n_features, 0.4)
        self.label_words = self._drawn_words(rng, rare, shape.n_labels, shape.words_per_label)
        self.topic_words = self.word_of_rank[draw(rng, zipf(shape.n_features, 0.7), (n_topics, shape.words_per_topic))]
        self.within = zipf(shape.words_per_topic, 0.6)
        self.within_label = zipf(shape.words_per_label, 0.4)

    def _drawn_words(self, rng: np.random.Generator, cumulative: np.ndarray, n: int, each: int) -> np.ndarray:
        """Words drawn for each of ``n``, int32, a block at a time: draws as a whole would take many times as much."""
        words = np.empty((n, each), np.int32)
        for start in range(0, n, BLOCK):
            part = words[start : start + BLOCK]
            part[...] = self.word_of_rank[draw(rng, cumulative, part.shape)]
        return words

    def block(self, n: int, rng: np.random.Generator) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """Word counts (n, d) and labels (n, L) of ``n`` new rows."""
        shape = self.shape
        n_labels = rng.integers(2, 5, n)
        first = self.label_of_rank[draw(rng, self.popularity, n)]
        row = np.repeat(np.arange(n), n_labels)
        start = np.concatenate([[0], np.cumsum(n_labels)[:-1]])
        label = self.label_of_rank[draw(rng, self.popularity, len(row))]
        topic = self.topic[first][row]  # most further labels are of the first one's topic
        low, high = self.member_start[topic], self.member_start[topic + 1]
        sibling = self.members[low + (rng.random(len(row)) ** 2 * (high - low)).astype(np.int64)]
        label = np.where(rng.random(len(row)) < 0.7, sibling, label)
        label[start] = first
        Y = sp.csr_matrix((np.ones(len(row), np.float32), (row, label)), shape=(n, shape.n_labels))
        Y.data[:] = 1.0

        parts = []
        count = rng.poisson(shape.label_tokens, len(row))
        at = np.repeat(np.arange(len(row)), count)
        parts.append((row[at], self.label_words[label[at], draw(rng, self.within_label, len(at))]))
        count = rng.poisson(shape.topic_tokens, len(row))
        at = np.repeat(np.arange(len(row)), count)
        parts.append((row[at], self.topic_words[self.topic[label[at]], draw(rng, self.within, len(at))]))
        at = np.repeat(np.arange(n), rng.poisson(shape.common_tokens, n))
        parts.append((at, self.word_of_rank[draw(rng, self.words, len(at))]))
        rows, words = (np.concatenate(side) for side in zip(*parts, strict=True))
        counts = sp.csr_matrix((np.ones(len(rows), np.float32), (rows, words)), shape=(n, shape.n_features))
        return counts, Y


def generate(name: str, seed: int = 0) -> dict[str, sp.csr_matrix]:
    """The set ``name`` as ``X.trn Y.trn X.tst Y.tst``; the same seed gives the same set."""
    shape = shape_named(name)
    rng = np.random.default_rng(seed)
    world = World(shape, rng)
    blocks: dict[str, list[tuple[sp.csr_matrix, sp.csr_matrix]]] = {"trn": [], "tst": []}
    for part, n in (("trn", shape.n_train), ("tst", shape.n_test)):
        for start in range(0, n, BLOCK):
            blocks[part].append(world.block(min(BLOCK, n - start), rng))
    matrices = {}
    for part, made in blocks.items():
        matrices[f"X.{part}"] = sp.vstack([X for X, _ in made], format="csr")
        matrices[f"Y.{part}"] = sp.vstack([Y for _, Y in made], format="csr")
        made.clear()
    found = sum(np.bincount(columns, minlength=shape.n_features) for _, columns, _ in _row_blocks(matrices["X.trn"]))
    idf = (np.log((1 + shape.n_train) / (1 + found)) + 1).astype(np.float32)
    for part in ("X.trn", "X.tst"):
        _weigh(matrices[part], idf)
    return matrices


def _weigh(X: sp.csr_matrix, idf: np.ndarray) -> None:
    """Counts to sublinear tf-idf of unit length, in place."""
    for indptr, indices, data in _row_blocks(X):
        np.log(data, out=data)
        data += 1
        data *= idf[indices]
        length = np.sqrt(np.add.reduceat(np.append(data**2, np.float32(0)), indptr[:-1]))
        length[np.diff(indptr) == 0] = 1.0
        data /= np.repeat(length, np.diff(indptr)).astype(np.float32)


def _row_blocks(X: sp.csr_matrix) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The offsets, columns and values of blocks of rows; columns and values are the matrix's own."""
    for first in range(0, X.shape[0], BLOCK):
        indptr = X.indptr[first : first + BLOCK + 1]
        values = slice(int(indptr[0]), int(indptr[-1]))
        yield indptr - indptr[0], X.indices[values], X.data[values]
