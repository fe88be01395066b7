"""A few texts and their labels, and models small enough to learn from them in no time."""

from typing import Any

from sylvan import TransformerMatcher, XRLinear, XRTransformer

WORDS = ("whale", "sea", "bread", "oven", "law", "court", "star", "moon")
TEXTS = [f"{WORDS[i % 8]} {WORDS[(i * 3 + 1) % 8]} {WORDS[i % 8]} common words" for i in range(48)]
LABELS = [[WORDS[i % 8]] + ([WORDS[(i * 3 + 1) % 8]] if i % 3 == 0 else []) for i in range(48)]


def small(kind: Any = XRTransformer, **params: Any) -> Any:
    """A small model; parameters of its parts as ``ranker__beam``."""
    from sylvan.neural import BagTextEncoder

    own = {"encoder": BagTextEncoder(dim=8, n_buckets=64), "preset": "tiny", "dense_scale": 1.0, "n_jobs": 1}
    own |= {"device": "cpu", "matcher": TransformerMatcher(epochs=2.0), "ranker": XRLinear()}
    own |= {name: value for name, value in params.items() if "__" not in name}
    if isinstance(own["ranker"], XRLinear):
        params = {"ranker__branching": 2, "ranker__max_leaf": 2, **params}
    return kind(**own).set_params(**{name: value for name, value in params.items() if "__" in name})
