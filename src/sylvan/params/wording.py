"""Parts of sentences: a number with its noun, and what may have been meant by a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_PLURALS = {"index": "indices", "child": "children", "vertex": "vertices"}
_HISSING = ("s", "x", "ch", "sh")


def noun(n: float, singular: str) -> str:
    """A noun in the number that ``n`` asks for: "row" for 1, "rows" for any other."""
    if n == 1:
        return singular
    if singular in _PLURALS:
        return _PLURALS[singular]
    if singular.endswith("y") and singular[-2:-1] not in "aeiou":
        return f"{singular[:-1]}ies"
    return f"{singular}es" if singular.endswith(_HISSING) else f"{singular}s"


def are(n: float) -> str:
    """The verb after so many: "is" for 1, "are" for any other."""
    return "is" if n == 1 else "are"


def counted(n: int, singular: str) -> str:
    """A number and its noun."""
    return f"{n:,} {noun(n, singular)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names what is spelled most like ``name``; all that there is, where nothing is like it."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known names: {', '.join(names) or 'none'}."
