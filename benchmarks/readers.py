"""How fast text is read: XMC lines by Sylvan, scikit-learn and napkinXC, each in a process of its own.

``python benchmarks/readers.py [--megabytes 256] [--repeats 3] [--python PATH ...] [--out FILE]``

The file is synthetic: long-tailed feature ids, 80 a line, values of four digits as TF-IDF files have them
(and once more with all nine digits of a float32), three labels a line. ``--python`` names further interpreters to
look for the others in; one that is in none is reported as missing. libpecos 1.2.8 has no reader for this format.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import measure

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


def work(package: str, threads: int, path: str) -> dict[str, Any]:
    """Seconds and memory of one reading."""
    read = reader(package, threads)
    measure.forget_peak()
    before = measure.resident()
    with measure.Clock() as clock:
        matrices = read(path)
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
    if importlib.util.find_spec(package):
        return sys.executable
    for python in pythons:
        if not subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
            return python
    return None


def measured(python: str, package: str, threads: int, path: Path, repeats: int) -> dict[str, Any]:
    """Medians over ``repeats`` processes."""
    command = [python, __file__, "--work", package, str(threads), str(path)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(repeats)]
    figures: dict[str, Any] = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    megabytes = path.stat().st_size / 1e6
    return {**figures, "mb_per_s": megabytes / figures["wall_s"], "mb_per_cpu_s": megabytes / figures["cpu_s"]}


def main() -> None:
    """Measure every contender on both files, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "readers.json")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        package, threads, path = options.work
        print(json.dumps(work(package, int(threads), path)))
        return
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
                rows[contender] = measured(python, package, threads, path, options.repeats)
                print(f"{name}, {contender}: {rows[contender]['mb_per_s']:.0f} MB/s", flush=True)
            results["files"][name] = {"megabytes": path.stat().st_size / 1e6, "contenders": rows}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
