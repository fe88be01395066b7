"""How far the other candidates of a row speak for one: by what their names share, and by how labels are related."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.canonical import Csr
from sylvan.matching.lexicon import Lexicon
from sylvan.ranking.candidate_columns import entries_of

__all__ = ["OF_COMPANY", "LabelTies", "company_columns"]

OF_COMPANY = ("words", "first_part", "last_part", "broader", "narrower", "related", "siblings")

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class LabelTies:
    """What ties labels to each other.

    Attributes
    ----------
    words : Csr of shape (n_labels, n_words)
        The words of all names and definitions of a label, rarer ones counting for more, each row of length 1.
    first_part, last_part : Csr of shape (n_labels, n_parts)
        1 for the first and for the last part of a heading such as "Soldiers -- Fiction"; of several headings, for the
        first part of the first one, and for the last part that isn't in an earlier place already.
    broader, narrower, related : Csr of shape (n_labels, n_labels)
        1 for each label that a label is tied to.
    """

    words: Csr
    first_part: Csr
    last_part: Csr
    broader: Csr
    narrower: Csr
    related: Csr

    @classmethod
    def of(cls, lexicon: Lexicon) -> LabelTies:
        """Those of the names and relations that a lexicon holds."""
        n_labels = lexicon.n_labels
        idf = np.repeat(lexicon.idf, np.diff(lexicon.posting_offsets))
        by_word = sp.csr_matrix((idf, lexicon.posting_labels, lexicon.posting_offsets), (lexicon.n_words, n_labels))
        words = Csr.of(by_word.T.tocsr().astype(np.float32)).unit_rows()
        n_phrases = len(lexicon.phrase_offsets) - 1
        return cls(
            words, _ones(*_one_part(lexicon, False), n_phrases), _ones(*_one_part(lexicon, True), n_phrases),
            _ones(lexicon.broader_offsets, lexicon.broader_labels, n_labels),
            _ones(lexicon.narrower_offsets, lexicon.narrower_labels, n_labels),
            _ones(lexicon.related_offsets, lexicon.related_labels, n_labels),
        )  # fmt: skip


def _one_part(lexicon: Lexicon, last: bool) -> tuple[npt.NDArray[np.int64], _Ids]:
    """The first or the last part of each label's heading, where it is one of several parts."""
    has = np.diff(lexicon.part_offsets) > 0
    at = lexicon.part_offsets[1:][has] - 1 if last else lexicon.part_offsets[:-1][has]
    return np.concatenate(([0], np.cumsum(has))).astype(np.int64), lexicon.part_phrases[at]


def _ones(offsets: npt.NDArray[np.int64], ids: _Ids, n: int) -> Csr:
    return Csr(offsets, ids, np.ones(len(ids), np.float32), (len(offsets) - 1, n))


def company_columns(labels: _Ids, mean: _Floats, ties: LabelTies) -> _Floats:
    """What the other candidates of a row, each by its mean score, say for a candidate.

    Parameters
    ----------
    labels : ndarray of int32, shape (n, k)
        Candidates, each once in a row; -1 where there is none.
    mean : ndarray of float32, shape (n, k)
        Their mean scores, at least 0.
    ties : LabelTies

    Returns
    -------
    ndarray of float32, shape (n, k, 7)
        Zeros where there is no candidate. Sums over the other candidates of the row of their mean scores: for
        ``words``, times the cosine between their names and this one's, by words; then of those alone whose headings
        have the same ``first_part`` or ``last_part``, and that are ``broader``, ``narrower`` or ``related`` to it; for
        ``siblings``, times the number of broader labels that both have.
    """
    n, k = labels.shape
    result = np.zeros((n, k, len(OF_COMPANY)), np.float32)
    for at, items in ((0, ties.words), (1, ties.first_part), (2, ties.last_part), (6, ties.broader)):
        result[..., at] = _shared(labels, mean, items).reshape(n, k)
    for at, pairs in ((3, ties.broader), (4, ties.narrower), (5, ties.related)):
        result[..., at] = _tied(labels, mean, pairs).reshape(n, k)
    return result


def _shared(labels: _Ids, mean: _Floats, items: Csr) -> npt.NDArray[np.float64]:
    """Of each candidate, the sum of the others' scores times their dot product with it.

    All that a row's candidates have of one item is summed once, and a candidate's own part taken off again, so that the
    work grows with the candidates and not with their pairs.
    """
    if not items.nnz:
        return np.zeros(labels.size)
    whose, entry = entries_of(labels.ravel(), items)
    value = items.data[entry].astype(np.float64)
    own = value * mean.ravel()[whose]
    keys = (whose // labels.shape[1]) * np.int64(items.shape[1]) + items.indices[entry]
    _, number = np.unique(keys, return_inverse=True)
    of_all = np.bincount(number, weights=own)
    others = np.maximum(of_all[number] - own, 0)  # below 0 by rounding alone
    return _sums(whose, value * others, labels.size)


def _tied(labels: _Ids, mean: _Floats, pairs: Csr) -> npt.NDArray[np.float64]:
    """Of each candidate, the sum of the scores of those candidates that it is tied to."""
    if not pairs.nnz or not labels.size:
        return np.zeros(labels.size)
    whose, entry = entries_of(labels.ravel(), pairs)
    n_labels, row = np.int64(pairs.shape[1] + 1), np.arange(labels.size) // labels.shape[1]
    keys = row * n_labels + labels.ravel() + 1
    order = np.argsort(keys, kind="stable")
    wanted = row[whose] * n_labels + pairs.indices[entry] + 1
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    found = keys[order[at]] == wanted
    return _sums(whose[found], mean.ravel()[order[at[found]]].astype(np.float64), labels.size)


def _sums(whose: npt.NDArray[np.int64], values: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.float64]:
    """The sum of the values of each of n candidates."""
    return np.asarray(np.bincount(whose, weights=values, minlength=n), np.float64)
