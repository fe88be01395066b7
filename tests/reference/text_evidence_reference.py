"""Labels known by their texts, as the documentation defines them: one label, one word and one row at a time, dense."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

LEAST = 0.001  # of what a logarithm is taken
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


def likeness(row: Vector, texts: Iterable[Vector]) -> float:
    """How much a row looks like labels' texts at all."""
    cosines = sorted((float(unit(row) @ unit(text)) for text in texts), reverse=True)[:NEAREST]
    return sum(cosines) / NEAREST


def evidence(row: Vector, label: int, texts: Mapping[int, Vector], words: Mapping[int, Vector]) -> list[float]:
    held = sum(texts[label][word] for word in np.flatnonzero(row).tolist())
    return [
        math.log(max(LEAST, similarity(row, texts[label], words) / SCALE)),
        math.log(max(LEAST, likeness(row, texts.values()))),
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


def rank(
    row: Vector,
    labels: Iterable[int],
    texts: Mapping[int, Vector],
    words: Mapping[int, Vector],
    curve: npt.ArrayLike,
    k: int,
) -> list[tuple[int, float]]:
    """The labels of highest probability for a row, lower labels first among equals."""
    found = [
        (label, probability(evidence(row, label, texts, words), curve))
        for label in candidates(row, labels, texts, words, max(50, 4 * k))
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
) -> list[tuple[list[float], bool, int]]:
    """What a curve is fitted to: evidence, whether it is right, and the row; folds are those of labels with a text."""
    found: list[tuple[list[float], bool, int]] = []
    rest = [row for row in range(len(rows)) if row not in held_out]
    for fold in sorted(set(fold_of.values())):
        means = {}
        for label in fold_of:
            its = [rows[row] for row in rest if label in truth[row]]
            if fold_of[label] != fold and its:
                means[label] = mean_row(its)
        words = word_vectors(means, texts)
        own = [label for label in fold_of if fold_of[label] == fold]
        for row in held_out:
            for label in candidates(rows[row], own, texts, words, 20):
                found.append((evidence(rows[row], label, texts, words), label in truth[row], row))
    return found
