"""Every public name is documented, and the site's reference has each once."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import sylvan
from sylvan.remote.fitted import Fitted

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names() -> ModuleType:
    spec = importlib.util.spec_from_file_location("public_names", ROOT / "tools" / "public_names.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_a_page_for_each_public_module(names: ModuleType) -> None:
    page = (ROOT / "docs" / "reference" / "index.rst").read_text("utf-8").split()
    for module in names.MODULES:
        assert module.__name__ in page, f"docs/reference/index.rst lacks {module.__name__}"


def test_every_module_that_the_package_lists_is_public(names: ModuleType) -> None:
    listed = {getattr(sylvan, word) for word in sylvan.__all__ if isinstance(getattr(sylvan, word), ModuleType)}
    assert listed <= set(names.MODULES)


def test_every_public_name_stands_once(names: ModuleType) -> None:
    found = [value for _, value in names.public_names()]
    assert len({id(value) for value in found}) == len(found)
    assert sum(map(len, names.by_module().values())) == len(found)
    assert {"XRLinear", "load", "tune"} <= set(names.by_module()["sylvan"])


def test_every_public_name_says_what_it_is(names: ModuleType) -> None:
    for name, value in names.public_names():
        assert (value.__doc__ or "").strip(), f"{name} has no docstring"
        if isinstance(value, type):
            for inner, member in names.members(value):
                assert (inspect.getdoc(member) or "").strip(), f"{name}.{inner} has no docstring"


def test_completion_shows_what_is_public(names: ModuleType) -> None:
    """Parameters, what was learned, and the members that the reference has; no names for the package alone."""
    classes = {value for _, value in names.public_names() if inspect.isclass(value) and issubclass(value, Fitted)}
    needed = {cls: [p for p in inspect.signature(cls).parameters.values() if p.default is p.empty] for cls in classes}
    simple = [cls for cls in classes if not needed[cls]]
    assert len(simple) > 5
    for cls in simple:
        model = cls()
        listed = {name for name, _ in names.members(cls)}
        members = {"get_params", "set_params", "unknown", *cls.parameter_names(), *listed}
        assert set(cls.parameter_names()) <= set(dir(model))
        more = [name for name in dir(model) if name.strip("_") == name and name not in members]
        assert not more, cls
    assert not {"TYPE_CHECKING", "importlib", "kernels", "lazy_names"} & set(dir(sylvan))
