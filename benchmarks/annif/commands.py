"""Annif's commands, each in a process of its own whose time and memory are measured."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.annif.sets import projects_file
from benchmarks.common.process import environment

__all__ = ["VERSIONS", "Annif"]

PUNKT = """import pathlib, sys
from nltk.tokenize.punkt import PunktParameters, save_punkt_params
place = pathlib.Path(sys.argv[1], "tokenizers", "punkt_tab", "english")
place.mkdir(parents=True, exist_ok=True)
save_punkt_params(PunktParameters(), dir=str(place))
"""
VERSIONS = """import importlib.metadata as m, json, platform
names = "annif omikuji fasttext-numpy2 tensorflow-cpu keras scikit-learn numpy".split()
found = {name: m.version(name) for name in names if list(m.distributions(name=name))}
print(json.dumps({"python": platform.python_version(), **found}))
"""


class Annif:
    """Annif's commands in a folder with its data."""

    def __init__(self, python: str, folder: Path, threads: int) -> None:
        self.python, self.folder = python, folder
        nltk = folder / "nltk"
        self.environment = environment(
            threads, PYTHONPATH=str(ROOT / "src"), NLTK_DATA=str(nltk), ANNIF_CONFIG="sylvan.annif.Config",
            ANNIF_DATADIR=str(folder / "data"), ANNIF_PROJECTS=str(projects_file(folder)), PYTHONHASHSEED="0",
        )  # fmt: skip
        self.run("-c", PUNKT, str(nltk))

    def run(self, *words: str, only: str | None = None) -> dict[str, Any]:
        """What a process of Annif's Python printed, its seconds and its peak memory; or its error.

        With ``only``, it knows this project and no other.
        """
        own = {} if only is None else {"ANNIF_PROJECTS": str(projects_file(self.folder, only))}
        out, log = self.folder / "out", self.folder / "log"
        with open(out, "wb") as output, open(log, "wb") as noise:
            began = time.perf_counter()
            child = subprocess.Popen(
                [self.python, *words], stdout=output, stderr=noise, env={**self.environment, **own}, cwd=self.folder
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        seconds = round(time.perf_counter() - began, 2)
        lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
        if child.returncode:
            return {"error": f"exit {child.returncode}: {lines[-1][:300]}"}
        return {"seconds": seconds, "peak_mb": round(usage.ru_maxrss / 1024, 1), "printed": out.read_text()}

    def command(self, *words: str) -> dict[str, Any]:
        """One of Annif's commands."""
        return self.run("-m", "annif.cli", *words)
