"""The sizes of an index of vectors: what "auto" means for so many vectors of such a width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.models.irli.settings import MOST_BUCKETS

_NARROWEST, _WIDEST = 128, 1024  # hidden layers of "auto"; 128 is enough for 100,000 vectors
_FEWEST_QUERIES, _MOST_QUERIES = 10_000, 30_000
_SAMPLE = 20_000  # vectors whose directions are found


@dataclass(frozen=True)
class IndexSizes:
    """What is learned of how much."""

    n_buckets: int
    hidden: int
    n_components: int  # principal directions that the networks see; 0 where they see the vectors as they are
    n_queries: int  # rows of the base that are training queries where none are given

    @classmethod
    def of(cls, parameters: dict[str, Any], n_vectors: int, n_dimensions: int) -> IndexSizes:
        """The parameters of an index, with numbers for "auto"."""
        given = {name: None if value == "auto" else value for name, value in parameters.items()}
        n_buckets = given["n_buckets"] or buckets_for(n_vectors)
        hidden = given["hidden"] or min(max(n_buckets // 2, _NARROWEST), _WIDEST)
        n_components = given["n_components"]
        if n_components is None:
            n_components = hidden if n_dimensions >= 2 * hidden else 0
        n_queries = given["n_queries"] or min(max(n_vectors // 3, _FEWEST_QUERIES), _MOST_QUERIES)
        return cls(n_buckets, hidden, n_components if n_components < n_dimensions else 0, n_queries)


def buckets_for(n_vectors: int) -> int:
    """The number of buckets that "auto" means: about as many as vectors in a bucket."""
    return int(min(2 ** round(np.log2(max(1.0, 0.8 * np.sqrt(n_vectors)))), MOST_BUCKETS))


def principal_directions(vectors: npt.NDArray[np.float32], width: int, seed: int) -> npt.NDArray[np.float32]:
    """The orthonormal directions in which some of the vectors have the largest mean squares, largest first. The mean
    isn't taken away, so that inner products of projected vectors come near those of the vectors."""
    # Shape: vectors (n, d); returns (d, width)
    some = np.sort(np.random.default_rng([seed, 8]).permutation(len(vectors))[:_SAMPLE])
    shown = vectors[some].astype(np.float64)
    directions = np.linalg.eigh(shown.T @ shown)[1][:, ::-1]
    return np.ascontiguousarray(directions[:, :width], dtype=np.float32)
