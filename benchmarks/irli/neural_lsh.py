"""Neural LSH (Dong and others, ICLR 2020, arXiv 1901.08544): a balanced partition of the graph of nearest neighbours,
and a network that learns to tell its parts.

The partition is KaHIP's, as in the paper, so that the graph's step needs the packages faiss and kahip; the rest needs
PyTorch. The buckets of a query are those that the network finds most probable. What opens and re-ranks them is the same
as for IRLI.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import measure
from benchmarks.irli import sets

__all__ = ["measured", "partition", "trained"]

NEIGHBORS = 10  # of a vector in the graph
ROOM = 0.03  # by how much of the mean a part may be larger
LAYERS, HIDDEN, DROPOUT = 3, 512, 0.1
EPOCHS, ROWS, RATE = 30, 512, 1e-3
Row = dict[str, Any]


def partition(row: Row, found: sets.VectorSet) -> dict[str, np.ndarray]:
    """The part of each vector, and its neighbours: edges lie between vectors of which one is among the other's."""
    import faiss
    import kahip

    kinds = {"angular": faiss.IndexFlatIP, "euclidean": faiss.IndexFlatL2}
    with measure.Clock() as clock:
        index = kinds[found.metric](found.base.shape[1])
        index.add(found.base)
        nearest = index.search(found.base, NEIGHBORS + 1)[1]
        n = len(nearest)
        is_self = nearest == np.arange(n)[:, None]
        is_self[~is_self.any(axis=1), -1] = True  # of equal vectors, a vector may not be among its own nearest
        neighbors = nearest[~is_self].reshape(n, NEIGHBORS)
        first, second = np.repeat(np.arange(n), NEIGHBORS), neighbors.ravel()
        edges = np.unique(np.concatenate([first * n + second, second * n + first]))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(edges // n, minlength=n))])
        _, parts = kahip.kaffpa(
            [1] * n, offsets.tolist(), [1] * len(edges), (edges % n).tolist(), row["n_buckets"], ROOM, True,
            row["seed"], kahip.ECO,
        )  # fmt: skip
    seconds = np.array([clock.wall, clock.cpu])
    return {"assignment": np.asarray(parts, np.int32), "neighbors": neighbors.astype(np.int32), "seconds": seconds}


def _network(dim: int, n_buckets: int) -> Any:
    from torch import nn

    layers: list[nn.Module] = []
    for width in (dim, *[HIDDEN] * (LAYERS - 1)):
        layers += [nn.Linear(width, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT)]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, n_buckets))


def trained(row: Row, base: np.ndarray, assignment: np.ndarray, neighbors: np.ndarray) -> Any:
    """A network whose target is the share of a vector and its neighbours in each part."""
    import torch

    torch.manual_seed(row["seed"])
    network = _network(base.shape[1], row["n_buckets"])
    vectors, parts = torch.from_numpy(base), torch.from_numpy(assignment.astype(np.int64))
    around = torch.cat([parts[:, None], parts[torch.from_numpy(neighbors.astype(np.int64))]], dim=1)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, EPOCHS * (1 + (len(base) - 1) // ROWS))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(base)).split(ROWS):
            loss = -torch.log_softmax(network(vectors[rows]), dim=1).gather(1, around[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def measured(row: Row, found: sets.VectorSet, made: Path) -> dict[str, Any]:
    """Learns the parts, and follows the curve."""
    import torch

    from benchmarks.irli import ours
    from sylvan.models.irli.buckets import Buckets

    stored = np.load(made)
    with measure.Training() as training:
        network = trained(row, found.base, stored["assignment"], stored["neighbors"])
    buckets = Buckets.from_assignment(stored["assignment"][None], row["n_buckets"])

    def top(queries: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            shares, best = torch.softmax(network(torch.from_numpy(queries)), dim=1).topk(m, dim=1)
        return best[:, None].int().numpy(), shares[:, None].numpy()

    build = training.figures()
    for name, seconds in zip(("wall_s", "cpu_s"), stored["seconds"].tolist(), strict=True):
        build[name] += seconds
    weights = sum(weight.numel() for weight in network.parameters())
    figures = {"version": torch.__version__, "build": build, "vectors_mb": found.base.nbytes / 1e6}
    figures["index_mb"] = 4e-6 * weights + sum(array.nbytes for array in buckets.arrays().values()) / 1e6
    searching = ours.searching(top, buckets, found)
    return figures | ours.followed(top, buckets, found, searching, weights / found.base.shape[1])
