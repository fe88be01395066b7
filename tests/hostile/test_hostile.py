"""No folder crashes the interpreter, hangs it, or shows a person a traceback.

Each specimen is spoiled in a few thousand ways, and each spoiled folder is loaded, mapped and unmapped, and used in a
process of its own kind: the outcome must be a ModelError's sentence, or a model that works.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sylvan
from hostile.mutants import Folder, Mutant, all_mutants
from hostile.specimens import SPECIMENS, there

TESTS = Path(__file__).parent.parent
PACKAGE = Path(sylvan.__file__).parent.parent
HANG_SECONDS = 60.0


class Worker:
    """A process that loads spoiled folders; a new one takes its place when it dies."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PACKAGE)])}
        environment["OPENBLAS_NUM_THREADS"] = "1"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hostile.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.errors: list[str] = []
        for target in (self._read_lines, self._read_errors):
            threading.Thread(target=target, daemon=True).start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def ask(self, folder: Path, mmap: bool) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"folder": str(folder), "mmap": mmap}) + "\n")
            self.process.stdin.flush()
            line = self.lines.get(timeout=HANG_SECONDS)
        except queue.Empty:
            return {"outcome": "hang", "text": f"no answer in {HANG_SECONDS:g} seconds"}
        except OSError:
            line = ""
        if not line:
            code = self.process.wait()
            return {"outcome": "crash", "text": f"exit code {code}\n" + "".join(self.errors[-40:])}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def is_sentence(text: str) -> bool:
    return len(text) > 20 and text[0] not in " <" and text.endswith(".") and "\n" not in text


# Under the sanitizers a load takes many times as long: only sealed arrays reach a kernel, and only those read into
# memory have guarded edges.
SANITIZED = bool(os.environ.get("SYLVAN_SANITIZED"))


def ways(number: int, mutant: Mutant) -> tuple[bool, ...]:
    """Mapped or read into memory, or both where a checksum makes the difference."""
    if SANITIZED:
        return (False,)
    return (number % 2 == 0,) if mutant.sealed else (True, False)


def thinned(mutants: list[Mutant], most: int = 700 if SANITIZED else 3000) -> list[Mutant]:
    """No more than about ``most`` of the sealed mutants, evenly chosen: large models are made of the small ones."""
    step = 1 + sum(mutant.sealed for mutant in mutants) // most
    return [mutant for number, mutant in enumerate(mutants) if not mutant.sealed or number % step == 0]


def judge(original: Path, mutants: list[Mutant], place: Path) -> tuple[Counter[str], list[str]]:
    """Spoil, load and use; how often each outcome came, and whatever must not happen."""
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    worker = Worker()
    try:
        for number, mutant in enumerate(mutants):
            folder = Folder(original, place / str(number))
            mutant.apply(folder)
            for mmap in ways(number, mutant):
                answer = worker.ask(folder.path, mmap)
                outcomes[answer["outcome"]] += 1
                if answer["outcome"] in ("crash", "hang"):
                    worker.close()
                    worker = Worker()
                wrong = answer["outcome"] not in ("refused", "fine")
                if wrong or (answer["outcome"] == "refused" and not is_sentence(answer["text"])):
                    faults.append(f"{mutant.name} (mmap={mmap}): {answer['outcome']}: {answer['text'][-1500:]}")
            if folder.path.is_dir():
                shutil.rmtree(folder.path)
            elif folder.path.exists():
                folder.path.unlink()
    finally:
        worker.close()
    return outcomes, faults


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SPECIMENS)
def test_spoiled_folders(name: str, tmp_path: Path) -> None:
    make, module, needed = SPECIMENS[name]
    if not there(module, needed):
        pytest.skip(f"this build has no {needed}")
    original = tmp_path / "original"
    make(original)
    mutants = [mutant for mutant in all_mutants(original) if not SANITIZED or mutant.name.startswith(("arr", "parts"))]
    outcomes, faults = judge(original, [Mutant("nothing", lambda folder: None)], tmp_path / "sound")
    assert set(outcomes) == {"fine"}, faults
    outcomes, faults = judge(original, thinned(mutants), tmp_path / "spoiled")
    total = sum(outcomes.values())
    print(f"\n{name}: {total} loads, {dict(outcomes)}")
    alike = {fault.rstrip().rsplit("\n", 1)[-1][:60]: fault for fault in reversed(faults)}  # one of each sort
    shown = "\n\n".join(list(alike.values())[:15])
    assert not faults, f"{len(faults)} of {total} loads of spoiled {name} folders went wrong:\n{shown}"
    assert SANITIZED or outcomes["refused"] > 0.3 * total
