"""The library's sentences in the words of the command line: options instead of Python's arguments and calls."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Collection

import click

OPTIONS = {"n_jobs": "--threads", "tree": "--tree"}  # of parameters that options of other names set

_ATOM = r"(?:'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|True|False|None|[A-Z]\b|…|\.\.\.)"
_VALUE = rf"(?:{_ATOM}|\((?:{_ATOM},? ?)*\)|\[(?:{_ATOM},? ?)*\])"
_ARGUMENT = rf"[a-z_]\w*={_VALUE}"
_CALL = r"[A-Za-z_][\w.]*\([^()]*\)"
_BEGIN, _END = r"(?<![\w'\"./=-])", r"(?![\w'\"/=(]|\.\w)"
# What names both, as in "force=True (--force)".
_BOTH = re.compile(rf"{_BEGIN}(?:{_ARGUMENT}|{_CALL}|[a-z]+_\w+) \((--[a-z](?:[^()]|\([^()]*\))*)\)")
_SETTER = re.compile(rf"\bset_params\(({_ARGUMENT})\)")
_PARAMETER = re.compile(r"\bThe '(\w+)' parameter(?! of [A-Z])(?: of \w+)?")
_WORD = re.compile(
    rf"--[\w-]+[ =]{_ARGUMENT}|--set[\w-]* \w+|"
    rf"{_BEGIN}(?:(?P<name>[a-z_]\w*)=(?P<value>{_VALUE})|(?P<bare>[a-z]+_\w+)){_END}"
)


def in_options(sentence: str, command: click.Command | None, names: Collection[str] = ()) -> str:
    """A sentence of the library as one who typed ``command`` reads it. ``rows=(X, Y)`` becomes ``--rows TRAIN`` where
    the command has that option, and any other argument a setting, as ``--set keep_rows=true``. ``names`` are those of
    files, which stay as they are."""
    known = [] if command is None else [one for one in command.params if isinstance(one, click.Option)]
    options = {_of_python(one): one for one in known} | {one.name: one for one in known}

    def of_parameter(found: re.Match[str]) -> str:
        return options[found[1]].opts[0] if found[1] in options else found[0]

    def of_word(found: re.Match[str]) -> str:
        bare, name, value = found["bare"], found["name"], found["value"]
        if found[0] in names or not (bare or name):
            return found[0]
        if bare:
            return options[bare].opts[0] if bare in options else found[0]
        if name in options:
            return _option(options[name], value)
        return f"{OPTIONS[name]} {_typed(value)}" if name in OPTIONS else f"--set {name}={_typed(value)}"

    sentence = _SETTER.sub(r"\1", _BOTH.sub(r"\1", sentence))
    sentence = sentence.replace("must be True or False.", "must be true or false.")
    return _WORD.sub(of_word, _PARAMETER.sub(of_parameter, sentence))


def _of_python(option: click.Option) -> str:
    return option.opts[0].lstrip("-").replace("-", "_")


def _option(option: click.Option, value: str) -> str:
    """An option as it is typed for an argument's value; what it takes, where the value is a name of Python's."""
    name = option.opts[0]
    if option.is_flag:
        no = (*option.secondary_opts, f"no {name}")[0]
        return no if value == "False" else name
    typed = _typed(value)
    unknown = typed == value and value[0] in "(….["
    return f"{name} {option.metavar or 'VALUE'}" if unknown else f"{name} {typed}"


def _typed(value: str) -> str:
    """A value as it is typed after ``--set``; as it stands, where it isn't a literal."""
    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    if literal is ... or (isinstance(literal, int | float) and not isinstance(literal, bool)):
        return value
    if isinstance(literal, tuple | list):
        return ",".join(map(str, literal))
    return shlex.quote(literal) if isinstance(literal, str) else str(literal).lower()
