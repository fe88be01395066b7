"""BeamTreeHead's slow reference implementation: trees of any shape, paths, scores and beam search a node at a time."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sylvan import LabelTree
from sylvan.sampling import BeamTreeHead

DIM, BATCH = 4, 12


def uneven_tree(n_classes: int, depth: int, seed: int) -> LabelTree:
    """Any tree with each class in one leaf: single children and wide nodes among it."""
    rng = np.random.default_rng(seed)
    sizes = [*np.sort(rng.integers(1, n_classes + 1, depth - 1)).tolist(), n_classes]
    offsets, parents = [], 1
    for size in sizes:
        cuts = np.sort(rng.choice(np.arange(1, size), parents - 1, replace=False)) if parents > 1 else []
        offsets.append(np.concatenate(([0], cuts, [size])).astype(np.int64))
        parents = size
    return LabelTree(tuple(offsets), rng.permutation(n_classes), n_classes)


def made(tree: LabelTree, *, dtype: torch.dtype = torch.float64, seed: int = 0, **more: Any) -> BeamTreeHead:
    head = BeamTreeHead(DIM, tree, **more).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=dtype))
    return head


def batch(n_classes: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(BATCH, DIM, generator=generator, dtype=dtype)
    return features, torch.randint(n_classes, (BATCH,), generator=generator)


def path(tree: LabelTree, c: int) -> list[int]:
    """Edge numbers from the root to a class."""
    leaf = tree.leaf_labels.tolist().index(c)
    first = np.concatenate(([0], np.cumsum(tree.layer_sizes)))
    return [int(first[layer]) + node for layer, node in enumerate(tree.path(leaf))]


def edge_scores(head: BeamTreeHead, x: Tensor) -> list[float]:
    scores = head.edge_weights.detach().double() @ x.double()
    return (scores if head.edge_biases is None else scores + head.edge_biases.detach().double()).tolist()


def searched(head: BeamTreeHead, x: Tensor, beam: int, k: int) -> list[int]:
    """Algorithm 3 for one query, a node at a time."""
    tree, edges, first = head.tree, edge_scores(head, x), 0
    front = [(0.0, 0)]
    for layer, offsets in enumerate(tree.child_offsets):
        below = [
            (score + edges[first + child], child) for score, node in front for child in range(*offsets[node : node + 2])
        ]
        front = sorted(below, key=lambda found: -found[0])[: k if layer == tree.depth - 1 else beam]
        first += int(offsets[-1])
    return [int(tree.leaf_labels[leaf]) for _, leaf in front]
