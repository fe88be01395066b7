"""Datasets of Hugging Face's library, as objects or as folders that ``save_to_disk`` wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sylvan.data.columns import columns_of, names_of, records_as_rows
from sylvan.data.text_rows import Row, TextData, collect, complete_rows, in_blocks
from sylvan.errors import DataError

__all__ = ["read_dataset", "stream_dataset"]


def read_dataset(
    dataset: Any,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    weights_field: str = "weights",
    separator: str = " ",
) -> TextData:
    """Read texts and labels from a ``datasets.Dataset``, or from a folder that its ``save_to_disk`` wrote.

    Parameters
    ----------
    dataset : Dataset or path-like
        A folder needs the library (``pip install "sylvan[datasets]"``).
    text_fields, labels_field, weights_field, separator
        As in :func:`read_parquet`. Numbers of classes (``ClassLabel``) become their names.

    Returns
    -------
    TextData
        After ``from datasets import Dataset``, that of
        ``read_dataset(Dataset.from_dict({"text": ["Moby Dick"], "labels": [["Whaling"]]}))`` is
        ``TextData(texts=['Moby Dick'], labels=[['Whaling']], weights=None)``.

    Raises
    ------
    DataError
        As :func:`read_parquet`; for a dictionary of datasets, of which one has to be chosen; when a folder is no
        dataset or the library is missing.
    """
    return collect(_rows(dataset, text_fields, labels_field, weights_field, separator))


def stream_dataset(
    dataset: Any,
    *,
    text_fields: str | Sequence[str] = "text",
    labels_field: str | None = "labels",
    weights_field: str = "weights",
    separator: str = " ",
    rows: int = 4096,
) -> Iterator[TextData]:
    """Read what :func:`read_dataset` reads, ``rows`` rows at a time; other parameters and errors as there."""
    return in_blocks(_rows(dataset, text_fields, labels_field, weights_field, separator), rows)


def _opened(folder: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f'{folder}: reading a saved dataset needs datasets: pip install "sylvan[datasets]", or write it as Parquet.'
        ) from error
    try:
        return datasets.load_from_disk(folder)
    except Exception as error:  # of many kinds, by what is missing or damaged
        raise DataError(f"{folder}: not a saved dataset, or damaged ({str(error).strip()[:200]}).") from error


def _rows(
    dataset: Any, text_fields: str | Sequence[str], labels_field: str | None, weights_field: str, separator: str
) -> Iterator[Row]:
    texts = names_of(text_fields, "text_fields")
    name = "the dataset"
    if isinstance(dataset, str | os.PathLike):
        name = os.fspath(dataset)
        dataset = _opened(name)
    if isinstance(dataset, Mapping):
        parts = ", ".join(map(str, dataset))
        raise DataError(f"{name} is a dictionary of datasets: choose one of {parts}.")
    columns = getattr(dataset, "column_names", None)
    if not isinstance(columns, list):
        raise DataError(f"{name} must be a datasets.Dataset or a folder of one. Got {type(dataset).__name__} instead.")
    labels, weights = columns_of(name, columns, texts, labels_field, weights_field)
    feature = None if labels is None else (getattr(dataset, "features", None) or {}).get(labels)
    to_name = getattr(getattr(feature, "feature", feature), "int2str", None)
    records = dataset if to_name is None or labels is None else _named(dataset, labels, to_name)
    found = records_as_rows(name, records, texts, labels, weights, separator, None)
    yield from complete_rows(found, name)


def _named(dataset: Any, labels: str, to_name: Any) -> Iterator[Mapping[str, Any]]:
    for record in dataset:
        value = record[labels]
        listed = value if isinstance(value, list) else [] if value is None else [value]
        yield {**record, labels: [to_name(number) for number in listed]}
