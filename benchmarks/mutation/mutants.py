"""Small faults in Python sources: cosmic-ray's operators, one for each place that they apply to."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Mutant", "Place", "made", "mutated", "places"]

# These need arguments, or change what never runs.
LEFT_OUT = ("core/VariableReplacer", "core/VariableInserter", "core/RemoveDecorator")
Span = tuple[tuple[int, int], tuple[int, int]]  # the lines from 1


@dataclass(frozen=True)
class Place:
    """Where a fault can be made.

    Attributes
    ----------
    path : str
        The source, relative to the repository.
    line : int
        From 1.
    operator : str
        Of cosmic-ray.
    occurrence : int
        Which of the places in the file that the operator applies to, from 0.
    """

    path: str
    line: int
    operator: str
    occurrence: int


@dataclass(frozen=True)
class Mutant(Place):
    """One fault: ``before`` is its line as it is, ``after`` as it becomes."""

    before: str
    after: str


def places(root: Path, paths: Sequence[str], seed: int) -> list[Place]:
    """Every place in some sources, in random order: the first ones are a random sample.

    A place is where some operators apply, all that replace a certain ``+``, say; which of them is drawn.
    """
    draw, found = random.Random(seed), []
    for path in sorted(paths):
        for operators, occurrence, line in _applicable((root / path).read_text("utf-8")):
            found.append(Place(path, line, draw.choice(operators).removeprefix("core/"), occurrence))
    draw.shuffle(found)
    return found


def made(root: Path, place: Place) -> Mutant | None:
    """The fault; None where it leaves the same program, or none."""
    source = (root / place.path).read_text("utf-8")
    after = _mutated(source, place.operator, place.occurrence)
    if after is None or _dumped(after) in (None, _dumped(source)):
        return None
    lines, new = source.splitlines(), after.splitlines()
    at = next((i for i, pair in enumerate(zip(lines, new, strict=False)) if pair[0] != pair[1]), place.line - 1)
    return Mutant(**asdict(place) | {"line": at + 1}, before=lines[at].strip(),
                  after=new[at].strip() if at < len(new) else "")  # fmt: skip


def mutated(root: Path, mutant: Mutant) -> str:
    """The whole source with the fault."""
    return _mutated((root / mutant.path).read_text("utf-8"), mutant.operator, mutant.occurrence) or ""


def _applicable(source: str) -> Iterator[tuple[list[str], int, int]]:
    """Operators that apply to the same places, and each such place: its number among theirs, and its line.

    Places in annotations are left out: those aren't evaluated.
    """
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    nodes, skipped = list(ast_nodes(get_ast(source))), _annotations(source)
    alike: dict[str, list[str]] = {}  # what replaces the same, under its name but for the last word
    for name in sorted(plugins.operator_names()):
        if name not in LEFT_OUT:
            key = name if "_Delete_" in name else name.rpartition("_")[0]
            alike.setdefault(key or name, []).append(name)
    for operators in alike.values():
        operator, occurrence = plugins.get_operator(operators[0])(), 0
        for node in nodes:
            for first, last in operator.mutation_positions(node):
                if not any(start <= first and last <= end for start, end in skipped):
                    yield operators, occurrence, first[0]
                occurrence += 1


def _annotations(source: str) -> list[Span]:
    """Where annotations stand."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(each, ast.expr):
                spans.append(((each.lineno, each.col_offset), (each.end_lineno or 0, each.end_col_offset or 0)))
    return spans


def _mutated(source: str, operator: str, occurrence: int) -> str | None:
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    try:
        code: str | None = mutate_code(source, plugins.get_operator(f"core/{operator}")(), occurrence)
    except AttributeError:  # of cosmic-ray, where an exception is named with its module
        return None
    return code


def _dumped(source: str) -> str | None:
    """The syntax tree as text; None where the source has none."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None
