"""Which rows a tuning judges by: drawn at random, by group, or the last ones."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError, ParameterError
from sylvan.params import Choice, check_value
from sylvan.wording import are, counted

__all__ = ["Holdout", "split_rows"]

Holdout = Literal["random", "last"]
LEAST = 20  # rows of a holdout
_SHARE, _FEW, _MOST = 10, 2_500, 10_000

_Rows = npt.NDArray[np.int32]


def split_rows(
    labelled: npt.NDArray[np.bool_], how: Holdout = "random", groups: Any = None, seed: int = 0
) -> tuple[_Rows, _Rows]:
    """The rows to train on and the holdout rows. The holdout is a tenth of the rows, but 2,500 as long as that is no
    more than a quarter, and at most 10,000."""
    # Shapes: labelled (n,); groups (n,)
    check_value("holdout", how, Choice(get_args(Holdout)), "tune")
    n = len(labelled)
    size = min(max(n // _SHARE, min(_FEW, n // 4)), _MOST)
    if size < LEAST:
        raise DataError(
            f"There {are(n)} {counted(n, 'row')}: too few to hold {LEAST} out, for which tune takes at least "
            f"{4 * LEAST}."
        )
    order = np.random.default_rng(seed).permutation(n)
    backwards = order if how == "random" else np.arange(n)[::-1]
    if groups is None:
        chosen = backwards[:size]
    else:
        chosen = _whole_groups(groups, n, backwards, size, how == "random")
    outside = np.zeros(n, bool)
    outside[chosen] = True
    train = order[~outside[order]]
    if how == "last":
        train = np.sort(train)[::-1]  # a first part of which is the most recent
    holdout = np.flatnonzero(outside & labelled)
    if len(holdout) < LEAST or not labelled[train].any():
        raise DataError(
            f"Of {counted(n, 'row')}, {len(chosen)} would be held out, and {len(holdout)} of them have a label: tune "
            f"takes at least {LEAST} such rows, and some with labels to train on."
        )
    return train.astype(np.int32), holdout.astype(np.int32)


def _whole_groups(
    groups: Any, n: int, order: npt.NDArray[np.intp], size: int, skip: bool
) -> npt.NDArray[np.intp]:
    """The rows of the groups that come first in ``order``, about ``size`` of them."""
    given = np.asarray(groups)
    if given.ndim != 1 or len(given) != n:
        rows = f"There {are(n)} {counted(n, 'row')}"
        raise DataError(f"{rows}, but groups has shape {given.shape}: it takes one group a row.")
    try:
        names, number = np.unique(given, return_inverse=True)
    except TypeError:
        raise ParameterError("The 'groups' parameter must be all strings or all numbers.") from None
    if len(names) < 2:
        raise DataError(f"There is one group, of {counted(n, 'row')}: none can be held out.")
    sizes = np.bincount(number)
    first = np.unique(number[order], return_index=True)[1]
    taken: list[int] = []
    total = 0
    for group in number[order][np.sort(first)]:
        if skip and taken and total + sizes[group] > 1.5 * size:
            continue  # a group isn't torn, and a large one would leave few rows to train on
        if total + sizes[group] >= n:
            break
        taken.append(group)
        total += int(sizes[group])
        if total >= size:
            break
    return np.flatnonzero(np.isin(number, taken))
