"""What an explanation is made of, as plain records: weighed features, steps, paths, votes, examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt


@dataclass(frozen=True)
class Names:
    """What features and labels are called, and how often training saw each label."""

    feature: Callable[[int], str] = "feature {}".format
    label: Callable[[int], str] = "label {}".format
    counts: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class WeighedFeature:
    """One feature of the row in one node's linear model."""

    feature: int
    name: str
    value: float  # in the row
    weight: float  # in the model of the node

    @property
    def contribution(self) -> float:
        """What it adds to the node's score: value times weight."""
        return self.value * self.weight


@dataclass(frozen=True)
class Step:
    """One node of a path."""

    layer: int  # from 0, the root's children
    node: int  # as in `LabelTree`
    title: str  # the node's most frequent labels
    score: float  # the node's own: the features' contributions and the intercept
    intercept: float
    so_far: float  # the score of the path down to here, as the beam compares it: with the product rules in [0, 1]
    place: int  # the node's, from 1, among the children of its parent, by `so_far`
    n_siblings: int
    opened: bool  # whether the beam reached the node's parent, so that the node was scored at all
    beam_place: int | None  # the node's place among all that were scored in this layer
    n_candidates: int | None  # how many these were
    followed: bool  # whether the beam went on from here; in the last layer, whether it was reached
    floor: float | None  # `so_far` of the last node that the beam follows, where it had to drop some
    positive: tuple[WeighedFeature, ...]  # those that weighed most, the strongest first
    negative: tuple[WeighedFeature, ...]
    n_weighed: int  # features of the row that the node's model has a weight for
    rest: float  # the sum of the contributions that are not listed


@dataclass(frozen=True)
class LeafPath:
    """The way from the root to one leaf of a label."""

    leaf: int
    steps: tuple[Step, ...]  # one a layer

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
        return next((step.layer for step in self.steps if not step.followed), None)


@dataclass(frozen=True)
class TreeVote:
    """What one tree says of a label."""

    number: int  # which tree, from 0
    # its score of the label, or the one it would give were the label reached; of several trees in [0, 1], as the mean
    # takes them
    score: float
    reached: bool  # whether the beam reaches the label in this tree
    beam: int  # nodes that the search followed per layer
    enough: int | None  # a beam that would reach the label; None when it is reached
    paths: tuple[LeafPath, ...]  # one a leaf of the label; the one that counts comes first


@dataclass(frozen=True)
class Example:
    """A training row that has the label, and what it shares with the row explained."""

    row: int  # counted from 0
    similarity: float  # cosine of the two rows' features
    shared: tuple[str, ...]  # the features that make the similarity, the strongest first
    excerpt: str | None = None  # of a text model, how the text begins


def excerpt(text: str, length: int = 200) -> str:
    """How a text begins, on one line."""
    words = " ".join(text[: 4 * length].split())
    cut = len(words) > length or len(text) > 4 * length
    return f"{words[: length - 1].rstrip()}…" if cut else words
