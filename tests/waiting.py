"""Waiting for other processes and threads, on a machine that may be busy with something else.

A wait has a limit only because a hang has to end somewhere: PATIENCE, many times what anything takes. Nothing is waited
for by sleeping a while, and no test asks how long something took by the clock: ``used_seconds`` says what a process has
worked.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PATIENCE = 600.0  # seconds


def until(condition: Callable[[], object], words: str | Callable[[], str], timeout: float = PATIENCE) -> None:
    """Wait until a condition holds; if it doesn't in the end, the test fails with these words."""
    last = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > last:
            raise AssertionError(words if isinstance(words, str) else words())
        time.sleep(0.02)


def used_seconds(pid: int) -> float:
    """The processors' time that a process has taken: unlike the clock's, it doesn't depend on who else is at work.

    Infinite where the system doesn't say.
    """
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("inf")
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and whose exit code nobody has taken doesn't."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return not Path("/proc/self").exists()  # it has ended a moment ago, or this system has no /proc


def group_seconds(leader: int) -> float:
    """The processors' time that the processes of a group have taken; infinite where the system doesn't say."""
    if not Path("/proc/self/stat").exists():
        return float("inf")
    total = 0.0
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.getpgid(int(entry.name)) == leader:
                total += used_seconds(int(entry.name))
    return total
