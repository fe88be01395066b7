"""Where kernels may look: each folder of them at itself and at base/, the bindings at all."""

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
FOLDERS = {
    "base", "linear", "text", "classes", "buckets", "vectors", "io", "lexical", "trees", "candidates", "bindings"
}  # fmt: skip


def included(path: Path) -> list[str]:
    return re.findall(r'^#include "([^"]+)"', path.read_text("utf-8"), re.MULTILINE)


def sources() -> list[Path]:
    return sorted(path for path in NATIVE.rglob("*") if path.suffix in (".cpp", ".hpp"))


@pytest.mark.skipif(not NATIVE.is_dir(), reason="the sources of the kernels aren't here")
def test_kernels_look_at_their_own_folder_and_at_base() -> None:
    assert {path.relative_to(NATIVE).parts[0] for path in sources()} == FOLDERS
    for path in sources():
        folder = path.relative_to(NATIVE).parts[0]
        for name in included(path):
            assert (NATIVE / name).is_file(), f"{path} includes {name}, which isn't written from native/"
            assert folder == "bindings" or name.split("/")[0] in ("base", folder), f"{path} includes {name}"


@pytest.mark.skipif(not NATIVE.is_dir(), reason="the sources of the kernels aren't here")
def test_only_the_bindings_know_python() -> None:
    for path in sources():
        known = re.search(r"nanobind|Python\.h", path.read_text("utf-8"))
        assert known is None or "bindings" in path.parts, path
