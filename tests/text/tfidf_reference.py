"""The vectoriser again, slow and obvious: Python's own str.lower, a Counter a document."""

import math
import re
from collections import Counter

import numpy as np
from word_reference import visible, words


def terms_of(
    text: str, *, ngrams, analyzer, lowercase, min_token_length=2, cjk="bigrams", form_of=lambda word: word
) -> list[str]:
    low, high = ngrams
    text = visible(text)
    text = text.lower() if lowercase else text
    if analyzer == "word":
        tokens = [form_of(word) for word in words(text, min_token_length, cjk)]
        return [" ".join(tokens[i : i + n]) for n in range(low, high + 1) for i in range(len(tokens) - n + 1)]
    text = re.sub(r"\s\s+", " ", text)
    if analyzer == "char":
        return [text[i : i + n] for n in range(low, high + 1) for i in range(len(text) - n + 1)]
    found = []
    for word in text.split():
        padded = f" {word} "
        if len(padded) <= low:
            found.append(padded)
            continue
        found += [padded[i : i + n] for n in range(low, high + 1) for i in range(len(padded) - n + 1)]
    return found


def fit_transform(texts, *, min_df=1, max_df=1.0, sublinear_tf=False, smooth_idf=True, use_idf=True, norm="l2", **how):
    """The terms, sorted, and the dense matrix in float64."""
    counts = [Counter(terms_of(text, **how)) for text in texts]
    df = Counter(term for count in counts for term in count)
    low = min_df if isinstance(min_df, int) else min_df * len(texts)
    high = max_df if isinstance(max_df, int) else max_df * len(texts)
    vocabulary = sorted(term for term, n in df.items() if low <= n <= high)
    matrix = np.zeros((len(texts), len(vocabulary)))
    for row, count in zip(matrix, counts, strict=True):
        for column, term in enumerate(vocabulary):
            tf = float(count[term])
            if sublinear_tf and tf:
                tf = 1 + math.log(tf)
            if use_idf:
                tf *= math.log((len(texts) + smooth_idf) / (df[term] + smooth_idf)) + 1
            row[column] = tf
        length = {"l2": math.sqrt(np.sum(row**2)), "l1": np.sum(np.abs(row)), None: 1.0}[norm]
        row /= length or 1.0
    return vocabulary, matrix
