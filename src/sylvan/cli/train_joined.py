"""``sylvan train ensemble`` and ``reranker``: several models trained together, as a configuration names them."""

from __future__ import annotations

import inspect
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import click

from sylvan.cli import options as of
from sylvan.cli.options import on_cluster, ray_option, resume_options, working
from sylvan.cli.session import Session, quietly
from sylvan.errors import ParameterError
from sylvan.models.presets import TEXT_PRESETS, Member
from sylvan.models.transformer.presets import PAPER as PAPERS
from sylvan.models.transformer.presets import ensemble_of
from sylvan.params.wording import counted
from sylvan.store.registry import COMMANDS, class_of
from sylvan.text import TfidfVectorizer
from sylvan.tune.space import MODELS, Setting

_MEMBER = re.compile(r"member([0-9]+)__(text__)?([A-Za-z_0-9]+)")
_PRESETS: Mapping[str, Sequence[str]] = {
    kind: [*(name for name, recipe in TEXT_PRESETS.items() if recipe.command == kind), *papers]
    for kind, papers in (("ensemble", PAPERS), ("reranker", ()))
}
_WORDS: Mapping[str, tuple[str, str, str, str]] = {
    "ensemble": ("an ensemble", "", "--config runs/m.tuning/tuned.toml",
                 "--set member0__model=xr-linear --set member1__model=neighbors"),
    "reranker": ("a reranker", ", learn the order of what they propose,", "--preset best --vocabulary subjects.ttl",
                 "--config reranker.toml --set scorer=trees"),
}  # fmt: skip
Values = dict[str, Any]
Places = dict[tuple[int, str], dict[str, Any]]  # parameters by the number of a member, or -1, and whether of its text


def joined_command(kind: str, planning: bool) -> click.Command:
    """The command that trains an ``"ensemble"`` or a ``"reranker"``, or only says what that would take."""

    papers = ", or a paper's, X-Transformer's nine models or XR-Transformer's three" if kind == "ensemble" else ""
    all_options = of.together(
        of.config_option, of.input_options, of.subjects_options,
        click.option("--plan", is_flag=True, default=planning, hidden=planning,
                     help="Estimate time and memory instead of training."),
        ray_option, resume_options, of.test_options,
        click.option("--label-texts", metavar="FILE",
                     help="What labels are called, for the members that learn from it: SKOS, TSV, CSV or JSONL; or the "
                     "word names or none. [default: by --vocabulary, or as they are where that is words]"),
        of.setting_option("--set", f"A parameter of the {kind}, such as {COMMANDS[kind].setting}, or of a member "
                          "(above); repeat it."),
        click.option("--preset", type=click.Choice(_PRESETS[kind]),
                     help=f"Members over texts that have proved good together{papers}; --set and --config change or "
                     "add members."),
        click.option("--model", "folder", metavar="DIR", help=f"Where to save the {kind}."),
        click.argument("train", metavar="TRAIN"),
    )  # fmt: skip

    @click.command(kind)
    @all_options
    @click.pass_context
    def command(ctx: click.Context, /, **flags: Any) -> None:
        """Train the members of {} on the file TRAIN (- for stdin){} and save it in a folder.

        Members are numbered from 0. Each has a model (member0__model=xr-linear, neighbors, lexical, xr-transformer or
        x-transformer), parameters of the model such as member0__beam=20, and of its vectoriser such as
        member0__text__ngrams=1,2; keep_rows=true is for all of them. In a configuration file they are the tables
        [parameters.member0] and [parameters.member0.text]; 'sylvan tune' writes such files. TRAIN is as for the other
        models: JSONL, CSV, TSV, fastText's or PECOS's lines, one of Annif's corpora, Parquet, or a matrix.

        \b
        Examples:
          sylvan train {kind} train.jsonl --model runs/m --preset accurate
          sylvan train {kind} train.jsonl --model runs/m {}
          sylvan train {kind} train.jsonl --model runs/m {}
        """
        _train(ctx, kind, flags)

    command.help = inspect.cleandoc(str(command.help)).format(*_WORDS[kind], kind=kind)
    return command


def _train(ctx: click.Context, kind: str, flags: Values) -> None:
    from sylvan.cli.evaluate import open_test, save_trained
    from sylvan.cli.io.inputs import open_input, read_given_texts, read_vocabulary, remember_base
    from sylvan.store import check_target

    config = of.config_of(ctx)
    if config.text:
        config.problems.append("[text] is for one model: members have [parameters.member0.text].")
    values, members = _read(config, kind, flags["settings"], flags["preset"])
    config.refuse()
    session, folder, plan = Session.of(ctx), flags["folder"], flags["plan"]
    if not plan:
        if folder is None:
            raise click.MissingParameter(ctx=ctx, param=next(p for p in ctx.command.params if p.name == "folder"))
        check_target(folder)
    source: Any = open_input(flags["train"], flags, part="trn")
    for member in members if not source.is_text else ():
        if member.text or member.takes_texts:
            words = "parameters of vectorisers" if member.text else "an encoder of texts"
            way = ": sylvan train xr-linear --preset accurate is for one" if flags["preset"] in TEXT_PRESETS else ""
            raise ParameterError(f"The members have {words}, but the training file is a matrix{way}.")
    threads = flags["threads"]
    model = class_of(kind)([each.build(source.is_text, threads) for each in members], n_jobs=threads, **values)
    for each in (model, *model.members) if source.is_text else ():
        each.text_fields_, each.labels_field_ = source.text_fields, source.labels_field
    model.check_params()
    options = read_given_texts(flags["label_texts"], flags["language"])
    if flags["label_texts"] is None and flags["subjects"]:  # what labels are called
        options["label_texts"] = read_vocabulary(flags["subjects"], flags["language"])
    test = None if plan else open_test(model, flags)
    with quietly(flags), on_cluster(flags["ray_address"], flags["threads"]):
        X, Y = source.read()
        if plan:
            click.echo(model.plan(X, Y, **options).text())
            return
        checkpoint, work = working(session, model, flags)
        options |= work
        start = time.perf_counter()
        model.fit(X, Y, **options)
        seconds = time.perf_counter() - start
        remember_base(model, source, test)
        words = f"Trained {counted(len(model.members), 'model')} with {counted(model.n_labels_, 'label')} in"
        save_trained(session, model, flags, test, f"{words} {seconds:.1f} s and saved them in", checkpoint)


def _preset_values(preset: Any) -> Values:
    """A preset's members as a configuration file names them."""
    members: Sequence[Member] = ()
    if preset in PAPERS:
        members = [
            Member(preset, {"preset": "paper", "encoder": encoder, "seed": seed})
            for encoder, seed in ensemble_of("paper", preset, None, None)
        ]
    elif preset is not None:
        members = TEXT_PRESETS[preset].members
    values: Values = {}
    for number, (model, parameters, text) in enumerate(members):
        texts = {f"text__{name}": value for name, value in text.items()}
        named = {"model": model, **parameters, **texts}
        values |= {f"member{number}__{name}": value for name, value in named.items()}
    return values


def _read(config: of.Config, kind: str, settings: Sequence[str], preset: Any) -> tuple[Values, list[Setting]]:
    """Parameters of the ensemble, and the settings of its members."""
    # What was typed, and what the configuration or a preset says: by number and kind of a member, and of the whole.
    typed: Places = defaultdict(dict)
    configured: Places = defaultdict(dict)
    words = config.typed(settings)
    for names, places in ((words, typed), ({**_preset_values(preset), **config.parameters}, configured)):
        for name, value in names.items():
            match = _MEMBER.fullmatch(name)
            where, inner = ((int(match[1]), match[2] or ""), match[3]) if match else ((-1, ""), name)
            places[where][inner] = value
    numbers = sorted({number for number, _ in (*typed, *configured) if number >= 0})
    _share_keep_rows(typed, configured, numbers)
    values = config.read(class_of(kind), typed[-1, ""], configured[-1, ""])
    if numbers != list(range(len(numbers))) or not numbers:
        listed = ", ".join(f"member{number}" for number in numbers) or "none"
        usage = f"{_WORDS[kind][0].capitalize()} takes --preset, or members numbered from 0, such as"
        config.problems.append(f"{usage} member0__model=xr-linear and member1__model=neighbors. Got {listed} instead.")
    members = []
    for number in numbers:
        of_member, of_text = (number, ""), (number, "text__")
        usual = configured[of_member].pop("model", None)
        model = typed[of_member].pop("model", usual)
        if model not in MODELS:
            kinds = ", ".join(map(repr, MODELS))
            config.problems.append(f"The model of member{number} must be one of {kinds}. Got {model!r} instead.")
            continue
        members.append(Setting(
            model,
            config.read(MODELS[model], typed[of_member], configured[of_member], f"member{number}: "),
            config.read(TfidfVectorizer, typed[of_text], configured[of_text], f"member{number}: "),
        ))  # fmt: skip
    return values, members


def _share_keep_rows(typed: Places, configured: Places, numbers: Sequence[int]) -> None:
    """``keep_rows`` of the whole is that of each member that has it: an update needs the rows of all of them."""
    kinds = (MODELS.get(str(typed[n, ""].get("model", configured[n, ""].get("model")))) for n in numbers)
    able = [n for n, kind in zip(numbers, kinds, strict=True) if kind and "keep_rows" in kind.parameter_names()]
    for places in (typed, configured) if able else ():
        if (value := places[-1, ""].pop("keep_rows", None)) is not None:
            for number in able:
                places[number, ""].setdefault("keep_rows", value)
