"""Made-up texts whose words give their topics away."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sylvan import data

WORDS = {
    "Whaling": "whales harpoon ship ocean oil", "Baking": "bread flour oven cakes yeast",
    "Astronomy": "stars telescope planet comet orbit", "Gardening": "roses soil seeds spade compost",
    "Chess": "king queen rook gambit board", "Türkçe": "kitap dil şiir söz yazı",
}  # fmt: skip


def corpus(n: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Texts whose words give their one or two labels away."""
    rng = np.random.default_rng(seed)
    names = list(WORDS)
    texts, labels = [], []
    for _ in range(n):
        chosen = [names[i] for i in rng.choice(len(names), size=int(rng.integers(1, 3)), replace=False)]
        words = [str(rng.choice(WORDS[name].split())) for name in chosen for _ in range(4)]
        texts.append(" ".join([*words, "and", "the"]))
        labels.append(chosen)
    return texts, labels


def write_topics(place: Path, names: Sequence[str], **sizes: int) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Write so many texts of one of the topics each to ``part.jsonl``; the texts and topics of each part."""
    rng, made = np.random.default_rng(0), {}
    for part, n in sizes.items():
        classes = [names[i] for i in rng.integers(0, len(names), n)]
        texts = [" ".join(rng.choice(WORDS[name].split(), 4)) for name in classes]
        made[part] = texts, [[name] for name in classes]
        data.write_jsonl(place / f"{part}.jsonl", *made[part])
    return made
