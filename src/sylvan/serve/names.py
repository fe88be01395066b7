"""Labels by what they are called: which of them begin with some letters, and what is broader and narrower."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from sylvan.text.characters import word_class

_WORD_STARTS = 300_000  # names up to which the words within them complete too; beyond, it would take much memory
MOST_RELATED = 100  # subjects of a relation that are listed


class MatchingLabel(msgspec.Struct, omit_defaults=True):
    """A label, its id, what people call it, and the number of training rows that have it; the ``synonym`` that begins
    so, where its name doesn't."""

    label: str | int
    id: int
    name: str
    rows: int | None
    synonym: str | None = None


class RelatedSubject(msgspec.Struct):
    """A subject of the vocabulary, and whether it is among the model's labels."""

    label: str
    name: str
    known: bool


class Relations(msgspec.Struct):
    """What is broader and narrower than a label; and how many narrower ones aren't listed."""

    broader: list[RelatedSubject]
    narrower: list[RelatedSubject]
    more: int


class NameIndex:
    """The names of labels and their synonyms, in alphabetical order. ``codes`` has None for labels that are gone."""

    def __init__(
        self, title: Callable[[int], str], codes: Sequence[str | int | None], synonyms: Sequence[tuple[int, str]]
    ) -> None:
        self._title, self._n_labels, self._synonyms = title, len(codes), synonyms
        names = [(label, title(label)) for label, code in enumerate(codes) if code is not None]
        others = [(self._n_labels + place, text) for place, (_, text) in enumerate(synonyms)]
        words = len(names) + len(others) <= _WORD_STARTS
        # Ids of names and places in them, in the order of what begins there: whole names, then words within; then of
        # synonyms, whose ids follow those of the labels.
        self._starts = [
            np.array([(number, start) for _, number, start in sorted(entries)], np.int32).reshape(-1, 2)
            for texts in (names, others)
            for entries in (_wholes(texts), _words(texts) if words else ())
        ]

    def beginning(self, prefix: str, limit: int) -> Iterator[tuple[int, str | None]]:
        """Labels of which a name, or a word of a name, begins with a prefix, and the synonym that does so; case doesn't
        matter. Those whose whole name begins with it come first, then those with such a word, then those with such a
        synonym, each group in alphabetical order."""
        wanted = prefix.casefold()
        found: dict[int, str | None] = {}
        for positions in self._starts:
            place = bisect.bisect_left(positions, wanted, key=self._text)
            while place < len(positions) and len(found) < limit and self._text(positions[place]).startswith(wanted):
                number = int(positions[place][0])
                label, synonym = (number, None) if number < self._n_labels else self._synonyms[number - self._n_labels]
                found.setdefault(label, synonym)
                place += 1
        yield from found.items()

    def _text(self, position: npt.NDArray[np.int32]) -> str:
        """What begins at a place in a name, in lower case."""
        number, start = int(position[0]), int(position[1])
        name = self._title(number) if number < self._n_labels else self._synonyms[number - self._n_labels][1]
        return name.casefold()[start:]


def _wholes(texts: Sequence[tuple[int, str]]) -> list[tuple[str, int, int]]:
    return [(text.casefold(), number, 0) for number, text in texts]


def _words(texts: Sequence[tuple[int, str]]) -> Iterator[tuple[str, int, int]]:
    """The words behind the first of each name."""
    for name, number, _ in _wholes(texts):
        for match in re.finditer(rf"(?<![{word_class()}])\w", name):
            if match.start():
                yield name[match.start() :], number, match.start()
