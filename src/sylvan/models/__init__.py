"""The estimators: each puts the three phases together."""

from sylvan.models.beam_tree import BeamTreeClassifier
from sylvan.models.ensemble import Ensemble
from sylvan.models.irli import IRLIClassifier
from sylvan.models.irli_index import IRLIIndex
from sylvan.models.irli_shards import ShardedIRLIIndex
from sylvan.models.neighbors import NeighborRanker
from sylvan.models.text import TextModel
from sylvan.models.x_transformer import XTransformer
from sylvan.models.xr_linear import XRLinear
from sylvan.models.xr_transformer import XRTransformer

__all__ = [
    "BeamTreeClassifier",
    "Ensemble",
    "IRLIClassifier",
    "IRLIIndex",
    "NeighborRanker",
    "ShardedIRLIIndex",
    "TextModel",
    "XRLinear",
    "XRTransformer",
    "XTransformer",
]
