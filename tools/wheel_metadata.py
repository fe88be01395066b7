"""The dependencies of a wheel, for scikit-build-core, which finds this module by pyproject.toml.

The kernels need nanobind's library when they run. On most platforms it is a package of its own, and then one wheel of
CPython's stable ABI serves every version of Python. Elsewhere it is linked into the kernels, and the wheel is for one
version and requires nothing more: on free-threaded CPython before 3.15, which has no stable ABI, and where the
environment variable SYLVAN_LINKED is 1. CMakeLists.txt and pyproject.toml decide alike.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

FALSE = {"", "0", "n", "no", "off", "false", "f"}  # as scikit-build-core reads a variable


def linked() -> bool:
    """Whether nanobind's library becomes a part of the kernels that are built here."""
    by_hand = os.environ.get("SYLVAN_LINKED", "").lower() not in FALSE
    return by_hand or (bool(sysconfig.get_config_var("Py_GIL_DISABLED")) and sys.version_info < (3, 15))


def backend(settings: Mapping[str, Any]) -> list[str]:
    """The package of nanobind's library, where one is needed."""
    return [] if linked() else [settings["backend"]]


def dynamic_metadata(settings: Mapping[str, Any], _project: Mapping[str, Any]) -> dict[str, list[str]]:
    """What a wheel that is built here requires."""
    return {"dependencies": [*settings["dependencies"], *backend(settings)]}


def get_requires_for_dynamic_metadata(settings: Mapping[str, Any]) -> list[str]:
    """What a build requires besides: the types of the kernels are read from the built module."""
    return backend(settings)


def dynamic_wheel(_settings: Mapping[str, Any]) -> dict[str, bool]:
    """The fields whose values a source distribution doesn't know."""
    return {"dependencies": True}
