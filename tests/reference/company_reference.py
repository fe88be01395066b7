"""What ties labels to each other, and what candidates say for each other: the slow and obvious way, with loops."""

import math
import re
from dataclasses import dataclass, field

from sylvan.data import LabelTerms

HEADING = " -- "
Part = tuple[str, ...]  # the words of a heading's part


@dataclass
class Tied:
    """What one label has in common with others; words by their weights."""

    words: dict[int, float] = field(default_factory=dict)
    first_part: int | None = None
    last_part: int | None = None
    broader: set[int] = field(default_factory=set)
    narrower: set[int] = field(default_factory=set)
    related: set[int] = field(default_factory=set)


def cosine(one: dict[int, float], other: dict[int, float]) -> float:
    """Of the weights of two labels' words; 0 where one has none."""
    lengths = [math.sqrt(sum(value**2 for value in words.values())) for words in (one, other)]
    if not all(lengths):
        return 0.0
    return sum(value * other.get(word, 0.0) for word, value in one.items()) / math.prod(lengths)


def same(one: int | None, other: int | None) -> bool:
    """Whether both have a part, and it is the same."""
    return one is not None and one == other


def company_of(place: int, labels: list[int], means: list[float], ties: list[Tied]) -> list[float]:
    """The columns of the candidate at one place of a row: what each of the others says for it; -1 is none."""
    sums = [0.0] * 7
    own = ties[labels[place]]
    for at, label in enumerate(labels):
        if at == place or label < 0:
            continue
        other = ties[label]
        says = [
            cosine(own.words, other.words), same(own.first_part, other.first_part),
            same(own.last_part, other.last_part), label in own.broader, label in own.narrower, label in own.related,
            len(own.broader & other.broader),
        ]  # fmt: skip
        for column, value in enumerate(says):
            sums[column] += means[at] * value
    return sums


def words_of(text: str) -> Part:
    return tuple(re.findall("[a-z]+", text.lower()))


class Named:
    """The labels of a vocabulary, in its order, by what they are called."""

    def __init__(self, names: list[str], terms: dict[str, LabelTerms]) -> None:
        self.names, self.terms = names, terms

    def words(self, name: str) -> set[str]:
        """Those of its names and definitions."""
        one = self.terms[name]
        texts = [*one.preferred, *one.alternative, *one.hidden, *one.definitions]
        return {word for text in texts for word in words_of(text)}

    def weight(self, word: str) -> float:
        having = sum(word in self.words(name) for name in self.names)
        return math.log(1 + (len(self.names) - having + 0.5) / (having + 0.5))

    def cosine(self, one: str, other: str) -> float:
        numbers: dict[str, int] = {}
        weights = [
            {numbers.setdefault(word, len(numbers)): self.weight(word) for word in self.words(name)}
            for name in (one, other)
        ]
        return cosine(*weights)

    def part(self, name: str, at: int) -> Part | None:
        """The first (0) or last (-1) part of a label's heading."""
        for text in self.terms[name].preferred:
            if HEADING in text:
                return words_of(text.split(HEADING)[at])
        return None

    def is_broader(self, one: str, of: str) -> bool:
        return one != of and one in self.terms[of].broader

    def is_related(self, one: str, other: str) -> bool:
        return one != other and (one in self.terms[other].related or other in self.terms[one].related)
