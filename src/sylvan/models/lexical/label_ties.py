"""How far the other candidates of a row speak for one: by what their names share, and by how labels are related."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays.canonical import Csr
from sylvan.models.lexical.lexicon import Lexicon

OF_COMPANY = ("words", "first_part", "last_part", "broader", "narrower", "related", "siblings")

_Floats = npt.NDArray[np.float32]
_Ids = npt.NDArray[np.int32]
_Columns = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class LabelTies:
    """What ties labels to each other."""

    # shape (n_labels, n_words): the words of all names and definitions of a label, rarer ones counting for more, each
    # row of length 1
    words: Csr
    # first_part, last_part: shape (n_labels, n_parts): 1 for the first and for the last part of a heading such as
    # "Soldiers -- Fiction"; of several headings, for the first part of the first one, and for the last part that isn't
    # in an earlier place already
    first_part: Csr
    last_part: Csr
    broader: Csr  # broader, narrower, related: shape (n_labels, n_labels): 1 for each label that a label is tied to
    narrower: Csr
    related: Csr

    @cached_property
    def items(self) -> tuple[Csr, _Columns]:
        """What labels may share, as one matrix, and of each item the place in OF_COMPANY."""
        parts = {
            "words": self.words, "first_part": self.first_part, "last_part": self.last_part, "siblings": self.broader
        }  # fmt: skip
        columns = np.array([OF_COMPANY.index(name) for name in parts], np.uint8)
        return _side_by_side(*parts.values()), np.repeat(columns, [part.shape[1] for part in parts.values()])

    @cached_property
    def pairs(self) -> tuple[Csr, _Columns]:
        """The labels that each is broader, narrower or related to, side by side, and the places in OF_COMPANY."""
        parts = {"broader": self.broader, "narrower": self.narrower, "related": self.related}
        return _side_by_side(*parts.values()), np.array([OF_COMPANY.index(name) for name in parts], np.uint8)

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


def _side_by_side(*matrices: Csr) -> Csr:
    return Csr.of(sp.hstack([matrix.to_scipy() for matrix in matrices], "csr").astype(np.float32))


def _one_part(lexicon: Lexicon, last: bool) -> tuple[npt.NDArray[np.int64], _Ids]:
    """The first or the last part of each label's heading, where it is one of several parts."""
    has = np.diff(lexicon.part_offsets) > 0
    at = lexicon.part_offsets[1:][has] - 1 if last else lexicon.part_offsets[:-1][has]
    return np.concatenate(([0], np.cumsum(has))).astype(np.int64), lexicon.part_phrases[at]


def _ones(offsets: npt.NDArray[np.int64], ids: _Ids, n: int) -> Csr:
    return Csr(offsets, ids, np.ones(len(ids), np.float32), (len(offsets) - 1, n))


def company_columns(labels: _Ids, mean: _Floats, ties: LabelTies) -> _Floats:
    """What the other candidates of a row, each by its mean score, say for a candidate."""
    # Shapes: labels (n, k); mean (n, k); returns (n, k, 7)
    n, k = labels.shape
    result = np.zeros((n * k, len(OF_COMPANY)), np.float32)
    labels, mean = np.ascontiguousarray(labels), np.ascontiguousarray(mean)
    items, kinds = ties.items
    kernels.shared_columns(labels, mean, items.indptr, items.indices, items.data, kinds, result)
    pairs, kinds = ties.pairs
    if pairs.nnz:
        kernels.tied_columns(labels, mean, pairs.indptr, pairs.indices, pairs.shape[0], kinds, result)
    return result.reshape(n, k, len(OF_COMPANY))
