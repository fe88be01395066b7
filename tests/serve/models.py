"""Small models to serve, over the bundled sample."""

import functools
from pathlib import Path

import numpy as np
from kit.books import load_sample

from sylvan import IRLIIndex, TextModel, XRLinear


@functools.cache
def sample() -> tuple[list[str], list[list[str]], list[str]]:
    """Some training texts, their labels, and texts to ask about."""
    train, test = load_sample()
    return train.texts[:800], train.labels[:800], test.texts[:60]


@functools.cache
def text_model() -> TextModel:
    texts, labels, _ = sample()
    return TextModel(model=XRLinear(max_leaf=20, n_jobs=1)).fit(texts, labels)


@functools.cache
def matrix_model() -> XRLinear:
    texts, labels, _ = sample()
    model = text_model()
    X = model.vectorizer.transform(texts[:400])
    Y = model.vocabulary_.encode(labels[:400])
    return XRLinear(max_leaf=20, n_jobs=1).fit(X, Y)


@functools.cache
def vector_index() -> IRLIIndex:
    base = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    return IRLIIndex(n_buckets=8, probes=8, n_jobs=1).fit(base)


def saved(folder: Path) -> dict[str, str]:
    """All of them in folders, by name."""
    models = {"books": text_model(), "rows": matrix_model(), "vectors": vector_index()}
    for name, model in models.items():
        model.save(folder / name)
    return {name: str(folder / name) for name in models}
