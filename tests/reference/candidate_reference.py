"""What training rows say of labels, and the columns of candidates: the slow and obvious way, with sets and loops."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_TOGETHER = 100
BEST = 10


@dataclass
class Facts:
    """The rows themselves, each a set of labels."""

    n_labels: int
    rows: list[set[int]] = field(default_factory=list)

    def count(self, label: int) -> int:
        return sum(label in row for row in self.rows)

    def both(self, one: int, other: int) -> int:
        return sum(one in row and other in row for row in self.rows)

    def listed(self, label: int) -> dict[int, int]:
        """The labels that are most often with one, and how often."""
        beside = {other: self.both(label, other) for other in range(self.n_labels) if other != label}
        most = sorted((other for other in beside if beside[other]), key=lambda other: (-beside[other], other))
        return {other: beside[other] for other in most[:MOST_TOGETHER]}

    def share(self, given: int, of: int, where: int) -> float:
        """Of the rows that have one label, the share that has the other, if it is listed where one of them is."""
        both = self.listed(where).get(of if where == given else given, 0)
        return both / self.count(given) if both else 0.0


Answer = list[tuple[int, float]]  # labels and scores of a row, best first


def of_member(answer: Answer, label: int) -> list[float]:
    """Score, place and share of one member's answer."""
    for place, (other, score) in enumerate(answer):
        if other == label:
            best = answer[0][1]
            return [score, 1 / (place + 1), score / best if best else 0.0]
    return [0.0, 0.0, 0.0]


def columns_of_row(candidates: Answer, members: Sequence[Answer], facts: Facts) -> list[list[float]]:
    """A list of columns for each candidate of a row."""
    rows = []
    for place, (label, mean) in enumerate(candidates):
        columns = [value for answer in members for value in of_member(answer, label)]
        scores = [score for answer in members for other, score in answer if other == label]
        first, best = candidates[0]
        terms = [value * facts.share(other, label, other) for other, value in candidates[:BEST] if other != label]
        columns += [mean, mean / best if best else 0.0, best, sum(value for _, value in candidates), place]
        columns += [len(scores), max(scores, default=0.0), math.log(1 + facts.count(label))]
        columns += [facts.share(first, label, first), facts.share(label, first, first)]
        columns += [sum(terms), max(terms, default=0.0)]
        rows.append(columns)
    return rows
