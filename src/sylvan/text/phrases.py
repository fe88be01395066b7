"""Terms of several words: whether they pay, and how much they count. Short texts have so few words that pairs of them
tell more; long texts have enough, and their pairs, most of which are rare, take weight from the words, and most of the
time and size of a model. Beside words, pairs count half, and only those of two texts: at full weight they cost short
texts with few rows precision."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from sylvan import kernels
from sylvan.text.counting import Scan, chunks

FIRST_TEXTS = 1_000  # by which it is chosen
SHORT = 40  # words; the median of texts whose pairs are counted


class Phrases(NamedTuple):
    """Lengths of n-grams, the weight of those of several words, and how many texts they must occur in."""

    ngrams: tuple[int, int]
    weight: float = 1.0
    min_df: int = 1

    def parameters(self) -> dict[str, Any]:
        """The parameters of a vectoriser that say the same."""
        weight, min_df = None if self.weight == 1 else self.weight, None if self.min_df == 1 else self.min_df
        return {"ngrams": self.ngrams, "phrase_weight": weight, "phrase_min_df": min_df}


WORDS, PAIRS = Phrases((1, 1)), Phrases((1, 2), 0.5, 2)


def chosen_phrases(blocks: Iterable[tuple[str, ...]], scan: Scan) -> tuple[Phrases, Iterator[tuple[str, ...]]]:
    """What ``ngrams="auto"`` is for texts, by the first of them, and all of them again."""
    blocks, first, n_texts = iter(blocks), [], 0
    for block in blocks:
        first.append(block)
        n_texts += len(block)
        if n_texts >= FIRST_TEXTS:
            break
    texts = tuple(itertools.islice(itertools.chain.from_iterable(first), FIRST_TEXTS))
    short = bool(texts) and median_words(texts, scan) <= SHORT
    return PAIRS if short else WORDS, itertools.chain(first, blocks)


def median_words(texts: tuple[str, ...], scan: Scan) -> float:
    """How many words a text usually has; as many as are counted."""
    counts = []
    for start, stop in chunks(texts):
        entries, indptr = kernels.TfidfTerms().add(texts, start, stop, scan.table, scan.settings)
        before = np.concatenate(([0], np.cumsum(entries[: indptr[-1]] & np.uint64(0xFFFFFFFF), dtype=np.int64)))
        counts.append(np.diff(before[indptr]))
    return float(np.median(np.concatenate(counts)))
