"""Options that several verbs share, and ``--set name=value`` against the declared constraints."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sylvan.cli.io.formats import FORMATS
from sylvan.cli.session import OPTIONS, Session, say
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.params.fields import Constraint, Instance, Jobs, Parameterized, check_value
from sylvan.params.wording import called_here, counted
from sylvan.serve.settings import read_toml


@contextlib.contextmanager
def on_cluster(address: str | None, threads: int | None) -> Iterator[None]:
    """Trainings within the block run on a Ray cluster, where ``--ray`` was given."""
    if address is None:
        yield
        return
    from sylvan.distributed import ray

    with ray(None if address == "local" else address, n_jobs=threads):
        yield


def resumes(
    session: Session, flags: Mapping[str, Any], folder: str, before: str | None, remains: Callable[[], bool]
) -> bool:
    """Whether to go on with an earlier training; an interruption then says what remains of this one."""
    if before is not None and flags["resume"] is None:
        raise ModelError(f"{before}: --resume goes on with it, --no-resume starts over.")
    if before is None and flags["resume"]:
        say(flags, f"There is nothing to resume in {folder}: training from the beginning.")
    sentence = f"what is trained so far lies in {folder!r}: the same command with --resume goes on from there"
    session.remains = lambda: sentence if remains() else None
    return before is not None and bool(flags["resume"])


def working(session: Session, model: Any, flags: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The checkpoint of this command, or None for a model that has none, and options for the model's ``fit``."""
    from sylvan.runtime.checkpoint import Checkpoint
    from sylvan.runtime.memory import parse_bytes

    parameters = inspect.signature(type(model).fit).parameters
    for option, needed in (("memory-limit", "memory_limit"), ("checkpoint", "checkpoint"), ("resume", "checkpoint")):
        if flags.get(option.replace("-", "_")) is not None and needed not in parameters:
            raise ParameterError(f"--{option} is not for {type(model).__name__}, which is trained in one piece.")
    options: dict[str, Any] = {"force": True} if flags.get("force") and "force" in parameters else {}
    if "checkpoint" not in parameters:
        return None, options
    if flags.get("memory_limit") is not None:
        options["memory_limit"] = parse_bytes(flags["memory_limit"], "--memory-limit")
    model = flags["folder"].rstrip("/\\")
    model = os.path.abspath(model) if os.path.basename(model) in (".", "..") else model
    folder = flags["checkpoint"] or f"{model}.training"
    places = [os.path.join(os.path.realpath(path), "") for path in (folder, model)]
    if places[0].startswith(places[1]) or places[1].startswith(places[0]):  # one would go with the other, or bar it
        raise ModelError(f"The checkpoint {folder!r} and the model {model!r} must not lie in each other: move one.")
    checkpoint = Checkpoint(folder)
    before = f"An interrupted training lies in {folder!r}" if checkpoint.remains() else None
    if not resumes(session, flags, folder, before, checkpoint.remains):
        checkpoint.remove()
    return checkpoint, {**options, "checkpoint": checkpoint}


TABLES = {
    "options": "what the command line takes after two dashes",
    "parameters": "parameters of the model, as --set takes them",
    "text": "parameters of the text vectorizer, as --set-text takes them",
}
_KEY = "sylvan.cli.config"
# Options that a file has another place for, or that make no sense in it.
_ELSEWHERE = {"config", "settings", "text_settings", "help", "debug"}


@dataclass
class Config:
    """What a configuration file holds, and what is wrong with it, a sentence a fault."""

    path: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def typed(self, settings: Sequence[str], option: str = "--set") -> dict[str, str]:
        """The words ``name=value`` that were typed after an option, by name."""
        values: dict[str, str] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            name = name.strip().replace("-", "_")
            if not equals or not name:
                self.problems.append(f"{option} takes name=value. Got {setting!r} instead.")
            elif name in values:
                self.problems.append(f"{option} gives {name!r} twice.")
            else:
                values[name] = text.strip()
        return values

    def read(
        self, owner: type[Parameterized], typed: Mapping[str, str], preset: Mapping[str, Any] | None = None,
        where: str = "",
    ) -> dict[str, Any]:  # fmt: skip
        """The parameters of ``owner`` as ``preset`` gives them, by values as in a file, and before them as ``typed``;
        what is wrong with them is said to be so ``where``."""
        values: dict[str, Any] = dict(typed)
        for name, value in {**(preset or {}), **typed}.items():
            try:
                values[name] = _read(owner, name, value, plain=name not in typed)
            except ParameterError as error:
                self.problems.append(f"{where}{error}")
        return values

    def read_model(self, owner: type[Parameterized], typed: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The parameters of a model as the file has them, or as they were typed; apart from them those of the TextModel
        that a model over matrices is put into for texts."""
        from sylvan.models.text import TextModel
        from sylvan.models.text_estimator import TextEstimator

        apart = set(OF_TEXTS) - set(owner.parameter_names()) if not issubclass(owner, TextEstimator) else set()

        def chosen(values: Mapping[str, Any], of_texts: bool) -> dict[str, Any]:
            return {name: value for name, value in values.items() if (name in apart) == of_texts}

        parameters = self.read(owner, chosen(typed, False), chosen(self.parameters, False))
        return parameters, self.read(TextModel, chosen(typed, True), chosen(self.parameters, True))

    def refuse(self) -> None:
        """One error for everything that is wrong."""
        if len(self.problems) == 1:
            raise ParameterError(self.problems[0])
        if self.problems:
            listed = "".join(f"\n  - {problem}" for problem in self.problems)
            raise ParameterError(f"{counted(len(self.problems), 'setting')} are wrong:{listed}")


def config_of(ctx: click.Context) -> Config:
    """The configuration that the command was given; an empty one when it was given none."""
    config: Config = ctx.meta.get(_KEY) or Config()
    return config


def _preset(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    if not path.lower().endswith(".toml"):
        raise DataError(f"--config takes a .toml file. Got {path!r} instead.")
    tables = read_toml(path)
    options, parameters, text = (_named(tables.get(name)) for name in TABLES)
    ctx.meta[_KEY] = config = Config(path, parameters, text)
    for name, table in tables.items():
        if name not in TABLES:
            allowed = "; ".join(f"[{section}], {words}" for section, words in TABLES.items())
            config.problems.append(f"{path} has no use for {name!r}.{_guess(name, TABLES)} It takes {allowed}.")
        elif not isinstance(table, Mapping):
            config.problems.append(f"{path}: {name!r} must be a table of names and values. Got {table!r:.60} instead.")
    ctx.default_map = {**(ctx.default_map or {}), **_options(ctx, config, options)}


# ``--config FILE`` is read before every other option, which are its to preset.
config_option = click.option("--config", metavar="FILE", is_eager=True, expose_value=False, callback=_preset,
                             help="Options and parameters from a TOML file; the command line overrides it."
                             )  # fmt: skip


def _named(table: Any) -> dict[str, Any]:
    """A table whose names are written with underscores, those of a table in it as ``ranker__beam``; else nothing."""
    values: dict[str, Any] = {}
    for name, value in table.items() if isinstance(table, Mapping) else ():
        plain = name.replace("-", "_")
        if isinstance(value, Mapping):
            values |= {f"{plain}__{inner}": each for inner, each in _named(value).items()}
        else:
            values[plain] = value
    return values


def _options(ctx: click.Context, config: Config, table: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's options by click's names; those that it can't take become problems."""
    options = {}  # by their names without dashes at the front
    for each in ctx.command.params:
        name = each.metavar or each.name or "" if isinstance(each, click.Argument) else max(each.opts, key=len)
        if each.name not in _ELSEWHERE:
            options[name.lstrip("-").lower()] = each
    values: dict[str, Any] = {}
    for name, value in table.items():
        words = name.replace("_", "-")
        if (parameter := options.get(words)) is None:
            guess = _guess(words, options)
            config.problems.append(f"'{ctx.command_path}' has no option {words!r}, which {config.path} names.{guess}")
            continue
        value = [value] if parameter.multiple and not isinstance(value, list) else value
        try:
            parameter.type_cast_value(ctx, value)
        except (click.BadParameter, TypeError) as error:
            wrong = f": {error.message}" if isinstance(error, click.BadParameter) else f" can't be {value!r:.60}."
            config.problems.append(f"{config.path}: {words!r}{wrong}")
        else:
            values[str(parameter.name)] = value
    return values


def _guess(name: str, names: Any) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


OF_TEXTS = ("unknown", "unlearned")  # parameters of a TextModel that are set as if they were its model's
MOST = 10_000  # cut-off of a metric
SHARED = ("n_jobs", "seed")  # parameters that a model's parts have from it
_Command = TypeVar("_Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Several options as one decorator; the help of a command shows the last first."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), options, command)


def setting_option(name: str, words: str, **attributes: Any) -> Callable[[Any], Any]:
    """``--set NAME=VALUE``, or ``--set-text``, ``--set-loss`` and the like."""
    part = name.removeprefix("--set").removeprefix("-")
    destination = f"{part}_settings" if part else "settings"
    return click.option(name, destination, multiple=True, metavar="NAME=VALUE", help=words, **attributes)


def _remember_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        Session.of(ctx).debug = True


_MARKS = {"tab": "\t", "\\t": "\t", "newline": "\n", "\\n": "\n"}  # words for what is hard to type


def _delimiter(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: one character, or the word tab."""
    mark = _MARKS.get(value or "", value)
    if value is not None and (len(mark or "") != 1 or str(mark) in '"\r\n'):
        raise click.BadParameter(f"must be one character such as ; or the word tab. Got {value!r} instead.")
    return mark


class Share(click.FloatRange):
    """A number from 0 to 1, without 0 where that makes no sense."""

    def __init__(self, above_zero: bool = False) -> None:
        super().__init__(0, 1, min_open=above_zero)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a sentence with the range and, for a percentage, what it is as a share."""
        number = math.nan
        with contextlib.suppress(ValueError):
            number = float(value)
        if 0 <= number <= 1 and not (self.min_open and number == 0):
            return number
        way = f"{number / 100:g} for {number:g}%" if 1 < number <= 100 else "such as 0.9"
        limits = "(0, 1]" if self.min_open else "[0, 1]"
        raise click.BadParameter(f"must be a number in {limits}, {way}. Got {str(value)!r} instead.", ctx, param)


def _names(_: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """A click callback: ``id,title`` and the option given twice as names."""
    return tuple(name.strip() for word in value for name in word.split(",") if name.strip())


def _single(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """A click callback: the value of an option that is given once, where click would take the last silently."""
    if len(values) > 1:
        raise click.BadParameter(f"must be one file. Got {', '.join(values)} instead: put them into one.")
    return values[0] if values else None


def vocabulary_option(words: str, *names: str) -> Callable[[Any], Any]:
    """``--vocabulary``, the file of one vocabulary."""
    return click.option("--vocabulary", *names, metavar="FILE", multiple=True, callback=_single, help=words)


# ``--threads``, ``--quiet`` and ``--debug``.
shared_options = together(
    click.option("--debug", is_flag=True, expose_value=False, callback=_remember_debug, hidden=True),
    click.option("--quiet", "-q", is_flag=True, help="No progress bars and no summary."),
    click.option("--threads", type=click.IntRange(min=1), metavar="N",
                 help="Number of threads; by default every core that this process may use."),
)  # fmt: skip
device_option = click.option("--device", metavar="NAME", help="Where the text encoder computes, for models with one: "
                             "auto, cpu or cuda.")  # fmt: skip
ranking_option = setting_option("--set", "A parameter of the model that matters when ranking, such as beam=20.")
known_labels_option = click.option("--known-labels", is_flag=True,
                                   help="Leave out labels that the model doesn't know, and rows without any other; by "
                                   "default they count as missed.")  # fmt: skip
seed_option = click.option("--seed", type=click.IntRange(min=0), metavar="N", help="The same as --set seed=N.")
label_names_option = click.option("--label-names", metavar="FILE", help="For matrices: names of the labels, one per "
                                  "line.")  # fmt: skip
test_labels_option = click.option("--test-labels", metavar="Y.npz", help="Labels of a --test file without labels (CSR "
                                  ".npz).")  # fmt: skip
# ``--checkpoint`` and ``--resume``.
resume_options = together(
    click.option("--resume/--no-resume", default=None,
                 help="Go on from where an interrupted training stopped, or start over although there is one."),
    click.option("--checkpoint", metavar="DIR", help="Where finished parts lie until the model is saved. "
                 "[default: the model's folder with .training]"),
)  # fmt: skip
# ``--ray``.
ray_option = click.option("--ray", "ray_address", metavar="ADDRESS",
                          help="Train on a Ray cluster: its address, auto for the one that this machine belongs to, or "
                          "local to start one here.")  # fmt: skip
# ``--memory-limit``, ``--force``, ``--checkpoint`` and ``--resume``.
work_options = together(
    resume_options,
    click.option("--force", is_flag=True,
                 help="Train even where the plan says that there is too little memory, or room on the disk."),
    click.option("--memory-limit", metavar="SIZE",
                 help="Train within so much memory, as in 2GB or 500MB; finished parts are then kept in files."),
)  # fmt: skip
# What is measured after a training.
test_options = together(
    test_labels_option,
    click.option("--test", metavar="FILE", help="Measure on these rows after training, and store the figures."),
)
# What labels that are codes are called.
vocabulary_options = together(
    click.option("--language", metavar="CODE", help="Language of the names of a --vocabulary, such as en."),
    vocabulary_option("Names of labels that are codes: lines of code, tab and name, a CSV with uri and label or "
                      "label_en, JSON lines with label and text, or SKOS."),
)  # fmt: skip
# What turns the labels of a corpus into URIs.
subjects_options = together(
    click.option("--language", metavar="CODE", help="Language of a vocabulary's names, such as en."),
    vocabulary_option("Subjects (TSV, CSV or SKOS) that turn labels of texts, as in Annif's .key files, into URIs.",
                      "subjects"),
)  # fmt: skip
# Which fields of an input go into an output.
output_fields_option = together(
    click.option("--guard-formulas", is_flag=True,
                 help="In a table that is written, let no cell begin with = + - @, a tab or CR: an apostrophe stands "
                 "before, so that no spreadsheet computes it."),
    click.option("--output-delimiter", metavar="CHAR", callback=_delimiter,
                 help="Separator of the cells of a table that is written. [default: a comma, or a tab in .tsv]"),
    click.option("--output-fields", multiple=True, metavar="NAMES", callback=_names,
                 help="Fields of the input that the output has too, such as id,title; none for none. "
                 "[default: all but text and labels]"),
)  # fmt: skip
# Of outputs: the formats that each option is for, and what these are.
_TABLES: tuple[tuple[str, ...], str] = ("csv", "tsv", "annif-csv"), "tables"
_OUTPUTS = dict.fromkeys(("guard_formulas", "output_delimiter", "output_separator"), _TABLES)
_OUTPUTS |= {"output_items": (("pecos",), "PECOS's files"), "blanks": (("fasttext",), "fastText's files")}


def check_output_options(output: str, format_: str | None) -> None:
    """Refuse what was said on the command line of an output in another format."""
    for name, (formats, words) in _OUTPUTS.items():
        source = click.get_current_context().get_parameter_source(name)
        if format_ not in formats and source is click.core.ParameterSource.COMMANDLINE:
            raise DataError(f"--{name.replace('_', '-')} is for {words}, and {output} is none of these.")


# How an input file is to be read: its format, its fields and where its labels are; and what all commands share.
input_options = together(
    shared_options,
    click.option("--first-feature", type=click.Choice(("0", "1")),
                 help="Number of the first feature in svmlight; by default found from the file."),
    click.option("--weighted-labels", is_flag=True, default=None,
                 help="Labels of XMC text or svmlight are written as label:weight."),
    click.option("--labels", metavar="Y.npz", help="Labels of a matrix file without labels (CSR .npz)."),
    click.option("--items", metavar="FILE", help="Names of the labels of PECOS's text files, the first for id 0."),
    click.option("--sheet", metavar="NAME", help="Sheet of a spreadsheet. [default: the only one that holds anything]"),
    click.option("--header/--no-header", default=None, help="Whether a table's first row has column names; by default "
                                                            "it has, unless columns are given by number."),
    click.option("--quoting/--no-quoting", "quoting", default=None,
                 help="Whether quotation marks around a table's cell quote it, or are part of the text. [default: they "
                 "quote it; in TSV, unless they can't]"),
    click.option("--delimiter", metavar="CHAR", callback=_delimiter,
                 help="Separator of a table's cells, such as ; or tab; by default a comma (a tab in .tsv), or what the "
                 "first row shows."),
    click.option("--encoding", metavar="NAME", help="Encoding of a file of text, such as cp1252 (Windows' Latin-1) or "
                 "utf-16. [default: utf-8, or what a byte order mark tells]"),
    click.option("--label-separator", metavar="TEXT", callback=lambda _, __, value: _MARKS.get(value, value),
                 help="Separator of the labels in a cell, or in a string of JSONL or Parquet; tab, newline, or "
                 "none for one label a cell. [default: the model's, or auto: ; in tables, blanks in Annif's CSV]"),
    click.option("--labels-field", metavar="NAME", help="Field or column of labels, or its number from 1. "
                 "[default: labels, or the model's]"),
    click.option("--text-field", "text_fields", multiple=True, metavar="NAME",
                 help="Field or column of text, or its number from 1; title,text (or the option again) joins several. "
                 "[default: text, or the model's]"),
    click.option("--format", "format_", type=click.Choice(tuple(FORMATS)),
                 help="Format of the input; by default recognised by name and content."),
)  # fmt: skip


def parse_settings(owner: type[Parameterized], settings: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """The parameters of ``owner`` that the words ``name=value`` give."""
    config = Config()
    values = config.read(owner, config.typed(settings, option))
    config.refuse()
    return values


def _read(owner: type[Parameterized], name: str, value: Any, plain: bool) -> Any:
    """A parameter's value, from words or, ``plain``, as a configuration file holds it."""
    outer, _, inner = name.partition("__")
    names = owner.parameter_names()
    part = part_class(owner, outer)
    if inner and part is not None:
        if inner in SHARED and inner in names:
            raise ParameterError(f"The {inner!r} parameter of {owner.__name__} is that of its {outer!r} too: set that.")
        return _read(part, inner, value, plain)
    if name not in names:
        raise ParameterError(f"{owner.__name__} has no parameter {name!r}. {_hint(owner, name)}")
    constraint = owner.constraints.get(name)
    if constraint is None or isinstance(constraint, Instance | Jobs):
        way = f"by {OPTIONS[name]}" if name in OPTIONS else "from Python alone"
        way = way if part is None else f"by its own parameters, as in {name}__{part.parameter_names()[0]}"
        raise ParameterError(f"The {name!r} parameter of {owner.__name__} is set {way}.")
    if not plain or (isinstance(value, str) and not constraint.accepts(value)):
        with contextlib.suppress(ValueError):
            value = constraint.parse(value)
    check_value(name, value, constraint, owner.__name__)
    return value


def part_class(owner: type[Parameterized], name: str) -> type[Parameterized] | None:
    """The class of the object that a parameter is, where it has parameters that the command line can set."""
    constraint = owner.constraints.get(name)
    classes = constraint.classes if isinstance(constraint, Instance) else ()
    if len(classes) != 1 or not issubclass(classes[0], Parameterized):
        return None
    params = inspect.signature(owner).parameters.values()  # what can't be made without arguments shows no usual parts
    return classes[0] if all(param.default is not param.empty for param in params) else None


def _hint(owner: type[Parameterized], name: str) -> str:
    """What may have been meant by a name that ``owner`` doesn't know."""
    names = owner.parameter_names()
    of_parts = [setting for setting, *_ in settable_parameters(owner)]
    if (sentence := called_here(name, [*names, *of_parts])) is not None:
        return sentence
    same = [setting for setting in of_parts if setting.rpartition("__")[2] == name]
    near = same or difflib.get_close_matches(name, [*names, *of_parts], n=1)
    words = " or ".join(map(repr, near))
    return f"Did you mean {words}?" if near else f"Its parameters are: {', '.join(names)}."


def settable_parameters(owner: type[Parameterized]) -> Iterator[tuple[str, Any, Constraint]]:
    """Name, default and range of every parameter that the command line can set; those of parts as ``ranker__beam``."""
    of_parts = []
    for name, parameter in inspect.signature(owner.__init__).parameters.items():
        constraint, part = owner.constraints.get(name), part_class(owner, name)
        if part is not None:
            of_parts.append((name, part))
        elif constraint is not None and not isinstance(constraint, Instance | Jobs):
            yield name, parameter.default, constraint
    model = owner() if of_parts else None
    for name, part in of_parts:
        usual = None if model is None else model.part(name)
        for inner, default, constraint in settable_parameters(part):
            if inner not in SHARED or inner not in owner.parameter_names():
                yield f"{name}__{inner}", getattr(usual, inner, default), constraint


class DescribedCommand(click.Command):
    """Lists below its options the parameters of ``owners``, by the option that sets them, after what ``sections``
    gives, titles with names and words, or a sentence. Only for the help are the modules imported that have them."""

    def __init__(
        self, *args: Any, owners: Mapping[str, type[Parameterized]] | None = None,
        sections: Callable[[], Iterable[tuple[str, Any]]] = lambda: (), **attributes: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **attributes)
        self.owners, self._sections = owners or {}, sections

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: list[tuple[str, Any]] = [*self._sections()]
        for option, owner in self.owners.items():  # those of a vectorizer have an option of their own
            lines = [line for line in describe_parameters(owner) if not line[0].startswith("vectorizer__")]
            sections.append((f"Parameters of {owner.__name__}, for {option}", lines))
        for title, lines in sections:
            if isinstance(lines, str):
                formatter.write_paragraph()
                formatter.write_text(lines)
                continue
            with formatter.section(title):
                formatter.write_dl(lines)


def describe_parameters(owner: type[Parameterized]) -> list[tuple[str, str]]:
    """Name and allowed range of every parameter that the command line can set, for ``--help``."""
    return [(f"{name}={default}", constraint.describe()) for name, default, constraint in settable_parameters(owner)]


def completions(lines: Iterable[tuple[str, str]], incomplete: str) -> list[CompletionItem]:
    """Of the help's names with words those that begin as what was typed; a parameter ends in its equals sign."""
    named = (("".join(words.partition("=")[:2]), allowed) for words, allowed in lines)
    return [CompletionItem(name, help=allowed) for name, allowed in named if name.startswith(incomplete)]


def cutoffs(_: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[int, ...]:
    """A click callback: ``-k 1,3,5`` and ``-k 1 -k 3`` as sorted ints."""
    result: set[int] = set()
    for word in ",".join(value).split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= MOST:
            raise click.BadParameter(f"must be ints in [1, {MOST}], as in 1,3,5. Got {word!r} instead.")
        result.add(int(word))
    return tuple(sorted(result))
