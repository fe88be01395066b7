"""``sylvan task TASK``: train a network with a softmax over many classes, by any sampler and loss."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from sylvan.cli import options as of
from sylvan.cli.session import LazyGroup, need_subcommand, say
from sylvan.errors import DataError
from sylvan.lazy import need_torch
from sylvan.params.wording import counted

if TYPE_CHECKING:
    from sylvan.neural.loop.training import Job

_SIZES = (10_000, 100_000, 1_000_000)  # of class sets whose defaults stand in the help
_language_options = of.together(
    of.shared_options,
    of.vocabulary_option("The words to use; by default those of the training text."),
)
_SEPARATORS = {"blanks": " ", "tabs": "\t", "commas": ","}
_recommender_options = of.together(
    of.shared_options,
    click.option("--filter-once", is_flag=True,
                 help="Count interactions once and drop by these counts, not until all that are left have enough."),
    click.option("--min-interactions", type=int, default=10, show_default=True, metavar="N",
                 help="Drop users and items with fewer; 1 keeps all."),
    click.option("--order", type=click.Choice(("time", "line")), default="time", show_default=True,
                 help="Order of a user's items: by timestamp where there are timestamps, or by line."),
    click.option("--columns", metavar="USER,ITEM[,TIME]",
                 help="Columns of user, item and time, by number (1,2,4) or by name in the first line."),
    click.option("--header", is_flag=True, help="Pass over the first line, which names columns."),
    click.option("--separator", type=click.Choice(tuple(_SEPARATORS)),
                 help="Separator of fields; by default found from the first line."),
    click.option("--layout", type=click.Choice(("interactions", "users")),
                 help="Contents of a line; by default found from the first 1,000 lines."),
)  # fmt: skip
_PARTS = ("validation", "test")
_classifier_options = of.together(
    of.setting_option("--set-text", "A parameter of the TfidfVectorizer, such as ngrams=1,2; repeat it for several."),
    of.test_labels_option,
    click.option("--test", metavar="FILE", help="Rows to measure the best model on."),
    click.option("--validation-labels", metavar="Y.npz", help="Labels of a --validation file that holds none."),
    click.option("--validation", metavar="FILE", help="Rows that decide which model is the best."),
    of.input_options,
)  # fmt: skip
_training_options = of.together(
    click.option("--resume/--no-resume", default=None,
                 help="Resume from the checkpoint in --out, or start again although there is one."),
    click.option("--device", default="auto", show_default=True, metavar="NAME",
                 help="cpu, cuda, cuda:1, ...; auto takes CUDA if there is one."),
    click.option("--clip-norm", type=float, metavar="X", help="Maximum norm of the gradients."),
    click.option("--evaluate-every", type=int, metavar="N", help="Evaluate every N steps instead of once per epoch."),
    click.option("--time-limit", type=float, metavar="SECONDS", help="Stop after this many seconds."),
    click.option("--max-steps", type=int, metavar="N", help="Stop after N steps."),
    click.option("--patience", type=int, metavar="N", help="Stop after N evaluations without improvement."),
    click.option("--epochs", type=int, default=10, show_default=True, metavar="N", help="Maximum number of epochs."),
    click.option("--seed", "seeds", type=click.IntRange(min=0), multiple=True, metavar="N",
                 help="Seed of all random numbers; repeat it to train once with each. [default: 0]"),
)  # fmt: skip


def _make_language_model(paths: Sequence[str], flags: dict[str, Any], settings: dict[str, Any]) -> Job:
    """Train a language model and measure its perplexity over the whole vocabulary.

    DATA is a folder with train.txt, valid.txt and test.txt, or three such files: plain text, one sentence per line,
    words separated by blanks, compressed as .xz or .gz or not.

    \b
    Examples:
      sylvan task language-model ptb/ --sampler midx-rq --epochs 20 --patience 3 --out runs/lm
      sylvan task language-model ptb/ --loss full --out runs/full
      sylvan task language-model ptb/ --loss beam-tree --set-loss tree=kmeans --sampler unigram --out runs/tree
      sylvan task language-model train.txt valid.txt test.txt --set model=transformer --out runs/transformer
      sylvan task language-model ptb/ --sampler midx-aware-rq --set shared=false --out runs/midx
    """
    from sylvan.tasks.language_model import LanguageModel, read_corpus

    if len(paths) not in (1, 3):
        words = "a folder, or three files: to train on, to validate on and to test on"
        raise DataError(f"DATA must be {words}. Got {counted(len(paths), 'word')} instead.")
    corpus = flags["read"] = flags.get("read") or read_corpus(*paths, vocabulary=flags["vocabulary"])  # by all seeds
    say(flags, f"Read {corpus!r}.")
    return LanguageModel(corpus, **settings)


def _make_recommender(paths: Sequence[str], flags: dict[str, Any], settings: dict[str, Any]) -> Job:
    """Train a recommender of next items and measure NDCG and recall at 10, 20 and 50 over the full catalogue.

    DATA is a file with a line 'user item' or 'user item timestamp' for each interaction, or with a line 'user item item
    ...' for each user in the order of time; fields are parted by blanks, tabs or commas. Packed as .xz or .gz or not.

    \b
    Examples:
      sylvan task sequential-recommendation log.tsv --out runs/rec
      sylvan task sequential-recommendation log.tsv --set encoder=gru4rec --set split=last --out runs/gru
      sylvan task sequential-recommendation ratings.csv --columns userId,movieId,timestamp --out runs/films
      sylvan task sequential-recommendation users.txt --layout users --min-interactions 5 --loss full --out runs/full
      sylvan task sequential-recommendation log.tsv --sampler unigram --seed 0 --seed 1 --seed 2 --out runs/three
    """
    from sylvan.data import read_sequences
    from sylvan.tasks.sequential_recommendation import SequentialRecommendation

    if len(paths) != 1:
        raise DataError(f"DATA must be one file of interactions. Got {counted(len(paths), 'word')} instead.")
    columns: list[int | str] | None = None
    if flags["columns"] is not None:  # numbers, or names
        words = [word.strip() for word in flags["columns"].split(",")]
        columns = [int(word) for word in words] if all(word.isdecimal() for word in words) else list(words)
    options = {name: flags[name] for name in ("layout", "header", "order", "min_interactions")}
    options |= {"separator": _SEPARATORS.get(flags["separator"]), "until_stable": not flags["filter_once"]}
    sequences = flags["read"] = flags.get("read") or read_sequences(paths[0], columns=columns, **options)
    say(flags, f"Read {sequences.describe()}.")
    return SequentialRecommendation(sequences, **settings)


def _make_classifier(paths: Sequence[str], flags: dict[str, Any], settings: dict[str, Any]) -> Job:
    """Train embeddings of sparse features and of labels, and measure P@1, P@3 and P@5 over all labels.

    DATA is whatever 'sylvan train' reads: texts with labels (JSONL, CSV, TSV, fastText's or PECOS's lines, Annif's
    corpora, Parquet), which become TF-IDF features, or a matrix (the XMC repository's text format, svmlight, .npz with
    --labels Y.npz). Without --validation a tenth of the rows is set apart; without --test the figures are those of
    validation. Of texts, the vectorizer and the labels' names are saved in the folder of the results, for sylvan.load.

    \b
    Examples:
      sylvan task extreme-classification train.jsonl --test test.jsonl --out runs/xc
      sylvan task extreme-classification train.txt --validation dev.txt --test test.txt --sampler midx-pq --out runs/pq
      sylvan task extreme-classification X.trn.npz --labels Y.trn.npz --test X.tst.npz --test-labels Y.tst.npz --out m
      sylvan task extreme-classification books.jsonl --text-field title --text-field author --loss full --out runs/full
    """
    from sylvan.tasks.extreme_classification import ExtremeClassification

    if len(paths) != 1:
        raise DataError(f"DATA must be one file to train on. Got {counted(len(paths), 'word')} instead.")
    if flags.get("read") is None:  # which several seeds share
        flags["read"] = _read_parts(paths[0], flags)
    (features, labels), holdout = flags["read"]
    return ExtremeClassification(features, labels, **holdout, **settings)


def _read_parts(path: str, flags: dict[str, Any]) -> tuple[tuple[Any, Any], dict[str, tuple[Any, Any]]]:
    """Features and labels to train on, and those of the holdout parts by their names."""
    from sylvan.cli.io.inputs import open_input
    from sylvan.labels.targets import encode_labels, names_and_weights
    from sylvan.text import TfidfVectorizer

    source: Any = open_input(path, flags, part="trn")
    holdout: dict[str, Any] = {}
    for part in _PARTS:
        if flags[part] is None:
            if flags[f"{part}_labels"] is not None:
                raise DataError(f"--{part}-labels goes with --{part}, which was not given.")
            continue
        holdout[part] = open_input(flags[part], {**flags, "labels": flags[f"{part}_labels"], "format_": None})
        if holdout[part].is_text != source.is_text:
            words = [f"{place} is {input_.words}" for place, input_ in ((path, source), (flags[part], holdout[part]))]
            raise DataError(f"The --{part} file must be like the training file, but {' and '.join(words)}.")
    if not source.is_text:
        if flags["text_settings"]:
            raise DataError(f"--set-text is for text, but {path} is {source.words}.")
        rows = source.read()
        for other in holdout.values():  # which count their features as the training file does
            if other.first_feature is None:
                other.first_feature = source.first_feature
        return rows, {part: holdout[part].read() for part in holdout}
    parameters = of.parse_settings(TfidfVectorizer, flags["text_settings"], "--set-text")
    vectorizer = TfidfVectorizer(**{"n_jobs": flags["threads"], **parameters})
    texts, labels = source.read()
    vocabulary, Y = encode_labels(labels)
    X = vectorizer.fit_transform(texts)
    flags["text_parts"] = {"vectorizer": vectorizer, "labels": vocabulary}
    parts = {}
    for part, other in holdout.items():
        texts, labels = other.read()
        names = [list(names_and_weights(row, number)) for number, row in enumerate(labels)]
        parts[part] = vectorizer.transform(texts), vocabulary.encode(names, unknown="ignore")
    return (X, Y), parts


class Task(NamedTuple):
    """What one task has that others haven't."""

    summary: str
    module: str  # of its job, in sylvan.tasks
    job: str
    options: Callable[[Any], Any]
    make_job: Callable[[Sequence[str], dict[str, Any], dict[str, Any]], Job]  # of paths, options and settings
    defaults: Mapping[str, Any] = {}  # of the options that all tasks have


TASKS = {
    "language-model": Task(
        "Predict the next word: an LSTM or a Transformer on plain text.", "language_model", "LanguageModel",
        _language_options, _make_language_model,
    ),
    "sequential-recommendation": Task(
        "Predict a user's next item: SASRec or GRU4Rec on ordered interactions.", "sequential_recommendation",
        "SequentialRecommendation", _recommender_options, _make_recommender, {"epochs": 50, "patience": 10},
    ),
    "extreme-classification": Task(
        "Predict labels of sparse features, from everything that train reads.", "extreme_classification",
        "ExtremeClassification", _classifier_options, _make_classifier, {"epochs": 50, "patience": 10},
    ),
}  # fmt: skip


def _owner_of(task: str) -> Any:
    """The class of the task's job."""
    need_torch("sylvan task")
    return getattr(importlib.import_module(f"sylvan.tasks.{TASKS[task].module}"), TASKS[task].job)


def _values(task: str) -> dict[str, dict[str, str]]:
    """The samplers, the losses and the parameters that ``--set`` takes, by option; none where PyTorch isn't there."""
    try:
        from sylvan.sampling.by_name import HEADS, LOSSES, SAMPLERS

        parameters = dict(of.describe_parameters(_owner_of(task)))
    except ImportError:
        return {}
    return {"sampler": dict(SAMPLERS), "loss": {**LOSSES, **HEADS}, "settings": parameters}


def _sections(task: str) -> Iterator[tuple[str, Any]]:
    """The same for the help."""
    values = _values(task)
    for title, lines in zip(("Samplers", "Losses", f"Parameters of {TASKS[task].job}, for --set"), values.values()):  # noqa: B905
        yield title, list(lines.items())
    if not values:
        yield "", 'Needs PyTorch: pip install "sylvan[neural]".'


class _RefreshEvery(click.Option):
    """Its default is the schedule's, which is there with PyTorch only."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        try:
            from sylvan.neural import RefreshSchedule
        except ImportError:
            return record
        usual = ", ".join(f"{RefreshSchedule.for_classes(n).every} with {counted(n, 'class')}" for n in _SIZES)
        return None if record is None else (record[0], f"{record[1]} [default: {usual}]")


@click.group("task", cls=LazyGroup, title="Tasks", lines={name: task.summary for name, task in TASKS.items()},
             make=lambda name: _task_command(name))  # fmt: skip
@click.pass_context
def command(ctx: click.Context) -> None:
    """Train a network with a softmax over many classes, by any sampler and loss, and measure it.

    Needs PyTorch: pip install "sylvan[neural]".

    \b
    Example:
      sylvan task language-model texts/ --sampler midx-rq --epochs 10 --out runs/lm
    """
    need_subcommand(ctx)


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of samplers, losses and parameters; PyTorch is loaded for them, so only where they are asked for."""
    return of.completions(_values(str(ctx.command.name)).get(str(parameter.name), {}).items(), incomplete)


_model_options = of.together(
    click.option("--refresh-every", type=int, metavar="N",
                 cls=_RefreshEvery, help="Steps between two refreshes of the sampler's index."),
    of.setting_option("--set-loss", "A parameter of the loss; repeat it for several."),
    of.setting_option("--set-sampler", "A parameter of the sampler; repeat it for several."),
    of.setting_option("--set", "A parameter of the task (below); repeat it for several.", shell_complete=_complete),
    click.option("--samples", type=int, metavar="N", help="Negatives: the same as --set n_samples=N. [default: "
                 "the task's number, or half of the classes where that is less]"),
    click.option("--loss", metavar="NAME", default="auto", show_default=True, shell_complete=_complete,
                 help="What is minimised (below); full needs no sampler. auto is head-and-tail, but sampled-softmax "
                 "for in-batch negatives."),
    click.option("--sampler", metavar="NAME", shell_complete=_complete,
                 help="Where negatives come from (below). [default: unigram in language models, else midx-aware-rq]"),
)  # fmt: skip


def _task_command(task: str) -> click.Command:
    kind = TASKS[task]

    @click.command(task, cls=of.DescribedCommand, sections=partial(_sections, task), help=kind.make_job.__doc__)
    @click.argument("data", metavar="DATA...", nargs=-1, required=True)
    @click.option("--out", "folder", required=True, metavar="FOLDER",
                  help="Folder for results.json, convergence.png and .svg, checkpoint and best model.")  # fmt: skip
    @_model_options
    @_training_options
    @kind.options
    @click.pass_context
    def run_task(ctx: click.Context, /, **flags: Any) -> None:
        owner = _owner_of(task)  # says what is missing where PyTorch isn't there
        from sylvan.cli.task_runs import run

        run(ctx, owner, kind.make_job, flags)

    for parameter in run_task.params:
        if isinstance(parameter, click.Option) and parameter.name in kind.defaults:
            parameter.default, parameter.show_default = kind.defaults[parameter.name], True
    return run_task
