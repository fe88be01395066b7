"""XRTransformer and XTransformer as states: the linear part as arrays, the encoder as files of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from sylvan import store
from sylvan.data import Vocabulary
from sylvan.errors import ModelError
from sylvan.models.transformer.held_encoder import HeldEncoder, encoder_files
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.parallel import resolve_jobs
from sylvan.store import JSON
from sylvan.text import TfidfVectorizer

__all__ = ["pack", "unpack"]

_MOST_DIMENSIONS = 1 << 20
_OBJECTS = ("encoder", "vectorizer", "ranker")
# Where the machine that fitted a model computes and keeps vectors is no part of the model, and no manifest says where
# another one does.
_OF_THE_MACHINE: Mapping[str, Any] = MappingProxyType({"cache": None, "device": "auto"})
_Model = TypeVar("_Model", bound=Any)


def pack(model: Any) -> store.State:
    """The state of a fitted model."""
    params = {name: value for name, value in model.get_params(deep=False).items() if name not in _OBJECTS}
    params.update(_OF_THE_MACHINE)
    params["vectorizer"] = None if model.vectorizer is None else dict(model.vectorizer.get_params())
    params["ranker"] = None if model.ranker is None else _without_tree(model.ranker.get_params(deep=False))
    params["encoder"] = _described(model.encoder)
    meta: dict[str, JSON] = {
        **model._fields_to_meta(), "n_dense": model.n_dense_, "dense_scale": model.dense_scale_,
        "history": model.history_, "normalize": True,
    }  # fmt: skip
    parts = {
        "vectorizer": model.vectorizer_.to_state(),
        "ranker": model._ranker_as_fitted().to_state(),
        "vocabulary": model.vocabulary_.to_state(),
    }
    files = model._held.files() if model._held is not None and model._encoder is None else encoder_files(model.encoder_)
    return store.State(model.kind, 1, params, meta, parts=parts, files=files)


def _without_tree(params: dict[str, Any]) -> dict[str, JSON]:
    return {name: value for name, value in params.items() if name != "tree"}


def _described(encoder: Any) -> JSON:
    """The parameter ``encoder`` in plain values: an object by its class and parameters."""
    if encoder is None or isinstance(encoder, (str, os.PathLike)):
        return None if encoder is None else os.fspath(encoder)
    params = encoder.get_params(deep=False)
    plain = {
        name: os.fspath(value) if isinstance(value, os.PathLike) else value
        for name, value in params.items()
        if name != "vectorizer"
    }
    if params.get("vectorizer") is not None:
        plain["vectorizer"] = dict(params["vectorizer"].get_params())
    return {"class": type(encoder).__name__, "params": plain}


def unpack(cls: type[_Model], state: store.State) -> _Model:
    """The model that a loaded state describes.

    Raises
    ------
    ModelError
    """
    store.need_kind(state, cls.kind)
    params = store.need_params(state, cls.parameter_names())
    params.update(_OF_THE_MACHINE)
    for name, kind in (("vectorizer", TfidfVectorizer), ("ranker", XRLinear)):
        if params[name] is not None:
            params[name] = _made(state, name, kind, params[name])
    if isinstance(params["encoder"], dict):
        params["encoder"] = _encoder(state, params["encoder"])
    model: _Model = cls(**params)
    model.check_params()
    resolve_jobs(model.n_jobs)
    model.vectorizer_ = TfidfVectorizer.from_state(store.need_part(state, "vectorizer", "tfidf-vectorizer"))
    model.ranker_ = XRLinear.from_state(store.need_part(state, "ranker", "xr-linear"))
    vocabulary = Vocabulary.from_state(store.need_part(state, "vocabulary", "vocabulary"))
    model.n_dense_ = store.need_int(state, "n_dense", 1, _MOST_DIMENSIONS)
    model.dense_scale_ = _dense_scale(state)
    model.history_ = _history(state)
    where = f"{state.where or f'The {state.kind}'!r} is damaged"
    n_terms, n_columns = model.vectorizer_.n_terms_, model.ranker_.n_features_
    if n_terms + model.n_dense_ != n_columns:
        raise ModelError(
            f"{where}: {n_terms} terms and {model.n_dense_} dimensions don't make the ranker's {n_columns} features."
        )
    if len(vocabulary) != model.ranker_.n_labels_:
        raise ModelError(f"{where}: it has {len(vocabulary)} names, but {model.ranker_.n_labels_} labels.")
    model._encoder, model._held = None, HeldEncoder(state)
    model._fields_from_state(state)
    model._join(vocabulary)
    return model


def _made(state: store.State, name: str, kind: type[Any], params: Any) -> Any:
    """An object of the parameters that the manifest holds."""
    try:
        plain = {key: tuple(value) if key == "ngrams" else value for key, value in dict(params).items()}
        made = kind(**plain)
        made.check_params()
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ModelError(f"{state.where!r} is damaged: its {name!r} can't be made: {reason}.") from error
    return made


def _encoder(state: store.State, described: dict[str, Any]) -> Any:
    """A new encoder as the one that the model was given, not opened; needs PyTorch."""
    from sylvan import neural

    kinds = ("BagTextEncoder", "SentenceEncoder", "TransformerEncoder")
    name, params = described.get("class"), described.get("params")
    if name not in kinds or not isinstance(params, dict):
        raise ModelError(f"{state.where!r} is damaged: it has no encoder of the class {name!r:.60}.")
    if isinstance(params.get("vectorizer"), dict):
        params = {**params, "vectorizer": _made(state, "encoder", TfidfVectorizer, params["vectorizer"])}
    return _made(state, "encoder", getattr(neural, str(name)), params)


def _dense_scale(state: store.State) -> float:
    """The length of the encoder's vectors that the rankers have learned."""
    if "dense_scale" not in state.meta:
        raise ModelError(
            f"{state.where!r} doesn't say how long its encoder's vectors are beside TF-IDF: it was saved before models "
            "kept that. Train it again with this release."
        )
    return store.need_float(state, "dense_scale", np.finfo(np.float32).tiny, np.finfo(np.float32).max)


def _history(state: store.State) -> list[dict[str, Any]]:
    found = state.meta.get("history")
    if not isinstance(found, list) or not all(isinstance(layer, dict) for layer in found):
        raise ModelError(f"{state.where!r} is damaged: 'history' must be a list of layers. Got {found!r:.60} instead.")
    return found
