"""Overlapping clusters chosen by a trained matcher (Liu, Chang, Yu, Hsieh & Dhillon, NeurIPS 2021), phase by phase.

The paper, "Label Disentanglement in Partition-based Extreme Multilabel Classification", gives a label to the clusters
that its rows are sent to. With Y the rows' labels (n x L), M the clusters that the matcher sends each row to (n x K),
and C the clusters of each label (L x K), it looks for the C that finds the most true labels,

    max over C of the sum of Y * binary(M C^T),  each row of C with at most ``overlap`` ones,

and drops "binary", which leaves a sum of Y^T M over the ones of C: a label stands where its row of Y^T M is highest.
Everything here is made of parts of the library; ``benchmarks.linear.overlap`` measures whether it pays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import LabelTree, XRLinear
from sylvan.arrays import validate
from sylvan.models.xr.params import chosen_by_rows, layer_words

__all__ = ["assigned", "fit_overlapping", "label_sums", "matched", "matcher_of", "with_clusters"]

Ids = npt.NDArray[np.int64]


def fit_overlapping(
    model: XRLinear, X: Any, Y: sp.csr_matrix, overlap: int, max_leaf: int, *,
    scored: bool = False, keeps_home: bool = True, again: str = "last",
) -> XRLinear:  # fmt: skip
    """Train a matcher, assign the labels to its clusters, and train the rankers of these.

    Parameters
    ----------
    model : XRLinear
        What is trained; its ``max_leaf`` is that of the disjoint clusters, of which each row finds ``beam``.
    overlap, max_leaf : int
        The most clusters of a label, and the most labels of a cluster in the end.
    scored : bool
        Whether a row counts for a cluster by the matcher's score, or as 1.
    keeps_home : bool
        Whether every label stays in its cluster of the disjoint tree, or may leave it, as in the paper.
    again : {"last", "all"}
        Which layers are trained for the new clusters: the labels' rankers alone, or the matcher too.
    """
    (tree,) = model.index(X, Y)
    if tree.depth == 1:  # one cluster of all labels
        return XRLinear.fit(model.set_params(tree=tree), X, Y)
    matcher = matcher_of(model, tree, X, Y)
    sums = label_sums(Y, matched(matcher, X, model.beam, scored))
    clusters = assigned(sums, homes(tree), overlap, max_leaf, keeps_home)
    layers = dict(enumerate(matcher.layers_)) if again == "last" else None
    return XRLinear.fit(model.set_params(tree=with_clusters(tree, clusters)), X, Y, layers=layers)


def homes(tree: LabelTree) -> Ids:
    """The cluster of each label, in a tree of disjoint clusters."""
    home = np.empty(tree.n_labels, np.int64)
    home[tree.leaf_labels] = np.repeat(np.arange(len(tree.cluster_sizes)), tree.cluster_sizes)
    return home


def matcher_of(model: XRLinear, tree: LabelTree, X: Any, Y: sp.csr_matrix) -> XRLinear:
    """The layers of ``model`` above the last, trained as a model whose labels are the clusters.

    They are the layers that ``model`` itself would have, to the bit, where their negatives are by teacher forcing.
    """
    n_clusters = len(tree.cluster_sizes)
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    places = (np.ones(Y.nnz, np.float32), (rows, homes(tree)[Y.indices]))
    of_rows = sp.csr_matrix(places, (Y.shape[0], n_clusters))
    of_rows.data[:] = 1  # several labels of a row may stand in one cluster
    above = LabelTree(tree.child_offsets[:-1], np.arange(n_clusters, dtype=np.int32), n_clusters)
    words = {name: layer_words(model, name, tree.depth)[:-1] for name in ("negatives", "combine")}
    chosen = chosen_by_rows(model, validate.features(X), tree.depth)
    matcher = XRLinear(**{**model.get_params(deep=False), **words, **chosen, "tree": above, "calibration": None})
    return matcher.fit(X, of_rows)


def matched(matcher: XRLinear, X: Any, beam: int, scored: bool = False) -> sp.csr_matrix:
    """M: the ``beam`` best clusters of each row, as ones or as the matcher's scores; shape (n, K)."""
    top = matcher.rank(X, beam)
    found = top.labels >= 0
    values = top.scores[found] if scored else np.ones(int(found.sum()), np.float32)
    return sp.csr_matrix((values, (np.nonzero(found)[0], top.labels[found])), (len(top.labels), matcher.n_labels_))


def label_sums(Y: sp.csr_matrix, M: sp.csr_matrix) -> sp.csr_matrix:
    """Y^T M: of each label and cluster, how many of the label's rows find the cluster, or their scores; (L, K)."""
    sums = sp.csr_matrix(Y.T.tocsr() @ M)
    sums.eliminate_zeros()
    sums.sort_indices()
    return sums


def assigned(sums: sp.csr_matrix, home: Ids, overlap: int, max_leaf: int, keeps_home: bool = True) -> list[list[int]]:
    """The labels of each cluster: pairs of a label and a cluster are taken by their sum, the highest first.

    A label has at most ``overlap`` clusters and a cluster at most ``max_leaf`` labels; of equal sums the lower label,
    then the lower cluster comes first. Each label's first cluster is found before any second one: its home or, where it
    may leave that, the best one with room, and failing that its home or the one with the most room. So that no cluster
    is left empty, one label doesn't leave it: of those at home there the one with the highest sum.
    """
    n_labels, n_clusters = sums.shape
    pairs = sums.tocoo()
    order = np.lexsort((pairs.col, pairs.row, -pairs.data))
    wanted = list(zip(pairs.row[order].tolist(), pairs.col[order].tolist(), strict=True))
    clusters: list[list[int]] = [[] for _ in range(n_clusters)]
    of_label: list[list[int]] = [[] for _ in range(n_labels)]

    def take(label: int, cluster: int, most: int) -> None:
        if len(of_label[label]) < most and len(clusters[cluster]) < max_leaf and cluster not in of_label[label]:
            of_label[label].append(cluster)
            clusters[cluster].append(label)

    if not keeps_home:
        at_home = np.asarray(sums[np.arange(n_labels), home]).ravel()
        for label in np.lexsort((np.arange(n_labels), -at_home)).tolist():
            if not clusters[home[label]]:
                take(label, int(home[label]), 1)
        for label, cluster in wanted:
            take(label, cluster, 1)
    for label in range(n_labels):
        take(label, int(home[label]), 1)
        if not of_label[label]:
            take(label, min(range(n_clusters), key=lambda cluster: len(clusters[cluster])), 1)
    for label, cluster in wanted:
        take(label, cluster, overlap)
    return clusters


def with_clusters(tree: LabelTree, clusters: list[list[int]]) -> LabelTree:
    """The tree with other labels in its clusters; those that were neighbours stay it, and the new ones come last."""
    place = np.empty(tree.n_labels, np.int64)
    place[tree.leaf_labels] = np.arange(tree.n_labels)
    bounds = tree.child_offsets[-1]
    ordered = []
    for at, labels in enumerate(clusters):
        own, ids = (int(bounds[at]), int(bounds[at + 1])), np.array(labels, np.int32)
        new = (place[ids] < own[0]) | (place[ids] >= own[1])
        ordered.append(np.concatenate((ids[~new][np.argsort(place[ids[~new]])], ids[new])))
    ends = np.concatenate(([0], np.cumsum([len(ids) for ids in ordered]))).astype(np.int64)
    return LabelTree((*tree.child_offsets[:-1], ends), np.concatenate(ordered), tree.n_labels)
