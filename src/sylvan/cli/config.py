"""``--config file.toml``: a command line in a file; ``--print-config`` writes one with comments."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from sylvan.cli.options import made, part_class, settable_parameters
from sylvan.errors import DataError
from sylvan.params import Parameterized
from sylvan.ranges import toml_value

__all__ = ["Config", "commented", "config_of", "config_option"]

TABLES = {
    "options": "what the command line takes after two dashes",
    "parameters": "parameters of the model, as --set takes them",
    "text": "parameters of the text vectorizer, as --set-text takes them",
}
_KEY = "sylvan.cli.config"
# Options that a file has another place for, or that make no sense in it.
_ELSEWHERE = {"config", "print_config", "settings", "text_settings", "help", "debug"}
# Options that are parameters too: they are printed among those.
_AMONG_PARAMETERS = {
    "seed", "ngrams", "analyzer", "min_df", "max_df", "max_features", "sublinear_tf", "stem", "lemmatize",
}  # fmt: skip
_WIDTH = 110


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


def commented(
    ctx: click.Context, owner: type[Parameterized], parameters: Mapping[str, Any], text: Mapping[str, Any]
) -> str:
    """The whole configuration of ``ctx``'s command, with what was set set and the rest at its default. Parameters of
    the model's parts that weren't set are remarks: another preset may have others than those shown."""
    from sylvan.models.text import usual_vectorizer

    whole, vectorizer = made(owner, parameters), usual_vectorizer(**text)
    if part_class(owner, "vectorizer") is not None:
        vectorizer = whole.part("vectorizer").set_params(**text)
    lines = [
        f"# Configuration of '{ctx.command_path}', for --config. A line that begins with '#' is a remark, or an option "
        "that is not set.",
        "",
        f"[options]  # {TABLES['options']}",
        *_option_lines(ctx),
        f"[parameters]  # of {owner.__name__}, as --set takes them",
        *_parameter_lines(whole, parameters),
        f"[text]  # of {type(vectorizer).__name__}, as --set-text takes them; for text alone",
        *_parameter_lines(vectorizer, text),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _option_lines(ctx: click.Context) -> Iterator[str]:
    for name, parameter in _settable(ctx.command).items():
        if parameter.name in _AMONG_PARAMETERS:
            continue
        value = ctx.params.get(str(parameter.name))
        note = getattr(parameter, "help", None) or "What to learn from; as the first word on the command line."
        yield from _remark(note)
        given = ctx.get_parameter_source(str(parameter.name)) in (
            click.core.ParameterSource.COMMANDLINE,
            click.core.ParameterSource.DEFAULT_MAP,
        )
        if given:
            yield f"{name} = {toml_value(value)}"
        else:
            yield f"# {name} = {toml_value(_example(parameter, value))}"
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


def _parameter_lines(whole: Parameterized, given: Mapping[str, Any]) -> Iterator[str]:
    for name, default, constraint in settable_parameters(type(whole)):
        outer, _, inner = name.rpartition("__")
        if outer == "vectorizer":
            continue  # which is [text]
        owner = whole.part(outer) if outer else whole
        value = getattr(owner, inner)
        words = f"{constraint.describe()}; {value if outer else default!r} by default"
        yield from _remark(_parameter_notes(type(owner)).get(inner, ""))
        yield from _remark(words.replace("'", '"'))
        if outer and name not in given:
            yield f"# {name} = {toml_value(value)}"
        else:
            yield f"{name} = {toml_value(value)}" if value is not None else f'# {name} = "none"'
        yield ""


def _parameter_notes(owner: type) -> dict[str, str]:
    """What a class's docstring says of each parameter, on one line; "" where it says nothing."""
    match = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n---|\Z)", inspect.getdoc(owner) or "", re.M | re.S)
    notes: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", match.group(1).strip("\n")) if match else []:
        head, _, rest = entry.partition("\n")
        meaning = " ".join(rest.split()).replace("``", "")
        for name in head.partition(" : ")[0].split(","):
            notes[name.strip()] = meaning
    return notes


def _remark(words: str) -> Iterator[str]:
    for line in textwrap.wrap(" ".join(words.split()), _WIDTH):
        yield f"# {line}"
