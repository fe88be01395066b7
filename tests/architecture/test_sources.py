"""What every source file holds to: nothing pickled or evaluated, short files and functions, documented public names."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
from house import SOURCE, files, name_of


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


@pytest.mark.parametrize("path", files(), ids=name_of)
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


def importable() -> list[str]:
    return [name for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "sylvan.") if "_native" not in name]


@pytest.mark.parametrize("name", importable())
def test_public_names_are_there_and_documented(name: str) -> None:
    if name.endswith("__main__"):
        pytest.skip("runs the command line when it is imported")
    if name == "sylvan.annif":
        pytest.importorskip("annif.backend", reason="Annif isn't here; tests/annif has the examples run beside it")
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} has no docstring"
    for public in getattr(module, "__all__", []):
        thing = getattr(module, public)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert (inspect.getdoc(thing) or "").strip(), f"{name}.{public} has no docstring"
