"""A plugin for pytest that fails a run in which a kernel isn't called with every kind of argument that it takes.

``tools/sanitize`` chooses a part of the tests and loads this, so that a kernel, an overload or an option that no test
of that part reaches is named. The kinds are those of the kernels' signatures: None and a value, True and False, and
each type of an array's elements.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sylvan import kernels

Kind = tuple[str, str, str]  # a kernel, its parameter, and what it is given

_CALLED: set[Kind] = set()
_PARAMETER = re.compile(r"(\w+): (.*?)(?=, \w+: |\) ->)")


def signatures() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each overload of every function, constructor and method: its name, and its parameters with their types."""
    for name, thing in vars(kernels).items():
        members = vars(thing).items() if isinstance(thing, type) else ()
        functions = [(f"{name}.{member}", function) for member, function in members] or [(name, thing)]
        for full_name, function in functions:
            for signature, *_ in getattr(function, "__nb_signature__", ()):
                yield full_name, _PARAMETER.findall(signature)


def demanded() -> set[Kind]:
    """Every kind of argument that a kernel's signatures allow."""
    kinds: set[Kind] = set()
    for kernel, parameters in signatures():
        kinds.add((kernel, "", "called"))
        for name, annotation in parameters:
            if "| None" in annotation:
                kinds |= {(kernel, name, "None"), (kernel, name, "a value")}
            if annotation == "bool":
                kinds |= {(kernel, name, "True"), (kernel, name, "False")}
            kinds |= {(kernel, name, dtype) for dtype in re.findall(r"^ndarray\[dtype=(\w+)", annotation)}
    return kinds


def kinds_of(value: object) -> tuple[str, ...]:
    """What an argument is, in the words of ``demanded``."""
    if value is None or isinstance(value, bool):
        return (str(value),)
    if isinstance(value, np.ndarray):
        return "a value", str(value.dtype)
    return ("a value",)


def watched(kernel: str, names: list[str], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which then notes the kinds of its arguments."""

    @functools.wraps(function)
    def call(*arguments: object, **named: object) -> Any:
        _CALLED.add((kernel, "", "called"))
        given = {**dict.fromkeys(names), **dict(zip(names, arguments, strict=False)), **named}  # None, if left out
        _CALLED.update((kernel, name, kind) for name, value in given.items() for kind in kinds_of(value))
        return function(*arguments, **named)

    return call


DEMANDED = demanded()  # before the kernels are replaced by functions without such signatures


def watch() -> None:
    """Have every kernel's calls noted from now on."""
    names_of = {kernel: [name for name, _ in parameters] for kernel, parameters in signatures()}
    for name, thing in list(vars(kernels).items()):
        if name in names_of:
            setattr(kernels, name, watched(name, names_of[name], thing))
        elif isinstance(thing, type):
            for member, function in list(vars(thing).items()):
                full_name = f"{name}.{member}"
                if full_name in names_of and member != "__init__":
                    setattr(thing, member, watched(full_name, ["self", *names_of[full_name]], function))
            # A kernel's class is constructed without its __init__ being looked up, a class derived from it isn't.
            constructor = watched(f"{name}.__init__", ["self", *names_of[f"{name}.__init__"]], thing.__init__)
            setattr(kernels, name, type(name, (thing,), {"__init__": constructor}))


def pytest_configure() -> None:
    watch()


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)  # of one of pytest-xdist's processes, for the first one
    if output is not None:
        output["kernel_calls"] = sorted(_CALLED)
    elif DEMANDED - _CALLED and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node: Any) -> None:
    _CALLED.update(map(tuple, getattr(node, "workeroutput", {}).get("kernel_calls", ())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing: dict[str, list[str]] = defaultdict(list)
    for kernel, parameter, kind in sorted(DEMANDED - _CALLED):
        missing[kernel].append(f"{parameter}: {kind}" if parameter else kind)
    for kernel, kinds in missing.items():
        terminalreporter.write_line(
            f"no test of this run reaches {kernel}" + ("" if "called" in kinds else f" with {', '.join(kinds)}")
        )
