"""Threads, errors, languages, parameters."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import same_bits
from kit.errors import raises
from text_samples import ENGLISH, FINNISH, GERMAN, OTHERS

from sylvan import kernels
from sylvan.errors import DataError, NotFittedError, ParameterError, SylvanError
from sylvan.text import TfidfVectorizer, counting
from sylvan.text.characters import character_table
from sylvan.text.counting import DocumentShare, NgramRange

TEXTS = ENGLISH + GERMAN + FINNISH + OTHERS


@pytest.mark.parametrize(
    "how", [{}, {"ngrams": (1, 2), "max_features": 40}, {"analyzer": "char_wb", "ngrams": (2, 4), "min_df": 2}], ids=str
)
def test_the_same_bits_whatever_the_threads(how, monkeypatch):
    monkeypatch.setattr(counting, "_LEAST_CHARACTERS", 100)
    texts = TEXTS * 20
    assert len(counting.chunks(tuple(texts))) > 20
    alone = TfidfVectorizer(n_jobs=1, **how)
    X = alone.fit_transform(texts)
    same_bits(X, alone.transform(texts))
    for n_jobs in (2, 5, None):
        other = TfidfVectorizer(n_jobs=n_jobs, **how)
        same_bits(X, other.fit_transform(texts))
        same_bits(X, other.fit(texts).transform(texts))
        assert alone.get_feature_names_out().tolist() == other.get_feature_names_out().tolist()
        assert alone.fitted_.terms.slots.tobytes() == other.fitted_.terms.slots.tobytes()


def test_chunks_cover_all_documents(monkeypatch):
    monkeypatch.setattr(counting, "_LEAST_CHARACTERS", 5)
    for lengths in ([], [3], [0, 0, 0], [100, 1, 1], [1] * 50, [0, 9, 0, 9, 0]):
        ranges = counting.chunks(tuple("x" * n for n in lengths))
        assert [i for start, stop in ranges for i in range(start, stop)] == list(range(len(lengths)))


def test_rows_are_sorted_float32_and_unit_length():
    X = TfidfVectorizer().fit_transform(TEXTS)
    assert isinstance(X, sp.csr_matrix) and X.dtype == np.float32 and X.indices.dtype == np.int32
    assert all((np.diff(X.indices[a:b]) > 0).all() for a, b in zip(X.indptr, X.indptr[1:], strict=False))
    lengths = np.sqrt(X.multiply(X).sum(axis=1)).A1
    assert np.allclose(lengths[lengths > 0], 1, atol=1e-6)


def test_transform_rows_are_transforms():
    vectorizer = TfidfVectorizer().fit(TEXTS)
    rows, X = vectorizer.transform_rows(TEXTS), vectorizer.transform(TEXTS)
    same_bits(rows.to_scipy(), X)
    assert rows.indptr.dtype == np.int64
    assert vectorizer.transform([]).shape == (0, vectorizer.n_terms_)
    assert vectorizer.transform(["", "qqqq"]).nnz == 0


def test_texts_may_be_any_iterable_of_strings():
    expected = TfidfVectorizer().fit_transform(ENGLISH)
    for texts in (tuple(ENGLISH), iter(ENGLISH), np.array(ENGLISH), np.array(ENGLISH, dtype=object)):
        same_bits(expected, TfidfVectorizer().fit_transform(texts))


class Shouted(str):
    def lower(self):
        return 42


def test_a_subclass_of_str_cannot_confuse_the_kernel():
    assert TfidfVectorizer().fit_transform([Shouted("Some Words")]).shape == (1, 2)
    assert set(TfidfVectorizer().fit([Shouted("ΣΑΣ")]).vocabulary_) == {"σας"}


CJK = ["道可道，非常道。 Python3入門", "猫である 猫"]


@pytest.mark.parametrize(
    ("cjk", "terms"),
    [
        ("bigrams", ["python3", "ある", "である", "入門", "可道", "常道", "猫", "猫で", "道可", "非常"]),
        ("chars", ["python3", "あ", "で", "る", "入", "可", "常", "猫", "道", "門", "非"]),
        ("word", ["python3入門", "猫である", "道可道", "非常道"]),
    ],
)
def test_cjk_is_split(cjk, terms):
    found = TfidfVectorizer(cjk=cjk).fit(CJK).get_feature_names_out().tolist()
    if cjk == "bigrams":
        terms = [term if term != "である" else "であ" for term in terms]
    assert found == sorted(terms)


def test_korean_and_european_texts_are_the_same_however_cjk_is_split():
    texts = [*ENGLISH, *GERMAN, *FINNISH, OTHERS[0], OTHERS[1], OTHERS[5]]
    matrices = [TfidfVectorizer(cjk=cjk).fit_transform(texts) for cjk in ("word", "bigrams", "chars")]
    same_bits(matrices, matrices[:1] * 3)


def test_lower_case_that_a_table_cannot_give():
    found = TfidfVectorizer(min_token_length=1).fit(["ΟΔΥΣΣΕΥΣ ΣΑΣ. Σ", "İSTANBUL"]).vocabulary_
    assert set(found) == {"οδυσσευς", "σας", "σ", "i\u0307stanbul"}
    assert set(TfidfVectorizer(lowercase=False).fit(["ΣΑΣ İX"]).vocabulary_) == {"ΣΑΣ", "İX"}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ("one text", ("str", "single")), (b"one text", ("bytes", "single")), (None, "NoneType"), (7, "int"),
        (sp.eye(2, format="csr"), "sparse"), (["a word", None], ("Document 1", "NoneType")),
        ([b"a word"], ("Document 0", "bytes")), (["a word", "two", 3.5], ("Document 2", "float")),
        ([["a word"]], ("Document 0", "list")), ([], "documents"), (["", " . "], "vocabulary"),
    ],
)  # fmt: skip
def test_texts_refused(texts, words):
    with raises(DataError, words):
        TfidfVectorizer().fit_transform(texts)
    if words not in ("documents", "vocabulary"):
        with raises(DataError, words):
            TfidfVectorizer().fit(ENGLISH).transform(texts)


def test_nothing_left_after_pruning():
    with raises(DataError, "min_df"):
        TfidfVectorizer(min_df=2).fit(["one two", "three four"])
    with raises(DataError, "max_df=1", 1):
        TfidfVectorizer(min_df=2, max_df=1).fit(ENGLISH)


def test_a_failed_fit_leaves_the_earlier_one():
    vectorizer = TfidfVectorizer().fit(ENGLISH)
    before = vectorizer.vocabulary_
    with pytest.raises(DataError):
        vectorizer.fit([""])
    assert vectorizer.vocabulary_ == before


@pytest.mark.parametrize("use", ["transform", "transform_rows", "get_feature_names_out", "to_state"])
def test_not_fitted(use):
    with pytest.raises(NotFittedError):
        getattr(TfidfVectorizer(), use)(*([ENGLISH] if use.startswith("transform") else []))
    with pytest.raises(NotFittedError):
        _ = TfidfVectorizer().vocabulary_


@pytest.mark.parametrize(
    "how",
    [
        {"ngrams": (2, 1)}, {"ngrams": (0, 1)}, {"ngrams": 2}, {"ngrams": (1, 2, 3)}, {"ngrams": (1.0, 2.0)},
        {"ngrams": (1, 100_000)}, {"analyzer": "words"}, {"min_df": 0}, {"min_df": 1.5}, {"min_df": True},
        {"max_df": -0.1}, {"max_df": float("nan")}, {"max_features": 0}, {"sublinear_tf": 1}, {"norm": "l3"},
        {"lowercase": None}, {"min_token_length": 0}, {"cjk": "jieba"}, {"n_jobs": 0}, {"n_jobs": -5},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_refused(how):
    (name,) = how
    with raises(ParameterError, name):
        TfidfVectorizer(**how).fit(ENGLISH)
    if name in ("ngrams", "analyzer", "sublinear_tf", "norm", "lowercase", "min_token_length", "cjk", "n_jobs"):
        fitted = TfidfVectorizer().fit(ENGLISH)
        fitted.transform(ENGLISH)
        with raises(ParameterError, name):
            fitted.set_params(**how).transform(ENGLISH)


def test_parameters_from_a_command_line():
    assert NgramRange().parse("1,2") == (1, 2)
    assert NgramRange().parse("(3, 5)") == (3, 5)
    assert NgramRange().parse("1-3") == (1, 3)
    assert NgramRange().parse("2") == (2, 2)
    with pytest.raises(ValueError):
        NgramRange().parse("1,2,3")
    assert DocumentShare().parse("2") == 2 and isinstance(DocumentShare().parse("2"), int)
    assert DocumentShare().parse("0.5") == 0.5


def test_repr_pickle_and_copy():
    vectorizer = TfidfVectorizer(ngrams=(1, 2), min_df=2).fit(TEXTS)
    assert repr(vectorizer) == "TfidfVectorizer(ngrams=(1, 2), min_df=2)"
    for copied in (pickle.loads(pickle.dumps(vectorizer)), copy.deepcopy(vectorizer)):
        same_bits(copied.transform(TEXTS), vectorizer.transform(TEXTS))


def test_scikit_learn_clones_and_chains_it():
    from sklearn.base import clone
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import make_pipeline

    assert clone(TfidfVectorizer(min_df=2)).min_df == 2
    answers = make_pipeline(TfidfVectorizer(), MultinomialNB()).fit(ENGLISH + GERMAN, [0] * 4 + [1] * 4)
    assert answers.predict(["der Kopf auf dem Bett", "the watery world"]).tolist() == [1, 0]


def test_kernels_refuse_what_they_cannot_trust():
    """Wrong arguments at the bindings are errors, whatever Python above it should have caught."""
    table, how = character_table(True), (0, 0, 1, 1, 2)
    terms = kernels.TfidfTerms()
    for texts, start, stop, settings in [
        (("a",), 0, 2, how),
        (("a",), -1, 1, how),
        (("a",), 1, 0, how),
        ((b"a",), 0, 1, how),
        (("a",), 0, 1, (9, 0, 1, 1, 2)),
        (("a",), 0, 1, (0, 0, 2, 1, 2)),
        (("a",), 0, 1, (0, 0, 1, 1)),
    ]:
        with pytest.raises((ValueError, TypeError)):
            terms.add(texts, start, stop, table, True, settings)
    with pytest.raises(ValueError):
        terms.absorb(terms)
    with pytest.raises(ValueError):
        terms.copy(np.array([0], dtype=np.int32))
    entries, indptr = np.array([5 << 32 | 1], dtype=np.uint64), np.array([0, 1])
    with pytest.raises(ValueError):
        kernels.tfidf_select_columns(entries, indptr, np.zeros(5, dtype=np.int32))
    with pytest.raises(ValueError):
        kernels.tfidf_select_columns(entries, np.array([0, 2]), np.zeros(6, dtype=np.int32))
    with pytest.raises(ValueError):
        kernels.tfidf_add_totals(entries, np.zeros(5, dtype=np.int64))
    out = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.float32)
    for n_terms, idf in ((5, 5), (6, 5)):
        with pytest.raises(ValueError):
            kernels.tfidf_weigh_rows(entries, indptr, np.ones(idf, np.float32), True, False, 2, n_terms, *out)


def test_every_error_is_ours():
    with pytest.raises(SylvanError):
        TfidfVectorizer(min_df="2").fit(ENGLISH)
