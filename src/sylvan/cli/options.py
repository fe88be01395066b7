"""Options that several verbs share, and ``--set name=value`` against the declared constraints."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from sylvan.cli.app import Session
from sylvan.cli.formats import FORMATS
from sylvan.errors import ParameterError
from sylvan.params import Instance, Jobs, Parameterized

__all__ = ["cutoffs", "describe_parameters", "input_options", "parse_settings", "shared_options"]

_MOST = 10_000  # cut-off of a metric
# Parameters that have an option of their own.
_OPTIONS = {"n_jobs": "--threads", "tree": "--tree"}
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _remember_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    session = ctx.find_object(Session)
    if value and session is not None:
        session.debug = True


def shared_options(command: _Command) -> _Command:
    """``--threads``, ``--quiet`` and ``--debug``."""
    for option in (
        click.option("--debug", is_flag=True, expose_value=False, callback=_remember_debug, hidden=True),
        click.option("--quiet", "-q", is_flag=True, help="No progress bars and no summary."),
        click.option(
            "--threads",
            type=click.IntRange(min=1),
            metavar="N",
            help="Number of threads; every core this process may use by default.",
        ),
    ):
        command = option(command)
    return command


def input_options(command: _Command) -> _Command:
    """How an input file is to be read: its format, its fields and where its labels are."""
    for option in (
        click.option(
            "--first-feature",
            type=click.Choice(("0", "1")),
            help="Number of the first feature in svmlight; found out by default.",
        ),
        click.option(
            "--weighted-labels",
            is_flag=True,
            default=None,
            help="Labels of XMC text or svmlight are written as label:weight.",
        ),
        click.option("--labels", metavar="Y.npz", help="Labels of a matrix whose file holds none (CSR .npz)."),
        click.option("--labels-field", metavar="NAME", help="JSONL field of labels. [default: labels, or the model's]"),
        click.option(
            "--text-field",
            "text_fields",
            multiple=True,
            metavar="NAME",
            help="JSONL field of text; give it again to join several. [default: text, or the model's]",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(tuple(FORMATS)),
            help="Format of the input; guessed from its name and its content by default.",
        ),
    ):
        command = option(command)
    return command


def parse_settings(owner: type[Parameterized], settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """The parameters of ``owner`` that the words ``name=value`` give.

    Parameters
    ----------
    owner : type
        The class whose ``constraints`` say how a value is written and what is allowed.
    settings : sequence of str
        As typed after ``--set``.
    option : str
        What to call the option in an error.

    Raises
    ------
    ParameterError
        For an unknown name (with the known ones), a value of the wrong form and one out of its range.

    Examples
    --------
    >>> from sylvan.cli.options import parse_settings
    >>> from sylvan import XRLinear
    >>> parse_settings(XRLinear, ["beam=20"])
    {'beam': 20}
    """
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise ParameterError(f"{option} takes name=value. Got {setting!r} instead.")
        if name in values:
            raise ParameterError(f"{option} gives {name!r} twice.")
        values[name] = _parse(owner, name, text.strip())
    return values


def _parse(owner: type[Parameterized], name: str, text: str) -> Any:
    known = owner.parameter_names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(
            f"{owner.__name__} has no parameter {name!r}.{guess} Its parameters are: {', '.join(known)}."
        )
    constraint = owner.constraints.get(name)
    if constraint is None or isinstance(constraint, Instance | Jobs):
        way = f"by {_OPTIONS[name]}" if name in _OPTIONS else "from Python alone"
        raise ParameterError(f"The {name!r} parameter of {owner.__name__} is set {way}.")
    try:
        value = constraint.parse(text)
        allowed = (value is None and constraint.optional) or (value is not None and constraint.accepts(value))
        shown: Any = value
    except ValueError:
        allowed, shown = False, text
    if not allowed:
        raise ParameterError(
            f"The {name!r} parameter of {owner.__name__} must be {constraint.describe()}. Got {shown!r} instead."
        )
    return value


def describe_parameters(owner: type[Parameterized]) -> list[tuple[str, str]]:
    """Name and allowed range of every parameter that the command line can set, for ``--help``."""
    lines = []
    for name, parameter in inspect.signature(owner.__init__).parameters.items():
        constraint = owner.constraints.get(name)
        if constraint is None or isinstance(constraint, Instance | Jobs):
            continue
        lines.append((f"{name}={parameter.default}", constraint.describe()))
    return lines


def cutoffs(_: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[int, ...]:
    """A click callback: ``-k 1,3,5`` and ``-k 1 -k 3`` as sorted ints."""
    found: set[int] = set()
    for word in ",".join(value).split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= _MOST:
            raise click.BadParameter(f"must be ints in [1, {_MOST}], as in 1,3,5. Got {word!r} instead.")
        found.add(int(word))
    return tuple(sorted(found))
