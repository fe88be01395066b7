"""How long a lexicon of 100,000 labels with 10 forms each takes to build, and a text of 100 kB to match.

``python -m benchmarks.lexical.scale``

The words of the text are drawn by Zipf's law from as many made-up words as a language has, those of the labels from the
same without the most frequent; no two labels have the same name, and the text holds some of them. Times are the least
that the processor worked, on one thread. Writes ``results/lexical-scale.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import RESULTS
from benchmarks.common import records
from benchmarks.common.process import say
from sylvan import LexicalMatcher, kernels
from sylvan.data import LabelTerms
from sylvan.models.lexical.lexicon import COUNTS
from sylvan.models.lexical.matching import TextMatcher

N_WORDS, FUNCTION_WORDS = 200_000, 300
TEXT_BYTES = 100_000


def made_words(rng: np.random.Generator) -> list[str]:
    """Different words of 3 to 11 letters."""
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    shares = 1 / np.arange(1, len(letters) + 1)
    found: dict[str, None] = {}
    while len(found) < N_WORDS:
        drawn = rng.choice(letters, (N_WORDS, 11), p=shares / shares.sum())
        for letters_of, length in zip(drawn.tolist(), rng.integers(3, 12, N_WORDS).tolist(), strict=True):
            found["".join(letters_of[:length])] = None
    return list(found)[:N_WORDS]


def made_names(rng: np.random.Generator, words: list[str], chances: np.ndarray, n: int) -> list[str]:
    """Different names of one to four words, few of them of one, without the words that are in every text."""
    content = np.where(np.arange(len(words)) < FUNCTION_WORDS, 0, chances)
    found: dict[str, None] = {}
    while len(found) < n:
        lengths = rng.choice([1, 2, 3, 4], n, p=[0.1, 0.45, 0.3, 0.15])
        drawn = rng.choice(len(words), (n, 4), p=content / content.sum())
        for places, length in zip(drawn.tolist(), lengths.tolist(), strict=True):
            found[" ".join(words[at] for at in places[:length])] = None
    return list(found)[:n]


def least(work: Callable[[], Any], repeats: int) -> float:
    """The least time in seconds that the processor worked: other work beside it only adds."""
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


def measured(n_labels: int, n_forms: int, repeats: int) -> dict[str, Any]:
    """Times of building and matching."""
    rng = np.random.default_rng(0)
    words = made_words(rng)
    chances = 1 / np.arange(1, N_WORDS + 1)
    chances /= chances.sum()
    names = made_names(rng, words, chances, n_labels * n_forms)
    rows = (names[at : at + n_forms] for at in range(0, len(names), n_forms))
    terms = {f"n{at}": LabelTerms((one,), tuple(others)) for at, (one, *others) in enumerate(rows)}
    say(f"{n_labels} labels with {n_forms} forms")
    began = time.thread_time()
    model = LexicalMatcher(n_jobs=1).fit(label_texts=terms)
    seconds = time.thread_time() - began
    text = made_text(rng, words, chances, names)
    matcher: TextMatcher = model.matcher_
    alone = TextMatcher(matcher.words, matcher.lexicon, 0)
    found, places = matcher.candidates((text,), 0, 1), matcher.words.read((text,))
    return {
        "n_labels": n_labels, "n_forms": n_forms, "n_words": N_WORDS, "build_s": round(seconds, 2),
        "text_bytes": len(text.encode()), "text_words": len(text.split()), "candidates": len(found.labels),
        "found": int(found.found.sum()), "phrases": int(found.counts[:, : COUNTS.index("sentences")].sum()),
        "read_ms": round(1000 * least(lambda: matcher.words.read((text,)), repeats), 3),
        "match_ms": round(1000 * least(lambda: kernels.match_labels(matcher.lexicon, *places, 0), repeats), 3),
        "read_and_match_ms": round(1000 * least(lambda: alone.candidates((text,), 0, 1), repeats), 3),
        "with_partial_ms": round(1000 * least(lambda: matcher.candidates((text,), 0, 1), repeats), 3),
        "rank_ms": round(1000 * least(lambda: model.rank([text], k=10), repeats), 3),
    }  # fmt: skip


def made_text(rng: np.random.Generator, words: list[str], chances: np.ndarray, names: list[str]) -> str:
    """Sentences of 20 words, every tenth with a label's name."""
    parts: list[str] = []
    size = 0
    while size < TEXT_BYTES:
        sentence = [words[at] for at in rng.choice(len(words), 20, p=chances).tolist()]
        if rng.random() < 0.1:
            sentence.append(names[int(rng.integers(len(names)))])
        parts.append(" ".join(sentence).capitalize() + ".")
        size += len(parts[-1]) + 1
    return " ".join(parts)[:TEXT_BYTES]


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--forms", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--results", default=str(RESULTS), help="folder of the JSON files")
    options = parser.parse_args()
    figures = measured(options.labels, options.forms, options.repeats)
    records.save(Path(options.results) / "lexical-scale.json", {**records.about(), "threads": 1, **figures})


if __name__ == "__main__":
    main()
