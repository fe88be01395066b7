"""The command as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import child_processes
from child_processes import SOURCE

__all__ = ["SOURCE", "start"]


def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command as a process of its own, with pipes for its streams; it ends with the test."""
    pipe = subprocess.PIPE
    streams = {"stdout": pipe, "stderr": pipe, "stdin": pipe, **options}
    return child_processes.start([sys.executable, "-m", "sylvan", *words], **streams)
