"""Annif's corpora: TSV of texts and URIs, JSON lines with subjects, and folders of texts beside their subjects."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sylvan.data.formats.format import Format, Layout, Records, rows_of_lines, write_lines
from sylvan.data.formats.jsonl import jsonl_rows, write_records
from sylvan.data.formats.subjects import SubjectVocabulary, by_uris, sound_lines
from sylvan.data.other_fields import with_others
from sylvan.data.streams import PathLike, open_read, shown
from sylvan.data.text_rows import Label, Row, TextData, encoded, on_one_line, quoted, text_lines, unexpected, unweighted
from sylvan.errors import DataError, warn_data
from sylvan.labels.vocabulary import bare_uri, label_name, looks_like_uri
from sylvan.parallel import progress
from sylvan.params.wording import counted

_KINDS = {".tsv": "URIs", ".key": "labels"}  # of files of subjects, the first before the second


def read_annif_tsv(path: PathLike) -> TextData:
    """Read Annif's short-text corpora: a text, a tab and the URIs of its subjects a line, without a header.

    URIs are parted by blanks and may stand in angle brackets, which are dropped; they are the labels.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.

    Returns
    -------
    TextData

    Raises
    ------
    DataError
        For the first line without a tab; when the file is missing, empty, damaged or not UTF-8.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "titles.tsv"
    >>> _ = path.write_text("Moby Dick\\t<http://example.org/whaling> <http://example.org/sea>\\n")
    >>> data.read_annif_tsv(path).labels
    [['http://example.org/whaling', 'http://example.org/sea']]
    """
    return ANNIF_TSV.read(path)


def stream_annif_tsv(path: PathLike, *, rows: int = 4096) -> Iterator[TextData]:
    """Read what :func:`read_annif_tsv` reads, ``rows`` rows at a time; errors as there."""
    return ANNIF_TSV.stream(path, rows)


def write_annif_tsv(
    path: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None, *, one_line: bool = False,
) -> None:  # fmt: skip
    """Write texts and URIs as Annif's short-text corpora, which :func:`read_annif_tsv` reads back.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    texts : iterable of str
    labels : iterable of sequence of str, optional
        URIs, or other names without blanks.
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: the format holds none.
    one_line : bool
        Whether to write a blank for each line break or tab of a text; by default such texts are refused.

    Raises
    ------
    DataError
        When a label is empty or holds blanks or angle brackets, a text holds line breaks or tabs, lengths differ or
        the file can't be written.
    """

    def lines() -> Iterator[tuple[int, str]]:
        for number, text, row in unweighted("Annif's TSV", texts, labels, weights):
            for uri in map(str, row):
                if not uri or uri.split() != [uri] or "<" in uri or ">" in uri:
                    raise DataError(
                        f"Row {number}: Annif's TSV names subjects by URIs, without blanks or angle brackets. Got "
                        f"{quoted(uri)} instead; a vocabulary (--vocabulary) turns labels into URIs."
                    )
            line = on_one_line(number, text, one_line, "Annif's TSV", tab=True)
            yield number, f"{line}\t{' '.join(f'<{uri}>' for uri in row)}"

    write_lines(path, lines())


def _row(place: str, line: str) -> Row | None:
    text, tab, uris = line.partition("\t")
    if not tab:
        if not line.strip():
            return None
        raise unexpected(place, "a line must be a text, a tab and URIs", quoted(line))
    for word in uris.split():
        if bare_uri(word) == word and not looks_like_uri(word):
            raise unexpected(place, "behind the tab stand URIs alone, <in angle brackets>", quoted(word))
    return text, list(dict.fromkeys(label_name(bare_uri(uri)) for uri in uris.split())), None


def write_annif_jsonl(
    path: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
) -> None:  # fmt: skip
    """Write texts and labels as Annif's JSON lines, ``{"text": "…", "subjects": [{"uri": "…"}]}``.

    :func:`read_jsonl` reads them back. What looks like a URI (it holds ``://``, or is a URN) is written as ``"uri"``,
    anything else as ``"label"``.

    Parameters
    ----------
    path, texts, labels
        As in :func:`write_jsonl`.
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: the format holds none.

    Raises
    ------
    DataError
        When the lengths differ or the file can't be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> data.write_annif_jsonl(path, ["Moby Dick"], [["http://example.org/whaling"]])
    >>> path.read_text()
    '{"text": "Moby Dick", "subjects": [{"uri": "http://example.org/whaling"}]}\\n'
    """
    write_records(path, (
        {"text": text, "subjects": [{"uri" if looks_like_uri(str(label)) else "label": label} for label in row]}
        for _, text, row in unweighted("Annif's JSON lines", texts, labels, weights)
    ))  # fmt: skip


def read_annif_folder(
    folder: PathLike, *, vocabulary: SubjectVocabulary | None = None, require_labels: bool = True
) -> TextData:
    """Read one of Annif's full-text corpora: a folder of texts, each with a file of its subjects.

    ``name.txt`` is a text; beside it lies ``name.tsv``, a line a subject with ``<URI>``, a tab and its label, or
    ``name.key``, a line a subject with its label alone; of both the first is taken. Also ``name.json``, an object with
    ``"text"`` and ``"subjects"``. Suffixes may be written in capitals. Texts come in the order of their names. A
    warning says which files are passed over, and which subjects ``vocabulary`` lacks.

    Parameters
    ----------
    folder : path-like
    vocabulary : SubjectVocabulary, optional
        Turns the labels of ``.key`` files into URIs, and drops those that it lacks; needed for a folder that has both
        kinds.
    require_labels : bool
        Whether every text must have such a file. If not, those without have an empty list.

    Returns
    -------
    TextData
        The labels are URIs, or the subjects' labels in a folder of ``.key`` files without ``vocabulary``.

    Raises
    ------
    DataError
        When it is no folder or holds no texts, a text has no subjects file, a file isn't of its form or not UTF-8, or
        both kinds occur without a vocabulary.

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
    return ANNIF_FOLDER.read(folder, Layout(require_labels=require_labels, subjects=lambda: vocabulary))


def stream_annif_folder(
    folder: PathLike, *, vocabulary: SubjectVocabulary | None = None, require_labels: bool = True, rows: int = 256,
    labels: bool = True, records: Records | None = None,
) -> Iterator[TextData]:  # fmt: skip
    """Read what :func:`read_annif_folder` reads, ``rows`` texts at a time; other parameters and errors as there.

    Without ``labels`` no file of subjects is read. To ``records`` the name of each text's file is appended as it is
    read, as ``{"file": "name.txt"}``.
    """
    layout = Layout((), "labels" if labels else None, "", require_labels, subjects=lambda: vocabulary)
    return ANNIF_FOLDER.stream(folder, rows, layout, records)


def _documents(folder: PathLike, layout: Layout, records: Records | None) -> Iterator[Row]:
    vocabulary = None if layout.labels_field is None else layout.subjects()
    rows = _texts_and_subjects(folder, layout, vocabulary is not None, records)
    return rows if vocabulary is None else by_uris(rows, vocabulary, os.fspath(folder))


def _texts_and_subjects(folder: PathLike, layout: Layout, mixed: bool, records: Records | None) -> Iterator[Row]:
    """The texts of a folder and their subjects, ``mixed`` of URIs and labels or all of one kind."""
    with_labels = layout.labels_field is not None
    kind: str | None = None
    documents = _document_files(folder)
    with progress(f"reading {os.fspath(folder)}", len(documents), "text") as bar:
        for file, subjects in documents:
            path, suffix = Path(folder) / file, _suffix(subjects)
            if _suffix(file) == ".json":
                text, labels = _json_document(path)
                suffix = ".tsv" if all(map(looks_like_uri, labels)) else ".key"
            else:
                text = read_document(path)
                labels = _subjects(Path(folder) / subjects) if with_labels and subjects else []
            if not suffix and layout.require_labels and with_labels:
                stem = os.path.splitext(file)[0]
                raise DataError(f"{path}: the text has no file of subjects, {stem}.tsv or {stem}.key.")
            if labels and with_labels and not mixed:
                kind = kind or suffix
                if suffix != kind:
                    raise DataError(
                        f"{path}: its subjects are {_KINDS[suffix]}, and those before are {_KINDS[kind]}: a vocabulary "
                        "(--vocabulary) turns labels into URIs."
                    )
            if records is not None:
                records.append({"file": file})
            yield text, labels, None
            bar.update(1)


def _document_files(folder: PathLike) -> list[tuple[str, str]]:
    """The names of a folder's texts in order, each with that of its file of subjects, or "" where it has none."""
    name, files = os.fspath(folder), dict[tuple[str, str], str]()
    try:
        listed = sorted(file for file in os.listdir(folder) if not file.startswith("."))
    except OSError as error:
        raise DataError(f"{name!r} is no folder that can be read ({error.strerror}).") from error
    for file in listed:
        other = files.setdefault((os.path.splitext(file)[0], _suffix(file)), file)
        if other != file and _suffix(file) in (".txt", ".json", *_KINDS):
            raise DataError(f"{name}: the folder holds both {other} and {file}: remove or rename one of them.")
    texts = {stem for stem, suffix in files if suffix == ".txt"}
    # A file of subjects whose text is written otherwise: b.tsv beside B.txt.
    otherwise = {
        (stem.lower(), suffix): file for (stem, suffix), file in files.items() if suffix in _KINDS and stem not in texts
    }
    result = []
    for (stem, suffix), file in files.items():
        if suffix == ".txt":
            exact = (files.get((stem, kind)) for kind in _KINDS)
            result.append((file, next(filter(None, (*exact, *(otherwise.get((stem.lower(), k)) for k in _KINDS))), "")))
        elif suffix == ".json" and stem not in texts:
            result.append((file, ""))
    if not result:
        raise DataError(f"{name}: the folder holds no texts, which are files named .txt or .json.")
    used = {file for pair in result for file in pair}
    used |= {file for (stem, suffix), file in files.items() if suffix in (".json", *_KINDS) and stem in texts}
    written = {stem for stem, suffix in files if suffix in (".txt", ".json")}
    passed_over = [file for file in listed if file not in used and not _is_beside(file, written)]
    if passed_over:
        warn_data(
            f"{name}: {counted(len(passed_over), 'file')} passed over, such as {passed_over[0]}: texts are files named "
            ".txt or .json, their subjects files of the same name with .tsv or .key."
        )
    return sorted(result)


def _is_beside(file: str, stems: Collection[str]) -> bool:
    """Whether a file is named after a text and is no file of subjects: answers for it, or where it is from."""
    words = file.split(".")
    return _suffix(file) not in _KINDS and any(".".join(words[:n]) in stems for n in range(1, len(words)))


def _suffix(file: str) -> str:
    return os.path.splitext(file)[1].lower()


def read_document(path: PathLike) -> str:
    """The text of a file."""
    with open_read(path) as stream:
        content = stream.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{shown(path)}: the text is not UTF-8 (byte {error.start + 1}).") from error


def _json_document(path: Path) -> tuple[str, list[str]]:
    try:
        record = json.loads(read_document(path))
    except (RecursionError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not JSON ({error}).") from error
    text, subjects = (record.get("text", ""), record.get("subjects", [])) if isinstance(record, dict) else (None, None)
    if not isinstance(subjects, list) or not isinstance(text, str):
        raise DataError(f'{path}: must be an object with a "text" and a list of "subjects".')
    labels = []
    for subject in subjects:
        name = subject.get("uri", subject.get("label")) if isinstance(subject, dict) else None
        if not isinstance(name, str):
            raise DataError(f'{path}: a subject must have a "uri" or a "label". Got {quoted(subject)} instead.')
        labels.append(label_name(name))
    return text, list(dict.fromkeys(filter(None, labels)))


def _subjects(path: Path) -> list[str]:
    labels: dict[str, None] = {}
    with open_read(path) as stream:
        for place, line in sound_lines(text_lines(stream)):
            label = line if _suffix(path.name) == ".key" else bare_uri(line.split("\t")[0].strip())
            if not (name := label_name(label)):
                kind = "hold a label" if _suffix(path.name) == ".key" else "begin with a URI"
                raise unexpected(place, f"a line must {kind}", quoted(line))
            labels[name] = None
    return list(labels)


def write_annif_folder(
    folder: PathLike, texts: Iterable[str], labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None, *, vocabulary: SubjectVocabulary | None = None,
    others: Iterable[Mapping[str, Any]] | None = None,
) -> None:  # fmt: skip
    """Write texts and labels as a full-text corpus of Annif's, which :func:`read_annif_folder` reads back.

    Texts are ``0000001.txt`` and so on, or called as ``others`` says. Labels that look like URIs go to ``.tsv`` files,
    with their label where ``vocabulary`` has one; others to ``.key`` files. Every text gets one of the two, if an empty
    one.

    Parameters
    ----------
    folder : path-like
        Must not exist, or be empty. It takes its name when everything is written.
    texts : iterable of str
    labels : iterable of sequence of str, optional
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: the format holds none.
    vocabulary : SubjectVocabulary, optional
    others : iterable of mapping, optional
        Each row's other fields, of which ``"file"`` is the name that the text had, as "a.txt" or "a.json".

    Raises
    ------
    DataError
        When the folder holds something already, a label is empty or holds line breaks, some labels look like URIs and
        others don't, lengths differ, two texts have one name or nothing can be written there.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DataError(f"{os.fspath(folder)!r} is there already: name a folder that is new or empty.")
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        beside.mkdir()
        rows = unweighted("Annif's full-text format", texts, labels, weights)
        _write_documents(beside, rows, vocabulary, others)
        with suppress(FileNotFoundError):
            target.rmdir()
        beside.rename(target)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if isinstance(error, OSError):
            raise DataError(f"{os.fspath(folder)!r} can't be written ({error.strerror or error}).") from error
        raise


def _write_documents(
    folder: Path, rows: Iterable[tuple[int, str, list[Label]]], vocabulary: SubjectVocabulary | None,
    others: Iterable[Mapping[str, Any]] | None,
) -> None:  # fmt: skip
    kind: bool | None = None
    with progress("writing", None, "text") as bar:
        for (number, text, row), other in with_others(rows, others):
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
                    rule = "a subject must stand on one line, without blanks around it"
                    raise unexpected(f"Row {number}", rule, quoted(name))
            if kind:
                names = [f"<{name}>\t{(vocabulary.label(name) if vocabulary else None) or ''}" for name in names]
            stem = os.path.splitext(str(other.get("file") or f"{number + 1:07d}.txt"))[0]
            if os.path.basename(stem) != stem or (folder / f"{stem}.txt").exists():
                raise DataError(f"Row {number}: there can't be a second file {quoted(stem)}, or one elsewhere.")
            (folder / f"{stem}.txt").write_bytes(encoded(number, text))
            content = "".join(name + "\n" for name in names)
            (folder / f"{stem}{'.tsv' if kind else '.key'}").write_bytes(encoded(number, content))
            bar.update(1)


ANNIF_TSV = Format(
    lambda path, layout, records: rows_of_lines(path, _row),
    lambda path, columns, layout, others: write_annif_tsv(path, *columns, one_line=layout.one_line),
)
ANNIF_JSONL = Format(jsonl_rows, lambda path, columns, layout, others: write_annif_jsonl(path, *columns))
ANNIF_FOLDER = Format(
    _documents,
    lambda path, columns, layout, others: write_annif_folder(
        path, *columns, vocabulary=layout.subjects(), others=others
    ),
    lambda path, layout, texts: [] if texts else ["file"],
)
