"""Work for jobs: functions that workers can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from sylvan.errors import DataError


def squared(base: Any, at: int) -> Any:
    return (base[at] ** 2, os.getpid())


def dies_once(mark: str) -> int:
    if not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 7


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wrong(what: str) -> None:
    raise DataError(f"{what} is wrong") if what == "row 7" else ValueError(what)


def slow(at: int) -> int:
    time.sleep(0.3)
    return at
