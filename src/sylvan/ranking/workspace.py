"""Where a training works: in memory alone, under a limit, or beside a checkpoint that it can go on from."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import ModelError
from sylvan.indexing import LabelTree
from sylvan.ranking.finished import Finished, FinishedInBlocks, FinishedInMemory
from sylvan.runtime import checkpoint as checkpoints
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.machine import private_bytes
from sylvan.runtime.memory import Gate, need_room, parse_bytes, return_freed_memory
from sylvan.store import JSON

__all__ = ["Workspace", "opened"]

SECONDS = 60.0  # a checkpoint is at most so far behind, and a shorter training writes none
BLOCK_BYTES = 64 << 20
LEAST_BLOCK = 1 << 20
# Shares of the memory that is free under a limit: solved clusters that wait (and once more while a block of them is
# written), clusters in work, and arrays that are kept rather than put into files. The rest is for what isn't counted.
WAITING_SHARE, WORK_SHARE, KEPT_SHARE = 1 / 16, 5 / 8, 1 / 8
_Found = TypeVar("_Found")


class Workspace:
    """What a training keeps where.

    Parameters
    ----------
    checkpoint : Checkpoint, optional
        Where finished parts go; without one they stay in memory.
    limit : int, optional
        Bytes that the process may hold.
    taken : int
        Bytes that it holds already.
    resumable : bool
        Whether the checkpoint outlives the process.

    Attributes
    ----------
    free : int or None
        Bytes that training may take; None for no limit.
    gate : Gate or None
        Who wants to solve a cluster under a limit waits here.
    scratch : ScratchFiles or None
        Files for large arrays under a limit.
    """

    def __init__(
        self, checkpoint: Checkpoint | None = None, limit: int | None = None, taken: int = 0, resumable: bool = True
    ) -> None:
        self.checkpoint, self.limit, self._taken, self._resumable = checkpoint, limit, taken, resumable
        self.free = None if limit is None else max(0, limit - taken)
        self.gate = None if self.free is None else Gate(int(self.free * WORK_SHARE), limit or 0, taken)
        self.scratch: store.ScratchFiles | None = None
        self._kept = 0

    def need(self, n_bytes: int, what: str) -> None:
        """Refuse a limit under which ``what``, which can't be done in parts, has no room.

        Raises
        ------
        MemoryLimitError
        """
        if self.limit is not None:
            need_room(n_bytes, self.limit, self._taken, what)

    def zeros(self, size: int, dtype: Any) -> npt.NDArray[Any]:
        """An array that is made once and then read: in memory as long as it is small beside the limit."""
        n_bytes = int(size) * np.dtype(dtype).itemsize
        if self.scratch is None or self.free is None or self._kept + n_bytes <= self.free * KEPT_SHARE:
            self._kept += n_bytes
            return np.zeros(size, dtype)
        return self.scratch.zeros(size, dtype)

    @property
    def zeros_once(self) -> Callable[[int, Any], npt.NDArray[Any]] | None:
        """As :meth:`zeros` under a limit, for arrays that go again soon; None without one."""
        if self.scratch is None or self.free is None:
            return None
        scratch, most = self.scratch, self.free * KEPT_SHARE

        def zeros(size: int, dtype: Any) -> npt.NDArray[Any]:
            return (np.zeros if size * np.dtype(dtype).itemsize <= most else scratch.zeros)(size, dtype)

        return zeros

    def keep(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array itself, or a copy in a file."""
        if self.scratch is None:
            return array
        copy = self.zeros(array.size, array.dtype)
        copy[:] = array
        return copy

    def release(self) -> None:
        """Under a limit, give back what the process holds but doesn't need now: pages of files, and freed memory."""
        if self.scratch is not None:
            self.scratch.release()
            return_freed_memory()

    def finished(self, prefix: str, tree: LabelTree, n_features: int, weight_dtype: str, n_jobs: int) -> Finished:
        """Where the solved clusters of a tree go."""
        if self.checkpoint is None:
            return FinishedInMemory(tree, n_features, weight_dtype, n_jobs)
        block = BLOCK_BYTES
        if self.free is not None:
            block = min(block, max(LEAST_BLOCK, int(self.free * WAITING_SHARE)))
        return FinishedInBlocks(
            self.checkpoint, prefix, tree, n_features, weight_dtype, zeros=self.zeros, release=self.release,
            block_bytes=block, seconds=SECONDS,
        )  # fmt: skip

    def part(
        self, name: str, make: Callable[[], _Found], pack: Callable[[_Found], store.State],
        unpack: Callable[[store.State], _Found], *, waits: bool = False,
    ) -> _Found:  # fmt: skip
        """What the checkpoint holds under this name, or else what ``make`` makes, which it then holds.

        As long as nothing is written to the checkpoint, a part is either offered to it (``waits``) or left out.
        """
        if self.checkpoint is None or not self._resumable:
            return make()
        state = self.checkpoint.read(name)
        if state is not None:
            with contextlib.suppress(ModelError):
                return unpack(state)
        made = make()
        if waits or self.checkpoint.begun:
            self.checkpoint.offer(name, lambda: pack(made))
        return made

    def tree(self, name: str, make: Callable[[], LabelTree]) -> LabelTree:
        """A tree of the checkpoint, or a new one for it."""
        return self.part(name, make, LabelTree.to_state, LabelTree.from_state, waits=True)


@contextmanager
def opened(
    memory_limit: int | str | None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    identity: Callable[[], Mapping[str, JSON]],
    input_bytes: int,
) -> Iterator[Workspace]:
    """The place of one training, cleared up behind it.

    Parameters
    ----------
    memory_limit : int or str, optional
        As :func:`~sylvan.runtime.memory.parse_bytes` takes it.
    checkpoint : Checkpoint or path, optional
        Under a limit and without one, a temporary folder is used.
    identity : callable
        Gives what tells this training from others.
    input_bytes : int
        What features and labels take, for systems that don't tell what a process holds.

    Raises
    ------
    ParameterError, ModelError
        When the limit is no amount of memory, or the checkpoint is another training's.
    """
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    with ExitStack() as stack:
        found: Checkpoint | None = None
        if checkpoint is not None:
            if not isinstance(checkpoint, (str, os.PathLike, Checkpoint)):
                raise checkpoints.no_checkpoint(checkpoint)
            found = stack.enter_context(checkpoints.opened(checkpoint, identity()))
        elif limit is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sylvan-"))
            found = Checkpoint(os.path.join(folder, "work"))
        taken = private_bytes(input_bytes) if limit is not None else 0
        work = Workspace(found, limit, taken, resumable=checkpoint is not None)
        if limit is not None and found is not None:
            place = next(path for path in (found.folder, *found.folder.parents) if path.is_dir())
            work.scratch = store.ScratchFiles(str(place))
        yield work
