"""XRTransformer and XTransformer: features, layers, explanations, ensembles."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from encoded_texts import LABELS, TEXTS, small
from kit.bits import same_bits
from kit.errors import raises
from kit.watching import calls_of
from kit.weights import dense_weights

import sylvan
from sylvan import Ensemble, LabelTree, XRLinear, XRTransformer, XTransformer
from sylvan.errors import ParameterError
from sylvan.explain.question import MEANING
from sylvan.models.transformer.x_transformer import cluster_tree

pytest.importorskip("torch")

import torch

from sylvan.models.transformer import fine_tuning
from sylvan.models.transformer.presets import ranker_of
from sylvan.neural import BagTextEncoder


def test_the_encoder_s_tree_is_made_of_the_words_alone(matched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = calls_of(monkeypatch, fine_tuning, "FineTuning")
    model = small(ranker__n_trees=2).fit(TEXTS, LABELS)
    X, Y = model.vectorizer_.transform(TEXTS), model.vocabulary_.encode(LABELS)
    expected = XRLinear(branching=2, max_leaf=2, n_jobs=1).fit(X, Y).tree_
    assert [call.args[3] for call in learned] == [expected] and matched.tree_ == cluster_tree(expected, 32768)


@pytest.mark.parametrize(("n_trees", "scale"), [(1, 1.0), (1, 0.5), (3, 1.0)])
@pytest.mark.parametrize("frozen", [True, False])
def test_it_is_xr_linear_over_words_and_vectors(frozen: bool, n_trees: int, scale: float, tmp_path: Path) -> None:
    model = small(frozen=frozen, ranker__n_trees=n_trees, dense_scale=scale).fit(TEXTS, LABELS)
    dense = model.embed(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1, rtol=1e-5)
    X = sp.hstack([model.vectorizer_.transform(TEXTS), sp.csr_matrix(dense * np.float32(scale))]).tocsr()
    alone = XRLinear(branching=2, max_leaf=2, n_trees=n_trees, n_jobs=1).fit(X, model.vocabulary_.encode(LABELS))
    assert [ranker.tree for ranker in model.ranker_.rankers_] == [ranker.tree for ranker in alone.rankers_]
    assert len(model.ranker_.rankers_) == n_trees and model.tree_ == alone.tree_
    ours, theirs = model.rank(TEXTS, k=5), alone.rank(X, k=5)
    same_bits(ours, theirs)
    model.save(tmp_path / "model")
    assert sylvan.load(tmp_path / "model").rank(TEXTS, k=5).scores.tobytes() == ours.scores.tobytes()
    assert len(model.explain("the whale", "whale").trees) == n_trees
    assert bool(model.history_) is not frozen


def test_several_trees_by_a_given_ranker_and_by_presets() -> None:
    assert ranker_of(small(ranker=XRLinear(n_trees=2))).n_trees == 2
    assert ranker_of(small(ranker=XRLinear(n_trees=2), ranker__n_trees=1)).n_trees == 1
    assert [ranker_of(XRTransformer(preset=preset)).n_trees for preset in ("tiny", "base", "paper")] == [1, 3, 1]
    assert [ranker_of(XTransformer(preset=preset)).n_trees for preset in ("tiny", "base", "paper")] == [1, 1, 1]
    tree = LabelTree.random(8, branching=2, max_leaf=2)
    model = small(ranker=XRLinear(tree=tree)).fit(TEXTS, LABELS)
    assert model.tree_ == tree


def test_each_layer_is_trained_from_coarse_to_fine(tuned: Any) -> None:
    assert [record["layer"] for record in tuned.history_] == list(range(tuned.tree_.depth))
    for record in tuned.history_:
        losses = [entry["loss"] for entry in record["history"]["epochs"]]
        assert losses[-1] < losses[0]
    assert tuned.rank(["the whale in the sea"], k=2).names == [["whale", "sea"]] or tuned.score(TEXTS, LABELS) > 0.9


def test_layers_of_too_many_nodes_are_only_ranked() -> None:
    model = small(matcher__max_nodes=4).fit(TEXTS, LABELS)
    sizes = model.tree_.layer_sizes
    assert [record["layer"] for record in model.history_] == [t for t, size in enumerate(sizes) if size <= 4]
    assert max(sizes) > 4


def test_fine_tuning_changes_a_copy_of_what_was_given() -> None:
    encoder = BagTextEncoder(dim=8, n_buckets=64).load()
    before = copy.deepcopy(encoder.state_dict())
    model = small(encoder=encoder).fit(TEXTS, LABELS)
    assert all((encoder.state_dict()[name] == value).all() for name, value in before.items())
    assert not all((model.encoder_.state_dict()[name] == value).all() for name, value in before.items())


def test_the_callers_draws_go_on_as_if_nothing_was_fitted() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    model = small(encoder=BagTextEncoder(dim=4, n_buckets=64, dropout=0.5)).fit(TEXTS, LABELS)
    assert torch.equal(torch.rand(4), expected) and model.history_


def test_x_transformer_matches_clusters_by_the_encoder(matched: Any) -> None:
    tree = matched.tree_
    assert tree.depth == 2 and [record["layer"] for record in matched.history_] == [0]
    table = dense_weights(matched.ranker_.layers_[0])
    n_terms = matched.vectorizer_.n_terms_
    assert not table[:n_terms].any(), "words have no say in which cluster it is"
    scores = matched.embed(TEXTS) @ table[n_terms:] + matched.ranker_.layers_[0].intercepts
    cluster_of = np.empty(tree.n_labels, int)
    cluster_of[tree.leaf_labels] = tree.parents(1)
    best = matched.rank(TEXTS, k=1, beam=1).labels[:, 0]
    bounded = np.minimum(scores, 1)  # beyond the margin one cluster is as good as another
    chosen = bounded[np.arange(len(best)), cluster_of[best]]
    np.testing.assert_allclose(chosen, bounded.max(axis=1), rtol=1e-5)


UNKNOWN = "zzz qqq"  # a text without a known word


def _margins(model: Any, texts: list[str]) -> np.ndarray:
    """What the first layer of an XTransformer says of texts, by the rows that its rankers see."""
    rows = model._text_features(texts).to_scipy().toarray()
    factors = model.ranker_.feature_factors_
    rows = rows if factors is None else rows * factors
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) if model.ranker_.normalize else rows
    return rows @ dense_weights(model.ranker_.layers_[0])


@pytest.mark.parametrize(
    ("scale", "params"),
    [(0.02, {"normalize": True}), (3.0, {"normalize": True}), (1.0, {"normalize": True}), (0.02, {}), (3000.0, {}),
     (3000.0, {"normalize": True}), (3000.0, {"scaling": "none"})],
)  # fmt: skip
def test_the_matcher_says_the_same_of_texts_with_and_without_known_words(
    scale: float, params: Any, matched: Any
) -> None:
    """An encoder's margins are its own, whatever stands beside its vectors and however long these are.

    Rows that a ranker normalises by their own length would be 50.01 times as long where there is no word to share the
    length with: hypot(1, 0.02) / 0.02.
    """
    model = small(XTransformer, ranker=XRLinear(**params), dense_scale=scale).fit(TEXTS, LABELS)
    texts = ["whale sea", UNKNOWN]
    expected = _margins(matched, texts)  # vectors of length 1 beside TF-IDF's 1, as the encoder has learned
    assert np.abs(expected[1]).max() > 0.05
    np.testing.assert_allclose(_margins(model, texts) / expected, 1, rtol=2e-3)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_rows_are_normalised_where_features_are_made(kind: Any, tmp_path: Path) -> None:
    """A row of words and vectors has length 1; without a word it is as long as the vector is beside words."""
    model = kind("bag", preset="tiny", ranker=XRLinear(normalize=True, max_leaf=2), n_jobs=1).fit(TEXTS, LABELS)
    rows = model._text_features([*TEXTS, UNKNOWN]).to_scipy().toarray()
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(lengths[:-1], 1, rtol=1e-5)
    assert lengths[-1] == pytest.approx(0.02 / np.hypot(1, 0.02), rel=1e-4)
    assert (model.dense_scale_, model.term_scale_) == pytest.approx((lengths[-1], 1 / np.hypot(1, 0.02)))
    assert model.ranker.normalize and not model.ranker_.normalize
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again._text_features([UNKNOWN]).to_scipy().toarray().tobytes() == rows[-1:].tobytes()
    assert again.rank([*TEXTS, UNKNOWN], k=3).scores.tobytes() == model.rank([*TEXTS, UNKNOWN], k=3).scores.tobytes()


def test_x_transformer_over_labels_in_several_clusters() -> None:
    """Those of them that fall into one cluster when clusters are joined stand in it once."""
    leaves = np.array([0, 1, 1, 2, 3, 4, 4, 0], np.int32)
    tree = LabelTree((np.array([0, 2]), np.array([0, 2, 4]), np.array([0, 2, 4, 6, 8])), leaves, 5)
    shaped = cluster_tree(tree, 2)
    assert shaped.leaf_labels.tolist() == [0, 1, 2, 3, 4, 0] and shaped.parents(1).tolist() == [0, 0, 0, 1, 1, 1]
    assert cluster_tree(tree, 4).leaf_labels.tolist() == leaves.tolist()


def test_the_last_layer_that_is_not_too_large_is_x_transformers_clusters() -> None:
    tree = LabelTree.random(50, branching=2, max_leaf=3)
    expected = max(size for size in tree.layer_sizes[:-1] if size <= 8)
    shaped = cluster_tree(tree, 8)
    assert shaped.layer_sizes == (expected, 50) and (shaped.leaf_labels == tree.leaf_labels).all()
    at = tree.layer_sizes.index(expected)
    above = np.arange(50)
    for t in range(tree.depth - 1, at, -1):
        above = tree.parents(t)[above]
    assert (shaped.parents(1) == above).all() and at < tree.depth - 2
    assert cluster_tree(LabelTree.flat(5), 8).depth == 1


def test_a_flat_tree_will_do() -> None:
    for kind in (XRTransformer, XTransformer):
        model = small(kind, ranker__max_leaf=100).fit(TEXTS, LABELS)
        assert model.tree_.depth == 1 and model.score(TEXTS, LABELS) > 0.9


def test_sample_weights_reach_both() -> None:
    weight = np.ones(48)
    weight[::2] = 0
    other = [["oven"] if w == 0 else row for w, row in zip(weight, LABELS, strict=True)]
    model = small().fit(TEXTS, other, sample_weight=weight)
    assert model.score(TEXTS, LABELS, sample_weight=weight) > 0.9


def test_explanations_name_words_and_gather_dimensions(tuned: Any) -> None:
    n_terms = tuned.vectorizer_.n_terms_
    found = tuned.explain("whale and sea and whale", "whale", top=2)
    plain = tuned.inner().explain(
        tuned._text_features(["whale and sea and whale"]), tuned.vocabulary_.id("whale"), 10_000,
        feature_names=str, label_names=tuned.vocabulary_,
    )  # fmt: skip
    assert (found.place, found.score) == (plain.place, plain.score)
    seen = set()
    for ours, theirs in zip(found.trees[0].paths[0].steps, plain.trees[0].paths[0].steps, strict=True):
        assert len(ours.positive) <= 2 and len(ours.negative) <= 2
        listed = [*theirs.positive, *theirs.negative]
        dense = sum(feature.contribution for feature in listed if feature.feature >= n_terms)
        total = sum(feature.contribution for feature in listed) + theirs.rest
        shown = [*ours.positive, *ours.negative]
        assert sum(feature.contribution for feature in shown) + ours.rest == pytest.approx(total, abs=1e-6)
        seen |= {feature.name for feature in shown}
        gathered = [feature for feature in shown if feature.name == MEANING]
        assert all(feature.contribution == pytest.approx(dense) for feature in gathered)
    assert MEANING in seen and seen - {MEANING} <= {"whale", "sea", "and"}


def test_explanations_with_examples(tuned: Any) -> None:
    found = tuned.explain("the whale", "whale", examples=(TEXTS, LABELS), n_examples=2)
    assert len(found.examples) == 2 and all("whale" in each.shared for each in found.examples)
    assert all(len(set(each.shared)) == len(each.shared) for each in found.examples)
    assert found.text() and found.html()


@pytest.mark.parametrize("encoder", ["bag", Path("bag"), None])
def test_an_ensemble_is_of_a_list_of_encoders(encoder: Any) -> None:
    with raises(ParameterError, "'encoders'"):
        XRTransformer.ensemble(BagTextEncoder(dim=8) if encoder is None else encoder)


def test_members_of_an_ensemble_begin_with_the_weights_that_were_given(tuned: Any) -> None:
    member = small(encoder=tuned.encoder_, frozen=True)
    fitted = Ensemble([member]).fit(TEXTS, LABELS).members[0]
    np.testing.assert_array_equal(fitted.embed(TEXTS), tuned.embed(TEXTS))
