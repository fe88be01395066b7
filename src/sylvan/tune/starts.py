"""Settings that have proved good on some data, which a tuning tries before it draws any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sylvan.models.xr.params import PRESETS

__all__ = ["Start", "starts_for"]

_MANY = {"n_trees": 3, "beam": 20}
# By "auto", negatives count in full where rows have many features, as rows of characters' n-grams have: too much there.
_MILD = {"negative_cost": 0.3}
_GENTLE = {**_MILD, "cost": 0.5, "threshold": 0.03}
_SPARSE = {"max_leaf": 400, "branching": 32, "threshold": 0.2, "beam": 20}
_WORDS = {"min_df": 2, "sublinear_tf": True}
_FREQUENT = {"ngrams": (1, 2), "min_df": 5, "sublinear_tf": True, "max_features": 60_000}
_CHARACTERS = {"analyzer": "char_wb", "ngrams": (4, 4), "min_df": 2, "sublinear_tf": True}


@dataclass(frozen=True)
class Start:
    """A setting that is tried before any is drawn; ``whole`` ones are measured on all rows, for ensembles."""

    changes: Mapping[str, Any]
    model: str = "xr-linear"
    text: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False


def starts_for(
    texts: bool, long: bool = False, small: bool = False, tail: str | None = None, encoder: bool = False
) -> Iterator[Start]:
    """The settings to begin with: the default, then others, those first that bring much for their time."""
    tails = {} if tail is None else {"tail": tail}
    yield Start({}, whole=True)
    if tails:
        yield Start(tails)
    if encoder:
        yield Start({}, "xr-transformer", whole=True)
    if small:
        yield from _small(texts, long, tails)
    elif not texts:
        yield Start({}, "neighbors", whole=True)
        yield Start({**_GENTLE, **tails})
        yield Start({**_MANY, **tails}, whole=True)
    elif long:
        yield Start(tails, text=_WORDS, whole=True)
        yield Start({"n_neighbors": 60}, "neighbors", _WORDS, whole=True)
        yield Start({"tolerance": 0.3, **tails}, text=_FREQUENT, whole=True)
        yield Start({"n_trees": 3, **tails}, text=_WORDS)
        yield Start(tails, text={**_FREQUENT, "max_features": 120_000}, whole=True)  # which few rows would undervalue
        yield Start({"tolerance": 0.3, **tails}, text={**_CHARACTERS, "max_features": 60_000}, whole=True)
    else:
        yield Start({"n_neighbors": 100}, "neighbors", _CHARACTERS, whole=True)
        yield Start({**_MILD, "beam": 20, **tails}, text=_CHARACTERS, whole=True)
        yield Start({**_MANY, **tails}, whole=True)
        yield Start({**_GENTLE, **tails}, text=_CHARACTERS)
        yield Start({**_MILD, "cost": 0.5, **tails}, text={"ngrams": (1, 1), "sublinear_tf": True})
        yield Start({**_MILD, **_MANY, **tails}, text=_CHARACTERS)
        gentle = {**_MILD, "beam": 20, "threshold": 0.03, "tolerance": 0.3}
        yield Start({**gentle, **tails}, text={**_CHARACTERS, "ngrams": (3, 5)}, whole=True)
    yield Start({"negatives": PRESETS["fast"]["negatives"], **tails})


def _small(texts: bool, long: bool, tails: Mapping[str, Any]) -> Iterator[Start]:
    """Where the model's size is limited: few terms, as these can't be pruned, and large leaves, so that few layers."""
    few = {"ngrams": (1, 1), "min_df": 5, "sublinear_tf": True}
    if not texts:
        yield Start({**_SPARSE, **tails}, whole=True)
        yield Start({**_SPARSE, "max_leaf": 800, "threshold": 0.3, **tails})
        return
    yield Start({**_SPARSE, **tails}, text=few, whole=True)
    yield Start({**_SPARSE, **tails}, text={**few, "min_df": 3})
    yield Start({**_SPARSE, **_MILD, "cost": 0.5, **tails}, text={**few, "min_df": 3})
    yield Start({**_SPARSE, "max_leaf": 800, **tails}, text={**few, "min_df": 2})
    yield Start({**_SPARSE, **tails}, text={**few, "min_df": 1, "max_features": 5_000}, whole=True)
    if not long:
        yield Start({**_SPARSE, **_MILD, **tails}, text={**_CHARACTERS, "max_features": 10_000})
