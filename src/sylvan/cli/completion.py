"""``sylvan completion SHELL``: verbs, options, files and parameter names on the Tab key; the base of all groups."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem, get_completion_class

from sylvan.cli.options import describe_parameters
from sylvan.cli.session import BAD_USAGE, COMPLETE

__all__ = ["LazyGroup", "answer", "command"]

_START = {
    "bash": 'eval "$(sylvan completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(sylvan completion zsh)"       # in ~/.zshrc',
    "fish": "sylvan completion fish | source       # in ~/.config/fish/config.fish",
}
_FOLDERS = {"DIR", "INDEX", "MODEL", "FOLDER"}
_FILES = {"BASE", "QUERIES", "TRAIN", "TEST", "INPUT", "IN", "OUT", "FILE", "Y.npz", "Z.npz"}


class LazyGroup(click.Group):
    """Commands that are made when they are used, so that the help of the group is quick."""

    title: ClassVar[str]  # of the section that lists them
    lines: ClassVar[Mapping[str, str]]  # what each does, by name

    def make(self, name: str) -> click.Command:
        """The command of that name."""
        raise NotImplementedError

    def owners(self, name: str) -> dict[str, type]:
        """The classes whose parameters the values of its options name, by option."""
        return {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lines:
            return None
        command = self.make(cmd_name)
        if ctx.resilient_parsing:  # a shell asks what may follow
            _complete_values(command, self.owners(cmd_name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self.title):
            formatter.write_dl(list(self.lines.items()))


@click.command("completion", short_help="Print the shell completion script.")
@click.argument("shell", metavar="SHELL", type=click.Choice(tuple(_START)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL (bash, zsh or fish) complete commands, options, files and parameters.

    \b
    Examples:
      eval "$(sylvan completion bash)"      # in ~/.bashrc
      eval "$(sylvan completion zsh)"       # in ~/.zshrc
      sylvan completion fish | source       # in ~/.config/fish/config.fish
    """
    completer = get_completion_class(shell)
    assert completer is not None
    click.echo(f"# {_START[shell]}")
    click.echo(completer(ctx.find_root().command, {}, "sylvan", COMPLETE).source())


def answer(cli: click.Group) -> int:
    """What a shell's script asks for by setting :data:`COMPLETE`; the exit code."""
    shell, _, instruction = os.environ[COMPLETE].partition("_")
    completer = get_completion_class(shell)
    if completer is None or instruction != "complete":
        print(f"Error: {COMPLETE} must be SHELL_complete for {', '.join(_START)}.", file=sys.stderr)
        return BAD_USAGE
    click.echo(completer(cli, {}, "sylvan", COMPLETE).complete())
    return 0


def _complete_values(command: click.Command, owners: dict[str, type] | None = None) -> None:
    """Let the values of a command's options and arguments be completed: files, folders, names of parameters."""
    for parameter in command.params:
        metavar = str(parameter.metavar or "")
        completer: Callable[[click.Context, str], list[CompletionItem]] | None = None
        if metavar in _FOLDERS:
            completer = _of_kind("dir")
        elif metavar in _FILES:
            completer = _of_kind("file")
        elif owners and parameter.name in owners:
            completer = _of_parameters(owners[parameter.name])
        if completer is not None:
            setattr(parameter, "shell_complete", completer)  # noqa: B010  # a method of the instance alone


def _of_kind(kind: str) -> Callable[[click.Context, str], list[CompletionItem]]:
    """The shell itself lists files and folders better than anybody."""
    return lambda ctx, incomplete: [CompletionItem(incomplete, type=kind)]


def _of_parameters(owner: Any) -> Callable[[click.Context, str], list[CompletionItem]]:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = ((words.partition("=")[0] + "=", allowed) for words, allowed in describe_parameters(owner))
        return [CompletionItem(name, help=allowed) for name, allowed in named if name.startswith(incomplete)]

    return complete
