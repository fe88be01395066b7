"""Bringing models up to date that are made of others: what comes out is what fit gives."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises

import sylvan
from sylvan import Ensemble, LexicalMatcher, NeighborRanker, Reranker, TextModel, TfidfVectorizer, XRLinear
from sylvan.errors import DataError, NotFittedError, ParameterError, UnsupportedError
from sylvan.models.base import Estimator
from sylvan.params.fields import parameterized

TEXTS = ["whales at sea", "a whale of the south sea", "bread and cakes", "the baking of bread", "cakes of bread"]
LABELS = [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking"], ["Baking"]]


def some_rows(n: int, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    random = np.random.default_rng(seed)
    X = sp.random(n, 40, 0.2, "csr", np.float32, random)
    Y = sp.csr_matrix((random.random((n, 12)) < 0.15).astype(np.float32))
    return X, Y


def test_columns_are_never_fewer() -> None:
    X, Y = some_rows(30)
    for model in (NeighborRanker(), XRLinear(keep_rows=True)):
        with raises(ParameterError, 40, 39):
            model.fit(X, Y).update(forget=[1], n_features=39)


def test_rows_given_again_to_neighbours_are_those_that_they_keep() -> None:
    X, Y = some_rows(20)
    model = NeighborRanker().fit(X, Y)
    for rows in (3, X, (), (X,), (X[:19], Y[:19])):
        with raises(DataError, "rows", 20, "NeighborRanker"):
            model.update(X[:2], Y[:2], rows=rows)
    assert model.update(X[:2], Y[:2], rows=(X, Y)).n_rows_ == 22


@pytest.mark.parametrize("model", [NeighborRanker(), TextModel(model=NeighborRanker())])
def test_updates_without_an_estimate_say_so(model: Any) -> None:
    given = (TEXTS, LABELS) if model.takes_texts else some_rows(20)
    with raises(UnsupportedError, "NeighborRanker", "estimated"):
        model.fit(*given).plan_update(*given)


class TestTexts:
    def test_new_words_and_labels(self, tmp_path: Path) -> None:
        tagger = TextModel(model=XRLinear(keep_rows=True)).fit(TEXTS, LABELS)
        old = copy.copy(tagger)
        n_terms = tagger.vectorizer.n_terms_
        tagger.update(["the steam engine", "an engine of steam"], [["Railways"], ["Railways", "Baking"]])
        assert list(tagger.vocabulary_) == ["Baking", "Voyages", "Whaling", "Railways"]
        assert tagger.vectorizer.n_terms_ > n_terms == old.vectorizer.n_terms_
        assert tagger.rank(["old engines, engine"], k=1).names == [["Railways"]]
        assert old.n_labels_ == 3 and old.rank(TEXTS, k=1).names[0] == ["Whaling"]
        tagger.save(tmp_path / "m")
        again = sylvan.load(tmp_path / "m").update(["rails of steel"], [["Railways"]])
        assert again.n_labels_ == 4 and again.model.row_ids_.tolist() == list(range(8))

    def test_it_comes_to_what_fit_gives_with_its_features(self) -> None:
        tagger = TextModel(model=XRLinear(keep_rows=True, weight_dtype="float32", threshold=0)).fit(TEXTS, LABELS)
        more = ["the steam engine", "bread by steam"]
        tagger.update(more, [["Railways"], ["Railways", "Baking"]])
        X = tagger.vectorizer.transform(TEXTS + more)
        Y = tagger.vocabulary_.encode([*LABELS, ["Railways"], ["Railways", "Baking"]])
        again = XRLinear(weight_dtype="float32", threshold=0, negative_cost=tagger.model.chosen_["negative_cost"])
        np.testing.assert_allclose(tagger.model.rank(X, 4).scores, again.fit(X, Y).rank(X, 4).scores, atol=1e-3)

    def test_merged_labels_lose_their_names(self) -> None:
        tagger = TextModel(model=XRLinear(keep_rows=True)).fit(TEXTS, LABELS)
        tagger.update(merge={"Whaling": ["Voyages"]})
        assert "Voyages" not in tagger.vocabulary_ and tagger.removed_labels_.tolist() == [1]
        assert tagger.update(["a voyage"], [["Voyages"]]).vocabulary_[3] == "Voyages"
        with raises(DataError, "Nothing"):
            tagger.update(merge={"Whaling": ["Nothing"]})

    def test_its_rows_may_be_given_again(self) -> None:
        tagger = TextModel().fit(TEXTS, LABELS)
        with raises(UnsupportedError, "keep_rows=True"):
            tagger.update(["steam"], [["Baking"]])
        tagger.update(["steam engines"], [["Railways"]], rows=(TEXTS, LABELS))
        assert tagger.rank(["steam"], k=1).names == [["Railways"]]
        with pytest.raises(UnsupportedError):  # they weren't kept
            tagger.update(["steam"], [["Railways"]])  # which is known by now

    def test_a_plan_says_what_would_be_solved_and_changes_nothing(self) -> None:
        tagger = TextModel(model=XRLinear(keep_rows=True)).fit(TEXTS, LABELS)
        before = tagger.to_state()
        plan = tagger.plan_update(["steam engines"], [["Railways"]])
        assert plan.nodes == (4,) and plan.seconds > 0 and "4 of layer 1" in plan.text()
        after = tagger.to_state()
        assert before.parts["model"].arrays.keys() == after.parts["model"].arrays.keys()
        assert tagger.n_labels_ == 3 and tagger.vectorizer.n_terms_ == len(before.parts["vectorizer"].arrays["idf"])

    @pytest.mark.parametrize("given", [(["a", "b"], [["c"]]), ("a text", [["c"]]), ([3], [["c"]])])
    def test_malformed_texts_change_nothing(self, given: Any) -> None:
        tagger = TextModel(model=XRLinear(keep_rows=True)).fit(TEXTS, LABELS)
        with pytest.raises(DataError):
            tagger.update(*given)
        assert tagger.n_labels_ == 3 and tagger.vectorizer.transform(["steam"]).nnz == 0

    def test_names_beside_uris_are_refused(self) -> None:
        uris = [[f"http://example.org/{label}" for label in row] for row in LABELS]
        tagger = TextModel(model=XRLinear(keep_rows=True)).fit(TEXTS, uris).without_labels(uris[0][:1])
        for update in (tagger.update, tagger.plan_update):
            with raises(DataError, "Railways"):
                update(["the steam engine"], [["Railways"]])
        assert tagger.update(["the steam engine"], [["http://example.org/Railways"]]).n_labels_ == 4


class TestEnsembles:
    def test_all_members_learn(self) -> None:
        members = [TextModel(model=XRLinear(keep_rows=True)), TextModel(model=NeighborRanker())]
        both = Ensemble(members).fit(TEXTS, LABELS)
        both.update(["the steam engine"], [["Railways"]], forget=[0])
        assert both.rank(["steam engine"], k=1).names == [["Railways"]]
        assert [member.model.row_ids_.tolist() for member in both.members] == [[1, 2, 3, 4, 5]] * 2

    def test_no_member_changes_where_one_can_not(self) -> None:
        both = Ensemble([TextModel(model=XRLinear(keep_rows=True)), TextModel()]).fit(TEXTS, LABELS)
        with raises(UnsupportedError, "row 0"):
            both.update(["the steam engine"], [["Baking"]])
        assert both.members[0].model.row_ids_.tolist() == list(range(5)) and both.n_labels_ == 3

    @pytest.mark.parametrize("join", [Ensemble, lambda members: Reranker(members, scorer="trees")])
    def test_rows_are_given_again_to_those_that_keep_none(self, join: Any) -> None:
        both = join([TextModel(), TextModel(model=NeighborRanker()), LexicalMatcher(n_trees=1)]).fit(TEXTS, LABELS)
        before = bits(both)
        with raises(UnsupportedError, "rows=(X, Y)"):
            both.update(["steam"], [["Baking"]])
        with raises(DataError, 4, 5):
            both.update(["steam engines"], [["Railways"]], rows=(TEXTS[1:], LABELS[1:]))
        assert bits(both) == before
        both.update(["steam engines", "steam"], [["Railways"], ["Baking"]], rows=(TEXTS, LABELS))
        assert {member.inner().n_rows_ for member in both.members[:2]} == {7}
        assert both.rank(["engines"], k=1).names == [["Railways"]]

    def test_numbers_of_rows_that_are_given_again_are_no_ids_once_rows_were_forgotten(self) -> None:
        both = Ensemble([TextModel(), TextModel(model=NeighborRanker())]).fit(TEXTS, LABELS)
        both.update(forget=[0], rows=(TEXTS, LABELS))
        before = bits(both)
        with raises(DataError, "NeighborRanker", "forget"):
            both.update(forget=[1], rows=(TEXTS[1:], LABELS[1:]))
        assert bits(both) == before


class TestVectorizer:
    def test_known_columns_stay_and_new_ones_are_weighed_by_all_documents(self) -> None:
        old = TfidfVectorizer(min_df=2).fit(["red tea", "red wine", "tea"])
        new = old.with_terms_of(["green tea", "green apples", "apples"], 3)
        assert new.get_feature_names_out().tolist() == ["red", "tea", "apples", "green"]
        assert old.get_feature_names_out().tolist() == ["red", "tea"]
        np.testing.assert_array_equal(new.idf_[:2], old.idf_)
        np.testing.assert_allclose(new.idf_[2:], np.log(7 / 3) + 1, rtol=1e-6)
        known = new.transform(["red tea", "tea of herbs"])
        np.testing.assert_array_equal(known[:, :2].toarray(), old.transform(["red tea", "tea of herbs"]).toarray())

    def test_phrases_are_weighed_and_room_is_kept(self, tmp_path: Path) -> None:
        settings: dict[str, Any] = {"ngrams": (1, 2), "phrase_weight": 0.5}
        old = TfidfVectorizer(max_features=4, **settings).fit(["red tea", "tea"])
        new = old.with_terms_of(["green wine", "green"], 2)
        assert new.get_feature_names_out().tolist() == ["red", "red tea", "tea", "green"]  # of which most texts are
        new.save(tmp_path / "v")
        wide = sylvan.load(tmp_path / "v").set_params(max_features=None).with_terms_of(["green wine"], 4)
        terms = wide.get_feature_names_out().tolist()
        assert terms == ["red", "red tea", "tea", "green", "green wine", "wine"]
        assert wide.idf_[4] == pytest.approx(0.5 * wide.idf_[5])
        assert old.with_terms_of(["of"], 2).n_terms_ == 4  # no room
        with pytest.raises(NotFittedError):
            TfidfVectorizer().with_terms_of(["tea"], 0)


@parameterized
class Unchanging(Estimator):
    """A model of somebody's own."""


def test_models_that_have_to_be_trained_anew_say_so() -> None:
    with raises(UnsupportedError, "brought"):
        Unchanging().update(*some_rows(20))
