"""``--config file.toml``: a command line in a file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from sylvan.errors import DataError

TABLES = {
    "options": "what the command line takes after two dashes",
    "parameters": "parameters of the model, as --set takes them",
    "text": "parameters of the text vectorizer, as --set-text takes them",
}
_KEY = "sylvan.cli.config"
# Options that a file has another place for, or that make no sense in it.
_ELSEWHERE = {"config", "settings", "text_settings", "help", "debug"}


@dataclass
class Config:
    """What a configuration file holds, and what is wrong with it, a sentence a fault."""

    path: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def config_option(command: Any) -> Any:
    """``--config FILE``, read before every other option, which are its to preset."""
    return click.option(
        "--config", metavar="FILE", is_eager=True, expose_value=False, callback=_preset,
        help="Options and parameters from a TOML file; the command line overrides it.",
    )(command)  # fmt: skip


def config_of(ctx: click.Context) -> Config:
    """The configuration that the command was given; an empty one when it was given none."""
    result = ctx.meta.get(_KEY)
    return result if isinstance(result, Config) else Config()


def _option_name(parameter: click.Parameter) -> str:
    """What an option or argument is called in a file: as on the command line, without dashes."""
    if isinstance(parameter, click.Argument):
        return (parameter.metavar or parameter.name or "").lower()
    return max(parameter.opts, key=len).lstrip("-")


def _settable(command: click.Command) -> dict[str, click.Parameter]:
    """The options and arguments of a command that a file can hold, by name."""
    return {_option_name(p): p for p in command.params if p.name not in _ELSEWHERE}


def _preset(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    tables = _read(path)
    config = Config(path)
    for name, table in tables.items():
        if name not in TABLES:
            allowed = "; ".join(f"[{known}], {words}" for known, words in TABLES.items())
            config.problems.append(f"{path} has no use for {name!r}.{_guess(name, TABLES)} It takes {allowed}.")
        elif not isinstance(table, Mapping):
            config.problems.append(f"{path}: {name!r} must be a table of names and values. Got {table!r:.60} instead.")
    config.parameters = _named(tables.get("parameters"))
    config.text = _named(tables.get("text"))
    ctx.default_map = {**(ctx.default_map or {}), **_options(ctx, config, _named(tables.get("options")))}
    ctx.meta[_KEY] = config


def _named(table: Any) -> dict[str, Any]:
    """A table whose names are written with underscores, those of a table in it as ``ranker__beam``; else nothing."""
    values: dict[str, Any] = {}
    for name, value in table.items() if isinstance(table, Mapping) else ():
        plain = str(name).replace("-", "_")
        inner = _named(value) if isinstance(value, Mapping) else {}
        values |= {f"{plain}__{at}": one for at, one in inner.items()} if isinstance(value, Mapping) else {plain: value}
    return values


def _options(ctx: click.Context, config: Config, table: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's options by click's names; those that it can't take become problems."""
    known = {name.replace("-", "_"): parameter for name, parameter in _settable(ctx.command).items()}
    values: dict[str, Any] = {}
    for name, value in table.items():
        parameter = known.get(name)
        if parameter is None:
            config.problems.append(
                f"'{ctx.command_path}' has no option {name.replace('_', '-')!r}, which {config.path} names."
                f"{_guess(name.replace('_', '-'), _settable(ctx.command))}"
            )
            continue
        if parameter.multiple and not isinstance(value, list):
            value = [value]
        try:
            parameter.type_cast_value(ctx, value)
        except click.BadParameter as error:
            config.problems.append(f"{config.path}: {name.replace('_', '-')!r}: {error.message}")
            continue
        except TypeError:
            config.problems.append(f"{config.path}: {name.replace('_', '-')!r} can't be {value!r:.60}.")
            continue
        values[str(parameter.name)] = value
    return values


def _guess(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _read(path: str) -> dict[str, Any]:
    """The file's tables."""
    if not path.lower().endswith(".toml"):
        raise DataError(f"--config takes a .toml file. Got {path!r} instead.")
    if not os.path.isfile(path):
        raise DataError(f"There is no file {path!r} to read options from.")
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    with open(path, "rb") as stream:
        try:
            tables: dict[str, Any] = tomllib.load(stream)
        except ValueError as error:  # so is bad UTF-8
            raise DataError(f"{path} is not TOML: {' '.join(str(error).split())}.") from error
    return tables
