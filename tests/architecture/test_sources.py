"""What every source file holds to: nothing pickled or evaluated, short files and functions, documented public names."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from house import SOURCE, modules

# Whose docstrings have more than a paragraph although no module lists their names. This set may only become smaller.
LONG_DOCSTRINGS = {
    "sylvan.params.fields",  # how parameters are declared, with an example
    "sylvan.runtime.checkpoint.Checkpoint",  # docs/memory.md hands it to users
}


def test_nothing_pickled_or_evaluated() -> None:
    forbidden = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, ast.Import):
                assert not forbidden & {alias.name.split(".")[0] for alias in node.names}, module.where
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] not in forbidden, module.where
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    assert node.func.id not in {"eval", "exec", "__import__", "compile"}, module.where
                for keyword in node.keywords:
                    assert keyword.arg != "allow_pickle" or not getattr(keyword.value, "value", True), module.where


def test_functions_are_short() -> None:
    """Mostly under 60 lines; none beyond 90."""
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = node.body[1:] if ast.get_docstring(node, clean=False) else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                assert lines <= 90, f"{module.where}: {node.name} has {lines} lines"
        assert "TODO" not in module.text and "FIXME" not in module.text, module.where


def test_public_names_are_there_and_documented() -> None:
    names = [name for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "sylvan.") if "_native" not in name]
    names.remove("sylvan.__main__")  # it runs the command line when it is imported
    try:
        import annif.backend  # noqa: F401
    except ImportError:
        names = [name for name in names if name not in ("sylvan.annif", "sylvan.annif.backend")]
    for name in names:
        module = importlib.import_module(name)
        assert (module.__doc__ or "").strip(), f"{name} has no docstring"
        for public in getattr(module, "__all__", []):
            thing = getattr(module, public)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert (inspect.getdoc(thing) or "").strip(), f"{name}.{public} has no docstring"


def definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Every class, function and method below a node, those within functions too, by its name with dots."""
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            name = f"{prefix}.{child.name}"
            yield name, child
            name += "" if isinstance(child, ast.ClassDef) else ".<locals>"
        yield from definitions(child, name)


def documented_names() -> set[str]:
    """The public modules, names and members, each by the place that it is written in."""
    path = Path(__file__).parents[2] / "tools" / "public_names.py"
    spec = importlib.util.spec_from_file_location("public_names", path)
    assert spec is not None and spec.loader is not None
    names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(names)
    found = {module.__name__ for module in names.MODULES}
    for _, value in names.public_names():
        found.add(_where_written(value))
        for word, member in names.members(value) if isinstance(value, type) else ():
            # An override without a docstring has that of the method above it.
            above = [vars(base)[word] for base in value.__mro__ if word in vars(base)]
            found.add(_where_written(next((one for one in above if one.__doc__), member)))
    return found


def _where_written(value: Any) -> str:
    if isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    value = inspect.unwrap(value.fget if isinstance(value, property) else value)
    return f"{value.__module__}.{value.__qualname__}"


def is_help(node: ast.AST) -> bool:
    """Whether a docstring is the help of a command or a group of the command line."""
    decorators = getattr(node, "decorator_list", ())
    marked = "\b\n" in (ast.get_docstring(node) or "")  # type: ignore[arg-type]  # click's mark before examples
    return marked or any(ast.unparse(each).startswith(("click.command(", "click.group(")) for each in decorators)


def test_docstrings_of_internals_have_one_paragraph() -> None:
    """Whoever reads them has the code beside them; shapes and units stand at the fields."""
    public = documented_names()
    long = set()
    for module in modules().values():
        for name, node in ((module.name, module.tree), *definitions(module.tree, module.name)):
            shown = name in public or (module.package == "cli" and is_help(node))
            if not shown and "\n\n" in (ast.get_docstring(node) or ""):
                long.add(name)
    assert long == LONG_DOCSTRINGS, sorted(long ^ LONG_DOCSTRINGS)
