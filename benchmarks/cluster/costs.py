"""What the parts of a training cost, as the simulation reads it from what ``rates.py`` measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cluster.on_paper import Shape

__all__ = ["INNER", "LAST", "Costs", "shape_of"]

LAST, INNER = 0.65, 0.5  # exponents of a node's weights by its positive rows, as sylvan.models.xr.estimate has them
BEAM = 10
Record = dict[str, Any]


@dataclass(frozen=True)
class Costs:
    """CPU seconds and bytes of the parts of a training.

    Attributes
    ----------
    aggregating : float
        Seconds for a feature value of a label's row: embeddings.
    embedding_power : float
        A label's embedding has as many values as its rows have, to this power.
    iterating, assigning, subtree : float
        Seconds for a value of an embedding: of the labels that a large halving iterates on, of those that it assigns,
        and of those that are halved to the end, a level.
    sorting, pairing : float
        Seconds for a label of a row and layer, and for a row of a cluster.
    cutting : float
        Seconds of the driver for a row of a cluster whose job is handed over.
    inner, last : float
        Seconds for a unit of a cluster's cost, in the last layer and above it.
    roots : tuple of (int, float)
        The same for the root, by its number of children.
    searching : float
        Seconds for a feature value of a row and node of the beam.
    laying_out : float
        Seconds for a weight.
    solved_bytes, laid_out_bytes : float
        Of a weight.
    inner_weights, last_weights : tuple of (float, float)
        Positive rows of a node, and its weights.
    beam : int
    """

    aggregating: float
    embedding_power: float
    iterating: float
    assigning: float
    subtree: float
    sorting: float
    pairing: float
    cutting: float
    inner: float
    last: float
    roots: tuple[tuple[int, float], ...]
    searching: float
    laying_out: float
    solved_bytes: float
    laid_out_bytes: float
    inner_weights: tuple[tuple[float, float], ...]
    last_weights: tuple[tuple[float, float], ...]
    beam: int = BEAM

    @classmethod
    def of(cls, rates: Record, setting: str) -> Costs:
        """From the measured rates of a training with these negatives, "tfn" or "tfn+man"."""
        run = rates["settings"][setting]
        layers, singles, clustering = run["layers"], run["singles"], rates["clustering"]
        upper, last, depth = layers[1:-1] or layers, layers[-1], len(layers)
        weights = sum(layer["weights"] for layer in layers)
        positives = [layer["pairs"] for layer in rates["settings"]["tfn"]["layers"][1:]]  # a search adds no positive
        beams = {t: seconds for t in range(depth) if (seconds := singles.get(f"layer{t}.beam"))}
        visited = sum(min(BEAM, layers[t]["clusters"]) for t in beams)
        values = clustering["values_a_label"] * clustering["labels"]
        return cls(
            aggregating=singles["embeddings"] / run["aggregated"],
            embedding_power=_power(shape_of(run), values),
            iterating=clustering["iterating"], assigning=clustering["assigning"], subtree=clustering["subtree"],
            sorting=singles["positives"] / (run["positives"] * depth),
            pairing=singles[f"layer{depth - 1}.rows"] / last["pairs"],
            cutting=rates["cutting"],
            inner=sum(layer["seconds"] for layer in upper) / sum(layer["cost"] for layer in upper),
            last=last["rate"],
            roots=tuple((root["children"], root["rate"]) for root in rates["root"]),
            searching=sum(beams.values()) / (run["entries"] * visited) if beams else 0.0,
            laying_out=singles["between"] / weights,
            solved_bytes=sum(layer["bytes_out"] for layer in layers) / weights,
            laid_out_bytes=sum(layer["bytes"] for layer in layers) / weights,
            inner_weights=tuple(
                (n / layer["nodes"], layer["weights"] / layer["nodes"])
                for n, layer in zip(positives, layers[:-1], strict=True)
            ),
            last_weights=((run["positives"] / last["nodes"], last["weights"] / last["nodes"]),),
        )  # fmt: skip

    def root(self, children: int) -> float:
        """Seconds for a unit of the root's cost, between the numbers of children that were measured."""
        numbers, rates = zip(*self.roots, strict=True)
        return float(np.interp(math.log(children), np.log(numbers), rates))

    def weights_of(self, positives: float, last: bool) -> float:
        """Weights of a node with so many positive rows."""
        known = self.last_weights if last else self.inner_weights
        near = min(known, key=lambda one: abs(math.log(one[0] / positives)))
        return float(near[1] * (positives / near[0]) ** (LAST if last else INNER))


def shape_of(run: Record) -> Shape:
    """The shape of a set by what was counted of it."""
    n = run["rows"]
    found = run["layers"][-1]["pairs"] / n if "layers" in run else Shape.found
    return Shape(n, run["labels"], run["columns"], run["positives"] / n, run["entries"] / n, found=found)


def _power(shape: Shape, values: float) -> float:
    """The power with which all labels' embeddings have so many values."""
    low, high = 0.1, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if shape.embedding_values(middle) < values else (low, middle)
    return high
