"""What encoders of texts have in common: texts to rows of token ids, ids to batches, batches to vectors."""

from __future__ import annotations

import copy
import hashlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.params.fields import Parameterized

_Self = TypeVar("_Self", bound="TextEncoder")
_Found = TypeVar("_Found")
_loading = threading.RLock()  # not an encoder's own: locks can't be copied
# What was computed of encoders' weights, and of which state of them; no part of an encoder that is copied or saved.
_known: weakref.WeakKeyDictionary[TextEncoder, tuple[list[tuple[Any, int, int]], Any]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class TokenRows:
    """n texts as the ids of their tokens, text after text.

    Attributes
    ----------
    ids : ndarray of int32, shape (nnz,)
    offsets : ndarray of int64, shape (n + 1,)
        Where each text's ids begin, and where the last one's end.
    values : ndarray of float32, shape (nnz,), optional
        What each id counts, where texts are bags of features.

    Examples
    --------
    >>> from sylvan.neural import TokenRows
    >>> rows = TokenRows.from_lists([[4, 7, 5], [4, 5]])
    >>> len(rows), rows.lengths.tolist(), rows.take([1, 0]).ids.tolist()
    (2, [3, 2], [4, 5, 4, 7, 5])
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        for name, dtype in (("ids", np.int32), ("offsets", np.int64), ("values", np.float32)):
            if (array := getattr(self, name)) is not None:
                object.__setattr__(self, name, np.ascontiguousarray(array, dtype=dtype))
        ends = self.offsets
        fits = ends.ndim == 1 and len(ends) > 0 and ends[0] == 0 and self.ids.shape == (ends[-1],)
        if not fits or (np.diff(ends) < 0).any() or (self.values is not None and self.values.shape != self.ids.shape):
            raise DataError(
                "TokenRows needs ids of the shape (nnz,), offsets that rise from 0 to nnz and, if any, values of the "
                f"shape (nnz,). Got {self.ids.shape} ids and {self.offsets.shape} offsets instead."
            )

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[int]]) -> TokenRows:
        """Rows of one list of ids a text."""
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(ids) for ids in lists], out=offsets[1:])
        ids = np.fromiter(chain.from_iterable(lists), dtype=np.int32, count=int(offsets[-1]))
        return cls(ids, offsets)

    @classmethod
    def join(cls, parts: Sequence[TokenRows]) -> TokenRows:
        """The rows of all parts, one after the other."""
        if not parts:
            return cls(np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64))
        starts = np.cumsum([0, *(len(part.ids) for part in parts)])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
        values = [part.values for part in parts if part.values is not None]
        if values and len(values) < len(parts):
            raise DataError("TokenRows with values can't be joined with some that have none.")
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, np.concatenate([*offsets, starts[-1:]]), np.concatenate(values) if values else None)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of ids of each text, shape (n,)."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.ids.nbytes + self.offsets.nbytes + (0 if self.values is None else self.values.nbytes)

    def take(self, rows: Any) -> TokenRows:
        """Some of the texts, in the order asked for.

        Parameters
        ----------
        rows : array of int, shape (m,)
            Each from 0 to n - 1; a row may be named several times.

        Returns
        -------
        TokenRows
            m texts.
        """
        chosen = np.asarray(rows, dtype=np.int64).reshape(-1)
        lengths = self.lengths[chosen]
        offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # Place of each id in the new rows, moved to where its row begins in the old ones.
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return TokenRows(self.ids[places], offsets, None if self.values is None else self.values[places])

    def dense(self, padding: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The ids as a matrix padded on the right, and a mask that is 1 at ids and 0 at padding.

        Parameters
        ----------
        padding : int
            What stands after the end of a shorter text.

        Returns
        -------
        (ids, mask) : ndarrays of int64, shape (n, longest length)
        """
        lengths = self.lengths
        width = int(lengths.max()) if len(lengths) else 0
        mask = np.arange(width) < lengths[:, None]
        ids = np.full(mask.shape, padding, dtype=np.int64)
        ids[mask] = self.ids
        return ids, mask.astype(np.int64)


class TextEncoder(Parameterized, nn.Module, ABC):
    """Turns texts into vectors, in three steps that a training can take apart: tokenise, collate, forward.

    A constructor only assigns its parameters; weights are read by :meth:`load`, which every method that needs them
    calls. ``parameters()`` and whatever else is PyTorch's own sees them only after that.

    Attributes
    ----------
    max_length : int
        The most tokens of a text that are looked at.
    n_truncated : int
        How many texts the last :meth:`tokenize` has cut at ``max_length``.
    normalizes : bool
        Whether vectors are meant to be brought to length 1; :meth:`forward` doesn't, :func:`~sylvan.neural.embed` does.
    """

    max_length: int
    n_truncated: int = 0
    normalizes: bool = False
    _loaded: bool = False

    def load(self: _Self) -> _Self:
        """Read the weights, unless that has been done; the encoder itself, in evaluation mode when it is new.

        Raises
        ------
        ParameterError
            When a parameter is out of its range.
        ModelError
            When files are missing, damaged or don't fit together, or a hub's name can't be reached.
        """
        with _loading:
            if not self._loaded:
                self.check_params()
                self._load()
                self._loaded = True
                self.eval()
        return self

    @abstractmethod
    def _load(self) -> None:
        """Make the modules and fill them."""

    @property
    @abstractmethod
    def dim_out(self) -> int:
        """Dimensions of the vectors."""

    @abstractmethod
    def tokenize(self, texts: Iterable[str]) -> TokenRows:
        """The texts' ids, cut at ``max_length``.

        Parameters
        ----------
        texts : iterable of str

        Returns
        -------
        TokenRows

        Raises
        ------
        DataError
            When ``texts`` is one string or holds anything but strings.
        """

    @abstractmethod
    def collate(self, rows: TokenRows) -> dict[str, Tensor]:
        """One batch for :meth:`forward`, on the CPU.

        Parameters
        ----------
        rows : TokenRows

        Returns
        -------
        dict of str to Tensor
        """

    @abstractmethod
    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """The vectors of a batch.

        Parameters
        ----------
        batch : mapping of str to Tensor
            What :meth:`collate` gave, on the device of the weights.

        Returns
        -------
        Tensor of float32, shape (n, dim_out)
        """

    def tables(self) -> list[nn.Parameter]:
        """Parameters whose gradients are sparse, for an optimiser that takes these."""
        self.load()
        return []

    def inner_parameters(self) -> list[nn.Parameter]:
        """All other parameters that are trained."""
        tables = {id(table) for table in self.tables()}
        return [weight for weight in self.parameters() if weight.requires_grad and id(weight) not in tables]

    def fold(self) -> None:
        """Put what was trained beside the weights into them, as :meth:`save_pretrained` would.

        A trained encoder then gives the same vectors bit for bit as its files; LoRA's additions begin again at zero.
        """

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain values that are the same for two encoders that give the same vectors: settings and checksums."""

    def _of_weights(self, find: Callable[[], _Found]) -> _Found:
        """What ``find`` computes of the weights, cached until one of them is replaced or written to. PyTorch counts how
        often a tensor was written to. Neither that count nor the cached tensor sees who writes around it, through
        ``weight.data`` or NumPy; Sylvan's trainings don't."""
        tensors = [*self.parameters(), *self.buffers()]
        if any(tensor.is_inference() for tensor in tensors):  # which aren't counted
            return find()
        state = [(tensor, tensor._version, tensor.data_ptr()) for tensor in tensors]
        cached = _known.get(self)
        if cached is not None and len(cached[0]) == len(state):
            same = (a is b and old == new for (a, *old), (b, *new) in zip(cached[0], state, strict=True))
            if all(same):
                value: _Found = cached[1]
                return value
        value = find()
        _known[self] = (state, value)
        return value

    @abstractmethod
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write weights and settings as they are now, for ``open_encoder(folder)``.

        Of a network it is what ``AutoModel``, ``AutoTokenizer`` and ``SentenceTransformer`` load, with what LoRA has
        learned added to the weights.

        Parameters
        ----------
        folder : path
            Made when it isn't there. Files of the same names are replaced, each at one stroke.

        Raises
        ------
        ModelError
            When the folder can't be written.
        """

    def copy(self: _Self) -> _Self:
        """An encoder of its own with the weights as they are now."""
        return copy.deepcopy(self)

    def __sklearn_clone__(self: _Self) -> _Self:
        """What scikit-learn's searches begin with: the weights that were given, which are no parameter."""
        return self.copy()

    def set_params(self: _Self, **values: Any) -> _Self:
        """Set parameters by name, before the weights are read.

        Raises
        ------
        ParameterError
            For an unknown name, and once the weights have been read.
        """
        if self._loaded and values:
            raise ParameterError(
                f"The parameters of this {type(self).__name__} can't be changed any more: its weights have been read. "
                "Make a new one."
            )
        return super().set_params(**values)


def checksum_of_tensors(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """A checksum of named tensors, the same wherever they lie and in whatever order they come."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
        plain = tensor.detach().to("cpu").contiguous()
        digest.update(f"{name}:{plain.dtype}:{tuple(plain.shape)};".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data if plain.numel() else b"")
    return digest.hexdigest()


def as_tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor over an array's memory; a copy where the array may not be written."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())
