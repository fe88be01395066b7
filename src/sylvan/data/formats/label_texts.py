"""Texts of labels: what they are called in words, synonyms, definitions; a line a label."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

from sylvan.data.formats.jsonl import read_records
from sylvan.data.streams import PathLike, open_read, shown
from sylvan.data.text_rows import complete_rows, quoted, text_lines
from sylvan.errors import DataError, DataWarning
from sylvan.labels.names import label_name
from sylvan.labels.uris import bare_uri, looks_like_uri

_NOTATION = re.compile(r"[A-Z0-9 .,:/()+-]+|[!-~]*[0-9][!-~]*")  # 641, QA 76.9, b2-c; but no name


def read_label_texts(path: PathLike) -> dict[str, list[str]]:
    """The texts of labels, as :meth:`sylvan.TextModel.fit` takes them as ``label_texts``.

    Parameters
    ----------
    path : path-like
        Lines of a label, a tab and its text, and further texts after further tabs; angle brackets around a label are
        dropped. Where the labels are URIs, notations (``641``) in a third column are no texts, as in Annif's
        vocabularies; a warning says so. Or JSON lines (``.jsonl``) of objects with "label" and "text", a string or
        a list of strings. Packed when it ends in .gz or .xz; "-" reads tabs from stdin.

    Returns
    -------
    dict of str to list of str
        The texts of a label that has several lines are joined.

    Raises
    ------
    DataError
        For the first line at fault, with file and line; when the file is missing, damaged or empty.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels.tsv"
    >>> _ = path.write_text("Whaling\\twhale hunting\\tcatching of whales\\n")
    >>> data.read_label_texts(path)
    {'Whaling': ['whale hunting', 'catching of whales']}
    """
    name = os.fspath(path).lower().removesuffix(".gz").removesuffix(".xz")
    result: dict[str, list[str]] = {}
    for label, texts in complete_rows(_of_objects(path) if name.endswith(".jsonl") else _of_lines(path), shown(path)):
        result.setdefault(label, []).extend(texts)
    return result


def _of_lines(path: PathLike) -> Iterator[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = []
    with open_read(path) as stream:
        for place, line in text_lines(stream):
            if not line.strip():
                continue
            first, *texts = (cell.strip() for cell in line.split("\t"))
            if not bare_uri(first) or not any(texts):
                raise DataError(f"{place}: a line must be a label, a tab and its text. Got {quoted(line)} instead.")
            rows.append((first, texts))
    with_notations = _has_notations(rows, shown(path))
    for first, texts in rows:
        yield label_name(bare_uri(first)), [text for text in (texts[:1] if with_notations else texts) if text]


def _has_notations(rows: list[tuple[str, list[str]]], name: str) -> bool:
    """Whether the third column is that of Annif's vocabularies: URI, label, notation."""
    third = [texts[1] for _, texts in rows if len(texts) == 2 and texts[1]]
    bracketed = all(first != bare_uri(first) for first, _ in rows)
    uris = bracketed or all(looks_like_uri(first) for first, _ in rows)
    if not third or not uris or any(len(texts) > 2 for _, texts in rows):
        return False
    other = next((text for text in third if not _NOTATION.fullmatch(text)), None)
    if other is None:
        say = f"holds notations, such as {quoted(third[0])}, which are no words of the labels"
    else:
        say = f"is read as further names of the labels, such as {quoted(other)}, not as notations"
    if other is None or bracketed:
        warnings.warn(
            f"{name}: the third column {say}. A CSV with the columns uri, label, alternative and notation says which "
            "is which.", DataWarning, stacklevel=2,
        )  # fmt: skip
    return other is None


def _of_objects(path: PathLike) -> Iterator[tuple[str, list[str]]]:
    for number, record in enumerate(read_records(path), 1):
        label, text = record.get("label"), record.get("text")
        texts: Any = [text] if isinstance(text, str) else text
        fine = isinstance(texts, list) and all(isinstance(one, str) for one in texts)
        if isinstance(label, bool) or not isinstance(label, str | int) or not fine:
            raise DataError(
                f"{shown(path)}, object {number}: must have a label, and a text that is a string or a list of strings. "
                f"Got {quoted(record)} instead."
            )
        yield label_name(str(label)), texts
