"""Class training and beam search by plain loops in double precision, as the formulas are written."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sylvan import LabelTree
from sylvan.models.beam_tree.solver import ClassTraining

_MASK = 2**64 - 1
_STRIDE = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return z ^ (z >> 31)


def coins(seed: int, step: int) -> Iterator[float]:
    state = mix((mix(seed) + _STRIDE * (step + 1)) & _MASK)
    while True:
        state = (state + _STRIDE) & _MASK
        yield (mix(state) >> 11) / 2**53


def drawn(coin: float, q: np.ndarray | None, n_classes: int) -> int:
    """The class that a coin falls on."""
    if q is None:
        return int(coin * n_classes)
    sums = np.cumsum(q)
    return int(np.flatnonzero(sums > coin * sums[-1])[0])


def log_sum(values: list[float]) -> float:
    return float(np.logaddexp.reduce(values)) if values else -math.inf


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


@dataclass
class Selection:
    """What a step looks at, before any score counts: CANE's candidates, and the noises that were drawn."""

    candidates: list[int]
    noises: list[int]
    log_q: dict[int, float]


@dataclass
class ReferenceTraining:
    tree: LabelTree
    weights: np.ndarray  # (n_edges, n_features + 1), float64
    training: ClassTraining
    q: np.ndarray | None = None
    squares: np.ndarray | None = None
    own_scores: bool = False  # a class's score is its own edge's, not its path's sum
    gap: float = math.inf  # the least difference that decided whether a node is in a beam
    first: list[int] = field(init=False)
    paths: list[list[int]] = field(init=False)
    followed: list[list[int]] = field(init=False, default_factory=list)  # edges that the last search followed, by layer

    def __post_init__(self) -> None:
        sizes = self.tree.layer_sizes
        self.first = [sum(sizes[:layer]) for layer in range(len(sizes))]
        self.paths = [[] for _ in range(self.tree.n_labels)]
        for leaf, label in enumerate(self.tree.leaf_labels.tolist()):
            self.paths[label] = [first + node for first, node in zip(self.first, self.tree.path(leaf), strict=True)]

    def phi(self, x: np.ndarray) -> np.ndarray:
        return np.append(x.astype(np.float64), self.training.bias)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Eq. (9)."""
        edges = self.weights @ self.phi(x)
        return np.array([edges[path[-1]] if self.own_scores else edges[path].sum() for path in self.paths])

    def search(self, x: np.ndarray, beam: int, k: int, log_probabilities: bool = False) -> list[tuple[int, float]]:
        """Algorithm 3."""
        edges = self.weights @ self.phi(x)
        open_nodes, self.followed = [(0, 0.0)], []
        for layer, offsets in enumerate(self.tree.child_offsets):
            last = layer == self.tree.depth - 1
            found = []
            for node, score in open_nodes:
                children = range(offsets[node], offsets[node + 1])
                own = {child: float(edges[self.first[layer] + child]) for child in children}
                total = log_sum(list(own.values())) if log_probabilities else 0.0
                for child in children:
                    name = int(self.tree.leaf_labels[child]) if last else child
                    found.append((name, own[child] if self.own_scores else score + own[child] - total))
            found.sort(key=lambda item: (-item[1], item[0]))
            width = k if last else beam
            if len(found) > width:
                self.gap = min(self.gap, found[width - 1][1] - found[width][1])
            open_nodes = found[:width]
            if not last:
                self.followed.append([self.first[layer] + node for node, _ in open_nodes])
        return open_nodes

    def probability(self, label: int) -> float:
        return 1 / self.tree.n_labels if self.q is None else float(self.q[label])

    def select(self, x: np.ndarray, y: int, step: int) -> Selection:
        n_classes, training = self.tree.n_labels, self.training
        coin = coins(training.seed, step)
        if training.loss == "cane":
            width = min(training.n_candidates, n_classes)
            candidates = [label for label, _ in self.search(x, width, width)]
            rest = [label for label in range(n_classes) if label not in candidates]
            outside = sum(self.probability(label) for label in rest)
            n_noises = training.n_noises
            if y not in candidates:  # it takes the place of one, or of all
                n_noises = n_noises - 1 if training.together else 0
            noises = []
            if outside > 0:
                noises = [self.draw_outside(coin, candidates, rest, outside) for _ in range(n_noises)]
            shares = {label: self.probability(label) / outside if outside > 0 else 0.0 for label in rest}
        else:
            candidates = []
            noises = [drawn(next(coin), self.q, n_classes) for _ in range(training.n_noises)]
            shares = {label: self.probability(label) for label in range(n_classes)}
        log_q = {label: max(math.log(share), -80.0) if share > 0 else -80.0 for label, share in shares.items()}
        return Selection(candidates, noises, log_q)

    def draw_outside(self, coin: Iterator[float], candidates: list[int], rest: list[int], outside: float) -> int:
        for _ in range(64):
            label = drawn(next(coin), self.q, self.tree.n_labels)
            if label not in candidates:
                return label
        mark, total = next(coin) * outside, 0.0
        for label in rest:
            total += self.probability(label)
            if total > mark:
                return label
        return rest[-1]

    def stand_ins(self, y: int, chosen: Selection) -> list[int]:
        """Which classes stand for all that are no candidates; the row's own is among them unless it is a candidate."""
        return chosen.noises if y in chosen.candidates else [y, *chosen.noises]

    def loss(self, x: np.ndarray, y: int, chosen: Selection) -> float:
        """The loss of an example with what was selected."""
        s, q, n = self.scores(x), chosen.log_q, self.training.n_noises
        name = self.training.loss
        if name == "softmax":  # Eq. (1)
            return log_sum(list(s)) - s[y]
        if name == "cane":  # Eqs. (2) and (3)
            of_candidates = [s[k] for k in chosen.candidates]
            stand_ins = self.stand_ins(y, chosen)
            if not stand_ins:
                return log_sum(of_candidates) - s[y]
            if self.training.together:
                return log_sum([*of_candidates, *(s[j] - q[j] - math.log(len(stand_ins)) for j in stand_ins)]) - s[y]
            return float(np.mean([log_sum([*of_candidates, s[j] - q[j]]) for j in stand_ins])) - s[y]
        if name == "nce":
            logits = {j: s[j] - self.training.log_normalizer - math.log(n) - q[j] for j in {y, *chosen.noises}}
            return -math.log(sigmoid(logits[y])) - sum(math.log(sigmoid(-logits[j])) for j in chosen.noises)
        others = [j for j in chosen.noises if j != y]
        if name == "negative_sampling":
            return -math.log(sigmoid(s[y])) - sum(math.log(sigmoid(-s[j])) for j in others)
        if name == "blackout":
            logits = [s[j] - q[j] for j in [y, *others]]
            p = [math.exp(logit - log_sum(logits)) for logit in logits]
            return -math.log(p[0]) - sum(math.log1p(-value) for value in p[1:])
        edges, total = self.weights @ self.phi(x), 0.0  # hsm
        for layer, edge in enumerate(self.paths[y]):
            siblings = self.siblings(layer, edge)
            total += log_sum([edges[e] for e in siblings]) - edges[edge]
        return total

    def finding_loss(self, x: np.ndarray, y: int) -> float:
        """What trains the edges that only find classes: in each layer a softmax over those that were followed."""
        edges = self.weights @ self.phi(x)
        rivals = [(own, {own, *followed}) for own, followed in zip(self.paths[y], self.followed, strict=False)]
        return sum(log_sum([edges[e] for e in several]) - edges[own] for own, several in rivals if self.own_scores)

    def siblings(self, layer: int, edge: int) -> range:
        node = edge - self.first[layer]
        parent = int(self.tree.parents(layer)[node])
        offsets = self.tree.child_offsets[layer]
        return range(self.first[layer] + int(offsets[parent]), self.first[layer] + int(offsets[parent + 1]))

    def coefficients(self, x: np.ndarray, y: int, chosen: Selection) -> list[tuple[int, float]]:
        """Each selected class (a noise drawn twice stands twice) with the loss's derivative by its score."""
        s, q, n = self.scores(x), chosen.log_q, self.training.n_noises
        name = self.training.loss
        if name == "softmax":
            return [(k, math.exp(s[k] - log_sum(list(s))) - (k == y)) for k in range(len(s))]
        if name == "cane":  # Eqs. (7) and (8), with the sign of a loss
            stand_ins = self.stand_ins(y, chosen)
            of_candidates = [s[k] for k in chosen.candidates]
            if self.training.together:
                terms = [(k, s[k]) for k in chosen.candidates]
                terms += [(j, s[j] - q[j] - math.log(len(stand_ins))) for j in stand_ins]
                total = log_sum([term for _, term in terms])
                return [(y, -1.0), *((k, math.exp(term - total)) for k, term in terms)]
            result = [(y, -1.0)] if y in chosen.candidates else []
            for j in stand_ins:
                total = log_sum([*of_candidates, s[j] - q[j]])
                result += [(k, math.exp(s[k] - total) / len(stand_ins)) for k in chosen.candidates]
                result.append((j, math.exp(s[j] - q[j] - total) / len(stand_ins) - (j == y)))
            if not stand_ins:
                result += [(k, math.exp(s[k] - log_sum(of_candidates))) for k in chosen.candidates]
            return result
        if name == "nce":
            offset = self.training.log_normalizer + math.log(n)
            noise = [(j, sigmoid(s[j] - offset - q[j])) for j in chosen.noises]
            return [(y, -sigmoid(offset + q[y] - s[y])), *noise]
        others = [j for j in chosen.noises if j != y]
        if name == "negative_sampling":
            return [(y, -sigmoid(-s[y])), *((j, sigmoid(s[j])) for j in others)]
        classes = [y, *others]  # blackout
        p = np.exp(np.array([s[j] - q[j] for j in classes]) - log_sum([s[j] - q[j] for j in classes]))
        odds = np.append(0.0, p[1:] / (1 - p[1:]))
        return [(j, p[i] * (1 - odds.sum()) - (i == 0) + odds[i]) for i, j in enumerate(classes)]

    def edge_gradient(self, x: np.ndarray, y: int, chosen: Selection) -> dict[int, float]:
        """The coefficient of each edge that takes a step, Eqs. (10) and (11)."""
        result: dict[int, float] = {}
        if self.training.loss == "hsm":
            edges = self.weights @ self.phi(x)
            for layer, edge in enumerate(self.paths[y]):
                siblings = self.siblings(layer, edge)
                total = log_sum([edges[e] for e in siblings])
                if len(siblings) > 1:
                    result.update({e: math.exp(edges[e] - total) - (e == edge) for e in siblings})
            return result
        selected = self.coefficients(x, y, chosen)
        if self.own_scores:
            for label, coefficient in selected:
                result[self.paths[label][-1]] = result.get(self.paths[label][-1], 0.0) + coefficient
            edges = self.weights @ self.phi(x)  # the gradient of finding_loss
            for own, followed in zip(self.paths[y], self.followed, strict=False):
                rivals = sorted({own, *followed})
                total = log_sum([edges[e] for e in rivals])
                if len(rivals) > 1:
                    result.update({e: math.exp(edges[e] - total) - (e == own) for e in rivals})
            return result
        for label, coefficient in selected:
            for edge in self.paths[label]:
                result[edge] = result.get(edge, 0.0) + coefficient
        if self.training.loss in ("cane", "softmax", "blackout"):  # Proposition 1
            shared = set.intersection(*(set(self.paths[label]) for label, _ in selected))
            result = {edge: value for edge, value in result.items() if edge not in shared}
        return result

    def step(self, x: np.ndarray, y: int, step: int, weight: float = 1.0, rate: float = 1.0) -> tuple[float, bool]:
        """One step; the loss before it, and whether the class was among the candidates."""
        chosen = self.select(x, y, step)
        loss, training = self.loss(x, y, chosen), self.training
        phi, eta = self.phi(x), training.learning_rate * rate
        there = np.append(x != 0, False)
        for edge, coefficient in self.edge_gradient(x, y, chosen).items():
            gradient = weight * coefficient * phi + training.l2 * self.weights[edge] * there
            if self.squares is None:
                self.weights[edge] -= eta * gradient
            else:
                self.squares[edge] += gradient**2
                self.weights[edge] -= eta * gradient / (np.sqrt(self.squares[edge]) + 1e-10)
        return loss, y in chosen.candidates
