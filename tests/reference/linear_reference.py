"""Algorithm 2 of PECOS as it stands in the paper, dense, in float64, one obvious loop after another.

There are two readings of the combiner (Eq. 13 over the layers of Algorithm 2). In the product along the path each
layer's exp(-max(0, 1 - h)^p) multiplies the score of its parent; "nested" puts that score through the hinge again.

Everything fast in Sylvan that ranks or trains linear models has its slow reference implementation here. Nothing here
imports Sylvan: a tree is its ``child_offsets`` (a list of arrays, one a layer) and ``leaf_labels``.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

Array = np.ndarray
Tree = tuple[Sequence[Array], Array]  # child_offsets, leaf_labels


def children(child_offsets: Array, node: int) -> range:
    return range(int(child_offsets[node]), int(child_offsets[node + 1]))


def parent_of(child_offsets: Array) -> Array:
    """The parent of every node of a layer."""
    return np.repeat(np.arange(len(child_offsets) - 1), np.diff(child_offsets))


# ----------------------------------------------------------------------- matching, ranking

# What a ranker's value h adds to a path's score, in logarithms: the scores of a path are multiplied.
TRANSFORMS: dict[str, Callable[[float], float]] = {
    "l1_hinge": lambda h: -max(1.0 - h, 0.0),
    "l2_hinge": lambda h: -(max(1.0 - h, 0.0) ** 2),
    "l3_hinge": lambda h: -(max(1.0 - h, 0.0) ** 3),  # Eq. 13 with p = 3
    "l4_hinge": lambda h: -(max(1.0 - h, 0.0) ** 4),
    "sigmoid": lambda h: -math.log1p(math.exp(-h)) if h > -700 else h,
}


@dataclass
class Ranking:
    """One row's answer: labels best first, their scores, and how close the closest decision was."""

    labels: list[int]
    scores: list[float]
    margin: float  # least difference, in float64 score, between something selected and something dropped
    reached: list[list[int]]  # for each layer, the clusters whose children were scored


def rank_row(
    x: Array,
    weights: Sequence[Array],
    intercepts: Sequence[Array],
    tree: Tree,
    *,
    beam: int,
    k: int,
    combine: str,
    allowed: set[int] | None = None,
) -> Ranking:
    """The k best labels of one row by beam search (Section 2.5 and Algorithm 2).

    weights[t] is (d, nodes of layer t) and intercepts[t] (nodes of layer t). With ``combine="ranker"`` a
    node's score is its own ranker's (Eq. 12); otherwise it is its parent's score times the transform of its
    own ranker's (``"l3_hinge:0.25"``: its parent's to the power of 0.25). Equal scores go to the lower node,
    and in the end to the lower label; of a label's leaves the best counts. With ``allowed`` there are no
    other labels, nor nodes without one of them below.
    """
    child_offsets, leaf_labels = tree
    open_nodes = with_allowed_below(tree, set(map(int, leaf_labels)) if allowed is None else allowed)
    beam_scores = {0: 0.0}  # the root; in logarithms f(0) = 1 is 0
    margin, reached = math.inf, []
    for layer, offsets in enumerate(child_offsets):
        reached.append(sorted(beam_scores))
        scored: dict[int, float] = {}
        for cluster, cluster_score in beam_scores.items():
            for node in children(offsets, cluster):
                if node not in open_nodes[layer]:
                    continue
                h = float(x @ weights[layer][:, node] + intercepts[layer][node])
                scored[node] = combined(h, cluster_score, combine)
        if layer < len(child_offsets) - 1:
            beam_scores, close = best(scored, beam)
            margin = min(margin, close)
    by_label: dict[int, float] = {}
    for leaf, score in scored.items():
        label = int(leaf_labels[leaf])
        by_label[label] = max(score, by_label.get(label, -math.inf))
    top, close = best(by_label, k)
    ordered = sorted(top.items(), key=lambda item: (-item[1], item[0]))
    shown = [score if combine == "ranker" else math.exp(score) for _, score in ordered]
    return Ranking([label for label, _ in ordered], shown, min(margin, close), reached)


def combined(h: float, above: float, combine: str) -> float:
    """A node's score from its own ranker's and its parent's, whose weight may stand behind a colon."""
    name, _, weight = combine.partition(":")
    if weight == "nested":  # sigma(g, h) = exp(-max(1 - g, 0)^p) exp(-max(1 - h, 0)^p), where g is f of the layer above
        return TRANSFORMS[name](math.exp(above)) + TRANSFORMS[name](h)
    return h if name == "ranker" else float(weight or 1) * above + TRANSFORMS[name](h)


def with_allowed_below(tree: Tree, allowed: set[int]) -> list[set[int]]:
    """The nodes of each layer that are leaves of an allowed label or stand above one."""
    child_offsets, leaf_labels = tree
    layers = [{leaf for leaf, label in enumerate(leaf_labels) if int(label) in allowed}]
    for offsets in reversed(child_offsets[1:]):
        layers.insert(0, {node for node in range(len(offsets) - 1) if layers[0] & set(children(offsets, node))})
    return layers


def best(scores: dict[int, float], n: int) -> tuple[dict[int, float], float]:
    """The n best entries, equal scores to the lower key, and how far the first dropped lies below them."""
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    close = ordered[n - 1][1] - ordered[n][1] if len(ordered) > n else math.inf
    return dict(ordered[:n]), close


def rank_everything(
    x: Array, weights: Sequence[Array], intercepts: Sequence[Array], tree: Tree, *, combine: str
) -> dict[int, float]:
    """Every label's score without any beam: the product along each leaf's path, a label's best leaf."""
    child_offsets, leaf_labels = tree
    scores = np.zeros(1)
    for layer, offsets in enumerate(child_offsets):
        h = x @ weights[layer] + intercepts[layer]
        above = scores[parent_of(offsets)]
        scores = np.array([combined(*pair, combine) for pair in zip(h.tolist(), above.tolist(), strict=True)])
    result: dict[int, float] = {}
    for leaf, label in enumerate(leaf_labels):
        score = float(scores[leaf]) if combine == "ranker" else math.exp(scores[leaf])
        result[int(label)] = max(score, result.get(int(label), -math.inf))
    return result


# -------------------------------------------------------------------------------- training


def relevances(Y: Array, tree: Tree) -> list[Array]:
    """R(t) of every layer: the highest relevance of a row's labels below each node. Shapes (n, nodes of the layer)."""
    child_offsets, leaf_labels = tree
    layers = [Y[:, leaf_labels].astype(float)]
    for offsets in reversed(child_offsets[1:]):
        below = [layers[0][:, children(offsets, node)] for node in range(len(offsets) - 1)]
        layers.insert(0, np.stack([each.max(axis=1) for each in below], axis=1))
    return layers


def truth(Y: Array, tree: Tree) -> list[Array]:
    """Y(t) of every layer: which nodes hold one of a row's labels. Shapes (n, nodes of the layer), 0 or 1."""
    child_offsets, leaf_labels = tree
    layers = [(Y[:, leaf_labels] > 0).astype(float)]
    for offsets in reversed(child_offsets[1:]):
        C = np.zeros((int(offsets[-1]), len(offsets) - 1))
        C[np.arange(int(offsets[-1])), parent_of(offsets)] = 1
        layers.insert(0, (layers[0] @ C > 0).astype(float))
    return layers


def cluster_rows(
    Y: Array, tree: Tree, layer: int, negatives: str, reached: Sequence[Sequence[int]] | None = None
) -> list[list[int]]:
    """The rows that each cluster of a layer is trained on (Section 2.3.1).

    tfn: rows with a positive label in the cluster. man: rows whose beam reached the cluster, given in
    ``reached`` as one list of clusters a row. tfn+man: rows of either.
    """
    child_offsets = tree[0][layer]
    layer_truth = truth(Y, tree)[layer]
    rows: list[list[int]] = []
    for cluster in range(len(child_offsets) - 1):
        members = list(children(child_offsets, cluster))
        positive = {i for i in range(len(Y)) if layer_truth[i, members].any()}
        matched = {i for i in range(len(Y)) if reached is not None and cluster in reached[i]}
        chosen = {"tfn": positive, "man": matched, "tfn+man": positive | matched}[negatives]
        rows.append(sorted(chosen))
    return rows


@dataclass
class Problem:
    """One binary problem: min over w of 1/2 w·w + Σ_i c_i loss(y_i w·x_i), the bias a feature of its own."""

    X: Array  # (n, d)
    y: Array  # (n,) of -1 and +1
    cost: Array  # (n,) c_i
    loss: str
    bias: float = 1.0

    @property
    def rows(self) -> Array:
        constant = np.full((len(self.X), 1), self.bias)
        return np.hstack([self.X, constant])

    def objective(self, w: Array, intercept: float) -> float:
        """The primal objective; ``intercept`` is what a score has added: the bias times its weight."""
        bias_weight = intercept / self.bias if self.bias else 0.0
        margins = self.y * (self.X @ w + intercept)
        if self.loss == "logistic":
            losses = np.logaddexp(0, -margins)
        else:
            losses = np.maximum(0, 1 - margins) ** (2 if self.loss == "squared_hinge" else 1)
        return float(0.5 * w @ w + 0.5 * bias_weight**2 + self.cost @ losses)


def solve(problem: Problem) -> tuple[Array, float]:
    """The minimiser (w, intercept), found slowly and exactly."""
    solver = {"squared_hinge": _solve_smooth, "logistic": _solve_smooth, "hinge": _solve_hinge}
    full = solver[problem.loss](problem)
    return full[:-1], float(full[-1] * problem.bias)


def _solve_smooth(problem: Problem) -> Array:
    Z = problem.rows * problem.y[:, None]

    def value_and_gradient(w: Array) -> tuple[float, Array]:
        margins = Z @ w
        if problem.loss == "logistic":
            losses, slopes = np.logaddexp(0, -margins), -1 / (1 + np.exp(np.clip(margins, -500, 500)))
        else:
            short = np.maximum(0, 1 - margins)
            losses, slopes = short**2, -2 * short
        return 0.5 * w @ w + problem.cost @ losses, w + Z.T @ (problem.cost * slopes)

    start = np.zeros(Z.shape[1])
    found = minimize(
        value_and_gradient, start, jac=True, method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    return np.asarray(found.x)


def _solve_hinge(problem: Problem) -> Array:
    """Dual coordinate descent, one coordinate at a time until nothing moves."""
    Z = problem.rows * problem.y[:, None]
    alpha, w = np.zeros(len(Z)), np.zeros(Z.shape[1])
    squares = (Z**2).sum(axis=1)
    for _ in range(20000):
        moved = 0.0
        for i in range(len(Z)):
            if squares[i] == 0:
                continue
            step = np.clip(alpha[i] - (Z[i] @ w - 1) / squares[i], 0, problem.cost[i]) - alpha[i]
            alpha[i] += step
            w += step * Z[i]
            moved = max(moved, abs(step) * math.sqrt(squares[i]))
        if moved < 1e-10:
            break
    return w


@dataclass
class Model:
    """Dense weights of every layer."""

    weights: list[Array]
    intercepts: list[Array]
    tree: Tree
    combine: str
    beam: int
    closest: float = math.inf  # least difference between a cluster's score and the one from which it counts

    def rank(self, x: Array, k: int, beam: int | None = None) -> Ranking:
        return rank_row(x, self.weights, self.intercepts, self.tree, beam=beam or self.beam, k=k, combine=self.combine)


def train(
    X: Array,
    Y: Array,
    tree: Tree,
    *,
    negatives: str = "tfn",
    loss: str = "squared_hinge",
    cost: float = 1.0,
    positive_cost: float = 1.0,
    negative_cost: float = 1.0,
    bias: float = 1.0,
    beam: int = 10,
    combine: str = "l3_hinge",
    sample_weight: Array | None = None,
    unreached: float = 0.0,
    man_threshold: float = 0.0,
) -> Model:
    """Algorithm 2: layer by layer, each ranker on the rows that its negatives choose.

    The rankers of a cluster without rows have no weights and the intercept ``unreached``: 0 minimises Eq. 10, and -1
    is what Sylvan gives them (docs/background). Of the clusters that a row's beam reached, its matcher-aware
    negatives are those whose score is at least ``man_threshold`` of the best one's; the paper takes all. Values of Y
    are relevances, which multiply the costs of positives.
    """
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    relevance = relevances(Y, tree)
    model = Model([], [], tree, combine, beam)
    for layer, (offsets, layer_truth) in enumerate(zip(tree[0], truth(Y, tree), strict=True)):
        reached = [_reached(model, x, layer, man_threshold) for x in X]
        rows_of = cluster_rows(Y, tree, layer, negatives, reached)
        W, b = np.zeros((X.shape[1], int(offsets[-1]))), np.full(int(offsets[-1]), unreached)
        for cluster, rows in enumerate(rows_of):
            for node in children(offsets, cluster):
                if rows:
                    positive = layer_truth[rows, node] > 0
                    costs = cost * np.where(positive, positive_cost, negative_cost) * weight[rows]
                    costs = costs * np.where(positive, relevance[layer][rows, node], 1.0)
                    problem = Problem(X[rows], np.where(positive, 1.0, -1.0), costs, loss, bias)
                    W[:, node], b[node] = solve(problem)
        model.weights.append(W)
        model.intercepts.append(b)
    return model


def _reached(model: Model, x: Array, layer: int, man_threshold: float) -> list[int]:
    """The clusters of a layer that the beam of the layers above it keeps, if near enough to the best: its matcher."""
    if layer == 0:
        return [0]
    above: Tree = (model.tree[0][:layer], np.arange(int(model.tree[0][layer - 1][-1])))
    answer = rank_row(x, model.weights, model.intercepts, above, beam=model.beam, k=model.beam, combine=model.combine)
    if model.combine == "ranker":  # scores that aren't shares of anything
        return answer.labels
    least = man_threshold * answer.scores[0]
    model.closest = min([model.closest, *(abs(score - least) for score in answer.scores[1:])])
    return [cluster for cluster, score in zip(answer.labels, answer.scores, strict=True) if score >= least]


def cosines(X: Array, Q: Array) -> Array:
    """The cosine of every query with every row, 0 where either is empty: (n queries, n rows)."""

    def unit(rows: Array) -> Array:
        lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
        return np.asarray(np.divide(rows, lengths, out=np.zeros(rows.shape), where=lengths > 0))

    return unit(Q) @ unit(X).T


def votes(similarities: Array, Y: Array, n_neighbors: int, power: float, sample_weight: Array | None = None) -> Array:
    """The share of the votes that each label gets from the nearest rows of a positive cosine: (n queries, L)."""
    shares = np.zeros((len(similarities), Y.shape[1]))
    for q, row in enumerate(similarities):
        nearest = [i for i in np.argsort(-row, kind="stable")[:n_neighbors] if row[i] > 0]
        weights = row[nearest] ** power * (1 if sample_weight is None else sample_weight[nearest])
        if len(nearest):
            shares[q] = weights @ (Y[nearest] / Y.max()) / weights.sum()
    return shares


def weighed(scores: Array, k: int) -> list[list[tuple[int, float]]]:
    """For each row of dense scores (nan: no candidate) the k best labels with their scores, lower label first."""
    found = []
    for row in scores:
        candidates = [(label, float(score)) for label, score in enumerate(row) if not math.isnan(score)]
        found.append(sorted(candidates, key=lambda pair: (-pair[1], pair[0]))[:k])
    return found


def best_macro(probabilities: Array, k: int, measure: str) -> float:
    """The greatest sum over labels that any answers of k labels a row reach in expectation, by trying them all."""
    n_labels = probabilities.shape[1]
    true = probabilities.sum(axis=0)
    choices = list(itertools.combinations(range(n_labels), k))
    best = -math.inf
    for answers in itertools.product(choices, repeat=len(probabilities)):
        right, named = np.zeros(n_labels), np.zeros(n_labels)
        for row, labels in zip(probabilities, answers, strict=True):
            right[list(labels)] += row[list(labels)]
            named[list(labels)] += 1
        over = {"precision": named, "recall": true, "f1": (named + true) / 2}[measure]
        best = max(best, float(sum(r / o for r, o in zip(right, over, strict=True) if o > 0)))
    return best
