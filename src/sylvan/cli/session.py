"""What all verbs share: exit codes, what is known of the command that runs, and warnings in sentences."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import click

from sylvan.cli.spoken import in_options
from sylvan.params.wording import did_you_mean

COMPLETE = "_SYLVAN_COMPLETE"  # what a shell's script sets when it asks for completions
BAD_USAGE, FAILURE, INTERRUPTED = 2, 1, 1
_SAID = "sylvan.cli.said"  # the sentences that the running command has written
# Sylvan's own warnings, by name, as their modules are heavy to load.
_SPOKEN = {
    "TextsWarning": "Note", "RowsUnknownWarning": "Note", "HarmfulOptimizerWarning": "Warning",
    "StaleSamplerWarning": "Warning", "OtherReleaseWarning": "Warning",
    "CheckpointWarning": "Warning", "DataWarning": "Warning",
}  # fmt: skip


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
    """Commands that are made when they are used, so that the help of the group is quick."""

    title: ClassVar[str]  # of the section that lists them
    lines: ClassVar[Mapping[str, str]]  # what each does, by name
    # What makes a command's values complete, set where a shell asks for it.
    completed: ClassVar[Callable[[click.Command, dict[str, type]], None]] = staticmethod(lambda command, owners: None)

    def make(self, name: str) -> click.Command:
        """The command of that name."""
        raise NotImplementedError

    def owners(self, name: str) -> dict[str, type]:
        """The classes whose parameters the values of its options name, by option."""
        return {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with the command that may have been meant by an unknown name."""
        if args and args[0] not in self.lines and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. {did_you_mean(args[0], self.lines)}")
        name, command, rest = super().resolve_command(ctx, args)
        Session.of(ctx).command = command
        return name, command, rest

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            return None
        command = self.make(cmd_name)
        if ctx.resilient_parsing:  # a shell asks what may follow
            LazyGroup.completed(command, self.owners(cmd_name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self.title):
            formatter.write_dl(list(self.lines.items()))


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
        shown = warnings.showwarning

        def say(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if category.__name__ in _SPOKEN:
                ctx = click.get_current_context(silent=True)
                sentence = str(message) if ctx is None else Session.of(ctx).spoken(str(message))
                click.echo(f"{_SPOKEN[category.__name__]}: {sentence}", err=True)
            else:
                shown(message, category, *rest, **more)

        warnings.showwarning = say
        yield
