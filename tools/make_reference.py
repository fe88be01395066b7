#!/usr/bin/env python
"""Write a reference of all public names from their signatures and docstrings: tools/make_reference.py FILE.md.

The package has to be importable (PYTHONPATH=src in a working tree). No reference lies in the repository: it is built at
a release.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import sylvan
from sylvan import data, errors, importers, indexing, metrics, neural, sampling, tasks, text

HEAD = """# Reference

Written by `tools/make_reference.py` from the docstrings, which `help(name)` shows with their examples. `X` is a feature
matrix of shape (n, d), `Y` a label matrix of shape (n, L) or one of its other forms (see the guide on data).
Names that aren't here are not public, even where they have no underscore.
"""
MODULES = [
    (sylvan, "sylvan", "What most need. `sylvan.__version__` is the release as a string."),
    (data, "sylvan.data", None),
    (text, "sylvan.text", None),
    (indexing, "sylvan.indexing", None),
    (metrics, "sylvan.metrics", None),
    (importers, "sylvan.importers", None),
    (sampling, "sylvan.sampling", None),
    (neural, "sylvan.neural", None),
    (tasks, "sylvan.tasks", None),
    (errors, "sylvan.errors", None),
]
# What every estimator has, described once; what only the package itself calls.
INNER = {
    "check_params", "constraints", "from_state", "get_extra_state", "parameter_names", "set_extra_state", "to_state",
}  # fmt: skip
BASES = [sampling.Sampler, sampling.ClassLoss, neural.Job, neural.SequenceEncoder]  # described by themselves
SHOWN = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Notes", "References")


def signature(value: Any, name: str) -> str:
    """``name(parameters)`` without annotations, on one line."""
    found = inspect.signature(value)
    kept = [
        parameter.replace(annotation=parameter.empty)
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return f"{name}{found.replace(parameters=kept, return_annotation=found.empty)}"


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public name with its module, each object once."""
    seen: set[int] = set()
    for module, name, _ in MODULES:
        for word in module.__all__:
            value = getattr(module, word)
            if isinstance(value, (ModuleType, str)) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{name}.{word}", value


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class in the order of their names, without those that a base describes."""
    for name in sorted(dir(owner)):
        value = inspect.getattr_static(owner, name)
        if name.startswith("_") or name in INNER:
            continue
        if any(inspect.getattr_static(base, name, None) is value for base in BASES if base is not owner):
            continue
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        documented = inspect.isfunction(value) or isinstance(value, property)
        if documented and (value.__module__ if inspect.isfunction(value) else "sylvan").startswith("sylvan"):
            yield name, value


def sections(docstring: str) -> dict[str, str]:
    """The parts of a NumPy docstring; the text before the first has the empty name."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}$", docstring, flags=re.MULTILINE)
    return {"": parts[0].strip(), **dict(zip(parts[1::2], (part.strip("\n") for part in parts[2::2]), strict=True))}


def markdown(words: str) -> str:
    """Sphinx's roles and double backticks as Markdown."""
    words = re.sub(r":\w+:`~?\.?([^`]+)`", lambda found: f"`{found[1].rsplit('.', 1)[-1]}`", words)
    return words.replace("``", "`")


def items(body: str) -> Iterator[str]:
    """Name, type and meaning of each entry as a list."""
    for entry in re.split(r"\n(?=\S)", body.strip("\n")):
        head, _, rest = entry.partition("\n")
        name, colon, kind = head.partition(" : ")
        meaning = " ".join(line.strip() for line in rest.split("\n") if line.strip())
        title = f"`{name}`" + (f" ({kind})" if colon else "")
        yield f"- {title}{f': {meaning}' if meaning else ''}"


def described(value: Any) -> Iterator[str]:
    """A docstring as Markdown, without its examples."""
    parts = sections(inspect.getdoc(value) or "")
    yield markdown(parts[""])
    for title in SHOWN:
        body = parts.get(title)
        if not body:
            continue
        yield f"\n*{title}*\n"
        yield markdown(body if title in ("Notes", "References") else "\n".join(items(body)))


def entry(name: str, value: Any) -> Iterator[str]:
    """One public name."""
    short = name.rpartition(".")[2]
    yield f"\n### {name}\n"
    error = isinstance(value, type) and issubclass(value, Exception)
    if not error:
        yield f"`{signature(value, short)}`\n"
    yield from described(value)
    if isinstance(value, type) and not error:
        for inner, member in members(value):
            title = inner if isinstance(member, property) else signature(member, inner)
            yield f"\n#### {short}.{inner}\n"
            yield f"`{title}`\n"
            yield from described(member)


def document() -> str:
    """The whole file."""
    lines = [HEAD.rstrip("\n")]
    names = list(public_names())
    for module, name, words in MODULES:
        lines.append(f"\n## {name}\n\n{markdown(words or inspect.getdoc(module) or '')}")
        for full, value in names:
            if full.rpartition(".")[0] == name:
                lines.extend(entry(full, value))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("Usage: tools/make_reference.py FILE.md, where the reference is to be written")
    Path(sys.argv[1]).write_text(document(), "utf-8")
