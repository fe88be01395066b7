"""Rankings as CSV or TSV for a spreadsheet: a line for each label of a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sylvan.data.formats.cells import cell_line
from sylvan.data.other_fields import RecordColumns, cell_of
from sylvan.data.text_rows import encoded
from sylvan.topk import TopK

__all__ = ["RankingTable", "table_columns"]


def table_columns(key: str, titled: bool) -> tuple[str, ...]:
    """The columns besides those of the rows' own fields; ``key`` is "scores" or "probabilities"."""
    number = {"scores": "score", "probabilities": "probability"}.get(key, key)
    return ("row", "rank", "label", *(("name",) if titled else ()), number)


class RankingTable:
    """Lines of the row's number, its other fields, rank, label, perhaps what the label is called, and score. A row
    without an answer has a line that ends in empty cells, so that none is missing."""

    def __init__(
        self, stream: Any, label_of: Callable[[str], str | None] | None, key: str, delimiter: str, guards: bool = False
    ) -> None:
        self._stream, self._label_of, self._key, self._delimiter = stream, label_of, key, delimiter
        self._columns, self._n_rows = RecordColumns(), 0
        self._has_header, self._guards = False, guards

    def write(
        self, top: TopK, names: Sequence[Sequence[str]] | None, records: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """The answers for the next rows, and their other fields."""
        others = [{}] * len(top) if records is None else records
        columns = self._columns.take(others)
        lines = [self._header(columns)]
        rows = top.labels.tolist() if names is None else names
        for number, (row, labels, scores, record) in enumerate(
            zip(rows, top.labels, top.scores, others, strict=True), self._n_rows
        ):
            before = [str(number), *(cell_of(record.get(name)) for name in columns)]
            n = int((labels >= 0).sum())
            for rank, (label, score) in enumerate(zip(row[:n], scores[:n].tolist(), strict=True), 1):
                # Six digits are all that a float32 is sure of.
                lines.append(self._line([*before, str(rank), *self._named(str(label))], f"{score:.6g}"))
            if not n:
                lines.append(self._line([*before, *[""] * (2 if self._label_of is None else 3)], ""))
        self._n_rows += len(top)
        self._stream.write(encoded(self._n_rows, "".join(lines)))

    def _header(self, columns: Sequence[str]) -> str:
        """The line of the columns' names, the first time."""
        if self._has_header:
            return ""
        self._has_header = True
        row, *rest = table_columns(self._key, self._label_of is not None)
        return cell_line([row, *columns, *rest], self._delimiter)

    def _line(self, cells: Sequence[str], score: str) -> str:
        """A row: its texts, and a number, which may well begin with a minus sign."""
        texts = cell_line(cells, self._delimiter, self._guards).removesuffix("\n")
        return f"{texts}{self._delimiter}{score}\n"

    def _named(self, label: str) -> list[str]:
        return [label] if self._label_of is None else [label, self._label_of(label) or ""]

    def close(self, complete: bool) -> None:
        """A table of no rows has its header still."""
        if complete:
            self._stream.write(self._header(()).encode())
