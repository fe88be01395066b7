"""``sylvan push``: a saved model to the Hugging Face Hub."""

from __future__ import annotations

import sys

import click

from sylvan.cli.options import shared_options


@click.command("push", short_help="Push a saved model to the Hugging Face Hub.")
@click.argument("model", metavar="MODEL")
@click.argument("repository", metavar="OWNER/NAME")
@click.option("--revision", metavar="BRANCH", help="Branch to push to; made if it isn't there. [default: the main one]")
@click.option("--private", is_flag=True, default=None, help="A new repository is private; a public one is refused.")
@click.option("--license", "license_", metavar="NAME", help="License of the model, as the Hub calls it (apache-2.0).")
@click.option("--message", metavar="TEXT", help="Message of the commit.")
@shared_options
def command(
    model: str,
    repository: str,
    revision: str | None,
    private: bool | None,
    license_: str | None,
    message: str | None,
    quiet: bool,
    threads: int | None,
) -> None:
    """Push the model in the folder MODEL to the repository OWNER/NAME, which is created if it doesn't exist.

    The model is verified. Its files and its card are pushed, as README.md, and nothing else that lies in the folder. A
    README.md of your own is pushed instead of the card. The token is that of HF_TOKEN or of 'hf auth login'.

    Needs the extra 'hub'.

    \b
    Examples:
      sylvan push runs/m someone/books --license apache-2.0
      sylvan push runs/m someone/books --revision v2 --private
    """
    from sylvan import hub
    from sylvan.hub.push import license_of
    from sylvan.remote.client import need_library
    from sylvan.remote.repository import Repository
    from sylvan.store import contents

    need_library()
    Repository.parse(repository, revision)
    contents(model)  # says that there is no model before anything is asked
    if license_ is None and license_of(model) is None:
        license_ = _ask(quiet)
    pushed = hub.push(model, repository, revision=revision, private=private, license=license_, message=message)
    click.echo(pushed.url)
    if not quiet:
        click.echo(f"Pushed {model} to {pushed.repository}, commit {pushed.revision}.", err=True)


def _ask(quiet: bool) -> str | None:
    """The license, where somebody is there to answer."""
    if sys.stdin is not None and sys.stdin.isatty() and not quiet:
        words = "License of the model, as the Hub calls it, such as apache-2.0 (nothing for none)"
        return str(click.prompt(words, default="", show_default=False, err=True)).strip() or None
    if not quiet:
        click.echo("The card names no license: give one with --license.", err=True)
    return None
