"""``sylvan train MODEL``: learn from text or matrices and save the model; ``sylvan plan MODEL`` says what it takes."""

from __future__ import annotations

import inspect
import os
import time
from functools import partial
from typing import Any

import click

from sylvan.cli import options as of
from sylvan.cli.options import on_cluster, ray_option, work_options, working
from sylvan.cli.session import LazyGroup, Session, need_subcommand, quietly, say
from sylvan.errors import DataError, ParameterError
from sylvan.indexing.tree import LabelTree
from sylvan.params.fields import construct
from sylvan.params.wording import counted, did_you_mean
from sylvan.store.registry import COMMANDS, JOINED, class_of, load
from sylvan.text import TfidfVectorizer

_TEXT_SHORTCUTS = ("ngrams", "analyzer", "min_df", "max_df", "max_features", "sublinear_tf", "stem", "lemmatize")


def _command(name: str, planning: bool) -> click.Command:
    """The command of a model; they differ in their parameters alone."""
    if name in JOINED:
        from sylvan.cli.train_joined import joined_command

        joined = joined_command(name, planning)
        joined.help = _PLAN_HELP.format(name, COMMANDS[name]) if planning else joined.help
        return joined
    return _model_command(name, planning)


_LINES = {name: kind.help for name, kind in COMMANDS.items()}


def _implied(words: list[str], is_lenient: bool) -> str | None:
    """The command of a preset of texts, where the words begin with a file or an option and name no model."""
    first = words[0] if words else ""
    is_file = first == "-" or os.path.exists(first) or any(mark in first for mark in (".", "/", os.sep))
    is_option = first.startswith("--") and first not in ("--help", "--debug") and not any(map(_LINES.get, words))
    if first in _LINES or not (is_file or is_option):
        return None
    from sylvan.models.presets import TEXT_PRESETS

    given = [value for word, value in zip(words, [*words[1:], ""], strict=True) if word == "--preset"]
    given += [word.partition("=")[2] for word in words if word.startswith("--preset=")]
    name: Any = given[-1] if given else "balanced"
    if name not in TEXT_PRESETS and not is_lenient:  # lenient where a shell asks what may follow
        guess = did_you_mean(name, TEXT_PRESETS)
        raise click.UsageError(f"The presets of texts are {', '.join(TEXT_PRESETS)}. Got {name!r} instead. {guess}")
    return TEXT_PRESETS[name].command if name in TEXT_PRESETS else "xr-linear"


@click.group("train", cls=LazyGroup, title="Models", lines=_LINES, implied=_implied,
             make=partial(_command, planning=False))  # fmt: skip
@click.pass_context
def command(ctx: click.Context) -> None:
    """Train a model on text or matrices and save it in a folder.

    For texts no model need be named: --preset says how much time the training may take. fast and balanced (the default)
    are an xr-linear, accurate is an ensemble of three, best a reranker of these, of nearest rows and of labels' own
    words; the options are those of that model. --vocabulary names labels that are codes.

    \b
    Examples:
      sylvan train books.jsonl --model runs/m
      sylvan train books.jsonl --model runs/m --preset best --vocabulary subjects.ttl
      sylvan train xr-linear X.trn.npz --labels Y.trn.npz --model runs/m
    """
    need_subcommand(ctx)


@click.group("plan", cls=LazyGroup, title="Models", lines=_LINES, implied=_implied,
             make=partial(_command, planning=True))  # fmt: skip
@click.pass_context
def plan_command(ctx: click.Context) -> None:
    """Estimate the time and memory of a training, and the size of the model.

    \b
    Examples:
      sylvan plan books.jsonl --preset best --threads 2
      sylvan plan xr-linear train.jsonl --threads 2
    """
    need_subcommand(ctx)


_text_options = of.together(
    of.setting_option("--set-text", "A parameter of the text vectorizer (below); repeat it for several."),
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


def _model_command(name: str, planning: bool) -> click.Command:
    """``train NAME``, or ``plan NAME``, which only says what it would take."""
    kind, owners = COMMANDS[name], {"--set": class_of(name)}
    if not kind.texts_alone or "vectorizer" in owners["--set"].parameter_names():
        owners["--set-text"] = TfidfVectorizer

    @click.command(name, cls=of.DescribedCommand, owners=owners)
    @click.argument("train", metavar="TRAIN", required=False)
    @click.option("--model", "folder", metavar="DIR", help="Where to save the model.")
    @of.setting_option("--set", "A parameter of the model (below); repeat it for several.")
    @click.option("--preset", metavar="NAME", help="Parameters that go together: fast, balanced or accurate "
                  "(xr-linear), base, tiny or paper (encoders). --set and --config go before them.")  # fmt: skip
    @of.seed_option
    @click.option("--device", metavar="NAME", help="The same as --set device=NAME: auto, cpu or cuda, for encoders.")
    @click.option("--label-features", metavar="Z.npz",
                  help="Features of the labels, one row each, for clustering (embedding=pifa_lf).")  # fmt: skip
    @click.option("--label-texts", metavar="FILE",
                  help="Texts of labels as training rows, and with --set unlearned=answer to find labels that no "
                  "row has: lines of label, tab and text, JSON lines "
                  "with label and text, or a vocabulary (SKOS, CSV, JSON lines with uri); or the word names or none. "
                  "[default: names that are words are training rows, where rows are like them]")  # fmt: skip
    @click.option("--label-encoder", metavar="DIR",
                  help="A sentence encoder that helps to find labels of --label-texts by their vectors: a folder, or "
                  "a name on the Hugging Face hub.")  # fmt: skip
    @click.option("--tree", metavar="DIR", help="A saved LabelTree to use instead of building one.")
    @of.test_options
    @work_options
    @ray_option
    @click.option("--plan", is_flag=True, default=planning, hidden=planning,
                  help="Only estimate time, memory and the size of the model.")  # fmt: skip
    @_text_options
    @of.subjects_options
    @of.input_options
    @of.config_option
    @click.pass_context
    def train_model(ctx: click.Context, /, **flags: Any) -> None:
        """Train {1.name} on the file TRAIN (- for stdin) and save it in a folder.

        TRAIN contains texts and label names (JSONL, CSV, TSV, fastText's or PECOS's lines, one of Annif's corpora,
        Parquet){2}. Text files may be compressed (.gz, .xz, .bz2, .zst).

        \b
        Examples:
          sylvan train {0} train.jsonl --model runs/m --set {1.setting} --threads 2
          sylvan train {0} books.jsonl --model runs/m --text-field title --text-field author --ngrams 1,2
          sylvan train {0} {3}
          sylvan train {0} train.jsonl --model runs/m --test test.jsonl
          sylvan train {0} train.jsonl --model runs/m --config run.toml
        """
        _train(ctx, name, flags)

    example = "X.trn.npz --labels Y.trn.npz --model runs/m"
    if kind.texts_alone:
        example = "train.jsonl --model runs/m --set preset=tiny --device cpu"
    if name == "lexical":
        example = "--label-texts subjects.ttl --model runs/m"
    words = _PLAN_HELP if planning else inspect.cleandoc(str(train_model.help))
    train_model.help = words.format(name, kind, "" if kind.texts_alone else _MATRICES, example)
    return train_model


_PLAN_HELP = """Say how long training {1.name} on the file TRAIN would take, how much memory, and how large the model \
would be, from a small part of the work; options as for 'sylvan train'.\n\n\b
Example:
  sylvan plan {0} train.jsonl --set {1.setting} --threads 2"""
_MATRICES = """, or a matrix: the XMC repository's text format, svmlight, .npz or .npy with --labels Y.npz, or a \
folder with X.trn.npz and Y.trn.npz"""


def _train(ctx: click.Context, name: str, flags: dict[str, Any]) -> None:
    from sylvan.models.text import usual_vectorizer
    from sylvan.parallel import resolve_jobs

    owner = class_of(name)
    parameters, text = _settings(ctx, owner, flags)
    needed = ("train",) if flags["plan"] else ("train", "folder")
    alone = COMMANDS[name].texts_alone and owner.least_rows == 0  # it can learn from the labels' texts
    if alone and flags["label_texts"] is None:  # a vocabulary says what labels are called
        flags["label_texts"] = flags["subjects"]
    if alone and flags["label_texts"] not in (None, "names") and not flags["plan"]:
        needed = ("folder",)
    for parameter in ctx.command.params:
        if parameter.name in needed and flags[parameter.name] is None:
            raise click.MissingParameter(ctx=ctx, param=parameter)
    model = construct(owner, parameters)
    vectorizer = usual_vectorizer(**{"n_jobs": flags["threads"], **text})
    if model.takes_texts:
        if text and "vectorizer" not in owner.parameter_names():
            raise ParameterError(f"--set-text is not for {owner.__name__}, which has no vectorizer.")
        model.set_params(**{f"vectorizer__{name}": value for name, value in text.items()})
    model.check_params()
    vectorizer.check_params()
    resolve_jobs(flags["threads"])
    flags["quiet"] = flags["quiet"] or not _writes()
    with quietly(flags), on_cluster(flags["ray_address"], flags["threads"]):
        _fit_and_save(Session.of(ctx), model, vectorizer, flags)


def _writes() -> bool:
    """Whether this process saves the model: the first of those that were launched to train together."""
    return os.environ.get("RANK", "0") in ("", "0")


def _settings(ctx: click.Context, owner: Any, flags: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of the model and of the vectoriser; one error for everything that is wrong with them."""
    config = of.config_of(ctx)
    problems, typed = config.problems, config.typed(flags["settings"])
    parameters, flags["of_texts"] = config.read_model(owner, typed)
    if flags["preset"] is not None:
        parameters = {**_preset(config, owner, flags["preset"], parameters), **parameters}
    tree = "tree" if of.part_class(owner, "ranker") is None else "ranker__tree"
    for option, name in (("seed", "seed"), ("threads", "n_jobs"), ("tree", tree), ("device", "device")):
        if flags[option] is None:
            continue
        if name in typed:
            problems.append(f"--{option} and --set {name}=... say the same thing: give one of them.")
        elif name.partition("__")[0] not in owner.parameter_names():
            problems.append(f"--{option} is not for {owner.__name__}, which has no parameter {name!r}.")
        else:
            parameters[name] = flags[option]
    if flags["label_features"] is not None:
        if "label_features" not in inspect.signature(owner.fit).parameters:
            problems.append(f"--label-features is not for {owner.__name__}, which takes no features of labels.")
        elif parameters.setdefault("embedding", "pifa_lf") != "pifa_lf":
            problems.append(f"--label-features is for embedding=pifa_lf, not for {parameters['embedding']}.")
    shortcuts = [f"{name}={flags[name]}" for name in _TEXT_SHORTCUTS if flags[name] is not None]
    text = config.read(TfidfVectorizer, config.typed([*shortcuts, *flags["text_settings"]], "--set-text"), config.text)
    problems += [
        f"--set vectorizer__{name} and --set-text {name} say the same thing: give one of them."
        for name in text if f"vectorizer__{name}" in parameters
    ]  # fmt: skip
    config.refuse()
    if flags["tree"] is not None:
        parameters[tree] = load(flags["tree"], expected=LabelTree)
    return parameters, text


def _preset(config: of.Config, owner: Any, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a preset."""
    presets = getattr(owner, "presets", {})
    if "preset" in owner.parameter_names():
        if "preset" not in parameters:
            return config.read(owner, {"preset": name})
        config.problems.append("--preset and --set preset=... say the same thing: give one of them.")
    elif not presets:
        config.problems.append(f"--preset is not for {owner.__name__}, which has none.")
    elif name not in presets:
        config.problems.append(f"The presets of {owner.__name__} are {', '.join(presets)}. Got {name!r} instead.")
    return presets.get(name, {})  # type: ignore[no-any-return]


def _fit_and_save(session: Session, model: Any, vectorizer: Any, flags: dict[str, Any]) -> None:
    """Train a model on the rows of TRAIN, or without it on the texts of labels alone, and save it; or show its plan."""
    from sylvan import data
    from sylvan.cli.evaluate import open_test, save_trained
    from sylvan.cli.io.inputs import open_input, read_given_texts, read_vocabulary, remember_base
    from sylvan.models.text import TextModel
    from sylvan.models.xr.xr_linear import XRLinear
    from sylvan.store import check_target

    if flags["train"] is None:  # what labels are called is all there is to learn
        check_target(flags["folder"])
        model.text_fields_ = tuple(flags["text_fields"]) or model.text_fields_
        test = open_test(model, flags)
        model.fit(**read_given_texts(flags["label_texts"], _language(flags)))
        words = f"{type(model).__name__} knows {counted(model.n_labels_, 'label')} by their texts alone. Saved it"
        save_trained(session, model, flags, test, f"{words} in")
        return
    source: Any = open_input(flags["train"], flags, part="trn")
    start, checkpoint = time.perf_counter(), None
    features = flags["label_features"]
    options: dict[str, Any] = {} if features is None else {"label_features": data.load_npz(features)}
    options |= read_given_texts(flags["label_texts"], _language(flags))
    if flags["label_texts"] is None and flags["subjects"] and isinstance(model, XRLinear):  # what labels are called
        if flags["memory_limit"] is None and not model.keep_rows:
            options["label_texts"] = read_vocabulary(flags["subjects"], _language(flags))
        else:
            beside = "keep_rows=true (--label-texts FILE makes them rows)" if model.keep_rows else "--memory-limit"
            say(flags, f"Names of the vocabulary are no training rows beside {beside}.")
    if not flags["plan"]:
        check_target(flags["folder"])
        checkpoint, work = working(session, model, flags)
        options |= work
    if source.is_text:
        if not model.takes_texts:
            model = TextModel(vectorizer, model, flags["label_encoder"], **flags["of_texts"])
        elif not flags["quiet"] and "report" in inspect.signature(model.fit).parameters:
            options["report"] = click.echo
        model.text_fields_, model.labels_field_ = source.text_fields, source.labels_field
    elif model.takes_texts:
        raise DataError(f"{type(model).__name__} learns from texts, but {flags['train']} is {source.words}.")
    for option in () if source.is_text else (*_TEXT_SHORTCUTS, "text_settings"):
        if flags[option] not in (None, ()):
            name = "set-text" if option == "text_settings" else option.replace("_", "-")
            raise DataError(f"--{name} is for text, but {flags['train']} is a matrix.")
    for parameter in () if source.is_text else flags["of_texts"]:
        raise ParameterError(f"The {parameter!r} parameter is for texts, and {flags['train']} is {source.words}.")
    if options.get("label_texts") is not None and "label_texts" not in inspect.signature(model.fit).parameters:
        raise DataError(f"--label-texts is not for {type(model).__name__} over {source.words}.")
    if flags["label_encoder"] is not None and "label_texts" not in options:
        raise ParameterError("--label-encoder encodes texts of labels: give them by --label-texts.")
    if flags["plan"]:
        _show_plan(model, source, options, flags)
        return
    test = open_test(model, flags)
    if source.is_text and "memory_limit" in options:
        if options.get("label_texts") is not None:
            raise ParameterError("--label-texts and --memory-limit don't go together: leave one of them out.")
        model.fit_blocks(source.training_blocks(), **options)
    else:
        start = _read_and_fit(model, source, options, flags)
    seconds = time.perf_counter() - start
    remember_base(model, source, test)
    if not _writes():
        return
    if isinstance(model, TextModel) and model.vectorizer.ngrams == "auto":
        say(flags, model.vectorizer.choice())
    if (like := getattr(model, "label_text_likeness_", None)) is not None and like.helps:  # else there is a warning
        say(flags, like.sentence())
    say(flags, f"Trained {type(model).__name__} with {counted(model.n_labels_, 'label')} in {seconds:.1f} s.")
    if chosen := getattr(getattr(model, "model", model), "chosen_", {}):  # for parameters that are "auto"
        say(flags, f"Chosen by the rows: {', '.join(f'{name}={value:.3g}' for name, value in chosen.items())}.")
    save_trained(session, model, flags, test, "Saved it in", checkpoint)


def _language(flags: dict[str, Any]) -> str | None:
    """That of --language, which is for what --label-texts or --vocabulary names."""
    if flags["language"] is not None and flags["label_texts"] in (None, "names") and flags["subjects"] is None:
        raise ParameterError("--language is for the names of a vocabulary: give one by --label-texts or --vocabulary.")
    return flags["language"]  # type: ignore[no-any-return]


def _show_plan(model: Any, source: Any, options: dict[str, Any], flags: dict[str, Any]) -> None:
    """What the training would take, without it."""
    from sylvan.models.text_plan import need_plan

    for option in ("memory_limit", "checkpoint", "resume"):
        if flags.get(option):
            flag = f"--{option.replace('_', '-')}"
            raise ParameterError(f"A plan is of a training in one piece, without {flag}: leave it out.")
    need_plan(model)
    click.echo(model.plan(*source.read(), **{name: options[name] for name in options if name != "report"}).text())


def _read_and_fit(model: Any, source: Any, options: dict[str, Any], flags: dict[str, Any]) -> float:
    """Train on all that the source holds; when it had been read."""
    from sylvan.cli.models import need_disk

    inputs, labels = source.read()
    read = time.perf_counter()
    if _writes() and not flags["force"]:
        need_disk(model, inputs, labels, options, flags["folder"])
    if isinstance(inputs, list):
        inputs = iter(inputs)  # which gives the texts up once they are features
    model.fit(inputs, labels, **options)
    return read
