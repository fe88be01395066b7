"""``sylvan completion SHELL``: verbs, options, files and parameter names on the Tab key."""

from __future__ import annotations

import os
import sys
from functools import partial

import click
from click.shell_completion import CompletionItem, get_completion_class

from sylvan.cli.options import completions, describe_parameters
from sylvan.cli.session import BAD_USAGE, COMPLETE, LazyGroup

_START = {
    "bash": 'eval "$(sylvan completion bash)"      # in ~/.bashrc',
    "zsh": 'eval "$(sylvan completion zsh)"       # in ~/.zshrc',
    "fish": "sylvan completion fish | source       # in ~/.config/fish/config.fish",
}
_FOLDERS = {"DIR", "INDEX", "MODEL", "FOLDER", "CANDIDATE", "LIVE"}
_FILES = {"BASE", "QUERIES", "TRAIN", "TEST", "INPUT", "[INPUT]...", "IN", "OUT", "FILE", "Y.npz", "Z.npz"}


@click.command("completion")
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
    LazyGroup.completed = staticmethod(_complete_values)
    click.echo(completer(cli, {}, "sylvan", COMPLETE).complete())
    return 0


def _complete_values(command: click.Command) -> None:
    """Let the values of a command's options and arguments be completed: files, folders, names of parameters."""
    owners = getattr(command, "owners", {})

    def complete(parameter: click.Parameter, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if parameter.opts[0] in owners:
            return completions(describe_parameters(owners[parameter.opts[0]]), incomplete)
        return [CompletionItem(incomplete, type="dir" if parameter.metavar in _FOLDERS else "file")]

    for parameter in command.params:  # the shell itself lists files and folders better than anybody
        if parameter.metavar in _FOLDERS or parameter.metavar in _FILES or parameter.opts[0] in owners:
            setattr(parameter, "shell_complete", partial(complete, parameter))  # noqa: B010  # of the instance alone
