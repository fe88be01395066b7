"""Explanation: why a model gives a label to a row, as plain records, as text, as a page and as a file."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape as _escape
from typing import Any

import numpy.typing as npt

from sylvan.data.streams import check_ending, open_write
from sylvan.params.wording import counted


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


def number(value: float) -> str:
    """A score in four digits; small ones keep theirs."""
    return f"{value:.4f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def printable(text: str) -> str:
    """Text on one line, without what would move a terminal's cursor or change its colours, unlike the two joiners."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else "�" for c in " ".join(text.split()))


def verdict(result: Explanation) -> str:
    """The answer in one sentence."""
    if result.place is not None and result.score is not None:
        likely = "" if result.probability is None else f", probability {number(result.probability)}"
        return f"place {result.place:,} of {counted(result.n_labels, 'label')}, score {number(result.score)}{likely}"
    return "not among the answers: the search doesn't reach it"


def remarks(result: Explanation) -> tuple[str, ...]:
    """What else there is to say, as sentences."""
    if result.n_known:
        return result.notes
    unknown = "The row has no feature that the model knows"
    return (f"{unknown}: only the intercepts speak." if result.trees else f"{unknown}.", *result.notes)


def tree_words(vote: TreeVote) -> str:
    """Whether the search reached the label in a tree, where it lost it, and by how much."""
    best = vote.paths[0]
    copies = f", the best of {counted(len(vote.paths), 'place')}" if len(vote.paths) > 1 else ""
    if best.lost_at is None:
        return f"Reached with a beam of {vote.beam}{copies}; score {number(vote.score)}."
    step = best.steps[best.lost_at]
    place = "no place" if step.beam_place is None else f"place {step.beam_place:,}"
    floor = "" if step.floor is None else f", where the last of the beam's {vote.beam} has {number(step.floor)}"
    return (
        f"Not reached with a beam of {vote.beam}{copies}: in layer {step.layer + 1} its path comes to {place} of "
        f"{step.n_candidates or 0:,} with {number(step.so_far)}{floor}. A beam of {vote.enough:,} would reach it, and "
        f"its score would be {number(vote.score)}."
    )


def step_words(step: Step) -> str:
    """Score and place of one node."""
    words = f"own score {number(step.score)}, so far {number(step.so_far)}; place {step.place:,} of "
    words += f"{step.n_siblings:,} among its siblings"
    if step.beam_place is not None and step.n_candidates != step.n_siblings:
        words += f", {step.beam_place:,} of {step.n_candidates:,} scored in this layer"
    if not step.opened:
        return f"{words}; never scored, as its parent was not reached"
    return words if step.followed else f"{words}; dropped by the beam"


def example_words(example: Example) -> str:
    """Row and similarity."""
    return f"row {example.row:,}, similarity {number(example.similarity)}"


def _terms(step: Step) -> Iterator[tuple[float, str, str]]:
    """What adds up to a node's own score: amounts, their names, and products that they are."""
    listed = (*step.positive, *step.negative)
    for feature in listed:
        yield feature.contribution, feature.name, f"{number(feature.value)} × {number(feature.weight)}"
    if step.n_weighed > len(listed):
        yield step.rest, f"{step.n_weighed - len(listed):,} more", ""
    yield step.intercept, "intercept", ""


def _lines(result: Explanation) -> Iterator[str]:
    yield f"{printable(result.title)}: {verdict(result)}"
    if result.excerpt is not None:
        yield f"Text: {printable(result.excerpt)}"
    yield from remarks(result)
    for vote in result.trees:
        yield ""
        title = f"Tree {vote.number + 1}. " if len(result.trees) > 1 else ""
        yield f"{title}{tree_words(vote)}"
        for step in vote.paths[0].steps:
            yield f"  {step.layer + 1}. {printable(step.title)}"
            yield f"     {step_words(step)}"
            for value, name, product in _terms(step):
                yield f"       {value:+8.4f}  {printable(name)}" + (f"  ({product})" if product else "")
    if result.examples:
        yield ""
        yield "Nearest training rows with this label:"
        for example in result.examples:
            yield f"  {example_words(example)}: {', '.join(map(printable, example.shared))}"
            if example.excerpt is not None:
                yield f"    {printable(example.excerpt)}"


def escape(text: str) -> str:
    """Text as it may stand anywhere in the page; characters that no page may hold are replaced."""
    return _escape(printable(text), quote=True)


def page_head(title: str) -> str:
    """The beginning of a page up to its body, with its style: light and dark from the reader's own settings, and a
    policy that forbids whatever an escaped text might still try."""
    from importlib import resources  # seldom needed

    head = resources.files("sylvan.explain").joinpath("page_head.html").read_text("utf-8")
    return head.replace("{title}", escape(title))


def as_page(explanations: Sequence[Explanation]) -> str:
    """One page of all explanations, in their order."""
    title = ", ".join(result.name for result in explanations[:3])
    parts = [page_head(f"Explanation: {title}")]
    for result in explanations:
        parts.extend(_section(result))
    parts.append("</body>\n</html>\n")
    return "".join(parts)


def _section(result: Explanation) -> Iterator[str]:
    yield f"<h1>{escape(result.title)}</h1>\n<p>{escape(verdict(result).capitalize())}.</p>\n"
    if result.excerpt is not None:
        yield f"<blockquote>{escape(result.excerpt)}</blockquote>\n"
    for sentence in remarks(result):
        yield f"<p>{escape(sentence)}</p>\n"
    for vote in result.trees:
        yield f"<h2>{f'Tree {vote.number + 1}: the' if len(result.trees) > 1 else 'The'} path to the label</h2>\n"
        yield f"<p>{escape(tree_words(vote))}</p>\n<ol class=path>\n"
        for step in vote.paths[0].steps:
            yield from _step(step)
        yield "</ol>\n"
    if result.examples:
        yield "<h2>Nearest training rows with this label</h2>\n"
    for example in result.examples:
        yield f"<p>{escape(example_words(example))}"
        yield f"<br><span class=soft>Shared: {escape(', '.join(example.shared))}</span></p>\n"
        if example.excerpt is not None:
            yield f"<blockquote>{escape(example.excerpt)}</blockquote>\n"


def _step(step: Step) -> Iterator[str]:
    yield f"<li{'' if step.followed else ' class=lost'}>\n<h3>{step.layer + 1}. {escape(step.title)}</h3>\n"
    yield f"<p class=soft>{escape(step_words(step))}</p>\n<table>\n"
    terms = list(_terms(step))
    widest = max(abs(value) for value, _, _ in terms)
    for value, name, product in terms:
        share = 100 * abs(value) / widest if widest > 0 else 0.0
        bar = f'<span{" class=against" if value < 0 else ""} style="width:{share:.1f}%"></span>'
        yield f"<tr><td class=sum>{value:+.4f}</td><td class=bar>{bar}</td><td>{escape(name)}</td>"
        yield f"<td class=soft>{escape(product)}</td></tr>\n"
    yield "</table>\n</li>\n"


@dataclass(frozen=True)
class Explanation:
    """Why a model gives a label to a row, or doesn't."""

    model: str  # the class of the model
    label: int
    name: str
    place: int | None  # the label's, from 1, in the ranking of all labels; None when the search doesn't reach it
    score: float | None  # its score in that ranking
    n_labels: int
    n_features: int
    n_known: int  # features of the row that the model knows
    trees: tuple[TreeVote, ...] = ()
    examples: tuple[Example, ...] = ()  # the nearest training rows with the label, where examples were given
    excerpt: str | None = None  # of a text model, how the text that is explained begins
    probability: float | None = None  # the calibrated one, of a model with calibration
    notes: tuple[str, ...] = ()  # what else there is to say, as sentences
    code: str | None = None  # what the model calls the label, where `name` is what a vocabulary of subjects calls it

    @property
    def title(self) -> str:
        """The label's name, and its code where it has one besides."""
        return self.name if self.code is None else f"{self.name} ({self.code})"

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values that JSON has words for; a number that isn't finite becomes None."""
        result: dict[str, Any] = _plain(self)
        del result["title"]  # name and code say it
        return result

    def text(self, width: int = 100) -> str:
        """Lines for a terminal of ``width`` columns."""
        options: dict[str, Any] = {"width": max(width, 40), "break_on_hyphens": False}
        inner = [(line, " " * (len(line) - len(line.lstrip()))) for line in _lines(self)]
        return "\n".join(
            part for line, indent in inner for part in textwrap.wrap(line, subsequent_indent=indent, **options) or [""]
        )

    def html(self) -> str:
        """A page of its own, without script and without anything from elsewhere."""
        return as_page([self])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the explanation to a file: a page for ``.html``, data for ``.json``, text for anything else."""
        ending = check_ending(path, (".html", ".htm", ".json", ".txt", ".md", ""))
        data = json.dumps(self.to_dict(), ensure_ascii=False, indent=1) if ending == ".json" else self.text()
        content = self.html() if ending in (".html", ".htm") else data + "\n"
        with open_write(path) as stream:
            stream.write(content.encode("utf-8", "replace"))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        properties = [name for name, member in vars(type(value)).items() if isinstance(member, property)]
        return {name: _plain(getattr(value, name)) for name in [*vars(value), *properties]}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
