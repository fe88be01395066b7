"""The command as a process of its own, and whether two saved models are the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import child_processes
from child_processes import SOURCE
from kit.bits import same_bits

import sylvan

__all__ = ["SOURCE", "same_models", "start"]


def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command as a process of its own, with pipes for its streams; it ends with the test."""
    pipe = subprocess.PIPE
    streams = {"stdout": pipe, "stderr": pipe, "stdin": pipe, **options}
    return child_processes.start([sys.executable, "-m", "sylvan", *words], **streams)


def same_models(first: str | Path, second: str | Path) -> None:
    """Fail unless two folders hold models of the same bits."""
    same_bits(sylvan.load(first), sylvan.load(second))
