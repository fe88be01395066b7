"""A model is opened by the one module that knows its kind; nothing else of the package needs to be loaded."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path

import child_processes
import pytest
from kit.errors import raises

import sylvan
from sylvan import TextModel, XRLinear, store
from sylvan.store.registry import KINDS

ROOMS = ("data", "text", "indexing", "ranking", "models")


def test_every_kind_is_in_the_table_under_the_module_that_registers_it() -> None:
    for room in ROOMS:
        package = importlib.import_module(f"sylvan.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    registered = {}
    for kind in store.loaders:
        owner = getattr(store.loaders[kind], "__self__", None)
        if owner is not None and owner.__module__.startswith("sylvan."):
            registered[kind] = owner.__module__.removeprefix("sylvan.")
    assert registered == {name: kind.module for name, kind in KINDS.items()}
    encoding = {name for name, kind in KINDS.items() if kind.texts_alone}
    assert encoding == {"lexical-matcher", "xr-transformer", "x-transformer"}


def loaded_to_open(folder: Path) -> set[str]:
    code = "import json, sys, sylvan; sylvan.load(sys.argv[1]); print(json.dumps(sorted(sys.modules)))"
    done = child_processes.python("-c", code, folder, check=True)
    return set(json.loads(done.stdout))


def test_a_model_is_opened_without_the_other_families(tmp_path: Path) -> None:
    model = TextModel(model=XRLinear()).fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]])
    model.save(tmp_path / "m")
    loaded = loaded_to_open(tmp_path / "m")
    assert {"sylvan.models.text", "sylvan.models.xr.xr_linear", "sylvan.text.tfidf"} <= loaded
    others = {f"sylvan.models.{family}" for family in ("transformer", "irli", "beam_tree")}
    assert not {name for name in loaded if any(name.startswith(other) for other in others)}


@pytest.mark.parametrize("name", sylvan.__all__)
def test_public_names_are_found_and_listed(name: str) -> None:
    assert name in dir(sylvan)
    assert getattr(sylvan, name) is not None


def test_tune_is_the_function_in_whatever_order_its_package_is_loaded() -> None:
    code = (
        "import importlib, sylvan; importlib.import_module('sylvan.tune.result'); assert callable(sylvan.tune); "
        "importlib.import_module('sylvan.tune.tuner'); assert callable(sylvan.tune)"
    )
    child_processes.python("-c", code, check=True)


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with raises(AttributeError, "sylvan", "nothing"):
        sylvan.nothing  # noqa: B018
