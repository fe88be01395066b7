"""A vectoriser estimated from a sample of texts, against the one that reads them all."""

from typing import Any

import pytest
from kit.books import load_sample
from kit.errors import raises

from sylvan import TfidfVectorizer
from sylvan.errors import DataError
from sylvan.runtime.plan import state_bytes
from sylvan.text import estimate
from sylvan.text.counting import TermCounter
from sylvan.text.estimate import estimate_texts


def books(at_once: int = 1) -> list[str]:
    """The bundled titles, or several in one text."""
    texts = load_sample()[0].texts
    return [" ".join(texts[i : i + at_once]) for i in range(0, len(texts), at_once)]


@pytest.mark.parametrize(
    ("params", "at_once"),
    [
        ({}, 1), ({}, 4), ({"ngrams": (1, 2)}, 1), ({"ngrams": (1, 2), "min_df": 2}, 1), ({"min_df": 4}, 1),
        ({"min_df": 0.01, "max_df": 0.2}, 1), ({"max_features": 2_000}, 1),
        ({"analyzer": "char_wb", "ngrams": (3, 4)}, 1),
        ({"analyzer": "char_wb", "ngrams": (3, 4), "min_df": 3}, 4), ({"use_idf": False, "max_df": 900}, 1),
    ],
)  # fmt: skip
def test_terms_values_and_size_are_near_the_real_ones(
    monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], at_once: int
) -> None:
    monkeypatch.setattr(estimate, "MOST_TEXTS", 1_500)
    texts, vectorizer = books(at_once), TfidfVectorizer(n_jobs=1, **params)
    found = estimate_texts(vectorizer, texts)
    assert len(found.rows) == found.features.shape[0] == 1_500 < found.n_texts == len(texts)
    assert not hasattr(vectorizer, "_terms")
    X = vectorizer.fit_transform(texts)
    assert found.n_terms == pytest.approx(X.shape[1], rel=0.3)
    assert found.n_entries == pytest.approx(X.nnz, rel=0.2)
    assert found.vectorizer_bytes == pytest.approx(state_bytes(vectorizer.to_state()), rel=0.5)
    assert found.seconds > 0 and found.peak_bytes > 8 * X.nnz


def test_few_texts_are_all_read() -> None:
    texts = books()[:300]
    vectorizer = TfidfVectorizer(min_df=2)
    found = estimate_texts(vectorizer, texts)
    X = vectorizer.fit_transform(texts)
    assert (found.n_terms, found.n_entries) == (X.shape[1], X.nnz)
    assert found.features.to_scipy().toarray().tobytes() == X.toarray().tobytes()


def test_no_more_is_read_than_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    add = TermCounter.add
    monkeypatch.setattr(TermCounter, "add", lambda self, texts, *rest: (read.extend(texts), add(self, texts, *rest))[1])
    estimate_texts(TfidfVectorizer(), books())
    assert len(read) == estimate.MOST_TEXTS
    read.clear()
    monkeypatch.setattr(estimate, "MOST_CHARACTERS", 20_000)
    estimate_texts(TfidfVectorizer(), books())
    assert 10_000 < sum(map(len, read)) <= 20_000


def test_where_a_sample_has_no_term_all_texts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "MOST_TEXTS", 10)
    texts = ["?"] * 5_000 + ["whale ship"]
    assert estimate_texts(TfidfVectorizer(), texts).n_terms == 2
    with raises(DataError, "min_token_length"):
        estimate_texts(TfidfVectorizer(), ["?"] * 50)
    with raises(DataError, "documents"):
        estimate_texts(TfidfVectorizer(), [])
