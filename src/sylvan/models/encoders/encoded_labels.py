"""A text encoder and its vectors of labels' texts: how near labels are to texts by what both mean."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.data.label_terms import LabelTerms, label_terms
from sylvan.models.encoders.dense_features import encoded
from sylvan.models.encoders.saved_encoder import SavedEncoder, encoder_files

if TYPE_CHECKING:
    from sylvan.neural.text.text_encoder import TextEncoder

OF_ENCODER = ("cosine", "below_best")

_Floats = npt.NDArray[np.float32]
_opening = threading.RLock()  # not an object's own: locks can't be copied


def first_terms(label_texts: Any, names: Iterable[str]) -> list[str]:
    """The first term of each label, by ``label_texts`` as :meth:`LexicalMatcher.fit` takes them; "" without any."""
    listed = list(names)
    terms = label_terms(label_texts, listed)
    known = (terms.get(name, LabelTerms()) for name in listed)
    return [next(iter((*one.names, *one.definitions)), "") for one in known]


class EncodedLabels:
    """A text encoder, and its vectors of labels' texts."""

    def __init__(self, encoder: TextEncoder | SavedEncoder, vectors: npt.NDArray[np.float16], by_name: bool) -> None:
        # Shape: vectors (n_labels, dim)
        self._encoder, self.vectors, self.by_name = encoder, vectors, by_name

    @classmethod
    def of(cls, encoder: TextEncoder, label_texts: Any, names: Iterable[str], n_jobs: int | None) -> EncodedLabels:
        """Of labels, by the first of their terms in ``label_texts``, as :meth:`LexicalMatcher.fit` takes them."""
        texts = first_terms(label_texts, names)
        vectors = encoded(encoder, texts, n_jobs, "Encoding labels' texts").astype(np.float16)
        return cls(encoder, vectors, label_texts is None or isinstance(label_texts, str))

    def rows(self, texts: list[str], n_jobs: int | None) -> _Floats:
        """The vectors of texts, of shape (n, dim)."""
        if not texts:
            return np.zeros((0, self.vectors.shape[1]), np.float32)
        return encoded(self._opened(), texts, n_jobs)

    def columns(self, vectors: _Floats, labels: npt.NDArray[np.int32]) -> _Floats:
        """Of every candidate, how near its text is to the row."""
        # Shapes: vectors (n, dim); labels (n, k); returns (n, k, 2)
        result = np.zeros((*labels.shape, len(OF_ENCODER)), np.float32)
        of_labels = self.vectors[np.maximum(labels, 0)].astype(np.float32)
        # An einsum adds up in one order, whatever the number of rows; a product by BLAS doesn't.
        cosines = np.einsum("nd,nkd->nk", vectors, of_labels, optimize=False)
        there = labels >= 0
        best = np.where(there, cosines, np.float32(-np.inf)).max(axis=1, initial=-np.inf, keepdims=True)
        result[..., 0] = np.where(there, cosines, 0)
        np.subtract(best, cosines, out=result[..., 1], where=there)
        return result

    def moved(self, ids: npt.NDArray[np.int32], names: list[str], n_jobs: int | None) -> EncodedLabels:
        """By other ids, those in ``names``, among which there may be new labels."""
        vectors = np.zeros((len(names), self.vectors.shape[1]), np.float16)
        vectors[ids] = self.vectors
        new = np.setdiff1d(np.arange(len(names)), ids)
        if self.by_name and len(new):
            vectors[new] = self.rows([names[at] for at in new.tolist()], n_jobs)
        return EncodedLabels(self._encoder, vectors, self.by_name)

    def without(self, labels: npt.NDArray[np.int32]) -> EncodedLabels:
        """Without the vectors of some labels, whose ids stay."""
        vectors = self.vectors.copy()
        vectors[labels] = 0
        return EncodedLabels(self._encoder, vectors, self.by_name)

    def __getstate__(self) -> dict[str, Any]:
        self._opened()
        return dict(self.__dict__)

    def _opened(self) -> TextEncoder:
        with _opening:
            if isinstance(self._encoder, SavedEncoder):
                self._encoder = self._encoder.open_beside(self.vectors)
            return self._encoder

    # ---------------------------------------- storing

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names that they are stored under."""
        return {"encoded.vectors": self.vectors, "encoded.by_name": np.array([self.by_name], np.int64)}

    def files(self) -> dict[str, Any]:
        """The encoder's files, for a State."""
        encoder = self._encoder
        return encoder.files() if isinstance(encoder, SavedEncoder) else encoder_files(encoder)

    @classmethod
    def from_state(cls, state: store.State, n_labels: int) -> EncodedLabels | None:
        """From the arrays and files of a model, verified; None where there is no encoder."""
        if "encoded.vectors" not in state.arrays:
            return None
        vectors = store.need_range(state, "encoded.vectors", -1.01, 1.01, np.float16, (n_labels, None))
        by_name = store.need_range(state, "encoded.by_name", 0, 1, np.int64, (1,))
        return cls(SavedEncoder(state), vectors, bool(by_name[0]))
