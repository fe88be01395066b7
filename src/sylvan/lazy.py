"""Packages whose public names are loaded when they are first asked for."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

# What the package's face offers to code below it, by name: pushing a model, whose card has to know all kinds of models,
# and Annif's REST API, which is one of those that a server answers to.
provided: dict[str, Callable[..., Any]] = {}


def typed_names(package: str) -> dict[str, str]:
    """Each name that a package imports under ``if TYPE_CHECKING``, and the module that has it. The
    imports that type checkers read are thus the only table there is. A name that is imported from the package itself is
    a module of it. They are read from the compiled code, as a frozen application has no sources."""
    spec: Any = sys.modules[package].__spec__
    code = list(dis.get_instructions(spec.loader.get_code(package)))
    start = next(i for i, each in enumerate(code) if each.argval == "TYPE_CHECKING" and each.opname == "LOAD_NAME")
    end = next(each.argval for each in code[start:] if each.opname.startswith("POP_JUMP"))  # over the block
    block = [each for each in code[start:] if each.offset < end]
    return {
        name: each.argval
        for before, each in pairwise(block)
        if each.opname == "IMPORT_NAME"
        for name in before.argval  # what is imported from it
    }


def lazy_names(package: str, places: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package: each public name and the module that has it."""

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if places[name] == package:  # a module itself
            value = importlib.import_module(f"{package}.{name}")
        else:
            value = getattr(importlib.import_module(places[name]), name)
        vars(sys.modules[package])[name] = value
        return value

    def names() -> list[str]:  # for completion: without imports, and without modules that list no public names
        inside = vars(sys.modules[package])
        listed = (name for name in inside if hasattr(sys.modules.get(f"{package}.{name}"), "__all__"))
        return sorted({*places, *inside.get("__all__", ()), *listed, *(name for name in inside if name[:2] == "__")})

    return find, names


def need_extra(needs: str, extra: str, *modules: str, refusal: type[Exception] = ImportError) -> Any:
    """The last of the modules that an extra brings, all of them loaded; or how to get them. In ``needs``, a sentence
    without its full stop, braces stand for the name of what is missing."""
    try:
        return [importlib.import_module(module) for module in modules][-1]
    except ImportError as error:
        words = needs.format(error.name)
        raise refusal(f'{words}. Install it with: pip install "sylvan[{extra}]"') from error


def need_torch(package: str) -> None:
    """Load PyTorch, or say how to get it."""
    need_extra(f"{package} needs PyTorch", "neural", "torch")
