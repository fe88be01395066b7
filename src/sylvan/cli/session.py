"""What all verbs share: exit codes, the command that runs, and the library's sentences in the words of its options."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import click

from sylvan.errors import DataError
from sylvan.parallel import quiet
from sylvan.params.wording import did_you_mean, size_words

OPTIONS = {"n_jobs": "--threads", "tree": "--tree"}  # of parameters that options of other names set
_ATOM = r"(?:'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|True|False|None|[A-Z]\b|…|\.\.\.)"
_VALUE = rf"(?:{_ATOM}|\((?:{_ATOM},? ?)*\)|\[(?:{_ATOM},? ?)*\])"
_ARGUMENT = rf"[a-z_]\w*={_VALUE}"
_CALL = r"[A-Za-z_][\w.]*\([^()]*\)"
_BEGIN, _END = r"(?<![\w'\"./=-])", r"(?![\w'\"/=(]|\.\w)"
# What names both, as in "force=True (--force)".
_BOTH = re.compile(rf"{_BEGIN}(?:{_ARGUMENT}|{_CALL}|[a-z]+_\w+) \((--[a-z](?:[^()]|\([^()]*\))*)\)")
# What sets parameters: of a model that is there, or of one that is made.
_SETTER = re.compile(rf"\b(?:set_params|[A-Z]\w*)\(({_ARGUMENT}(?:, {_ARGUMENT})*)\)")
_PARAMETER = re.compile(r"\bThe '(\w+)' parameter(?! of [A-Z])(?: of \w+)?")
_WORD = re.compile(
    rf"--[\w-]+[ =]{_ARGUMENT}|--set[\w-]* \w+|"
    rf"{_BEGIN}(?:(?P<name>[a-z_]\w*)=(?P<value>{_VALUE})|(?P<bare>[a-z]+_\w+)){_END}"
)

COMPLETE = "_SYLVAN_COMPLETE"  # what a shell's script sets when it asks for completions
BAD_USAGE, FAILURE = 2, 1  # of a command that was interrupted, too
_SAID = "sylvan.cli.said"  # the sentences that the running command has written
# Sylvan's own warnings, by name, as their modules are heavy to load.
_SPOKEN = {
    "TextsWarning": "Note", "RowsUnknownWarning": "Note", "HarmfulOptimizerWarning": "Warning",
    "StaleSamplerWarning": "Warning", "OtherReleaseWarning": "Warning",
    "CheckpointWarning": "Warning", "DataWarning": "Warning",
}  # fmt: skip


def in_options(sentence: str, command: click.Command | None, names: Collection[str] = ()) -> str:
    """A sentence of the library as one who typed ``command`` reads it. ``rows=(X, Y)`` becomes ``--rows TRAIN`` where
    the command has that option, and any other argument a setting, as ``--set keep_rows=true``. ``names`` are those of
    files, which stay as they are."""
    taken = [each for each in ([] if command is None else command.params) if isinstance(each, click.Option)]
    options = {each.opts[0].lstrip("-").replace("-", "_"): each for each in taken} | {each.name: each for each in taken}

    def of_parameter(match: re.Match[str], group: str | int = 1) -> str:
        return options[match[group]].opts[0] if match[group] in options else match[0]

    def of_word(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if match[0] in names or not (match["bare"] or name):
            return match[0]
        if match["bare"]:
            return of_parameter(match, "bare")
        if name in options:
            return _option(options[name], value)
        return f"{OPTIONS[name]} {_typed(value)}" if name in OPTIONS else f"--set {name}={_typed(value)}"

    sentence = _SETTER.sub(r"\1", _BOTH.sub(r"\1", sentence))
    sentence = sentence.replace("must be True or False.", "must be true or false.")
    return _WORD.sub(of_word, _PARAMETER.sub(of_parameter, sentence))


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


@dataclass
class Session:
    """What the handling of errors has to know of the command that ran."""

    debug: bool = False
    words: Sequence[str] = ()  # as they were typed
    command: click.Command | None = None
    written: str | None = None  # what an interrupt has to say instead of "nothing was written"
    remains: Callable[[], str | None] = lambda: None  # what is there to go on from
    answers: Callable[[], bool] = lambda: False  # whether the command goes on after this Ctrl-C

    @staticmethod
    def of(ctx: click.Context) -> Session:
        """That of the running command; a new one where none was made."""
        return ctx.find_object(Session) or Session()

    def interrupted(self) -> str:
        """The sentence that follows Ctrl-C."""
        return f"Interrupted; {self.written or self.remains() or 'nothing was written'}."

    def spoken(self, sentence: str) -> str:
        """A sentence of the library in the options of the command."""
        before = ("", *self.words)
        names = {word for last, word in zip(before, self.words, strict=False) if not last.startswith("--set")}
        return in_options(sentence, self.command, names)


class LazyGroup(click.Group):
    """Commands that ``make`` makes when they are used, so that the help of the group is quick."""

    # What makes a command's values complete, set where a shell asks for it.
    completed: ClassVar[Callable[[click.Command], None]] = staticmethod(lambda command: None)

    def __init__(
        self, *args: Any, title: str, lines: Mapping[str, str], make: Callable[[str], click.Command],
        implied: Callable[[list[str], bool], str | None] = lambda words, is_lenient: None, **attributes: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **{**attributes, "invoke_without_command": True})
        self.title, self.lines, self.make = title, lines, make  # of the section that lists them; what each does
        self.implied = implied  # the command that words mean without naming one

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's, with the name of the command that is implied in front."""
        name = self.implied(args, ctx.resilient_parsing)
        return super().parse_args(ctx, args if name is None else [name, *args])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the command that may have been meant by an unknown name."""
        if args and args[0] not in self.lines and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. {did_you_mean(args[0], self.lines)}")
        name, command, arguments = super().resolve_command(ctx, args)
        Session.of(ctx).command = command
        return name, command, arguments

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            return None
        command = self.make(cmd_name)
        command.short_help = self.lines[cmd_name]
        if ctx.resilient_parsing:  # a shell asks what may follow
            LazyGroup.completed(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self.title):
            formatter.write_dl(list(self.lines.items()))


def folder_size(folder: str) -> str:
    """The size of the model in a folder in words, like ``20.9 MB``, without its earlier versions."""
    from sylvan.store import files_of, manifest

    return size_words(sum(files_of(folder).values()) + os.path.getsize(os.path.join(folder, manifest.NAME)))


def quietly(flags: Mapping[str, Any]) -> contextlib.AbstractContextManager[None]:
    """Without progress bars, where --quiet was given."""
    return quiet(flags["quiet"])


def say(flags: Mapping[str, Any], sentence: str, err: bool = False) -> None:
    """Write a sentence, unless --quiet was given."""
    if not flags["quiet"]:
        click.echo(sentence, err=err)


def write_text(path: str, text: str) -> None:
    """Write a file whole, or to stdout for "-"."""
    from sylvan.data.streams import open_write

    with open_write(path) as stream:
        stream.write(text.encode("utf-8", "replace"))


def keep_inputs(*outputs: str) -> None:
    """Refuse to write over a file that the running command reads, or writes as well; ``outputs`` are its parameters for
    what it writes."""
    params = click.get_current_context().params
    paths: dict[bool, list[str]] = {False: [], True: []}
    for name, value in params.items():
        values = value if isinstance(value, tuple) else (value,)
        paths[name in outputs] += [each for each in values if isinstance(each, str)]
    written = list(map(os.path.realpath, paths[True]))
    for path in paths[True]:
        read = filter(os.path.isfile, paths[False] if os.path.isfile(path) else [])
        if any(os.path.samefile(path, each) for each in read):
            raise DataError(f"{path} is read by this command, which would write over it: write another file.")
        if path != os.devnull and written.count(os.path.realpath(path)) > 1:
            raise DataError(f"{path} is named for two outputs of this command: name a file for each.")


def say_once(sentence: str, key: Any = None) -> None:
    """Write a sentence to stderr, if the running command hasn't written it (or another of the same key) before."""
    ctx = click.get_current_context(silent=True)
    said = set() if ctx is None else ctx.find_root().meta.setdefault(_SAID, set())
    if (key or sentence) not in said:
        said.add(key or sentence)
        click.echo(sentence, err=True)


def need_subcommand(ctx: click.Context) -> None:
    """Show the help of a group that was called without one of its commands, and leave."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(BAD_USAGE)


@contextlib.contextmanager
def spoken_warnings() -> Iterator[None]:
    """Sylvan's own warnings as sentences, without the line of code that Python shows."""
    with warnings.catch_warnings():
        original = warnings.showwarning

        def speak(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
            if category.__name__ in _SPOKEN:
                ctx = click.get_current_context(silent=True)
                sentence = str(message) if ctx is None else Session.of(ctx).spoken(str(message))
                click.echo(f"{_SPOKEN[category.__name__]}: {sentence}", err=True)
            else:
                original(message, category, *args, **kwargs)

        warnings.showwarning = speak
        yield
