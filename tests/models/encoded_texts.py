"""A few texts and their labels, and models small enough to learn from them in no time."""

from __future__ import annotations

from typing import Any

from sylvan import XRTransformer

WORDS = ("whale", "sea", "bread", "oven", "law", "court", "star", "moon")
TEXTS = [f"{WORDS[i % 8]} {WORDS[(i * 3 + 1) % 8]} {WORDS[i % 8]} common words" for i in range(48)]
LABELS = [[WORDS[i % 8]] + ([WORDS[(i * 3 + 1) % 8]] if i % 3 == 0 else []) for i in range(48)]


def small(kind: Any = XRTransformer, **params: Any) -> Any:
    from sylvan.neural import BagTextEncoder

    own = {"encoder": BagTextEncoder(dim=8, n_buckets=64), "preset": "tiny", "branching": 2, "max_leaf": 2}
    return kind(**{**own, "epochs": 2.0, "dense_scale": 1.0, "n_jobs": 1, "device": "cpu", **params})
