"""A wheel in bare environments of several Pythons: installing, size, import, and a smoke test; JSON out.

``python -m benchmarks.wheels dist/sylvan-….whl --python python3.10,python3.13``

Each environment is made by ``python -m venv`` and gets the wheel and what it requires by pip, from wheels that pip has
downloaded before (``--uv`` adds an environment made by uv). Seconds are wall time, without the download. MB are 10^6
bytes of files below ``site-packages``, pip's own aside. ``tools/smoke_test.py`` then tries the package.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import RESULTS, ROOT
from benchmarks.common import records
from benchmarks.common.process import say

Record = dict[str, Any]
OWN_FOLDERS = {"pip", "setuptools", "_distutils_hack", "pkg_resources"}  # what an environment has before


def bare() -> dict[str, str]:
    """This process's environment without what would lead Python to other packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def call(*words: str | Path) -> str:
    """What a command printed; an error with its messages where it fails."""
    done = subprocess.run(list(map(str, words)), env=bare(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def packages(site: Path) -> Record:
    """MB of each package, of all bytecode, and of all tests, in an environment."""
    sizes: dict[str, float] = {}
    bytecode = tests = 0.0
    for file in (path for path in site.rglob("*") if path.is_file() and not path.is_symlink()):
        parts = file.relative_to(site).parts
        name = parts[0].split("-")[0].removesuffix(".libs").removesuffix(".py")
        if name in OWN_FOLDERS:
            continue
        size = file.stat().st_size / 1e6
        sizes[name] = sizes.get(name, 0.0) + size
        bytecode += size * (file.suffix == ".pyc")
        tests += size * ("tests" in parts[:-1])
    large = {name: size for name, size in sorted(sizes.items(), key=lambda one: -one[1]) if size >= 0.05}
    return {"mb": sum(sizes.values()), "bytecode_mb": bytecode, "tests_mb": tests, "packages_mb": large}


def tried(wheel: Path, interpreter: str, installer: str) -> Record:
    """One environment: how long pip or uv takes, what lies there then, and what the smoke test found."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "environment"
        if installer == "uv":
            call("uv", "venv", "-q", "--python", interpreter, folder)
            install: list[str | Path] = ["uv", "pip", "install", "-q", "--python", folder / "bin" / "python"]
        else:
            call(interpreter, "-m", "venv", folder)
            install = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        only = ("--only-binary", ":all:")
        call(*install, *only, wheel)  # fills the cache
        shutil.rmtree(folder)
        if installer == "uv":
            call("uv", "venv", "-q", "--python", interpreter, folder)
        else:
            call(interpreter, "-m", "venv", folder)
        start = time.perf_counter()
        call(*install, *only, wheel)
        seconds = time.perf_counter() - start
        (site,) = folder.glob("lib/python*/site-packages")
        sizes = packages(site)
        found = json.loads(call(folder / "bin" / "python", ROOT / "tools" / "smoke_test.py"))
    return {"installer": installer, "install_s": seconds, **sizes, **found}


def main() -> None:
    """Measures one interpreter after the other; the JSON is written anew after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="interpreters, with commas between them")
    parser.add_argument("--uv", action="store_true", help="the first interpreter once more, with uv")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    wheel, interpreters = options.wheel.resolve(), options.python.split(",")
    runs: list[Record] = []
    for interpreter, installer in [*((one, "pip") for one in interpreters), *[(interpreters[0], "uv")] * options.uv]:
        runs.append(tried(wheel, interpreter, installer))
        say(json.dumps(runs[-1]))
        about = {"wheel": wheel.name, "wheel_mb": wheel.stat().st_size / 1e6}
        records.save(options.results / "wheels.json", {**records.about(), **about, "runs": runs})


if __name__ == "__main__":
    main()
