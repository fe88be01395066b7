"""Arrays that lie in a file without a name: the disk's memory, for what is made once and then only read. The system
keeps what is used of them in memory as long as there is room and takes it back when there is none. They need no
clearing up: a file goes when its array goes, or when the process ends, however it ends."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import MemoryLimitError

_CHUNK = 1 << 20


class ScratchFiles:
    """Makes arrays in files of a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._maps: list[weakref.ref[mmap.mmap]] = []

    def zeros(self, size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of ``size`` zeros, all of whose bytes have their place on the disk."""
        n_bytes = int(size) * np.dtype(dtype).itemsize
        if not n_bytes:
            return np.zeros(0, dtype)
        try:
            with tempfile.TemporaryFile(dir=self._folder, prefix=".sylvan-") as file:
                _reserve(file, n_bytes)
                mapped = mmap.mmap(file.fileno(), n_bytes)
        except OSError as error:
            raise MemoryLimitError(
                f"{n_bytes:,} bytes could not be set aside in {self._folder!r}: {error.strerror or error}."
            ) from error
        self._maps.append(weakref.ref(mapped))
        return np.frombuffer(mapped, dtype)

    def moved(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A copy of a one-dimensional array."""
        copy = self.zeros(array.size, array.dtype)
        copy[:] = array
        return copy

    def release(self) -> None:
        """Let the process go of the pages that it holds of these arrays; they come back when they are used."""
        advice = getattr(mmap, "MADV_DONTNEED", None)  # of a shared mapping this loses nothing
        self._maps = [reference for reference in self._maps if reference() is not None]
        for reference in self._maps:
            mapped = reference()
            if mapped is not None and advice is not None:
                mapped.madvise(advice)


def _reserve(file: Any, n_bytes: int) -> None:
    """Give the file its blocks now: a full disk is then an error here, and not a fault when a page is written."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    zeros = bytes(min(_CHUNK, n_bytes))
    for start in range(0, n_bytes, _CHUNK):
        file.write(zeros[: n_bytes - start])
    file.flush()
