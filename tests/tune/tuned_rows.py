"""A small corpus in which settings differ, and a clock that tests turn."""

import numpy as np

TOPICS = {
    "Whaling": "whales harpoon ship ocean oil", "Baking": "bread flour oven cakes yeast",
    "Astronomy": "stars telescope planet comet orbit", "Gardening": "roses soil seeds spade compost",
    "Chess": "king queen rook gambit board", "Sailing": "ship ocean wind mast harbour",
}  # fmt: skip


def corpus(n: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """Texts of one or two topics, with words of any."""
    rng = np.random.default_rng(seed)
    names, everything = list(TOPICS), " ".join(TOPICS.values()).split()
    texts, labels = [], []
    for _ in range(n):
        chosen = [names[i] for i in rng.choice(len(names), int(rng.integers(1, 3)), replace=False)]
        words = [str(rng.choice(TOPICS[name].split())) for name in chosen for _ in range(3)]
        texts.append(" ".join([*words, *rng.choice(everything, 3)]))
        labels.append(chosen)
    return texts, labels


class Clock:
    """Goes on by a step whenever it is asked."""

    def __init__(self, step: float = 0.0) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now
