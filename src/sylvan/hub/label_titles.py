"""What a card calls labels: by their names, or by titles where the names are codes."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol


class Titles(Protocol):
    """From a code to what people call it."""

    def __call__(self, code: str) -> str | None:
        """The title of a code; None where there is none."""

    def check(self, codes: Iterable[str]) -> None:
        """Refuse codes of which none has a title."""


def names_of(
    known: Sequence[str] | None, n_labels: int, titles: Titles | None
) -> tuple[Callable[[int], str], Callable[[int], str]]:
    """What labels are called by their ids: in a drawing, and in a list, where the code follows the title."""
    name: Callable[[int], str] = "label {}".format if known is None else known.__getitem__
    if titles is None:
        return name, name
    codes: Sequence[str] = [str(label) for label in range(n_labels)] if known is None else known
    titles.check(codes)

    def short(label: int) -> str:
        return titles(codes[label]) or name(label)

    def listed(label: int) -> str:
        title = titles(codes[label])
        return name(label) if title is None else f"{title} ({codes[label]})"

    return short, listed


def distinct_titles(codes: Sequence[str], title_of: Callable[[str], str | None]) -> list[str]:
    """What each label is called: its code where it has no title, title and code where others have the same title."""
    found = [title_of(code) or code for code in codes]
    times = Counter(map(_same_name, found))
    return [
        title if times[_same_name(title)] == 1 or title == code else f"{title} ({code})"
        for code, title in zip(codes, found, strict=True)
    ]


def _same_name(title: str) -> str:
    return unicodedata.normalize("NFC", title).strip()
