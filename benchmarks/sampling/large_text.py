"""Texts of very many classes for language models: titles of 50,000 words, laws of 100,000 and a million phrases.

``gutenberg-words`` are the titles and authors of Project Gutenberg's books. ``eurlex-phrases-100k`` and
``eurlex-phrases-1m`` are the 45,000 training texts of eurlex57k, 32 million words. Neighbouring words that occur
together at least 50 times are one token there, as in word2vec's phrases (Mikolov and others, 2013, section 4): the
model predicts the next word or phrase. For a million, neighbouring tokens that occur together twice are joined once
more.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common import datasets

__all__ = ["NAME", "PHRASES", "corpus_of", "prepare"]

NAME = "gutenberg-words"
N_WORDS = 50_000  # the most frequent ones, "<unk>" for the others and the end of a line among them
OTHERS = 250  # books to validate on, and as many to test on: scores of all words take longer than training
PHRASES = {  # how often neighbours must occur together to be one token, in one pass after another; how many tokens
    "eurlex-phrases-100k": ((50,), 100_000),
    "eurlex-phrases-1m": ((50, 2), 1_000_000),
}
EXCERPTS = {"validation": (20, 50), "test": (40, 75)}  # texts to measure on, and tokens out of the middle of each
_WORD = re.compile(r"\w+|[^\w\s]")
_FILES = ("train.txt", "valid.txt", "test.txt")
_ARRAYS = ("train.npy", "validation.npy", "test.npy")
Ids = npt.NDArray[Any]


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


def corpus_of(name: str, data: Path, cache: Path) -> Any:
    """The corpus ``name``, one of these or a folder of texts in ``data``."""
    from sylvan.tasks.language_model import Corpus, read_corpus

    if name not in PHRASES:
        return read_corpus(prepare(data, cache) if name == NAME else data / name)
    folder = datasets.made_once(cache / name, _ARRAYS, lambda beside: _write_phrases(name, data, beside))
    arrays = [np.load(folder / part) for part in _ARRAYS]
    return Corpus(["<eos>", *map(str, range(1, PHRASES[name][1]))], *arrays)


def _write_phrases(name: str, data: Path, folder: Path) -> None:
    """Ids of the three texts, 0 for the end of a law, 1 for what isn't known, the others by frequency."""
    least, n_tokens = PHRASES[name]
    words: dict[str, int] = {}
    texts: list[list[Ids]] = []
    for part in ("train", "dev", "test"):
        rows = datasets.read_jsonl(data / "eurlex57k" / f"{part}.jsonl.xz")[0]
        rows = rows if part == "train" else rows[: max(n for n, _ in EXCERPTS.values())]
        found = ([words.setdefault(word, len(words)) for word in _WORD.findall(row.lower())] for row in rows)
        texts.append([np.array([*ids, -1]) for ids in found])
    # The end of a law is a token that is joined with nothing.
    streams = [np.concatenate(part) + 1 for part in texts]
    for enough in least:
        streams = merged(streams, enough)
    counts = np.bincount(streams[0])
    order = np.argsort(-counts[1:], kind="stable")[: n_tokens - 2] + 1
    ids = np.ones(1 + max(int(stream.max()) for stream in streams), np.int32)
    ids[0], ids[order] = 0, np.arange(2, 2 + len(order))
    np.save(folder / "train.npy", ids[streams[0]])
    for stream, (part, (n, length)) in zip(streams[1:], EXCERPTS.items(), strict=True):
        laws = np.split(stream, np.flatnonzero(stream == 0) + 1)[:n]
        middles = [law[max(0, (len(law) - length) // 2) :][:length] for law in laws]
        np.save(folder / f"{part}.npy", ids[np.concatenate(middles)])


def merged(streams: list[Ids], least: int) -> list[Ids]:
    """The texts with neighbours joined, from left to right, that occur together ``least`` times in the first text."""
    n = 1 + max(int(stream.max()) for stream in streams)
    keys = [np.where((s[:-1] > 0) & (s[1:] > 0), s[:-1].astype(np.int64) * n + s[1:], -1) for s in streams]
    pairs, counts = np.unique(keys[0], return_counts=True)
    pairs = pairs[(counts >= least) & (pairs >= 0)]
    results = []
    for stream, key in zip(streams, keys, strict=True):
        place = np.minimum(np.searchsorted(pairs, key), len(pairs) - 1)
        joins = pairs[place] == key
        at = np.arange(len(joins))
        first = np.maximum.accumulate(np.where(joins & ~np.r_[False, joins[:-1]], at, 0))
        joins &= (at - first) % 2 == 0  # every second pair of a run: those between overlap with them
        result = stream.astype(np.int64)
        result[:-1][joins] = n + place[joins]
        results.append(result[np.r_[True, ~joins]])
    return _renumbered(results)


def _renumbered(streams: list[Ids]) -> list[Ids]:
    """The same texts with ids without gaps; 0 stays 0."""
    used = np.unique(np.concatenate([np.zeros(1, np.int64), *streams]))
    return [np.searchsorted(used, stream) for stream in streams]
