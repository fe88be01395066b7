"""The parts of the benchmark and their rows; a row is a dict, and what names it is known before it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.serving.servers import CONTENDERS

__all__ = ["CONNECTIONS", "IN_PROCESS", "OVERLOAD", "PARTS", "WORKERS", "load_groups", "memory_groups"]

Row = dict[str, Any]
CONNECTIONS = (1, 8, 64, 512)
IN_PROCESS = "in-process"
PARTS = ("answers", "load", "memory", "overload")
WORKERS = (1, 2, 4)
OVERLOAD = (64, 512)  # connections: as many as may wait, and eight times as many


def load_groups(names: Sequence[str], repeats: int, connections: Sequence[int]) -> Iterator[list[Row]]:
    """The rows of one start of a server after the other; each repeat has the contenders in another order."""
    for repeat in range(repeats):
        shift = repeat % len(names)
        for name in (*names[shift:], *names[:shift]):
            levels = (1,) if name == IN_PROCESS else connections
            yield [{"part": "load", "contender": name, "connections": n, "repeat": repeat} for n in levels]


def memory_groups(names: Sequence[str]) -> Iterator[Row]:
    """A server of each library with more and more workers."""
    for workers in WORKERS:
        for name in names:
            if name in CONTENDERS and CONTENDERS[name].workers == 1 and CONTENDERS[name].variant in ("", "app"):
                yield {"part": "memory", "contender": name, "workers": workers}
