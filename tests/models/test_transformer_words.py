"""Sentences name XRTransformer or XTransformer, whose parameters were typed, and not what is made of them inside."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from encoded_texts import LABELS, TEXTS, small

from sylvan import XRLinear, XRTransformer, XTransformer
from sylvan.errors import ParameterError
from sylvan.models.transformer import matcher as deep_matching

pytest.importorskip("torch")


def _told(ask: Any, *given: Any) -> str:
    with pytest.raises(ParameterError) as error:
        ask(*given)
    return str(error.value)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"epochs": [1.0] * 9}, "The 'epochs' parameter of {} names 9 layers, but {trained} trained."),
        ({"max_steps": [1] * 9}, "The 'max_steps' parameter of {} names 9 layers, but {trained} trained."),
        ({"negatives": ["tfn"] * 9}, "The 'negatives' parameter of {} names 9 layers, but the tree has {depth}."),
        ({"combine": ["sigmoid"] * 9}, "The 'combine' parameter of {} names 9 layers, but the tree has {depth}."),
    ],
)
def test_as_many_values_as_layers_before_anything_is_learned(
    kind: Any, params: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = small(kind, frozen=True).fit(TEXTS, LABELS)
    trained = {XTransformer: "1 is", XRTransformer: f"{plain.tree_.depth} are"}[kind]
    expected = words.format(kind.__name__, trained=trained, depth=plain.tree_.depth)
    monkeypatch.setattr(deep_matching, "fine_tune", None)  # a call would fail otherwise
    assert _told(small(kind, **params).plan, TEXTS, LABELS) == expected
    model = small(kind, **params)
    assert _told(lambda: model.fit(TEXTS, LABELS, checkpoint=tmp_path / "kept")) == expected
    assert not (tmp_path / "kept").exists(), "nothing to go on from"


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"precision": "fp16"}, "The 'precision' parameter of {} is 'fp16', which needs a CUDA device"),
        ({"device": "cuda:77"}, "The 'device' parameter of {} is 'cuda:77', but PyTorch sees"),
    ],
)
def test_where_it_is_trained(kind: Any, params: dict[str, Any], words: str) -> None:
    assert _told(small(kind, **params).fit, TEXTS, LABELS).startswith(words.format(kind.__name__))


def test_what_a_network_cannot_take(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from neural.tiny_bert import tiny_bert

    from sylvan.neural import TransformerEncoder

    folder = tiny_bert(tmp_path / "bert")
    long = _told(small(encoder=folder, max_length=10**5).fit, TEXTS, LABELS)
    assert long.startswith("The 'max_length' parameter of XRTransformer must")
    lora = _told(small(XTransformer, encoder=folder, lora_rank=2, frozen=True).fit, TEXTS, LABELS)
    assert lora.startswith("The 'lora_rank' parameter of XTransformer must be None where 'frozen' is True")
    own = _told(small(encoder=TransformerEncoder(folder, max_length=10**5)).fit, TEXTS, LABELS)
    assert own.startswith("The 'max_length' parameter of TransformerEncoder must")


def test_what_was_given_keeps_its_own_name() -> None:
    assert _told(small(ranker=XRLinear(beam=0)).fit, TEXTS, LABELS).startswith("The 'beam' parameter of XRLinear must")
    given = small(ranker=XRLinear(negatives=["tfn"] * 9))
    assert _told(given.fit, TEXTS, LABELS).startswith("The 'negatives' parameter of XRLinear names 9 layers")
    both = small(ranker=XRLinear(), negatives=["tfn"] * 9)
    assert _told(both.fit, TEXTS, LABELS).startswith("The 'negatives' parameter of XRTransformer names 9 layers")


@pytest.mark.parametrize(("name", "value"), [("beam", 0), ("combine", "sum"), ("tail", "head")])
def test_what_is_set_after_the_training(name: str, value: Any, frozen: Any) -> None:
    model = copy.deepcopy(frozen).set_params(**{name: value})
    assert _told(model.rank, TEXTS, 2).startswith(f"The '{name}' parameter of XRTransformer must be")


def test_progress_says_which_layer_is_fine_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.neural.loop import training
    plain, told = training.progress, []
    monkeypatch.setattr(training, "progress", lambda title, *given: told.append(title) or plain(title, *given))
    depth = small().fit(TEXTS, LABELS).tree_.depth
    assert told == [f"Fine-tuning on layer {t + 1} of {depth}" for t in range(depth)] and depth > 1
