"""``sylvan push`` and ``sylvan pull``: saved models to the Hugging Face Hub, and from there."""

from __future__ import annotations

import sys
from typing import Any

import click

from sylvan.cli.options import shared_options
from sylvan.cli.session import say
from sylvan.params.wording import size_words


@click.command("push")
@click.argument("model", metavar="MODEL")
@click.argument("repository", metavar="OWNER/NAME")
@click.option("--revision", metavar="BRANCH", help="Branch to push to; made if it isn't there. [default: the main one]")
@click.option("--private", is_flag=True, default=None, help="A new repository is private; a public one is refused.")
@click.option("--license", "license_", metavar="NAME", help="License of the model, as the Hub calls it (apache-2.0).")
@click.option("--message", metavar="TEXT", help="Message of the commit.")
@shared_options
def push_command(model: str, repository: str, revision: str | None, license_: str | None, **flags: Any) -> None:
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
    from sylvan.remote.client import Repository, need_library
    from sylvan.store import contents

    need_library()
    Repository.parse(repository, revision)
    contents(model)  # says that there is no model before anything is asked
    if license_ is None and license_of(model) is None:
        if sys.stdin is not None and sys.stdin.isatty() and not flags["quiet"]:
            words = "License of the model, as the Hub calls it, such as apache-2.0 (nothing for none)"
            license_ = str(click.prompt(words, default="", show_default=False, err=True)).strip() or None
        else:
            say(flags, "The card names no license: give one with --license.", err=True)
    options = {"private": flags["private"], "license": license_, "message": flags["message"]}
    pushed = hub.push(model, repository, revision=revision, **options)
    click.echo(pushed.url)
    say(flags, f"Pushed {model} to {pushed.repository}, commit {pushed.revision}.", err=True)


@click.command("pull")
@click.argument("repository", metavar="OWNER/NAME[@REVISION]")
@click.argument("folder", metavar="[FOLDER]", required=False)
@click.option("--revision", metavar="NAME", help="Branch, tag or commit. [default: the main branch]")
@shared_options
def pull_command(repository: str, folder: str | None, revision: str | None, quiet: bool, threads: int | None) -> None:
    """Bring the model of the repository OWNER/NAME to this machine and verify it: into FOLDER, or without one into the
    Hub's cache. Prints the folder in which the model is.

    Only the files that the model's manifest names are downloaded, and nothing in them is run or unpickled. 'sylvan
    inspect' shows which commit a pulled model is. Where the Hub can't be reached, a model in the cache is taken.

    Needs the extra 'hub'.

    \b
    Examples:
      sylvan pull someone/books runs/books
      sylvan pull someone/books@v1.0
    """
    from sylvan import hub, store
    from sylvan.models.encoders import encoder_extra, words_of_extra
    from sylvan.remote.client import source_of

    place = hub.pull(repository, folder, revision=revision)
    click.echo(place)
    if quiet:
        return
    state, size = store.load(place), sum(store.files_of(place).values())
    source, extra = source_of(place, state.meta), encoder_extra(state)
    if source is not None:
        click.echo(f"Pulled {source.repository}, commit {source.revision} ({size_words(size)}).", err=True)
    if extra is not None:
        click.echo(words_of_extra(extra), err=True)
