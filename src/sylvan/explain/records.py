"""What an explanation is made of, as plain records: weighed features, steps, paths, votes, examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

__all__ = ["Example", "Findings", "LeafPath", "Names", "Step", "TreeVote", "WeighedFeature", "excerpt"]


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
    followed : bool
        Whether the beam went on from here; in the last layer, whether it was reached.
    floor : float or None
        ``so_far`` of the last node that the beam follows, where it had to drop some.
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
    followed: bool
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
        return next((step.layer for step in self.steps if not step.followed), None)


@dataclass(frozen=True)
class TreeVote:
    """What one tree says of a label.

    Attributes
    ----------
    number : int
        Which tree, from 0.
    score : float
        Its score of the label, or the one it would give were the label reached; of several trees in [0, 1], as the
        mean takes them.
    reached : bool
        Whether the beam reaches the label in this tree.
    beam : int
        Nodes that the search followed per layer.
    enough : int or None
        A beam that would reach the label; None when it is reached.
    paths : tuple of LeafPath
        One a leaf of the label; the one that counts comes first.
    """

    number: int
    score: float
    reached: bool
    beam: int
    enough: int | None
    paths: tuple[LeafPath, ...]


@dataclass(frozen=True)
class Example:
    """A training row that has the label, and what it shares with the row explained.

    Attributes
    ----------
    row : int
        Counted from 0.
    similarity : float
        Cosine of the two rows' features.
    shared : tuple of str
        The features that make the similarity, the strongest first.
    excerpt : str or None
        Of a text model, how the text begins.
    """

    row: int
    similarity: float
    shared: tuple[str, ...]
    excerpt: str | None = None


@dataclass(frozen=True)
class Findings:
    """All that an :class:`~sylvan.explain.explanation.Explanation` says; its attributes are described there."""

    model: str
    label: int
    name: str
    place: int | None
    score: float | None
    n_labels: int
    n_features: int
    n_known: int
    trees: tuple[TreeVote, ...] = ()
    examples: tuple[Example, ...] = ()
    excerpt: str | None = None
    probability: float | None = None
    notes: tuple[str, ...] = ()
    code: str | None = None

    @property
    def title(self) -> str:
        """The label's name, and its code where it has one besides."""
        return self.name if self.code is None else f"{self.name} ({self.code})"


def excerpt(text: str, length: int = 200) -> str:
    """How a text begins, on one line."""
    words = " ".join(text[: 4 * length].split())
    cut = len(words) > length or len(text) > 4 * length
    return f"{words[: length - 1].rstrip()}…" if cut else words
