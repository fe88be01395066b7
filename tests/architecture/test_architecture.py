"""The house rules that a reader relies on: imports point downwards, one door to native code, a light import."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sylvan

SOURCE = Path(sylvan.__file__).parent
# Top-level modules from the ground up; a module may import those of its own storey, unless that makes a circle.
STOREYS = [
    {"version", "errors", "params", "topk", "lazy"},
    {"_native"},
    {"kernels", "parallel"},
    {"canonical", "validate", "label_filter"},
    {"store", "weights", "data", "metrics", "text"},
    {"runtime"},
    {"indexing"},
    {"matching", "sampling", "neural"},
    {"ranking"},
    {"explain"},
    {"models"},
    {"importers"},
    {"tasks", "distributed", "serve"},
    {"cli", "__main__"},
]
STOREY = {name: height for height, names in enumerate(STOREYS) for name in names}


def files() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    assert len(found) > 10
    return found


def module_of(path: Path) -> str:
    parts = list(path.relative_to(SOURCE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Every module of Sylvan that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "sylvan")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "sylvan":
                yield from (f"sylvan.{alias.name}" for alias in node.names)
            elif node.module and node.module.startswith("sylvan."):
                yield node.module


def edges() -> dict[str, set[str]]:
    """Which top-level modules each top-level module imports."""
    result: dict[str, set[str]] = {}
    for path in files():
        module = module_of(path)
        if module == "sylvan":
            continue  # the front door names everything
        source = module.split(".")[1]
        for target in imports(path):
            name = target.split(".")[1] if "." in target else ""
            if name and name not in (source, "__version__"):
                result.setdefault(source, set()).add(name)
    return result


def test_imports_point_downwards() -> None:
    for source, targets in edges().items():
        assert source in STOREY, f"sylvan.{source} has no place among the storeys of this test"
        for target in targets:
            assert target in STOREY, f"sylvan.{source} imports sylvan.{target}, which has no place here"
            assert STOREY[target] <= STOREY[source], f"sylvan.{source} imports sylvan.{target}, which is above it"


def test_imports_make_no_circle() -> None:
    graph = edges()

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for target in graph.get(todo.pop(), set()) - seen:
                seen.add(target)
                todo.append(target)
        return seen

    for name in graph:
        assert name not in reach(name), f"sylvan.{name} imports itself in the end"


def test_one_door_to_native_code() -> None:
    for path in files():
        if module_of(path) != "sylvan.kernels":
            assert not any(name.startswith("sylvan._native") for name in imports(path)), path
            assert "_native" not in path.read_text("utf-8"), path


def test_nothing_pickled_or_evaluated() -> None:
    forbidden = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
    for path in files():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not forbidden & {alias.name.split(".")[0] for alias in node.names}, path
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] not in forbidden, path
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    assert node.func.id not in {"eval", "exec", "__import__", "compile"}, path
                for keyword in node.keywords:
                    assert keyword.arg != "allow_pickle" or not getattr(keyword.value, "value", True), path


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; import json; print(json.dumps(sorted(sys.modules)))"
    path = os.pathsep.join([str(SOURCE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return set(json.loads(result.stdout.splitlines()[-1]))


def test_importing_sylvan_loads_only_numpy_scipy_and_the_standard_library() -> None:
    before = loaded_by("import numpy, scipy.sparse, numpy.lib.format")
    new = loaded_by("import sylvan") - before
    tops = {name.split(".")[0] for name in new}
    assert tops <= {"sylvan", "numpy", *sys.stdlib_module_names}, tops
    heavy = {"multiprocessing", "asyncio", "unittest", "http", "email", "xml", "sqlite3", "tkinter", "distutils"}
    assert not heavy & tops, heavy & tops


@pytest.mark.parametrize("path", files(), ids=module_of)
def test_files_and_functions_are_short(path: Path) -> None:
    """Mostly under 400 and 60 lines; nothing beyond these limits."""
    text = path.read_text("utf-8")
    assert text.count("\n") <= 500, f"{path} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            assert lines <= 90, f"{path}: {node.name} has {lines} lines"
    assert "TODO" not in text and "FIXME" not in text, path


def modules() -> list[str]:
    return [name for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "sylvan.") if "_native" not in name]


@pytest.mark.parametrize("name", modules())
def test_public_names_are_there_and_documented(name: str) -> None:
    if name.endswith("__main__"):
        pytest.skip("runs the command line when it is imported")
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} has no docstring"
    for public in getattr(module, "__all__", []):
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert (inspect.getdoc(thing) or "").strip(), f"{name}.{public} has no docstring"
