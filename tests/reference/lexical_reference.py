"""Labels found by their words, as the documentation says it: every sentence, every form, every label, one by one."""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

PREFERRED, ALTERNATIVE, HIDDEN, DERIVED, DEFINITION, PART = range(6)
MOST_SET_WORDS = 64


@dataclass
class Label:
    """Its forms as (kind, words), and its relations."""

    forms: list[tuple[int, tuple[int, ...]]]
    broader: set[int] = field(default_factory=set)
    narrower: set[int] = field(default_factory=set)
    related: set[int] = field(default_factory=set)

    def named(self) -> list[tuple[int, tuple[int, ...]]]:
        """The forms that it can be found by; each sequence of words once, by the kind that comes first."""
        kinds: dict[tuple[int, ...], int] = {}
        for kind, words in sorted(self.forms):
            if kind <= DERIVED and words:
                kinds.setdefault(words, kind)
        return [(kind, words) for words, kind in kinds.items()]

    def bag(self) -> list[int]:
        """All words that count for BM25."""
        return [word for kind, words in self.forms if kind != PART for word in words]


@dataclass
class Place:
    """One word of a document: its id or -1, and what is known of it."""

    word: int
    capital: bool
    begins: bool


class Reference:
    """Candidates and counts from the definitions."""

    def __init__(self, labels: list[Label], content: list[bool]) -> None:
        self.labels, self.content = labels, content
        n = len(labels)
        with_word = Counter(word for label in labels for word in set(label.bag()))
        self.idf = {w: np.float32(math.log1p((n - df + 0.5) / (df + 0.5))) for w, df in with_word.items()}
        self.exact_idf = {w: math.log1p((n - df + 0.5) / (df + 0.5)) for w, df in with_word.items()}
        lengths = [len(label.bag()) for label in labels]
        filled = [length for length in lengths if length]
        self.mean = max(sum(filled) / max(len(filled), 1), 1)

    def set_of(self, words: tuple[int, ...]) -> frozenset[int]:
        """The words of a form that count in sets."""
        return frozenset(w for w in words if self.content[w]) or frozenset(words)

    def sets(self, label: Label) -> set[frozenset[int]]:
        """The sets of a label's forms."""
        return {one for _, words in label.named() if len(one := self.set_of(words)) <= MOST_SET_WORDS}

    def posting(self, label: Label, word: int) -> np.float32:
        """The part of BM25 of one word that doesn't depend on the document."""
        bag = label.bag()
        count = bag.count(word)
        norm = 1.2 * (1 - 0.75 + 0.75 * len(bag) / self.mean)
        return np.float32(self.exact_idf[word] * count * 2.2 / (count + norm))

    def sentences(self, places: list[Place]) -> list[tuple[int, list[Place]]]:
        """Where each sentence begins, and its places."""
        found: list[tuple[int, list[Place]]] = []
        for at, place in enumerate(places):
            if place.begins or not found:
                found.append((at, []))
            found[-1][1].append(place)
        return found

    def bm25(self, places: list[Place]) -> list[np.float32]:
        """Of each label as a document, for the words of this one in the order of their first mention."""
        counts = Counter(place.word for place in places if place.word >= 0)  # keeps that order
        scores = []
        for label in self.labels:
            score = np.float32(0)
            for word, n in counts.items():
                if word in label.bag():
                    score = np.float32(score + np.float32(1 + math.log(n)) * self.posting(label, word))
            scores.append(score)
        return scores

    def phrases(self, places: list[Place], words: tuple[int, ...]) -> list[tuple[int, bool]]:
        """Where a phrase stands in one sentence, and whether its last word has a capital that tells something."""
        found = []
        for start, sentence in self.sentences(places):
            for at in range(len(sentence) - len(words) + 1):
                if tuple(place.word for place in sentence[at : at + len(words)]) == words:
                    last = at + len(words) - 1
                    found.append((start + at, sentence[last].capital and last > 0))
        return found

    def counts(self, places: list[Place], number: int, found: set[int]) -> dict[str, float]:
        """What is counted of one label, whether it is found or not."""
        label = self.labels[number]
        result: dict[str, float] = {}
        occurrences = dict.fromkeys(range(4), 0)
        capitals = 0
        for kind, words in label.named():
            stands = self.phrases(places, words)
            occurrences[kind] += len(stands)
            capitals += sum(capital for _, capital in stands)
        for kind, name in enumerate(("preferred", "alternative", "hidden", "derived")):
            result[name] = occurrences[kind]
        sentences, inside, starts, largest = 0, 0, [], 0
        others = None
        for start, sentence in self.sentences(places):
            there = {place.word for place in sentence}
            standing = {one for each in self.labels for one in self.sets(each) if one <= there}
            own = [one for one in self.sets(label) if one <= there]
            if not own:
                continue
            sentences += 1
            starts.append(start)
            longest = {word: max(len(one) for one in standing if word in one) for one in own for word in one}
            inside += all(all(longest[word] > len(one) for word in one) for one in own)
            largest = max(largest, *(len(one) for one in own))
            for one in own:
                same = sum(one in self.sets(each) for each in self.labels) - 1
                others = same if others is None else min(others, same)
        result |= {
            "sentences": sentences, "inside": inside, "first": min(starts, default=len(places)),
            "last": max(starts, default=0), "words": largest, "capitals": capitals, "others": others or 0,
        }  # fmt: skip
        anywhere = {place.word for place in places}
        shares = [np.float32(0)]
        for one in self.sets(label):
            whole = sum(float(self.idf[word]) for word in one)
            shares.append(np.float32(sum(float(self.idf[word]) for word in one & anywhere) / whole))
        result["share"] = float(max(shares))
        result["bm25"] = float(self.bm25(places)[number])
        parts = {words for kind, words in label.forms if kind == PART and words}
        result["parts"] = sum(bool(self.phrases(places, words)) for words in parts) / max(len(parts), 1)
        for name in ("broader", "narrower", "related"):
            result[name] = len(getattr(label, name) & found)
        return result

    def found(self, places: list[Place]) -> set[int]:
        """The labels one of whose sets stands in one sentence."""
        there = [{place.word for place in sentence} for _, sentence in self.sentences(places)]
        return {
            number for number, label in enumerate(self.labels)
            if any(one <= words for words in there for one in self.sets(label))
        }  # fmt: skip

    def candidates(self, places: list[Place], partial: int) -> tuple[list[int], set[int]]:
        """All candidates, rising, and those that are found."""
        found = self.found(places)
        scores = self.bm25(places)
        rest = [number for number in range(len(self.labels)) if number not in found and scores[number] > 0]
        rest.sort(key=lambda number: (-scores[number], number))
        return sorted({*found, *rest[:partial]}), found
