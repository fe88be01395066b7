"""Files that workers read block by block: JSON lines and Parquet, of texts or of features."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sylvan.data.formats.columnar import need_pyarrow, stream_parquet
from sylvan.data.formats.jsonl import read_records, stream_jsonl
from sylvan.data.formats.rankings import PARQUET
from sylvan.data.streams import open_read
from sylvan.data.text_rows import complete_rows, quoted
from sylvan.distributed.columns import features_of_lists, features_of_table
from sylvan.errors import DataError

_ROWS = 2048


@dataclass(frozen=True)
class TextFile:
    """Texts of a file: of some of its fields, or columns, joined by blanks."""

    path: str
    fields: tuple[str, ...]

    is_text = True

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.path

    def blocks(self, with_labels: bool = False) -> Iterator[tuple[list[str], Any]]:
        """The texts, some rows at a time."""
        stream = stream_parquet if is_parquet(self.path) else stream_jsonl
        for block in stream(self.path, text_fields=self.fields, labels_field=None, rows=_ROWS):
            yield block.texts, None


@dataclass(frozen=True)
class FeatureFile:
    """Features of a file: a column of vectors, or two of the ids and values of those that aren't 0."""

    path: str
    columns: tuple[str, ...]

    is_text = False

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.path

    def blocks(self, n_features: int) -> Iterator[tuple[Any, Any]]:
        """The features, some rows at a time."""
        tables = self._tables if is_parquet(self.path) else self._objects
        for X in complete_rows(tables(n_features), self.path):
            yield X, None

    def _tables(self, n_features: int) -> Iterator[Any]:
        pa = need_pyarrow()
        from pyarrow import parquet

        with open_read(self.path) as stream:
            try:
                for batch in parquet.ParquetFile(stream.sized()[0]).iter_batches(_ROWS):
                    yield features_of_table(self.path, pa.Table.from_batches([batch]), self.columns, n_features)
            except (pa.ArrowException, OSError) as error:
                what = str(error).strip()[:200]
                raise DataError(f"{self.path}: not a Parquet file, or damaged ({what}).") from error

    def _objects(self, n_features: int) -> Iterator[Any]:
        records = enumerate(read_records(self.path))
        while block := list(islice(records, _ROWS)):
            for number, record in block:
                for column in self.columns:
                    if column not in record:
                        fields = ", ".join(map(quoted, record)) or "none"
                        raise DataError(
                            f"{self.path}, object {number}: there is no field {column!r}. Its fields are: {fields}."
                        )
            lists = [[record[column] for _, record in block] for column in self.columns]
            place = f"{self.path}, objects {block[0][0]} to {block[-1][0]}"
            yield features_of_lists(place, lists, self.columns, n_features)


def is_parquet(path: str) -> bool:
    """Whether a file's name says that it is Parquet."""
    return path.lower().endswith(PARQUET)


def stamp(path: str) -> Sequence[int]:
    """Bytes of a file, or of all files of a folder, and when the last was written, in nanoseconds."""
    try:
        files = [path]
        if os.path.isdir(path):
            files = [os.path.join(place, file) for place, _, names in os.walk(path) for file in names]
        found = [os.stat(file) for file in files]
    except FileNotFoundError as error:
        raise DataError(f"There is no file {path!r}.") from error
    except OSError as error:
        raise DataError(f"The file {path!r} can't be read ({error.strerror or error}).") from error
    return [sum(one.st_size for one in found), max((one.st_mtime_ns for one in found), default=0)]
