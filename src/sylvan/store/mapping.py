"""A file mapped for reading, without a descriptor that stays open for as long as the mapping."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from io import BufferedReader
from typing import Any

__all__ = ["mapped_file"]


def mapped_file(stream: BufferedReader, size: int) -> Any:
    """The bytes of an open file, 1 at least, as a buffer that can't be written to. Python's own mapping keeps a copy of
    the descriptor until it ends, so that models of a hundred arrays would use up the thousand that a process may have.
    From Python 3.13 on it needn't; on Windows there is no such limit."""
    if sys.platform == "win32":
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    if sys.version_info >= (3, 13):
        return mmap.mmap(stream.fileno(), size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, trackfd=False)
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    )  # fmt: skip
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, stream.fileno(), 0)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    pages = (ctypes.c_char * size).from_address(address)
    weakref.finalize(pages, library.munmap, address, size).atexit = False  # others may read until the very end
    return memoryview(pages).toreadonly()
