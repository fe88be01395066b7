"""Why a tree ranks a label where it does: the path to it, how the beam treated it, and the features that weighed most.

Scores come from the same kernels that ranking uses, so that they are those of the ranking; what each feature added is
computed from the stored weights, and adds up to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError
from sylvan.indexing.naming import node_title
from sylvan.matching import beam as matching
from sylvan.ranking.tree_ranker import TreeRanker
from sylvan.validate import Csr
from sylvan.weights import ClusterWeights

__all__ = ["LeafPath", "Names", "Step", "WeighedFeature", "beam_that_reaches", "explain_paths"]


@dataclass(frozen=True)
class Names:
    """What features and labels are called, and how often training saw each label."""

    feature: Callable[[int], str] = "feature {}".format
    label: Callable[[int], str] = "label {}".format
    counts: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class WeighedFeature:
    """One feature of the row in one node's linear model.

    Attributes
    ----------
    feature : int
    name : str
    value : float
        In the row.
    weight : float
        In the model of the node.
    """

    feature: int
    name: str
    value: float
    weight: float

    @property
    def contribution(self) -> float:
        """What it adds to the node's score: value times weight."""
        return self.value * self.weight


@dataclass(frozen=True)
class Step:
    """One node of a path.

    Attributes
    ----------
    layer, node : int
        Layers count from 0, the root's children; nodes as in :class:`~sylvan.LabelTree`.
    title : str
        The node's most frequent labels.
    score, intercept : float
        The node's own score: the features' contributions and the intercept.
    so_far : float
        The score of the path down to here, as the beam compares it: with the product rules in [0, 1].
    place, n_siblings : int
        The node's place, from 1, among the children of its parent, by ``so_far``.
    opened : bool
        Whether the beam reached the node's parent, so that the node was scored at all.
    beam_place, n_candidates : int or None
        The node's place among all that were scored in this layer, and how many they were.
    kept : bool
        Whether the beam went on from here; in the last layer, whether it was reached.
    floor : float or None
        ``so_far`` of the last node that the beam kept, where it had to leave some out.
    positive, negative : tuple of WeighedFeature
        Those that weighed most, the strongest first.
    n_weighed : int
        Features of the row that the node's model has a weight for.
    rest : float
        The sum of the contributions that are not listed.
    """

    layer: int
    node: int
    title: str
    score: float
    intercept: float
    so_far: float
    place: int
    n_siblings: int
    opened: bool
    beam_place: int | None
    n_candidates: int | None
    kept: bool
    floor: float | None
    positive: tuple[WeighedFeature, ...]
    negative: tuple[WeighedFeature, ...]
    n_weighed: int
    rest: float


@dataclass(frozen=True)
class LeafPath:
    """The way from the root to one leaf of a label.

    Attributes
    ----------
    leaf : int
    steps : tuple of Step
        One a layer.
    """

    leaf: int
    steps: tuple[Step, ...]

    @property
    def score(self) -> float:
        """What ranking gives the leaf when the beam reaches it."""
        return self.steps[-1].so_far

    @property
    def reached(self) -> bool:
        """Whether the beam reaches the leaf."""
        return self.steps[-1].opened

    @property
    def lost_at(self) -> int | None:
        """The layer in which the path fell out of the beam; None when the leaf is reached."""
        return next((step.layer for step in self.steps if not step.kept), None)


Candidates = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]


def explain_paths(
    ranker: TreeRanker, row: Csr, label: int, *, beam: int, combines: Sequence[str], top: int, names: Names
) -> tuple[LeafPath, ...]:
    """The paths to all leaves of ``label``: those that the beam reaches first, then by score.

    Parameters
    ----------
    ranker : TreeRanker
    row : Csr of shape (1, n_features)
    label : int
    beam : int
        Nodes followed per layer.
    combines : sequence of str
        How each layer's scores join those above.
    top : int
        Features listed per step and sign.
    names : Names

    Raises
    ------
    ModelError
        When the weights of a loaded model are inconsistent.
    """
    searched = _search(ranker, row, beam, combines)
    found = [
        LeafPath(leaf, tuple(_steps(ranker, row, leaf, searched, beam, combines, top, names)))
        for leaf in np.flatnonzero(ranker.tree.leaf_labels == label).tolist()
    ]
    return tuple(sorted(found, key=lambda path: (not path.reached, -path.score)))


def beam_that_reaches(ranker: TreeRanker, row: Csr, path: LeafPath, combines: Sequence[str]) -> int:
    """A beam that is wide enough to reach the leaf: the path's worst place when every node of a layer competes."""
    inner = ranker.tree.depth - 1
    everything = _search(ranker, row, max(ranker.tree.layer_sizes), combines, inner)
    places = [_place(candidates, step.node) for candidates, step in zip(everything, path.steps, strict=False)]
    return max((place for place in places if place is not None), default=1)


def _search(
    ranker: TreeRanker, row: Csr, beam: int, combines: Sequence[str], n_layers: int | None = None
) -> list[Candidates]:
    """All nodes that a beam search scores in each layer, best first, with the paths' scores."""
    above = matching.root_beam(1)
    found: list[Candidates] = []
    for weights, combine in zip(ranker.layers[:n_layers], combines, strict=False):
        offsets = weights.child_offsets
        width = int((offsets[above[0][0] + 1] - offsets[above[0][0]]).sum())
        nodes, scores = matching.next_beam(row, weights, above, width, combine)
        n = int(np.count_nonzero(nodes[0] >= 0))
        found.append((nodes[0, :n], scores[0, :n]))
        kept = min(n, beam)
        if not kept:  # scores that are no numbers, in a damaged model
            found.extend([(nodes[0, :0], scores[0, :0])] * (len(combines) - len(found)))
            break
        above = np.ascontiguousarray(nodes[:, :kept]), np.ascontiguousarray(scores[:, :kept])
    return found


def _place(candidates: Candidates, node: int) -> int | None:
    """The place of a node, from 1."""
    at = np.flatnonzero(candidates[0] == node)
    return int(at[0]) + 1 if len(at) else None


def _children(row: Csr, weights: ClusterWeights, cluster: int, above: float, combine: str) -> Candidates:
    """The children of one cluster as the search scores them below a path of score ``above``."""
    one = np.array([[cluster]], np.int32), np.array([[above]], np.float32)
    width = int(weights.child_offsets[cluster + 1] - weights.child_offsets[cluster])
    nodes, scores = matching.next_beam(row, weights, one, width, combine)
    return nodes[0], scores[0]


def _shown(score: float, combine: str) -> float:
    """A path's score as ranking would give it: products are kept as logarithms."""
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
        place = _place(siblings, node)
        own = _score_of(_children(row, weights, cluster, 0.0, "ranker"), node)
        above = _score_of(siblings, node)
        beam_place = _place(candidates, node) if opened else None
        last, full = layer == depth - 1, len(candidates[0]) > beam
        kept = opened and (last or (beam_place is not None and beam_place <= beam))
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
                kept=kept,
                floor=_shown(candidates[1][beam - 1], combine) if opened and full and not last else None,
                **_weighed(row, weights, cluster, node, top, names),
            )
        )
        cluster, opened = node, kept
    return steps


def _score_of(candidates: Candidates, node: int) -> float:
    """A node's score; NaN when a damaged model gave it none."""
    place = _place(candidates, node)
    return float("nan") if place is None else float(candidates[1][place - 1])


def _weighed(
    row: Csr, weights: ClusterWeights, cluster: int, node: int, top: int, names: Names
) -> dict[str, Any]:
    """The strongest features for and against a node, how many there are, and the sum of those left out."""
    try:
        rows = weights.cluster(cluster)
        mine = rows.children == node - int(weights.child_offsets[cluster])
        features = np.repeat(rows.features, rows.lengths)[mine]
    except (ValueError, IndexError) as error:
        raise ModelError(f"The weights of cluster {cluster} in this model are damaged: {error}.") from error
    at = np.searchsorted(row.indices, features)
    found = at < row.nnz
    found[found] = row.indices[at[found]] == features[found]
    features, values, own = features[found], row.data[at[found]].astype(np.float64), rows.weights[mine][found]
    parts = values * own
    # By magnitude; among equals the lower feature, so that the list is the same every time.
    order = np.lexsort((features, -np.abs(parts)))
    signs = [[i for i in order.tolist() if sign * parts[i] > 0][:top] for sign in (1, -1)]
    listed = [
        tuple(WeighedFeature(int(features[i]), names.feature(int(features[i])), float(values[i]), float(own[i]))
              for i in chosen) for chosen in signs
    ]  # fmt: skip
    rest = float(parts.sum() - sum(parts[i] for chosen in signs for i in chosen))
    left_out = len(parts) > sum(map(len, signs))
    return {
        "positive": listed[0], "negative": listed[1], "n_weighed": len(parts), "rest": rest if left_out else 0.0,
    }  # fmt: skip
