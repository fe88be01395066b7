"""``sylvan import``: a model of another library as one of Sylvan's."""

from __future__ import annotations

from typing import Any

import click

from sylvan.cli.session import folder_size
from sylvan.params.wording import counted
from sylvan.weights.layer import WEIGHT_DTYPES

# Not taken from sylvan.importers, so that --help is quick; a test holds them equal.
_LIBRARIES = {"libpecos": "libpecos", "omikuji": "omikuji", "napkinxc": "napkinXC"}


@click.command("import")
@click.argument("source", metavar="FOLDER")
@click.option("--model", "folder", required=True, metavar="DIR", help="Where to save the model.")
@click.option("--from", "library", type=click.Choice(tuple(_LIBRARIES)), help="The library; by default recognised.")
@click.option("--weight-dtype", type=click.Choice(tuple(reversed(WEIGHT_DTYPES))), default="float32", show_default=True,
              help="How weights are stored; uint8 rounds them and halves the model, uint4 leaves a third.")  # fmt: skip
@click.option("--beam", type=click.IntRange(min=1), metavar="N", help="Nodes followed per layer, instead of its own.")
@click.option("--labels", metavar="FILE",
              help="Names of the labels, one per line from label 0 on; together with --vectorizer.")  # fmt: skip
@click.option("--vectorizer", metavar="DIR", help="A saved TfidfVectorizer that makes the model's features from "
              "text; together with --labels.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="No summary.")
@click.pass_context
def command(ctx: click.Context, /, source: str, folder: str, labels: str | None, quiet: bool, **flags: Any) -> None:
    """Read a model of another library from FOLDER, and save it as a Sylvan model in DIR.

    It ranks as before, but for what the guide to migrating says. FOLDER was written by libpecos's XLinearModel.save or
    omikuji's Model.save, or is the output folder of a PLT, BR or OVR model of napkinXC. With --labels and --vectorizer
    it becomes a model of texts.

    \b
    Examples:
      sylvan import pecos-model --model runs/m
      sylvan import omikuji-model --model runs/m --weight-dtype uint8
      sylvan import napkinxc-model --from napkinxc --model runs/m --beam 100
    """
    from sylvan import importers
    from sylvan.cli.io.inputs import read_names
    from sylvan.cli.models import save_state
    from sylvan.data import Vocabulary
    from sylvan.models.text import TextModel
    from sylvan.store import check_target
    from sylvan.store.registry import load
    from sylvan.text import TfidfVectorizer

    if (labels is None) != (flags["vectorizer"] is None):
        raise click.UsageError("--labels and --vectorizer go together: names need texts, and texts names.", ctx)
    check_target(folder)
    library = flags["library"] or importers.detect(source)
    names = None if labels is None else Vocabulary(read_names(labels, "strict"))
    options = {"weight_dtype": flags["weight_dtype"]}
    if library == "omikuji" and names is not None:
        options["n_labels"] = len(names)
    model = importers.import_model(source, library, **options)
    if flags["beam"] is not None:
        model.set_params(beam=flags["beam"])
    result: Any = model
    if names is not None:
        result = TextModel.from_parts(load(flags["vectorizer"], expected=TfidfVectorizer), model, names)
    replaced = save_state(folder, result.to_state())
    if not quiet:
        click.echo(f"Read {source}, a model of {_LIBRARIES[library]}: {counted(model.n_features_, 'feature')}")
        for ranker in model.rankers_:
            click.echo(f"  {ranker.tree!r}")
        combine = model.combine if isinstance(model.combine, str) else ", ".join(model.combine)
        scaled = ", rows scaled to unit length" if model.normalize else ""
        click.echo(f"  scores combined by {combine}, a beam of {model.beam}{scaled}")
        if len(model.rankers_) > 1:
            from sylvan.models.base import CANDIDATES

            click.echo(f"  a label beyond the first {CANDIDATES} of a tree (or k) counts 0 in it, unlike in {library}")
        click.echo(f"Saved it in {folder} ({folder_size(folder)}).{replaced}")

