"""Parameters are declared once, as fields; what a class's docstring says of them agrees with the fields."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from typing import Any

import pytest
from house import SOURCE

from sylvan.params import Parameterized

_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.DOTALL | re.MULTILINE)


def declared() -> list[type[Parameterized]]:
    """Every class whose fields are its parameters and whose docstring describes them."""
    classes = {}
    for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "sylvan."):
        if "_native" in name or name.endswith("__main__") or name.startswith("sylvan.annif"):  # which needs Annif
            continue
        for thing in vars(importlib.import_module(name)).values():
            own = inspect.isclass(thing) and issubclass(thing, Parameterized) and thing.__module__ == name
            if own and hasattr(thing.__init__, "of_fields") and _SECTION.search(inspect.cleandoc(thing.__doc__ or "")):
                classes[f"{name}.{thing.__qualname__}"] = thing
    return list(classes.values())


def documented(kind: type[Parameterized]) -> dict[str, str]:
    """The parameters that the docstring names, each with what stands behind the colon."""
    found = _SECTION.search(inspect.cleandoc(kind.__doc__ or ""))
    assert found is not None
    entries = {}
    for line in found[1].splitlines():
        if line and not line[0].isspace():
            names, _, words = line.partition(" : ")
            entries.update(dict.fromkeys(map(str.strip, names.split(",")), words))
    return entries


@pytest.mark.parametrize("kind", declared(), ids=lambda kind: kind.__name__)
def test_docstrings_agree_with_fields(kind: type[Parameterized]) -> None:
    """The same names, and the same default wherever the docstring states one."""
    entries = documented(kind)
    assert sorted(entries) == sorted(kind.parameter_names())
    for name, words in entries.items():
        stated = re.search(r"\bdefault (.+)$", words)
        if stated is not None:
            default = inspect.signature(kind.__init__).parameters[name].default
            said = [_value(word) for word in stated[1].split(" and ")]  # "a, b : int, default 4 and 8"
            assert default in said, f"{kind.__name__}.{name}: the docstring says {stated[1]}, the field {default!r}"


def _value(word: str) -> Any:
    return ast.literal_eval(re.sub(r"(?<=\d),(?=\d{3})", "", word.strip()))
