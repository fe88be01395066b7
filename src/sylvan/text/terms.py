"""A fitted vocabulary: the terms' bytes in sorted order, those added later behind, and a hash table to find them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import kernels, store
from sylvan.errors import ModelError

PADDING = 16  # bytes after the last term that a kernel may read
_NONE = np.zeros(0, np.int64)
_FAULTS = {
    1: ("term_offsets", "must rise from 0 to the end of the terms' bytes, each term at least one byte long"),
    2: ("term_bytes", "must hold the terms in rising order, each of them once"),
    3: ("slots", "must name every term once and nothing else"),
    4: ("slots", "must be a power of two many, and more than there are terms"),
}


@dataclass(frozen=True)
class Terms:
    """The terms of a vocabulary, sorted by code point; a term's place is its column. Terms that were added later stand
    behind the others, those of each time sorted."""

    # shape (bytes of all terms + PADDING,): UTF-8, one after the other; a lone surrogate is encoded as the three bytes
    # of its code point
    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]  # shape (n_terms + 1,): where each term begins and the last one ends
    # shape (a power of two,): hash table: the high half of a term's hash and its place plus one, or 0
    slots: npt.NDArray[np.uint64]
    # where each lot of added terms begins, rising
    runs: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def phrases(self) -> npt.NDArray[np.bool_]:
        """Which of the terms have several words, between which there is a space."""
        result = np.zeros(len(self), dtype=bool)
        result[np.searchsorted(self.offsets, np.flatnonzero(self.data[: self.offsets[-1]] == 32), "right") - 1] = True
        return result

    def decode(self) -> list[str]:
        """The terms as strings, in the order of their columns."""
        data, offsets = self.data.tobytes(), self.offsets.tolist()
        try:
            return [data[offsets[i] : offsets[i + 1]].decode("utf-8", "surrogatepass") for i in range(len(self))]
        except UnicodeDecodeError as error:
            raise ModelError(f"A term of the vocabulary is not UTF-8 text: {error}.") from None

    def __getitem__(self, column: int) -> str:
        """The term of a column; bytes that are no UTF-8 are shown as replacement characters."""
        first, last = int(self.offsets[column]), int(self.offsets[column + 1])
        result = self.data[first:last].tobytes()
        try:
            return result.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return result.decode("utf-8", "replace")

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names that they are stored under."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "term_bytes": self.data, "term_offsets": self.offsets, "slots": self.slots.view(np.int64),
        }  # fmt: skip
        return {**arrays, "term_runs": self.runs} if len(self.runs) else arrays

    def followed_by(self, further: Terms) -> Terms:
        """With sorted terms that aren't among these, behind these."""
        end, more = int(self.offsets[-1]), int(further.offsets[-1])
        data = np.concatenate((self.data[:end], further.data[:more], np.zeros(PADDING, np.uint8)))
        offsets = np.concatenate((self.offsets, further.offsets[1:] + end))
        runs = np.append(self.runs, len(self)).astype(np.int64)
        return Terms(data, offsets, kernels.tfidf_slots(data, offsets), runs)

    def some(self, places: npt.NDArray[np.integer[Any]]) -> Terms:
        """Those at some rising places, without the means to find them."""
        lengths = np.diff(self.offsets)[places]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        at = np.arange(int(offsets[-1])) + np.repeat(self.offsets[places] - offsets[:-1], lengths)
        data = np.concatenate((self.data[at], np.zeros(PADDING, np.uint8)))
        return Terms(data, offsets, np.zeros(0, np.uint64))

    @classmethod
    def from_state(cls, state: store.State) -> Terms:
        """The terms of a loaded State, after verifying all that the kernels trust."""
        terms = cls(
            store.need_array(state, "term_bytes", np.uint8, (None,)),
            store.need_array(state, "term_offsets", np.int64, (None,)),
            store.need_array(state, "slots", np.int64, (None,)).view(np.uint64),
            store.need_array(state, "term_runs", np.int64, (None,)) if "term_runs" in state.arrays else _NONE,
        )
        fault = kernels.tfidf_check_terms(terms.data, terms.offsets, terms.slots, terms.runs)
        if fault:
            name, words = _FAULTS[fault]
            file = state.array_files.get(name, name)
            raise ModelError(f"{file!r} is damaged: array {name!r} of the {state.kind} {words}.")
        return terms
