"""Annif's full-text corpora: folders of texts, each with a file of its subjects."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from sylvan.data.formats.subjects import SubjectVocabulary
from sylvan.data.streams import PathLike, open_read
from sylvan.data.text_rows import (
    Label,
    Row,
    TextData,
    collect,
    encoded,
    in_blocks,
    paired,
    quoted,
    text_lines,
    unweighted,
)  # fmt: skip
from sylvan.errors import DataError
from sylvan.labels.uris import bare_uri, looks_like_uri
from sylvan.parallel import progress

__all__ = ["read_annif_folder", "stream_annif_folder", "write_annif_folder"]

_KINDS = {".tsv": "URIs", ".key": "labels"}


def read_annif_folder(
    folder: PathLike, *, vocabulary: SubjectVocabulary | None = None, require_labels: bool = True
) -> TextData:
    """Read one of Annif's full-text corpora: a folder of texts, each with a file of its subjects.

    ``name.txt`` is a text; beside it lies ``name.tsv``, a line a subject with ``<URI>``, a tab and its label, or
    ``name.key``, a line a subject with its label alone; of both the first is taken. Also ``name.json``, an object with
    ``"text"`` and ``"subjects"``. Texts come in the order of their names.

    Parameters
    ----------
    folder : path-like
    vocabulary : SubjectVocabulary, optional
        Turns the labels of ``.key`` files into URIs; needed for a folder that has both kinds.
    require_labels : bool
        Whether every text must have such a file. If not, those without have an empty list.

    Returns
    -------
    TextData
        The labels are URIs, or the subjects' labels in a folder of ``.key`` files without ``vocabulary``.

    Raises
    ------
    DataError
        When it is no folder or holds no texts, a text has no subjects file, a file isn't of its form or not UTF-8, both
        kinds occur without a vocabulary, or a label isn't in the vocabulary.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "corpus"
    >>> data.write_annif_folder(folder, ["Call me Ishmael."], [["Whaling", "Sea stories"]])
    >>> sorted(path.name for path in folder.iterdir())
    ['0000001.key', '0000001.txt']
    >>> data.read_annif_folder(folder).labels
    [['Whaling', 'Sea stories']]
    """
    return collect(_documents(folder, vocabulary, require_labels))


def stream_annif_folder(
    folder: PathLike, *, vocabulary: SubjectVocabulary | None = None, require_labels: bool = True, rows: int = 256
) -> Iterator[TextData]:
    """Read what :func:`read_annif_folder` reads, ``rows`` texts at a time; other parameters and errors as there."""
    return in_blocks(_documents(folder, vocabulary, require_labels), rows)


def _documents(folder: PathLike, vocabulary: SubjectVocabulary | None, required: bool) -> Iterator[Row]:
    name = os.fspath(folder)
    try:
        files = set(os.listdir(folder))
    except OSError as error:
        raise DataError(f"{name!r} is no folder that can be read ({error.strerror}).") from error
    apart = {file for file in files if file.endswith(".json") and f"{file[:-5]}.txt" not in files}
    result = sorted(apart.union(file for file in files if file.endswith(".txt")))
    if not result:
        raise DataError(f"{name}: the folder holds no texts, which are files named .txt or .json.")
    kind: str | None = None
    with progress(f"reading {name}", len(result), "text") as bar:
        for file in result:
            path = Path(folder) / file
            if file.endswith(".json"):
                text, labels = _json_document(path)
                suffix = ".tsv" if all(map(looks_like_uri, labels)) else ".key"
            else:
                text = _content(path)
                suffix = next((s for s in _KINDS if file[:-4] + s in files), "")
                labels = _subjects(path.with_suffix(suffix), vocabulary) if suffix else []
            if not suffix and required:
                raise DataError(f"{path}: the text has no file of subjects, {file[:-4]}.tsv or {file[:-4]}.key.")
            if suffix and labels and vocabulary is None:
                kind = kind or suffix
                if suffix != kind:
                    raise DataError(
                        f"{path}: its subjects are {_KINDS[suffix]}, and those before are {_KINDS[kind]}: a vocabulary "
                        "(--vocabulary) turns labels into URIs."
                    )
            yield text, labels, None
            bar.update(1)


def _content(path: Path) -> str:
    with open_read(path) as stream:
        content = stream.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the text is not UTF-8 (byte {error.start + 1}).") from error


def _json_document(path: Path) -> tuple[str, list[str]]:
    try:
        record = json.loads(_content(path))
    except (RecursionError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not JSON ({error}).") from error
    subjects = record.get("subjects", []) if isinstance(record, dict) else None
    if not isinstance(subjects, list) or not isinstance(record.get("text", ""), str):
        raise DataError(f'{path}: must be an object with a "text" and a list of "subjects".')
    labels = []
    for subject in subjects:
        name = subject.get("uri", subject.get("label")) if isinstance(subject, dict) else None
        if not isinstance(name, str):
            raise DataError(f'{path}: a subject must have a "uri" or a "label". Got {quoted(subject)} instead.')
        labels.append(name)
    return record.get("text", ""), list(dict.fromkeys(labels))


def _subjects(path: Path, vocabulary: SubjectVocabulary | None) -> list[str]:
    labels: dict[str, None] = {}
    with open_read(path) as stream:
        for place, line in text_lines(stream):
            if not line.strip():
                continue
            if path.suffix == ".tsv":
                uri = bare_uri(line.split("\t")[0].strip())
                if not uri:
                    raise DataError(f"{place}: a line must begin with a URI. Got {quoted(line)} instead.")
                labels[uri] = None
            else:
                label = line.strip()
                if vocabulary is not None:
                    result = vocabulary.uri(label)
                    if result is None:
                        raise DataError(f"{place}: no subject of the vocabulary has the label {quoted(label)}.")
                    label = result
                labels[label] = None
    return list(labels)


def write_annif_folder(
    folder: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
    *,
    vocabulary: SubjectVocabulary | None = None,
) -> None:
    """Write texts and labels as a full-text corpus of Annif's, which :func:`read_annif_folder` reads back.

    Texts are ``0000001.txt`` and so on. Labels that look like URIs go to ``.tsv`` files, with their label where
    ``vocabulary`` has one; others to ``.key`` files. Every text gets one of the two, if an empty one.

    Parameters
    ----------
    folder : path-like
        Must not exist, or be empty. It takes its name when everything is written.
    texts : iterable of str
    labels : iterable of sequence of str, optional
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: the format holds none.
    vocabulary : SubjectVocabulary, optional

    Raises
    ------
    DataError
        When the folder holds something already, a label is empty or holds line breaks, some labels look like URIs and
        others don't, lengths differ or nothing can be written there.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{os.fspath(folder)!r} is there already: name a folder that is new or empty.")
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        beside.mkdir()
        _write_documents(beside, unweighted(paired(texts, labels, weights), "Annif's full-text format"), vocabulary)
        with suppress(FileNotFoundError):
            target.rmdir()
        beside.rename(target)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, OSError):
            raise DataError(f"{os.fspath(folder)!r} can't be written ({error.strerror or error}).") from error
        raise


def _write_documents(
    folder: Path, rows: Iterable[tuple[int, str, list[Label]]], vocabulary: SubjectVocabulary | None
) -> None:
    kind: bool | None = None
    with progress("writing", None, "text") as bar:
        for number, text, row in rows:
            names = [str(label) for label in row]
            for name in names:
                uri = looks_like_uri(name)
                kind = uri if kind is None else kind
                if uri != kind:
                    raise DataError(
                        f"Row {number}: the label {quoted(name)} looks like {'a URI' if uri else 'no URI'}, unlike "
                        "those before: a folder of Annif's names all subjects by URIs or all by labels."
                    )
                if not name.strip() or name != name.strip() or "\n" in name or "\r" in name or (uri and "\t" in name):
                    raise DataError(
                        f"Row {number}: a subject must stand on one line, without blanks around it. "
                        f"Got {quoted(name)} instead."
                    )
            lines = names
            if kind:
                lines = [f"<{name}>\t{(vocabulary.label(name) if vocabulary else None) or ''}" for name in names]
            stem = folder / f"{number + 1:07d}"
            stem.with_suffix(".txt").write_bytes(encoded(number, text))
            content = "".join(line + "\n" for line in lines)
            stem.with_suffix(".tsv" if kind else ".key").write_bytes(encoded(number, content))
            bar.update(1)
