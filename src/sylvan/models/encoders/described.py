"""Encoders, and other parts of models, as parameters: what may be given, and plain values that a manifest holds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from sylvan import store
from sylvan.errors import ModelError
from sylvan.params.fields import Constraint, Parameterized
from sylvan.store import JSON
from sylvan.text import TfidfVectorizer


@dataclass(frozen=True)
class EncoderSource(Constraint):
    """A folder, a name, or a TextEncoder, which is known by its methods lest PyTorch be loaded to ask."""

    def accepts(self, value: Any) -> bool:
        if isinstance(value, (str, os.PathLike)):
            return bool(os.fspath(value))
        return not isinstance(value, type) and all(
            hasattr(value, name) for name in ("tokenize", "collate", "save_pretrained")
        )

    def _words(self) -> str:
        return "'bag', the path of a folder, a name on the Hugging Face hub, a TextEncoder"

    def _parse(self, text: str) -> Any:
        return text


def described_part(part: Parameterized | None) -> JSON:
    """A part's parameters in plain values; None where there is none. A ranker's tree is among what it has learned."""
    if part is None:
        return None
    return {name: value for name, value in part.get_params(deep=False).items() if name != "tree"}


def described_encoder(encoder: Any) -> JSON:
    """The parameter ``encoder`` in plain values: an object by its class and parameters."""
    if encoder is None or isinstance(encoder, (str, os.PathLike)):
        return None if encoder is None else os.fspath(encoder)
    params = encoder.get_params(deep=False)
    plain = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in params.items()}
    if plain.get("vectorizer") is not None:
        plain["vectorizer"] = dict(plain["vectorizer"].get_params())
    return {"class": type(encoder).__name__, "params": plain}


def made_part(state: store.State, name: str, kind: type[Parameterized], params: Any) -> Any:
    """A part of the parameters that the manifest holds."""
    if params is None:
        return None
    try:
        plain = dict(params)
        if isinstance(plain.get("ngrams"), list):
            plain["ngrams"] = tuple(plain["ngrams"])
        made = kind(**plain)
        made.check_params()
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ModelError(f"{state.where!r} is damaged: its {name!r} can't be made: {reason}.") from error
    return made


def made_encoder(state: store.State, described: Any) -> Any:
    """What :func:`described_encoder` described: a word, or a new encoder, not opened, for which PyTorch is needed."""
    if not isinstance(described, dict):
        return described
    from sylvan import neural

    kinds = ("BagTextEncoder", "SentenceEncoder", "TransformerEncoder")
    name, params = described.get("class"), described.get("params")
    if name not in kinds or not isinstance(params, dict):
        raise ModelError(f"{state.where!r} is damaged: it has no encoder of the class {name!r:.60}.")
    if isinstance(params.get("vectorizer"), dict):
        params = {**params, "vectorizer": made_part(state, "encoder", TfidfVectorizer, params["vectorizer"])}
    return made_part(state, "encoder", getattr(neural, str(name)), params)
