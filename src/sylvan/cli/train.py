"""``sylvan train MODEL``: learn from text or matrices and save the model in a folder."""

from __future__ import annotations

import importlib
import time
from typing import Any

import click

from sylvan.cli.app import BAD_USAGE, Session
from sylvan.cli.options import describe_parameters, input_options, parse_settings, shared_options
from sylvan.errors import DataError, ParameterError

__all__ = ["command"]

MODELS = {"xr-linear": ("sylvan.models.xr_linear", "XRLinear")}
_SUMMARIES = {"xr-linear": "A tree of linear models over any number of labels (PECOS's XR-Linear)."}
_TEXT_SHORTCUTS = ("ngrams", "analyzer", "min_df", "max_df", "max_features", "sublinear_tf")


def _class_of(model: str) -> Any:
    module, name = MODELS[model]
    return getattr(importlib.import_module(module), name)


class _TrainCommand(click.Command):
    """Lists the parameters that ``--set`` takes below its options; only then is the model's module imported."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from sylvan.text import TfidfVectorizer

        owner = _class_of(str(self.name))
        with formatter.section(f"Parameters of {owner.__name__}, for --set"):
            formatter.write_dl(describe_parameters(owner))
        with formatter.section("Parameters of TfidfVectorizer, for --set-text"):
            formatter.write_dl(describe_parameters(TfidfVectorizer))


class _Models(click.Group):
    """One command a model; they differ in their parameters alone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(MODELS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _model_command(cmd_name) if cmd_name in MODELS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Models"):
            formatter.write_dl(list(_SUMMARIES.items()))


@click.group("train", cls=_Models, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Train a model on text or matrices and save it in a folder.

    \b
    Example:
      sylvan train xr-linear train.jsonl --model runs/m
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(BAD_USAGE)


def _text_options(function: Any) -> Any:
    for option in (
        click.option("--set-text", "text_settings", multiple=True, metavar="NAME=VALUE",
                     help="A parameter of the text vectorizer (below); give it again for several."),
        click.option("--sublinear-tf/--no-sublinear-tf", default=None, help="Count a word as 1 + log(occurrences)."),
        click.option("--max-features", metavar="N", help="Keep the N most frequent words or n-grams only."),
        click.option("--max-df", metavar="DF", help="Leave out what occurs in more texts than this."),
        click.option("--min-df", metavar="DF", help="Leave out what occurs in fewer texts than this."),
        click.option("--analyzer", metavar="NAME", help="What is counted: word, char or char_wb n-grams."),
        click.option("--ngrams", metavar="LOW,HIGH", help="Lengths of n-grams, as in 1,2."),
    ):  # fmt: skip
        function = option(function)
    return function


def _model_command(name: str) -> click.Command:
    @click.command(name, cls=_TrainCommand, short_help=_SUMMARIES[name])
    @click.argument("train", metavar="TRAIN")
    @click.option("--model", "folder", required=True, metavar="DIR", help="Where to save the model.")
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A parameter of the model (below); give it again for several.",
    )
    @click.option("--seed", type=click.IntRange(min=0), metavar="N", help="The same as --set seed=N.")
    @click.option(
        "--label-features",
        metavar="Z.npz",
        help="Features of the labels, a row each, to cluster them by (embedding=pifa_lf).",
    )
    @click.option("--tree", metavar="DIR", help="A saved LabelTree to use instead of building one.")
    @_text_options
    @input_options
    @shared_options
    @click.pass_context
    def train_model(ctx: click.Context, /, **given: Any) -> None:
        session = ctx.find_object(Session) or Session()
        _train(session, name, given)

    train_model.help = (
        f"Train {MODELS[name][1]} on the file TRAIN (- for stdin) and save it in a folder.\n\n"
        "TRAIN is JSONL with texts and label names, or a matrix: the XMC repository's text format, svmlight, "
        ".npz or .npy with --labels Y.npz, or a folder with X.trn.npz and Y.trn.npz. Text files may be packed "
        "as .gz or .xz.\n\n"
        "\b\nExamples:\n"
        f"  sylvan train {name} train.jsonl --model runs/m --set beam=20 --threads 2\n"
        f"  sylvan train {name} books.jsonl --model runs/m --text-field title --text-field author --ngrams 1,2\n"
        f"  sylvan train {name} X.trn.npz --labels Y.trn.npz --model runs/m"
    )
    return train_model


def _train(session: Session, name: str, given: dict[str, Any]) -> None:
    from sylvan.parallel import quiet, resolve_jobs

    owner = _class_of(name)
    model = owner(**_model_parameters(owner, given))
    model.check_params()
    resolve_jobs(given["threads"])
    with quiet(given["quiet"]):
        _fit_and_save(session, model, given)


def _model_parameters(owner: Any, given: dict[str, Any]) -> dict[str, Any]:
    parameters = parse_settings(owner, given["settings"])
    for option, name in (("seed", "seed"), ("threads", "n_jobs"), ("tree", "tree")):
        if given[option] is None:
            continue
        if name in parameters:
            raise ParameterError(f"--{option} and --set {name}=... say the same thing: give one of them.")
        parameters[name] = _tree(given["tree"]) if option == "tree" else given[option]
    if given["label_features"] is not None and parameters.setdefault("embedding", "pifa_lf") != "pifa_lf":
        raise ParameterError(f"--label-features is for embedding=pifa_lf, not for {parameters['embedding']}.")
    return parameters


def _tree(folder: str) -> Any:
    import sylvan
    from sylvan.indexing import LabelTree

    tree = sylvan.load(folder)
    if not isinstance(tree, LabelTree):
        raise ParameterError(f"--tree takes a saved LabelTree, but {folder} holds a {type(tree).__name__}.")
    return tree


def _vectorizer(given: dict[str, Any]) -> Any:
    from sylvan.text import TfidfVectorizer

    shortcuts = [f"{name}={given[name]}" for name in _TEXT_SHORTCUTS if given[name] is not None]
    parameters = parse_settings(TfidfVectorizer, [*shortcuts, *given["text_settings"]], "--set-text")
    parameters.setdefault("n_jobs", given["threads"])
    vectorizer = TfidfVectorizer(**parameters)
    vectorizer.check_params()
    return vectorizer


def _fit_and_save(session: Session, model: Any, given: dict[str, Any]) -> None:
    from sylvan.cli.inputs import TextInput, open_input
    from sylvan.cli.report import folder_size
    from sylvan.store import check_target

    check_target(given["folder"])
    source = open_input(given["train"], given, part="trn")
    start = time.perf_counter()
    options = _label_features(given["label_features"])
    if isinstance(source, TextInput):
        from sylvan.models.text import TextModel

        model = TextModel(_vectorizer(given), model)
        model.text_fields_, model.labels_field_ = source.text_fields, source.labels_field
    else:
        _refuse_text_options(given)
    inputs: Any
    inputs, labels = source.read()
    read = time.perf_counter()
    n_rows = len(inputs) if source.is_text else inputs.shape[0]
    if not given["quiet"]:
        click.echo(f"Read {n_rows:,} rows from {source.name} in {read - start:.1f} s.")
    if isinstance(inputs, list):
        inputs = iter(inputs)  # which gives the texts up once they are features
    model.fit(inputs, labels, **options)
    trained = time.perf_counter()
    del inputs, labels
    if not given["quiet"]:
        click.echo(f"Trained {type(model).__name__} with {model.n_labels_:,} labels in {trained - read:.1f} s.")
    model.save(given["folder"])
    session.written = f"the model was saved in {given['folder']}"
    if not given["quiet"]:
        click.echo(f"Saved it in {given['folder']} ({folder_size(given['folder'])}).")


def _label_features(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    from sylvan import data

    return {"label_features": data.load_npz(path)}


def _refuse_text_options(given: dict[str, Any]) -> None:
    names = [f"--{name.replace('_', '-')}" for name in _TEXT_SHORTCUTS if given[name] is not None]
    names += ["--set-text"] * bool(given["text_settings"]) + ["--text-field"] * bool(given["text_fields"])
    if names:
        raise DataError(f"{names[0]} is for text, but {given['train']} is a matrix.")
