"""How far the other candidates of a row speak for one: by what their names share, and by how labels are related."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.canonical import Csr
from sylvan.matching.lexicon import Lexicon
from sylvan.ranking.candidate_places import CandidatePlaces, entries_of

__all__ = ["OF_COMPANY", "LabelTies", "company_columns"]

OF_COMPANY = ("words", "first_part", "last_part", "broader", "narrower", "related", "siblings")
_OF_ITEMS = [OF_COMPANY.index(name) for name in ("words", "first_part", "last_part", "siblings")]
_OF_PAIRS = [OF_COMPANY.index(name) for name in ("broader", "narrower", "related")]

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int32]
_Kinds = npt.NDArray[np.int64]


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

    @cached_property
    def items(self) -> tuple[Csr, _Kinds]:
        """What labels may share, as one matrix, and the kind of each column, by its place in _OF_ITEMS."""
        return _side_by_side((self.words, self.first_part, self.last_part, self.broader))

    @cached_property
    def pairs(self) -> tuple[Csr, _Kinds]:
        """The labels that each is tied to, of each kind in _OF_PAIRS, as one matrix, and the kind of each column."""
        return _side_by_side((self.broader, self.narrower, self.related))

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


def _side_by_side(matrices: tuple[Csr, ...]) -> tuple[Csr, _Kinds]:
    joined = Csr.of(sp.hstack([matrix.to_scipy() for matrix in matrices], "csr").astype(np.float32))
    return joined, np.repeat(np.arange(len(matrices)), [matrix.shape[1] for matrix in matrices])


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
    result[..., _OF_ITEMS] = _shared(labels, mean, *ties.items)
    result[..., _OF_PAIRS] = _tied(labels, mean, *ties.pairs)
    return result


def _shared(labels: _Ids, mean: _Floats, items: Csr, kinds: _Kinds) -> npt.NDArray[np.float64]:
    """Of each candidate and kind of item, the sum of the others' scores times their dot product with it.

    All that a row's candidates have of one item is summed once, and a candidate's own part taken off again, so that the
    work grows with the candidates and not with their pairs.
    """
    whose, entry = entries_of(labels.ravel(), items.indptr)
    value, item = items.data[entry].astype(np.float64), items.indices[entry]
    own = value * mean.ravel()[whose]
    keys = (whose // max(labels.shape[1], 1)) * np.int64(items.shape[1]) + item
    _, number = np.unique(keys, return_inverse=True)
    of_all = np.bincount(number, weights=own)
    others = np.maximum(of_all[number] - own, 0)  # below 0 by rounding alone
    return _sums(whose, kinds[item], value * others, labels.shape, len(_OF_ITEMS))


def _tied(labels: _Ids, mean: _Floats, pairs: Csr, kinds: _Kinds) -> npt.NDArray[np.float64]:
    """Of each candidate and kind of relation, the sum of the scores of those candidates that it is tied to."""
    whose, entry = entries_of(labels.ravel(), pairs.indptr)
    n_labels, tie = pairs.shape[0], pairs.indices[entry]
    places = CandidatePlaces.of(labels, n_labels)
    found, where = places.find(whose // max(labels.shape[1], 1), tie % max(n_labels, 1))
    scores = mean.ravel()[where].astype(np.float64)
    return _sums(whose[found], kinds[tie[found]], scores, labels.shape, len(_OF_PAIRS))


def _sums(
    whose: npt.NDArray[np.int64], kind: _Kinds, values: npt.NDArray[np.float64], shape: tuple[int, ...], n_kinds: int
) -> npt.NDArray[np.float64]:
    """The sum of the values of each candidate and kind."""
    size = shape[0] * shape[1] * n_kinds
    return np.asarray(np.bincount(whose * n_kinds + kind, weights=values, minlength=size), np.float64).reshape(
        *shape, n_kinds
    )
