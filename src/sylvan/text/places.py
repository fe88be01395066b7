"""A text as a vectoriser reads it, and where each of its characters stands in the text that was given."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from sylvan.labels.names import composed
from sylvan.text.characters import mark_class, without_unseen


class ReadText(NamedTuple):
    """The composed text without what isn't seen; character i is that from ``starts[i]`` to before ``ends[i]``."""

    text: str
    starts: list[int]
    ends: list[int]


@lru_cache(maxsize=1)
def _clusters() -> re.Pattern[str]:
    """A character with what may become one with it: marks, and the vowels and finals of Hangul."""
    return re.compile(rf"(?s:.)[{mark_class()}\u1161-\u11ff]*")


def read_text(text: str) -> ReadText:
    """How a text is read."""
    if text.isascii():
        return ReadText(text, list(range(len(text))), list(range(1, len(text) + 1)))
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in _clusters().finditer(text):
        part, (first, last) = without_unseen(composed(match[0])), match.span()
        parts.append(part)
        own = part == match[0]
        starts += range(first, last) if own else [first] * len(part)
        ends += range(first + 1, last + 1) if own else [last] * len(part)
    return ReadText("".join(parts), starts, ends)
