"""``sylvan train ensemble`` and ``reranker``: several models trained together, as a configuration names them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from sylvan.cli.config import config_of, config_option
from sylvan.cli.options import complain, input_options, read_settings, shared_options, subjects_options
from sylvan.cli.resume import on_cluster, ray_option, resume_options, working
from sylvan.cli.session import Session, spoken_warnings
from sylvan.errors import ParameterError
from sylvan.models.ensembles.ensemble import PRESETS, Ensemble
from sylvan.models.reranker.reranker import RERANKER_PRESETS, Reranker
from sylvan.models.transformer.presets import PAPER as PAPERS
from sylvan.models.transformer.presets import ensemble_of
from sylvan.params.wording import counted
from sylvan.text import TfidfVectorizer
from sylvan.tune.setting import MODELS, Setting

_MEMBER = re.compile(r"member([0-9]+)__(text__)?([A-Za-z_0-9]+)")


JOINED: Mapping[str, type[Any]] = {"ensemble": Ensemble, "reranker": Reranker}
_PRESETS: Mapping[str, Sequence[str]] = {"ensemble": (*PRESETS, *PAPERS), "reranker": tuple(RERANKER_PRESETS)}
_MEMBERS_HELP = """
    Members are numbered from 0. Each has a model (member0__model=xr-linear, neighbors, lexical, xr-transformer or
    x-transformer), parameters of the model such as member0__beam=20, and of its vectoriser such as
    member0__text__ngrams=1,2. In a configuration file they are the tables [parameters.member0] and
    [parameters.member0.text]; 'sylvan tune' writes such files. TRAIN is as for the other models: JSONL, CSV, TSV,
    fastText's or PECOS's lines, one of Annif's corpora, Parquet, or a matrix.
"""
_HELP: Mapping[str, str] = {
    "ensemble": f"""Train the members of an ensemble on the file TRAIN (- for stdin) and save it in a folder.
{_MEMBERS_HELP}
    \b
    Examples:
      sylvan train ensemble train.jsonl --model runs/m --preset accurate
      sylvan train ensemble train.jsonl --model runs/m --config runs/m.tuning/tuned.toml
      sylvan train ensemble train.jsonl --model runs/m --set member0__model=xr-linear --set member1__model=neighbors
    """,
    "reranker": f"""Train the members of a reranker on the file TRAIN (- for stdin), learn the order of what they
    propose, and save it in a folder.
{_MEMBERS_HELP}
    \b
    Examples:
      sylvan train reranker train.jsonl --model runs/m --preset accurate
      sylvan train reranker train.jsonl --model runs/m --preset words --label-texts subjects.ttl
      sylvan train reranker train.jsonl --model runs/m --config reranker.toml --set scorer=trees
    """,
}


def joined_command(kind: str) -> click.Command:
    """The command that trains an ``"ensemble"`` or a ``"reranker"``."""

    @click.pass_context
    def command(ctx: click.Context, /, **given: Any) -> None:
        _train(ctx, kind, given)

    texts = click.option("--label-texts", metavar="FILE",
                         help="What labels are called, for lexical members: SKOS, TSV, CSV or JSONL.")  # fmt: skip
    plan = click.option("--plan", is_flag=True, help="Estimate time and memory instead of training.")
    if kind == "reranker":
        command = texts(plan(resume_options(command)))
    shared = (config_option, shared_options, input_options, subjects_options, ray_option)
    for option in (*shared, *reversed(_options(kind))):
        command = option(command)
    summary = "Several models that rank together, each with its own vectoriser."
    if kind == "reranker":
        summary = "Several models that propose labels, in an order that is learned."
    return click.command(kind, short_help=summary, help=_HELP[kind])(command)


def _options(kind: str) -> list[Any]:
    """The arguments and options that both commands have."""
    others = ", or a paper's, X-Transformer's nine models or XR-Transformer's three" if kind == "ensemble" else ""
    return [
        click.argument("train", metavar="TRAIN"),
        click.option("--model", "folder", metavar="DIR", required=kind == "ensemble",
                     help=f"Where to save the {kind}."),
        click.option("--preset", type=click.Choice(_PRESETS[kind]),
                     help=f"Members over texts that have proved good together{others}; --set and --config change or "
                     "add members."),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
                     help=f"A parameter of the {kind}, such as {_EXAMPLE[kind]}, or of a member (above); repeat it."),
        click.option("--test", metavar="FILE", help="Measure on these rows after training, and store the figures."),
        click.option("--test-labels", metavar="Y.npz", help="Labels of a --test file without labels (CSR .npz)."),
    ]  # fmt: skip


_EXAMPLE = {"ensemble": "weights=0.7,0.3", "reranker": "scorer=trees"}


def _train(ctx: click.Context, kind: str, given: dict[str, Any]) -> None:
    from sylvan.cli.io.inputs import TextInput, open_input
    from sylvan.cli.io.label_files import read_given_texts
    from sylvan.cli.measure import open_test
    from sylvan.parallel import quiet
    from sylvan.store import check_target

    config = config_of(ctx)
    if config.text:
        config.problems.append("[text] is for one model: members have [parameters.member0.text].")
    values, problems = _read(kind, given["settings"], {**_preset_values(kind, given["preset"]), **config.parameters})
    if config.problems or problems:
        raise ParameterError(complain([*config.problems, *problems]))
    session, train, folder, plan = Session.of(ctx), given["train"], given["folder"], given.get("plan")
    if folder is None and not plan:
        raise click.MissingParameter(ctx=ctx, param=next(one for one in ctx.command.params if one.name == "folder"))
    if not plan:
        check_target(folder)
    source = open_input(train, given, part="trn")
    model: Any = _built(kind, values, isinstance(source, TextInput), given["threads"])
    if isinstance(source, TextInput):
        for one in (model, *model.members):
            one.text_fields_, one.labels_field_ = source.text_fields, source.labels_field
    model.check_params()
    options = read_given_texts(given.get("label_texts"), given["language"])
    test = None if plan else open_test(model, given)
    with quiet(given["quiet"]), spoken_warnings(), on_cluster(given["ray_address"], given["threads"]):
        X, Y = source.read()
        if plan:
            click.echo(model.plan(X, Y, **options).text())
            return
        _fit_and_save(session, model, source, (X, Y), options, test, given)


def _fit_and_save(
    session: Session, model: Any, source: Any, rows: tuple[Any, Any], options: dict[str, Any], test: Any,
    given: dict[str, Any],
) -> None:  # fmt: skip
    from sylvan.cli.io.inputs import remember_base
    from sylvan.cli.measure import add_figures
    from sylvan.cli.models import save_model
    from sylvan.cli.report import folder_size

    folder, checkpoint = given["folder"], None
    if "checkpoint" in given:
        checkpoint, more = working(session, model, given)
        options = {**options, **more}
    start = time.perf_counter()
    model.fit(*rows, **options)
    seconds = time.perf_counter() - start
    remember_base(model, source, test)
    save_model(session, model, folder, training_file=given["train"])
    if checkpoint is not None:
        checkpoint.remove()
    if not given["quiet"]:
        click.echo(
            f"Trained {counted(len(model.members), 'model')} with {counted(model.n_labels_, 'label')} in "
            f"{seconds:.1f} s and saved them in {folder} ({folder_size(folder)})."
        )
    if test is not None:
        add_figures(model, test, folder, given["quiet"])


Values = dict[str, Any]


def _preset_values(kind: str, name: Any) -> Values:
    """A preset's members as a configuration file names them."""
    values: Values = {}
    if kind == "reranker":
        for at, (model, parameters, text) in enumerate(RERANKER_PRESETS[name] if name is not None else ()):
            values[f"member{at}__model"] = model
            values.update({f"member{at}__{key}": value for key, value in parameters.items()})
            values.update({f"member{at}__text__{key}": value for key, value in text.items()})
        return values
    if name is not None and name in PAPERS:
        for at, (encoder, seed) in enumerate(ensemble_of("paper", name, None, None)):
            member = {"model": name, "preset": "paper", "encoder": encoder, "seed": seed}
            values.update({f"member{at}__{key}": value for key, value in member.items()})
        return values
    for at, (parameters, text) in enumerate(PRESETS[name] if name is not None else ()):
        values[f"member{at}__model"] = "xr-linear"
        values.update({f"member{at}__{key}": value for key, value in parameters.items()})
        values.update({f"member{at}__text__{key}": value for key, value in text.items()})
    return values


def _read(kind: str, settings: Sequence[str], config: Mapping[str, Any]) -> tuple[Values, list[str]]:
    """Parameters of the ensemble, and under "members" a triple of model, parameters and text for each."""
    own: tuple[list[str], Values] = [], {}
    parts: dict[int, dict[str, tuple[list[str], Values]]] = {}

    def place(name: str) -> tuple[tuple[list[str], Values], str]:
        match = _MEMBER.fullmatch(name.strip().replace("-", "_"))
        if match is None:
            return own, name
        part = parts.setdefault(int(match[1]), {"": ([], {}), "text__": ([], {})})
        return part[match[2] or ""], match[3]

    for name, value in config.items():
        where, inner = place(name)
        where[1][inner] = value
    for setting in settings:
        name, equals, value = setting.partition("=")
        where, inner = place(name)
        where[0].append(f"{inner}{equals}{value}")
    values, problems = read_settings(JOINED[kind], *_ordered(own))
    if sorted(parts) != list(range(len(parts))) or not parts:
        problems.append(
            f"{'An ensemble' if kind == 'ensemble' else 'A reranker'} takes --preset, or members numbered from 0, such "
            "as member0__model=xr-linear and "
            f"member1__model=neighbors. Got {', '.join(f'member{at}' for at in sorted(parts)) or 'none'} instead."
        )
    members = []
    for at, part in sorted(parts.items()):
        kinds = [word.partition("=")[2] for word in part[""][0] if word.startswith("model=")]
        name = kinds[-1] if kinds else part[""][1].pop("model", None)
        part[""][1].pop("model", None)
        if name not in MODELS:
            known = ", ".join(map(repr, MODELS))
            problems.append(f"The model of member{at} must be one of {known}. Got {name!r} instead.")
            continue
        part[""][0][:] = [word for word in part[""][0] if not word.startswith("model=")]
        parameters, wrong = read_settings(MODELS[name], *_ordered(part[""]))
        text, wrong_text = read_settings(TfidfVectorizer, *_ordered(part["text__"]))
        problems += [f"member{at}: {problem}" for problem in (*wrong, *wrong_text)]
        members.append((name, parameters, text))
    return {**values, "members": members}, problems


def _ordered(pair: tuple[list[str], Values]) -> tuple[list[str], str, Values]:
    """As ``read_settings`` takes them."""
    return pair[0], "--set", pair[1]


def _built(kind: str, values: Values, texts: bool, n_jobs: int | None) -> Any:
    members = []
    for name, parameters, text in values["members"]:
        setting = Setting(name, parameters, text)
        if not texts and (text or setting.takes_texts):
            words = "parameters of vectorisers" if text else "an encoder of texts"
            raise ParameterError(f"The members have {words}, but the training file is a matrix.")
        members.append(setting.build(texts, n_jobs))
    return JOINED[kind](members, n_jobs=n_jobs, **{name: value for name, value in values.items() if name != "members"})
