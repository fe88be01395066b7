"""Sylvan: picks the few right answers out of an enormous set."""

from sylvan import data, distributed, hub, indexing, metrics, serve
from sylvan.errors import SylvanError
from sylvan.hub import from_pretrained
from sylvan.indexing import LabelTree
from sylvan.models import (
    BeamTreeClassifier,
    Ensemble,
    IRLIClassifier,
    IRLIIndex,
    NeighborRanker,
    ShardedIRLIIndex,
    TextModel,
    TransformerMatcher,
    XRLinear,
    XRTransformer,
    XTransformer,
)
from sylvan.store.registry import load
from sylvan.text import TfidfVectorizer
from sylvan.topk import TopK
from sylvan.tune.result import TuneResult
from sylvan.tune.tuner import tune
from sylvan.version import __version__

__all__ = [
    "BeamTreeClassifier",
    "Ensemble",
    "IRLIClassifier",
    "IRLIIndex",
    "LabelTree",
    "NeighborRanker",
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
    "serve",
    "tune",
]
