"""Models with an encoder that learn more texts and labels: the encoder stays, and the rankers are updated."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded_texts import LABELS, TEXTS, small
from kit.bits import bits
from kit.errors import raises

import sylvan
from sylvan import XRLinear, XTransformer
from sylvan.errors import DataError, NotFittedError, ParameterError, RowsUnknownWarning, UnsupportedError

pytest.importorskip("torch")

NEW = ["engine of common steam", "steam engine whale"]
NEW_LABELS = [["railways"], ["railways", "whale"]]
LABELS_SORTED = sorted({name for row in LABELS for name in row})
EXACT: dict[str, Any] = {
    "weight_dtype": "float32", "threshold": 0.0, "tolerance": 1e-4, "max_iterations": 20_000, "negatives": "tfn",
    "negative_cost": 1.0, "calibration": None, "scaling": "none",
}  # fmt: skip


def kept(**params: Any) -> Any:
    return small(ranker=XRLinear(keep_rows=True, **EXACT), **params).fit(TEXTS, LABELS)


@pytest.mark.parametrize("frozen", [True, False])
def test_it_comes_to_rankers_of_all_texts(frozen: bool, tmp_path: Path) -> None:
    model = kept(frozen=frozen)
    vectors, n_terms = model.embed(TEXTS), model.vectorizer_.n_terms_
    old, before = copy.copy(model), bits(model)
    model.update(NEW, NEW_LABELS)
    assert list(model.vocabulary_)[-1] == "railways" and model.n_labels_ == 9 and model.n_rows_ == 50
    assert model.label_counts_[8] == 2 and model.vectorizer_.n_terms_ == n_terms
    np.testing.assert_array_equal(model.embed(TEXTS), vectors)
    X = model._text_features(TEXTS + NEW)
    Y = model.vocabulary_.encode(LABELS + NEW_LABELS)
    anew = XRLinear(tree=model.tree_, n_jobs=1, **EXACT).fit(X, Y)
    a, b = model.ranker_.rank(X, 9, beam=100), anew.rank(X, 9, beam=100)
    np.testing.assert_allclose(np.sort(a.scores), np.sort(b.scores), atol=2e-3)
    assert bits(old) == before
    model.save(tmp_path / "m")
    for each in (model, sylvan.load(tmp_path / "m").set_params(device="cpu", n_jobs=1)):
        assert each.rank(NEW[:1], k=1).names == [["railways"]]
        each.update(forget=[0, 49], merge={"sea": ["moon"]})
        assert each.ranker_.row_ids_.tolist() == list(range(1, 49)) and "moon" not in each.vocabulary_
        assert each.removed_labels_.tolist() == [LABELS_SORTED.index("moon")]


def test_rows_are_given_again(tuned: Any, matched: Any) -> None:
    model = copy.copy(tuned).update(["whale at sea"], [["whale"]], rows=(TEXTS, LABELS))
    assert model.n_rows_ == 49 and tuned.n_rows_ == 48
    before = bits(matched)
    new, old = (NEW, NEW_LABELS), (["whale at sea"], [["whale"]])
    for given, options in ((new, {"rows": (TEXTS, LABELS)}), (old, {}), ((), {"forget": [1]}), (
        (), {"merge": {"sea": ["moon"]}}
    )):  # fmt: skip
        for method in (matched.update, matched.plan_update):
            with raises(UnsupportedError, "XTransformer", "encoder", "new labels alone"):
                method(*given, **options)
    assert bits(matched) == before
    with pytest.warns(RowsUnknownWarning):
        assert copy.copy(matched).update(*new).n_labels_ == matched.n_labels_ + 1


def test_clusters_of_an_encoder_and_kept_rows_are_refused_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(XTransformer.training, "_fine_tune", lambda *_: pytest.fail("the encoder was trained"))
    model = small(XTransformer, ranker=XRLinear(keep_rows=True, **EXACT))
    for method in (model.fit, model.plan):
        with raises(ParameterError, "'ranker'", "XTransformer", "keep_rows=False", "frozen=True", "XRTransformer"):
            method(TEXTS, LABELS)
    model = model.set_params(frozen=True).fit(TEXTS, LABELS).update(NEW, NEW_LABELS)
    assert model.n_rows_ == 50


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ("X", "nothing")),
    "no labels": ({"X": NEW}, ("X", "Y", "together")),
    "too few labels": ({"X": NEW, "Y": [["whale"]]}, ("X", 2, "Y", 1)),
    "no texts": ({"X": [3], "Y": [["whale"]]}, "row 0"),
    "unknown row": ({"forget": [48]}, "48"),
    "unknown label": ({"merge": {"sea": ["nothing"]}}, ("nothing", "model")),
    "rows": ({"X": NEW, "Y": NEW_LABELS, "rows": 3}, ("rows", "pair")),
    "rows beside rows": ({"X": NEW, "Y": NEW_LABELS, "rows": (TEXTS, LABELS)}, ("rows", "keeps")),
}  # fmt: skip


def test_errors_change_nothing() -> None:
    model = kept(frozen=True)
    before = bits(model)
    for given, words in WRONG.values():
        for method in (model.update, model.plan_update):
            with raises(DataError, words):
                method(**given)
    assert bits(model) == before
    with pytest.raises(NotFittedError):
        small().update(NEW, NEW_LABELS)
