"""``sylvan pull``: a model of the Hugging Face Hub, into its cache or a folder."""

from __future__ import annotations

import click

from sylvan.cli.options import shared_options


@click.command("pull", short_help="Bring a model from the Hugging Face Hub.")
@click.argument("repository", metavar="OWNER/NAME[@REVISION]")
@click.argument("folder", metavar="[FOLDER]", required=False)
@click.option("--revision", metavar="NAME", help="Branch, tag or commit. [default: the main branch]")
@shared_options
def command(repository: str, folder: str | None, revision: str | None, quiet: bool, threads: int | None) -> None:
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
    from sylvan.cli.report import size_words
    from sylvan.models.encoders.saved_encoder import encoder_extra
    from sylvan.remote.repository import source_of

    place = hub.pull(repository, folder, revision=revision)
    click.echo(place)
    if quiet:
        return
    state, size = store.load(place), sum(store.files_of(place).values())
    source, extra = source_of(place, state.meta), encoder_extra(state)
    if source is not None:
        click.echo(f"Pulled {source.repository}, commit {source.revision} ({size_words(size)}).", err=True)
    if extra is not None:
        click.echo(f'Its text encoder needs PyTorch: pip install "sylvan[{extra}]".', err=True)
