"""Room on disks: whether what will be written fits, before the work that makes it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from sylvan.errors import DiskSpaceError
from sylvan.params.wording import shown_bytes

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Need(NamedTuple):
    """What will be written into a folder, and about how much it is."""

    what: str
    folder: str
    n_bytes: int


def is_full(error: BaseException | None) -> bool:
    """Whether an error says, or comes of one that says, that a disk or somebody's share of it is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False


def free_bytes(folder: str | os.PathLike[str]) -> int | None:
    """What can still be written into a folder, which needn't exist yet; None where the system doesn't say."""
    try:
        return shutil.disk_usage(_there(folder)).free
    except OSError:
        return None


def disk_of(folder: str | os.PathLike[str]) -> int | None:
    """The number of the file system that a folder is on, or will be."""
    try:
        return os.stat(_there(folder)).st_dev
    except OSError:
        return None


def need_room(needs: Iterable[Need]) -> None:
    """Refuse what has no room, all that comes onto one disk together."""
    disks: dict[int | None, list[Need]] = {}
    for need in needs:
        disks.setdefault(disk_of(need.folder), []).append(need)
    for together in disks.values():
        free = free_bytes(together[0].folder)
        if free is None or sum(need.n_bytes for need in together) <= free:
            continue
        parts = [f"{need.what} in {need.folder!r} about {shown_bytes(need.n_bytes)}" for need in together]
        raise DiskSpaceError(
            f"The disk has no room for this training: it would write {' and '.join(parts)}, but only "
            f"{shown_bytes(free)} is free there. Make room or choose another disk, or go on regardless with --force."
        )


def _there(folder: str | os.PathLike[str]) -> Path:
    """The folder, or the nearest above it that exists."""
    path = Path(os.path.realpath(folder))
    return next((place for place in (path, *path.parents) if place.exists()), path)
