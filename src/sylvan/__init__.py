"""Sylvan: picks the few right answers out of an enormous set."""

import importlib
from typing import TYPE_CHECKING, Any

from sylvan.lazy import lazy_names, provided, typed_names
from sylvan.version import __version__

if TYPE_CHECKING:
    from sylvan import data, distributed, hub, indexing, metrics, serve
    from sylvan.arrays.topk import TopK
    from sylvan.errors import SylvanError
    from sylvan.hub import from_pretrained
    from sylvan.indexing import LabelTree
    from sylvan.models import (
        BeamTreeClassifier,
        Ensemble,
        IRLIClassifier,
        IRLIIndex,
        LexicalMatcher,
        NeighborRanker,
        Reranker,
        ShardedIRLIIndex,
        TextModel,
        TransformerMatcher,
        XRLinear,
        XRTransformer,
        XTransformer,
    )
    from sylvan.models.presets import preset
    from sylvan.store.registry import load
    from sylvan.text import TfidfVectorizer
    from sylvan.tune.result import TuneResult
    from sylvan.tune.tuner import tune

__all__ = [
    "BeamTreeClassifier",
    "Ensemble",
    "IRLIClassifier",
    "IRLIIndex",
    "LabelTree",
    "LexicalMatcher",
    "NeighborRanker",
    "Reranker",
    "ShardedIRLIIndex",
    "SylvanError",
    "TextModel",
    "TfidfVectorizer",
    "TopK",
    "TransformerMatcher",
    "TuneResult",
    "XRLinear",
    "XRTransformer",
    "XTransformer",
    "__version__",
    "data",
    "distributed",
    "from_pretrained",
    "hub",
    "indexing",
    "load",
    "metrics",
    "preset",
    "serve",
    "tune",
]

# A module is loaded when a name of it is first asked for, so that `import sylvan` takes milliseconds.
__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))


def _push(*arguments: Any, **named: Any) -> Any:
    from sylvan.hub import push

    return push(*arguments, **named)


def _annif_operations(service: Any) -> Any:
    from sylvan.annif.rest import operations

    return operations(service)


provided.update(push=_push, annif_operations=_annif_operations)

# The package `tune` takes its name here when it's first imported: before the function can, whose name it is.
importlib.import_module("sylvan.tune")
del globals()["tune"]
