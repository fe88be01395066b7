"""Why a tree ranks a label where it does: the path to it, how the beam treated it, and the features that weighed most.
Scores come from the same kernels that ranking uses, so that they are those of the ranking; what each feature added is
computed from the stored weights, and adds up to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.validate import Csr
from sylvan.errors import ModelError
from sylvan.explain.records import LeafPath, Names, Step, TreeVote, WeighedFeature
from sylvan.indexing.tree import node_title
from sylvan.matching import beam as matching
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.weights.layer import ClusterWeights

Candidates = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


def tree_votes(
    rankers: Sequence[TreeRanker],
    combines: Sequence[Sequence[str]],
    row: Csr,
    label: int,
    beam: int,
    top: int,
    names: Names,
    bound: Callable[[Any], Any] | None,
) -> tuple[TreeVote, ...]:
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
    searched = search_layers(ranker, row, beam, combines)
    results = [
        LeafPath(leaf, tuple(_steps(ranker, row, leaf, searched, beam, combines, top, names)))
        for leaf in np.flatnonzero(ranker.tree.leaf_labels == label).tolist()
    ]
    return tuple(sorted(results, key=lambda path: (not path.reached, -path.score)))


def beam_that_reaches(ranker: TreeRanker, row: Csr, path: LeafPath, combines: Sequence[str]) -> int:
    """A beam that is wide enough to reach the leaf: the path's worst place when every node of a layer competes."""
    inner = ranker.tree.depth - 1
    everything = search_layers(ranker, row, max(ranker.tree.layer_sizes), combines, inner)
    places = [node_place(candidates[0], step.node) for candidates, step in zip(everything, path.steps, strict=False)]
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


def node_place(nodes: npt.NDArray[Any], node: int) -> int | None:
    """The place of a node among those that are sorted, from 1."""
    at = np.flatnonzero(nodes == node)
    return int(at[0]) + 1 if len(at) else None


def _children(row: Csr, weights: ClusterWeights, cluster: int, above: float, combine: str) -> Candidates:
    """The children of one cluster as the search scores them below a path of score ``above``."""
    one = np.array([[cluster]], np.int32), np.array([[above]], np.float32)
    width = int(weights.child_offsets[cluster + 1] - weights.child_offsets[cluster])
    nodes, scores = matching.next_beam(row, weights, one, width, combine)
    return nodes[0], scores[0]


def _shown(score: float, combine: str) -> float:
    """A path's score as ranking would give it: products are logarithms."""
    return float(score) if combine == "ranker" else float(np.exp(np.float32(score)))


def _steps(
    ranker: TreeRanker,
    row: Csr,
    leaf: int,
    searched: list[Candidates],
    beam: int,
    combines: Sequence[str],
    top: int,
    names: Names,
) -> list[Step]:
    steps: list[Step] = []
    depth, cluster, above, opened = ranker.tree.depth, 0, 0.0, True
    for layer, node in enumerate(ranker.tree.path(leaf)):
        weights, combine, candidates = ranker.layers[layer], combines[layer], searched[layer]
        siblings = _children(row, weights, cluster, above, combine)
        place = node_place(siblings[0], node)
        own = _score_of(_children(row, weights, cluster, 0.0, "ranker"), node)
        above = _score_of(siblings, node)
        beam_place = node_place(candidates[0], node) if opened else None
        last, full = layer == depth - 1, len(candidates[0]) > beam
        followed = opened and (last or (beam_place is not None and beam_place <= beam))
        steps.append(
            Step(
                layer=layer,
                node=node,
                title=node_title(ranker.tree, layer, node, names.label, names.counts),
                score=own,
                intercept=float(weights.intercepts[node]),
                so_far=_shown(above, combine),
                place=len(siblings[0]) if place is None else place,
                n_siblings=len(siblings[0]),
                opened=opened,
                beam_place=beam_place,
                n_candidates=len(candidates[0]) if opened else None,
                followed=followed,
                floor=_shown(candidates[1][beam - 1], combine) if opened and full and not last else None,
                **_weighed(row, weights, cluster, node, top, names),
            )
        )
        cluster, opened = node, followed
    return steps


def _score_of(candidates: Candidates, node: int) -> float:
    """A node's score; NaN when a damaged model gave it none."""
    place = node_place(candidates[0], node)
    return float("nan") if place is None else float(candidates[1][place - 1])


def _weighed(row: Csr, weights: ClusterWeights, cluster: int, node: int, top: int, names: Names) -> dict[str, Any]:
    """The strongest features for and against a node, how many there are, and the sum of the others."""
    try:
        rows = weights.cluster(cluster)
        mine = rows.children == node - int(weights.child_offsets[cluster])
        features = np.repeat(rows.features, rows.lengths)[mine]
    except (ValueError, IndexError) as error:
        raise ModelError(f"The weights of cluster {cluster} in this model are damaged: {error}.") from error
    at = np.searchsorted(row.indices, features)
    known = at < row.nnz
    known[known] = row.indices[at[known]] == features[known]
    return strongest_features(features[known], row.data[at[known]], rows.weights[mine][known], top, names)


def strongest_features(
    features: npt.NDArray[Any], values: npt.NDArray[Any], weights: npt.NDArray[Any], top: int, names: Names
) -> dict[str, Any]:
    """The ``top`` features a sign that add most to a score, as fields of a Step: the lower feature among equals."""
    parts = values.astype(np.float64) * weights
    order = np.lexsort((features, -np.abs(parts))).tolist()
    signs = [[i for i in order if sign * parts[i] > 0][:top] for sign in (1, -1)]
    listed = [
        tuple(WeighedFeature(int(features[i]), names.feature(int(features[i])), float(values[i]), float(weights[i]))
              for i in chosen) for chosen in signs
    ]  # fmt: skip
    rest = float(parts.sum() - sum(parts[i] for chosen in signs for i in chosen))
    more = len(parts) > sum(map(len, signs))
    return {"positive": listed[0], "negative": listed[1], "n_weighed": len(parts), "rest": rest if more else 0.0}
