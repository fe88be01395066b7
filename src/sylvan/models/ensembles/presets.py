"""Ensembles of models over texts that have proved good together, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from sylvan.models.text import TextModel, usual_vectorizer
from sylvan.models.xr.xr_linear import XRLinear

_FREQUENT = {"min_df": 2, "sublinear_tf": True, "max_features": 120_000}
# Of each member the parameters of its XRLinear and of its vectoriser that aren't at their defaults. Other features make
# other errors, and another seed another tree. Nearest rows gained nothing that held on every set.
Preset = Literal["accurate"]
PRESETS: Mapping[Preset, tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]] = MappingProxyType({
    "accurate": (
        ({}, {}),
        ({"seed": 1}, {"ngrams": (1, 2), **_FREQUENT}),
        ({"seed": 2}, {"analyzer": "char_wb", "ngrams": (4, 4), **_FREQUENT}),
    ),
})  # fmt: skip


def preset_members(name: Preset, n_jobs: int | None = None) -> list[TextModel]:
    """The members of a preset, not fitted."""
    return [
        TextModel(usual_vectorizer(**text, n_jobs=n_jobs), XRLinear(**parameters, n_jobs=n_jobs))
        for parameters, text in PRESETS[name]
    ]
