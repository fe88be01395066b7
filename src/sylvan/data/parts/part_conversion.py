"""Files of texts or of feature lists as parts of a matrix: a job a file, on threads or on a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.data.formats.columnar import read_feature_columns, read_parquet
from sylvan.data.formats.jsonl import read_jsonl
from sylvan.data.parts.part_folders import is_csr_folder, make_folders, part_name, write_part
from sylvan.data.streams import PathLike
from sylvan.data.text_rows import TextData
from sylvan.errors import DataError
from sylvan.labels.vocabulary import Vocabulary
from sylvan.runtime.checkpoint import checksum
from sylvan.runtime.jobs import Job, current_runner
from sylvan.store import State

_SOURCE = "source.json"  # in a part: what it was made of


class _Vectorizer(Protocol):
    """A fitted vectoriser of texts."""

    def transform_rows(self, texts: Sequence[str]) -> Csr: ...

    def to_state(self) -> State: ...


def write_parts(
    inputs: Sequence[PathLike], folder: PathLike, vectorizer: _Vectorizer | None = None, *,
    vocabulary: Vocabulary | None = None, n_features: int | None = None, text_fields: str | Sequence[str] = "text",
    labels_field: str = "labels", n_jobs: int | None = 1,
) -> Vocabulary:  # fmt: skip
    """Make parts for :func:`open_parts` of Parquet or JSONL files, one of each.

    Within ``with sylvan.distributed.ray():`` a file is read by a worker, which holds it whole; elsewhere by a thread.
    Interrupted, the same call goes on with the files that aren't done.

    Parameters
    ----------
    inputs : sequence of path-like
        In the order of the rows; files that all workers see.
    folder : path-like
        Of the parts.
    vectorizer : TfidfVectorizer, optional
        Fitted; for files of texts. Without one, files are Parquet with the columns ``indices`` (lists of int) and
        ``values`` (lists of numbers) beside the labels.
    vocabulary : Vocabulary, optional
        The labels' names; labels that aren't among them are left out. By default the files are read once more, to see
        which there are: all, sorted.
    n_features : int, optional
        Without a vectoriser, the number of features; by default the largest index and one.
    text_fields, labels_field : str
        As :func:`read_jsonl` and :func:`read_parquet` take them.
    n_jobs : int, optional
        Threads, where there is no cluster.

    Returns
    -------
    Vocabulary
        The names of the labels, by their ids in the parts.

    Raises
    ------
    DataError
        When a file can't be read, which is named; or when the folder can't be written, or holds parts of other files,
        or of other labels or features.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sylvan import TfidfVectorizer, TextModel, XRLinear, data
    >>> place = pathlib.Path(tempfile.mkdtemp())
    >>> for at, words in enumerate(("whales at sea", "bread and cakes")):
    ...     data.write_jsonl(place / f"{at}.jsonl", [words] * 2, [[words.split()[0]]] * 2)
    >>> files = [place / "0.jsonl", place / "1.jsonl"]
    >>> vectorizer = TfidfVectorizer().fit(["whales at sea", "bread and cakes"])
    >>> names = data.write_parts(files, place / "parts", vectorizer)
    >>> model = XRLinear().fit(*data.open_parts(place / "parts"))
    >>> TextModel.from_parts(vectorizer, model, names).rank(["cakes"], k=1).names
    [['bread']]
    """
    runner, paths = current_runner(n_jobs), [os.fspath(path) for path in inputs]
    if not paths:
        raise DataError("There is no file: at least one is needed.")

    def cost(path: str) -> float:
        return _status(path).st_size + 1.0

    read: dict[str, Any] = {"text_fields": text_fields, "labels_field": labels_field}
    if vocabulary is None or (vectorizer is None and n_features is None):
        looked = {"texts": vectorizer is not None, **read}
        jobs = [Job(f"look{at}", _looked, {"path": path, **looked}, cost(path)) for at, path in enumerate(paths)]
        seen = runner.run(jobs, "Looking for labels")
        if vocabulary is None:
            vocabulary = Vocabulary.from_labels(names for names, _ in seen)
        n_features = max((width for _, width in seen), default=0) if n_features is None else n_features
    given = {**read, "vectorizer": vectorizer, "vocabulary": vocabulary, "n_features": n_features}
    settings = _settings(**given)
    place = os.fspath(folder)
    targets = [os.path.join(place, part_name(at)) for at in range(len(paths))]
    there = {name for name in os.listdir(place) if name.startswith("part-")} if os.path.isdir(place) else set()
    others = there.difference(map(os.path.basename, targets))
    if others:
        raise DataError(f"{place!r} holds other parts, such as {min(others)!r}: choose another folder.")
    written = [
        Job(f"part{at}", _write_from, {**given, "path": path, "target": target, "settings": settings}, cost(path))
        for at, (path, target) in enumerate(zip(paths, targets, strict=True))
        if not _done(path, target, settings)
    ]
    make_folders(targets)
    runner.run(written, "Writing parts")
    return vocabulary


def _settings(vectorizer: _Vectorizer | None, vocabulary: Vocabulary, **plain: Any) -> str:
    """A checksum of what numbers depend on beside the files: parts of other names or terms don't go together."""
    states = [of.to_state() for of in (vocabulary, vectorizer) if of is not None]
    text = json.dumps([plain, [state.params for state in states]], sort_keys=True, default=list)
    arrays = [array for state in states for _, array in sorted(state.arrays.items())]
    return checksum(np.frombuffer(text.encode(), np.uint8), *arrays)


def _status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise DataError(f"{path!r} can't be read: {error.strerror or error}.") from error


def _source(path: str, settings: str) -> dict[str, Any]:
    """What tells a part from those of other files, of the same one before it was changed, and of other settings."""
    status, name = _status(path), os.path.basename(path)
    return {"file": name, "bytes": status.st_size, "changed": status.st_mtime_ns, "settings": settings}


def _done(path: str, target: str, settings: str) -> bool:
    """Whether a part is there; one that was made of something else is refused."""
    if not is_csr_folder(target):
        return False
    try:
        with open(os.path.join(target, _SOURCE), encoding="utf-8") as file:
            before = json.load(file)
    except (OSError, ValueError):
        before = None
    if before != _source(path, settings):
        raise DataError(
            f"{target!r} was made of another file than {path!r}, before that was changed, or with other labels, "
            "features or fields: remove the parts, or choose another folder."
        )
    return True


def _texts(path: str, text_fields: str | Sequence[str], labels_field: str) -> TextData:
    read = read_parquet if path.endswith(".parquet") else read_jsonl
    return read(path, text_fields=text_fields, labels_field=labels_field)


def _looked(path: str, texts: bool, text_fields: str | Sequence[str], labels_field: str) -> tuple[list[str | int], int]:
    """The labels of a file, each once, and how many features it has."""
    if texts:
        rows, width = _texts(path, text_fields, labels_field).labels, 0
    else:
        found = read_feature_columns(path, labels_field)
        rows, width = found.labels, found.n_features
    labels = {label for row in rows for label in row}
    try:
        Vocabulary.from_labels([labels])
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    return list(labels), width


def _write_from(
    path: str, target: str, vectorizer: _Vectorizer | None, vocabulary: Vocabulary, n_features: int | None,
    text_fields: str | Sequence[str], labels_field: str, settings: str,
) -> None:  # fmt: skip
    """Read a file and write its part."""
    source = _source(path, settings)  # as it is before it is read
    if vectorizer is None:
        found = read_feature_columns(path, labels_field)
        features, rows, weights = found.matrix(n_features or 0), found.labels, None
    else:
        data = _texts(path, text_fields, labels_field)
        features, rows, weights = vectorizer.transform_rows(data.texts), data.labels, data.weights
    labels = validate.labels(vocabulary.encode(rows, weights, unknown="ignore"))
    try:
        with open(os.path.join(target, _SOURCE), "w", encoding="utf-8") as file:
            json.dump(source, file)
    except OSError as error:
        raise DataError(f"{target!r} can't be written: {error.strerror or error}.") from error
    write_part(target, features, labels)
