"""``sylvan ensemble``: saved models joined into one that answers with all of them."""

from __future__ import annotations

from typing import Any

import click

from sylvan.cli.options import input_options, shared_options
from sylvan.ranking.ensemble import WAYS

__all__ = ["command"]


@click.command("ensemble", short_help="Combine saved models into an ensemble.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--model", "target", required=True, metavar="FOLDER", help="Where to save the ensemble.")
@click.option("--weights", metavar="W,W,...", help="A weight for each model; equal ones by default.")
@click.option("--fit-weights", "holdout", metavar="FILE", help="Choose the weights on rows not used for training.")
@click.option("--how", type=click.Choice(WAYS), default="score", show_default=True,
              help="By mean score, votes, mean place, or mean of 1 / place.")  # fmt: skip
@input_options
@shared_options
def command(
    models: tuple[str, ...], target: str, weights: str | None, holdout: str | None, how: str, **given: Any
) -> None:
    """Combine the models in the folders MODEL into an ensemble; nothing is trained.

    All take text, or all take matrices of the same features.

    \b
    Examples:
      sylvan ensemble runs/words runs/pairs --model runs/both --fit-weights dev.jsonl
      sylvan ensemble runs/a runs/b --model runs/both --weights 0.9,0.1
    """
    from sylvan.cli.saved import load_model
    from sylvan.models.ensembles.ensemble import Ensemble

    if weights is not None and holdout is not None:
        raise click.UsageError("--weights and --fit-weights exclude each other.")
    loaded = [load_model(folder, (), given["threads"]) for folder in models]
    joined = Ensemble.of_fitted(loaded, _numbers(weights), how=how, n_jobs=given["threads"])
    if holdout is not None:
        _fit_weights(joined, holdout, given)
    joined.save(target)
    if not given["quiet"]:
        shown = ", ".join(f"{name} {weight:.3g}" for name, weight in zip(models, joined.weights_, strict=True))
        click.echo(f"Joined {len(models)} models in {target}; weights: {shown}.", err=True)


def _numbers(weights: str | None) -> list[float] | None:
    if weights is None:
        return None
    try:
        return [float(word) for word in weights.split(",")]
    except ValueError:
        raise click.UsageError(f"--weights takes numbers with commas between them. Got {weights!r} instead.") from None


def _fit_weights(joined: Any, path: str, given: dict[str, Any]) -> None:
    """Choose the weights for the labelled rows of a file."""
    import scipy.sparse as sp

    from sylvan.cli.io.inputs import TextInput
    from sylvan.cli.saved import input_for
    from sylvan.parallel import quiet

    source = input_for(joined, "the ensemble", path, given)
    with quiet(given["quiet"]):
        if isinstance(source, TextInput):
            blocks = list(source.blocks(True))
            texts = [text for block, _ in blocks for text in block]
            joined.fit_weights(texts, [row for _, labels in blocks for row in labels or ()])
        else:
            pairs = list(source.blocks(joined.n_features_))
            if any(Y is None for _, Y in pairs):
                raise click.UsageError(f"{path} has no labels to fit weights to; name them with --labels.")
            X, Y = (list(side) for side in zip(*pairs, strict=True))
            joined.fit_weights(sp.vstack(X, "csr"), sp.vstack(Y, "csr"))
