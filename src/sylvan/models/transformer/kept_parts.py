"""What a training with several phases keeps in one checkpoint: a tree, arrays, and folders of the phases themselves."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError
from sylvan.indexing import LabelTree
from sylvan.runtime import checkpoint as checkpoints
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.checkpointed import SECONDS

__all__ = ["KeptParts", "kept_parts"]

_KIND = "training-array"


class KeptParts:
    """Parts of a checkpoint; without one, everything is made and nothing kept.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        Open.
    place : path, optional
        Its folder, for a process beside the one that writes it.
    everyone : callable, optional
        Gives each process's value, where several make things together (``Engine.everyone``).
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        place: str | os.PathLike[str] | None = None,
        everyone: Callable[[Any], list[Any]] | None = None,
    ) -> None:
        self._checkpoint, self._place, self._started = checkpoint, place, time.monotonic()
        self._everyone = everyone

    def tree(self, make: Callable[[], LabelTree]) -> LabelTree:
        """The tree that is kept, or a new one."""
        state = None if self._checkpoint is None else self._checkpoint.read("tree")
        if state is not None:
            with contextlib.suppress(ModelError):
                return LabelTree.from_state(state)
        made = make()
        if self._checkpoint is not None:
            self._checkpoint.offer("tree", made.to_state)
        return made

    def array(self, name: str, make: Callable[[], npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
        """The float32 matrix that is kept under a name, or a new one.

        Processes that make it together all take what is kept, or all make it: one that went its own way would leave
        the others waiting.
        """
        found = self._array(name)
        if self._everyone is not None and not all(self._everyone(found is not None)):
            found = None
        if found is not None:
            return found
        made = make()
        if self._checkpoint is not None:
            if time.monotonic() - self._started >= SECONDS:
                self._checkpoint.begin()
            self._checkpoint.offer(name, lambda: store.State(_KIND, 1, arrays={"values": made}))
        return made

    def _array(self, name: str) -> npt.NDArray[np.float32] | None:
        """The matrix that is kept, or None; a process that doesn't write reads what the one that does has opened."""
        if self._checkpoint is not None:
            state = self._checkpoint.read(name)
        else:
            state = None
            if self._place is not None and self._everyone is not None:
                with contextlib.suppress(ModelError):
                    state = store.load(os.path.join(os.fspath(self._place), name), mmap=False, verify=True)
        if state is None:
            return None
        with contextlib.suppress(ModelError):
            store.need_kind(state, _KIND)
            return np.array(store.need_array(state, "values", np.float32, (None, None)))
        return None

    def folder(self, name: str) -> str | None:
        """A folder within, for a phase that keeps its own parts; the checkpoint is begun with it."""
        if self._checkpoint is None:
            return None if self._place is None else os.path.join(os.fspath(self._place), name)
        self._checkpoint.begin()
        return os.fspath(self._checkpoint.folder / name)

    def inner(self, name: str) -> Checkpoint | None:
        """A checkpoint within, for a phase that takes one."""
        return None if self._checkpoint is None else self._checkpoint.inner(name)


@contextlib.contextmanager
def kept_parts(
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    identity: Callable[[], Mapping[str, Any]],
    writes: bool = True,
    everyone: Callable[[Any], list[Any]] | None = None,
) -> Iterator[KeptParts]:
    """Where a training's parts are kept while the block runs.

    Parameters
    ----------
    checkpoint : Checkpoint or path, optional
        A path is removed when the block ends well.
    identity : callable
        Gives what tells the training from others.
    writes : bool
        Whether this process is the one of several that writes.
    everyone : callable, optional
        Gives each process's value, where several make the arrays together.

    Raises
    ------
    ParameterError
        When ``checkpoint`` is something else.
    ModelError
        When it is another training's.
    """
    if checkpoint is None:
        yield KeptParts(None)
        return
    if not writes:
        folder = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        yield KeptParts(None, folder.folder, everyone)
        return
    with checkpoints.opened(checkpoint, identity) as found:
        yield KeptParts(found, everyone=everyone)
