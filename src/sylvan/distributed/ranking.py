"""Batch ranking on a Ray cluster: datasets by actors of Ray Data, files by one worker each."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.data.formats import columnar
from sylvan.data.formats.jsonl import stream_jsonl
from sylvan.data.formats.rankings import LabelOf, open_rankings
from sylvan.data.other_fields import RecordSource
from sylvan.data.streams import PathLike, remove_unfinished, unpacked_name
from sylvan.data.text_rows import field_names
from sylvan.distributed.ray_runner import RayRunner, ask_nodes, check_nodes, need_ray, ray
from sylvan.errors import DataError, ModelError, ParameterError, SylvanError
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.models.blocks import answer, load_ranking, rank_blocks, set_device, set_ranking, set_threads, unknown_texts
from sylvan.parallel import progress, quiet
from sylvan.runtime.jobs import Job, current_runner
from sylvan.store.write import LOCK, updating

Format = Literal["jsonl", "parquet"]
Answers = tuple[TopK, "list[list[str]] | None", int]  # the last: texts of which the model knows no word
_FEATURES = ("indices", "values")  # the columns of sparse features, unless others are named
_NAME = "The dataset"
_NAMED = 10  # files that an error names
_LINES = (".jsonl", ".ndjson", ".json")
_ROWS = 2048  # of a block


@dataclass(frozen=True)
class Ranker:
    """A saved model as the workers of a cluster rank with it: mapped once by each process, the same on every node."""

    folder: str  # its absolute path
    checksum: str  # of its manifest: another model isn't taken for it
    k: int | None  # None with a rule alone
    parameters: tuple[tuple[str, Any], ...] = ()  # of the model, as far as they aren't as saved
    device: str | None = None  # of its encoder
    n_threads: int = 1
    # `allowed` and `denied`, and as `rule` the arguments of `choose`: with others it is the same model still
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(folder: str | os.PathLike[str], k: int | None, options: Mapping[str, Any], **fields: Any) -> Ranker:
        """The ranker of the model that is in ``folder`` now. Options that are None are left out."""
        options = {name: value for name, value in options.items() if value is not None}
        for name in ("allowed", "denied"):
            if isinstance(options.get(name), str) or getattr(options.get(name), "ndim", 1) != 1:
                raise ParameterError(f"The {name!r} parameter must be a list of labels for every row.")
        path = os.path.abspath(folder)
        ranker = Ranker(path, str(store.contents(path)["checksum"]), k, options=options, **fields)
        if k is not None:
            validate.count(k, "k", high=max(ranker.model().n_labels_, MOST_ANSWERS))
        return ranker

    def model(self) -> Any:
        """The model, mapped when this process first asks for it."""
        return _mapped(self)

    def inputs(self, text: str | Sequence[str] | None, features: str | Sequence[str] | None) -> tuple[str, ...]:
        """The fields or columns that the model ranks by: of texts, by default those of its training, or of features."""
        is_text = self.model().takes_texts
        if (features if is_text else text) is not None:
            other, taken = ("features", "texts") if is_text else ("text", "features")
            raise ParameterError(f"The {other!r} parameter isn't for the model in {self.folder!r}: it takes {taken}.")
        if is_text:
            return field_names(tuple(self.model().text_fields_) if text is None else text)
        columns = (features,) if isinstance(features, str) else tuple(_FEATURES if features is None else features)
        if not all(isinstance(name, str) for name in columns) or len(columns) != 2 - isinstance(features, str):
            wanted = "the column of the vectors, or a pair of those of ids and values"
            raise ParameterError(f"The 'features' parameter must be {wanted}. Got {features!r} instead.")
        return columns

    def rank(self, rows: Any) -> Answers:
        """The best labels of some rows, their names where labels have any, and the number of unknown texts."""
        model = self.model()
        top, names = answer(model, rows, self.k, **self.options)
        n_unknown = int(unknown_texts(model, rows, top).sum())
        return TopK(top.labels, top.scores), names, n_unknown  # without the vocabulary, which each would carry home

    def check_nodes(self, module: Any) -> None:
        """Have every node open the model, all at once."""
        for name, fault in ask_nodes(module, _fault, self):
            if fault:
                words = f"The node {name!r} can't open the model, whose folder must be one that all nodes see"
                raise ModelError(f"{words}: {fault}")


def _fault(ranker: Ranker) -> str:
    """On a node: why the model can't be used here; empty where it can."""
    try:
        ranker.model()
        return ""
    except (SylvanError, ImportError) as error:  # ImportError: of an extra that this node lacks
        return str(error)


@functools.lru_cache(maxsize=1)
def _mapped(ranker: Ranker) -> Estimator:
    model = load_ranking(ranker.folder)
    if store.contents(ranker.folder)["checksum"] != ranker.checksum:
        raise ModelError(f"The model in {ranker.folder!r} was replaced by another while rows were ranked with it.")
    set_ranking(model, dict(ranker.parameters))
    set_threads(model, ranker.n_threads)
    if ranker.device is not None:
        set_device(model, ranker.device)
    return model


def rank(
    dataset: Any, model: PathLike, k: int = 10, *, text: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None, columns: Sequence[str] = ("labels", "scores"), allowed: Any = None,
    denied: Any = None, batch_size: int = 1024, actors: int | None = None, num_cpus: float = 1, num_gpus: float = 0,
) -> Any:  # fmt: skip
    """Rank the rows of a dataset of Ray Data with a saved model.

    Nothing is ranked until the result is read or written. Its rows are in the order of the dataset's, whose option
    ``preserve_order`` is set for that. Each actor maps the model into memory once; one that is lost is replaced, and
    its batches are ranked again.

    Parameters
    ----------
    dataset : ray.data.Dataset
        A row for each text, or for the features of each row.
    model : path-like
        The folder of a saved model, on a disk that all nodes see.
    k : int
        Maximum number of labels per row.
    text : str or sequence of str, optional
        The column of the text, or several, which are joined by blanks; by default those of the model's training.
    features : str or pair of str, optional
        For a model of features: the column of dense vectors, or those of ids and values of sparse ones;
        ("indices", "values") by default.
    columns : pair of str
        The names of the columns that are added.
    allowed, denied : optional
        As of the model's ``rank``: one list for every row.
    batch_size : int
        Rows that are ranked at a time.
    actors : int, optional
        At most so many; as many as there is room for by default.
    num_cpus, num_gpus : float
        What each actor needs. It has as many threads as it has whole CPUs.

    Returns
    -------
    ray.data.Dataset
        With two more columns of lists, best first, which are shorter where there are fewer answers: names of labels
        (ids where they have no names) and float32 scores, the same as of ``sylvan.load(model).rank``. A null is an
        empty text.

    Raises
    ------
    ImportError
        Without Ray Data.
    ModelError
        When there is no model, or a node can't open it.
    ParameterError
        For a value out of its range.
    DataError
        For a column that is missing or there already, as far as the dataset's columns are known; else, as for what
        isn't a text or features of the model, when the result is read.

    Examples
    --------
    ::

        texts = ray.data.read_parquet("/data/texts")
        sylvan.distributed.rank(texts, "/data/model", k=5).write_parquet("/data/tags")
    """
    module, data = need_ray(), need_ray("ray.data")
    if not isinstance(dataset, data.Dataset):
        raise ParameterError(f"The 'dataset' parameter must be a ray.data.Dataset, not {type(dataset).__name__}.")
    batch_size = validate.count(batch_size, "batch_size")
    limit = None if actors is None else validate.count(actors, "actors")
    ranker = Ranker.of(model, k, {"allowed": allowed, "denied": denied}, n_threads=max(1, int(num_cpus)))
    inputs, outputs = ranker.inputs(text, features), tuple(columns)
    if isinstance(columns, str) or [type(name) for name in outputs] != [str, str] or outputs[0] == outputs[1]:
        raise ParameterError(f"The 'columns' parameter must be two names. Got {columns!r} instead.")
    schema = dataset.schema(fetch_if_missing=False)
    if schema is not None:
        _check_columns(schema.names, inputs, outputs)
    check_nodes(module)
    ranker.check_nodes(module)
    result = dataset.map_batches(
        _Actor, fn_constructor_args=(ranker, inputs, outputs), batch_size=batch_size, batch_format="pyarrow",
        compute=data.ActorPoolStrategy(min_size=1, max_size=limit), num_cpus=num_cpus, num_gpus=num_gpus or None,
    )  # fmt: skip
    result.context.execution_options.preserve_order = True
    return result


class _Actor:
    """Opens the model, and makes batches of rows, as tables of Arrow, into the same with answers."""

    def __init__(self, ranker: Ranker, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        self._ranker, self._inputs, self._outputs = ranker, inputs, outputs
        self._model = ranker.model()

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        _check_columns(table.column_names, self._inputs, self._outputs)
        if self._model.takes_texts:
            records = table.select(list(dict.fromkeys(self._inputs))).to_pylist()
            rows: Any = [row[0] for row in columnar.records_as_rows(_NAME, records, self._inputs, None, None)]
        else:
            rows = columnar.features_of_table(_NAME, table, self._inputs, self._model.n_features_)
        top, names, _ = self._ranker.rank(rows)
        valid = top.labels >= 0
        offsets = pa.array(np.concatenate(([0], np.cumsum(valid.sum(axis=1)))), pa.int32())
        labels = pa.array(top.labels[valid]) if names is None else pa.array(chain.from_iterable(names), pa.string())
        for name, flat in zip(self._outputs, (labels, pa.array(top.scores[valid])), strict=True):
            table = table.append_column(name, pa.ListArray.from_arrays(offsets, flat))
        return table


def _check_columns(names: Sequence[str], inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Refuse a dataset in which a column is missing, or there already."""
    columnar.columns_of(_NAME, names, inputs, None, "")
    for name in outputs:
        if name in names:
            raise DataError(f"{_NAME} has a column {name!r} already: give the added ones other names, columns=(…, …).")


class RankedFiles(NamedTuple):
    """What a ranking of files has left.

    Attributes
    ----------
    paths : list of str
        The output for each input, in their order.
    n_rows : int
        Rows of all of them.
    n_unknown : int
        Texts of all files of which the model knows no word: they have no labels.
    """

    paths: list[str]
    n_rows: int
    n_unknown: int


@dataclass(frozen=True)
class _RowFile:
    """A file of JSON lines or Parquet, read block by block: the fields or columns of texts, or of features."""

    path: str
    fields: tuple[str, ...]
    is_text: bool

    def blocks(self, wanted: int) -> Iterator[tuple[Any, None]]:
        if self.is_text:
            stream = columnar.stream_parquet if self.path.lower().endswith(columnar.PARQUET_ENDINGS) else stream_jsonl
            for block in stream(self.path, text_fields=self.fields, labels_field=None, rows=_ROWS):
                yield block.texts, None
        else:
            for X in columnar.stream_features(self.path, self.fields, wanted, _ROWS):
                yield X, None


def rank_files(
    inputs: Sequence[PathLike], model: PathLike, output_folder: PathLike, k: int = 10, *,
    text: str | Sequence[str] | None = None, features: str | Sequence[str] | None = None,
    format: Format | None = None, allowed: Any = None, denied: Any = None,
) -> RankedFiles:  # fmt: skip
    """Rank files on a Ray cluster, each into a file of the same name in a folder.

    Within ``with sylvan.distributed.ray(…):`` it is that cluster, else the one that this process is connected to, or
    one of this machine. A file takes its name when it is complete, in place of what stood there. A call that was
    broken off begins again.

    Parameters
    ----------
    inputs : sequence of path-like
        JSON lines (``.gz`` and ``.xz`` too) or Parquet (``.parquet``, ``.pq``), on a disk that all nodes see. Each is
        the work of one worker, a few thousand rows in memory at a time.
    model : path-like
        The folder of a saved model, on such a disk.
    output_folder : path-like
        Likewise; made when it is missing.
    k : int
        Maximum number of labels per row.
    text : str or sequence of str, optional
        The field or column of the text, or several, which are joined; by default those of the model's training.
    features : str or pair of str, optional
        For a model of features: the field or column of dense vectors, or those of ids and values of sparse ones;
        ("indices", "values") by default.
    format : {"jsonl", "parquet"}, optional
        Of the output; by default that of the input.
    allowed, denied : optional
        As of the model's ``rank``: one list for every row.

    Returns
    -------
    RankedFiles

    Raises
    ------
    ImportError
        Without Ray.
    ModelError
        When there is no model, or a node can't open it.
    ParameterError
        For a value out of its range, and two inputs with one name.
    DataError
        For inputs that can't be read, each by name with its line; the rankings of the others are there then. Before
        anything begins: when an input is missing, or a node doesn't see the folder.

    Examples
    --------
    ::

        with sylvan.distributed.ray("auto"):
            sylvan.distributed.rank_files(sorted(glob("/data/texts/*.parquet")), "/data/model", "/data/tags", k=5)
    """
    ranker = Ranker.of(model, k, {"allowed": allowed, "denied": denied})
    fields, is_text = ranker.inputs(text, features), ranker.model().takes_texts
    sources = [_RowFile(os.path.abspath(path), fields, is_text) for path in inputs]
    return rank_sources(sources, ranker, os.fspath(output_folder), format)


def rank_sources(
    sources: Sequence[Any], ranker: Ranker, output_folder: str, format: Format | None = None,
    label_of: LabelOf | None = None,
) -> RankedFiles:  # fmt: skip
    """As :func:`rank_files`, of anything that is read in blocks, with absolute paths. ``label_of`` gives the label of a
    URI; workers must be able to import it."""
    need_ray()
    folder = os.path.abspath(output_folder)
    targets = [os.path.join(folder, name) for name in _names(sources, folder, format)]
    for source in sources:
        if not os.path.exists(source.path):
            raise DataError(f"There is no file {source.path!r}.")
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
    if not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise DataError(f"The folder {folder!r} can't be made, or nothing may be written there.")
    # Ray Data's writers name files by themselves, and its readers don't say which line is at fault: so a job for each.
    inputs = {"ranker": ranker, "label_of": label_of}
    jobs = [
        Job(f"file{number}", _rank_file, {"source": source, "target": target, **inputs},
            float(os.path.getsize(source.path)), title=f"ranking {source.path}")
        for number, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]  # fmt: skip
    counts: list[tuple[int, int]] = []
    faults: list[str] = []
    outer, lock = current_runner(1), Path(folder, LOCK)
    with updating(folder), nullcontext(outer) if isinstance(outer, RayRunner) else ray() as runner:
        ranker.check_nodes(need_ray())
        for name, is_there in ask_nodes(need_ray(), Path.is_file, lock):
            if is_there != lock.is_file():
                raise DataError(f"The node {name!r} doesn't see {folder!r}, which must be a folder that all nodes see.")
        with progress("ranking", len(jobs), "file") as bar:

            def deliver(number: int, result: tuple[int, int] | str) -> None:
                faults.append(result) if isinstance(result, str) else counts.append(result)
                remove_unfinished(targets[number])  # of a worker that was lost, now or in an earlier call
                bar.update(1)

            runner.stream(jobs, deliver)
    if faults:
        n_ranked = len(jobs) - len(faults)
        said = {0: "", 1: " The other one is ranked."}.get(n_ranked, f" The other {n_ranked} are ranked.")
        sentence = faults[0] if len(faults) == 1 else f"{len(faults)} of {len(jobs)} files can't be ranked."
        raise DataError("\n  - ".join([sentence + said, *(sorted(faults)[:_NAMED] if len(faults) > 1 else [])]))
    return RankedFiles(targets, sum(rows for rows, _ in counts), sum(unknown for _, unknown in counts))


def _rank_file(source: Any, target: str, ranker: Ranker, label_of: LabelOf | None) -> tuple[int, int] | str:
    """In a worker: the numbers of rows and of unknown texts of a file, or a sentence that says why it isn't ranked."""
    model, n_rows, n_unknown = ranker.model(), 0, 0
    key = "probabilities" if "rule" in ranker.options else "scores"
    try:
        changed = os.path.getmtime(source.path)
        with quiet(), open_rankings(target, model.n_labels_, label_of, key) as writer:
            for top, names, _, unknown in rank_blocks(model, source, ranker.k, **ranker.options):
                writer.write(top, names, source.next_fields() if isinstance(source, RecordSource) else None)
                n_rows, n_unknown = n_rows + len(top), n_unknown + unknown
            if os.path.getmtime(source.path) != changed:
                raise DataError(f"{source.path} was changed while it was ranked.")
        return n_rows, n_unknown
    except ModelError:
        raise
    except (SylvanError, OSError) as error:
        return str(error)


def _names(sources: Sequence[Any], folder: str, format: Format | None) -> list[str]:
    """The names of the outputs: those of the inputs where their endings say the format already."""
    if format not in (None, "jsonl", "parquet"):
        raise ParameterError(f"The 'format' parameter must be 'jsonl', 'parquet' or None. Got {format!r} instead.")
    if not sources:
        raise ParameterError("There are no files to rank.")
    names: dict[str, str] = {}
    for source in sources:
        name = os.path.basename(source.path.rstrip("/\\"))
        is_parquet = format == "parquet" or (format is None and name.lower().endswith(columnar.PARQUET_ENDINGS))
        endings = columnar.PARQUET_ENDINGS if is_parquet else _LINES
        packed = len(name.lower()) - len(unpacked_name(name))  # letters of .gz and the like
        stem, ending = os.path.splitext(name[: len(name) - packed])
        if ending.lower() not in endings or (packed and is_parquet):
            name = f"{stem}{endings[0]}"
        if name in names:
            raise ParameterError(f"{names[name]} and {source.path} would both be ranked into {name!r}.")
        if os.path.realpath(os.path.join(folder, name)) == os.path.realpath(source.path):
            raise ParameterError(f"The ranking of {source.path} would take its place: give another folder.")
        names[name] = source.path
    return list(names)
