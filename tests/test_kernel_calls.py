"""The plugin by which tools/sanitize finds kernels that its tests don't reach."""

import os
from pathlib import Path

import child_processes
import kernel_calls

from sylvan import kernels

TESTS = Path(__file__).parent
CALLS = """
import numpy as np
from sylvan import kernels

def test_calls():
    lists = kernels.BucketLists(np.array([[0, 1]]), np.zeros((1, 1), np.int32), n_labels=1)
    assert isinstance(lists, kernels.BucketLists)
    best, out = np.zeros((1, 1), np.int32), np.zeros(1, np.int32)
    for _ in range(2):
        kernels.least_loaded(best, None, 1, np.zeros(1, np.int64), out)
"""


def test_every_kernel_is_demanded() -> None:
    public = {name for name in vars(kernels) if not name.startswith("_")}
    assert {kernel.partition(".")[0] for kernel, _, _ in kernel_calls.DEMANDED} == public
    assert {
        ("vote", "relevance", "None"), ("vote", "relevance", "a value"), ("ClassTrainer.train", "", "called"),
        ("parse_lines", "svmlight", "True"), ("canonical_rows", "data", "float64"), ("rank", "listed", "a value"),
    } <= kernel_calls.DEMANDED  # fmt: skip


def test_what_no_test_reaches_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_calls.py").write_text(CALLS)
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    for processes in ("0", "1"):
        done = child_processes.python(
            "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "kernel_calls", "-n", processes,
            "test_calls.py",
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        assert done.returncode == 1 and "1 passed" in done.stdout, done.stdout + done.stderr
        missing = [line for line in done.stdout.splitlines() if line.startswith("no test of this run reaches ")]
        assert "no test of this run reaches least_loaded with current: a value, current: int32" in missing
        assert "no test of this run reaches vote" in missing
        assert not any("BucketLists" in line for line in missing)
