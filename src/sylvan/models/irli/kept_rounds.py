"""Rounds of learning in a checkpoint's folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sylvan.errors import ModelError
from sylvan.runtime import checkpoint as checkpoints
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.checkpointed import SECONDS

__all__ = ["kept_rounds"]

_PART, _KIND = "rounds", "learning-rounds"


class _KeptRounds:
    """A :class:`~sylvan.models.irli.rounds.RoundKeeper` that writes into a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, self.started = checkpoint, time.monotonic()

    def load(self) -> dict[str, Any] | None:
        from sylvan.neural.loop.state_tree import state_tree

        state = self.checkpoint.read(_PART)
        if state is None:
            return None
        try:
            found: dict[str, Any] = state_tree(state, kind=_KIND)
        except ModelError:
            return None  # learned anew, as any part that isn't whole
        return found

    def save(self, tree: dict[str, Any]) -> None:
        from sylvan.neural.loop.state_tree import tree_state

        if self.checkpoint.begun or time.monotonic() - self.started >= SECONDS:
            self.checkpoint.write(_PART, tree_state(tree, kind=_KIND))


@contextlib.contextmanager
def kept_rounds(
    checkpoint: Checkpoint | str | os.PathLike[str] | None, identity: Callable[[], Mapping[str, Any]]
) -> Iterator[_KeptRounds | None]:
    """Where a training's rounds are kept while the block runs; None without a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint or path, optional
        A path is removed when the block ends well.
    identity : callable
        Gives what tells the training from others.

    Raises
    ------
    ParameterError
        When ``checkpoint`` is something else.
    ModelError
        When it is another training's.
    """
    with checkpoints.opened(checkpoint, identity) as found:
        yield None if found is None else _KeptRounds(found)
