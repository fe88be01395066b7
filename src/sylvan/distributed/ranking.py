"""Datasets of Ray Data ranked by actors that map the model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from sylvan.arrays import validate
from sylvan.data.formats.columnar import columns_of
from sylvan.data.streams import PathLike
from sylvan.distributed.cluster import check_nodes, need_ray
from sylvan.distributed.columns import features_of_table, texts_of_table
from sylvan.distributed.ranker import Ranker
from sylvan.errors import DataError, ParameterError

_NAME = "The dataset"


def rank(
    dataset: Any,
    model: PathLike,
    k: int = 10,
    *,
    text: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    columns: Sequence[str] = ("labels", "scores"),
    allowed: Any = None,
    denied: Any = None,
    batch_size: int = 1024,
    actors: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> Any:
    """Rank the rows of a dataset of Ray Data with a saved model.

    Nothing is ranked until the result is read or written. Its rows are in the order of the dataset's, whose option
    ``preserve_order`` is set for that. Each actor maps the model into memory once; one that is lost is replaced, and
    its batches are ranked again.

    Parameters
    ----------
    dataset : ray.data.Dataset
        A row for each text, or for the features of each row.
    model : path-like
        The folder of a saved model, on a disk that all nodes see.
    k : int
        Maximum number of labels per row.
    text : str or sequence of str, optional
        The column of the text, or several, which are joined by blanks; by default those of the model's training.
    features : str or pair of str, optional
        For a model of features: the column of dense vectors, or those of ids and values of sparse ones;
        ("indices", "values") by default.
    columns : pair of str
        The names of the columns that are added.
    allowed, denied : optional
        As of the model's ``rank``: one list for every row.
    batch_size : int
        Rows that are ranked at a time.
    actors : int, optional
        At most so many; as many as there is room for by default.
    num_cpus, num_gpus : float
        What each actor needs. It has as many threads as it has whole CPUs.

    Returns
    -------
    ray.data.Dataset
        With two more columns of lists, best first, which are shorter where there are fewer answers: names of labels
        (ids where they have no names) and float32 scores, the same as of ``sylvan.load(model).rank``.

    Raises
    ------
    ImportError
        Without Ray Data.
    ModelError
        When there is no model, or a node can't open it.
    ParameterError
        For a value out of its range.
    DataError
        For a column that is missing or there already, as far as the dataset's columns are known; else, as for what
        isn't a text or features of the model, when the result is read.

    Examples
    --------
    ::

        texts = ray.data.read_parquet("/data/texts")
        sylvan.distributed.rank(texts, "/data/model", k=5).write_parquet("/data/tags")
    """
    data = _need_ray_data()
    if not isinstance(dataset, data.Dataset):
        raise ParameterError(f"The 'dataset' parameter must be a ray.data.Dataset, not {type(dataset).__name__}.")
    batch_size = validate.count(batch_size, "batch_size")
    limit = None if actors is None else validate.count(actors, "actors")
    lists = {name: value for name, value in (("allowed", allowed), ("denied", denied)) if value is not None}
    ranker = Ranker.of(model, k, lists=lists, n_threads=max(1, int(num_cpus)))
    inputs, outputs = ranker.inputs(text, features), _outputs(columns)
    known = dataset.schema(fetch_if_missing=False)
    if known is not None:
        _check_columns(known.names, inputs, outputs)
    check_nodes(need_ray())
    ranker.check_nodes(need_ray())
    result = dataset.map_batches(
        _Actor, fn_constructor_args=(ranker, inputs, outputs), batch_size=batch_size, batch_format="pyarrow",
        compute=data.ActorPoolStrategy(min_size=1, max_size=limit), num_cpus=num_cpus, num_gpus=num_gpus or None,
    )  # fmt: skip
    result.context.execution_options.preserve_order = True
    return result


class _Actor:
    """Opens the model, and makes batches of rows, as tables of Arrow, into the same with answers."""

    def __init__(self, ranker: Ranker, inputs: tuple[str, ...], outputs: tuple[str, str]) -> None:
        self._ranker, self._inputs, self._outputs = ranker, inputs, outputs
        self._model = ranker.model()

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        _check_columns(table.column_names, self._inputs, self._outputs)
        if self._model.takes_texts:
            rows: Any = texts_of_table(_NAME, table, self._inputs)
        else:
            rows = features_of_table(_NAME, table, self._inputs, self._model.n_features_)
        top, names, _ = self._ranker.rank(rows)
        there = top.labels >= 0
        offsets = pa.array(np.concatenate(([0], np.cumsum(there.sum(axis=1)))), pa.int32())
        labels = pa.array(top.labels[there]) if names is None else pa.array(chain.from_iterable(names), pa.string())
        for name, flat in zip(self._outputs, (labels, pa.array(top.scores[there])), strict=True):
            table = table.append_column(name, pa.ListArray.from_arrays(offsets, flat))
        return table


def _check_columns(names: Sequence[str], inputs: tuple[str, ...], outputs: tuple[str, str]) -> None:
    """Refuse a dataset in which a column is missing, or there already."""
    columns_of(_NAME, names, inputs, None, "")
    for name in outputs:
        if name in names:
            raise DataError(f"{_NAME} has a column {name!r} already: give the added ones other names, columns=(…, …).")


def _need_ray_data() -> Any:
    need_ray()
    try:
        import ray.data
    except ImportError as error:
        raise ImportError(
            f'Ranking a dataset needs Ray Data ({error}). Install it with: pip install "sylvan[ray]"'
        ) from error
    return ray.data


def _outputs(columns: Sequence[str]) -> tuple[str, str]:
    named = [name for name in columns if isinstance(name, str)] if not isinstance(columns, str) else []
    if len(named) != 2 or len(columns) != 2 or named[0] == named[1]:
        raise ParameterError(f"The 'columns' parameter must be two names. Got {columns!r} instead.")
    return named[0], named[1]
