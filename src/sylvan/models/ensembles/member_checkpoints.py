"""The checkpoints of an ensemble's members: a folder each, in the one that the ensemble was given."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sylvan.errors import ModelError
from sylvan.runtime import checkpoint as checkpoints
from sylvan.runtime.checkpoint import Checkpoint

__all__ = ["MemberCheckpoints"]

_NAME = re.compile(r"(member|blind)[0-9]+")


class MemberCheckpoints:
    """Where each training of an ensemble's fit keeps its parts, until all of them are done.

    Parameters
    ----------
    given : path or Checkpoint, optional
        What ``fit`` got; a path's folders are removed by :meth:`remove`.

    Raises
    ------
    ParameterError
        When it is anything else.
    ModelError
        When the folder holds something else.
    """

    def __init__(self, given: Checkpoint | str | os.PathLike[str] | None) -> None:
        self._folder: Path | None = None
        self._keeps = isinstance(given, Checkpoint)
        self._made: list[Checkpoint] = []
        if given is None:
            return
        if not isinstance(given, (str, os.PathLike, Checkpoint)):
            raise checkpoints.no_checkpoint(given)
        self._folder = given.folder if isinstance(given, Checkpoint) else Checkpoint(given).folder
        ours = self._folder.is_dir() and all(_NAME.fullmatch(name) for name in os.listdir(self._folder))
        if self._folder.exists() and not ours:
            raise ModelError(
                f"{os.fspath(self._folder)!r} is no checkpoint of an ensemble and is not empty: choose another."
            )

    def beside(self, options: Mapping[str, Any], name: str) -> dict[str, Any]:
        """The options of ``fit`` for the training of that name."""
        if self._folder is None:
            return dict(options)
        self._made.append(Checkpoint(self._folder / name))
        return {**options, "checkpoint": self._made[-1]}

    def remove(self) -> None:
        """Delete what is there, as all is done."""
        if self._keeps or self._folder is None:
            return
        for each in self._made:
            each.remove()
        with contextlib.suppress(OSError):  # never there, or somebody has put something beside
            self._folder.rmdir()
