"""Ends what a pytest process has started once that process is gone, whatever ended it.

``child_processes`` starts one of these beside each pytest process that starts others. Pytest may be killed, or end
itself at a time limit without another word: then nobody else is left who knows its children, some of which would run
for ever.

Called with the id of the pytest process and its mark; reads ``+group`` and ``-group`` lines, of process groups that are
begun and ended. Needs the standard library alone.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

MARK = "SYLVAN_TESTS_MARK"  # in the environment of all that a pytest process starts, and of what those start
_GLANCES = 0.5  # seconds between looks at the parent: a fork of it may hold the other end of the pipe


def marked(mark: str) -> list[int]:
    """The processes whose environment has the mark, on systems that show it (Linux)."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in entry.joinpath("environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return sorted(found)


def kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows ends a process by the latter


def kill_group(leader: int) -> None:
    """Kill a process group, and its leader where that hasn't begun its group yet."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    kill(leader)


def kill_marked(mark: str) -> None:
    """Kill the processes that have the mark, but this one, and those that they start meanwhile."""
    for _ in range(100):
        found = [pid for pid in marked(mark) if pid != os.getpid()]
        for pid in found:
            kill(pid)
        if not found:
            return
        time.sleep(0.02)


def _left_by(parent: int) -> set[int]:
    """Wait until the parent has gone; the process groups that it hasn't ended."""
    groups: set[int] = set()
    unread = b""
    while True:
        gone = os.getppid() != parent  # looked at first: what it wrote before it went is then there to be read
        if not select.select([0], [], [], 0 if gone else _GLANCES)[0]:
            if gone:
                break
            continue
        piece = os.read(0, 1 << 16)
        if not piece:
            break
        *lines, unread = (unread + piece).split(b"\n")
        for line in lines:
            (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))
    return groups


def _main(parent: int, mark: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what ends its parent is no order to this process
        signal.signal(number, signal.SIG_IGN)
    for leader in _left_by(parent):
        kill_group(leader)
    kill_marked(mark)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
