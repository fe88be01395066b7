"""One size of ``scale.py`` in a process of its own: a set is prepared, or a model trained on it, within a memory limit.

The job: ``{"step": "train", "set": FOLDER, "contender": "sylvan", "settings": {...}, "threads": 2, "memory": BYTES,
"model": FOLDER}`` and perhaps ``"memory_limit"``, which training is to keep; or ``{"step": "prepare", "name": NAME,
"cache": FOLDER}``.
"""

from __future__ import annotations

import hashlib
import resource
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.common import datasets, measure, process
from benchmarks.linear.contenders import BEAM, BRANCHING, MAX_LEAF, read
from benchmarks.linear.file_contenders import CONTENDERS

Job = dict[str, Any]
SECONDS = 0.02  # between two looks at the memory


class Watched:
    """The peak of the memory that the system can't take back: without pages of mapped files."""

    def __enter__(self) -> Watched:
        self.peak, self._done = 0.0, threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(SECONDS):
            self.peak = max(self.peak, measure.private())


def confine(n_bytes: int | None) -> None:
    """Let this process take no more memory than that; where the machine has none left, this process is to go first."""
    if n_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def bits_of(folder: Path) -> str:
    """A checksum of all arrays of a saved model."""
    sums = hashlib.sha256()
    for path in sorted(folder.rglob("*.npy")):
        with open(path, "rb") as file:
            while block := file.read(1 << 24):
                sums.update(block)
    return sums.hexdigest()[:16]


def train_sylvan(job: Job) -> Job:
    """Time and memory of each phase; the size and the bits of the model."""
    from benchmarks.linear.scale_phases import Phased, Phases
    from sylvan import XRLinear
    from sylvan.runtime import opened_runner

    X, Y = (read(Path(job["set"]), name) for name in ("X.trn", "Y.trn"))
    before, phases = measure.resident(), Phases()
    shape = {"branching": BRANCHING, "max_leaf": MAX_LEAF, "beam": BEAM}
    model = XRLinear(**shape, **job.get("settings", {}), n_jobs=job["threads"], seed=0)
    with Watched() as memory, measure.Clock() as clock:
        phases.begin("checks")
        with opened_runner(job["threads"], memory_limit=job.get("memory_limit")) as runner:
            model.fit(X, Y, runner=Phased(runner, phases), force=True)
        phases.end()
    phases.begin("saving")
    model.save(job["model"])
    phases.end()
    figures = {"wall_s": clock.wall, "cpu_s": clock.cpu, "before_mb": before, "private_peak_mb": memory.peak}
    figures["peak_mb"] = max(phase["peak_mb"] for name, phase in phases.found.items() if name != "saving")
    made = {"layers": list(model.tree_.layer_sizes), "weights": sum(layer.n_entries for layer in model.layers_)}
    return {**figures, **made, "phases": phases.found, "bits": bits_of(Path(job["model"]))}


def train_peer(job: Job) -> Job:
    """Time and memory of the whole training."""
    contender = CONTENDERS[job["contender"]]()
    contender.load_imports()
    contender.prepare(Path(job["set"]), Path(job["scratch"]))
    figures: Job = contender.train_measured(job["threads"]).figures()
    contender.save(Path(job["model"]))
    return {"version": contender.version(), **figures}


def measured(job: Job) -> Job:
    """The job's figures."""
    if job["step"] == "version":
        CONTENDERS[job["contender"]]().load_imports()
        return {}
    confine(job.get("memory"))
    if job["step"] == "prepare":
        datasets.prepare(job["name"], Path("data"), Path(job["cache"]))
        return {}
    try:
        figures = (train_sylvan if job["contender"] == "sylvan" else train_peer)(job)
    except MemoryError as error:  # Sylvan refuses a limit by one too
        return {"error": str(error) or "it got no more memory"}
    return figures | {"model_mb": measure.folder_bytes(Path(job["model"])) / 1e6}


if __name__ == "__main__":
    process.serve(measured)
