"""``sylvan train MODEL``: learn from text or matrices and save the model; ``sylvan plan MODEL`` says what it takes."""

from __future__ import annotations

import importlib
import inspect
import os
import time
from typing import Any, NamedTuple

import click

from sylvan.cli.config import config_of, config_option
from sylvan.cli.options import (
    OF_TEXTS,
    complain,
    describe_parameters,
    input_options,
    made,
    part_class,
    read_model_settings,
    read_settings,
    shared_options,
    subjects_options,
    together,
)  # fmt: skip
from sylvan.cli.resume import on_cluster, ray_option, work_options, working
from sylvan.cli.session import LazyGroup, Session, need_subcommand, spoken_warnings
from sylvan.errors import DataError, ParameterError
from sylvan.params.wording import counted


class _Model(NamedTuple):
    module: str
    name: str
    summary: str
    setting: str  # what the examples set
    texts_alone: bool = False  # whether it makes features of texts itself


MODELS = {
    "xr-linear": _Model(
        "sylvan.models.xr.xr_linear", "XRLinear",
        "A tree of linear models over any number of labels (PECOS's XR-Linear).", "beam=20",
    ),
    "neighbors": _Model(
        "sylvan.models.neighbors", "NeighborRanker",
        "The labels of the most similar training rows; needs no training.", "n_neighbors=50",
    ),
    "lexical": _Model(
        "sylvan.models.lexical.lexical_matcher", "LexicalMatcher",
        "The labels whose own words stand in a text, rows or no rows (as Maui and MLLM do).", "stem=en",
        texts_alone=True,
    ),
    "irli": _Model(
        "sylvan.models.irli.classifier", "IRLIClassifier",
        "Labels in buckets that networks find, learned in turns (IRLI); training needs PyTorch.", "n_repetitions=16",
    ),
    "beam-tree": _Model(
        "sylvan.models.beam_tree.beam_tree", "BeamTreeClassifier",
        "One class per row out of very many, at a cost that hardly grows with them (CANE).", "epochs=20",
    ),
    "xr-transformer": _Model(
        "sylvan.models.transformer.x_transformer", "XRTransformer",
        "A text encoder fine-tuned down the label tree, with linear rankers (XR-Transformer); PyTorch.",
        "encoder=models/minilm", texts_alone=True,
    ),
    "x-transformer": _Model(
        "sylvan.models.transformer.x_transformer", "XTransformer",
        "A text encoder fine-tuned to find clusters of labels, with linear rankers (X-Transformer).",
        "encoder=models/minilm", texts_alone=True,
    ),
}  # fmt: skip
# What else some models' help shows.
_EXAMPLES = {"lexical": "--label-texts subjects.ttl --model runs/m"}
_TEXT_SHORTCUTS = ("ngrams", "analyzer", "min_df", "max_df", "max_features", "sublinear_tf", "stem", "lemmatize")


def _class_of(model: str) -> Any:
    return getattr(importlib.import_module(MODELS[model].module), MODELS[model].name)


class _TrainCommand(click.Command):
    """Lists the parameters that ``--set`` takes below its options; only then is the model's module imported."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from sylvan.text import TfidfVectorizer

        owner = _class_of(str(self.name))
        with formatter.section(f"Parameters of {owner.__name__}, for --set"):
            # Those of the vectorizer follow.
            lines = [line for line in describe_parameters(owner) if not line[0].startswith("vectorizer__")]
            formatter.write_dl(lines)
        if not MODELS[str(self.name)].texts_alone or "vectorizer" in owner.parameter_names():
            with formatter.section("Parameters of TfidfVectorizer, for --set-text"):
                formatter.write_dl(describe_parameters(TfidfVectorizer))


class _Models(LazyGroup):
    """One command a model; they differ in their parameters alone."""

    title, lines = "Models", {name: model.summary for name, model in MODELS.items()}
    planning = False

    def make(self, name: str) -> click.Command:
        return _model_command(name, self.planning)

    def owners(self, name: str) -> dict[str, type]:
        from sylvan.text import TfidfVectorizer

        if name not in MODELS:
            return {}
        return {"settings": _class_of(name), "text_settings": TfidfVectorizer}


class _Trainings(_Models):
    """The models, and what is made of several."""

    lines = dict(  # noqa: RUF012
        _Models.lines, ensemble="Several models that rank together, each with its own vectoriser.",
        reranker="Several models that propose labels, in an order that is learned.",
    )  # fmt: skip

    def make(self, name: str) -> click.Command:
        if name in ("ensemble", "reranker"):
            from sylvan.cli.train_joined import joined_command

            return joined_command(name)
        return super().make(name)


@click.group("train", cls=_Trainings, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Train a model on text or matrices and save it in a folder.

    \b
    Example:
      sylvan train xr-linear train.jsonl --model runs/m
    """
    need_subcommand(ctx)


class _Plans(_Models):
    planning = True


@click.group("plan", cls=_Plans, invoke_without_command=True)
@click.pass_context
def plan_command(ctx: click.Context) -> None:
    """Estimate the time and memory of a training, and the size of the model.

    \b
    Example:
      sylvan plan xr-linear train.jsonl --threads 2
    """
    need_subcommand(ctx)


_text_options = together(
    click.option("--set-text", "text_settings", multiple=True, metavar="NAME=VALUE",
                 help="A parameter of the text vectorizer (below); repeat it for several."),
    click.option("--lemmatize", metavar="LANGUAGE",
                 help="Count words as their lemmas by simplemma's dictionary of a language, as in de."),
    click.option("--stem", metavar="LANGUAGE",
                 help="Count words as their stems by the Snowball stemmer of a language, as in en."),
    click.option("--sublinear-tf/--no-sublinear-tf", default=None, help="Count a word as 1 + log(occurrences)."),
    click.option("--max-features", metavar="N", help="Keep only the N most frequent words or n-grams."),
    click.option("--max-df", metavar="DF", help="Ignore terms in more texts than this."),
    click.option("--min-df", metavar="DF", help="Ignore terms in fewer texts than this."),
    click.option("--analyzer", metavar="NAME", help="What is counted: word, char or char_wb n-grams."),
    click.option("--ngrams", metavar="LOW,HIGH",
                 help="Lengths of n-grams, such as 1,2; auto (the default) is words, and pairs where texts are short."),
)  # fmt: skip


def _model_command(name: str, planning: bool = False) -> click.Command:
    """``train NAME``, or ``plan NAME``, which only says what it would take."""

    @click.command(name, cls=_TrainCommand, short_help=MODELS[name].summary)
    @click.argument("train", metavar="TRAIN", required=False)
    @click.option("--model", "folder", metavar="DIR", help="Where to save the model.")
    @click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
                  help="A parameter of the model (below); repeat it for several.")  # fmt: skip
    @click.option(
        "--preset",
        metavar="NAME",
        help="Parameters that go together: fast, balanced or accurate (xr-linear), base, tiny or paper "
        "(encoders). --set and --config go before them.",
    )
    @click.option("--seed", type=click.IntRange(min=0), metavar="N", help="The same as --set seed=N.")
    @click.option("--device", metavar="NAME", help="The same as --set device=NAME: auto, cpu or cuda, for encoders.")
    @click.option("--label-features", metavar="Z.npz",
                  help="Features of the labels, one row each, for clustering (embedding=pifa_lf).")  # fmt: skip
    @click.option(
        "--label-texts",
        metavar="FILE",
        help="Texts of labels, which find labels that no row has: lines of label, tab and text, JSON lines "
        "with label and text, or a vocabulary (SKOS, CSV, JSON lines with uri); or the word names, "
        "where labels' names are words.",
    )
    @click.option(
        "--label-encoder",
        metavar="DIR",
        help="A sentence encoder, by whose vectors labels of --label-texts are found besides: a folder, or "
        "a name on the Hugging Face hub.",
    )
    @click.option("--tree", metavar="DIR", help="A saved LabelTree to use instead of building one.")
    @click.option("--test", metavar="FILE", help="Measure on these rows after training, and store the figures.")
    @click.option("--test-labels", metavar="Y.npz", help="Labels of a --test file without labels (CSR .npz).")
    @work_options
    @ray_option
    @click.option("--plan", is_flag=True, default=planning, hidden=planning,
                  help="Only estimate time, memory and the size of the model.")  # fmt: skip
    @_text_options
    @subjects_options
    @input_options
    @shared_options
    @config_option
    @click.pass_context
    def train_model(ctx: click.Context, /, **given: Any) -> None:
        _train(ctx, name, given)

    if planning:
        train_model.help = (
            f"Say how long training {MODELS[name].name} on the file TRAIN would take, how much memory, and how large "
            "the model would be, from a small part of the work; options as for 'sylvan train'.\n\n"
            f"\b\nExample:\n  sylvan plan {name} train.jsonl --set {MODELS[name].setting} --threads 2"
        )
        return train_model
    train_model.help = _help(name)
    return train_model


def _help(name: str) -> str:
    """What ``train NAME --help`` says first."""
    texts = (
        "TRAIN contains texts and label names (JSONL, CSV, TSV, fastText's or PECOS's lines, one of Annif's "
        "corpora, Parquet)"
    )
    matrices = (
        ", or a matrix: the XMC repository's text format, svmlight, .npz or .npy with --labels Y.npz, or a folder with "
        "X.trn.npz and Y.trn.npz"
    )
    alone = MODELS[name].texts_alone
    lines = [
        f"train.jsonl --model runs/m --set {MODELS[name].setting} --threads 2",
        "books.jsonl --model runs/m --text-field title --text-field author --ngrams 1,2",
        _EXAMPLES.get(name, "train.jsonl --model runs/m --set preset=tiny --device cpu") if alone
        else "X.trn.npz --labels Y.trn.npz --model runs/m",
        "train.jsonl --model runs/m --test test.jsonl",
        "train.jsonl --model runs/m --config run.toml",
    ]  # fmt: skip
    examples = "\n".join(f"  sylvan train {name} {line}" for line in lines)
    return (
        f"Train {MODELS[name].name} on the file TRAIN (- for stdin) and save it in a folder.\n\n"
        f"{texts}{'' if alone else matrices}. Text files may be compressed (.gz, .xz, .bz2, .zst).\n\n"
        f"\b\nExamples:\n{examples}"
    )


def _train(ctx: click.Context, name: str, given: dict[str, Any]) -> None:
    from sylvan.models.text import usual_vectorizer
    from sylvan.parallel import quiet, resolve_jobs

    owner = _class_of(name)
    parameters, text = _settings(ctx, owner, given)
    needed = ("train",) if given["plan"] else ("train", "folder")
    if owner.least_rows == 0 and given["label_texts"] not in (None, "names") and not given["plan"]:
        needed = ("folder",)
    for parameter in ctx.command.params:
        if parameter.name in needed and given[parameter.name] is None:
            raise click.MissingParameter(ctx=ctx, param=parameter)
    model = made(owner, parameters)
    vectorizer = usual_vectorizer(**{"n_jobs": given["threads"], **text})
    if model.takes_texts and text and "vectorizer" not in owner.parameter_names():
        raise ParameterError(f"--set-text is not for {owner.__name__}, which has no vectorizer.")
    if model.takes_texts:
        model.set_params(**{f"vectorizer__{name}": value for name, value in text.items()})
    model.check_params()
    vectorizer.check_params()
    resolve_jobs(given["threads"])
    given["quiet"] = given["quiet"] or not _writes()
    with quiet(given["quiet"]), spoken_warnings(), on_cluster(given["ray_address"], given["threads"]):
        _fit_and_save(Session.of(ctx), model, vectorizer, given)


def _writes() -> bool:
    """Whether this process saves the model: the first of those that were launched to train together."""
    return os.environ.get("RANK", "0") in ("", "0")


def _settings(ctx: click.Context, owner: Any, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of the model and of the vectoriser; one error for everything that is wrong with them."""
    from sylvan.text import TfidfVectorizer

    config = config_of(ctx)
    parameters, given[OF_TEXTS], problems = read_model_settings(owner, given["settings"], config.parameters)
    if given["preset"] is not None:
        parameters, wrong = _with_preset(owner, given["preset"], parameters)
        problems += wrong
    typed = {setting.partition("=")[0].strip() for setting in given["settings"]}
    tree = "tree" if part_class(owner, "ranker") is None else "ranker__tree"
    for option, name in (("seed", "seed"), ("threads", "n_jobs"), ("tree", tree), ("device", "device")):
        if given[option] is None:
            continue
        if name in typed:
            problems.append(f"--{option} and --set {name}=... say the same thing: give one of them.")
        elif name.partition("__")[0] not in owner.parameter_names():
            problems.append(f"--{option} is not for {owner.__name__}, which has no parameter {name!r}.")
        else:
            parameters[name] = given[option]
    if given["label_features"] is not None and "label_features" not in inspect.signature(owner.fit).parameters:
        problems.append(f"--label-features is not for {owner.__name__}, which takes no features of labels.")
    elif given["label_features"] is not None and parameters.setdefault("embedding", "pifa_lf") != "pifa_lf":
        problems.append(f"--label-features is for embedding=pifa_lf, not for {parameters['embedding']}.")
    shortcuts = [f"{name}={given[name]}" for name in _TEXT_SHORTCUTS if given[name] is not None]
    settings = [*shortcuts, *given["text_settings"]]
    text, wrong = read_settings(TfidfVectorizer, settings, "--set-text", config.text)
    wrong += [
        f"--set vectorizer__{name} and --set-text {name} say the same thing: give one of them."
        for name in text if f"vectorizer__{name}" in parameters
    ]  # fmt: skip
    if config.problems or problems or wrong:
        raise ParameterError(complain([*config.problems, *problems, *wrong]))
    if given["tree"] is not None:
        parameters[tree] = _tree(given["tree"])
    return parameters, text


def _with_preset(owner: Any, name: str, parameters: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters with those of a preset behind them, and what is wrong with it."""
    if "preset" in owner.parameter_names():
        if "preset" in parameters:
            return parameters, ["--preset and --set preset=... say the same thing: give one of them."]
        own, problems = read_settings(owner, [f"preset={name}"])
        return {**own, **parameters}, problems
    presets = getattr(owner, "presets", {})
    if not presets:
        return parameters, [f"--preset is not for {owner.__name__}, which has none."]
    if name not in presets:
        listed = ", ".join(presets)
        return parameters, [f"The presets of {owner.__name__} are {listed}. Got {name!r} instead."]
    return {**presets[name], **parameters}, []


def _tree(folder: str) -> Any:
    from sylvan.indexing import LabelTree
    from sylvan.store.registry import load

    tree = load(folder)
    if not isinstance(tree, LabelTree):
        raise ParameterError(f"--tree takes a saved LabelTree, but {folder} holds a {type(tree).__name__}.")
    return tree


def _fit_and_save(session: Session, model: Any, vectorizer: Any, given: dict[str, Any]) -> None:
    from sylvan.cli.io.inputs import TextInput, open_input, remember_base
    from sylvan.cli.io.label_files import read_given_texts
    from sylvan.cli.measure import add_figures, open_test
    from sylvan.cli.models import save_model
    from sylvan.cli.report import folder_size
    from sylvan.models.text import TextModel
    from sylvan.store import check_target

    if given["train"] is None:
        _fit_to_texts_of_labels(session, model, given)
        return
    source = open_input(given["train"], given, part="trn")
    start = time.perf_counter()
    options = {**_label_features(given["label_features"]), **read_given_texts(given["label_texts"], _language(given))}
    checkpoint = None
    if not given["plan"]:
        check_target(given["folder"])
        checkpoint, work = working(session, model, given)
        options |= work
    if isinstance(source, TextInput):
        if not model.takes_texts:
            model = TextModel(vectorizer, model, given["label_encoder"], **given[OF_TEXTS])
        elif not given["quiet"] and "report" in inspect.signature(model.fit).parameters:
            options["report"] = click.echo
        model.text_fields_, model.labels_field_ = source.text_fields, source.labels_field
    elif model.takes_texts:
        raise DataError(f"{type(model).__name__} learns from texts, but {given['train']} is {source.words}.")
    else:
        _refuse_text_options(given)
        if given[OF_TEXTS]:
            raise ParameterError(f"The {OF_TEXTS!r} parameter is for texts, and {given['train']} is {source.words}.")
    if "label_texts" in options and "label_texts" not in inspect.signature(model.fit).parameters:
        raise DataError(f"--label-texts is not for {type(model).__name__} over {source.words}.")
    if given["label_encoder"] is not None and "label_texts" not in options:
        raise ParameterError("--label-encoder encodes texts of labels: give them by --label-texts.")
    if given["plan"]:
        _show_plan(model, source, options, given)
        return
    test = open_test(model, given)
    if isinstance(source, TextInput) and "memory_limit" in options:
        if "label_texts" in options:
            raise ParameterError("--label-texts and --memory-limit don't go together: leave one of them out.")
        read = start
        model.fit_blocks(source.training_blocks(), **options)
    else:
        read = _read_and_fit(model, source, options, given)
    trained = time.perf_counter()
    remember_base(model, source, test)
    if not _writes():
        return
    if not given["quiet"]:
        if isinstance(model, TextModel) and model.vectorizer.ngrams == "auto":
            click.echo(model.vectorizer.choice())
        click.echo(
            f"Trained {type(model).__name__} with {counted(model.n_labels_, 'label')} in {trained - read:.1f} s."
        )
        _show_chosen(model)
    save_model(session, model, given["folder"], checkpoint, given["train"])
    if not given["quiet"]:
        click.echo(f"Saved it in {given['folder']} ({folder_size(given['folder'])}).")
    if test is not None:
        add_figures(model, test, given["folder"], given["quiet"])


def _language(given: dict[str, Any]) -> str | None:
    """That of --language, which is for what --label-texts or --vocabulary names."""
    if given["language"] is not None and given["label_texts"] in (None, "names") and given["subjects"] is None:
        raise ParameterError("--language is for the names of a vocabulary: give one by --label-texts or --vocabulary.")
    return given["language"]  # type: ignore[no-any-return]


def _show_plan(model: Any, source: Any, options: dict[str, Any], given: dict[str, Any]) -> None:
    """What the training would take, without it."""
    from sylvan.models.text_plan import need_plan

    for option in ("memory_limit", "checkpoint", "resume"):
        if given.get(option):
            flag = f"--{option.replace('_', '-')}"
            raise ParameterError(f"A plan is of a training in one piece, without {flag}: leave it out.")
    options.pop("report", None)
    need_plan(model)
    click.echo(model.plan(*source.read(), **options).text())


def _fit_to_texts_of_labels(session: Session, model: Any, given: dict[str, Any]) -> None:
    """Make a model of what labels are called, without any row."""
    from sylvan.cli.io.label_files import read_given_texts
    from sylvan.cli.measure import add_figures, open_test
    from sylvan.cli.models import save_model
    from sylvan.cli.report import folder_size
    from sylvan.store import check_target

    check_target(given["folder"])
    model.text_fields_ = tuple(given["text_fields"]) or model.text_fields_
    test = open_test(model, given)
    model.fit(**read_given_texts(given["label_texts"], _language(given)))
    save_model(session, model, given["folder"])
    if not given["quiet"]:
        words = f"{type(model).__name__} knows {counted(model.n_labels_, 'label')} by their texts alone"
        click.echo(f"{words}. Saved it in {given['folder']} ({folder_size(given['folder'])}).")
    if test is not None:
        add_figures(model, test, given["folder"], given["quiet"])


def _read_and_fit(model: Any, source: Any, options: dict[str, Any], given: dict[str, Any]) -> float:
    """Train on all that the source holds; when it had been read."""
    from sylvan.cli.io.label_files import plain_texts
    from sylvan.cli.models import need_disk

    inputs, labels = source.read()
    read = time.perf_counter()
    if _writes() and not given["force"]:
        folders = {"model": given["folder"]}
        if "checkpoint" in options:
            folders["checkpoint"] = os.fspath(options["checkpoint"].folder)
        need_disk(model, inputs, labels, options, folders)
    if model.least_rows and "label_texts" in options:
        options["label_texts"] = plain_texts(options["label_texts"], labels)
    if isinstance(inputs, list):
        inputs = iter(inputs)  # which gives the texts up once they are features
    model.fit(inputs, labels, **options)
    return read


def _show_chosen(model: Any) -> None:
    """What the data made of parameters that are "auto"."""
    chosen = getattr(getattr(model, "model", model), "chosen_", {})
    if chosen:
        click.echo(f"Chosen by the rows: {', '.join(f'{name}={value:.3g}' for name, value in chosen.items())}.")


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
