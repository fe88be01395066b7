"""Why a tree of classes ranks a class where it does: the path to it, the beam, and the features that weighed most."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.validate import Csr
from sylvan.explain.paths import node_place, strongest_features
from sylvan.explain.records import LeafPath, Names, Step, TreeVote
from sylvan.indexing.tree import node_title
from sylvan.matching.class_beam import ClassWeights

Scored = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


def class_votes(
    weights: ClassWeights, row: Csr, label: int, beam: int, top: int, names: Names, *, loss: str, bias: float
) -> tuple[TreeVote, ...]:
    """The one tree's vote, whose score is the class's own: the sum of its path, or of its last step."""
    path, enough = explain_class(
        weights, row, label, beam=beam, bias=bias, log_probabilities=loss == "hsm", top=top, names=names
    )
    return (TreeVote(0, path.score, path.reached, beam, enough, (path,)),)


def class_notes(loss: str, scores: str) -> tuple[str, ...]:
    """What to know when a path's score and the ranking's aren't the same."""
    if loss == "hsm":
        return ()
    if scores == "own":
        return (
            "A class's score is its last step's alone; the steps before it decide whether it is found. The ranking's "
            "is the logarithm of its share among all reached.",
        )
    return ("A path adds up to the class's score; the ranking's is the logarithm of its share among all reached.",)


def explain_class(
    weights: ClassWeights,
    row: Csr,
    label: int,
    *,
    beam: int,
    bias: float,
    log_probabilities: bool,
    top: int,
    names: Names,
) -> tuple[LeafPath, int | None]:
    """The path to a class, and where a beam of ``beam`` doesn't reach it, one that would."""
    # Shape: row (1, n_features)
    own = _edge_scores(weights, row, bias)
    moves = _among_siblings(weights, own) if log_probabilities else own
    tree = weights.tree
    leaf = int(np.flatnonzero(tree.leaf_labels == label)[0])
    edges = [first + node for first, node in zip(weights.first_edges, tree.path(leaf), strict=False)]
    searched, everything = _search(weights, moves, beam), _search(weights, moves, weights.n_edges)
    steps: list[Step] = []
    so_far, opened, parent = 0.0, True, 0
    for layer, edge in enumerate(edges):
        first, offsets = weights.first_edges[layer], tree.child_offsets[layer]
        siblings = _sorted(np.arange(offsets[parent], offsets[parent + 1]), moves[first:])
        nodes, scores = searched[layer]
        node, last = edge - first, layer == tree.depth - 1
        so_far = float(moves[edge]) + (0.0 if weights.scores == "own" else so_far)
        beam_place = node_place(nodes, node) if opened else None
        followed = opened and (last or (beam_place is not None and beam_place <= beam))
        steps.append(
            Step(
                layer=layer,
                node=node,
                title=node_title(tree, layer, node, names.label, names.counts),
                score=float(own[edge]),
                intercept=float(weights.weights[edge, -1]) * bias,
                so_far=so_far,
                place=node_place(siblings[0], node) or len(siblings[0]),
                n_siblings=len(siblings[0]),
                opened=opened,
                beam_place=beam_place,
                n_candidates=len(nodes) if opened else None,
                followed=followed,
                floor=float(scores[beam - 1]) if opened and not last and len(nodes) > beam else None,
                **_weighed(weights, row, edge, top, names),
            )
        )
        parent, opened = node, followed
    path = LeafPath(leaf, tuple(steps))
    places = [node_place(nodes, step.node) for (nodes, _), step in zip(everything[:-1], steps, strict=False)]
    return path, None if path.reached else max((place for place in places if place), default=1)


def _edge_scores(weights: ClassWeights, row: Csr, bias: float) -> npt.NDArray[np.float64]:
    """The score of every edge, of shape (n_edges,)."""
    parts = weights.weights[:, row.indices] @ row.data
    scores: npt.NDArray[np.float64] = (parts + np.float32(bias) * weights.weights[:, -1]).astype(np.float64)
    return scores


def _among_siblings(weights: ClassWeights, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The log-probability of every edge among its siblings."""
    moves: npt.NDArray[np.float64] = scores.copy()
    for first, offsets in zip(weights.first_edges, weights.tree.child_offsets, strict=False):
        layer, counts = scores[first : first + int(offsets[-1])], np.diff(offsets)
        layer = layer - np.repeat(np.maximum.reduceat(layer, offsets[:-1]), counts)
        sums = np.log(np.add.reduceat(np.exp(layer), offsets[:-1]))
        moves[first : first + len(layer)] = layer - np.repeat(sums, counts)
    return moves


def _sorted(nodes: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]) -> Scored:
    """Nodes with their scores, best first, the lower node first among equals."""
    own = scores[nodes]
    order = np.lexsort((nodes, -own))
    return nodes[order], own[order]


def _search(weights: ClassWeights, moves: npt.NDArray[np.float64], beam: int) -> list[Scored]:
    """The nodes of each layer that a beam search scores, best first, with their scores."""
    layers: list[Scored] = []
    above, sums = np.zeros(1, np.int64), np.zeros(1)
    for first, offsets in zip(weights.first_edges, weights.tree.child_offsets, strict=False):
        counts = offsets[above + 1] - offsets[above]
        nodes = np.concatenate([np.arange(offsets[node], offsets[node + 1]) for node in above.tolist()])
        whole = np.zeros(int(offsets[-1]))
        whole[nodes] = moves[first + nodes] + (0 if weights.scores == "own" else np.repeat(sums, counts))
        layers.append(_sorted(nodes, whole))
        above, sums = layers[-1][0][:beam], layers[-1][1][:beam]
    return layers


def _weighed(weights: ClassWeights, row: Csr, edge: int, top: int, names: Names) -> dict[str, Any]:
    """The strongest features for and against an edge, how many there are, and the sum of the others."""
    own = weights.weights[edge, row.indices]
    used = own != 0
    return strongest_features(row.indices[used], row.data[used], own[used], top, names)
