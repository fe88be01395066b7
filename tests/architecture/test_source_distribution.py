"""What the source distribution holds, and what is said of a wheel before it is built; neither needs a network."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import child_processes
import pytest

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from scikit_build_core import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


def built(what: str, target: Path, source: Path, **more: str) -> Path:
    """What scikit-build-core's hook makes of a folder of sources."""
    environment = {**os.environ, "PIP_NO_INDEX": "1", **more}
    done = child_processes.python("-c", BUILD, what, target, cwd=source, env=environment, check=True)
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("build_sdist", folder, ROOT)) as archive:
        archive.extractall(folder, filter="data")
    (inside,) = (path for path in folder.iterdir() if path.is_dir())
    return inside


def test_it_holds_the_sources_and_no_results(unpacked: Path) -> None:
    for folder in ("native", "src/sylvan"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".py", ".in", ".typed", ".xz"):
                assert (unpacked / path.relative_to(ROOT)).is_file(), path
    for path in ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "tools/wheel_metadata.py"):
        assert (unpacked / path).is_file(), path
    for path in ("benchmarks/results", ".ci", ".github", "build", "src/sylvan/_native.pyi"):
        assert not (unpacked / path).exists(), path
    assert not list(unpacked.rglob("*.so"))


def test_it_leaves_open_what_a_wheel_requires(unpacked: Path) -> None:
    assert "Dynamic: Requires-Dist" in (unpacked / "PKG-INFO").read_text("utf-8").splitlines()


@pytest.mark.parametrize("linked", ["", "1"])
def test_a_wheel_requires_the_library_of_its_kernels_unless_it_is_linked(
    unpacked: Path, tmp_path: Path, linked: str
) -> None:
    folder = built("prepare_metadata_for_build_wheel", tmp_path, unpacked, SYLVAN_LINKED=linked)
    lines = (folder / "METADATA").read_text("utf-8").splitlines()
    lines = [line for line in lines if line.startswith("Requires-Dist") and "extra" not in line]
    required = {line.split()[1].split(">")[0] for line in lines}
    assert {"numpy", "scipy", "click", "tqdm"} <= required
    assert ("nanobind-backend" in required) is not bool(linked)
    tags = [line.split()[1] for line in (folder / "WHEEL").read_text("utf-8").splitlines() if line.startswith("Tag")]
    assert all(tag.startswith("cp310-abi3-") is not bool(linked) for tag in tags), tags
