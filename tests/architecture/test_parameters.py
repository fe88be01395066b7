"""Parameters are declared once, as fields; what a class's docstring says of them agrees with the fields."""

import ast
import importlib
import inspect
import pkgutil
import re
import typing
from typing import Any

import pytest
from house import SOURCE

from sylvan.matching.beam import Combine  # has rules with numbers too
from sylvan.params.fields import Choice, Parameterized

_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", re.DOTALL | re.MULTILINE)


def classes() -> list[type[Parameterized]]:
    """Every class whose fields are its parameters."""
    found = {}
    for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "sylvan."):
        if "_native" in name or name.endswith("__main__") or name.startswith("sylvan.annif"):  # which needs Annif
            continue
        for thing in vars(importlib.import_module(name)).values():
            own = inspect.isclass(thing) and issubclass(thing, Parameterized) and thing.__module__ == name
            if own and hasattr(thing.__init__, "of_fields"):
                found[f"{name}.{thing.__qualname__}"] = thing
    return list(found.values())


def declared() -> list[type[Parameterized]]:
    """Those whose docstring describes the parameters."""
    return [each for each in classes() if _SECTION.search(inspect.cleandoc(each.__doc__ or ""))]


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


BASES = {base for kind in classes() for base in kind.__bases__}


@pytest.mark.parametrize("kind", declared(), ids=lambda kind: kind.__name__)
def test_docstrings_agree_with_fields(kind: type[Parameterized]) -> None:
    """The same names, of a base those that its subclasses share, and the same default wherever one is stated."""
    entries = documented(kind)
    assert set(entries) == set(kind.parameter_names()) or (set(entries) < set(kind.parameter_names()) and kind in BASES)
    for name, words in entries.items():
        stated = re.search(r"\bdefault (.+)$", words)
        if stated is not None:
            default = inspect.signature(kind.__init__).parameters[name].default
            said = [_value(word) for word in stated[1].split(" and ")]  # "a, b : int, default 4 and 8"
            assert default in said, f"{kind.__name__}.{name}: the docstring says {stated[1]}, the field {default!r}"


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_choices_are_literals(kind: type[Parameterized]) -> None:
    """A parameter that is one of a few words says so in its type; languages are codes that come from elsewhere."""
    for name, written in inspect.get_annotations(kind).items():
        range_ = kind.constraints.get(name) if name in kind.parameter_names() else None
        if isinstance(range_, Choice) and not isinstance(range_, Combine) and name not in ("stem", "lemmatize"):
            assert not re.search(r"\bstr\b", _evaluated(kind, written)), f"{kind.__name__}.{name}: write Literal[...]"


def _evaluated(kind: type, written: str) -> str:
    """A type as it is without the names by which it is written."""
    holder = type("Holder", (), {"__annotations__": {"name": written}, "__module__": kind.__module__})
    (hint,) = typing.get_type_hints(holder).values()
    return str(hint)


def _value(word: str) -> Any:
    return ast.literal_eval(re.sub(r"(?<=\d),(?=\d{3})", "", word.strip()))
