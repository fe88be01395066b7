"""What a reader relies on: imports point downwards, nothing makes a circle, and private names stay private."""

import json
import re
import sys

import pytest
from child_processes import python
from house import LAYER, LAYERS, SOURCE, circles, edges, foreign_privates, modules

# What doesn't hold the rules yet. These lists may only become shorter: what holds them has to be struck out.
UPWARD_LEFT: set[tuple[str, str]] = set()
CIRCLES_LEFT: dict[str, list[list[str]]] = {"package": [], "room": [], "file": []}
PRIVATES_LEFT: dict[str, set[str]] = {}
BACKEND = {"nanobind_backend"}  # what the kernels are linked with when they are loaded


def test_every_package_has_its_layer() -> None:
    for module in modules().values():
        assert module.name == "sylvan" or module.package in LAYER, f"{module.where} has no place in LAYERS"
    assert len(LAYER) == sum(map(len, LAYERS))


def test_the_map_in_contributing_is_this_house() -> None:
    path = SOURCE.parents[1] / "CONTRIBUTING.md"
    if not path.is_file():
        pytest.skip("the documents aren't here")
    drawn = path.read_text("utf-8").split("src/sylvan/\n")[1].split("\ntests/")[0]
    names = [name for line in drawn.splitlines() for name in re.match(r"  (\w+(?: \w+)*)", line)[1].split()]  # type: ignore[index]
    assert [LAYER[name] for name in names] == sorted(LAYER[name] for name in names)
    there = {module.package for module in modules().values()} - {"", "__main__"}
    assert set(names) == there, "CONTRIBUTING's map names other packages than there are"


def test_imports_point_downwards() -> None:
    upward = set()
    for module in modules().values():
        for name in module.imports if module.name != "sylvan" else ():  # the package's face names everything
            package = name.partition(".")[2].partition(".")[0]
            assert package in LAYER, f"{module.where} imports {name}, which has no place in LAYERS"
            if LAYER[package] > LAYER[module.package]:
                upward.add((module.where, name))
    assert upward <= UPWARD_LEFT, f"these import what is above them: {upward - UPWARD_LEFT}"
    assert upward == UPWARD_LEFT, f"strike out of this test, these point downwards: {UPWARD_LEFT - upward}"


@pytest.mark.parametrize("level", ["package", "room", "file"])
def test_imports_make_no_circle(level: str) -> None:
    """Of packages, of the rooms inside them, and of files; imports for type hints alone count as well."""
    found, left = circles(edges(level)), CIRCLES_LEFT[level]
    new, gone = [one for one in found if one not in left], [one for one in left if one not in found]
    assert not new, f"these import each other: {new}"
    assert not gone, f"strike out of this test, these make no circle: {gone}"


def test_private_names_are_used_by_their_own_file_alone() -> None:
    """A class may also use what it inherits; a function that works on a model's privates belongs into the model."""
    used = {(module.where, name) for module in modules().values() for name in foreign_privates(module)}
    left = {(where, name) for where, names in PRIVATES_LEFT.items() for name in names}
    assert used <= left, f"these use private names of others: {sorted(used - left)}"
    assert used == left, f"strike out of this test, these use them no more: {sorted(left - used)}"


def test_one_importer_of_native_code() -> None:
    for module in modules().values():
        if module.name != "sylvan.kernels":
            assert not any(name.startswith("sylvan._native") for name in module.imports), module.where
            assert "_native" not in module.path.read_text("utf-8"), module.where


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; import json; print(json.dumps(sorted(sys.modules)))"
    return set(json.loads(python("-c", code, check=True).stdout.splitlines()[-1]))


def test_public_names_load_only_numpy_scipy_and_the_standard_library() -> None:
    before = loaded_by("import numpy, scipy.sparse, numpy.lib.format")
    new = loaded_by("import sylvan; [getattr(sylvan, name) for name in sylvan.__all__]") - before
    tops = {name.split(".")[0] for name in new}
    assert tops <= {"sylvan", "numpy", *BACKEND, *sys.stdlib_module_names}, tops
    heavy = {"multiprocessing", "asyncio", "unittest", "http", "email", "xml", "sqlite3", "tkinter", "distutils"}
    assert not heavy & tops, heavy & tops


def test_importing_sylvan_loads_next_to_nothing() -> None:
    """Names are loaded when they are asked for; NumPy and SciPy take most of the time that an import takes."""
    loaded = loaded_by("import sylvan")
    assert not {"numpy", "scipy"} & loaded
    assert {name for name in loaded if name.startswith("sylvan")} == {
        "sylvan", "sylvan.lazy", "sylvan.tune", "sylvan.version",
    }  # fmt: skip


def test_a_model_loads_its_own_family_only() -> None:
    loaded = loaded_by("from sylvan import XRLinear")
    families = {name.split(".")[2] for name in loaded if name.startswith("sylvan.models.") and name.count(".") > 2}
    assert families == {"xr"}
    packages = {name.split(".")[1] for name in loaded if name.startswith("sylvan.")}
    assert not packages & {"annif", "cli", "distributed", "importers", "neural", "sampling", "serve", "tasks"}
