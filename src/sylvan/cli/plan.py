"""``sylvan plan MODEL``: what a training would take, before it is begun."""

from __future__ import annotations

import click

from sylvan.cli.app import BAD_USAGE
from sylvan.cli.train import Models

__all__ = ["command"]


class _Plans(Models):
    planning = True


@click.group("plan", cls=_Plans, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Say how long a training would take, how much memory, and how large the model would be.

    \b
    Example:
      sylvan plan xr-linear train.jsonl --threads 2
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(BAD_USAGE)
