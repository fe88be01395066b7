"""Rankings as CSV or TSV for a spreadsheet: a line for each label of a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sylvan.data.other_fields import RecordColumns, cell_of
from sylvan.data.text_rows import encoded
from sylvan.topk import TopK

__all__ = ["RankingTable", "table_columns"]


def table_columns(key: str, titled: bool) -> tuple[str, ...]:
    """The columns besides those of the rows' own fields; ``key`` is "scores" or "probabilities"."""
    number = {"scores": "score", "probabilities": "probability"}.get(key, key)
    return ("row", "rank", "label", *(("name",) if titled else ()), number)


class RankingTable:
    """Lines of the row's number, its other fields, rank, label, perhaps what the label is called, and score.

    A row without an answer has a line that ends in empty cells, so that none is missing.
    """

    def __init__(self, stream: Any, label_of: Callable[[str], str | None] | None, key: str, delimiter: str) -> None:
        self._stream, self._label_of, self._key, self._delimiter = stream, label_of, key, delimiter
        self._columns, self._n_rows = RecordColumns(), 0
        self._has_header = False

    def write(
        self, top: TopK, names: Sequence[Sequence[str]] | None, records: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """The answers for the next rows, and their other fields."""
        others = [{}] * len(top) if records is None else records
        columns = self._columns.take(others)
        lines = io.StringIO(newline="")
        writer = csv.writer(lines, delimiter=self._delimiter, lineterminator="\n")
        self._write_header(writer, columns)
        rows = top.labels.tolist() if names is None else names
        for number, (row, labels, scores, record) in enumerate(
            zip(rows, top.labels, top.scores, others, strict=True), self._n_rows
        ):
            before = [number, *(cell_of(record.get(name)) for name in columns)]
            n = int((labels >= 0).sum())
            for rank, (label, score) in enumerate(zip(row[:n], scores[:n].tolist(), strict=True), 1):
                # Six digits are all that a float32 is sure of.
                writer.writerow([*before, rank, *self._named(str(label)), f"{score:.6g}"])
            if not n:
                writer.writerow([*before, *[""] * (3 if self._label_of is None else 4)])
        self._n_rows += len(top)
        self._stream.write(encoded(self._n_rows, lines.getvalue()))

    def _write_header(self, writer: Any, columns: Sequence[str]) -> None:
        if not self._has_header:
            row, *rest = table_columns(self._key, self._label_of is not None)
            writer.writerow([row, *columns, *rest])
            self._has_header = True

    def _named(self, label: str) -> list[str]:
        return [label] if self._label_of is None else [label, self._label_of(label) or ""]

    def close(self, complete: bool) -> None:
        """A table of no rows has its header still."""
        if complete and not self._has_header:
            lines = io.StringIO(newline="")
            self._write_header(csv.writer(lines, delimiter=self._delimiter, lineterminator="\n"), ())
            self._stream.write(lines.getvalue().encode())
