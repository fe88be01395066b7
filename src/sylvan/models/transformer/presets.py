"""What XRTransformer and XTransformer take where they were told nothing: presets, and ranges of their parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from sylvan.errors import ParameterError
from sylvan.indexing.embeddings import EMBEDDINGS
from sylvan.matching import beam as matching
from sylvan.matching.negatives import NEGATIVES
from sylvan.models.transformer.settings import DeepSettings
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params import Choice, Constraint, Flag, Instance, Jobs, Number, PerLayer, Range
from sylvan.ranking.calibrate import METHODS
from sylvan.ranking.tail import Tail
from sylvan.text import TfidfVectorizer
from sylvan.validate import MAX_COLUMNS

if TYPE_CHECKING:
    from sylvan.neural import TextEncoder

__all__ = [
    "CONSTRAINTS",
    "DEEP_NAMES",
    "KINDS",
    "PRESETS",
    "Unused",
    "deep_settings",
    "encoder_of",
    "kind_of",
    "ranker_of",
    "value_of",
    "vectorizer_of",
]

# What stands for None, by preset; whatever a preset doesn't name is as DeepSettings and XRLinear have it. What it says
# of one kind of encoder alone stands under the kind's name.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "tiny": {
        "encoder": "bag", "new_bag": {"dim": 64, "n_buckets": 1 << 14}, "epochs": 5.0, "batch_size": 32,
        "dense_scale": 1.0, "vectorizer": {}, "ranker": {},
    },
    "base": {
        "encoder": "sentence-transformers/all-MiniLM-L6-v2", "epochs": 1.0, "batch_size": 32,
        "dense_scale": 0.75, "vectorizer": {"sublinear_tf": True},
        "ranker": {"negatives": "paper", "combine": "paper", "threshold": 0.05, "n_trees": 3},
    },
    "paper": {
        "encoder": "bert-base-uncased", "network": {"pooling": "cls", "learning_rate": 5e-5},
        "sentence": {"learning_rate": 5e-5}, "epochs": 4.0, "batch_size": 32, "deep_beam": 20, "dense_scale": 1.0,
        "vectorizer": {}, "ranker": {"negatives": "paper", "combine": "paper", "n_trees": 3},
    },
})  # fmt: skip
# What a kind of encoder wants whatever the preset: a bag begins with nothing, the others are pretrained. It sees the
# words that TF-IDF has too, and knows those it was trained on all too well: long vectors of it mislead the rankers
# (python -m benchmarks.transformers.dense_scale).
KINDS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "bag": {
        "max_length": 256, "learning_rate": 0.005, "row_learning_rate": 0.3, "label_learning_rate": 0.15,
        "dense_scale": 0.02,
    },
    "network": {"max_length": 128},
    "sentence": {"max_length": 128},
})  # fmt: skip
# Parameters of the estimator that DeepSettings has too, and what it calls them.
_DEEP = {
    "learning_rate": "learning_rate", "row_learning_rate": "row_learning_rate",
    "label_learning_rate": "label_learning_rate", "batch_size": "batch_size", "epochs": "epochs",
    "max_steps": "max_steps", "warmup": "warmup", "deep_beam": "beam", "relevance": "relevance",
    "negative_cost": "negative_cost", "bootstrap": "bootstrap", "refresh": "refresh", "held_out": "held_out",
    "patience": "patience",
}  # fmt: skip
DEEP_NAMES: Mapping[str, str] = MappingProxyType({theirs: ours for ours, theirs in _DEEP.items()})
_RANKER = (
    "branching", "max_leaf", "embedding", "n_trees", "beam", "negatives", "combine", "threshold", "tail", "calibration",
)  # fmt: skip


_DEVICE = re.compile(r"auto|cpu|(cuda|mps|xpu)(:[0-9]{1,3})?")


@dataclass(frozen=True)
class _Encoder(Constraint):
    """A folder, a name, or a TextEncoder, which is told by its methods lest PyTorch be loaded to ask."""

    optional: bool = field(default=True, kw_only=True)

    def accepts(self, value: Any) -> bool:
        if isinstance(value, (str, os.PathLike)):
            return bool(os.fspath(value))
        return not isinstance(value, type) and all(
            hasattr(value, name) for name in ("tokenize", "collate", "save_pretrained")
        )

    def describe(self) -> str:
        return "'bag', the path of a folder, a name on the Hugging Face hub, a TextEncoder or None"

    def _parse(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class _Path(Constraint):
    optional: bool = field(default=True, kw_only=True)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))

    def describe(self) -> str:
        return "the path of a folder or None"

    def _parse(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class _Device(Constraint):
    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and _DEVICE.fullmatch(value) is not None

    def describe(self) -> str:
        return "'auto', 'cpu', 'cuda', 'mps' or 'xpu', with a number where there are several, as in 'cuda:1'"

    def _parse(self, text: str) -> Any:
        return text


@dataclass(frozen=True)
class _EachLayer(Constraint):
    """A number for every layer, or a list of them, one a layer."""

    number: Range
    optional: bool = field(default=True, kw_only=True)

    def accepts(self, value: Any) -> bool:
        values = value if isinstance(value, (list, tuple)) else [value]
        return len(values) > 0 and all(one is not None and self.number.accepts(one) for one in values)

    def describe(self) -> str:
        return f"{self.number.describe()}, a list of them, one a layer that is trained, or None"

    def _parse(self, text: str) -> Any:
        words = text.split(",")
        return [self.number.kind(word) for word in words] if len(words) > 1 else self.number.kind(text)


@dataclass(frozen=True)
class Unused(Constraint):
    """A parameter that its model has no use for: None is all that it may be.

    ``why`` goes on after "None, as".
    """

    why: str
    optional: bool = field(default=True, kw_only=True)

    def accepts(self, value: Any) -> bool:
        return False

    def describe(self) -> str:
        return f"None, as {self.why}"

    def _parse(self, text: str) -> Any:
        return text


def _of_deep(name: str) -> Constraint:
    """The range that DeepSettings gives a parameter, or None for the preset's."""
    return replace(DeepSettings.constraints[name], optional=True)


CONSTRAINTS: Mapping[str, Constraint] = {
    "encoder": _Encoder(),
    "preset": Choice(tuple(PRESETS)),
    "vectorizer": Instance((TfidfVectorizer,), "a TfidfVectorizer", optional=True),
    "ranker": Instance((XRLinear,), "an XRLinear", optional=True),
    "frozen": Flag(),
    "max_length": Number(int, 1, optional=True),
    "pooling": Choice(("mean", "cls", "pooler"), optional=True),
    "lora_rank": Number(int, 1, optional=True),
    "gradient_checkpointing": Flag(),
    "max_nodes": Number(int, 1),
    "learning_rate": _of_deep("learning_rate"),
    "row_learning_rate": _of_deep("row_learning_rate"),
    "label_learning_rate": _of_deep("label_learning_rate"),
    "batch_size": _of_deep("batch_size"),
    "epochs": _EachLayer(Number(float, 0, open_low=True)),
    "max_steps": _EachLayer(Number(int, 1)),
    "warmup": _of_deep("warmup"),
    "deep_beam": _of_deep("beam"),
    "relevance": _of_deep("relevance"),
    "negative_cost": _of_deep("negative_cost"),
    "bootstrap": Flag(),
    "refresh": _of_deep("refresh"),
    "held_out": _of_deep("held_out"),
    "patience": _of_deep("patience"),
    "dense_scale": Number(float, 1e-30, 1e15, optional=True),  # what float32 and the rankers can bear
    "branching": Number(int, 2, optional=True),
    "max_leaf": Number(int, 1, optional=True),
    # By features of labels they can't be clustered: fit takes none.
    "embedding": Choice(tuple(name for name in EMBEDDINGS if name != "pifa_lf"), optional=True),
    "n_trees": Number(int, 1, 1000, optional=True),
    "beam": Number(int, 1, MAX_COLUMNS, optional=True),
    "negatives": PerLayer((*NEGATIVES, "paper"), optional=True),
    "combine": PerLayer((*matching.COMBINES, "paper"), optional=True),
    "threshold": Number(float, 0, optional=True),
    "tail": Tail(),
    "calibration": Choice(METHODS, optional=True),
    "device": _Device(),
    "precision": Choice(("auto", "no", "bf16", "fp16")),
    "accumulate": Number(int, 1),
    "cache": _Path(),
    "n_jobs": Jobs(optional=True),
    "seed": Number(int, 0, 2**31 - 1),
}


def value_of(model: Any, name: str, kind: str) -> Any:
    """A parameter's value, or where it is None the preset's for that kind of encoder; None where there is none either.

    What belongs to a kind goes before what the preset says of all.
    """
    value = getattr(model, name)
    preset = PRESETS[model.preset]
    for says in (preset.get(kind, {}), KINDS[kind], preset):
        value = says.get(name) if value is None else value
    return value.item() if isinstance(value, np.generic) else value  # NumPy's small numbers overflow


def vectorizer_of(model: Any) -> TfidfVectorizer:
    """A fresh vectoriser as the model wants it."""
    if model.vectorizer is None:
        return TfidfVectorizer(**PRESETS[model.preset]["vectorizer"], n_jobs=model.n_jobs)
    return TfidfVectorizer(**{**model.vectorizer.get_params(), "n_jobs": model.n_jobs})


def ranker_of(model: Any) -> XRLinear:
    """A fresh linear ranker as the model wants it: its own parameters go before the given ranker's or the preset's.

    Raises
    ------
    ParameterError
        When several trees are asked for where there can be one alone, or trees by features that labels haven't got
        here.
    """
    name = type(model).__name__
    if not model._own_trees and model.ranker is not None and model.ranker.n_trees != 1:
        raise ParameterError(
            f"The 'ranker' parameter of {name} must have n_trees=1: its tree is that of the encoder's clusters, and "
            f"several are an ensemble ({name}.ensemble). Got n_trees={model.ranker.n_trees} instead."
        )
    given = PRESETS[model.preset]["ranker"] if model.ranker is None else model.ranker.get_params(deep=False)
    own = {name: getattr(model, name) for name in _RANKER if getattr(model, name) is not None}
    made = XRLinear(**{**given, **own, "n_jobs": model.n_jobs, "seed": model.seed})
    if not model._own_trees:
        made.n_trees = 1
    elif made.tree is not None and made.n_trees != 1:
        raise ParameterError(
            f"The 'n_trees' parameter of {name} must be 1 beside a ranker that has a tree given. Got {made.n_trees} "
            "instead."
        )
    if made.embedding == "pifa_lf" and made.tree is None:
        raise ParameterError(
            f"The 'ranker' parameter of {name} must have embedding='pifa', 'pii' or 'spectral': "
            "'pifa_lf' needs features of labels, and there are texts alone."
        )
    return made


def encoder_of(model: Any) -> TextEncoder:
    """The encoder that the model names, its weights read; a copy where it was given one that is to be trained."""
    from sylvan.neural.text import encoder_source
    from sylvan.neural.text.bag_text_encoder import BagTextEncoder

    source = PRESETS[model.preset]["encoder"] if model.encoder is None else model.encoder
    told = {name: getattr(model, name) for name in ("pooling", "lora_rank", "gradient_checkpointing")}
    if not isinstance(source, (str, os.PathLike)):
        encoder_source.refuse_beside(source, model.max_length, **told)
        found: TextEncoder = source if model.frozen else source.copy()
        return found.load()
    kind = encoder_source.encoder_kind(source)
    if source == "bag":
        encoder_source.refuse_of_bags(**told)
        max_length = value_of(model, "max_length", kind)
        new = PRESETS[model.preset].get("new_bag", {})
        return BagTextEncoder(**new, max_length=max_length, frozen=model.frozen, seed=model.seed).load()
    if kind != "bag":  # whose folder says how long its texts may be, and whose vectors are pooled
        told.update(max_length=value_of(model, "max_length", kind), pooling=value_of(model, "pooling", kind))
    return encoder_source.open_encoder(
        source, **{"max_length": model.max_length, **told}, frozen=model.frozen, seed=model.seed
    )


def kind_of(encoder: TextEncoder) -> str:
    """Which of ``KINDS`` an opened encoder is; one of another class counts as a pretrained network."""
    from sylvan.neural import BagTextEncoder, SentenceEncoder

    kinds = ((BagTextEncoder, "bag"), (SentenceEncoder, "sentence"))
    return next((kind for of, kind in kinds if isinstance(encoder, of)), "network")


def deep_settings(model: Any, kind: str) -> DeepSettings:
    """How an encoder of that kind is fine-tuned."""
    found = {theirs: value_of(model, ours, kind) for ours, theirs in _DEEP.items()}
    return DeepSettings(**{name: value for name, value in found.items() if value is not None}, seed=int(model.seed))
