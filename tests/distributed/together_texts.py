"""Texts for two processes to learn from together, and the model that does; torchrun calls this file with a folder."""

import os
import sys
from pathlib import Path
from typing import Any

WORDS = ("whale", "sea", "bread", "oven", "law", "court", "star", "moon")
TEXTS = [f"{WORDS[i % 8]} {WORDS[(i * 3 + 1) % 8]} common words" for i in range(48)]
LABELS = [[WORDS[i % 8]] + ([WORDS[(i * 3 + 1) % 8]] if i % 3 == 0 else []) for i in range(48)]


def parameters(folder: Path) -> dict[str, Any]:
    """Of an XRTransformer whose small BERT learns two layers in no time."""
    from sylvan import TransformerMatcher, XRLinear

    return {
        "encoder": str(folder / "bert"), "max_length": 16, "device": "cpu", "n_jobs": 1,
        "matcher": TransformerMatcher(learning_rate=1e-3, epochs=2.0, batch_size=8),
        "ranker": XRLinear(branching=2, max_leaf=2),
    }  # fmt: skip


if __name__ == "__main__":
    from sylvan import XRTransformer

    model = XRTransformer(**parameters(Path(sys.argv[1]))).fit(TEXTS, LABELS)
    if os.environ["RANK"] == "0":
        model.save(sys.argv[2])
