"""Files ranked on a cluster, each by one worker into a file of its own; whatever was interrupted goes on."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, cast, get_args

from sylvan.data.formats.columnar import need_pyarrow
from sylvan.data.formats.rankings import PARQUET, LabelOf, open_rankings
from sylvan.data.other_fields import OtherFields, RecordSource
from sylvan.data.streams import PathLike, remove_unfinished
from sylvan.distributed.cluster import need_ray, ray
from sylvan.distributed.nodes import ask_nodes
from sylvan.distributed.ranked_folder import RankedFolder, checksum_of
from sylvan.distributed.ranker import Ranker
from sylvan.distributed.ray_runner import RayRunner
from sylvan.distributed.sources import FeatureFile, TextFile, is_parquet, stamp
from sylvan.errors import DataError, ModelError, ParameterError, SylvanError
from sylvan.models.at_work import Source, rank_blocks
from sylvan.parallel import progress, quiet
from sylvan.runtime.jobs import Job, current_runner
from sylvan.store import updating

Format = Literal["jsonl", "parquet"]
_NAMED = 10  # files that an error names
_LINES = (".jsonl", ".ndjson", ".json")
_PACKED = (".gz", ".xz")


class RankedFiles(NamedTuple):
    """What a ranking of files has left.

    Attributes
    ----------
    paths : list of str
        The output for each input, in their order.
    n_rows : int
        Rows of all of them.
    n_ranked : int
        Files that this call ranked; the others were there.
    n_unknown : int
        Texts of all files of which the model knows no word: they have no labels.
    """

    paths: list[str]
    n_rows: int
    n_ranked: int
    n_unknown: int


def rank_files(
    inputs: Sequence[PathLike],
    model: PathLike,
    output_folder: PathLike,
    k: int = 10,
    *,
    text: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    format: Format | None = None,
    allowed: Any = None,
    denied: Any = None,
) -> RankedFiles:
    """Rank files on a Ray cluster, each into a file of the same name in a folder.

    Within ``with sylvan.distributed.ray(…):`` it is that cluster, else the one that this process is connected to, or
    one of this machine. A file that is there is whole. What an interrupted call has left is found to be whole by its
    checksum, and not ranked again; what is missing or damaged is.

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
        anything begins: when the folder holds rankings by another model, with another k or of files that have changed.

    Examples
    --------
    ::

        with sylvan.distributed.ray("auto"):
            sylvan.distributed.rank_files(sorted(glob("/data/texts/*.parquet")), "/data/model", "/data/tags", k=5)
    """
    lists = {name: value for name, value in (("allowed", allowed), ("denied", denied)) if value is not None}
    ranker = Ranker.of(model, k, lists=lists)
    paths = [os.path.abspath(path) for path in inputs]
    named = ranker.inputs(text, features)
    kind = TextFile if ranker.model().takes_texts else FeatureFile
    sources: list[Source] = [kind(path, named) for path in paths]
    return rank_sources(sources, ranker, os.fspath(output_folder), format)


def rank_sources(
    sources: Sequence[Source],
    ranker: Ranker,
    output_folder: str,
    format: Format | None = None,
    label_of: LabelOf | None = None,
    fields: Sequence[OtherFields | None] | None = None,
) -> RankedFiles:
    """As :func:`rank_files`, of anything that is read in blocks, with absolute paths. ``label_of`` gives the label of a
    URI; workers must be able to import it. ``fields`` says of each source which other fields of its rows the output
    has."""
    need_ray()
    folder = os.path.abspath(output_folder)
    names = _names(sources, folder, format)
    ranked = RankedFolder(folder)
    with updating(folder):
        ranked.open(_made_by(ranker, label_of))
        work = [
            _Work(source, os.path.join(folder, name), _made_of(source, now, other), other)
            for source, name, now, other in zip(
                sources, names, [stamp(one.path) for one in sources], fields or [None] * len(sources), strict=True
            )
        ]
        todo = [one for one, name in zip(work, names, strict=True) if not ranked.finished(name, one.made_of)]
        if todo:
            ranked.begin(names)
            with _cluster() as runner:
                _check_nodes(ranker, ranked)
                _run(runner, ranker, ranked, todo, label_of)
    paths = [one.target for one in work]
    return RankedFiles(paths, ranked.total("rows", names), len(todo), ranked.total("unknown", names))


def _made_of(source: Source, now: Sequence[int], fields: OtherFields | None) -> dict[str, Any]:
    """What a ranking depends on of its file."""
    other = {} if fields is None else {"fields": repr(fields)}
    return {"path": source.path, "read_as": repr(source), "stamp": now, **other}


def _made_by(ranker: Ranker, label_of: LabelOf | None) -> dict[str, Any]:
    """Whatever the rankings depend on besides the files."""
    rule = {} if ranker.rule is None else {"probabilities": True, **ranker.rule}
    lists = {name: _crc(_listed(name, labels)) for name, labels in ranker.lists.items()}
    subjects = None if label_of is None else _crc(repr(label_of))
    return {"model": ranker.checksum, "k": ranker.k, **dict(ranker.parameters), **rule, **lists, "subjects": subjects}


def _listed(name: str, labels: Any) -> str:
    """A list of labels as JSON."""
    if isinstance(labels, str) or getattr(labels, "ndim", 1) != 1:
        raise ParameterError(f"The {name!r} parameter must be a list of labels for every row.")
    listed = list(labels.tolist() if hasattr(labels, "tolist") else labels)
    return json.dumps(sorted(listed, key=str) if isinstance(labels, set | frozenset) else listed, default=str)


class _Work(NamedTuple):
    """A file to be ranked: where it is, where its ranking goes, and what it is now."""

    source: Source
    target: str
    made_of: Mapping[str, Any]
    fields: OtherFields | None = None

    @property
    def size(self) -> float:
        """In bytes."""
        return float(self.made_of["stamp"][0])


def _names(sources: Sequence[Source], folder: str, format: Format | None) -> list[str]:
    """The names of the outputs."""
    if format not in (None, *get_args(Format)):
        raise ParameterError(f"The 'format' parameter must be 'jsonl', 'parquet' or None. Got {format!r} instead.")
    if not sources:
        raise ParameterError("There are no files to rank.")
    names: dict[str, str] = {}
    for source in sources:
        name = _name(os.path.basename(source.path.rstrip("/\\")), format)
        if name in names:
            raise ParameterError(f"{names[name]} and {source.path} would both be ranked into {name!r}.")
        if os.path.realpath(os.path.join(folder, name)) == os.path.realpath(source.path):
            raise ParameterError(f"The ranking of {source.path} would take its place: give another folder.")
        names[name] = source.path
    if any(is_parquet(name) for name in names):
        need_pyarrow()
    return list(names)


def _name(name: str, format: Format | None) -> str:
    """The name of an output: that of the input where its ending says the format already."""
    lower = name.lower()
    if format == "parquet" or (format is None and is_parquet(name)):
        return name if is_parquet(name) else f"{_stem(name)}{PARQUET[0]}"
    plain = lower.removesuffix(".gz").removesuffix(".xz")
    return name if plain.endswith(_LINES) else f"{_stem(name)}{_LINES[0]}"


def _stem(name: str) -> str:
    root, ending = os.path.splitext(name)
    return os.path.splitext(root)[0] if ending.lower() in _PACKED else root


@contextmanager
def _cluster() -> Iterator[RayRunner]:
    """The runner of the block that this is in, if it is of a cluster; else that of a cluster at hand."""
    runner = current_runner(1)
    if isinstance(runner, RayRunner):
        yield runner
        return
    with ray() as made:
        yield made


def _check_nodes(ranker: Ranker, ranked: RankedFolder) -> None:
    """Have every node open the model and look at the folder."""
    module, record = need_ray(), ranked.record
    ranker.check_nodes(module)
    for name, fault in ask_nodes(module, _unseen, str(record), checksum_of(record)):
        if fault:
            raise DataError(
                f"The node {name!r} can't write to {str(record.parent)!r}, which must be a folder that all nodes see: "
                f"{fault}."
            )


def _unseen(record: str, checksum: str) -> str:
    """On a node: why its folder isn't the one that is meant; empty where it is."""
    try:
        if checksum_of(record) != checksum:
            return "it has another folder of that name"
    except OSError as error:
        return str(error.strerror or error)
    return "" if os.access(os.path.dirname(record), os.W_OK) else "nothing may be written there"


def _run(
    runner: RayRunner, ranker: Ranker, ranked: RankedFolder, work: Sequence[_Work], label_of: LabelOf | None
) -> None:
    """Rank the files, the largest first; those that can't be are said when all others are done."""
    faults: list[str] = []
    common = {"ranker": ranker, "label_of": label_of}
    jobs = [
        Job(f"file{number}", _rank_file, {"work": one, **common}, cost=one.size, title=f"ranking {one.source.name}")
        for number, one in enumerate(work)
    ]
    with progress("ranking", len(work), "file") as bar:

        def deliver(number: int, result: Mapping[str, Any] | str) -> None:
            if isinstance(result, str):
                faults.append(result)
            else:
                ranked.add(os.path.basename(work[number].target), result)
            remove_unfinished(work[number].target)  # of a worker that was lost, now or in an earlier call
            bar.update(1)

        runner.stream(jobs, deliver)
    if faults:
        raise DataError(_complaint(sorted(faults), len(work)))


def _rank_file(ranker: Ranker, work: _Work, label_of: LabelOf | None) -> dict[str, Any] | str:
    """In a worker: what is to be said of the ranking of a file, or the sentence that says why there is none."""
    source, target, made_of, fields = work
    model, n_rows, n_unknown = ranker.model(), 0, 0
    asked: Any = source if fields is None else RecordSource(cast(Any, source), fields)
    try:
        with quiet(), open_rankings(target, model.n_labels_, label_of, ranker.key) as writer:
            for top, names, _, unknown in rank_blocks(model, asked, ranker.k, rule=ranker.rule, **ranker.lists):
                writer.write(top, names, None if fields is None else asked.next_fields())
                n_rows, n_unknown = n_rows + len(top), n_unknown + unknown
            if list(stamp(source.path)) != list(made_of["stamp"]):
                raise DataError(f"{source.name} was changed while it was ranked.")
        return {
            "made_of": dict(made_of), "rows": n_rows, "bytes": os.path.getsize(target), "checksum": checksum_of(target),
            "unknown": n_unknown,
        }  # fmt: skip
    except ModelError:
        raise
    except SylvanError as error:
        return str(error)


def _complaint(faults: Sequence[str], n: int) -> str:
    rest = n - len(faults)
    said = f"The other {rest} are ranked." if rest > 1 else "The other one is ranked." if rest else ""
    if len(faults) == 1:
        return f"{faults[0]} {said}".rstrip()
    shown = [*faults[:_NAMED], *([f"and {len(faults) - _NAMED} more"] if len(faults) > _NAMED else [])]
    return f"{len(faults)} of {n} files can't be ranked. {said}".rstrip() + "".join(f"\n  - {one}" for one in shown)


def _crc(text: str) -> str:
    return f"crc32:{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"
