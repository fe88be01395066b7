"""The bundled sample of book titles and their subjects, as texts and as matrices, made once a process."""

import functools
from typing import NamedTuple

import scipy.sparse as sp

from sylvan import data
from sylvan.text import TfidfVectorizer


class Books(NamedTuple):
    """Features and labels to train on, and to test on."""

    X: sp.csr_matrix
    Y: sp.csr_matrix
    X_test: sp.csr_matrix
    Y_test: sp.csr_matrix


load_sample = functools.cache(data.load_sample)  # tests don't change it


@functools.cache
def books(n: int | None = None, min_df: int = 2) -> Books:
    """The first ``n`` rows (all by default) as unit-length TF-IDF; tests don't change them."""
    train, test = load_sample()
    texts, labels = train.texts[:n], train.labels[:n]
    vectorizer, names = TfidfVectorizer(min_df=min_df, sublinear_tf=True), data.Vocabulary.from_labels(labels)
    return Books(
        vectorizer.fit_transform(texts), names.encode(labels),
        vectorizer.transform(test.texts), names.encode(test.labels, unknown="ignore"),
    )  # fmt: skip
