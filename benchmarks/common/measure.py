"""What the benchmarks measure with: clocks, resident memory, bytes on disk, and the scores of a ranking.

Needs NumPy and SciPy only, so that it runs in each contender's own environment.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

MIB = 1 << 20


class Clock:
    """Wall and CPU seconds of a block, all threads of the process together."""

    def __enter__(self) -> Clock:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu


def _status(field: str) -> float:
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            for line in lines:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MIB if platform.system() == "Darwin" else peak / 1024


def resident() -> float:
    """MiB resident now."""
    return _status("VmRSS")


def private() -> float:
    """MiB resident now that aren't the content of a file."""
    return _status("RssAnon")


def peak_resident() -> float:
    """Highest MiB resident since the start, or since ``forget_peak`` where the system allows that."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Restarts the peak at what is resident now (Linux), so that reading the input does not count."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as switch:
            switch.write("5")
    except OSError:
        pass


class Training(Clock):
    """A clock that notes the memory too: what is resident before the block, and the peak in it."""

    def __enter__(self) -> Training:
        self.before = resident()
        forget_peak()
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.peak = peak_resident()

    def figures(self) -> dict[str, float]:
        """Seconds, and MiB."""
        return {"wall_s": self.wall, "cpu_s": self.cpu, "before_mb": self.before, "peak_mb": self.peak}


def folder_bytes(path: Path) -> int:
    """Bytes of all files below ``path``."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def processor() -> dict[str, Any]:
    """The CPU's name, the cores this process may use, and the system; no name of a machine."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
            name = names[0] if names else name
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": name, "cores": cores, "system": platform.system(), "machine": platform.machine()}


def one_by_one(rank: Callable[[Any], Any], rows: Sequence[Any], warm: int = 50) -> dict[str, float]:
    """Median, 99th percentile and mean milliseconds of ``rank(row)``, after ``warm`` rows that do not count.

    ``cpu_mean_ms`` is the mean of the CPU time, which shows little of what else the machine does.
    """
    for row in rows[:warm]:
        rank(row)
    spent = np.empty(len(rows))
    with Clock() as clock:
        for at, row in enumerate(rows):
            start = time.perf_counter_ns()
            rank(row)
            spent[at] = time.perf_counter_ns() - start
    spent /= 1e6
    return {
        "p50_ms": float(np.percentile(spent, 50)),
        "p99_ms": float(np.percentile(spent, 99)),
        "mean_ms": float(spent.mean()),
        "cpu_mean_ms": clock.cpu * 1e3 / max(len(rows), 1),
        "rows": len(rows),
    }


def batch(rank: Callable[[], Any], n_rows: int, repeats: int = 3) -> tuple[dict[str, Any], Any]:
    """Median milliseconds a row of ranking everything at once (one round before that does not count)."""
    answer, walls, cpus = rank(), [], []
    for _ in range(repeats):
        with Clock() as clock:
            answer = rank()
        walls.append(clock.wall * 1e3 / n_rows)
        cpus.append(clock.cpu * 1e3 / n_rows)
    figures = {"ms_per_row": statistics.median(walls), "cpu_ms_per_row": statistics.median(cpus), "raw_ms": walls}
    return figures, answer


def top_labels(scores: sp.csr_matrix, k: int) -> np.ndarray:
    """The ``k`` best column ids a row of sparse scores, best first, -1 where a row has fewer."""
    scores = scores.tocsr()
    rows = np.repeat(np.arange(scores.shape[0]), np.diff(scores.indptr))
    order = np.lexsort((scores.indices, -scores.data, rows))
    rank = np.arange(len(rows)) - scores.indptr[rows]
    keep = rank < k
    best = np.full((scores.shape[0], k), -1, dtype=np.int64)
    best[rows[keep], rank[keep]] = scores.indices[order][keep]
    return best


def propensities(Y: sp.csr_matrix, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """Inverse propensity a label (Jain et al. 2016), from the training labels."""
    n = Y.shape[0]
    c = (np.log(n) - 1) * (b + 1) ** a
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    return 1 + c * (counts + b) ** -a


def precision(top: np.ndarray, Y: sp.csr_matrix, Y_train: sp.csr_matrix) -> dict[str, float]:
    """P@1/3/5 and PSP@1/3/5 in percent; PSP is normalised by the best that the true labels allow."""
    n, n_labels = Y.shape
    truth = set((np.repeat(np.arange(n), np.diff(Y.indptr)) * np.int64(n_labels) + Y.indices).tolist())
    flat = top[:, :5] + np.arange(n)[:, None] * np.int64(n_labels)
    known = np.fromiter((int(key) in truth for key in flat.ravel()), dtype=bool, count=flat.size)
    hits = known.reshape(flat.shape) & (top[:, :5] >= 0)
    weight = propensities(Y_train)
    gain = np.where(hits, weight[np.maximum(top[:, :5], 0)], 0.0)
    best = sp.csr_matrix((weight[Y.indices], Y.indices, Y.indptr), shape=Y.shape)
    ideal_ids = top_labels(best, 5)
    ideal = np.where(ideal_ids >= 0, weight[np.maximum(ideal_ids, 0)], 0.0)
    figures = {f"P@{k}": 100 * hits[:, :k].sum() / (k * n) for k in (1, 3, 5)}
    figures |= {f"PSP@{k}": 100 * gain[:, :k].sum() / ideal[:, :k].sum() for k in (1, 3, 5)}
    return {name: float(value) for name, value in figures.items()}


def recall(top: np.ndarray, Y: sp.csr_matrix, at: Sequence[int] = (1, 3, 5, 10)) -> dict[str, float]:
    """R@k in percent: the mean share of a row's labels among its first k answers; rows without a label don't count."""
    n, n_labels = Y.shape
    counts = np.diff(Y.indptr)
    truth = np.repeat(np.arange(n), counts) * np.int64(n_labels) + Y.indices
    hits = np.isin(top + np.arange(n)[:, None] * np.int64(n_labels), truth) & (top >= 0)
    labelled = counts > 0
    return {f"R@{k}": float(100 * (hits[labelled, :k].sum(axis=1) / counts[labelled]).mean()) for k in at}
