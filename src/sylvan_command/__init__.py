"""The ``sylvan`` command from its first moment on: Ctrl-C is answered while the library is still being loaded."""

from __future__ import annotations

import importlib
import os
import signal

__all__ = ["main"]


def main() -> int:
    """Load the command line, and run what this process was called with.

    Returns
    -------
    int
        The exit code: that of :func:`sylvan.cli.main`; 1 after an interruption.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, as in the background of a script
        from sylvan.cli import main as run

        return run()
    # Not by KeyboardInterrupt, of which modules in C make other errors, or nothing, while they are imported.
    signal.signal(signal.SIGINT, _leave)
    importlib.import_module("sylvan.cli.app")  # with all that it loads
    from sylvan.cli import main as run

    signal.signal(signal.SIGINT, before)
    return run()


def _leave(*_: object) -> None:
    below_the_cursor = b"\n" if os.isatty(2) else b""  # a terminal has just shown ^C on the line
    os.write(2, below_the_cursor + b"Interrupted; nothing was written.\n")
    os._exit(1)
