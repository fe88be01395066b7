"""What tests of XRLinear share."""

from __future__ import annotations

import pytest

from sylvan import data
from sylvan.text import TfidfVectorizer


@pytest.fixture(scope="module")
def books() -> tuple:
    """The bundled sample: features and labels to train on, and to test on."""
    train, test = data.load_sample()
    vectorizer = TfidfVectorizer(min_df=2, sublinear_tf=True)
    names = data.Vocabulary.from_labels(train.labels)
    X, Y = vectorizer.fit_transform(train.texts), names.encode(train.labels)
    return X, Y, vectorizer.transform(test.texts), names.encode(test.labels, unknown="ignore")
