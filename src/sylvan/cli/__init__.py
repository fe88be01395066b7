"""The command line: ``sylvan train``, ``predict``, ``evaluate``, ``explain`` and others, one file a verb."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    sentence = b"Interrupted; nothing was written.\n"
    try:
        from sylvan.cli.app import run

        sentence = b"Interrupted.\n"  # once more, while the command was answering the first time
        code = run(arguments)
    except KeyboardInterrupt:
        os.write(2, sentence)
        code = 1
    if code:
        _forget_interrupts()
    return code


def _forget_interrupts() -> None:
    """Make the interpreter end with the exit code that it is given. Where Ctrl-C came while it ran code from a string,
    as it does for each dataclass of a module that it imports, it remembers that and ends by the signal, although the
    interrupt was answered. The next string makes it forget."""
    import ctypes

    with contextlib.suppress(AttributeError):  # another interpreter than CPython
        ctypes.pythonapi.PyRun_SimpleString(b"")
