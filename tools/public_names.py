"""What is public: the names that each public module lists, each where it is first listed, and the members of classes.

The site's reference is made of these (docs/conf.py), and tests/docs checks that each is documented.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import sylvan
from sylvan import data, distributed, errors, hub, importers, indexing, metrics, neural, sampling, serve, tasks, text

__all__ = ["MODULES", "by_module", "members", "public_names"]

MODULES = (
    sylvan, data, text, indexing, metrics, importers, sampling, neural, tasks, serve, distributed, hub, errors,
)  # fmt: skip
# What every estimator has, described once; what only the package itself calls.
INNER = {
    "check_params", "constraints", "from_state", "get_extra_state", "parameter_names", "set_extra_state", "to_state",
}  # fmt: skip
BASES = (sampling.Sampler, sampling.ClassLoss, neural.Job, neural.SequenceEncoder)  # described by themselves


def public_names() -> Iterator[tuple[str, Any]]:
    """Every public name with its module, each object once."""
    seen: set[int] = set()
    for module in MODULES:
        for word in module.__all__:
            value = getattr(module, word)
            if isinstance(value, (ModuleType, str)) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{module.__name__}.{word}", value


def by_module() -> dict[str, list[str]]:
    """The names of each module, without it."""
    found: dict[str, list[str]] = {module.__name__: [] for module in MODULES}
    for full, _ in public_names():
        module, _, word = full.rpartition(".")
        found[module].append(word)
    return found


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
