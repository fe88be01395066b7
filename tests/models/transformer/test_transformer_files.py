"""XRTransformer's and XTransformer's checkpoints and folders."""

import dataclasses
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import python
from encoded_texts import LABELS, TEXTS, small
from kit.bits import bits
from kit.errors import raises
from kit.watching import calls_of, stopped

import sylvan
from sylvan import Ensemble, TfidfVectorizer, TransformerMatcher, XRLinear, XRTransformer, XTransformer, store
from sylvan.errors import ModelError, ParameterError
from sylvan.runtime.groups import block_names

pytest.importorskip("torch")

from sylvan.models.transformer import fine_tuning, training
from sylvan.neural import BagTextEncoder, embed, open_encoder
from sylvan.neural.text import bag_text_encoder
from sylvan.runtime import checkpointed


def test_ranking_with_a_cache_looks_at_the_weights_once(
    tuned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(monkeypatch, bag_text_encoder, "checksum_of_tensors")
    tuned.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model").set_params(cache=tmp_path / "vectors", device="cpu")
    for at in range(3):
        loaded.rank(TEXTS[at : at + 2], k=2)
    assert len(calls) == 1


def stored_names(folder: Path) -> set[str]:
    return {name for block in folder.glob("block*") for name in block_names(store.load(block))}


def stopped_after(n_layers: int) -> AbstractContextManager[None]:
    return stopped(fine_tuning, "train", n_layers + 1)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_resuming_gives_the_same_bits(kind: Any, tuned: Any, matched: Any, tmp_path: Path) -> None:
    expected = tuned if kind is XRTransformer else matched
    with stopped_after(1 if kind is XRTransformer else 0):
        small(kind).fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    assert (tmp_path / "work" / "training" / "manifest.json").is_file()
    with raises(ModelError, "training"):
        small(kind).fit(TEXTS[::-1], LABELS, checkpoint=tmp_path / "work")
    model = small(kind).fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    assert bits(model.rank(TEXTS, k=4)) == bits(expected.rank(TEXTS, k=4))
    assert not (tmp_path / "work").exists()


def test_embeddings_and_rankers_resume_too(tuned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    with stopped(XRLinear, "fit", 1):
        small().fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    assert "embeddings" in stored_names(tmp_path / "work")
    monkeypatch.setattr(training, "dense_features", lambda *given: 1 / 0)
    model = small().fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    monkeypatch.undo()
    assert bits(model.rank(TEXTS, k=4)) == bits(tuned.rank(TEXTS, k=4))


def test_a_checkpoint_knows_where_texts_end_and_how_an_encoder_is_trained(tmp_path: Path) -> None:
    def encoder(dropout: float) -> BagTextEncoder:
        return BagTextEncoder(dim=8, n_buckets=64, dropout=dropout)

    texts = ["whale\0", "sea", *TEXTS[2:]]
    with stopped_after(1):
        small(encoder=encoder(0.1)).fit(texts, LABELS, checkpoint=tmp_path / "work")
    for dropout, moved in ((0.5, texts), (0.1, ["whale", "\0sea", *TEXTS[2:]])):
        with raises(ModelError, "training"):
            small(encoder=encoder(dropout)).fit(moved, LABELS, checkpoint=tmp_path / "work")
    small(encoder=encoder(0.1)).fit(texts, LABELS, checkpoint=tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_checkpoint_of_another_training_is_refused_by_what_differs(tmp_path: Path) -> None:
    with stopped_after(1):
        small().fit(TEXTS, LABELS, checkpoint=tmp_path / "work")
    for change, words in (
        ({"matcher__beam": 4}, ("matcher", "beam", 20, 4)),
        ({"seed": 7}, ("seed", 0, 7)),
        ({"ranker__cost": 2.0}, ("ranker", "cost", 1.0, 2.0)),
        ({"encoder": BagTextEncoder(dim=8, n_buckets=64, seed=1)}, "encoder"),
    ):
        with raises(ModelError, tmp_path / "work", words):
            small(**change).fit(TEXTS, LABELS, checkpoint=tmp_path / "work")


def test_what_was_given_is_there_again(tmp_path: Path) -> None:
    given = small(
        vectorizer=TfidfVectorizer(ngrams=(1, 2)), matcher=TransformerMatcher(epochs=[1.0, 0.5], max_steps=3),
        ranker=XRLinear(cost=2.0), frozen=True, cache=tmp_path / "cache",
        matcher__epochs=[1.0, 0.5],
    )  # fmt: skip
    given.text_fields_ = ("title", "abstract")
    given.fit(TEXTS, LABELS).save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again.vectorizer.ngrams == (1, 2) and (again.ranker.cost, again.ranker.branching) == (2.0, 2)
    assert (again.matcher.epochs, again.matcher.max_steps) == ([1.0, 0.5], 3)
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
    with raises(ParameterError, "device"):
        again.rank(TEXTS, k=1)


def test_the_encoder_is_opened_when_it_is_needed(tmp_path: Path) -> None:
    small(encoder="bag", frozen=True, max_length=30).fit(TEXTS, LABELS).save(tmp_path / "model")
    code = "import sys; sys.modules['torch'] = None; import sylvan; print(sylvan.load(sys.argv[1]).n_labels_)"
    assert python("-c", code, tmp_path / "model", check=True).stdout == "8\n", "loaded without PyTorch"
    model = sylvan.load(tmp_path / "model")
    assert model.fitted_.encoder.opened is None
    assert model.rank(["a whale"], k=1).names == [["whale"]] and model.fitted_.encoder.opened is not None


def test_labels_change_without_opening_the_encoder(tuned: Any, tmp_path: Path) -> None:
    tuned.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model")
    first, second = loaded.vocabulary_[0], loaded.vocabulary_[1]
    changed = loaded.with_label_names({first: "another"}).without_labels([second])
    assert changed.fitted_.encoder.opened is None
    changed.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again.vocabulary_[0] == "another" and again.removed_labels_.tolist() == [1]
    assert again.rank(TEXTS, k=3).scores.tobytes() == tuned.rank(TEXTS, k=3, denied=[second]).scores.tobytes()


def test_the_saved_encoder_is_a_folder_of_its_own(tuned: Any, tmp_path: Path) -> None:
    tuned.save(tmp_path / "model")
    state = store.load(tmp_path / "model")
    assert {"encoder/config.json", "encoder/model.safetensors"} <= set(state.files)
    found = embed(open_encoder(store.need_files(state, "encoder")), TEXTS, normalize=True)
    np.testing.assert_array_equal(found, tuned.embed(TEXTS))


def test_files_that_were_altered_are_reported_when_they_are_opened(tuned: Any, tmp_path: Path) -> None:
    tuned.save(tmp_path / "model")
    (weights,) = (tmp_path / "model").rglob("model.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.unlink()
    weights.write_bytes(content)
    model = sylvan.load(tmp_path / "model")
    with raises(ModelError, "altered"):
        model.rank(TEXTS, k=1)


def test_an_encoder_of_other_dimensions_is_reported_when_it_is_opened(tuned: Any, tmp_path: Path) -> None:
    other = small(encoder=BagTextEncoder(dim=5, n_buckets=64), frozen=True).fit(TEXTS, LABELS).to_state()
    state = tuned.to_state()
    store.save(tmp_path, dataclasses.replace(state, files=other.files))
    model = sylvan.load(tmp_path)
    for _ in range(2):
        with raises(ModelError, "rankers", 5, 8):
            model.rank(TEXTS, k=1)


def test_models_whose_parts_do_not_fit_are_refused(tuned: Any) -> None:
    state = tuned.to_state()
    for change, words in (
        (lambda s: s.meta.update(n_dense=7), "The xr-transformer"),
        (lambda s: s.files.clear(), ("encoder/config.json", "file")),
        (lambda s: s.meta.pop("dense_scale"), "vectors"),
        (lambda s: s.meta.update(dense_scale=0.0), "dense_scale"),
        (lambda s: s.meta.update(term_scale=1.5), "term_scale"),
        (lambda s: s.meta.update(history=3), "history"),
        (lambda s: s.params.update(encoder={"class": "Popen", "params": {}}), "Popen"),
        (lambda s: s.params.update(vectorizer={"ngrams": 3}), "vectorizer"),
        (lambda s: s.params.update(matcher={"beam": 0}), ("matcher", "beam")),
        (lambda s: s.params.update(ranker={"width": 3}), "ranker"),
        (lambda s: s.params.update(preset="huge"), "preset"),
    ):
        params, meta = dict(state.params), dict(state.meta)
        spoiled = store.State(state.kind, state.version, params, meta, parts=state.parts, files=dict(state.files))
        change(spoiled)
        with raises((ModelError, ParameterError), words):
            XRTransformer.from_state(spoiled)


def test_without_warnings_when_nothing_is_wrong() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().fit(TEXTS, LABELS).rank(TEXTS, k=1)


def test_an_ensemble_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    """Members that are done aren't trained again, and none takes another's checkpoint for its own."""
    texts, labels = TEXTS * 3, LABELS * 3  # of fewer, there is no holdout to fit weights by

    def ensemble() -> Ensemble:
        return Ensemble([small(matcher__max_steps=1), small(seed=1, matcher__max_steps=1)], weights="fit")

    expected = ensemble().fit(texts, labels).rank(texts, k=4).scores.tobytes()
    with stopped(XRLinear, "fit", 4):  # a member of the second, that all rows train
        ensemble().fit(texts, labels, checkpoint=tmp_path / "work")
    with pytest.MonkeyPatch.context() as patch:
        layers = calls_of(patch, fine_tuning, "train")
        again = ensemble().fit(texts, labels, checkpoint=tmp_path / "work")
    assert again.rank(texts, k=4).scores.tobytes() == expected and not layers
    assert not (tmp_path / "work").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with raises(ModelError, "empty"):
        ensemble().fit(texts, labels, checkpoint=tmp_path / "mine")
    with raises(ParameterError, "checkpoint", 3):
        ensemble().fit(texts, labels, checkpoint=3)
