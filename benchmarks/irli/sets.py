"""The vector sets of ``irli.py``: what is searched, what is asked, and the true answers.

Needs NumPy only, so that every contender's own environment reads the same.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["K", "VectorSet", "exact", "load", "synthetic"]

K = 10  # recall10@10
FASHION = ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz")
BLOCK = 1 << 25  # products in memory at a time


@dataclass(frozen=True)
class VectorSet:
    """Vectors of float32, of length one where the metric is angular, and each query's ``K`` nearest."""

    name: str
    metric: str
    base: np.ndarray  # (L, D)
    queries: np.ndarray  # (n, D)
    truth: np.ndarray  # (n, K)


def load(name: str, *, data: Path, fashion: Path, cache: Path, n_base: int = 0, n_queries: int = 1000) -> VectorSet:
    """The set ``name``, or its first ``n_base`` vectors; ``synthetic`` is made."""
    metric = "euclidean"
    if name == "title-vectors":
        metric = "angular"
        base, queries = (np.load(data / name / f"{part}.npy").astype(np.float32) for part in ("base", "queries"))
        base, queries = _unit(base), _unit(queries)
    elif name == "fashion-mnist":
        base, queries = (read_idx(fashion / part).astype(np.float32) / 255 for part in FASHION)
    elif name == "synthetic":
        base, queries = synthetic(n_base + n_queries, n_queries)
    else:
        raise SystemExit(f"there is no set {name!r}; there are title-vectors, fashion-mnist and synthetic")
    base, queries = base[: n_base or None], queries[:n_queries]
    base, queries = np.ascontiguousarray(base), np.ascontiguousarray(queries)
    target = cache / f"irli-{name}-{len(base)}-{len(queries)}.npy"
    if target.exists():
        truth = np.load(target)
    else:
        truth = exact(base, queries, K, metric)
        cache.mkdir(parents=True, exist_ok=True)
        np.save(target, truth)
    return VectorSet(name, metric, base, queries, truth)


def read_idx(path: Path) -> np.ndarray:
    """Images of MNIST's file format, one a row."""
    with gzip.open(path, "rb") as file:
        kind = int.from_bytes(file.read(4), "big")
        if kind >> 8 != 8:
            raise SystemExit(f"{path} doesn't hold bytes in MNIST's format: it begins with {kind:#010x}.")
        shape = [int.from_bytes(file.read(4), "big") for _ in range(kind & 255)]
        return np.frombuffer(file.read(), dtype=np.uint8).reshape(shape[0], -1)


def synthetic(n: int, n_queries: int, dim: int = 96, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors on a curved sheet of ten dimensions, denser here and there, with a little noise; queries alike.

    What is near is decided on the sheet, so that sets of every size have neighbours of the same kind.
    """
    rng = np.random.default_rng(seed)
    latent, width, n_centres = 10, 256, 100
    centres = rng.normal(size=(n_centres, latent)).astype(np.float32)
    share = 1 / np.arange(1, n_centres + 1) ** 0.7
    first = rng.normal(size=(latent, width)).astype(np.float32) / np.sqrt(latent)
    second = rng.normal(size=(width, dim)).astype(np.float32) / np.sqrt(width)
    vectors = np.empty((n, dim), np.float32)
    for start in range(0, n, 1 << 16):
        part = vectors[start : start + (1 << 16)]
        place = centres[rng.choice(n_centres, len(part), p=share / share.sum())]
        place += 0.7 * rng.normal(size=place.shape).astype(np.float32)
        part[:] = np.tanh(2 * place @ first) @ second
        part += 0.02 * rng.normal(size=part.shape).astype(np.float32)
    return vectors[n_queries:], vectors[:n_queries]


def exact(base: np.ndarray, queries: np.ndarray, k: int, metric: str) -> np.ndarray:
    """The ``k`` nearest of each query, ties by number, by distances in float32."""
    half = 0.0 if metric == "angular" else 0.5 * np.einsum("ld,ld->l", base, base)
    found = np.empty((len(queries), k), np.int32)
    step = max(1, BLOCK // len(base))
    for first in range(0, len(queries), step):
        score = half - queries[first : first + step] @ base.T
        some = np.argpartition(score, k, axis=1)[:, : k + 1] if k < len(base) else np.argsort(score, axis=1)
        order = np.lexsort((some, np.take_along_axis(score, some, axis=1)), axis=1)
        found[first : first + step] = np.take_along_axis(some, order, axis=1)[:, :k]
    return found


def recall(ids: np.ndarray, truth: np.ndarray) -> float:
    """The share of the true neighbours that are among ``ids`` (n, k)."""
    return float((ids[:, :, None] == truth[:, None, :]).any(axis=1).mean())


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
