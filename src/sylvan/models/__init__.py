"""The estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, typed_names

if TYPE_CHECKING:
    from sylvan.models.beam_tree.beam_tree import BeamTreeClassifier
    from sylvan.models.ensembles.ensemble import Ensemble
    from sylvan.models.irli.classifier import IRLIClassifier
    from sylvan.models.irli.index import IRLIIndex
    from sylvan.models.irli.shards import ShardedIRLIIndex
    from sylvan.models.lexical.lexical_matcher import LexicalMatcher
    from sylvan.models.neighbors import NeighborRanker
    from sylvan.models.reranker.reranker import Reranker
    from sylvan.models.text import TextModel
    from sylvan.models.transformer.presets import TransformerMatcher
    from sylvan.models.transformer.x_transformer import XRTransformer, XTransformer
    from sylvan.models.xr.xr_linear import XRLinear

__all__ = [
    "BeamTreeClassifier", "Ensemble", "IRLIClassifier", "IRLIIndex", "LexicalMatcher", "NeighborRanker", "Reranker",
    "ShardedIRLIIndex", "TextModel", "TransformerMatcher", "XRLinear", "XRTransformer", "XTransformer",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))
