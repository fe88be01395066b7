"""``sylvan ensemble``: saved models joined into one that answers with all of them."""

from __future__ import annotations

from typing import Any

import click

from sylvan.cli.options import input_options
from sylvan.cli.session import quietly, say
from sylvan.errors import DataError
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import METHODS
from sylvan.ranking.ensemble import WAYS


@click.command("ensemble")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--model", "target", required=True, metavar="FOLDER", help="Where to save the ensemble.")
@click.option("--weights", metavar="W,W,...", help="A weight for each model; equal ones by default.")
@click.option("--fit-weights", "holdout", metavar="FILE",
              help="Choose the weights on rows not used for training, and calibrate on them.")  # fmt: skip
@click.option("--calibrate", "calibrated_on", metavar="FILE",
              help="Fit the probabilities to rows not used for training; weights stay.")  # fmt: skip
@click.option("--calibration", type=click.Choice(METHODS), default="isotonic", show_default=True,
              help="The kind of curves from scores to probabilities.")  # fmt: skip
@click.option("--how", type=click.Choice(WAYS), default="score", show_default=True,
              help="By mean score, votes, mean place, or mean of 1 / place.")  # fmt: skip
@input_options
def command(models: tuple[str, ...], target: str, holdout: str | None, **flags: Any) -> None:
    """Combine the models in the folders MODEL into an ensemble; nothing is trained.

    All take text, or all take matrices of the same features. With --calibrate or --fit-weights its scores become
    probabilities, which predict --proba and its rules (--threshold, --expected, --precision) use: give rows that no
    model was trained on, or they will be too high. 'sylvan train ensemble' trains models together and holds such rows
    out itself.

    \b
    Examples:
      sylvan ensemble runs/words runs/pairs --model runs/both --fit-weights dev.jsonl
      sylvan ensemble runs/a runs/b --model runs/both --weights 0.9,0.1 --calibrate dev.jsonl
      sylvan predict runs/both test.jsonl --threshold 0.4
    """
    from sylvan.cli.models import TRAINED_ON, load_model, save_state, training_files, training_name
    from sylvan.models.ensembles.ensemble import Ensemble

    weights, calibrated_on = flags["weights"], flags["calibrated_on"]
    if weights is not None and holdout is not None:
        raise click.UsageError("--weights and --fit-weights exclude each other.")
    if flags["labels"] is not None and holdout is not None and calibrated_on is not None:
        raise click.UsageError(
            "--labels is for one file: give either --fit-weights, which also calibrates, or --calibrate."
        )
    loaded = [load_model(folder, (), flags["threads"]) for folder in models]
    options = {"how": flags["how"], "n_jobs": flags["threads"], "calibration": flags["calibration"]}
    try:
        numbers = None if weights is None else [float(word) for word in weights.split(",")]
    except ValueError:
        words = f"--weights takes numbers with commas between them. Got {weights!r} instead."
        raise click.UsageError(words) from None
    joined = Ensemble.of_fitted(loaded, numbers, **options)
    for path in filter(None, (holdout, calibrated_on)):
        if words := ", ".join(folder for folder in models if training_name(folder, path) is not None):
            say(flags, f"Warning: {words} learned from {path}: what is fitted to it says nothing of others.", err=True)
    with quietly(flags):
        if holdout is not None:
            joined.fit_weights(*_labelled(joined, holdout, flags))
        if calibrated_on is not None:
            joined.calibrate(*_labelled(joined, calibrated_on, flags))
    state = joined.to_state()
    state.meta[TRAINED_ON] = training_files(models, [holdout, calibrated_on])
    replaced = save_state(target, state)
    words = ", ".join(f"{name} {weight:.3g}" for name, weight in zip(models, joined.weights_, strict=True))
    say(flags, f"Joined {counted(len(models), 'model')} in {target}; weights: {words}.{replaced}", err=True)
    path = calibrated_on or holdout
    if joined.calibrator_ is not None:
        words = f"calibrated on {path}."
    elif path is not None:
        words = f"not calibrated: {path} gives too few right or wrong answers (30 of each)."
    else:
        words = "not calibrated: --calibrate FILE does it, with rows not used for training."
    say(flags, f"Its probabilities are {words}", err=True)


def _labelled(joined: Any, path: str, flags: dict[str, Any]) -> tuple[Any, Any]:
    """The rows of a file and their labels, as the ensemble takes them."""
    import scipy.sparse as sp

    from sylvan.cli.io.inputs import TextInput
    from sylvan.cli.models import input_for

    source = input_for(joined, "the ensemble", path, flags)
    if isinstance(source, TextInput):
        blocks = list(source.blocks(True))
        return [text for block, _ in blocks for text in block], [row for _, labels in blocks for row in labels or ()]
    from sylvan.cli.io.matrices import widened

    apart = source.read_labels()
    X, Y = (list(side) for side in zip(*source.blocks(joined.n_features_), strict=True))
    if apart is not None:
        return sp.vstack(X, "csr"), apart
    if any(rows is None for rows in Y):
        raise DataError(f"{source.name} is {source.words} without labels: give them with --labels Y.npz.")
    return sp.vstack(X, "csr"), sp.vstack([widened(rows, max(block.shape[1] for block in Y)) for rows in Y], "csr")
