"""What a vectoriser will make of many texts, from a sample of them. A vocabulary grows with a power of what is read
(Heaps' law), and so does the number of terms that occur once, twice and so on, whose shares follow from that power
(Karlin, Journal of Mathematics and Mechanics, 1967)."""

from __future__ import annotations

import copy
import itertools
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError
from sylvan.parallel import resolve_jobs
from sylvan.runtime.plan import timed
from sylvan.text.counting import as_documents
from sylvan.text.tfidf import TfidfVectorizer

MOST_TEXTS, MOST_CHARACTERS = 5_000, 4_000_000
HEAPS = 0.6  # the power of most vocabularies, where a sample doesn't tell
TERM_BYTES = 48  # of a term while texts are counted, beside its letters


@dataclass(frozen=True)
class TextEstimate:
    """Features of some texts, and what those of all are like."""

    rows: npt.NDArray[np.int64]  # numbers of the texts that were read, rising; all of them if they are few
    features: Csr  # their features
    n_texts: int  # all of them
    n_terms: int  # columns of all texts
    n_entries: int  # values of all texts
    seconds: float  # with the vectoriser's threads
    peak_bytes: int  # memory while it is fitted, with the features that result
    vectorizer_bytes: int  # memory of the fitted vectoriser


def estimate_texts(vectorizer: TfidfVectorizer, texts: Sequence[str]) -> TextEstimate:
    """What ``vectorizer.fit_transform(texts)`` will take and give; the vectoriser doesn't change."""
    documents = as_documents(texts)
    vectorizer = vectorizer.resolved(documents)
    lengths = np.asarray(kernels.tfidf_text_lengths(documents), np.int64) if documents else np.zeros(0, np.int64)
    drawn = np.random.default_rng(0).permutation(len(documents))[:MOST_TEXTS]
    drawn = drawn[: max(1, int(np.searchsorted(np.cumsum(lengths[drawn]), MOST_CHARACTERS, side="right")))]
    small = _for_sample(vectorizer, len(drawn) / max(1, len(documents)))
    try:
        return _estimate(vectorizer, small, documents, lengths, drawn)
    except DataError:
        if len(drawn) >= len(documents):
            raise
    return _estimate(vectorizer, copy.copy(vectorizer), documents, lengths, np.arange(len(documents)))


def _for_sample(vectorizer: TfidfVectorizer, share: float) -> TfidfVectorizer:
    """One that leaves of a sample what the vectoriser will leave of all: its counts of texts are for all of them."""
    small = copy.copy(vectorizer)
    if share < 1:
        small.min_df, small.max_df = (_scaled(df, share) for df in (vectorizer.min_df, vectorizer.max_df))
        if vectorizer.phrase_min_df is not None:
            small.phrase_min_df = int(_scaled(vectorizer.phrase_min_df, share))
    return small


def _scaled(df: float, share: float) -> float:
    return max(1, round(df * share)) if isinstance(df, numbers.Integral) else df


def _estimate(
    vectorizer: TfidfVectorizer, small: TfidfVectorizer, documents: tuple[str, ...],
    lengths: npt.NDArray[np.int64], drawn: npt.NDArray[np.int64],
) -> TextEstimate:  # fmt: skip
    rows, n_jobs = np.sort(drawn), resolve_jobs(vectorizer.n_jobs)
    with timed() as clock:
        features = small.fit_transform_blocks([[documents[row] for row in rows]])
    ratio = float(lengths.sum()) / max(1.0, float(lengths[rows].sum()))
    n_seen, entries = small.n_terms_, len(features.indices)
    n_terms, n_entries, n_counted = n_seen, entries, entries
    if len(rows) < len(documents):
        n_counted = round(entries * ratio)
        parts = [np.searchsorted(rows, drawn[: len(drawn) // part]) for part in (16, 4)]
        phrases = small.phrases()
        several = int(phrases[features.indices].sum())
        n_terms, n_entries = 0, 0
        for of_kind, values, min_df in (
            (~phrases, entries - several, vectorizer.min_df),
            (phrases, several, _higher(vectorizer.min_df, vectorizer.phrase_min_df)),
        ):
            if values:
                read = [*(_read(features, part, of_kind) for part in parts), (int(of_kind.sum()), values)]
                terms, left = _all_terms(min_df, read, values * ratio)
                n_terms, n_entries = n_terms + terms, n_entries + left
        n_terms = min(n_terms, vectorizer.max_features or n_terms)
    fitted = small.to_state()
    letters = fitted.arrays["term_bytes"].nbytes / n_seen
    slots = 8 << max(0, math.ceil(math.log2(n_terms / 6)))  # three of four are full
    counting = round(n_terms * (TERM_BYTES + letters)) * n_jobs
    return TextEstimate(
        rows, features, len(documents), n_terms, n_entries, clock.seconds * ratio / n_jobs,
        8 * n_counted + 8 * n_entries + 8 * len(documents) + counting,
        round(n_terms * (letters + 8 + 4 * ("idf" in fitted.arrays))) + 8 * slots,
    )  # fmt: skip


def _higher(min_df: float, phrase_min_df: int | None) -> float:
    """The limit for terms of several words; a share of the texts stays one."""
    return max(min_df, phrase_min_df or 1) if isinstance(min_df, numbers.Integral) else min_df


def _read(features: Csr, rows: npt.NDArray[np.int64], of_kind: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Different terms and values of some of the rows, of the terms in a mask ``of_kind``."""
    parts = [features.indices[features.indptr[row] : features.indptr[row + 1]] for row in rows]
    terms = np.concatenate([*parts, np.zeros(0, np.int32)])
    terms = terms[of_kind[terms]]
    return len(np.unique(terms)), len(terms)


def _all_terms(min_df: float, read: Sequence[tuple[int, int]], n_counted: float) -> tuple[int, int]:
    """Terms and values of all texts, by the (terms, values) of the sample and, before it, of ever larger parts."""
    n_seen, n_values = read[-1]
    further, mean, power = math.log(n_counted / n_values), HEAPS, HEAPS
    if not isinstance(min_df, numbers.Integral):
        mean = power = 0.0  # terms in a share of the texts are all in the sample
    elif all(0 < smaller[0] < two[0] for smaller, two in itertools.pairwise(read)):
        # The power falls slowly, by as much as it did within the sample.
        x, y = np.log(np.array(read, np.float64)).T[::-1]
        before, last = np.diff(y) / np.diff(x)
        bend = float(np.clip((last - before) / (x[2] - x[0]) * 2, -0.05, 0))
        mean, power = (
            float(np.clip(last + bend * ((x[2] - x[1]) + way) / 2, 0.05, 0.98)) for way in (further, 2 * further)
        )
    n_terms = n_seen * math.exp(mean * further)
    rare, n_entries, share = 0.0, float(n_counted), power  # the share of terms in one text, then in two, and so on
    for times in range(1, int(min(min_df, 1_000)) if power else 1):
        rare += share
        n_entries -= share * n_terms * times
        share *= (times - power) / (times + 1)
    n_terms *= 1 - min(rare, 0.99)
    return max(1, round(n_terms)), max(1, round(n_entries))
