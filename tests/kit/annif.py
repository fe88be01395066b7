"""Annif as it is, in an environment of its own, whose Python SYLVAN_ANNIF_PYTHON names."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import child_processes

PYTHON = os.environ.get("SYLVAN_ANNIF_PYTHON", "")
MISSING = "SYLVAN_ANNIF_PYTHON names no Python that imports annif"


@dataclass(frozen=True)
class Annif:
    """Runs Annif's Python in a folder with its configuration and its data."""

    folder: Path
    environment: Mapping[str, str]

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return child_processes.run([PYTHON, *words], cwd=self.folder, env=self.environment, input=stdin)

    def command(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """One of Annif's commands, which has to succeed."""
        done = self.run("-m", "annif.cli", *words, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def __call__(self, *words: str, stdin: str = "") -> str:
        """What one of Annif's commands prints."""
        return str(self.command(*words, stdin=stdin).stdout)
