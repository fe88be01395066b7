"""What memory the process holds, and what the machine and its control groups would still give it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

# Held by Python, NumPy and SciPy, where the system doesn't tell.
INTERPRETER = 100_000_000
PRIVATE_INTERPRETER = 60_000_000  # without the libraries' files


def resident_bytes() -> int:
    """Memory that this process holds now, mapped files included; a guess where the system doesn't tell."""
    return _status_bytes("VmRSS", INTERPRETER)


def private_bytes(arrays: int = 0) -> int:
    """Memory of this process that the system can't take back: what isn't the content of a file. ``arrays`` is what the
    caller knows to be there, the answer where the system doesn't tell."""
    return _status_bytes("RssAnon", PRIVATE_INTERPRETER + arrays)


def return_freed_memory() -> None:
    """Give the system what was freed, which the C library would keep for later; where it has no such call, nothing."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _status_bytes(field: str, otherwise: int) -> int:
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return otherwise


def available_bytes() -> int | None:
    """Memory that this process could still take, by what the machine and its control groups leave; None if unknown."""
    results = []
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as lines:
        results += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    results += [room for folder in _groups() if (room := _room(folder)) is not None]
    return max(0, min(results)) if results else None


def _groups() -> Iterator[str]:
    """Folders of the control groups that this process is in, whose limits all hold."""
    try:
        with open("/proc/self/cgroup", encoding="ascii") as lines:
            places = [line.rstrip("\n").split(":", 2) for line in lines]
    except (OSError, ValueError):
        return
    for _, controllers, path in places:
        if controllers not in ("", "memory"):
            continue
        folder = path.strip("/")
        while True:
            yield os.path.join("/sys/fs/cgroup", controllers, folder)
            if not folder:
                break
            folder = os.path.dirname(folder)


def _room(folder: str) -> int | None:
    """What a control group's limit leaves; pages of files that nobody needs don't count as taken."""
    for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        try:
            with open(os.path.join(folder, limit)) as most, open(os.path.join(folder, usage)) as taken:
                room = int(most.read()) - int(taken.read())
            with open(os.path.join(folder, "memory.stat")) as lines:
                room += sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
            return room
        except (OSError, ValueError):  # no such file, or "max" for a limit
            continue
    return None
