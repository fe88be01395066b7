"""The file of what a project was trained on: a line a document, its subjects' URIs, a tab, and its words. Another
training, with other parameters, reads it instead of the corpus."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from sylvan.errors import DataError

Row = tuple[list[str], str]  # URIs and words

_BLOCK = 2000  # documents that are in memory at a time


def append_rows(path: str | os.PathLike[str], rows: Iterable[Row]) -> int:
    """Write documents below those that are there, without those that lack subjects or words; how many were written."""
    n_rows = 0
    with open(path, "a", encoding="utf-8", newline="\n") as lines:
        for uris, words in rows:
            if uris and words:
                lines.write(f"{' '.join(uris)}\t{words}\n")
                n_rows += 1
    return n_rows


def read_blocks(path: str | os.PathLike[str], size: int = _BLOCK) -> Iterator[tuple[list[str], list[list[str]]]]:
    """The documents' words and their subjects, a block at a time, as ``TextModel.fit_blocks`` takes them."""
    with open(path, encoding="utf-8", newline="\n") as lines:
        rows = (_row(line, f"Line {at} of {os.fspath(path)!r}") for at, line in enumerate(lines, 1))
        while block := list(islice(rows, size)):
            yield [words for _, words in block], [uris for uris, _ in block]


def _row(line: str, where: str) -> Row:
    uris, tab, words = line.rstrip("\n").partition("\t")
    if not uris or not tab or not line.endswith("\n"):
        raise DataError(f"{where} must be URIs, a tab and words. Train with the corpus again, not with --cached.")
    return uris.split(" "), words
