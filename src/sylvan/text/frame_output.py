"""What a vectoriser's ``transform`` returns: a sparse matrix, or a data frame where that was asked for."""

from __future__ import annotations

import importlib
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.sklearn_settings import setting, sparse_as_set
from sylvan.errors import MemoryLimitError, ParameterError
from sylvan.params.fields import Parameterized

_Self = TypeVar("_Self", bound="FrameOutput")
Output = Literal["default", "pandas", "polars"]
_OUTPUTS: tuple[Output, ...] = get_args(Output)
_MOST_DENSE = 1 << 28  # values of a polars frame, which has no sparse columns: a gigabyte


class FrameOutput(Parameterized):
    """Base of a vectoriser whose matrices may be wanted as data frames."""

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """What the columns are called."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no columns.")

    def set_output(self: _Self, *, transform: Output | None = None) -> _Self:
        """Choose what ``transform`` and ``fit_transform`` return, as scikit-learn's transformers do.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            A sparse matrix; a ``pandas.DataFrame`` with sparse columns that are called by their terms; or a
            ``polars.DataFrame``, whose columns are dense. None changes nothing. As long as nothing is chosen,
            ``sklearn.set_config(transform_output=...)`` counts, where it was called.

        Returns
        -------
        the vectoriser

        Raises
        ------
        ParameterError
            For anything else.

        Examples
        --------
        >>> from sylvan import TfidfVectorizer
        >>> TfidfVectorizer().set_output(transform="pandas").fit_transform(["red tea", "tea"]).columns.tolist()
        ['red', 'tea']
        """
        if transform is None:
            return self
        if transform not in _OUTPUTS:
            known = ", ".join(map(repr, _OUTPUTS))
            raise ParameterError(
                f"The 'transform' parameter of set_output must be one of {known} or None. Got {transform!r} instead."
            )
        self._sklearn_output_config = {"transform": transform}  # what scikit-learn's clone takes along
        return self

    def _as_set(self, matrix: sp.csr_matrix, texts: Any) -> Any:
        """A matrix in the form that was chosen, with the index of ``texts`` where they are pandas's."""
        chosen = self.__dict__.get("_sklearn_output_config", {}).get("transform") or setting("transform_output")
        if chosen in (None, "default"):
            return sparse_as_set(matrix)
        names = self.get_feature_names_out()
        if chosen == "pandas":
            index = getattr(texts, "index", None)
            index = None if callable(index) else index  # of lists and tuples, it is a method
            return _library(chosen).DataFrame.sparse.from_spmatrix(matrix, index=index, columns=names)
        if matrix.shape[0] * matrix.shape[1] > _MOST_DENSE:
            raise MemoryLimitError(
                f"A polars frame of {matrix.shape[0]} rows and {matrix.shape[1]} columns would be dense, of more than "
                f"{_MOST_DENSE} values. Choose set_output(transform='default') or 'pandas', or fewer max_features."
            )
        return _library(chosen).DataFrame(matrix.toarray(), schema=names.tolist(), orient="row")


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"set_output(transform={name!r}) needs {name}: pip install {name}") from error
