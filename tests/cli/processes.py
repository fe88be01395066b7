"""The command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sylvan

SOURCE = str(Path(sylvan.__file__).parent.parent)


def start(*words: str, **options: object) -> subprocess.Popen[bytes]:
    """Run a command as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": SOURCE + os.pathsep + os.environ.get("PYTHONPATH", "")}
    pipe = subprocess.PIPE
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "sylvan", *words],
        **{"stdout": pipe, "stderr": pipe, "stdin": pipe, "env": environment, **options},
    )
