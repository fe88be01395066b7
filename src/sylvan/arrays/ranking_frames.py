"""Rankings as data frames in long form: a line for each answer."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError, ParameterError

Library = Literal["pandas", "polars", "arrow"]
LIBRARIES: dict[Library, str] = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}  # their packages
_COLUMNS = ("row", "rank", "label", "score")


def frame_of_rankings(
    labels: npt.NDArray[np.int32],
    scores: npt.NDArray[np.float32],
    library: Library,
    rows: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """A frame with a line for each answer, by row and then by rank; see :meth:`sylvan.TopK.to_frame`."""
    if library not in LIBRARIES:
        known = ", ".join(map(repr, LIBRARIES))
        raise ParameterError(f"The 'library' parameter of to_frame must be one of {known}. Got {library!r} instead.")
    package = LIBRARIES[library]
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        raise ImportError(f"to_frame({library!r}) needs {package}. Install it with: pip install {package}") from error
    given = labels >= 0
    places = np.nonzero(given)
    columns = [
        places[0] if rows is None else _named_rows(rows, len(labels), places[0]),
        (places[1] + 1).astype(np.int32),
        labels[given] if names is None else _named_labels(names, labels[given]),
        scores[given],
    ]
    table = dict(zip(_COLUMNS, columns, strict=True))
    return module.table(table) if library == "arrow" else module.DataFrame(table)


def _named_rows(rows: Any, n_rows: int, places: npt.NDArray[np.int64]) -> Any:
    """What each line's row is called."""
    listed = rows.tolist() if hasattr(rows, "tolist") else list(rows)
    if len(listed) != n_rows:
        raise DataError(f"The 'rows' of to_frame must name each of the {n_rows} rows. Got {len(listed)} instead.")
    return [listed[place] for place in places.tolist()]


def _named_labels(names: Sequence[str], labels: npt.NDArray[np.int32]) -> list[str]:
    """The name of each line's label; each is decoded once."""
    name_of = {label: names[label] for label in np.unique(labels).tolist()}
    return [name_of[label] for label in labels.tolist()]
