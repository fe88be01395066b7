"""What XRTransformer and XTransformer refuse, and where a wrong parameter stands."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded_texts import LABELS, TEXTS, small
from kit.errors import raises, warns

from sylvan import TransformerMatcher, XRLinear, XRTransformer, XTransformer
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.transformer import fine_tuning

pytest.importorskip("torch")


def test_empty_texts(frozen: Any) -> None:
    texts = ["", "  \n", *TEXTS[2:]]
    with warns(UserWarning, "empty", 2, 48):
        model = small(frozen=True).fit(texts, LABELS)
    assert np.isfinite(model.rank(["", "whale"], k=2, unknown="prior").scores).all()
    top = model.rank(["", "whale"], k=2)
    assert top.labels[0].tolist() == [-1, -1] and np.isfinite(top.scores[1]).all()
    with raises(DataError, "empty"):
        small().fit([""] * 48, LABELS)


def test_texts_past_the_length_limit_are_reported_once() -> None:
    from sylvan.neural import BagTextEncoder

    texts = ["whale " * 40, "sea " * 30, *TEXTS[2:]]
    with pytest.warns(UserWarning) as caught:
        small(frozen=True, encoder=BagTextEncoder(dim=8, n_buckets=64, max_length=20)).fit(texts, LABELS)
    words = [str(warning.message) for warning in caught]
    assert words == [
        "2 of 48 texts are longer than max_length=20 tokens: the encoder sees their beginnings only (TF-IDF sees them "
        "whole)."
    ]


def test_an_encoder_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    with raises(ModelError, tmp_path / "nowhere"):
        small(encoder=str(tmp_path / "nowhere")).fit(TEXTS, LABELS)
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with raises(ModelError, "encoder"):
        small(encoder=folder).fit(TEXTS, LABELS)


def _sentence_of(ask: Any, *given: Any) -> str:
    with pytest.raises(ParameterError) as error:
        ask(*given)
    return str(error.value)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("matcher__epochs", [1.0] * 9, "of TransformerMatcher names 9 layers, but {trained} trained."),
        ("matcher__max_steps", [1] * 9, "of TransformerMatcher names 9 layers, but {trained} trained."),
        ("ranker__negatives", ["tfn"] * 9, "of XRLinear names 9 layers, but the tree has {depth}."),
        ("ranker__combine", ["sigmoid"] * 9, "of XRLinear names 9 layers, but the tree has {depth}."),
    ],
)
def test_as_many_values_as_layers_before_anything_is_learned(
    kind: Any, name: str, value: Any, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = small(kind, frozen=True).fit(TEXTS, LABELS)
    trained = {XTransformer: "1 is", XRTransformer: f"{plain.tree_.depth} are"}[kind]
    expected = f"The '{name.partition('__')[2]}' parameter {words.format(trained=trained, depth=plain.tree_.depth)}"
    monkeypatch.setattr(fine_tuning, "FineTuning", None)  # a call would fail otherwise
    assert _sentence_of(small(kind, **{name: value}).plan, TEXTS, LABELS) == expected
    model = small(kind, **{name: value})
    assert _sentence_of(lambda: model.fit(TEXTS, LABELS, checkpoint=tmp_path / "work")) == expected
    assert not (tmp_path / "work").exists(), "nothing to go on from"


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"matcher__precision": "fp16"}, "The 'precision' parameter of TransformerMatcher is 'fp16', which needs"),
        ({"device": "cuda:77"}, "The 'device' parameter of Engine is 'cuda:77', but PyTorch sees"),
    ],
)
def test_where_it_is_trained(kind: Any, params: dict[str, Any], words: str) -> None:
    assert _sentence_of(small(kind, **params).fit, TEXTS, LABELS).startswith(words)


def test_what_a_network_cannot_take(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from neural.text.tiny_bert import tiny_bert

    from sylvan.neural import TransformerEncoder

    folder = tiny_bert(tmp_path / "bert")
    long = _sentence_of(small(encoder=folder, max_length=10**5).fit, TEXTS, LABELS)
    assert long.startswith("The 'max_length' parameter of TransformerEncoder must")
    lora = _sentence_of(small(XTransformer, encoder=folder, matcher__lora_rank=2, frozen=True).fit, TEXTS, LABELS)
    assert lora.startswith("The 'lora_rank' parameter of TransformerEncoder must be None where 'frozen' is True")
    own = _sentence_of(small(encoder=TransformerEncoder(folder, max_length=10**5)).fit, TEXTS, LABELS)
    assert own.startswith("The 'max_length' parameter of TransformerEncoder must")


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize(
    ("params", "owner"),
    [
        ({"ranker": XRLinear(beam=0)}, "XRLinear"), ({"ranker__beam": 0}, "XRLinear"),
        ({"matcher": TransformerMatcher(beam=0)}, "TransformerMatcher"), ({"matcher__beam": 0}, "TransformerMatcher"),
    ],
)  # fmt: skip
def test_where_it_stands(kind: Any, params: dict[str, Any], owner: str) -> None:
    (part,) = {name.partition("__")[0] for name in params}
    said = _sentence_of(small(kind, **params).fit, TEXTS, LABELS)
    assert said.startswith(f"The 'beam' parameter of {owner} must be an int in [1, ")
    assert said.endswith(f"Got 0 instead. This {owner} is the '{part}' of {kind.__name__}.")


@pytest.mark.parametrize(("name", "value"), [("beam", 0), ("combine", "sum"), ("tail", "head")])
def test_what_is_set_after_the_training(name: str, value: Any, frozen: Any) -> None:
    model = copy.deepcopy(frozen).set_params(**{f"ranker__{name}": value})
    assert _sentence_of(model.rank, TEXTS, 2).startswith(f"The '{name}' parameter of XRLinear must be")


def test_progress_says_which_layer_is_fine_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.neural.loop import training

    plain, titles = training.progress, []
    monkeypatch.setattr(training, "progress", lambda title, *given: titles.append(title) or plain(title, *given))
    depth = small().fit(TEXTS, LABELS).tree_.depth
    assert titles == [f"Fine-tuning on layer {t + 1} of {depth}" for t in range(depth)] and depth > 1
