"""Labels known by their texts, as the documentation defines them: one label, one word and one row at a time, dense."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

LEAST = 0.001  # of what a logarithm is taken
LEAST_COSINE = 0.05  # of an encoder's vectors, for the same
NEAREST = 10  # texts of labels, for how much a row looks like such texts
SCALE = 1.5  # of a similarity
KEPT_OF_MEANS, KEPT_OF_WORDS, KEPT_OF_LABELS = 256, 32, 300


def unit(vector: Vector) -> Vector:
    length = math.sqrt(float(vector @ vector))
    return vector / length if length > 0 else vector


def largest(vector: Vector, n: int) -> Vector:
    """The vector with all but its ``n`` largest values at zero."""
    kept = np.zeros_like(vector)
    for column in sorted(range(len(vector)), key=lambda column: -vector[column])[:n]:
        kept[column] = vector[column]
    return kept


def mean_row(rows: list[Vector]) -> Vector:
    """What one label's rows look like."""
    total = np.zeros_like(rows[0])
    for row in rows:
        total += row
    return unit(largest(total, KEPT_OF_MEANS)) * math.log(1 + len(rows))


def word_vectors(means: Mapping[int, Vector], texts: Mapping[int, Vector]) -> dict[int, Vector]:
    """What a word of labels' texts says of rows, from labels that have both rows and texts."""
    found: dict[int, Vector] = {}
    for label, mean in means.items():
        for word in np.flatnonzero(texts[label]).tolist():
            found[word] = found.get(word, np.zeros_like(mean)) + texts[label][word] * mean
    return {word: largest(unit(vector), KEPT_OF_WORDS) for word, vector in found.items() if vector.any()}


def predicted(text: Vector, words: Mapping[int, Vector]) -> Vector:
    """ẑ: what rows of a label with this text would look like."""
    total = np.zeros_like(text)
    for word in np.flatnonzero(text).tolist():
        if word in words:
            total += text[word] * words[word]
    return unit(largest(total, KEPT_OF_LABELS))


def similarity(row: Vector, text: Vector, words: Mapping[int, Vector]) -> float:
    return float(row @ (text + 0.5 * predicted(text, words)))


def once_a_row(measure: Callable[[Vector, Mapping[int, Vector]], float]) -> Callable[..., float]:
    """What is the same for all labels that a row is judged for is computed for the first of them."""
    results: dict[tuple[bytes, int], tuple[Mapping[int, Vector], float]] = {}

    def measured(row: Vector, of_labels: Mapping[int, Vector]) -> float:
        key = row.tobytes(), id(of_labels)
        if key not in results:
            results[key] = of_labels, measure(row, of_labels)  # with what it is of, so that no other gets its id
        return results[key][1]

    return measured


@once_a_row
def likeness(row: Vector, texts: Mapping[int, Vector]) -> float:
    """How much a row looks like labels' texts at all."""
    cosines = sorted((float(unit(row) @ unit(text)) for text in texts.values()), reverse=True)[:NEAREST]
    return sum(cosines) / NEAREST


def evidence(row: Vector, label: int, texts: Mapping[int, Vector], words: Mapping[int, Vector]) -> list[float]:
    held = sum(texts[label][word] for word in np.flatnonzero(row).tolist())
    return [
        math.log(max(LEAST, similarity(row, texts[label], words) / SCALE)),
        math.log(max(LEAST, likeness(row, texts))),
        math.log(max(LEAST, held)),
    ]


def probability(seen: list[float], curve: npt.ArrayLike) -> float:
    intercept, *slopes = np.asarray(curve, float).tolist()
    total = intercept + sum(slope * value for slope, value in zip(slopes, seen, strict=True))
    return 1 / (1 + math.exp(-total)) if total > -700 else 0.0


def candidates(
    row: Vector, labels: Iterable[int], texts: Mapping[int, Vector], words: Mapping[int, Vector], n: int
) -> dict[int, float]:
    """The most similar labels of a row, with their similarities; those that share nothing with it are none."""
    found = {label: similarity(row, texts[label], words) for label in labels}
    ordered = sorted((label for label in found if found[label] > 0), key=lambda label: (-found[label], label))
    return {label: found[label] for label in ordered[:n]}


TIED = 1e-6  # similarities this near to one another are in any order: they were rounded


def most_similar(found: Mapping[int, float], n: int) -> tuple[set[int], set[int]]:
    """Which labels are surely among the ``n`` of the highest values above 0, and which may be, as near as the last."""
    positive = sorted((value for value in found.values() if value > 0), reverse=True)
    if len(positive) <= n:
        everyone = {label for label, value in found.items() if value > 0}
        return everyone, everyone
    last = positive[n - 1]
    may = {label for label, value in found.items() if value >= last - TIED}
    return (may if len(may) == n else {label for label in may if found[label] > last + TIED}), may


def cosine(row: Vector, label: Vector) -> float:
    """Of an encoder's vectors, which are of length 1 or zeros."""
    return math.fsum(a * b for a, b in zip(row.tolist(), label.tolist(), strict=True))


@once_a_row
def nearness(row: Vector, vectors: Mapping[int, Vector]) -> float:
    """How near a row is to labels' texts at all, by an encoder's vectors."""
    highest = sorted((max(0.0, cosine(row, vector)) for vector in vectors.values()), reverse=True)[:NEAREST]
    return sum(highest) / NEAREST


def nearest(row: Vector, labels: Iterable[int], vectors: Mapping[int, Vector], n: int) -> set[int]:
    """The ``n`` labels of the highest cosines above 0, and those as near as the last of these."""
    found = {label: cosine(row, vectors[label]) for label in labels}
    highest = sorted((value for value in found.values() if value > 0), reverse=True)[:n]
    return {label for label, value in found.items() if highest and value >= highest[-1]}


@dataclass(frozen=True)
class Known:
    """What is known of labels: their texts, what these texts' words say of rows, and an encoder's vectors, if any."""

    texts: Mapping[int, Vector]
    words: Mapping[int, Vector]
    vectors: Mapping[int, Vector] | None = None

    def evidence(self, row: Vector, vector: Vector | None, label: int) -> list[float]:
        seen = evidence(row, label, self.texts, self.words)
        if self.vectors is None or vector is None:
            return seen
        near = [cosine(vector, self.vectors[label]), nearness(vector, self.vectors)]
        return [*seen, *(math.log(max(LEAST_COSINE, value)) for value in near)]

    def candidates(self, row: Vector, vector: Vector | None, labels: list[int], n: int) -> set[int]:
        found = set(candidates(row, labels, self.texts, self.words, n))
        if self.vectors is None or vector is None:
            return found
        return found | nearest(vector, labels, self.vectors, n)

    def certain(self, row: Vector, vector: Vector | None, labels: list[int], n: int) -> tuple[set[int], set[int]]:
        """Which labels are surely candidates, and which may be; the same ones but where some are as good as equal."""
        must, may = most_similar({label: similarity(row, self.texts[label], self.words) for label in labels}, n)
        if self.vectors is None or vector is None:
            return must, may
        cosines = {label: cosine(vector, self.vectors[label]) for label in labels}
        near = nearest(vector, labels, self.vectors, n)
        last = min((cosines[label] for label in near), default=2.0)
        return must | near, may | near | {label for label in labels if cosines[label] > max(0.0, last - 2 * TIED)}

    def rank(
        self, row: Vector, vector: Vector | None, labels: list[int], curve: npt.ArrayLike, k: int
    ) -> list[tuple[int, float]]:
        """The labels of highest probability for a row, lower labels first among equals."""
        found = [
            (label, probability(self.evidence(row, vector, label), curve))
            for label in self.candidates(row, vector, labels, max(50, 4 * k))
        ]
        return sorted(found, key=lambda answer: (-np.float32(answer[1]), answer[0]))[:k]


def joined(first: Iterable[tuple[int, float]], second: Iterable[tuple[int, float]], k: int) -> list[tuple[int, float]]:
    """The best of two rankings of different labels, lower labels first among equals."""
    return sorted([*first, *second], key=lambda answer: (-np.float32(answer[1]), answer[0]))[:k]


def judged(
    rows: list[Vector],
    truth: list[set[int]],
    texts: Mapping[int, Vector],
    held_out: list[int],
    fold_of: Mapping[int, int],
    vectors: tuple[Mapping[int, Vector], Mapping[int, Vector]] | None = None,
) -> list[tuple[list[float], bool, int]]:
    """What a curve is fitted to: evidence, whether it is right, and the row; folds are those of labels with a text.

    ``vectors`` are an encoder's of labels, and of the rows that are held out.
    """
    found: list[tuple[list[float], bool, int]] = []
    rest = [row for row in range(len(rows)) if row not in held_out]
    for fold in sorted(set(fold_of.values())):
        means = {}
        for label in fold_of:
            its = [rows[row] for row in rest if label in truth[row]]
            if fold_of[label] != fold and its:
                means[label] = mean_row(its)
        known = Known(texts, word_vectors(means, texts), vectors[0] if vectors else None)
        own = [label for label in fold_of if fold_of[label] == fold]
        for row in held_out:
            vector = vectors[1][row] if vectors else None
            for label in sorted(known.candidates(rows[row], vector, own, 20)):
                found.append((known.evidence(rows[row], vector, label), label in truth[row], row))
    return found
