"""A text of 50,000 words for language models: the titles and authors of Project Gutenberg's books."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from benchmarks.common import datasets

__all__ = ["NAME", "prepare"]

NAME = "gutenberg-words"
N_WORDS = 50_000  # the most frequent ones, "<unk>" for the others and the end of a line among them
OTHERS = 250  # books to validate on, and as many to test on: scores of all words take longer than training
_WORD = re.compile(r"\w+|[^\w\s]")
_FILES = ("train.txt", "valid.txt", "test.txt")


def prepare(data: Path, cache: Path) -> Path:
    """A folder with ``train.txt``, ``valid.txt`` and ``test.txt``, a book a line, written unless it is there."""

    def write(beside: Path) -> None:
        training, others = (
            [_WORD.findall(text.lower()) for text in datasets.read_jsonl(data / "gutenberg" / f"{part}.jsonl.xz")[0]]
            for part in ("train", "test")
        )
        counts = Counter(word for book in training for word in book)
        known = {word for word, _ in counts.most_common(N_WORDS - 2)}
        for name, part in zip(_FILES, (training, others[:OTHERS], others[OTHERS : 2 * OTHERS]), strict=True):
            with open(beside / name, "w", encoding="utf-8") as lines:
                lines.writelines(" ".join(word if word in known else "<unk>" for word in book) + "\n" for book in part)

    return datasets.made_once(cache / NAME, _FILES, write)
