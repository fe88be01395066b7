"""Running out of memory becomes a sentence that names what to lower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sylvan.errors import MemoryLimitError, SylvanError

# What PyTorch's allocators of the CPU say, on Linux and macOS and on Windows; they raise plain RuntimeErrors.
_CPU_WORDS = ("can't allocate memory", "not enough memory: you tried to allocate")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device or the machine has no more memory."""
    if isinstance(error, SylvanError):
        return False
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _CPU_WORDS)


@contextmanager
def memory_sentences(doing: str, device: str, remedy: str) -> Iterator[None]:
    """Whatever runs out of memory in the block becomes one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        first = (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")
        raise MemoryLimitError(f"{doing} ran out of memory on {device} ({first[:160]}). {remedy}") from error
