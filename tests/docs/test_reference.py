"""docs/reference.md names every public thing with the signature that it has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tools" / "make_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_with_its_signature(maker: ModuleType) -> None:
    reference = (ROOT / "docs" / "reference.md").read_text("utf-8")
    again = "docs/reference.md is out of date: run tools/make_reference.py"
    for name, value in maker.public_names():
        assert f"\n### {name}\n" in reference, again
        short = name.rpartition(".")[2]
        if isinstance(value, type) and issubclass(value, Exception):
            continue
        assert f"`{maker.signature(value, short)}`" in reference, f"{again} (the signature of {name} changed)"
        if isinstance(value, type):
            for inner, _ in maker.members(value):
                assert f"\n#### {short}.{inner}\n" in reference, again


def test_every_public_name_says_what_it_is(maker: ModuleType) -> None:
    for name, value in maker.public_names():
        assert (value.__doc__ or "").strip(), f"{name} has no docstring"
        if isinstance(value, type):
            for inner, member in maker.members(value):
                assert (maker.inspect.getdoc(member) or "").strip(), f"{name}.{inner} has no docstring"
