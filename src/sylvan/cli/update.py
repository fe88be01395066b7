"""``sylvan update``: labels of a saved model renamed and removed, without training; and undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sylvan.cli.options import shared_options

if TYPE_CHECKING:
    from sylvan.models.base import Estimator

__all__ = ["command"]


@click.command("update", short_help="Rename or remove labels of a saved model.")
@click.argument("model", metavar="MODEL")
@click.option("--rename", "renames", multiple=True, metavar="OLD=NEW", help="Give a label another name.")
@click.option("--remove", metavar="FILE", help="Labels that are never to be answered again, one per line: names, or "
              "the ids of a model over matrices (- for stdin).")  # fmt: skip
@click.option("--keep", type=click.IntRange(0, 1000), default=1, show_default=True, metavar="N",
              help="Earlier versions that stay in the folder, for --undo.")  # fmt: skip
@click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--undo", is_flag=True, help="Go back to the version before the last update.")
@shared_options
def command(
    model: str, renames: tuple[str, ...], remove: str | None, keep: int, only_plan: bool, undo: bool, quiet: bool,
    threads: int | None,
) -> None:  # fmt: skip
    """Change the labels of the model in the folder MODEL, in one step.

    Nothing is trained. Ids and scores of all other labels stay. What the model has learned of a removed label is gone
    from its files once no earlier version is kept (--keep 0). Processes that use the model go on with the version that
    they have loaded.

    \b
    Examples:
      sylvan update runs/m --rename "Whaling=Whale hunting" --remove retired.txt
      sylvan update runs/m --remove retired.txt --plan
      sylvan update runs/m --undo
    """
    from sylvan import store

    if undo and (renames or remove is not None or only_plan):
        raise click.UsageError("--undo goes alone: it changes nothing but the version.")
    if not (undo or renames or remove is not None):
        raise click.UsageError("there is nothing to do: give --rename, --remove or --undo.")
    store.contents(model)  # says that there is no model, where there is none to lock
    with store.updating(model):
        if undo:
            n_left = store.undo(model, keep)
            said = f"Went back to the version before; {n_left} earlier {'is' if n_left == 1 else 'are'} left."
        else:
            said = _changed(model, renames, remove, threads, None if only_plan else keep)
    if only_plan:
        click.echo(said)
    elif not quiet:
        click.echo(said, err=True)


def _changed(model: str, renames: tuple[str, ...], remove: str | None, threads: int | None, keep: int | None) -> str:
    """Change the labels and save, where ``keep`` is given; what was done, in words."""
    from sylvan import store
    from sylvan.cli.io.label_lists import read_labels
    from sylvan.cli.saved import load_model
    from sylvan.cli.shown.history import HISTORY, history_of, noted, words_of

    history = history_of(store.load(model))
    loaded = load_model(model, (), threads)
    changed, counts = loaded, {"renamed": 0, "removed": 0}
    if remove is not None:
        gone = read_labels(remove, loaded)
        changed, counts["removed"] = changed.without_labels(gone), len(set(gone))
    if renames:
        names = _read_renames(renames, loaded)
        changed, counts["renamed"] = changed.with_label_names(names), len(names)
    if keep is None:
        return f"Would update {model}: {words_of(counts)}."
    state = changed.to_state()
    state.meta[HISTORY] = noted(history, counts)
    store.save(model, state, keep=keep)
    return f"Updated {model}: {words_of(counts)}."


def _read_renames(words: tuple[str, ...], model: Estimator) -> dict[str, str]:
    """What ``OLD=NEW`` says; where names hold signs themselves, the first that ends a label's name divides them."""
    from sylvan.errors import ParameterError

    names: dict[str, str] = {}
    known = model.vocabulary_
    for word in words:
        places = [at for at, sign in enumerate(word) if sign == "="]
        at = next((at for at in places if known is not None and word[:at] in known), places[0] if places else -1)
        if at < 1 or at == len(word) - 1:
            raise ParameterError(f"--rename takes OLD=NEW, the name of a label and its new name. Got {word!r} instead.")
        if word[:at] in names:
            raise ParameterError(f"--rename gives {word[:at]!r} twice.")
        names[word[:at]] = word[at + 1 :]
    return names
