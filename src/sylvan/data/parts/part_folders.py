"""Writing and opening matrices in parts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan import kernels
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, matrix
from sylvan.data.formats.columnar import read_feature_columns, read_parquet
from sylvan.data.formats.jsonl import read_jsonl
from sylvan.data.parts import row_parts
from sylvan.data.parts.row_parts import RowParts, joined_path
from sylvan.data.streams import PathLike
from sylvan.data.text_rows import TextData
from sylvan.errors import DataError
from sylvan.labels.vocabulary import Vocabulary
from sylvan.parallel import split_ranges
from sylvan.params.wording import counted
from sylvan.runtime.checkpoint import checksum
from sylvan.runtime.jobs import Job, current_runner
from sylvan.store import State
from sylvan.store.npy import header

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
    >>> for i, words in enumerate(("whales at sea", "bread and cakes")):
    ...     data.write_jsonl(place / f"{i}.jsonl", [words] * 2, [[words.split()[0]]] * 2)
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
        jobs = [Job(f"look{i}", _looked, {"path": path, **looked}, cost(path)) for i, path in enumerate(paths)]
        seen = runner.run(jobs, "Looking for labels")
        if vocabulary is None:
            vocabulary = Vocabulary.from_labels(names for names, _ in seen)
        n_features = max((width for _, width in seen), default=0) if n_features is None else n_features
    arguments = {**read, "vectorizer": vectorizer, "vocabulary": vocabulary, "n_features": n_features}
    settings = _settings(**arguments)
    place = os.fspath(folder)
    targets = [os.path.join(place, part_name(i)) for i in range(len(paths))]
    existing = {name for name in os.listdir(place) if name.startswith("part-")} if os.path.isdir(place) else set()
    foreign = existing.difference(map(os.path.basename, targets))
    if foreign:
        raise DataError(f"{place!r} holds other parts, such as {min(foreign)!r}: choose another folder.")
    written = [
        Job(f"part{i}", _write_from, {**arguments, "path": path, "target": target, "settings": settings}, cost(path))
        for i, (path, target) in enumerate(zip(paths, targets, strict=True))
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
        features, rows = read_feature_columns(path, labels_field)
        width = features.shape[1]
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
        (features, rows), weights = read_feature_columns(path, labels_field), None
        if features.shape[1] > (n_features or 0):
            raise DataError(f"{path}: 'indices' must be below {n_features or 0}. Got {features.shape[1] - 1} instead.")
        features = features._replace(shape=(features.shape[0], n_features or 0))
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


_ROWS = 1 << 16
_FAULTS = {
    1: "'indptr' must start at 0, never fall, and end at the number of entries",
    2: "row {row} of 'indices' must hold column numbers in [0, {last}]",
    3: "row {row} of 'data' must hold finite numbers",
    4: "row {row} must name each column once, in rising order",
    5: "row {row} holds a stored zero",
}


def is_csr_folder(path: PathLike) -> bool:
    """Whether a folder has the files of :func:`save_csr`."""
    return all((Path(path) / f"{name}.npy").is_file() for name in row_parts.DTYPES)


def open_csr(folder: PathLike) -> Csr:
    """The matrix that :func:`save_csr` wrote, mapped into memory: pages are read when they are used.

    The matrix is verified, which reads it once; nothing of it is copied. Models take it wherever they take a matrix,
    and its pages can always be taken back by the system, so that it may be larger than the memory.

    Parameters
    ----------
    folder : path-like
        With ``indptr.npy`` (int64), ``indices.npy`` (int32), ``data.npy`` (float32) and ``shape.npy`` (two int64).

    Returns
    -------
    Csr
        Arrays that can't be written to.

    Raises
    ------
    DataError
        When a file is missing, of another type, or the matrix isn't canonical: rows sorted, columns once, no zeros.

    Examples
    --------
    >>> import tempfile
    >>> import scipy.sparse as sp
    >>> from sylvan import data
    >>> folder = tempfile.mkdtemp()
    >>> data.save_csr(folder, sp.eye(3))
    >>> data.open_csr(folder).to_scipy().toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    part = row_parts.LocalPart(os.fspath(folder))
    indptr, indices, values = (part.mapped(name) for name in row_parts.ARRAYS)
    fault, row = kernels.check_compressed(indptr, indices, values, part.shape[1])
    if not fault and int(indptr[-1]) != len(indices):
        fault = 1
    if fault:
        words = _FAULTS.get(fault, "row {row} is not canonical").format(row=row, last=part.shape[1] - 1)
        raise DataError(f"{part.path!r}: {words}.")
    return Csr(indptr, indices, values, part.shape)


def save_csr(folder: PathLike, blocks: Any) -> None:
    """Write a sparse matrix, or blocks of its rows, into a folder for :func:`open_csr`.

    Parameters
    ----------
    folder : path-like
        Made when it is missing; its matrix is replaced.
    blocks : sparse matrix, array of shape (n, d), or iterable of them
        Blocks are written one by one and must agree in their number of columns.

    Raises
    ------
    DataError
        When a block isn't a finite matrix, the blocks' columns differ, or the folder can't be written.
    """
    rows = isinstance(blocks, list | tuple) and bool(blocks) and isinstance(blocks[0], list | tuple)
    plain = rows and all(isinstance(value, int | float) for value in blocks[0])
    single = plain or isinstance(blocks, Csr | np.ndarray) or sp.issparse(blocks)
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        try:
            _write(place, [blocks] if single else blocks)
        finally:
            for name in row_parts.ARRAYS:
                (place / f"{name}.npy.part").unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{os.fspath(folder)!r} can't be written ({error.strerror or error}).") from error


def _write(place: Path, blocks: Iterable[Any]) -> None:
    n_rows, n_entries, n_columns = 0, 0, None
    with ExitStack() as stack:
        paths = {name: place / f"{name}.npy.part" for name in row_parts.ARRAYS}  # blocks may be of what is replaced
        files: dict[str, BinaryIO] = {name: stack.enter_context(open(path, "wb")) for name, path in paths.items()}
        for name, file in files.items():
            file.write(_header(name, 0))
        files["indptr"].write(np.zeros(1, np.int64).tobytes())
        wholes = (block if isinstance(block, Csr) else matrix(block, "The matrix", "columns") for block in blocks)
        for block in (
            part.between(*rows) for part in wholes for rows in split_ranges(part.shape[0], _ROWS) or [(0, 0)]
        ):
            if n_columns is not None and block.shape[1] != n_columns:
                raise DataError(
                    f"Block after row {n_rows} has {counted(block.shape[1], 'column')}, but those before {n_columns}."
                )
            n_columns = block.shape[1]
            files["indptr"].write((block.indptr[1:] + n_entries).astype("<i8").tobytes())
            files["indices"].write(block.indices.astype("<i4", copy=False).tobytes())
            files["data"].write(block.data.astype("<f4", copy=False).tobytes())
            n_rows, n_entries = n_rows + block.shape[0], n_entries + block.nnz
        for name, file in files.items():
            file.seek(0)
            file.write(_header(name, n_rows + 1 if name == "indptr" else n_entries))
            file.flush()
            os.fsync(file.fileno())
    (place / "shape.npy").unlink(missing_ok=True)  # without it the folder is no matrix: what is half replaced isn't
    for name, path in paths.items():
        path.replace(place / f"{name}.npy")
    np.save(place / "shape.npy", np.array([n_rows, n_columns or 0], np.int64))


def _header(name: str, size: int) -> bytes:
    """The header of an array of so many numbers; of one length for every number."""
    text = header(row_parts.DTYPES[name], (size,))
    assert len(text) == 128
    return text


_PART_VALUES = 1 << 24  # values of a part, where nothing else is said: 128 MB
_LABELS = "labels"
_NUMBERED = re.compile(r"part-\d{5,}")


def part_name(number: int) -> str:
    """``"part-00003"``: names whose order is that of the rows."""
    return f"part-{number:05d}"


def is_parts_folder(path: PathLike) -> bool:
    """Whether a folder holds parts."""
    names = _parts_among(os.listdir(path)) if os.path.isdir(path) else []
    return any(is_csr_folder(os.path.join(path, name)) for name in names)


def _parts_among(names: Sequence[str]) -> list[str]:
    return sorted(name for name in names if name.startswith("part-"))


def save_parts(folder: PathLike, X: Any, Y: Any = None, *, rows_per_part: int | None = None) -> None:
    """Write features, and labels beside them, as parts for :func:`open_parts`.

    Parameters
    ----------
    folder : path-like
        Parts are written as ``part-00000``, ``part-00001``, … in it; it must not hold other parts.
    X : sparse matrix or array of shape (n, d)
    Y : label matrix of shape (n, L), or lists of label ids, optional
    rows_per_part : int, optional
        By default parts of about 128 MB.

    Raises
    ------
    DataError
        When X or Y is malformed, they differ in their number of rows, or the folder can't be written.

    See Also
    --------
    write_parts : Makes parts of Parquet or JSONL files, on a cluster, too.
    """
    features = matrix(X, "X", "columns") if not isinstance(X, Csr) else X
    labels = None if Y is None else validate.labels(Y, n_rows=features.shape[0])
    name = os.fspath(folder)
    if os.path.isdir(name) and _parts_among(os.listdir(name)):
        raise DataError(f"{name!r} holds parts already: choose another folder, or remove them.")
    if rows_per_part is None:
        ranges = features.ranges(_PART_VALUES)
    elif isinstance(rows_per_part, (int, np.integer)) and rows_per_part >= 1:
        ranges = split_ranges(features.shape[0], int(rows_per_part))
    else:
        raise DataError(f"The 'rows_per_part' parameter must be an int of at least 1. Got {rows_per_part!r} instead.")
    ranges = ranges or [(0, 0)]
    paths = [os.path.join(name, part_name(number)) for number in range(len(ranges))]
    make_folders(paths)
    for path, (first, last) in zip(paths, ranges, strict=True):
        write_part(path, features.between(first, last), None if labels is None else labels.between(first, last))


def make_folders(paths: Sequence[str]) -> None:
    """Folders for parts: those that stay empty, where writing is interrupted, tell that not all are there."""
    for path in paths:
        if row_parts.is_url(path):
            raise DataError(f"Parts can't be written to {path!r}: write them into a folder, and copy it there.")
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise DataError(f"{path!r} can't be written: {error.strerror or error}.") from error


def write_part(path: str, features: Csr, labels: Csr | None) -> None:
    """One part, whole or not at all: its ``shape.npy``, without which it is none, comes last."""
    if labels is not None:
        save_csr(os.path.join(path, _LABELS), labels)
    save_csr(path, features)


def open_parts(folder: PathLike | Sequence[PathLike]) -> tuple[RowParts, Csr | None]:
    """Features in parts, of which rows are read when they are needed, and their labels.

    Parameters
    ----------
    folder : path-like, or sequence of path-like
        A folder with ``part-00000``, ``part-00001``, … as :func:`save_parts` writes them, or the parts one by one. Each
        may be a URL that fsspec reads, such as ``"s3://bucket/train/part-00000"``.

    Returns
    -------
    RowParts of shape (n, d), and Csr of shape (n, L) or None
        The labels of all rows are in memory, with as many columns as the part that has the most; None where the parts
        have none.

    Raises
    ------
    DataError
        When there are no parts, one is missing or can't be read, they don't agree in their columns, or only some have
        labels.
    ImportError
        For a URL, without fsspec.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from sylvan import XRLinear, data
    >>> folder = tempfile.mkdtemp()
    >>> data.save_parts(folder, np.eye(4).repeat(5, axis=0), np.arange(4).repeat(5), rows_per_part=8)
    >>> X, Y = data.open_parts(folder)
    >>> X.shape, len(X.paths)
    ((20, 4), 3)
    >>> XRLinear().fit(X, Y).rank(np.eye(4), k=1).labels.ravel().tolist()
    [0, 1, 2, 3]
    """
    if isinstance(folder, (str, os.PathLike)):
        paths = _listed(os.fspath(folder))
    else:
        paths = [os.fspath(path) for path in folder]
        if not paths:
            raise DataError("There is no part: at least one is needed.")
    features, widths = _opened(paths)
    for path, width in zip(paths, widths, strict=True):
        if width != widths[0]:
            raise DataError(f"{path!r} has {counted(width, 'column')}, but {paths[0]!r} has {widths[0]}.")
    return features, _labels(paths, features.first_rows)


def _opened(paths: Sequence[str]) -> tuple[RowParts, list[int]]:
    """The rows of parts, and how many columns each part has."""
    files = [row_parts.part_files(path) for path in paths]
    first_rows = np.append(0, np.cumsum([part.shape[0] for part in files]))
    n_rows, widths = int(first_rows[-1]), [part.shape[1] for part in files]
    if n_rows >= 2**31:
        raise DataError(f"The parts have {counted(n_rows, 'row')}. At most {2**31 - 1:,} are possible.")
    before = np.append(0, np.cumsum([part.n_values for part in files]))
    offsets = (_offsets(path, part) for path, part in zip(paths, files, strict=True))
    indptr = np.concatenate([[0], *(of_part[1:] + start for of_part, start in zip(offsets, before[:-1], strict=True))])
    return RowParts(tuple(paths), (n_rows, max(widths)), indptr.astype(np.int64), first_rows.astype(np.int64)), widths


def _listed(folder: str) -> list[str]:
    """The parts of a folder, in their order."""
    if not row_parts.is_url(folder) and is_csr_folder(folder):
        return [folder]
    names = row_parts.listed(folder)
    paths = [joined_path(folder, name) for name in _parts_among(names)]
    if not paths:
        raise DataError(f"{folder!r} holds no parts: folders such as 'part-00000', as save_parts writes them.")
    if all(_NUMBERED.fullmatch(os.path.basename(path)) for path in paths):
        wanted = [joined_path(folder, part_name(number)) for number in range(len(paths))]
        missing = sorted(set(wanted).difference(paths))
        if missing:
            raise DataError(f"{missing[0]!r} is missing: not all parts of {folder!r} are there.")
    return paths


def _offsets(path: str, part: row_parts.PartFiles) -> npt.NDArray[np.int64]:
    """Where a part's rows begin, verified."""
    offsets = part.whole("indptr")
    if offsets[0] != 0 or offsets[-1] != part.n_values or bool((np.diff(offsets) < 0).any()):
        raise DataError(f"{path!r} is damaged: 'indptr' must start at 0, never fall, and end at {part.n_values}.")
    return np.asarray(offsets, np.int64)


def _labels(paths: Sequence[str], first_rows: npt.NDArray[np.int64]) -> Csr | None:
    """The labels of all parts, or None where they have none."""
    places = [joined_path(path, _LABELS) for path in paths]
    if not row_parts.exists(joined_path(places[0], "shape.npy")):
        for place in places[1:]:
            if row_parts.exists(joined_path(place, "shape.npy")):
                raise DataError(f"{place!r} holds labels, but {paths[0]!r} has none: all parts have them, or none has.")
        return None
    parts, _ = _opened(places)
    for place, of_labels, of_part in zip(places, np.diff(parts.first_rows), np.diff(first_rows), strict=True):
        if of_labels != of_part:
            raise DataError(f"{place!r} has {counted(int(of_labels), 'row')}, but its part has {of_part}.")
    labels = parts.take(np.arange(parts.shape[0]))
    if labels.data.min(initial=0) < 0:
        row = int(np.searchsorted(labels.indptr, int(labels.data.argmin()), "right")) - 1
        raise DataError(f"{parts.place_of(row)} must hold relevances from 0.")
    return labels
