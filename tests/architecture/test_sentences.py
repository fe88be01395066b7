"""The sentences of errors and warnings are in ``tests/sentences.txt``, not in tests: a better one is one changed line.

After a change of sentences run ``python tests/architecture/test_sentences.py``, which writes that file, and read what
it changed. ``{}`` stands for what a sentence fills in, ``{a|b}`` for pieces of which it takes one.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from house import modules

SNAPSHOT = Path(__file__).parents[1] / "sentences.txt"
FAULTS = ("Error", "Warning", "Problem", "MissingParameter", "BadParameter")  # what classes' names end with


def pieces(node: ast.AST, local: dict[str, list[ast.expr]]) -> list[str]:
    """What a text may be, with ``{}`` for what its sources don't say; empty if it isn't known to be a text."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return pieces(node.body, local) + pieces(node.orelse, local)
    if isinstance(node, ast.Name):
        others = {name: values for name, values in local.items() if name != node.id}
        return [text for value in local.get(node.id, ()) for text in pieces(value, others)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = pieces(node.left, local), pieces(node.right, local)
        return [_choice(left) + _choice(right)] if left or right else []
    if isinstance(node, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.FormattedValue) else each for each in node.values)
        return ["".join(_choice(pieces(each, local)) for each in parts)]
    return []


def _choice(texts: list[str]) -> str:
    different = list(dict.fromkeys(texts))
    return different[0] if len(different) == 1 else f"{{{'|'.join(different)}}}"


def made_by(functions: dict[str, str], call: ast.Call) -> str:
    """The class of the error or warning that a call makes; empty if it makes none."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "warn" and len(call.args) > 1:
        name = ast.unparse(call.args[1]).rpartition(".")[2]
    return name if name.endswith(FAULTS) else functions.get(name, "")


def makers() -> dict[str, str]:
    """Functions that make errors, by what they say to return; and those that warn."""
    found = {"warn_data": "DataWarning"}
    for module in modules().values():
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef) and node.returns is not None:
                name = ast.unparse(node.returns).strip("\"'").rpartition(".")[2]
                if name.endswith(FAULTS):
                    found[node.name] = name
    return found


def scopes(node: ast.AST) -> Iterator[list[ast.AST]]:
    """The nodes of a file that are in no function, and those of each function without its inner ones."""
    inside, todo = list[ast.AST](), [node]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from scopes(child)
            else:
                inside.append(child)
                todo.append(child)
    yield inside


def sentences() -> Iterator[str]:
    """The class and the text of every error and warning that the sources make."""
    functions = makers()
    for nodes in (scope for module in modules().values() for scope in scopes(module.tree)):
        local: dict[str, list[ast.expr]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                local.setdefault(node.targets[0].id, []).append(node.value)
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            name = made_by(functions, call)
            for argument in [*call.args, *(each.value for each in call.keywords)] if name else ():
                yield from (f"{name}: {text}".replace("\n", "\\n") for text in pieces(argument, local) if " " in text)


def written() -> str:
    return "".join(f"{line}\n" for line in sorted(set(sentences())))


def test_every_sentence_is_as_it_was_read() -> None:
    changed = set(written().splitlines()) ^ set(SNAPSHOT.read_text("utf-8").splitlines())
    assert not changed, "run python tests/architecture/test_sentences.py, and read what it changes"


if __name__ == "__main__":
    SNAPSHOT.write_text(written(), "utf-8")
