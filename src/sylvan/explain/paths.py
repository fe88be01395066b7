"""Why a tree ranks a label where it does: the path to it, how the beam treated it, and the features that weighed most.
Scores of labels come from the same kernels that ranking uses, so that they are those of the ranking; what each feature
added is computed from the stored weights, and adds up to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sylvan.arrays.types import Array, Float64, Int64
from sylvan.arrays.validate import Csr
from sylvan.explain.explanation import LeafPath, Names, Step, TreeVote, WeighedFeature
from sylvan.indexing import LabelTree
from sylvan.indexing.tree import node_title
from sylvan.matching import beam as matching
from sylvan.matching.class_beam import ClassWeights
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.weights.layer import LayerWeights, readable

Candidates = tuple[Array, Array]  # nodes and their scores, best first
# A node's siblings, the score of the path down to it, what brings such scores to where they're compared, and fields of
# its Step.
_Scored = tuple[Candidates, float, Callable[[Any], float], dict[str, Any]]


def tree_votes(
    rankers: Sequence[TreeRanker], combines: Sequence[Sequence[str]], row: Csr, label: int, beam: int, top: int,
    names: Names, bound: Callable[[Any], Any] | None,
) -> tuple[TreeVote, ...]:  # fmt: skip
    """What each tree says of a label; ``bound`` brings a tree's scores to where the mean takes them."""
    votes = []
    for number, (ranker, combine) in enumerate(zip(rankers, combines, strict=True)):
        paths = explain_paths(ranker, row, label, beam=beam, combines=combine, top=top, names=names)
        best = paths[0]
        score = best.score if bound is None else float(bound(np.array([best.score], np.float32))[0])
        enough = None if best.reached else beam_that_reaches(ranker, row, best, combine)
        votes.append(TreeVote(number, score, best.reached, beam, enough, paths))
    return tuple(votes)


def explain_paths(
    ranker: TreeRanker, row: Csr, label: int, *, beam: int, combines: Sequence[str], top: int, names: Names
) -> tuple[LeafPath, ...]:
    """The paths to all leaves of ``label``: those that the beam reaches first, then by score."""

    # Shape: row (1, n_features)
    def score(layer: int, cluster: int, node: int, above: float) -> _Scored:
        weights, combine = ranker.layers[layer], combines[layer]
        siblings = _children(row, weights, cluster, above, combine)
        value = _score_of(_children(row, weights, cluster, 0.0, "ranker"), node)
        weighed = _weighed(row, weights, cluster, node, top, names)
        fields = {"score": value, "intercept": float(weights.intercepts[node]), **weighed}
        # A path's score as ranking would give it: products are logarithms.
        so_far = float if combine == "ranker" else lambda score: float(np.exp(np.float32(score)))
        return siblings, _score_of(siblings, node), so_far, fields

    searched = search_layers(ranker, row, beam, combines)
    leaves = np.flatnonzero(ranker.tree.leaf_labels == label).tolist()
    paths = [_path_to(leaf, ranker.tree, searched, beam, names, score) for leaf in leaves]
    return tuple(sorted(paths, key=lambda path: (not path.reached, -path.score)))


def _path_to(
    leaf: int, tree: LabelTree, searched: Sequence[Candidates], beam: int, names: Names,
    score: Callable[[int, int, int, float], _Scored],
) -> LeafPath:  # fmt: skip
    """The path to a leaf; ``score`` scores a node, by its layer, its parent and the score of the path to there."""
    steps: list[Step] = []
    parent, opened, above = 0, True, 0.0
    for layer, ((nodes, scores), node) in enumerate(zip(searched, tree.path(leaf), strict=True)):
        siblings, above, so_far, fields = score(layer, parent, node, above)
        last = layer == tree.depth - 1
        place = node_place(nodes, node) if opened else None
        followed = opened and (last or (place is not None and place <= beam))
        floor = so_far(scores[beam - 1]) if opened and not last and len(nodes) > beam else None
        steps.append(
            Step(
                layer, node, node_title(tree, layer, node, names.label, names.counts), so_far=so_far(above),
                place=node_place(siblings[0], node) or len(siblings[0]), n_siblings=len(siblings[0]), opened=opened,
                beam_place=place, n_candidates=len(nodes) if opened else None, followed=followed, floor=floor, **fields,
            )
        )  # fmt: skip
        parent, opened = node, followed
    return LeafPath(leaf, tuple(steps))


def beam_that_reaches(ranker: TreeRanker, row: Csr, path: LeafPath, combines: Sequence[str]) -> int:
    """A beam that is wide enough to reach the leaf: the path's worst place when every node of a layer competes."""
    inner = ranker.tree.depth - 1
    everything = search_layers(ranker, row, max(ranker.tree.layer_sizes), combines, inner)
    return _worst_place(everything, path)


def _worst_place(layers: Sequence[Candidates], path: LeafPath) -> int:
    places = (node_place(nodes, step.node) for (nodes, _), step in zip(layers, path.steps, strict=False))
    return max((place for place in places if place is not None), default=1)


def search_layers(
    ranker: TreeRanker, row: Csr, beam: int, combines: Sequence[str], n_layers: int | None = None
) -> list[Candidates]:
    """All nodes that a beam search scores in each layer, best first, with the paths' scores."""
    above = matching.root_beam(1)
    results: list[Candidates] = []
    for weights, combine in zip(ranker.layers[:n_layers], combines, strict=False):
        offsets = weights.child_offsets
        width = int((offsets[above[0][0] + 1] - offsets[above[0][0]]).sum())
        nodes, scores = matching.next_beam(row, weights, above, width, combine)
        n = int(np.count_nonzero(nodes[0] >= 0))
        results.append((nodes[0, :n], scores[0, :n]))
        width = min(n, beam)
        if not width:  # scores that are no numbers, in a damaged model
            results.extend([(nodes[0, :0], scores[0, :0])] * (len(combines) - len(results)))
            break
        above = np.ascontiguousarray(nodes[:, :width]), np.ascontiguousarray(scores[:, :width])
    return results


def node_place(nodes: Array, node: int) -> int | None:
    """The place of a node among those that are sorted, from 1."""
    places = np.flatnonzero(nodes == node)
    return int(places[0]) + 1 if len(places) else None


def _children(row: Csr, weights: LayerWeights, cluster: int, above: float, combine: str) -> Candidates:
    """The children of one cluster as the search scores them below a path of score ``above``."""
    root = np.array([[cluster]], np.int32), np.array([[above]], np.float32)
    width = int(weights.child_offsets[cluster + 1] - weights.child_offsets[cluster])
    nodes, scores = matching.next_beam(row, weights, root, width, combine)
    return nodes[0], scores[0]


def _score_of(candidates: Candidates, node: int) -> float:
    """A node's score; NaN when a damaged model gave it none."""
    place = node_place(candidates[0], node)
    return float("nan") if place is None else float(candidates[1][place - 1])


def _weighed(row: Csr, weights: LayerWeights, cluster: int, node: int, top: int, names: Names) -> dict[str, Any]:
    """The strongest features for and against a node, how many there are, and the sum of the others."""
    with readable(cluster):
        rows = weights.cluster(cluster)
        of_child = rows.children == node - int(weights.child_offsets[cluster])
        features = np.repeat(rows.features, rows.lengths)[of_child]
    places = np.searchsorted(row.indices, features)  # those of a damaged model may repeat
    shared = places < row.nnz
    shared[shared] = row.indices[places[shared]] == features[shared]
    return _strongest_features(features[shared], row.data[places[shared]], rows.weights[of_child][shared], top, names)


def _strongest_features(features: Array, values: Array, weights: Array, top: int, names: Names) -> dict[str, Any]:
    """The ``top`` features a sign that add most to a score, as fields of a Step: the lower feature among equals."""
    parts = values.astype(np.float64) * weights
    order = np.lexsort((features, -np.abs(parts))).tolist()
    signs = [[i for i in order if sign * parts[i] > 0][:top] for sign in (1, -1)]
    listed = [
        tuple(WeighedFeature(int(features[i]), names.feature(int(features[i])), float(values[i]), float(weights[i]))
              for i in chosen) for chosen in signs
    ]  # fmt: skip
    unlisted = float(parts.sum() - sum(parts[i] for chosen in signs for i in chosen))
    n_weighed = int(np.count_nonzero(weights))  # of 16 bits, the smallest are stored as 0
    omits = n_weighed > sum(map(len, signs))
    return {"positive": listed[0], "negative": listed[1], "n_weighed": n_weighed, "rest": unlisted if omits else 0.0}


def class_votes(
    weights: ClassWeights, row: Csr, label: int, beam: int, top: int, names: Names, *, loss: str, bias: float
) -> tuple[TreeVote, ...]:
    """What a tree of classes says of one: the path to it, and where the beam doesn't reach it, one that would. Its
    score is the sum of the path, or its last step's own."""
    # Shape: row (1, n_features)
    tree, parts = weights.tree, weights.weights[:, row.indices] @ row.data
    votes = (parts + np.float32(bias) * weights.weights[:, -1]).astype(np.float64)  # of every edge
    moves = _among_siblings(weights, votes) if loss == "hsm" else votes

    def score(layer: int, parent: int, node: int, above: float) -> _Scored:
        first, offsets = weights.first_edges[layer], tree.child_offsets[layer]
        siblings, edge = _sorted(np.arange(offsets[parent], offsets[parent + 1]), moves[first:]), first + node
        values = weights.weights[edge, row.indices]
        used = values != 0
        weighed = _strongest_features(row.indices[used], row.data[used], values[used], top, names)
        fields = {"score": float(votes[edge]), "intercept": float(weights.weights[edge, -1]) * bias, **weighed}
        return siblings, float(moves[edge]) + (0.0 if weights.scores == "own" else above), float, fields

    leaf = int(np.flatnonzero(tree.leaf_labels == label)[0])
    path = _path_to(leaf, tree, _search_classes(weights, moves, beam), beam, names, score)
    enough = None
    if not path.reached:
        enough = _worst_place(_search_classes(weights, moves, weights.n_edges)[:-1], path)
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


def _among_siblings(weights: ClassWeights, scores: Float64) -> Float64:
    """The log-probability of every edge among its siblings."""
    moves: Float64 = scores.copy()
    for first, offsets in zip(weights.first_edges, weights.tree.child_offsets, strict=False):
        layer, counts = scores[first : first + int(offsets[-1])], np.diff(offsets)
        layer = layer - np.repeat(np.maximum.reduceat(layer, offsets[:-1]), counts)
        sums = np.log(np.add.reduceat(np.exp(layer), offsets[:-1]))
        moves[first : first + len(layer)] = layer - np.repeat(sums, counts)
    return moves


def _sorted(nodes: Int64, scores: Float64) -> Candidates:
    """Nodes with their scores, best first, the lower node first among equals."""
    order = np.lexsort((nodes, -scores[nodes]))
    return nodes[order], scores[nodes][order]


def _search_classes(weights: ClassWeights, moves: Float64, beam: int) -> list[Candidates]:
    """The nodes of each layer that a beam search scores, best first, with their scores."""
    layers: list[Candidates] = []
    above, sums = np.zeros(1, np.int64), np.zeros(1)
    for first, offsets in zip(weights.first_edges, weights.tree.child_offsets, strict=False):
        counts = offsets[above + 1] - offsets[above]
        nodes = np.concatenate([np.arange(offsets[node], offsets[node + 1]) for node in above.tolist()])
        node_scores = np.zeros(int(offsets[-1]))
        node_scores[nodes] = moves[first + nodes] + (0 if weights.scores == "own" else np.repeat(sums, counts))
        layers.append(_sorted(nodes, node_scores))
        above, sums = layers[-1][0][:beam], layers[-1][1][:beam]
    return layers
