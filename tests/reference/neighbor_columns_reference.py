"""How near a row's neighbours are that have a candidate, and the nearest rows: the slow and obvious way, with loops."""

from collections.abc import Sequence

import numpy as np

Neighbors = list[tuple[int, float]]  # training rows and their similarities, nearest first


def columns_of_candidate(label: int, neighbors: Neighbors, rows: Sequence[set[int]]) -> list[float]:
    """Similarity of the nearest neighbour that has the label, 1 over its place from 1, and how many have it."""
    similarity = place = votes = 0.0
    for at, (row, value) in enumerate(neighbors, start=1):
        if label in rows[row]:
            votes += 1
            if votes == 1:
                similarity, place = value, 1 / at
    return [similarity, place, votes]


def columns(candidates: np.ndarray, listed: Sequence[Neighbors], rows: Sequence[set[int]]) -> np.ndarray:
    """Three columns for each candidate of each row; zeros where there is none.

    ``rows`` are the labels of the training rows.
    """
    found = np.zeros((*candidates.shape, 3), np.float32)
    for row, neighbors in enumerate(listed):
        for place, label in enumerate(candidates[row].tolist()):
            if label >= 0:
                found[row, place] = columns_of_candidate(label, neighbors, rows)
    return found


def neighbors_of(numbers: np.ndarray, similarities: np.ndarray) -> list[Neighbors]:
    """Those of each row as lists, without the empty places."""
    return [
        [(number, value) for number, value in zip(*pair, strict=True) if number >= 0]
        for pair in zip(numbers.tolist(), similarities.tolist(), strict=True)
    ]


def nearest_others(own: int, rows: np.ndarray, n: int, weight: np.ndarray | None = None) -> Neighbors:
    """The ``n`` rows of the highest cosine with one of them, which isn't its own neighbour; the lower row among equals.

    Rows of weight 0 are nobody's neighbours.
    """
    lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1))
    found = []
    for other in range(len(rows)):
        if other == own or (weight is not None and weight[other] == 0) or not lengths[own] * lengths[other]:
            continue
        cosine = float((rows[own].astype(np.float64) * rows[other]).sum() / (lengths[own] * lengths[other]))
        if cosine > 0:
            found.append((other, cosine))
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:n]
