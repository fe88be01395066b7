"""A small job of every task, of ten classes or twenty words: each is trained in a moment."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan.data import SequenceData, build_sequences
from sylvan.tasks import ExtremeClassification, LanguageModel, SequentialRecommendation, build_corpus


def corpus() -> Any:
    """Each word is followed by the next around a circle."""
    rng = np.random.default_rng(0)
    texts = [[f"w{(start + step) % 20}" for step in range(6)] for start in rng.integers(20, size=200)]
    return build_corpus(texts, texts[:20], texts[:20])


def sequences(shift: int = 1) -> SequenceData:
    """Each of ten items is followed by the next; where users begin is shifted."""
    users = [user for user in range(20) for _ in range(10)]
    return build_sequences(users, [(user * shift + place) % 10 for user in range(20) for place in range(10)])


def language_model(**given: Any) -> LanguageModel:
    return LanguageModel(corpus(), **{"embedding": 12, "hidden": 10, "length": 6, "batch_size": 8, **given})


def recommender(shift: int = 1, **given: Any) -> SequentialRecommendation:
    return SequentialRecommendation(sequences(shift), **{"dim": 8, "hidden": 8, **given})


def classifier(**given: Any) -> ExtremeClassification:
    """A row's only feature is its class's."""
    classes = np.arange(60) % 10
    X = sp.csr_matrix(np.eye(10, dtype=np.float32)[classes])
    return ExtremeClassification(X, classes, **{"dim": 8, "hidden": 8, "batch_size": 8, **given})


JOBS: dict[str, Any] = {"language model": language_model, "recommender": recommender, "classifier": classifier}
