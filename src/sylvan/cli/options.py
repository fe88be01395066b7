"""Options that several verbs share, and ``--set name=value`` against the declared constraints."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sylvan.cli.io.formats import FORMATS
from sylvan.cli.session import OPTIONS, Session
from sylvan.errors import DataError, ParameterError
from sylvan.params.fields import Constraint, Instance, Jobs, Parameterized, check_value
from sylvan.params.wording import counted

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

    def refuse(self, others: Iterable[str]) -> None:
        """One error for everything that is wrong with the file and otherwise."""
        problems = [*self.problems, *others]
        if len(problems) == 1:
            raise ParameterError(problems[0])
        if problems:
            listed = "".join(f"\n  - {problem}" for problem in problems)
            raise ParameterError(f"{counted(len(problems), 'setting')} are wrong:{listed}")


def config_of(ctx: click.Context) -> Config:
    """The configuration that the command was given; an empty one when it was given none."""
    result = ctx.meta.get(_KEY)
    return result if isinstance(result, Config) else Config()


def _option_name(parameter: click.Parameter) -> str:
    """What an option or argument is called in a file: as on the command line, without dashes."""
    if isinstance(parameter, click.Argument):
        return (parameter.metavar or parameter.name or "").lower()
    return max(parameter.opts, key=len).lstrip("-")


def _preset(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    tables = _read_toml(path)
    config = Config(path)
    for name, table in tables.items():
        if name not in TABLES:
            allowed = "; ".join(f"[{known}], {words}" for known, words in TABLES.items())
            config.problems.append(f"{path} has no use for {name!r}.{_guess(name, TABLES)} It takes {allowed}.")
        elif not isinstance(table, Mapping):
            config.problems.append(f"{path}: {name!r} must be a table of names and values. Got {table!r:.60} instead.")
    config.parameters = _named(tables.get("parameters"))
    config.text = _named(tables.get("text"))
    ctx.default_map = {**(ctx.default_map or {}), **_options(ctx, config, _named(tables.get("options")))}
    ctx.meta[_KEY] = config


# ``--config FILE`` is read before every other option, which are its to preset.
config_option = click.option("--config", metavar="FILE", is_eager=True, expose_value=False, callback=_preset,
                             help="Options and parameters from a TOML file; the command line overrides it."
                             )  # fmt: skip


def _named(table: Any) -> dict[str, Any]:
    """A table whose names are written with underscores, those of a table in it as ``ranker__beam``; else nothing."""
    values: dict[str, Any] = {}
    for name, value in table.items() if isinstance(table, Mapping) else ():
        plain = str(name).replace("-", "_")
        inner = _named(value) if isinstance(value, Mapping) else {}
        values |= {f"{plain}__{at}": one for at, one in inner.items()} if isinstance(value, Mapping) else {plain: value}
    return values


def _options(ctx: click.Context, config: Config, table: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's options by click's names; those that it can't take become problems."""
    options = {_option_name(p).replace("-", "_"): p for p in ctx.command.params if p.name not in _ELSEWHERE}
    values: dict[str, Any] = {}
    for name, value in table.items():
        parameter, words = options.get(name), name.replace("_", "-")
        if parameter is None:
            guess = _guess(words, [known.replace("_", "-") for known in options])
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


def _guess(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _read_toml(path: str) -> dict[str, Any]:
    """The file's tables."""
    if not path.lower().endswith(".toml"):
        raise DataError(f"--config takes a .toml file. Got {path!r} instead.")
    if not os.path.isfile(path):
        raise DataError(f"There is no file {path!r} to read options from.")
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    with open(path, "rb") as stream:
        try:
            tables: dict[str, Any] = tomllib.load(stream)
        except ValueError as error:  # so is bad UTF-8
            raise DataError(f"{path} is not TOML: {' '.join(str(error).split())}.") from error
    return tables


OF_TEXTS = "unknown"  # the parameter of a TextModel that is set as if it were its model's
_MOST = 10_000  # cut-off of a metric
SHARED = ("n_jobs", "seed")  # parameters that a model's parts have from it
_Command = TypeVar("_Command", bound=Callable[..., Any])


def together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Several options as one decorator; the help of a command shows the last first."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), options, command)


def setting_option(name: str, words: str, **more: Any) -> Callable[[Any], Any]:
    """``--set NAME=VALUE``, or ``--set-text``, ``--set-loss`` and the like."""
    part = name.removeprefix("--set").removeprefix("-")
    destination = f"{part}_settings" if part else "settings"
    return click.option(name, destination, multiple=True, metavar="NAME=VALUE", help=words, **more)


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


def _separator(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback; "none" stays a word, as None is that nothing was said."""
    return _MARKS.get(value or "", value)


def _names(_: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """A click callback: ``id,title`` and the option given twice as names."""
    return tuple(name.strip() for word in value for name in word.split(",") if name.strip())


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
seed_option = click.option("--seed", type=click.IntRange(min=0), metavar="N", help="The same as --set seed=N.")
label_names_option = click.option("--label-names", metavar="FILE", help="For matrices: names of the labels, one per "
                                  "line.")  # fmt: skip
test_labels_option = click.option("--test-labels", metavar="Y.npz", help="Labels of a --test file without labels (CSR "
                                  ".npz).")  # fmt: skip
# What is measured after a training.
test_options = together(
    test_labels_option,
    click.option("--test", metavar="FILE", help="Measure on these rows after training, and store the figures."),
)
# What labels that are codes are called.
vocabulary_options = together(
    click.option("--language", metavar="CODE", help="Language of the names of a --vocabulary, such as en."),
    click.option("--vocabulary", metavar="FILE",
                 help="Names of labels that are codes: lines of code, tab and name, a CSV with uri and label or "
                 "label_en, JSON lines with label and text, or SKOS."),
)  # fmt: skip
# What turns the labels of a corpus into URIs.
subjects_options = together(
    click.option("--language", metavar="CODE", help="Language of a vocabulary's names, such as en."),
    click.option("--vocabulary", "subjects", metavar="FILE",
                 help="Subjects (TSV, CSV or SKOS) that turn labels of texts, as in Annif's .key files, into URIs."),
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
# How an input file is to be read: its format, its fields and where its labels are.
input_options = together(
    click.option("--first-feature", type=click.Choice(("0", "1")),
                 help="Number of the first feature in svmlight; by default found from the file."),
    click.option("--weighted-labels", is_flag=True, default=None,
                 help="Labels of XMC text or svmlight are written as label:weight."),
    click.option("--labels", metavar="Y.npz", help="Labels of a matrix file without labels (CSR .npz)."),
    click.option("--items", metavar="FILE", help="Names of the labels of PECOS's text files, the first for id 0."),
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
    click.option("--label-separator", metavar="TEXT", callback=_separator,
                 help="Separator of the labels in a cell, or in a string of JSONL or Parquet; tab, newline, or "
                 "none for one label a cell. [default: ; in tables, blanks in Annif's CSV]"),
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
    values, problems = read_settings(owner, settings, option)
    Config().refuse(problems)
    return values


def read_settings(
    owner: type[Parameterized], settings: Sequence[str], option: str = "--set", preset: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """As :func:`parse_settings`, with what is wrong as a list of sentences. ``preset`` holds values by name as a
    configuration file gives them; ``settings`` go before them."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            problems.append(f"{option} takes name=value. Got {setting!r} instead.")
        elif name in values:
            problems.append(f"{option} gives {name!r} twice.")
        else:
            values[name] = text.strip()
    for name, value in {**(preset or {}), **values}.items():
        try:
            values[name] = _read(owner, name, value, typed=name not in values)
        except ParameterError as error:
            problems.append(str(error))
    return values, problems


def read_model_settings(
    owner: type[Parameterized], settings: Sequence[str], preset: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """As :func:`read_settings`, with those of the TextModel that a model over matrices is put into for texts apart."""
    from sylvan.models.text import TextModel
    from sylvan.models.text_estimator import TextEstimator

    of_texts: list[str] = []
    preset_of_texts: dict[str, Any] = {}
    if OF_TEXTS not in owner.parameter_names() and not issubclass(owner, TextEstimator):
        of_texts = [setting for setting in settings if setting.partition("=")[0].strip() == OF_TEXTS]
        preset_of_texts = {name: value for name, value in preset.items() if name == OF_TEXTS}
    rest = {name: value for name, value in preset.items() if name not in preset_of_texts}
    values, problems = read_settings(owner, [word for word in settings if word not in of_texts], preset=rest)
    texts, wrong = read_settings(TextModel, of_texts, preset=preset_of_texts)
    return values, texts, [*problems, *wrong]


def _read(owner: type[Parameterized], name: str, value: Any, typed: bool) -> Any:
    """A parameter's value, from words or, ``typed``, as a configuration file holds it."""
    outer, _, inner = name.partition("__")
    known = owner.parameter_names()
    part = part_class(owner, outer)
    if inner and part is not None:
        if inner in SHARED and inner in known:
            raise ParameterError(f"The {inner!r} parameter of {owner.__name__} is that of its {outer!r} too: set that.")
        return _read(part, inner, value, typed)
    if name not in known:
        raise ParameterError(f"{owner.__name__} has no parameter {name!r}. {_hint(owner, name)}")
    constraint = owner.constraints.get(name)
    if constraint is None or isinstance(constraint, Instance | Jobs):
        way = f"by {OPTIONS[name]}" if name in OPTIONS else "from Python alone"
        way = way if part is None else f"by its own parameters, as in {name}__{part.parameter_names()[0]}"
        raise ParameterError(f"The {name!r} parameter of {owner.__name__} is set {way}.")
    if not typed or (isinstance(value, str) and not constraint.accepts(value)):
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
    given = inspect.signature(owner).parameters.values()  # what can't be made without arguments shows no usual parts
    return classes[0] if all(one.default is not one.empty for one in given) else None


def _hint(owner: type[Parameterized], name: str) -> str:
    """What may have been meant by a name that ``owner`` doesn't know."""
    known = owner.parameter_names()
    of_parts = [setting for setting, *_ in settable_parameters(owner)]
    same = [setting for setting in of_parts if setting.rpartition("__")[2] == name]
    near = same or difflib.get_close_matches(name, [*known, *of_parts], n=1)
    words = " or ".join(map(repr, near))
    return f"Did you mean {words}?" if near else f"Its parameters are: {', '.join(known)}."


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
    """Lists below its options what ``sections`` gives: titles with names and words, or a sentence. Only then are the
    modules imported that have them."""

    def __init__(self, *args: Any, sections: Callable[[], Iterable[tuple[str, Any]]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, lines in self._sections():
            if isinstance(lines, str):
                formatter.write_paragraph()
                formatter.write_text(lines)
                continue
            with formatter.section(title):
                formatter.write_dl(lines)


def describe_parameters(owner: type[Parameterized]) -> list[tuple[str, str]]:
    """Name and allowed range of every parameter that the command line can set, for ``--help``."""
    return [(f"{name}={default}", constraint.describe()) for name, default, constraint in settable_parameters(owner)]


def complete_parameters(owner: type[Parameterized], incomplete: str) -> list[CompletionItem]:
    """The parameters whose names begin as what stands after ``--set``."""
    named = ((words.partition("=")[0] + "=", allowed) for words, allowed in describe_parameters(owner))
    return [CompletionItem(name, help=allowed) for name, allowed in named if name.startswith(incomplete)]


def cutoffs(_: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[int, ...]:
    """A click callback: ``-k 1,3,5`` and ``-k 1 -k 3`` as sorted ints."""
    result: set[int] = set()
    for word in ",".join(value).split(","):
        if not word.strip().isdecimal() or not 1 <= int(word) <= _MOST:
            raise click.BadParameter(f"must be ints in [1, {_MOST}], as in 1,3,5. Got {word!r} instead.")
        result.add(int(word))
    return tuple(sorted(result))
