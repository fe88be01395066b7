"""``--print-config``: every option and parameter of a command as a commented TOML file."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import click

from sylvan.cli.config import TABLES, settable
from sylvan.params import Instance, Jobs, Parameterized

__all__ = ["commented", "parameter_notes"]

_WIDTH = 110
# Options that are parameters too: they stand among those.
_PARAMETERS = {"seed", "ngrams", "analyzer", "min_df", "max_df", "max_features", "sublinear_tf"}


def commented(
    ctx: click.Context, owner: type[Parameterized], parameters: Mapping[str, Any],
    text_owner: type[Parameterized], text: Mapping[str, Any],
) -> str:  # fmt: skip
    """The whole configuration of ``ctx``'s command, with what was set set and the rest at its default."""
    lines = [
        f"# Configuration of '{ctx.command_path}', for --config. A line that begins with '#' is a remark, or an option "
        "that is not set.",
        "",
        f"[options]  # {TABLES['options']}",
        *_options(ctx),
        f"[parameters]  # of {owner.__name__}, as --set takes them",
        *_parameters(owner, parameters),
        f"[text]  # of {text_owner.__name__}, as --set-text takes them; for text alone",
        *_parameters(text_owner, text),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _options(ctx: click.Context) -> Iterator[str]:
    for name, parameter in settable(ctx.command).items():
        if parameter.name in _PARAMETERS:
            continue
        value = ctx.params.get(str(parameter.name))
        note = getattr(parameter, "help", None) or "What to learn from; as the first word on the command line."
        yield from _remark(note)
        given = ctx.get_parameter_source(str(parameter.name)) in (
            click.core.ParameterSource.COMMANDLINE,
            click.core.ParameterSource.DEFAULT_MAP,
        )
        if given:
            yield f"{name} = {_toml(value)}"
        else:
            yield f"# {name} = {_toml(_example(parameter, value))}"
        yield ""


def _example(parameter: click.Parameter, value: Any) -> Any:
    """What stands in the line of an option that isn't set."""
    if value not in (None, ()):
        return value
    if isinstance(parameter.type, click.types.IntParamType):
        return 1
    word = str(parameter.metavar or getattr(parameter.type, "choices", ("",))[0])
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return False
    return [word] if parameter.multiple else word


def _parameters(owner: type[Parameterized], values: Mapping[str, Any]) -> Iterator[str]:
    notes = parameter_notes(owner)
    for name, parameter in inspect.signature(owner.__init__).parameters.items():
        constraint = owner.constraints.get(name)
        if constraint is None or isinstance(constraint, Instance | Jobs):
            continue
        value = values.get(name, parameter.default)
        yield from _remark(notes.get(name, ""))
        yield from _remark(f"{constraint.describe()}; {parameter.default!r} by default".replace("'", '"'))
        yield f"{name} = {_toml(value)}" if value is not None else f'# {name} = "none"'
        yield ""


def parameter_notes(owner: type) -> dict[str, str]:
    """What a class's docstring says of each parameter, on one line; "" where it says nothing."""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", inspect.getdoc(owner) or "", re.M | re.S)
    notes: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", found.group(1).strip("\n")) if found else []:
        head, _, rest = entry.partition("\n")
        meaning = " ".join(rest.split()).replace("``", "")
        for name in head.partition(" : ")[0].split(","):
            notes[name.strip()] = meaning
    return notes


def _remark(words: str) -> Iterator[str]:
    for line in textwrap.wrap(" ".join(words.split()), _WIDTH):
        yield f"# {line}"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)
