"""Members of rerankers that have proved good together, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from sylvan.models.base import Estimator
from sylvan.models.ensembles.presets import PRESETS
from sylvan.models.lexical.lexical_matcher import LexicalMatcher
from sylvan.models.neighbors import NeighborRanker
from sylvan.models.text import TextModel, usual_vectorizer
from sylvan.models.xr.xr_linear import XRLinear

# A member: its model, and the parameters of the model and of its vectoriser that aren't at their defaults.
Member = tuple[str, Mapping[str, Any], Mapping[str, Any]]
_TREES: tuple[Member, ...] = tuple(("xr-linear", parameters, text) for parameters, text in PRESETS["accurate"])
_NEAREST: tuple[Member, ...] = (("neighbors", {}, {}), ("neighbors", {}, PRESETS["accurate"][2][1]))
RerankerPreset = Literal["accurate", "words"]
RERANKER_PRESETS: Mapping[RerankerPreset, tuple[Member, ...]] = MappingProxyType({
    "accurate": (*_TREES, *_NEAREST),
    "words": (*_TREES, *_NEAREST, ("lexical", {}, {})),
})  # fmt: skip


def reranker_members(name: RerankerPreset, n_jobs: int | None = None) -> list[Estimator]:
    """The members of a preset, not fitted."""
    made: list[Estimator] = []
    for model, parameters, text in RERANKER_PRESETS[name]:
        if model == "lexical":
            made.append(LexicalMatcher(**parameters, n_jobs=n_jobs))
            continue
        ranker: Any = XRLinear if model == "xr-linear" else NeighborRanker
        made.append(TextModel(usual_vectorizer(**text, n_jobs=n_jobs), ranker(**parameters, n_jobs=n_jobs)))
    return made
