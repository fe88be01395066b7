"""XRTransformer and XTransformer: features, layers, presets, refusals, checkpoints, ensembles, files."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sylvan
from sylvan import Ensemble, LabelTree, TfidfVectorizer, XRLinear, XRTransformer, XTransformer, store
from sylvan.errors import DataError, MemoryLimitError, ModelError, NotFittedError, ParameterError
from sylvan.models.dense_explanation import MEANING
from sylvan.models.transformer_plan import EncoderSizes, memory_words
from sylvan.models.transformer_presets import (
    CONSTRAINTS,
    PRESETS,
    deep_settings,
    encoder_of,
    kind_of,
    ranker_of,
    value_of,
    vectorizer_of,
)

pytest.importorskip("torch")

WORDS = ("whale", "sea", "bread", "oven", "law", "court", "star", "moon")
TEXTS = [f"{WORDS[i % 8]} {WORDS[(i * 3 + 1) % 8]} {WORDS[i % 8]} common words" for i in range(48)]
LABELS = [[WORDS[i % 8]] + ([WORDS[(i * 3 + 1) % 8]] if i % 3 == 0 else []) for i in range(48)]


def small(kind: Any = XRTransformer, **params: Any) -> Any:
    from sylvan.neural import BagTextEncoder

    own = {"encoder": BagTextEncoder(dim=8, n_buckets=64), "preset": "tiny", "branching": 2, "max_leaf": 2}
    return kind(**{**own, "epochs": 2.0, "dense_scale": 1.0, "n_jobs": 1, "device": "cpu", **params})


@pytest.fixture(scope="module")
def frozen() -> Any:
    return small(frozen=True).fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def tuned() -> Any:
    return small().fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def matched() -> Any:
    return small(XTransformer).fit(TEXTS, LABELS)


# ---------------------------------------- what is learned


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_frozen_is_xr_linear_over_words_and_vectors(scale: float) -> None:
    model = small(frozen=True, dense_scale=scale).fit(TEXTS, LABELS)
    dense = model.embed(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1, rtol=1e-5)
    X = sp.hstack([model.vectorizer_.transform(TEXTS), sp.csr_matrix(dense * np.float32(scale))]).tocsr()
    Y = model.vocabulary_.encode(LABELS)
    twin = XRLinear(tree=model.tree_, n_jobs=1).fit(X, Y)
    ours, theirs = model.rank(TEXTS, k=5), twin.rank(X, k=5)
    assert ours.labels.tobytes() == theirs.labels.tobytes() and ours.scores.tobytes() == theirs.scores.tobytes()


def test_the_tree_is_made_of_the_words_alone(frozen: Any, tuned: Any) -> None:
    X = frozen.vectorizer_.transform(TEXTS)
    expected = XRLinear(branching=2, max_leaf=2, n_jobs=1).fit(X, frozen.vocabulary_.encode(LABELS)).tree_
    assert frozen.tree_ == tuned.tree_ == expected


def test_each_layer_is_trained_from_coarse_to_fine(tuned: Any) -> None:
    assert [record["layer"] for record in tuned.history_] == list(range(tuned.tree_.depth))
    for record in tuned.history_:
        losses = [entry["loss"] for entry in record["history"]["epochs"]]
        assert losses[-1] < losses[0]
    assert tuned.rank(["the whale in the sea"], k=2).names == [["whale", "sea"]] or tuned.score(TEXTS, LABELS) > 0.9


def test_layers_of_too_many_nodes_are_only_ranked() -> None:
    model = small(max_nodes=4).fit(TEXTS, LABELS)
    sizes = model.tree_.layer_sizes
    assert [record["layer"] for record in model.history_] == [t for t, size in enumerate(sizes) if size <= 4]
    assert max(sizes) > 4


def test_fine_tuning_changes_a_copy_of_what_was_given() -> None:
    from sylvan.neural import BagTextEncoder

    encoder = BagTextEncoder(dim=8, n_buckets=64).load()
    before = copy.deepcopy(encoder.state_dict())
    model = small(encoder=encoder).fit(TEXTS, LABELS)
    assert all((encoder.state_dict()[name] == value).all() for name, value in before.items())
    assert not all((model.encoder_.state_dict()[name] == value).all() for name, value in before.items())


def test_x_transformer_matches_clusters_by_the_encoder(matched: Any) -> None:
    tree = matched.tree_
    assert tree.depth == 2 and [record["layer"] for record in matched.history_] == [0]
    rows = matched.ranker_.layers_[0].cluster(0)
    table = np.zeros((matched.n_features_, tree.layer_sizes[0]), np.float32)
    at = np.repeat(rows.features, rows.lengths)
    table[at, rows.children] = rows.weights
    n_terms = matched.vectorizer_.n_terms_
    assert not table[:n_terms].any(), "words have no say in which cluster it is"
    scores = matched.embed(TEXTS) @ table[n_terms:] + rows.intercepts
    cluster_of = np.empty(tree.n_labels, int)
    cluster_of[tree.leaf_labels] = tree.parents(1)
    best = matched.rank(TEXTS, k=1, beam=1).labels[:, 0]
    bounded = np.minimum(scores, 1)  # beyond the margin one cluster is as good as another
    chosen = bounded[np.arange(len(best)), cluster_of[best]]
    np.testing.assert_allclose(chosen, bounded.max(axis=1), rtol=1e-5)


def test_x_transformer_with_scaled_vectors_matches_alike(matched: Any) -> None:
    scaled = small(XTransformer, dense_scale=4.0).fit(TEXTS, LABELS)
    ours, theirs = scaled.ranker_.layers_[0].cluster(0), matched.ranker_.layers_[0].cluster(0)
    np.testing.assert_allclose(ours.weights * 4, theirs.weights, rtol=1e-5)


def test_the_last_layer_that_is_not_too_large_is_x_transformers_clusters() -> None:
    tree = LabelTree.random(50, branching=2, max_leaf=3)
    expected = max(size for size in tree.layer_sizes[:-1] if size <= 8)
    shaped = small(XTransformer, max_nodes=8)._shaped(tree)
    assert shaped.layer_sizes == (expected, 50) and (shaped.leaf_labels == tree.leaf_labels).all()
    at = tree.layer_sizes.index(expected)
    above = np.arange(50)
    for t in range(tree.depth - 1, at, -1):
        above = tree.parents(t)[above]
    assert (shaped.parents(1) == above).all() and at < tree.depth - 2
    assert small(XTransformer)._shaped(LabelTree.flat(5)).depth == 1


def test_a_flat_tree_will_do() -> None:
    for kind in (XRTransformer, XTransformer):
        model = small(kind, max_leaf=100).fit(TEXTS, LABELS)
        assert model.tree_.depth == 1 and model.score(TEXTS, LABELS) > 0.9


def test_sample_weights_reach_both() -> None:
    weight = np.ones(48)
    weight[::2] = 0
    other = [["oven"] if w == 0 else row for w, row in zip(weight, LABELS, strict=True)]
    model = small().fit(TEXTS, other, sample_weight=weight)
    assert model.score(TEXTS, LABELS, sample_weight=weight) > 0.9


# ---------------------------------------- parameters


def test_presets_and_parameters_before_them() -> None:
    assert deep_settings(XRTransformer(), "network").batch_size == PRESETS["base"]["batch_size"]
    assert deep_settings(XRTransformer(batch_size=7, deep_beam=3), "bag").batch_size == 7
    assert deep_settings(XRTransformer(deep_beam=3), "sentence").beam == 3
    assert deep_settings(XRTransformer(preset="paper"), "bag").epochs == PRESETS["paper"]["epochs"]
    assert ranker_of(XRTransformer()).negatives == "paper"
    assert ranker_of(XRTransformer(ranker=XRLinear(cost=3, beam=7), beam=9)).get_params()["cost"] == 3
    assert ranker_of(XRTransformer(ranker=XRLinear(cost=3, beam=7), beam=9)).beam == 9
    assert vectorizer_of(XRTransformer()).sublinear_tf and not vectorizer_of(XRTransformer(preset="tiny")).sublinear_tf
    assert vectorizer_of(XRTransformer(vectorizer=TfidfVectorizer(ngrams=(1, 2)))).ngrams == (1, 2)


@pytest.mark.parametrize(("preset", "rate"), [("tiny", 1e-4), ("base", 1e-4), ("paper", 5e-5)])
def test_a_kind_of_encoder_has_its_own_rates(preset: str, rate: float) -> None:
    model = XRTransformer(preset=preset)
    for kind in ("network", "sentence"):
        found = deep_settings(model, kind)
        assert (found.learning_rate, found.label_learning_rate) == (rate, 0.01)
    bag = deep_settings(model, "bag")
    assert (bag.learning_rate, bag.row_learning_rate, bag.label_learning_rate) == (0.005, 0.3, 0.15)
    scale = PRESETS[preset]["dense_scale"]
    assert [value_of(model, "dense_scale", kind) for kind in ("bag", "network", "sentence")] == [0.05, scale, scale]
    told = deep_settings(XRTransformer(preset=preset, label_learning_rate=0.5, learning_rate=0.25), "bag")
    assert (told.label_learning_rate, told.learning_rate) == (0.5, 0.25)


@pytest.mark.parametrize("preset", ["tiny", "base", "paper"])
def test_a_bag_whatever_the_preset(preset: str, tmp_path: Path) -> None:
    from sylvan.neural import BagTextEncoder

    BagTextEncoder(dim=4, n_buckets=32, max_length=7).save_pretrained(tmp_path)
    new, old = encoder_of(XRTransformer("bag", preset)), encoder_of(XRTransformer(tmp_path, preset))
    assert kind_of(new) == kind_of(old) == "bag"
    assert (old.dim_out, old.max_length) == (4, 7), "its folder says"
    assert (new.dim_out, new.max_length) == (64 if preset == "tiny" else BagTextEncoder().dim, 256)
    assert encoder_of(XRTransformer(tmp_path, preset, max_length=5)).max_length == 5
    assert encoder_of(XRTransformer("bag", preset, max_length=5)).max_length == 5


@pytest.mark.parametrize("encoder", ["bag", "folder", "object"])
@pytest.mark.parametrize("name", ["pooling", "lora_rank", "gradient_checkpointing", "max_length"])
def test_what_an_encoder_cannot_take_is_refused(encoder: str, name: str, tmp_path: Path) -> None:
    from sylvan.neural import BagTextEncoder

    given: Any = encoder
    if encoder != "bag":
        given = BagTextEncoder(dim=8, n_buckets=64)
    if encoder == "folder":
        given.save_pretrained(tmp_path)
        given = tmp_path
    told = {"pooling": "cls", "lora_rank": 2, "gradient_checkpointing": True, "max_length": 9}[name]
    model = small(encoder=given, **{name: told})
    if name == "max_length" and encoder != "object":
        assert encoder_of(model).max_length == 9
        return
    words = "given as a BagTextEncoder has its own parameters" if encoder == "object" else "takes no pooling"
    with pytest.raises(ParameterError, match=words):
        model.fit(TEXTS, LABELS)


def test_ranges_are_those_of_what_they_are_handed_to() -> None:
    from sylvan.models.deep_settings import DeepSettings

    names = {"deep_beam": "beam"}
    for name in ("learning_rate", "row_learning_rate", "label_learning_rate", "batch_size", "warmup", "deep_beam",
                 "relevance", "negative_cost", "refresh", "held_out", "patience"):  # fmt: skip
        theirs, ours = DeepSettings.constraints[names.get(name, name)], CONSTRAINTS[name]
        for value in (0, 0.0, 1, 1.5, -1, "l1", "none", "x", 10**6):
            assert ours.accepts(value) == theirs.accepts(value), (name, value)
    for name in ("branching", "max_leaf", "beam", "negatives", "combine", "threshold", "calibration"):
        for value in (0, 1, 2, 0.5, -1, "tfn", ["tfn", "man"], "paper", "platt"):
            assert CONSTRAINTS[name].accepts(value) == XRLinear.constraints[name].accepts(value), (name, value)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"preset": "huge"}, "'preset' parameter of XRTransformer must be one of 'tiny', 'base', 'paper'"),
        ({"encoder": 3}, "'encoder' parameter of XRTransformer must be 'bag', the path of a folder"),
        ({"epochs": [1.0, -1.0]}, "'epochs' parameter of XRTransformer must be a float in"),
        ({"max_length": 0}, "'max_length' parameter"),
        ({"device": "GPU 1"}, "'device' parameter of XRTransformer must be 'auto', 'cpu', 'cuda'"),
        ({"dense_scale": 0}, "'dense_scale' parameter"),
        ({"ranker": 3}, "'ranker' parameter of XRTransformer must be an XRLinear"),
        ({"cache": 3}, "'cache' parameter of XRTransformer must be the path of a folder"),
        ({"max_leaf": 0}, "'max_leaf' parameter of XRTransformer"),
        ({"epochs": [1.0, 2.0]}, "names 2 layers"),
    ],
)
def test_parameters_out_of_range(params: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        small(**params).fit(TEXTS, LABELS)


@pytest.mark.parametrize(("name", "value"), [("deep_beam", 20), ("refresh", 100)])
def test_what_one_layer_of_clusters_has_no_use_for_is_refused(name: str, value: int) -> None:
    """The clusters hang on the root: all are candidates of every text, and nothing above them is searched."""
    words = (
        f"'{name}' parameter of XTransformer must be None, as every cluster is a candidate of every text. Got {value}"
    )
    with pytest.raises(ParameterError, match=words):
        small(XTransformer, **{name: value}).fit(TEXTS, LABELS)
    small(XTransformer, **{name: None}).check_params()
    small(XRTransformer, **{name: value}).check_params()


def test_a_beam_that_is_set_later_counts(tuned: Any) -> None:
    narrow = copy.deepcopy(tuned).set_params(beam=1)
    assert narrow.rank(TEXTS, k=3).labels.tobytes() == tuned.rank(TEXTS, k=3, beam=1).labels.tobytes()
    assert narrow.rank(TEXTS, k=3).labels.tobytes() != tuned.rank(TEXTS, k=3).labels.tobytes()


# ---------------------------------------- bad input


def test_what_is_no_text_is_refused(frozen: Any) -> None:
    for call in (lambda X: small().fit(X, LABELS), frozen.rank, frozen.embed):
        with pytest.raises(DataError, match=r"XRTransformer takes a list of strings\. Got a matrix of numbers instead"):
            call(np.eye(48))
        with pytest.raises(DataError, match=r"XRTransformer takes a list of strings\. Got a matrix of numbers instead"):
            call(sp.eye(48).tocsr())
        with pytest.raises(DataError, match=r"texts must be strings\. Got int in row 1 instead"):
            call(["one", 2] + ["three"] * 46)
        with pytest.raises(DataError, match="Got one string instead"):
            call("one text")


def test_labels_with_no_text() -> None:
    with pytest.raises(DataError, match="There are 46 texts, but the labels of 48"):
        small().fit(TEXTS[:-2], LABELS)
    with pytest.raises(DataError, match="No text has a label: there is nothing to learn"):
        small().fit(TEXTS, [[]] * 48)


def test_empty_texts(frozen: Any) -> None:
    texts = ["", "  \n", *TEXTS[2:]]
    with pytest.warns(UserWarning, match="2 of 48 texts with labels are empty"):
        model = small(frozen=True).fit(texts, LABELS)
    assert np.isfinite(model.rank(["", "whale"], k=2).scores).all()
    with pytest.raises(DataError, match="All 48 texts that have labels are empty"):
        small().fit([""] * 48, LABELS)


def test_texts_past_the_length_limit_are_told_once() -> None:
    from sylvan.neural import BagTextEncoder

    texts = ["whale " * 40, "sea " * 30, *TEXTS[2:]]
    with pytest.warns(UserWarning) as told:
        small(frozen=True, encoder=BagTextEncoder(dim=8, n_buckets=64, max_length=20)).fit(texts, LABELS)
    words = [str(warning.message) for warning in told]
    assert words == [
        "2 of 48 texts are longer than max_length=20 tokens: the encoder sees their beginnings only (TF-IDF sees them "
        "whole)."
    ]


def test_an_encoder_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"local folder|no folder|not.*folder|can't be"):
        small(encoder=str(tmp_path / "nowhere")).fit(TEXTS, LABELS)
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="encoder"):
        small(encoder=folder).fit(TEXTS, LABELS)


def test_too_little_memory_is_told_beforehand_with_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.models import transformer_plan

    monkeypatch.setattr(transformer_plan, "available_bytes", lambda: 1000)
    with pytest.raises(MemoryLimitError) as refused:
        small().fit(TEXTS, LABELS)
    for words in ("of memory, but there are only", "frozen=True", "a smaller encoder", "force=True"):
        assert words in str(refused.value)
    small().fit(TEXTS, LABELS, force=True)


def test_running_out_of_memory_on_the_way_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from sylvan.neural import BagTextEncoder

    def forward(self: Any, batch: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(BagTextEncoder, "forward", forward)
    for frozen in (True, False):
        with pytest.raises(MemoryLimitError, match=r"ran out of memory on .*CUDA out of memory.*max_length"):
            small(frozen=frozen).fit(TEXTS, LABELS)


def test_devices_that_are_not_there(frozen: Any) -> None:
    model = copy.deepcopy(frozen).set_params(device="cuda:77")
    with pytest.raises(ParameterError, match=r"'device' parameter must be a device that this PyTorch sees\. Got"):
        model.rank(TEXTS, k=1)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_ranking_is_by_what_was_fitted(kind: Any, tmp_path: Path) -> None:
    model = small(kind, frozen=True).fit(TEXTS, LABELS)
    before = model.rank(TEXTS, k=4).scores.tobytes()
    model.set_params(dense_scale=5.0, vectorizer=TfidfVectorizer(norm=None), preset="base", ranker=XRLinear(cost=9.0))
    assert model.rank(TEXTS, k=4).scores.tobytes() == before
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again.rank(TEXTS, k=4).scores.tobytes() == before
    assert (again.dense_scale, again.preset) == (5.0, "base") and again.dense_scale_ == model.dense_scale_ != 5.0
    assert again.fit(TEXTS, LABELS).dense_scale_ == 5.0
    assert again.rank(TEXTS, k=4).scores.tobytes() != before


@pytest.mark.parametrize("device", ["mps", "xpu:1"])
def test_devices_that_only_encode(device: str) -> None:
    with pytest.raises(ParameterError, match="must be 'auto', 'cpu' or 'cuda' where the encoder is trained"):
        small(device=device).fit(TEXTS, LABELS)


def test_ranking_with_a_cache_looks_at_the_weights_once(
    tuned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sylvan.neural import bag_text_encoder

    calls, checksum = [], bag_text_encoder.checksum_of_tensors
    monkeypatch.setattr(bag_text_encoder, "checksum_of_tensors", lambda *given: calls.append(1) or checksum(*given))
    tuned.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model").set_params(cache=tmp_path / "vectors", device="cpu")
    for at in range(3):
        loaded.rank(TEXTS[at : at + 2], k=2)
    assert len(calls) == 1


def test_a_failed_fit_leaves_no_half_model() -> None:
    model = small()
    with pytest.raises(DataError):
        model.fit(TEXTS, LABELS[:-1])
    with pytest.raises(NotFittedError):
        _ = model.encoder_


# ---------------------------------------- plans


def test_plan_and_report_name_the_parts() -> None:
    lines: list[str] = []
    small().fit(TEXTS, LABELS, report=lines.append)
    assert len(lines) == 1
    assert all(words in lines[0] for words in ("encoder", "its training", "node vectors", "embeddings"))
    for kind in (XRTransformer, XTransformer):
        plan = small(kind).plan(TEXTS, LABELS)
        assert plan.fits and plan.seconds > 0
        assert {"features", "its training", "node vectors", "embeddings", "rankers"} <= {p.name for p in plan.phases}
        model = small(kind).fit(TEXTS, LABELS)
        size = sum(array.nbytes for array in model.encoder_.state_dict().values())
        assert size < plan.model_bytes < size + 100_000
    assert not any(phase.name == "its training" for phase in small(frozen=True).plan(TEXTS, LABELS).phases)


def test_a_plan_counts_the_steps_that_training_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.models.deep_settings import DeepSettings

    counted: list[int] = []
    steps = DeepSettings.steps
    monkeypatch.setattr(DeepSettings, "steps", lambda *given: counted.append(steps(*given)) or counted[-1])
    model = small(accumulate=3)
    model.plan(TEXTS, LABELS)
    planned = counted.copy()
    counted.clear()
    model.fit(TEXTS, LABELS)
    assert planned == counted and len(planned) > 0


def test_the_memory_of_670_000_labels() -> None:
    """Amazon-670K with a MiniLM of 22.7 million weights, by hand."""
    sizes = EncoderSizes(
        n_rows=490_449, n_tokens=490_449 * 128, n_weights=22_700_000, n_trained=22_700_000, n_table=0, n_wide=0,
        n_dense=384, batch_tokens=32 * 128, layer_sizes=(16, 256, 6701, 670_091),
    )  # fmt: skip
    found = sizes.bytes()
    assert found["encoder"] == 90_800_000
    assert found["its training"] == 4 * 90_800_000
    assert found["node vectors"] == 4 * 384 * (16 + 256 + 6701 + 670_091 + 3 * 670_091)
    assert found["embeddings"] == 490_449 * 384 * 12 + 4 * 490_449 * 128
    assert sizes.total == sum(found.values())
    words = "about 7.1 GB of memory: encoder 90.8 MB, its training 363.2 MB, node vectors 4.1 GB, embeddings 2.5 GB"
    assert words in memory_words(sizes)


# ---------------------------------------- explanations


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


# ---------------------------------------- checkpoints


def interrupted_after(monkeypatch: pytest.MonkeyPatch, n_layers: int) -> None:
    from sylvan.models import deep_matching

    train, calls = deep_matching.train, []

    def stop(*given: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) > n_layers:
            raise KeyboardInterrupt
        return train(*given, **options)

    monkeypatch.setattr(deep_matching, "train", stop)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_resuming_gives_the_same_bits(kind: Any, tuned: Any, matched: Any, tmp_path: Path) -> None:
    from contract.suite import bits

    expected = tuned if kind is XRTransformer else matched
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(patch, 1 if kind is XRTransformer else 0)
        with pytest.raises(KeyboardInterrupt):
            small(kind).fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    assert (tmp_path / "work" / "training" / "manifest.json").is_file()
    with pytest.raises(ModelError, match="is of another training"):
        small(kind).fit(TEXTS[::-1], LABELS, checkpoint=tmp_path / "work")
    model = small(kind).fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    assert bits(model.rank(TEXTS, k=4)) == bits(expected.rank(TEXTS, k=4))
    assert not (tmp_path / "work").exists()


def test_embeddings_and_rankers_resume_too(tuned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from contract.suite import bits

    from sylvan.models import kept_parts
    from sylvan.models import transformer_training as training

    monkeypatch.setattr(kept_parts, "SECONDS", 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(XRLinear, "fit", lambda *given, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            small().fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    assert (tmp_path / "work" / "embeddings").is_dir()
    monkeypatch.setattr(training, "dense_features", lambda *given: 1 / 0)
    model = small().fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    monkeypatch.undo()
    assert bits(model.rank(TEXTS, k=4)) == bits(tuned.rank(TEXTS, k=4))


def test_a_checkpoint_must_be_a_path() -> None:
    with pytest.raises(ParameterError, match="'checkpoint' parameter of fit"):
        small().fit(TEXTS, LABELS, checkpoint=3)


# ---------------------------------------- a network of Hugging Face's


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    from neural.tiny_bert import tiny_bert

    return Path(tiny_bert(tmp_path_factory.mktemp("bert") / "bert", TEXTS))


def test_a_network_whatever_the_preset(bert: Path, tmp_path: Path) -> None:
    for preset, pooling in (("tiny", "mean"), ("base", "mean"), ("paper", "cls")):
        found = encoder_of(XRTransformer(bert, preset))
        assert (kind_of(found), found.max_length, found.pooling) == ("network", 128, pooling)
    encoder_of(XRTransformer(bert)).save_pretrained(tmp_path)  # which says how it pools
    for preset in PRESETS:
        found = encoder_of(XRTransformer(tmp_path, preset))
        assert (kind_of(found), found.max_length, found._steps.modes) == ("sentence", 128, ("mean",))
    assert encoder_of(XRTransformer(tmp_path, "paper", pooling="cls"))._steps.modes == ("cls",)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_a_small_bert_from_texts_to_a_folder_and_back(kind: Any, bert: Path, tmp_path: Path) -> None:
    settings = {"encoder": bert, "learning_rate": 1e-3, "epochs": 2.0, "max_length": 16, "branching": 4, "max_leaf": 4}
    model = kind(**settings, preset="tiny", device="cpu", n_jobs=1).fit(TEXTS, LABELS)
    assert model.score(TEXTS, LABELS) > 0.9 and model.encoder_.max_length == 16
    losses = [entry["loss"] for entry in model.history_[0]["history"]["epochs"]]
    assert losses[-1] < losses[0]
    plain = kind(**settings, preset="tiny", frozen=True, device="cpu", n_jobs=1).fit(TEXTS, LABELS)
    assert np.abs(model.embed(TEXTS) - plain.embed(TEXTS)).max() > 1e-3, "it was trained"
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    top, expected = again.rank(TEXTS, k=3), model.rank(TEXTS, k=3)
    assert (top.labels == expected.labels).all()
    np.testing.assert_allclose(top.scores, expected.scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(again.embed(TEXTS), model.embed(TEXTS), atol=1e-6)
    np.testing.assert_allclose(model.embed(TEXTS[:1]), model.embed(TEXTS)[:1], atol=1e-5)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_rankers_learn_from_the_vectors_that_they_are_asked_with(
    kind: Any, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the encoder was trained in: vectors in bf16 lie some 1e-2 away from those in float32."""
    from sylvan.neural import Engine, embed

    learned: list[Any] = []
    ranked = kind._ranked
    monkeypatch.setattr(kind, "_ranked", lambda self, *given: learned.append(given[2]) or ranked(self, *given))
    settings = {"encoder": str(bert), "precision": "bf16", "epochs": 1.0, "max_length": 16, "cache": tmp_path}
    model = small(kind, **settings).fit(TEXTS, LABELS)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept
    asked = model._text_features(TEXTS)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(asked, name), getattr(learned[0], name))
    assert sorted(path.name for path in tmp_path.iterdir()) == kept, "vectors of training are found again"
    rounded = embed(model.encoder_, TEXTS, engine=Engine("cpu", "bf16"), normalize=True)
    assert np.abs(rounded - model.embed(TEXTS)).max() > 1e-3
    model.cache = None
    np.testing.assert_array_equal(model._text_features(TEXTS).data, learned[0].data)


def test_the_fine_tuned_encoder_is_sentence_transformers_too(bert: Path, tmp_path: Path) -> None:
    sentences = pytest.importorskip("sentence_transformers")
    model = small(encoder=str(bert), epochs=1.0, max_length=16).fit(TEXTS, LABELS)
    model.encoder_.save_pretrained(tmp_path / "encoder")
    theirs = sentences.SentenceTransformer(str(tmp_path / "encoder"), device="cpu")
    found = theirs.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(found, model.embed(TEXTS), atol=1e-5)


# ---------------------------------------- ensembles


def test_an_ensemble_of_encoders_and_seeds(tmp_path: Path) -> None:
    from sylvan.neural import BagTextEncoder

    encoders = [BagTextEncoder(dim=8, n_buckets=64), BagTextEncoder(dim=4, n_buckets=64)]
    three = XTransformer.ensemble(encoders, seeds=(0, 1), preset="tiny", epochs=3.0, max_leaf=2, n_jobs=1)
    assert isinstance(three, Ensemble) and [member.seed for member in three.members] == [0, 1, 0, 1]
    assert all(isinstance(member, XTransformer) for member in three.members)
    fitted = three.fit(TEXTS, LABELS)
    assert fitted.score(TEXTS, LABELS) > 0.9 and fitted.members[0].tree_.n_labels == 8
    top = fitted.rank(TEXTS[:5], k=3, beam=2)
    fitted.save(tmp_path / "both")
    again = sylvan.load(tmp_path / "both").rank(TEXTS[:5], k=3, beam=2)
    assert again.scores.tobytes() == top.scores.tobytes()
    assert fitted.explain("the whale", "whale").trees


def test_members_of_an_ensemble_begin_with_the_weights_that_were_given(tuned: Any) -> None:
    member = small(encoder=tuned.encoder_, frozen=True)
    fitted = Ensemble([member]).fit(TEXTS, LABELS).members[0]
    np.testing.assert_array_equal(fitted.embed(TEXTS), tuned.embed(TEXTS))


# ---------------------------------------- files


def test_what_was_given_is_there_again(tmp_path: Path) -> None:
    given = small(
        vectorizer=TfidfVectorizer(ngrams=(1, 2)), ranker=XRLinear(cost=2.0), frozen=True, cache=tmp_path / "cache"
    )
    given.text_fields_ = ("title", "abstract")
    given.fit(TEXTS, LABELS).save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again.vectorizer.ngrams == (1, 2) and again.ranker.cost == 2.0
    assert again.text_fields_ == ("title", "abstract")
    assert again.cache is None  # a folder of the machine that the model was fitted on
    assert (again.n_dense_, again.n_rows_, again.history_) == (8, 48, [])
    assert again.fit(TEXTS, LABELS).rank(TEXTS, k=3).scores.tobytes() == given.rank(TEXTS, k=3).scores.tobytes()


def test_a_model_of_another_machine_s_gpu_ranks_here(frozen: Any, tmp_path: Path) -> None:
    frozen.save(tmp_path / "model")
    state = store.load(tmp_path / "model")
    assert state.params["device"] == "auto", "nor does a manifest name the device that the model was fitted on"
    state.params["device"] = "cuda:7"  # as releases before wrote it
    store.save(tmp_path / "other", state)
    again = sylvan.load(tmp_path / "other")
    assert again.device == "auto"
    assert again.set_params(device="cpu").rank(TEXTS, k=3).names == frozen.rank(TEXTS, k=3).names
    again.set_params(device="cuda:7")
    with pytest.raises(ParameterError, match="device"):
        again.rank(TEXTS, k=1)


def test_the_encoder_is_opened_when_it_is_needed(tmp_path: Path) -> None:
    small(encoder="bag", frozen=True, max_length=30).fit(TEXTS, LABELS).save(tmp_path / "model")
    code = (
        "import sys, sylvan; model = sylvan.load(sys.argv[1]); "
        "assert 'torch' not in sys.modules and model.n_labels_ == 8; "
        "print(model.rank(['a whale'], k=1).names, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True)
    assert done.stdout.strip() == "[['whale']] True", done.stderr


def test_the_saved_encoder_is_a_folder_of_its_own(tuned: Any, tmp_path: Path) -> None:
    from sylvan.neural import embed, open_encoder

    tuned.save(tmp_path / "model")
    state = store.load(tmp_path / "model")
    assert {"encoder/config.json", "encoder/model.safetensors"} <= set(state.files)
    found = embed(open_encoder(store.need_files(state, "encoder")), TEXTS, normalize=True)
    np.testing.assert_array_equal(found, tuned.embed(TEXTS))


def test_files_that_were_altered_are_told_when_they_are_opened(tuned: Any, tmp_path: Path) -> None:
    tuned.save(tmp_path / "model")
    (weights,) = (tmp_path / "model").rglob("model.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.unlink()
    weights.write_bytes(content)
    model = sylvan.load(tmp_path / "model")
    with pytest.raises(ModelError, match="altered or damaged"):
        model.rank(TEXTS, k=1)


def test_models_whose_parts_do_not_fit_are_refused(tuned: Any) -> None:
    state = tuned.to_state()
    for change, words in (
        (lambda s: s.meta.update(n_dense=7), "don't make the ranker's"),
        (lambda s: s.files.clear(), "needs the file 'encoder/config.json'"),
        (lambda s: s.meta.pop("dense_scale"), r"how long its encoder's vectors are.*Train it again"),
        (lambda s: s.meta.update(dense_scale=0.0), "'dense_scale' of the xr-transformer must be a number"),
        (lambda s: s.meta.update(history=3), "'history' must be a list of layers"),
        (lambda s: s.params.update(encoder={"class": "Popen", "params": {}}), "no encoder of the class 'Popen'"),
        (lambda s: s.params.update(vectorizer={"ngrams": 3}), "its 'vectorizer' can't be made"),
        (lambda s: s.params.update(preset="huge"), "'preset' parameter"),
    ):
        params, meta = dict(state.params), dict(state.meta)
        spoiled = store.State(state.kind, 1, params, meta, parts=state.parts, files=dict(state.files))
        change(spoiled)
        with pytest.raises((ModelError, ParameterError), match=words):
            XRTransformer.from_state(spoiled)


def test_without_warnings_when_nothing_is_wrong() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().fit(TEXTS, LABELS).rank(TEXTS, k=1)
