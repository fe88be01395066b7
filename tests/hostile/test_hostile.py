"""No folder crashes the interpreter, hangs it, or shows a person a traceback.

Each specimen is spoiled in a few thousand ways, and each spoiled folder is loaded, mapped and unmapped, and used in a
process beside this one: the outcome must be a ModelError's sentence, or a model that works.
"""

import functools
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from child_processes import end, environment, start
from waiting import PATIENCE, used_seconds

from hostile.mutants import Folder, Mutant, all_mutants, files_of
from hostile.specimens import SPECIMENS, there

TESTS = Path(__file__).parent.parent
HANG_SECONDS = 60.0  # of a processor
# Of a spoiled folder kernels see arrays, which are no objects of Python's. The sanitizers watch these with NumPy's
# allocator; Python's own objects, which would take as long as all else, with marks around each that Python checks.
MALLOC = {"PYTHONMALLOC": "pymalloc_debug"} if os.environ.get("SYLVAN_SANITIZED") else {}
GLANCES = 1.0  # seconds between looks at how long it has worked


class Worker:
    """A process that loads spoiled folders."""

    def __init__(self) -> None:
        self.process = start(
            [sys.executable, "-m", "hostile.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, encoding="utf-8", env=environment(TESTS) | MALLOC, lasting=True,
        )  # fmt: skip
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
            line = self._answer()
        except queue.Empty:
            return {"outcome": "hang", "text": f"no answer after {HANG_SECONDS:g} seconds of work, or none for long"}
        except OSError:
            line = ""
        if not line:
            code = self.process.wait()
            return {"outcome": "crash", "text": f"exit code {code}\n" + "".join(self.errors[-40:])}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _answer(self) -> str:
        """The next line; none comes from a worker that works without an end, or waits for something."""
        begun, last = used_seconds(self.process.pid), time.monotonic() + PATIENCE
        while True:
            try:
                return self.lines.get(timeout=GLANCES)
            except queue.Empty:
                if used_seconds(self.process.pid) - begun > HANG_SECONDS or time.monotonic() > last:
                    raise

    def close(self) -> None:
        end(self.process)


class Loader:
    """Has folders loaded by a worker, and by another when that one crashes or hangs.

    One serves all models: to start it takes longer than to load a hundred folders.
    """

    def __init__(self) -> None:
        self.worker: Worker | None = None

    def __call__(self, folder: Path, mmap: bool) -> dict[str, Any]:
        self.worker = self.worker or Worker()
        answer = self.worker.ask(folder, mmap)
        if answer["outcome"] in ("crash", "hang"):
            self.close()
        return answer

    def close(self) -> None:
        if self.worker:
            self.worker.close()
            self.worker = None


@pytest.fixture(scope="module")
def load() -> Iterator[Loader]:
    loader = Loader()
    yield loader
    loader.close()


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


# What a folder's reader refuses, whatever the model, is tried on this one in all ways: it has parts in parts, files of
# other libraries, and every check of a value. One of each sort is tried on two real models.
OF_ANY_FOLDER, TOO = "synthetic", ("xr-linear", "xr-transformer")
# What these hold is spoiled in all ways there; wherever else it occurs, in a few of each sort.
HOMES = ("label-tree", "vocabulary", "tfidf-vectorizer", "calibrator", "xr-linear", "neighbor-ranker", "text-model")
FEW = {"size": 3, "type": 1, "order": 1, "all": 1, "value": 3, "rare": 1, "near": 2, "random": 2}
SOME = {"type": 2, "all": 3, "rare": 3, "random": 6}  # of what is new, and each of the others; twice as many at homes


@functools.cache
def fields_of(name: str) -> frozenset[str]:
    """What a specimen holds."""
    with tempfile.TemporaryDirectory() as folder:
        SPECIMENS[name][0](Path(folder) / "model")
        return frozenset(mutant.field for mutant in all_mutants(Path(folder) / "model"))


def chosen(name: str, mutants: list[Mutant]) -> list[Mutant]:
    """What the loading of this specimen alone can refuse, and a few of each sort of what others can."""
    if name == OF_ANY_FOLDER:
        return mutants
    before = HOMES[: HOMES.index(name)] if name in HOMES else HOMES
    known = frozenset[str]().union(*map(fields_of, before))
    sorts: dict[tuple[str, str], list[Mutant]] = {}
    for mutant in mutants if name in TOO else filter(lambda mutant: mutant.field, mutants):
        sort = mutant.how.partition(":")[0]
        how = sort if mutant.field in known or sort in SOME else mutant.how
        sorts.setdefault((mutant.field, how), []).append(mutant)
    new = 1 + (name in HOMES)
    most = {(field, how): FEW.get(how, 1) if field in known else new * SOME.get(how, 1) for field, how in sorts}
    return [mutant for key, alike in sorts.items() for mutant in spread(alike, most[key])]


def spread(alike: list[Mutant], most: int) -> list[Mutant]:
    """So many of them at most, from the whole list, and others of another list of the same length."""
    step = -(-len(alike) // most)
    first = zlib.crc32(alike[0].name.encode()) % step
    return alike[first::step]


# What Python refuses before a kernel sees it: lies about headers, other dtypes and numbers of dimensions.
NO_KERNEL = re.compile(r": (header|manifest|data at|as |one dimension|no dimension|turned)")


def for_kernels(mutants: list[Mutant], most: int = 300) -> list[Mutant]:
    """Of every array three changes of each sort, others for other arrays; about ``most`` of them in all."""
    sorts: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        if mutant.name.startswith(("arrays", "parts")) and not NO_KERNEL.search(mutant.name):
            # One sort: "arrays.offsets[3] = 0" and "arrays.offsets[9] = -1".
            sorts.setdefault(re.sub(r"(\[|= |all |, )[-\w.+]+", r"\1", mutant.name), []).append(mutant)
    result = [mutant for alike in sorts.values() for mutant in spread(alike, 3)]
    return result[:: 1 + len(result) // most]


def judge(load: Loader, folder: Folder, mutants: list[Mutant]) -> tuple[Counter[str], list[str]]:
    """Spoil, load and use; how often each outcome came, and whatever must not happen."""
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    for number, mutant in enumerate(mutants):
        folder.restore()
        mutant.apply(folder)
        for mmap in ways(number, mutant):
            answer = load(folder.path, mmap)
            outcomes[answer["outcome"]] += 1
            wrong = answer["outcome"] not in ("refused", "fine")
            if wrong or (answer["outcome"] == "refused" and not is_sentence(answer["text"])):
                faults.append(f"{mutant.name} (mmap={mmap}): {answer['outcome']}: {answer['text'][-1500:]}")
    return outcomes, faults


@pytest.mark.filterwarnings("ignore:Nothing could be learned")  # of a specimen's few rows
@pytest.mark.parametrize("name", SPECIMENS)
def test_spoiled_folders(name: str, load: Loader, tmp_path: Path) -> None:
    make, module, needed = SPECIMENS[name]
    if not there(module, needed):
        pytest.skip(f"this build has no {needed}")
    original = tmp_path / "original"
    make(original)
    mutants = list(all_mutants(original))
    mutants = for_kernels(mutants) if SANITIZED else chosen(name, mutants)
    folder, sound = Folder(original, tmp_path / "spoiled"), Mutant("nothing", lambda folder: None, "")
    outcomes, faults = judge(load, folder, [sound])
    assert set(outcomes) == {"fine"}, faults
    outcomes, faults = judge(load, folder, mutants)
    total = sum(outcomes.values())
    print(f"\n{name}: {total} loads, {dict(outcomes)}")
    alike = {fault.rstrip().rsplit("\n", 1)[-1][:60]: fault for fault in reversed(faults)}  # one of each sort
    shown = "\n\n".join(list(alike.values())[:15])
    assert not faults, f"{len(faults)} of {total} loads of spoiled {name} folders went wrong:\n{shown}"
    assert SANITIZED or outcomes["refused"] > 0.3 * total
    outcomes, faults = judge(load, folder, [sound])
    assert set(outcomes) == {"fine"}, faults
    assert [file.relative_to(folder.path) for file in files_of(folder.path)] == [
        file.relative_to(original) for file in files_of(original)
    ]
