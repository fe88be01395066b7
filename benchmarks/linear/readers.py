"""How fast text is read: XMC lines by Sylvan, scikit-learn and napkinXC, each in a process of its own.

``python -m benchmarks.linear.readers [--megabytes 256] [--repeats 3] [--python PATH ...] [--out FILE]``

The file is synthetic: long-tailed feature ids, 80 a line, values of four digits as TF-IDF files have them
(and once more with all nine digits of a float32), three labels a line. ``--python`` names further interpreters to
look for the others in; one that is in none is reported as missing. libpecos 1.2.8 has no reader for this format.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.common import measure, process, records

# Contender -> its package and threads.
CONTENDERS = {
    "sylvan, 1 thread": ("sylvan", 1),
    "sylvan, 2 threads": ("sylvan", 2),
    "scikit-learn": ("sklearn", 1),
    "napkinxc": ("napkinxc", 1),
}


def reader(package: str, threads: int) -> Callable[[str], Any]:
    """What reads a file of lines without a header."""
    if package == "sylvan":
        from sylvan import data

        return lambda path: data.load_xmc(path, n_jobs=threads)
    if package == "sklearn":
        import numpy as np
        from sklearn.datasets import load_svmlight_file

        return lambda path: load_svmlight_file(path, multilabel=True, zero_based=True, dtype=np.float32)
    from napkinxc.datasets import load_libsvm_file

    return lambda path: load_libsvm_file(path, labels_format="csr_matrix")


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds and memory of one reading; nothing where only the package is asked for."""
    read = reader(job["package"], job.get("threads", 1))
    if "path" not in job:
        return {}
    measure.forget_peak()
    before = measure.resident()
    with measure.Clock() as clock:
        matrices = read(job["path"])
    matrix = matrices[0]
    return {
        "wall_s": clock.wall,
        "cpu_s": clock.cpu,
        "peak_mb": measure.peak_resident() - before,
        "entries": int(matrix.nnz),
        "sum": float(matrix.data.sum(dtype="float64")),
    }


def write_set(path: Path, megabytes: float, digits: int) -> None:
    """Lines with 80 features and 3 labels, written with Sylvan's own writer."""
    import numpy as np
    import scipy.sparse as sp

    from sylvan import data

    per_row, d, n_labels = 80, 500_000, 100_000
    n = int(megabytes * 1e6 / (per_row * (8.3 + digits)))
    rng = np.random.default_rng(0)
    ids = (d * rng.random((n, per_row)) ** 4).astype(np.int32)
    values = np.maximum(rng.random(n * per_row, np.float32), 1e-3)
    values = values.round(digits) if digits < 9 else values
    offsets = np.arange(n + 1) * per_row
    x = sp.csr_matrix((values.astype(np.float32), ids.ravel(), offsets), (n, d))
    x.sum_duplicates()
    labels = rng.integers(0, n_labels, n * 3)
    y = sp.csr_matrix((np.ones(n * 3, np.float32), labels, np.arange(n + 1) * 3), (n, n_labels))
    data.save_xmc(path, x, y, header=False, weighted_labels=False)


def find(package: str, pythons: list[str]) -> str | None:
    """The first interpreter that has the package."""
    return process.first_with((sys.executable, *pythons), lambda python: run(python, {"package": package}))


def run(python: str, job: dict[str, Any]) -> dict[str, Any]:
    """:func:`work` in a process of its own."""
    return process.run(python, "benchmarks.linear.readers", job, threads=job.get("threads", 1))


def measured(python: str, job: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Medians over ``repeats`` processes."""
    runs = [run(python, job) for _ in range(repeats)]
    failed = [run for run in runs if "error" in run]
    if failed:
        return failed[0]
    figures: dict[str, Any] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    megabytes = Path(job["path"]).stat().st_size / 1e6
    return {**figures, "mb_per_s": megabytes / figures["wall_s"], "mb_per_cpu_s": megabytes / figures["cpu_s"]}


def main() -> None:
    """Measure every contender on both files, print a table, write JSON."""
    if process.served(work):
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--out", type=Path, default=RESULTS / "readers.json")
    options = parser.parse_args()
    results: dict[str, Any] = {"processor": measure.processor(), "files": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, digits in (("values of 4 digits", 4), ("values of 9 digits", 9)):
            path = Path(folder) / "lines.txt"
            write_set(path, options.megabytes, digits)
            rows: dict[str, Any] = {}
            for contender, (package, threads) in CONTENDERS.items():
                python = find(package, options.python)
                if python is None:
                    rows[contender] = "missing"
                    print(f"{name}, {contender}: missing")
                    continue
                job = {"package": package, "threads": threads, "path": str(path)}
                figures = rows[contender] = measured(python, job, options.repeats)
                shown = figures.get("error") or f"{figures['mb_per_s']:.0f} MB/s"
                print(f"{name}, {contender}: {shown}", flush=True)
            results["files"][name] = {"megabytes": path.stat().st_size / 1e6, "contenders": rows}
    records.save(options.out, results)


if __name__ == "__main__":
    main()
