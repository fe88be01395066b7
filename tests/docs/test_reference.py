"""Every public name is documented, and the reference that a release builds has all of them with their signatures."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from child_processes import python

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tools" / "make_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_with_its_signature(maker: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "reference.md"
    python(ROOT / "tools" / "make_reference.py", path, check=True)
    reference = path.read_text("utf-8")
    for name, value in maker.public_names():
        assert f"\n### {name}\n" in reference, name
        short = name.rpartition(".")[2]
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        assert f"`{maker.signature(value, short)}`" in reference, name
        if isinstance(value, type):
            for inner, _ in maker.members(value):
                assert f"\n#### {short}.{inner}\n" in reference, f"{name}.{inner}"


def test_every_public_name_says_what_it_is(maker: ModuleType) -> None:
    for name, value in maker.public_names():
        assert (value.__doc__ or "").strip(), f"{name} has no docstring"
        if isinstance(value, type):
            for inner, member in maker.members(value):
                assert (maker.inspect.getdoc(member) or "").strip(), f"{name}.{inner} has no docstring"
