"""The package as its sources say it is: which file imports which, and which private names it takes of others."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sylvan

SOURCE = Path(sylvan.__file__).parent

# From the ground up; a package may import those below it and, where that makes no circle, those of its own layer.
LAYERS: list[list[str]] = [
    ["version", "errors", "lazy"],
    ["_native"],
    ["kernels", "parallel", "params"],
    ["arrays"],
    ["store"],
    ["runtime", "weights", "labels"],
    ["metrics", "data"],
    ["remote"],
    ["text"],
    ["indexing"],
    ["matching"],
    ["ranking"],
    ["explain"],
    ["sampling", "neural"],
    ["models"],
    ["hub", "tasks"],
    ["importers", "distributed", "tune", "serve", "annif"],
    ["cli"],
    ["__main__"],
]
LAYER = {name: height for height, names in enumerate(LAYERS) for name in names}

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Private names that don't belong to a module of Sylvan: of named tuples, of the standard library, PyTorch and Annif;
# and of scikit-learn, whose boosted trees can't be read by any other.
FOREIGN_PRIVATES = {
    "_asdict", "_replace", "_exit", "_version", "_indices", "_values", "_backend_fns", "_baseline_prediction",
    "_predictors",
}  # fmt: skip


@dataclass
class Module:
    """One file: its name with dots, its text and tree, what it imports, and the members of its classes."""

    path: Path
    name: str
    text: str
    tree: ast.Module
    nodes: list[ast.AST]  # all of the tree
    imports: set[str] = field(default_factory=set)  # of this package, in functions and under TYPE_CHECKING too
    names: dict[str, str] = field(default_factory=dict)  # a name in this file: where it comes from, with dots
    members: set[str] = field(default_factory=set)

    @property
    def where(self) -> str:
        """The path inside the package, as a reader writes it."""
        return self.path.relative_to(SOURCE).as_posix()

    @property
    def package(self) -> str:
        """The package or module straight under ``sylvan``; empty for ``sylvan`` itself."""
        return self.name.partition(".")[2].partition(".")[0]

    @property
    def room(self) -> str:
        """What a reader sees of the file's package: the folder inside it, or else the file."""
        parts = self.name.split(".")
        return ".".join(parts[:3]) if len(parts) > 3 else self.name


def name_of(path: Path) -> str:
    parts = list(path.relative_to(SOURCE.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    assert len(found) > 10
    return found


@contextmanager
def collected_later() -> Iterator[None]:
    """Millions of nodes that stay are made: looking for what could be thrown away takes longer than they do."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
@collected_later()
def modules() -> Mapping[str, Module]:
    """Every module of the package by its name."""
    result = {}
    for path in files():
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        result[name_of(path)] = Module(path, name_of(path), text, tree, list(ast.walk(tree)))
    known = {*result, "sylvan._native"}
    for module in result.values():
        _read_imports(module, known)
        module.members = set(_members(module))
    return result


def _read_imports(module: Module, known: set[str]) -> None:
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert alias.name != "sylvan", f"{module.where} imports the package's face"
                if alias.name.split(".")[0] == "sylvan":
                    module.imports.add(alias.name)
                    module.names[alias.asname or "sylvan"] = alias.name if alias.asname else "sylvan"
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.where} imports relatively"
            for alias in node.names if (node.module or "").split(".")[0] == "sylvan" else ():
                whole = f"{node.module}.{alias.name}"
                module.imports.add(whole if whole in known else str(node.module))
                module.names[alias.asname or alias.name] = whole
        elif isinstance(node, ast.Call) and _is_import_by_name(node):
            module.imports.add(ast.literal_eval(node.args[0]))


def _is_import_by_name(node: ast.AST) -> bool:
    """Whether it is ``import_module("sylvan...")``, which imports as a statement does."""
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
        return False
    called = ast.unparse(node.func).rpartition(".")[2]
    return called == "import_module" and str(node.args[0].value).startswith("sylvan.")


def _members(module: Module) -> Iterator[str]:
    """Names that the classes of a file give a value to: methods, fields, attributes of ``self``."""
    for node in module.nodes:
        for one in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield one.name
            for target in one.targets if isinstance(one, ast.Assign) else (getattr(one, "target", None),):
                if isinstance(target, ast.Name):
                    yield target.id
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
            yield node.attr


def _is_own(value: ast.AST) -> bool:
    """Whether it is ``self``, ``cls``, ``super()`` or ``type(self)``."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("super", "type"):
        return all(_is_own(argument) for argument in value.args)
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def edges(level: str) -> dict[str, set[str]]:
    """Who imports whom: ``"file"``, ``"room"`` (a folder inside a package, or else a file) or ``"package"``."""
    known = modules()
    result: dict[str, set[str]] = {}
    for module in known.values():
        for name in module.imports:
            target = known.get(name)
            ends = [module.name, name]
            if level == "room":
                ends = [module.room, target.room if target else name]
            elif level == "package":
                ends = [module.package, target.package if target else name.partition(".")[2]]
            if ends[0] != ends[1]:
                result.setdefault(ends[0], set()).add(ends[1])
    return result


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The sets of nodes that reach one another, each sorted."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = set(graph.get(todo.pop(), ())) - seen
            seen |= new
            todo += new
        return seen

    reach = {node: reached(node) for node in graph}
    tied = {node: sorted(other for other in reach[node] if node in reach.get(other, ())) for node in graph}
    return sorted({tuple(names): names for names in tied.values() if names}.values())


def _inherited(module: Module) -> set[str]:
    """Members of the ancestors of a file's classes: a class may use what it inherits, of any object."""
    known = modules()
    result: set[str] = set()
    for node in module.nodes:
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            base = base.value if isinstance(base, ast.Subscript) else base
            place, _, _ = module.names.get(ast.unparse(base), "").rpartition(".")
            if place in known and place != module.name:
                result |= known[place].members | _inherited(known[place])
    return result


def foreign_privates(module: Module) -> set[str]:
    """Private names that a file takes of other folders: imported, or asked of an object whose class isn't there."""
    folder = [other for other in modules().values() if other.path.parent == module.path.parent != SOURCE] or [module]
    allowed = set().union(*(other.members for other in folder)) | _inherited(module) | FOREIGN_PRIVATES
    names = {other.name for other in folder}
    result = set()
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sylvan":
            if node.module not in names:
                result |= {alias.name for alias in node.names if _is_private(alias.name) and alias.name != "_native"}
        elif isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_own(node.value):
            of_module = isinstance(node.value, ast.Name) and module.names.get(node.value.id) in modules()
            result |= {node.attr} - (FOREIGN_PRIVATES if of_module else allowed)
    return result


def code_lines(module: Module) -> int:
    """The lines of a file that hold code: no blank ones, no comments, no docstrings."""
    lines = {at for at, line in enumerate(module.text.splitlines(), 1) if line.strip() and line.lstrip()[0] != "#"}
    documented = set[int]()
    for node in module.nodes:
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        elif isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno != node.lineno:
            lines |= set(range(node.lineno, (node.end_lineno or 0) + 1))  # whatever stands in a string of several lines
    return len(lines - documented)


def own_bases(module: Module, name: str) -> list[str]:
    """The classes of the package, with dots, that a class lists as its bases; type variables' brackets don't count."""
    (node,) = (node for node in module.tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    found = []
    for base in node.bases:
        word = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        head, _, rest = word.partition(".")
        whole = module.names.get(head, f"{module.name}.{head}") + (f".{rest}" if rest else "")
        place, _, word = (whole := _where_defined(whole)).rpartition(".")
        body = modules()[place].tree.body if place in modules() else []
        if any(isinstance(node, ast.ClassDef) and node.name == word for node in body):
            found.append(whole)
    return found


def _where_defined(name: str) -> str:
    """A class that a package's face passes on, by where it is written."""
    place, _, word = name.rpartition(".")
    passed_on = modules()[place].names.get(word) if place in modules() else None
    return name if passed_on is None or passed_on == name else _where_defined(passed_on)


@functools.cache
def classes() -> Mapping[str, list[str]]:
    """Every class at the top of a file, with dots, and its bases in the package."""
    return {
        f"{module.name}.{node.name}": own_bases(module, node.name)
        for module in modules().values()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }


def ancestors(name: str) -> set[str]:
    """The package's own classes above a class."""
    known = classes()
    return {above for base in known.get(name, ()) for above in {base, *ancestors(base)}}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
