"""The same matrix as scikit-learn's TfidfVectorizer, and as the slow reference implementation."""

import itertools
from functools import partial

import numpy as np
import pytest
import tfidf_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.errors import raises
from sklearn.feature_extraction.text import TfidfVectorizer as Theirs
from text_samples import ENGLISH, FINNISH, GERMAN, OTHERS, shared_texts
from word_reference import visible, words

from sylvan.errors import DataError
from sylvan.text import TfidfVectorizer

LANGUAGES = {"english": ENGLISH, "german": GERMAN, "finnish": FINNISH}
ANALYZERS = [
    ("word", (1, 1)), ("word", (1, 2)), ("word", (2, 3)), ("char", (1, 3)), ("char", (3, 3)), ("char_wb", (2, 5)),
]  # fmt: skip


def both(texts, ngrams=(1, 1), analyzer="word", min_token_length=2, **how):
    """Ours and scikit-learn's vectoriser, and their matrices; None and None where both find no term.

    To scikit-learn, which knows nothing of Unicode's forms and marks, texts go as they are seen, and it is given words.
    """
    ours = TfidfVectorizer(
        ngrams=ngrams, analyzer=analyzer, min_token_length=min_token_length, cjk="word", n_jobs=1, **how
    )
    split = partial(words, least=min_token_length, unspaced="word") if analyzer == "word" else None
    theirs = Theirs(ngram_range=ngrams, analyzer=analyzer, tokenizer=split, token_pattern=None, **how)
    try:
        Z = theirs.fit_transform(map(visible, texts))
    except ValueError as error:
        with pytest.raises(DataError):
            ours.fit_transform(texts)
        assert "vocabulary" in str(error) or "no terms remain" in str(error) or "max_df" in str(error)
        return None
    X = ours.fit_transform(texts)
    return ours, X, theirs, Z


def assert_same(ours, X, theirs, Z):
    assert ours.get_feature_names_out().tolist() == theirs.get_feature_names_out().tolist()
    Z.sort_indices()
    assert X.dtype == np.float32 and X.indices.dtype == np.int32
    assert X.shape == Z.shape
    np.testing.assert_array_equal(X.indptr, Z.indptr)
    np.testing.assert_array_equal(X.indices, Z.indices)
    np.testing.assert_allclose(X.data, Z.data, rtol=1e-6)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("analyzer", "ngrams"), ANALYZERS)
@pytest.mark.parametrize("sublinear_tf", [False, True])
@pytest.mark.parametrize("norm", ["l2", "l1", None])
def test_same_matrix_as_scikit_learn(language, analyzer, ngrams, sublinear_tf, norm):
    texts = LANGUAGES[language]
    ours, X, theirs, Z = both(texts, ngrams, analyzer, sublinear_tf=sublinear_tf, norm=norm)
    assert_same(ours, X, theirs, Z)
    other = ENGLISH + OTHERS
    assert_same(ours, ours.transform(other), theirs, theirs.transform(map(visible, other)))


@pytest.mark.parametrize(("analyzer", "ngrams"), ANALYZERS)
@pytest.mark.parametrize("lowercase", [True, False])
def test_same_matrix_in_every_script(analyzer, ngrams, lowercase):
    texts = ENGLISH + GERMAN + FINNISH + OTHERS
    assert_same(*both(texts, ngrams, analyzer, lowercase=lowercase))


@pytest.mark.parametrize(
    "how",
    [
        {"min_df": 2}, {"min_df": 0.3}, {"max_df": 0.5}, {"max_df": 3},
        {"min_df": 2, "max_df": 0.75, "max_features": 5}, {"max_features": 10}, {"max_features": 10_000},
        {"smooth_idf": False}, {"use_idf": False}, {"min_token_length": 1}, {"min_token_length": 4},
        {"ngrams": (1, 3), "max_features": 50},
    ],
    ids=str,
)  # fmt: skip
def test_same_terms_kept(how):
    assert_same(*both(ENGLISH + GERMAN + FINNISH, **how))


ALPHABET = st.one_of(
    st.sampled_from("aAbBcC12_ -'.\n\t"),
    st.sampled_from("äÄßẞéÉ\u0301ΣσςαΑΆİıIжЖ漢字かなカー々ﬃǅ٣２Ａ\u00a0\u2003\u3000\u200d"),
    st.sampled_from("हिन्दी தமிழ் తెలుగు ภาษาไทย๑ ລາວ ខ្មែរ မြန်မာ קְרָ كِتَاب می‌شود"),
    st.sampled_from(
        "eaAuoO\u0300\u0301\u0308\u0323\u0307\u031b\u00ad\u034f\u200b\u200c\u2060\u202b\ufe0f\U000e0101か\u3099각각Å"
    ),
    st.characters(),
)
TEXTS = st.lists(st.text(ALPHABET, max_size=40), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    texts=TEXTS, analyzer=st.sampled_from(ANALYZERS), lowercase=st.booleans(), min_token_length=st.integers(1, 3),
    min_df=st.sampled_from([1, 2, 0.5]), max_df=st.sampled_from([1.0, 2, 0.7]), max_features=st.sampled_from([None, 3]),
    more=TEXTS,
)  # fmt: skip
def test_any_text_gives_scikit_learns_matrix(
    texts, analyzer, lowercase, min_token_length, min_df, max_df, max_features, more
):
    result = both(
        texts, analyzer[1], analyzer[0], min_token_length,
        lowercase=lowercase, min_df=min_df, max_df=max_df, max_features=max_features,
    )  # fmt: skip
    if result:
        ours, X, theirs, Z = result
        assert_same(ours, X, theirs, Z)
        assert_same(ours, ours.transform(more), theirs, theirs.transform(map(visible, more)))


def assert_same_as_reference(texts, **how):
    """The terms and the matrix of the reference implementation, or its refusal of texts without a term."""
    terms, matrix = tfidf_reference.fit_transform(texts, **how)
    vectorizer = TfidfVectorizer(n_jobs=1, **how)
    if not terms:
        with raises(DataError, "min_token_length"):
            vectorizer.fit(texts)
        return
    X = vectorizer.fit_transform(texts)
    assert vectorizer.get_feature_names_out().tolist() == terms
    np.testing.assert_allclose(X.toarray(), matrix, rtol=2e-6)


@settings(max_examples=100, deadline=None)
@given(
    texts=TEXTS,
    ngrams=st.sampled_from([(1, 1), (1, 2), (2, 4)]),
    analyzer=st.sampled_from(["word", "char", "char_wb"]),
    cjk=st.sampled_from(["word", "bigrams", "chars"]),
    min_token_length=st.integers(1, 3),
    lowercase=st.booleans(),
    weights=st.fixed_dictionaries(
        {
            "sublinear_tf": st.booleans(),
            "smooth_idf": st.booleans(),
            "use_idf": st.booleans(),
            "norm": st.sampled_from(["l2", "l1", None]),
        }
    ),
)
def test_any_text_gives_the_reference_matrix(texts, ngrams, analyzer, cjk, min_token_length, lowercase, weights):
    how = {"ngrams": ngrams, "analyzer": analyzer, "cjk": cjk, "min_token_length": min_token_length}
    assert_same_as_reference(texts, lowercase=lowercase, **how, **weights)


PIECES = st.sampled_from(
    ["a" * 70, "word ", "Word Another_1 ", " " * 65, "é", "ÄÖ", "–", "漢字", "猫", "b", " ", "x" * 63]
)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(st.lists(PIECES, max_size=25).map("".join), min_size=1, max_size=3),
    ngrams=st.sampled_from([(1, 1), (1, 2)]),
    cjk=st.sampled_from(["word", "bigrams", "chars"]),
    min_token_length=st.integers(1, 3),
)
def test_edges_of_ascii_blocks_among_others(texts, ngrams, cjk, min_token_length):
    """Kernels take 64 ASCII characters at once, also between others; runs may begin and end anywhere."""
    how = {"ngrams": ngrams, "analyzer": "word", "cjk": cjk, "min_token_length": min_token_length}
    assert_same_as_reference(texts, lowercase=True, **how)


@pytest.mark.parametrize("name", ["eurlex57k", "gutenberg", "cpv-tenders", "clinc150"])
@pytest.mark.parametrize(("analyzer", "ngrams"), [("word", (1, 1)), ("word", (1, 2)), ("char_wb", (3, 4))])
def test_same_matrix_on_real_sets(name, analyzer, ngrams):
    texts = shared_texts(name, 40 if name == "eurlex57k" else 400)
    if not texts:
        pytest.skip(f"../shared/data/{name} is not there")
    assert_same(*both(texts, ngrams, analyzer, min_df=2, sublinear_tf=True))


def test_long_runs_and_chunk_edges():
    """Words across the edges of the kernel's 64-byte and 2048-byte blocks."""
    pieces = ["a" * n + " " * m for n, m in itertools.product([1, 2, 31, 63, 64, 65, 2047, 2048, 2049], [1, 2, 62])]
    texts = ["".join(pieces[i:] + pieces[:i]) for i in range(len(pieces))] + ["x" * n for n in range(130)]
    texts += [text[:-1] + "é" for text in texts if text]
    assert_same(*both(texts))
    assert_same(*both(texts[:8], (1, 2)))
