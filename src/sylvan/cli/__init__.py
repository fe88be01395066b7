"""The command line: ``sylvan train``, ``predict``, ``evaluate``, ``explain`` and others, one file a verb."""

from __future__ import annotations

import os
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``sylvan``; those of this process by default.

    Returns
    -------
    int
        0 fine, 2 bad usage or input, 1 anything else, an interrupt among it.

    Examples
    --------
    >>> from sylvan.cli import main
    >>> main(["predict", "no-such-folder", "-"])
    2
    """
    sentence = b"Interrupted; nothing was written.\n"
    try:
        from sylvan.cli.app import run

        sentence = b"Interrupted.\n"  # once more, while the command was answering the first time
        return run(arguments)
    except KeyboardInterrupt:
        exec("")  # for the reason in app.py
        os.write(2, sentence)
        return 1
