"""Probabilities where labels are rare: as many answers are right as their probabilities add up to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sylvan import TextModel, XRLinear
from sylvan.metrics import expected_hits


def titles(n: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Short texts: words of one or two rare labels, words of any text, and words that hardly another text has."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        own = np.unique((2_000 * random.random(random.integers(1, 3)) ** 1.5).astype(int))
        words = [f"l{label}w{random.integers(4)}" for label in own for _ in range(2) if random.random() < 0.6]
        words += [f"common{random.integers(50)}" for _ in range(2)]
        words += [f"rare{random.integers(20_000)}" for _ in range(random.integers(1, 4))]
        random.shuffle(words)
        texts.append(" ".join(words))
        labels.append([f"label {label}" for label in own])
    return texts, labels


@pytest.mark.parametrize("model", [XRLinear(n_jobs=1), XRLinear(n_trees=2, n_jobs=2)], ids=["one tree", "two trees"])
def test_expected_answers_are_right(model: Any) -> None:
    tagger = TextModel(model=model).fit(*titles(6_000, seed=0))
    texts, labels = titles(3_000, seed=1)
    truth = tagger.vocabulary_.encode(labels, unknown="ignore")
    counted = expected_hits(truth, tagger.probabilities(tagger.rank(texts, k=5)), k=5)
    assert counted.right > 300
    assert 0.85 < counted.ratio < 1.15, counted
