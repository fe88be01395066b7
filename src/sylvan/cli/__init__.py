"""The command line: ``sylvan train``, ``predict``, ``evaluate``, ``explain`` and others, one file a verb."""

from __future__ import annotations

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
    try:
        from sylvan.cli.app import run
    except KeyboardInterrupt:
        return 1
    return run(arguments)
