"""Rankings on their way out: JSONL, Parquet or a table of label names and scores, or one CSR matrix in an ``.npz``."""

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sylvan.arrays.topk import TopK
from sylvan.data.formats.columnar import PARQUET_ENDINGS, ParquetTables, need_pyarrow
from sylvan.data.formats.tables import cell_line
from sylvan.data.other_fields import RecordColumns, cell_of
from sylvan.data.streams import check_ending, open_write, unpacked_name
from sylvan.data.text_rows import encoded
from sylvan.errors import DataError

_TABLES = {".csv": ",", ".tsv": "\t", ".tab": "\t"}  # and what separates the cells
_LINES = (".jsonl", ".ndjson", ".json", "")  # that are written as JSON lines
Records = Sequence[Mapping[str, Any]]
LabelOf = Callable[[str], str | None]  # from a URI to its label


def table_columns(key: str, titled: bool) -> tuple[str, ...]:
    """The columns besides those of the rows' own fields; ``key`` is "scores" or "probabilities"."""
    number = {"scores": "score", "probabilities": "probability"}.get(key, key)
    return ("row", "rank", "label", *(("name",) if titled else ()), number)


class Writer(abc.ABC):
    """Base of what takes the answers for a block of rows after another."""

    def __init__(self, stream: Any, label_of: LabelOf | None = None, key: str = "scores") -> None:
        self._stream, self._label_of, self._key = stream, label_of, key

    @abc.abstractmethod
    def write(self, top: TopK, names: Sequence[Sequence[str]] | None, records: Records | None = None) -> None:
        """The answers for the next rows, their labels' names where labels have any, and the rows' other fields."""

    def close(self, complete: bool) -> None:  # noqa: B027 (most have nothing to add)
        """Write what ends the file, unless it is given up."""


class _Table(Writer):
    """Lines of the row's number, its other fields, rank, label, perhaps what the label is called, and score. A row
    without an answer has a line that ends in empty cells, so that none is missing."""

    def __init__(self, stream: Any, label_of: LabelOf | None, key: str, delimiter: str, guards: bool) -> None:
        super().__init__(stream, label_of, key)
        self._delimiter, self._guards = delimiter, guards
        self._columns, self._n_rows, self._has_header = RecordColumns(), 0, False

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None, records: Records | None = None) -> None:
        records = [{}] * len(top) if records is None else records
        columns = self._columns.take(records)
        lines = [self._header(columns)]
        rows = top.labels.tolist() if names is None else names
        for row, labels, scores, record in zip(rows, top.labels, top.scores, records, strict=True):
            before = [str(self._n_rows), *(cell_of(record.get(name)) for name in columns)]
            n = int((labels >= 0).sum())
            for rank, (label, score) in enumerate(zip(row[:n], scores[:n].tolist(), strict=True), 1):
                titles = [] if self._label_of is None else [self._label_of(str(label)) or ""]
                # Six digits are all that a float32 is sure of.
                lines.append(self._line([*before, str(rank), str(label), *titles], f"{score:.6g}"))
            if not n:
                lines.append(self._line([*before, *[""] * (2 if self._label_of is None else 3)], ""))
            self._n_rows += 1
        self._stream.write(encoded(self._n_rows, "".join(lines)))

    def _header(self, columns: Sequence[str]) -> str:
        """The line of the columns' names, the first time."""
        row, *answer_columns = table_columns(self._key, self._label_of is not None)
        line = "" if self._has_header else cell_line([row, *columns, *answer_columns], self._delimiter)
        self._has_header = True
        return line

    def _line(self, cells: Sequence[str], score: str) -> str:
        """A row: its texts, and a number, which may well begin with a minus sign."""
        texts = cell_line(cells, self._delimiter, self._guards).removesuffix("\n")
        return f"{texts}{self._delimiter}{score}\n"

    def close(self, complete: bool) -> None:
        if complete:  # a table of no rows has its header still
            self._stream.write(self._header(()).encode())


class _Lines(Writer):
    """One JSON object a row: ``{"labels": [...], "scores": [...]}``, best first; ids where labels have no names."""

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None, records: Records | None = None) -> None:
        rows = top.labels.tolist() if names is None else names
        records, lines = [{}] * len(top) if records is None else records, []
        for row, labels, scores, other in zip(rows, top.labels, top.scores, records, strict=True):
            n = int(np.count_nonzero(labels >= 0))
            # Six digits are all that a float32 is sure of, and half the bytes of the seventeen of a double.
            rounded = [float(f"{score:.6g}") for score in scores[:n]]
            results: dict[str, Any] = {"labels": list(row[:n]), self._key: rounded}
            if self._label_of is not None:
                uris = [str(name) for name in row[:n]]
                results = {**results, "labels": [self._label_of(uri) or uri for uri in uris], "uris": uris}
            lines.append(json.dumps({**other, **results}, ensure_ascii=False))
        self._stream.write(("\n".join(lines) + "\n").encode("utf-8", "replace") if lines else b"")


class _Columns(Writer):
    """Parquet with a row for each row: columns of lists, named as the fields of JSON lines; scores as they are."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._tables = ParquetTables(self._stream, others_first=True)

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None, records: Records | None = None) -> None:
        pa = need_pyarrow()
        lengths = np.count_nonzero(top.labels >= 0, axis=1).tolist()
        rows = top.labels.tolist() if names is None else names
        labels: list[list[Any]] = [list(row[:n]) for row, n in zip(rows, lengths, strict=True)]
        scores = [row[:n] for row, n in zip(top.scores, lengths, strict=True)]
        kind = pa.list_(pa.int32() if names is None else pa.string())
        columns: dict[str, Any] = {"labels": (labels, kind), self._key: (scores, pa.list_(pa.float32()))}
        if self._label_of is not None:
            uris = [[str(name) for name in row] for row in labels]
            columns["labels"] = [[self._label_of(uri) or uri for uri in row] for row in uris], pa.list_(pa.string())
            columns["uris"] = uris, pa.list_(pa.string())
        self._tables.write(columns, records or [])

    def close(self, complete: bool) -> None:
        if complete and not self._tables.begun:
            self.write(TopK(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32)), [])
        self._tables.close(complete)


class _Matrix(Writer):
    """All answers as one CSR matrix of shape (n, n_labels)."""

    def __init__(self, stream: Any, n_labels: int) -> None:
        super().__init__(stream)
        self._n_labels = n_labels
        self._blocks: list[Any] = []

    def write(self, top: TopK, names: Sequence[Sequence[str]] | None, records: Records | None = None) -> None:
        self._blocks.append(top.to_csr(self._n_labels))

    def close(self, complete: bool) -> None:
        import scipy.sparse as sp

        if complete:  # joined as matrices: a rule for when to stop gives each block a width of its own
            sp.save_npz(self._stream, sp.vstack(self._blocks, format="csr"), compressed=False)


def columns_of_output(path: str, key: str = "scores", titled: bool = False) -> tuple[str, ...]:
    """What an output's own fields or columns are called, which no field of a row can be; parameters as there."""
    if _delimiter(path) is not None:
        return table_columns(key, titled)
    return ("labels", key, *(("uris",) if titled else ()))


def _delimiter(path: str) -> str | None:
    """What separates the cells of a table, by its name; None for what isn't one."""
    name = unpacked_name(path)
    return next((mark for ending, mark in _TABLES.items() if name.endswith(ending)), None)


@contextmanager
def open_rankings(
    path: str, n_labels: int, label_of: LabelOf | None = None, key: str = "scores", delimiter: str | None = None,
    guards: bool = False,
) -> Iterator[Writer]:  # fmt: skip
    """A writer to ``path``: a matrix when it ends in ``.npz``, Parquet for ``.parquet`` or ``.pq``, a table for
    ``.csv`` or ``.tsv``, else JSONL. With ``label_of``, JSONL and Parquet hold what it gives for each name as
    ``labels``, and the names as ``uris``; a table has it in a column ``name``. The numbers beside the labels are called
    ``key``. "-" stands for stdout. ``delimiter`` separates a table's cells, by default a comma, or a tab for ``.tsv``;
    with ``guards``, cells that a spreadsheet would compute begin with an apostrophe. A file takes its name when
    everything is written; until then whatever stood there stays."""
    name, usual = path.lower(), _delimiter(path)
    ending = check_ending(path, (*_LINES, *_TABLES, *PARQUET_ENDINGS, ".npz"))
    if ending in (*PARQUET_ENDINGS, ".npz") and not name.endswith(ending):
        raise DataError(f"{path!r}: {ending} is packed already: leave the second ending out.")
    with open_write(path) as stream:
        writer: Writer
        if name.endswith(".npz"):
            writer = _Matrix(stream, n_labels)
        elif usual is not None:
            writer = _Table(stream, label_of, key, delimiter or usual, guards)
        else:
            writer = (_Columns if name.endswith(PARQUET_ENDINGS) else _Lines)(stream, label_of, key)
        try:
            yield writer
        except BaseException:
            writer.close(complete=False)
            raise
        writer.close(complete=True)
