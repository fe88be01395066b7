"""An explanation in words: its sentences, which the page shares, and a few lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from sylvan.explain.records import Example, Findings, LeafPath, Step, TreeVote, WeighedFeature
from sylvan.params.wording import counted


def number(value: float) -> str:
    """A score in four digits; small ones keep theirs."""
    return f"{value:.4f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"


def printable(text: str) -> str:
    """Text on one line, without characters that would move a terminal's cursor or change its colours."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def verdict(result: Findings) -> str:
    """The answer in one sentence."""
    if result.place is not None and result.score is not None:
        likely = "" if result.probability is None else f", probability {number(result.probability)}"
        return f"place {result.place:,} of {counted(result.n_labels, 'label')}, score {number(result.score)}{likely}"
    return "not among the answers: the search doesn't reach it"


def remarks(result: Findings) -> tuple[str, ...]:
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


def as_text(result: Findings, width: int) -> str:
    """The explanation for a terminal of ``width`` columns."""
    return "\n".join(part for line in _lines(result) for part in _folded(line, width))


def _folded(line: str, width: int) -> list[str]:
    """A line in as many as it takes, those after the first as far in as its words are."""
    inner = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line, max(width, 40), subsequent_indent=inner, break_on_hyphens=False) or [""]


def _lines(result: Findings) -> Iterator[str]:
    yield f"{printable(result.title)}: {verdict(result)}"
    if result.excerpt is not None:
        yield f"Text: {printable(result.excerpt)}"
    yield from remarks(result)
    for vote in result.trees:
        yield ""
        title = f"Tree {vote.number + 1}. " if len(result.trees) > 1 else ""
        yield f"{title}{tree_words(vote)}"
        yield from _path(vote.paths[0])
    if result.examples:
        yield ""
        yield "Nearest training rows with this label:"
        for example in result.examples:
            yield f"  {example_words(example)}: {', '.join(map(printable, example.shared))}"
            if example.excerpt is not None:
                yield f"    {printable(example.excerpt)}"


def _path(path: LeafPath) -> Iterator[str]:
    for step in path.steps:
        yield f"  {step.layer + 1}. {printable(step.title)}"
        yield f"     {step_words(step)}"
        for feature in (*step.positive, *step.negative):
            yield f"     {_feature(feature)}"
        listed = len(step.positive) + len(step.negative)
        if step.n_weighed > listed:
            yield f"       {step.rest:+8.4f}  {step.n_weighed - listed:,} more"
        yield f"       {step.intercept:+8.4f}  intercept"


def _feature(feature: WeighedFeature) -> str:
    parts = f"{number(feature.value)} × {number(feature.weight)}"
    return f"  {feature.contribution:+8.4f}  {printable(feature.name)}  ({parts})"
