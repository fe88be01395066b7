"""XRTransformer and XTransformer with a network of Hugging Face's."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded_texts import LABELS, TEXTS, small
from kit.bits import same_bits
from kit.watching import calls_of

import sylvan
from sylvan import TransformerMatcher, XRLinear, XRTransformer, XTransformer
from sylvan.models.transformer.presets import PRESETS, encoder_of, kind_of

pytest.importorskip("torch")

from sylvan.neural import Engine, embed


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    from neural.text.tiny_bert import tiny_bert

    return Path(tiny_bert(tmp_path_factory.mktemp("bert") / "bert", TEXTS))


@pytest.fixture(scope="module")
def untrained(bert: Path) -> np.ndarray:
    """The vectors of the network as it is given."""
    return np.asarray(small(encoder=str(bert), max_length=16, frozen=True).fit(TEXTS, LABELS).embed(TEXTS))


def test_a_network_whatever_the_preset(bert: Path, tmp_path: Path) -> None:
    for preset, pooling in (("tiny", "mean"), ("base", "mean"), ("paper", "pooler")):
        found = encoder_of(XRTransformer(bert, preset))
        assert (kind_of(found), found.max_length, found.pooling) == ("network", 128, pooling)
    encoder_of(XRTransformer(bert)).save_pretrained(tmp_path)  # which says how it pools
    for preset in PRESETS:
        found = encoder_of(XRTransformer(tmp_path, preset))
        assert (kind_of(found), found.max_length, found.recipe.modes) == ("sentence", 128, ("mean",))
    assert encoder_of(XRTransformer(tmp_path, "paper", pooling="cls")).recipe.modes == ("cls",)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_a_small_bert_from_texts_to_a_folder_and_back(
    kind: Any, bert: Path, untrained: np.ndarray, tmp_path: Path
) -> None:
    settings = {"encoder": bert, "max_length": 16, "ranker": XRLinear(branching=4, max_leaf=4), "preset": "tiny"}
    matcher = TransformerMatcher(learning_rate=1e-3, epochs=2.0)
    model = kind(**settings, matcher=matcher, device="cpu", n_jobs=1).fit(TEXTS, LABELS)
    assert model.score(TEXTS, LABELS) > 0.9 and model.encoder_.max_length == 16
    losses = [entry["loss"] for entry in model.history_[0]["history"]["epochs"]]
    assert losses[-1] < losses[0]
    assert np.abs(model.embed(TEXTS) - untrained).max() > 1e-3, "it was trained"
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    top, expected = again.rank(TEXTS, k=3), model.rank(TEXTS, k=3)
    assert (top.labels == expected.labels).all()
    np.testing.assert_allclose(top.scores, expected.scores, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(again.embed(TEXTS), model.embed(TEXTS), atol=1e-6)
    np.testing.assert_allclose(model.embed(TEXTS[:1]), model.embed(TEXTS)[:1], atol=1e-5)


def test_a_training_leaves_the_encoder_as_it_is_asked(tmp_path: Path) -> None:
    """In evaluation mode: several threads that ask it don't meet dropout, nor does who calls it directly."""
    pytest.importorskip("transformers")
    from neural.text.tiny_bert import tiny_bert

    bert = tiny_bert(tmp_path / "bert", TEXTS, dropout=0.5)
    for holdout in (0, 4):
        model = small(encoder=str(bert), matcher__max_steps=1, max_length=16, matcher__holdout=holdout)
        encoder = model.fit(TEXTS, LABELS).encoder_
        assert not any(module.training for module in encoder.modules())
        batch = encoder.collate(encoder.tokenize(TEXTS[:4]))
        assert bool((encoder(batch) == encoder(batch)).all())


@pytest.mark.parametrize("lora_rank", [None, 2])
def test_a_model_that_recomputes_activations_is_pickled(
    lora_rank: int | None, bert: Path, untrained: np.ndarray
) -> None:
    if lora_rank is not None:
        pytest.importorskip("peft")
    params = {"max_length": 16, "matcher__lora_rank": lora_rank, "matcher__learning_rate": 1e-2}
    params |= {"matcher__gradient_checkpointing": True, "matcher__max_steps": 2}
    model = small(encoder=str(bert), **params).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.embed(TEXTS), model.embed(TEXTS))
    plain = small(encoder=str(bert), **{**params, "matcher__gradient_checkpointing": False}).fit(TEXTS, LABELS)
    np.testing.assert_allclose(model.embed(TEXTS), plain.embed(TEXTS), atol=1e-4)
    assert np.abs(model.embed(TEXTS) - untrained).max() > 1e-3, "it was trained"


def test_a_model_with_lora_is_its_files_to_the_bit_and_learns_on(
    bert: Path, untrained: np.ndarray, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    params = {"max_length": 16, "matcher__learning_rate": 1e-2}
    model = small(encoder=str(bert), matcher__lora_rank=2, **params).fit(TEXTS, LABELS)
    assert np.abs(model.embed(TEXTS) - untrained).max() > 1e-3, "it was trained"
    before, ranked = model.embed(TEXTS), model.rank(TEXTS, k=3)
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    np.testing.assert_array_equal(again.embed(TEXTS), before)
    same_bits(again.rank(TEXTS, k=3), ranked)

    further = small(encoder=model.encoder_, matcher__learning_rate=1e-2).fit(TEXTS, LABELS)
    assert np.abs(further.embed(TEXTS) - before).max() > 1e-3
    np.testing.assert_array_equal(model.embed(TEXTS), before)
    changed = dict(further.encoder_.named_parameters())
    unchanged = [name for name, weight in model.encoder_.named_parameters() if weight.equal(changed[name])]
    assert any("embeddings" in name for name in unchanged), "only LoRA's layers learn"


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_rankers_learn_from_the_vectors_that_they_are_asked_with(
    kind: Any, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the encoder was trained in: vectors in bf16 lie some 1e-2 away from those in float32."""
    ranked = calls_of(monkeypatch, kind.training, "rank")
    settings = {"encoder": str(bert), "max_length": 16, "cache": tmp_path}
    settings |= {"matcher__precision": "bf16", "matcher__epochs": 1.0}
    model = small(kind, **settings).fit(TEXTS, LABELS)
    stored = sorted(path.name for path in tmp_path.iterdir())
    assert stored
    asked, learned = model._text_features(TEXTS), ranked[0].args[2]
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(asked, name), getattr(learned, name))
    assert sorted(path.name for path in tmp_path.iterdir()) == stored, "vectors of training are read again"
    rounded = embed(model.encoder_, TEXTS, engine=Engine("cpu", "bf16"), normalize=True)
    assert np.abs(rounded - model.embed(TEXTS)).max() > 1e-3
    model.cache = None
    np.testing.assert_array_equal(model._text_features(TEXTS).data, learned.data)
