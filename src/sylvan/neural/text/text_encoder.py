"""What encoders of texts have in common: texts to ids, ids to batches, batches to vectors."""

from __future__ import annotations

import copy
import hashlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from sylvan.errors import ParameterError
from sylvan.neural.text.token_rows import TokenRows
from sylvan.params.fields import Parameterized

_Self = TypeVar("_Self", bound="TextEncoder")
_Found = TypeVar("_Found")
_loading = threading.RLock()  # not an encoder's own: locks can't be copied
# What was computed of encoders' weights, and of which state of them; no part of an encoder that is copied or saved.
_known: weakref.WeakKeyDictionary[TextEncoder, tuple[list[tuple[Any, int, int]], Any]] = weakref.WeakKeyDictionary()


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

        A trained encoder then gives the same vectors to the bit as its files. Of LoRA's additions the products are
        summed up once instead of for each text, which rounds otherwise; the additions begin anew at zero.
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
        now = [(tensor, tensor._version, tensor.data_ptr()) for tensor in tensors]
        cached = _known.get(self)
        if cached is not None and len(cached[0]) == len(now):
            same = (a is b and rest == others for (a, *rest), (b, *others) in zip(cached[0], now, strict=True))
            if all(same):
                value: _Found = cached[1]
                return value
        value = find()
        _known[self] = (now, value)
        return value

    @abstractmethod
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write weights and settings as they are now, for ``open_encoder(folder)``.

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
