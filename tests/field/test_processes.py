"""What a process has: few descriptors for mapped models, and an application without sources."""

import importlib.util
import marshal
import os
import shutil
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import child_processes
import numpy as np
import pytest

import sylvan
from sylvan import XRLinear

PACKAGES = ("sylvan", "sylvan.models", "sylvan.data", "sylvan.tune")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors by /proc")
def test_mapped_models_keep_no_descriptor(tmp_path: Path) -> None:
    X, y = np.eye(40, dtype=np.float32).repeat(3, axis=0), np.arange(40).repeat(3)
    XRLinear(max_leaf=4, branching=4, n_jobs=1).fit(X, y).save(tmp_path / "model")
    before = len(os.listdir("/proc/self/fd"))
    models = [sylvan.load(tmp_path / "model", mmap=True) for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    shutil.rmtree(tmp_path / "model")  # what is mapped stays
    answers = [model.rank(X, k=3).labels.tobytes() for model in models]
    assert len(set(answers)) == 1
    weights = models[0].rankers_[0]
    del models, weights  # and goes with the last that reads it


def test_names_are_found_without_sources(tmp_path: Path) -> None:
    source = Path(str(sylvan.__file__)).parent
    frozen = tmp_path / "frozen" / "sylvan"
    shutil.copytree(source, frozen, ignore=shutil.ignore_patterns("__pycache__"))
    for path in frozen.rglob("*.py"):
        code = SourceFileLoader(path.stem, str(source / path.relative_to(frozen))).get_code(path.stem)  # often cached
        path.with_suffix(".pyc").write_bytes(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
        path.unlink()
    program = f"""
import importlib, sys
import sylvan
assert sylvan.__file__.endswith(".pyc") and {str(frozen)!r} in sylvan.__file__
for name in {PACKAGES!r}:
    package = importlib.import_module(name)
    for public in package.__all__:
        assert public in dir(package), public
from sylvan import XRLinear, TextModel, data
print(XRLinear.__name__, TextModel.__name__, data.read_jsonl.__name__)
"""
    done = child_processes.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(frozen.parent)}, check=True
    )
    assert done.stdout.split() == ["XRLinear", "TextModel", "read_jsonl"]
