"""Vectorisers that give data frames, as scikit-learn's transformers do."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan import TextModel, TfidfVectorizer, XRLinear
from sylvan.errors import MemoryLimitError, ParameterError
from sylvan.text import tfidf

pandas = pytest.importorskip("pandas")
TEXTS = ["red tea", "tea", "green tea"]


def test_a_frame_of_pandas_has_terms_and_the_index_of_the_texts() -> None:
    plain = TfidfVectorizer().fit_transform(TEXTS)
    vectorizer = TfidfVectorizer().set_output(transform="pandas")
    first = vectorizer.fit_transform(pandas.Series(TEXTS, index=["x", "y", "z"]))
    assert first.columns.tolist() == ["green", "red", "tea"] and first.index.tolist() == ["x", "y", "z"]
    assert (sp.csr_matrix(first.sparse.to_coo()) != plain).nnz == 0
    again = vectorizer.transform(TEXTS)
    assert again.index.tolist() == [0, 1, 2] and np.array_equal(again.to_numpy(), first.to_numpy())
    assert sp.issparse(vectorizer.set_output().set_output(transform="default").transform(TEXTS))


def test_models_of_frames_of_terms() -> None:
    frame = TfidfVectorizer().set_output(transform="pandas").fit_transform(TEXTS)
    model = XRLinear(n_jobs=1).fit(frame, ["r", "t", "g"])
    assert model.feature_names_in_.tolist() == ["green", "red", "tea"]
    assert model.predict(frame).tolist() == ["r", "t", "g"]


def test_models_of_texts_see_nothing_of_it() -> None:
    plain = TextModel(TfidfVectorizer(), XRLinear(n_jobs=1)).fit(TEXTS, ["r", "t", "g"])
    chosen = TextModel(TfidfVectorizer().set_output(transform="pandas"), XRLinear(n_jobs=1)).fit(TEXTS, ["r", "t", "g"])
    assert plain.rank(TEXTS, k=3).scores.tobytes() == chosen.rank(TEXTS, k=3).scores.tobytes()
    assert "feature_names_in_" not in chosen.model.__dict__


def test_polars_has_dense_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    vectorizer = TfidfVectorizer().set_output(transform="polars")
    frame = vectorizer.fit_transform(TEXTS)
    assert isinstance(frame, polars.DataFrame) and frame.columns == ["green", "red", "tea"]
    assert np.array_equal(frame.to_numpy(), TfidfVectorizer().fit_transform(TEXTS).toarray())
    monkeypatch.setattr(tfidf, "_MOST_DENSE", 8)
    with raises(MemoryLimitError, "polars", 3):
        vectorizer.transform(TEXTS)


def test_scikit_learns_settings_count() -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(TfidfVectorizer().fit_transform(TEXTS), pandas.DataFrame)
        own = TfidfVectorizer().set_output(transform="default")
        assert sp.issparse(own.fit_transform(TEXTS)) and sp.issparse(clone(own).fit_transform(TEXTS))
    chain = make_pipeline(TfidfVectorizer(), XRLinear(n_jobs=1)).set_output(transform="pandas")
    chain.fit(TEXTS, ["r", "t", "g"])
    assert chain[-1].feature_names_in_.tolist() == ["green", "red", "tea"]
    assert chain.predict(TEXTS).tolist() == ["r", "t", "g"]
    if "sparse_interface" in sklearn.get_config():
        with sklearn.config_context(sparse_interface="sparray"):
            assert type(TfidfVectorizer().fit_transform(TEXTS)) is sp.csr_array


def test_what_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with raises(ParameterError, "transform", "set_output", "arrow"):
        TfidfVectorizer().set_output(transform="arrow")
    monkeypatch.setitem(sys.modules, "polars", None)
    with raises(ImportError, "set_output", "transform='polars'"):
        TfidfVectorizer().set_output(transform="polars").fit_transform(TEXTS)
