"""One JSON line a request, written now and then by a thread, so that a slow reader of the log slows no request."""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

import msgspec

from sylvan.parallel import Worker

_PATIENCE = 2.0  # seconds
_MOST = 100_000  # lines that may wait to be written


class Log:
    """Lines that wait, and the thread that writes them."""

    def __init__(self, dropped: Callable[[int], None], stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream  # None where that is closed
        self._lines: list[bytes] = []
        self._dropped = dropped
        self._worker = Worker(self._write, "log")
        self._writing = False

    def add(self, **entry: Any) -> None:
        """Add a line; texts of users have no place in it."""
        if self._stream is None:
            return
        if len(self._lines) >= _MOST:
            self._dropped(1)
            return
        now = datetime.datetime.fromtimestamp(time.time(), datetime.timezone.utc).isoformat(timespec="milliseconds")
        self._lines.append(msgspec.json.encode({"time": now, **entry}))

    def flush(self) -> None:
        """Have what waits written; called now and then, not for each line."""
        if self._lines and not self._writing:
            lines, self._lines = self._lines, []
            self._writing = True
            self._worker.put(lines)

    def close(self) -> None:
        """Write what is left, and end; a reader who takes nothing isn't waited for."""
        self._worker.put(self._lines)
        self._lines = []
        self._worker.close(_PATIENCE)

    def _write(self, batches: list[list[bytes]]) -> None:
        """In the thread."""
        try:
            for lines in batches:
                if lines:
                    self._put(b"\n".join(lines) + b"\n")
        finally:  # a full disk, or a reader that has gone, mustn't end the service
            self._writing = False

    def _put(self, data: bytes) -> None:
        """Past Python's buffer: what can't be written is lost, and isn't tried again when the process ends."""
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError, AttributeError):  # a stream in memory
            self._stream.write(data.decode())
            return
        while data:
            data = data[os.write(descriptor, data) :]


def say(sentence: str) -> None:
    """A sentence on stderr, about the server itself."""
    if sys.stderr is not None:
        print(sentence, file=sys.stderr, flush=True)
