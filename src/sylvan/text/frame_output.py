"""What a vectoriser's ``transform`` returns: a sparse matrix, or a data frame where that was asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.frames import setting, sparse_as_set
from sylvan.errors import MemoryLimitError, ParameterError

Output = Literal["default", "pandas", "polars"]
_OUTPUTS: tuple[Output, ...] = get_args(Output)
_MOST_DENSE = 1 << 28  # values of a polars frame, which has no sparse columns: a gigabyte


def check_output(transform: Any) -> None:
    """Refuse what ``set_output`` doesn't know."""
    if transform not in _OUTPUTS:
        known = ", ".join(map(repr, _OUTPUTS))
        raise ParameterError(
            f"The 'transform' parameter of set_output must be one of {known} or None. Got {transform!r} instead."
        )


def in_output(
    chosen: Output | None, matrix: sp.csr_matrix, names: Callable[[], npt.NDArray[np.object_]], texts: Any
) -> Any:
    """A matrix in the form that was chosen here or in scikit-learn, with the index of ``texts`` where they are
    pandas's; ``names()`` are those of its columns."""
    output = chosen or setting("transform_output")
    if output in (None, "default"):
        return sparse_as_set(matrix)
    columns = names()
    if output == "pandas":
        index = getattr(texts, "index", None)
        index = None if callable(index) else index  # of lists and tuples, it is a method
        return _library(output).DataFrame.sparse.from_spmatrix(matrix, index=index, columns=columns)
    if matrix.shape[0] * matrix.shape[1] > _MOST_DENSE:
        raise MemoryLimitError(
            f"A polars frame of {matrix.shape[0]} rows and {matrix.shape[1]} columns would be dense, of more than "
            f"{_MOST_DENSE} values. Choose set_output(transform='default') or 'pandas', or fewer max_features."
        )
    return _library(output).DataFrame(matrix.toarray(), schema=columns.tolist(), orient="row")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"set_output(transform={name!r}) needs {name}: pip install {name}") from error
