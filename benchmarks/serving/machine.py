"""What a server's processes use, from /proc: CPU time, memory, and how much of it are the mapped files of a model."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["cpu_seconds", "family", "file_pss_mb", "pss_mb", "rss_mb"]

_TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields behind the process's name, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                parents.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the process, its descendants, and those of them that have ended."""
    ticks = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            ticks += sum(map(int, _stat(one)[11:15]))
    return ticks / _TICKS


def rss_mb(pid: int) -> float:
    """Resident memory of the process and its descendants, in MiB; shared pages count for each."""
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def pss_mb(pid: int) -> float:
    """Memory of the process and its descendants in MiB, in which a page that n of them share counts once in all."""
    return _kilobytes(pid, "smaps_rollup", None) / 1024


def file_pss_mb(pid: int, folder: Path) -> float:
    """The part of :func:`pss_mb` that are pages of the mapped files below a folder."""
    return _kilobytes(pid, "smaps", str(folder.resolve())) / 1024


def _kilobytes(pid: int, name: str, below: str | None) -> float:
    total = 0.0
    for one in family(pid):
        with contextlib.suppress(OSError), open(f"/proc/{one}/{name}", encoding="utf-8") as lines:
            counts = below is None
            for line in lines:
                first = line.split(maxsplit=1)[0]
                if not first.endswith(":"):  # the head of a mapping: its addresses, ..., its file
                    path = line.split(maxsplit=5)[5:]
                    counts = below is None or bool(path and path[0].startswith(below + "/"))
                elif counts and first == "Pss:":
                    total += float(line.split()[1])
    return total
