"""What stands for the parts and parameters of XRTransformer and XTransformer that aren't given, by preset."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sylvan.errors import ParameterError
from sylvan.models.transformer.paper_presets import PAPER
from sylvan.models.transformer.transformer_matcher import TransformerMatcher
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params.fields import Parameterized
from sylvan.text import TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.neural import TextEncoder

PARTS: Mapping[str, type[Parameterized]] = MappingProxyType({
    "vectorizer": TfidfVectorizer, "matcher": TransformerMatcher, "ranker": XRLinear,
})  # fmt: skip
# By preset, or by preset and kind of model: the encoder, the length of its vectors, and of each part the parameters
# that aren't at their default. What is said of one kind of encoder alone stands under the kind's name.
# Features and negatives, and scores: the encoder has seen the rows that would calibrate them.
_AS_THEY_ARE = {"scaling": "none", "negative_cost": 1.0, "man_threshold": 0.0, "calibration": None}
Preset = Literal["tiny", "base", "paper"]
PRESETS: Mapping[Preset, Mapping[str, Any]] = MappingProxyType({
    "tiny": {
        "encoder": "bag", "new_bag": {"dim": 64, "n_buckets": 1 << 14}, "dense_scale": 1.0,
        "vectorizer": {}, "matcher": {"epochs": 5.0},
        "ranker": {"negatives": "tfn", "combine": "l3_hinge", **_AS_THEY_ARE},
    },
    "base": {
        "encoder": "sentence-transformers/all-MiniLM-L6-v2", "dense_scale": 0.75,
        "vectorizer": {"sublinear_tf": True}, "matcher": {},
        "ranker": {"negatives": "paper", "combine": "paper", "threshold": 0.05, "n_trees": 3, **_AS_THEY_ARE},
    },
    "paper": PAPER,
})  # fmt: skip
# What a kind of encoder wants whatever the preset. A bag sees the words that TF-IDF has too, and knows those it was
# trained on all too well: long vectors of it mislead the rankers (python -m benchmarks.transformers.dense_scale).
_KINDS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "bag": {"max_length": 256, "dense_scale": 0.02}, "network": {"max_length": 128}, "sentence": {"max_length": 128},
})  # fmt: skip


def said(preset: Preset, model_kind: str) -> Mapping[str, Any]:
    """What a preset says of a kind of model: "x-transformer" or "xr-transformer"."""
    says = PRESETS[preset]
    found: Mapping[str, Any] = says.get(model_kind, says)
    return found


def preset_part(preset: Preset, model_kind: str, name: str) -> Any:
    """A new vectorizer, matcher or ranker as the preset has it."""
    return PARTS[name](**said(preset, model_kind)[name])


def ensemble_of(
    preset: Preset, model_kind: str, encoders: Sequence[Any] | None, seeds: Sequence[int] | None
) -> list[tuple[Any, int]]:
    """The encoder and the seed of each of an ensemble's members; None for what the preset says."""
    says = said(preset, model_kind)
    if encoders is None:
        if "encoders" not in says:
            raise ParameterError(
                f"The 'encoders' parameter of ensemble must be given with preset={preset!r}: only the preset 'paper' "
                "has several of its own. Got None instead."
            )
        encoders = says["encoders"]
    if seeds is None and says.get("seeds", ()) is None:
        return list(zip(encoders, range(len(encoders)), strict=True))  # each its own
    return [(encoder, seed) for encoder in encoders for seed in (seeds or says.get("seeds", (0,)))]


def value_of(model: Any, name: str, kind: str) -> Any:
    """A model's parameter, or where it is None the preset's for that kind of encoder; None where there is none either.
    What belongs to a kind goes before what the preset says of all."""
    value = getattr(model, name)
    says_all = said(model.preset, model.kind)
    for says in (says_all.get(kind, {}), _KINDS[kind], says_all):
        value = says.get(name) if value is None else value
    return value.item() if isinstance(value, np.generic) else value  # NumPy's small numbers overflow


def matcher_of(model: Any, kind: str) -> TransformerMatcher:
    """A model's matcher, with the rates that suit a kind of encoder where it has none of its own."""
    matcher: TransformerMatcher = model.part("matcher")
    return matcher.suited(kind, said(model.preset, model.kind).get(kind, {}))


def vectorizer_of(model: Any) -> TfidfVectorizer:
    """A new vectorizer as the model's, with its threads."""
    return TfidfVectorizer(**{**model.part("vectorizer").get_params(), "n_jobs": model.n_jobs})


def ranker_of(model: Any) -> XRLinear:
    """A new linear ranker as the model's, with its threads and its seed."""
    return XRLinear(**{**model.part("ranker").get_params(deep=False), "n_jobs": model.n_jobs, "seed": model.seed})


def encoder_of(model: Any) -> TextEncoder:
    """The encoder that the model names, its weights read; a copy where it was given one that is to be trained."""
    from sylvan.neural.text import encoder_source
    from sylvan.neural.text.bag_text_encoder import BagTextEncoder

    preset, matcher = said(model.preset, model.kind), model.part("matcher")
    source = preset["encoder"] if model.encoder is None else model.encoder
    given: dict[str, Any] = {"pooling": model.pooling}
    given.update({name: getattr(matcher, name) for name in ("lora_rank", "gradient_checkpointing")})
    if not isinstance(source, (str, os.PathLike)):
        encoder_source.refuse_beside(source, model.max_length, **given)
        encoder: TextEncoder = source if model.frozen else source.copy()
        return encoder.load()
    kind = encoder_source.encoder_kind(source)
    if source == "bag":
        encoder_source.refuse_of_bags(**given)
        max_length = value_of(model, "max_length", kind)
        new = preset.get("new_bag", {})
        return BagTextEncoder(**new, max_length=max_length, frozen=model.frozen, seed=model.seed).load()
    given["max_length"] = model.max_length
    if kind != "bag":  # whose folder says how long its texts may be, and whose vectors are pooled
        given["max_length"] = value_of(model, "max_length", kind)
        if kind == "network" and model.pooling is None and "pooling" in preset:  # other folders say how they pool
            given["pooling"] = preset["pooling"].get(encoder_source.architecture(source), "cls")
    return encoder_source.open_encoder(source, **given, frozen=model.frozen, seed=model.seed)


def kind_of(encoder: TextEncoder) -> str:
    """Which kind an opened encoder is: "bag", "sentence", or "network", as which one of another class counts."""
    from sylvan.neural import BagTextEncoder, SentenceEncoder

    kinds = ((BagTextEncoder, "bag"), (SentenceEncoder, "sentence"))
    return next((kind for of, kind in kinds if isinstance(encoder, of)), "network")
