"""What the source distribution holds, what is said of its wheel, and that wheel, all without a network."""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import child_processes
import pytest
from waiting import PATIENCE

ROOT = Path(__file__).parents[2]
NOWHERE = dict.fromkeys(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"), "http://127.0.0.1:9")  # nobody listens
OFFLINE = {**os.environ, **NOWHERE, "PIP_NO_INDEX": "1"}
BUILD = "import sys; from scikit_build_core import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


def built(what: str, target: Path, source: Path, **more: str) -> Path:
    """What scikit-build-core's hook makes of a folder of sources."""
    done = child_processes.python("-c", BUILD, what, target, cwd=source, env={**OFFLINE, **more}, check=True)
    return target / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("scikit_build_core")
    return built("build_sdist", tmp_path_factory.mktemp("sdist"), ROOT)


@pytest.fixture(scope="module")
def unpacked(sdist: Path) -> Path:
    shutil.unpack_archive(sdist, sdist.parent)
    (inside,) = (path for path in sdist.parent.iterdir() if path.is_dir())
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


def test_a_linked_wheel_lists_the_parts_of_the_library_in_it(unpacked: Path, tmp_path: Path) -> None:
    for module in ("cmake", "nanobind"):
        pytest.importorskip(module)
    found: dict[str, set[str]] = {}
    for linked in ("OFF", "ON"):
        settings = {
            "SYLVAN_LINKED": linked, "Python_EXECUTABLE": sys.executable,
            "SKBUILD_METADATA_DIR": "info", "SKBUILD_PROJECT_VERSION": "0.0",
        }  # fmt: skip
        options = [f"-D{name}={value}" for name, value in settings.items()]
        command = ("-m", "cmake", "-S", unpacked, "-B", tmp_path / linked, *options)
        child_processes.python(*command, env=OFFLINE, check=True)
        parts = json.loads((tmp_path / linked / "sylvan.cdx.json").read_text("utf-8"))["components"]
        assert all(part["purl"].endswith(part["version"]) and part["version"][0].isdigit() for part in parts), parts
        found[linked] = {part["name"] for part in parts}
    assert found == {"OFF": {"nanobind"}, "ON": {"nanobind", "robin-map"}}


def test_a_wheel_is_built_from_it_without_a_network(sdist: Path, tmp_path: Path) -> None:
    for module in ("pip", "cmake", "nanobind"):
        pytest.importorskip(module)
    quickly = {"cmake.build-type": "Debug", "cmake.define.CMAKE_CXX_FLAGS_DEBUG": "-DSYLVAN_NO_CLONES"}
    how = [word for name, value in quickly.items() for word in ("--config-settings", f"{name}={value}")]
    how += ["--no-index", "--no-build-isolation", "--no-deps"]
    command = ("-m", "pip", "wheel", *how, "--wheel-dir", tmp_path, sdist)
    done = child_processes.python(*command, env=OFFLINE, cwd=tmp_path, timeout=5 * PATIENCE)  # it compiles
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
        (listed,) = (name for name in archive.namelist() if name.endswith("/sboms/sylvan.cdx.json"))
        assert json.loads(archive.read(listed))["bomFormat"] == "CycloneDX"
    for path in ("sylvan/_native.pyi", "sylvan/py.typed", "sylvan_command/__init__.py"):
        assert (tmp_path / "installed" / path).is_file(), path
    work = "import sylvan, sys; sylvan.XRLinear().fit([[1.0, 0.0], [0.0, 1.0]], [[0], [1]]); print(sylvan.__file__)"
    env = {**OFFLINE, "PYTHONPATH": str(tmp_path / "installed")}
    used = child_processes.python("-c", work, env=env, cwd=tmp_path, check=True).stdout.strip()
    assert Path(used) == tmp_path / "installed" / "sylvan" / "__init__.py"
