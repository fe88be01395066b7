"""Terms of several words: their weight, and whether they are counted at all, by the length of the texts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

import sylvan
from sylvan import TextModel, TfidfVectorizer, data
from sylvan.errors import DataError, ParameterError
from sylvan.text import counting

SHORT = ["whales at sea", "bread and cakes", "whales at rest", "cakes and bread"] * 10
LONG = [" ".join(f"word{i}" for i in range(start, start + 50)) for start in range(40)]


def reference(texts: list[str], weight: float, min_df: int) -> tuple[np.ndarray, list[str]]:
    """Words and pairs apart, the pairs times their weight, then rows of length 1."""
    words = TfidfVectorizer(norm=None)
    pairs = TfidfVectorizer(norm=None, ngrams=(2, 2), min_df=min_df)
    X = np.hstack([words.fit_transform(texts).toarray(), weight * pairs.fit_transform(texts).toarray()])
    names = [*words.get_feature_names_out(), *pairs.get_feature_names_out()]
    order = sorted(range(len(names)), key=names.__getitem__)
    return X[:, order] / np.linalg.norm(X, axis=1, keepdims=True), [names[column] for column in order]


@pytest.mark.parametrize(("weight", "min_df"), [(0.5, 2), (2.0, 1), (0.1, 11)])
def test_phrases_weigh_and_occur_as_they_are_told(weight: float, min_df: int) -> None:
    texts = [*SHORT, "bread and whales"]
    vectorizer = TfidfVectorizer(ngrams=(1, 2), phrase_weight=weight, phrase_min_df=min_df)
    X = vectorizer.fit_transform(texts)
    expected, names = reference(texts, weight, min_df)
    assert vectorizer.get_feature_names_out().tolist() == names
    np.testing.assert_allclose(X.toarray(), expected, rtol=1e-5, atol=1e-7)
    assert vectorizer.transform(texts).toarray().tobytes() == X.toarray().tobytes()
    assert vectorizer.phrases().tolist() == [" " in name for name in names]


def test_weights_without_idf() -> None:
    vectorizer = TfidfVectorizer(ngrams=(1, 2), use_idf=False, norm=None, phrase_weight=0.25)
    assert sorted(vectorizer.fit_transform(["a b bb", "bb cc"]).data.tolist()) == [0.25, 1.0, 1.0, 1.0]
    later = vectorizer.with_terms_of(["dd ee"], 2)
    assert later.transform(["dd ee bb cc"]).toarray().tolist() == [[1.0, 0.25, 1.0, 1.0, 0.25, 1.0]]


@pytest.mark.parametrize(("texts", "ngrams"), [(SHORT, (1, 2)), (LONG, (1, 1)), (["one"], (1, 2))])
def test_auto_goes_by_the_length_of_the_texts(texts: list[str], ngrams: tuple[int, int]) -> None:
    auto = TfidfVectorizer(ngrams="auto", phrase_min_df=1 if len(texts) == 1 else None)
    X = auto.fit_transform(texts)
    assert auto.ngrams_ == ngrams and auto.ngrams == "auto"
    explicit = auto.resolved(texts)
    assert explicit.ngrams == ngrams and explicit.phrase_weight == (0.5 if ngrams == (1, 2) else None)
    Z = explicit.fit_transform(texts)
    assert (X != Z).nnz == 0 and auto.get_feature_names_out().tolist() == explicit.get_feature_names_out().tolist()
    assert ("short" if ngrams == (1, 2) else "long") in auto.choice()
    assert auto.transform(texts).data.tobytes() == X.data.tobytes()


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_auto_is_the_same_for_texts_in_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The first thousand texts count, wherever blocks end; those after them don't."""
    monkeypatch.setattr(counting, "FIRST_TEXTS", 30)
    for texts, ngrams in ((SHORT[:20] + LONG, (1, 2)), (LONG[:20] + SHORT, (1, 1))):
        whole = TfidfVectorizer(ngrams="auto").fit(texts)
        blocks = [texts[start : start + size] for start in range(0, len(texts), size)]
        parts = TfidfVectorizer(ngrams="auto")
        parts.fit_transform_blocks(iter(blocks))
        assert parts.ngrams_ == whole.ngrams_ == ngrams
        assert parts.get_feature_names_out().tolist() == whole.get_feature_names_out().tolist()


def test_characters_have_no_phrases() -> None:
    plain, auto = (TfidfVectorizer(analyzer="char_wb", ngrams=ngrams).fit(SHORT) for ngrams in ((1, 1), "auto"))
    assert plain.get_feature_names_out().tolist() == auto.get_feature_names_out().tolist()
    assert not auto.phrases().any()
    with raises(ParameterError, "phrase_weight", "analyzer='char'"):
        TfidfVectorizer(analyzer="char", ngrams=(1, 2), phrase_weight=0.5).fit(SHORT)
    with raises(ParameterError, "phrase_min_df", "(1, 1)"):
        TfidfVectorizer(phrase_min_df=2).fit(SHORT)
    told = TfidfVectorizer(ngrams="auto", phrase_weight=0.5).fit(LONG)
    assert told.to_state().params["ngrams"] == [1, 1] and "phrase_weight" not in told.to_state().params


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ngrams": "all"}, ("auto", "all")),
        ({"phrase_weight": 0}, ("float", 0)),
        ({"phrase_min_df": 0}, "phrase_min_df"),
        ({"phrase_min_df": 0.5}, "phrase_min_df"),
    ],
)
def test_values_out_of_range(params: dict[str, Any], message: object) -> None:
    with raises(ParameterError, message):
        TfidfVectorizer(**params).fit(SHORT)


def test_nothing_is_left_of_phrases() -> None:
    with raises(DataError, "documents", 99):
        TfidfVectorizer(ngrams=(2, 2), phrase_min_df=99).fit(SHORT)


def test_a_saved_choice_is_the_choice(tmp_path: Path) -> None:
    model = TextModel().fit(SHORT, [["sea"], ["food"], ["sea"], ["food"]] * 10)
    assert model.vectorizer.ngrams == "auto" and model.vectorizer.ngrams_ == (1, 2)
    model.save(tmp_path / "m")
    loaded = sylvan.load(tmp_path / "m")
    params = loaded.vectorizer.get_params()
    assert (params["ngrams"], params["phrase_weight"], params["phrase_min_df"]) == ((1, 2), 0.5, 2)
    assert loaded.rank(SHORT, k=2).scores.tobytes() == model.rank(SHORT, k=2).scores.tobytes()
    words = TfidfVectorizer().fit(SHORT).to_state().params  # as in folders of models without phrases
    assert "phrase_weight" not in words and "phrase_min_df" not in words


def test_the_command_line_says_what_it_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sylvan.cli import main

    train, model = str(tmp_path / "train.jsonl"), str(tmp_path / "m")
    data.write_jsonl(train, SHORT, [["sea"], ["food"], ["sea"], ["food"]] * 10)
    assert main(["train", "xr-linear", train, "--model", model]) == 0
    assert "pairs of words are counted (ngrams=(1, 2), phrase_weight=0.5, phrase_min_df=2)" in capsys.readouterr().out
    assert main(["inspect", model]) == 0
    assert "phrase_weight" in capsys.readouterr().out
    assert main(["train", "xr-linear", train, "--model", model + "2", "--ngrams", "1,1"]) == 0
    assert "counted" not in capsys.readouterr().out
    assert sylvan.load(model + "2").vectorizer.ngrams_ == (1, 1)
