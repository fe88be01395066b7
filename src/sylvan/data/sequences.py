"""What users did, in order: sequences of item ids, from which sequential recommenders learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.errors import DataError, ParameterError
from sylvan.labels.vocabulary import Vocabulary
from sylvan.params.wording import counted

_Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SequenceData:
    """Every user's items in order, as one array of ids and one of offsets.

    Items are numbered by falling number of interactions (ties in the order of their first interaction), so that
    samplers which take a low id for a frequent class fit; users in the order in which they first occur.

    Attributes
    ----------
    users, items : Vocabulary
        The names of users and items; a name's place is its id.
    ids : ndarray of int32, shape (n_interactions,)
        Item ids, user after user.
    offsets : ndarray of int64, shape (n_users + 1,)
        Where each user's items begin.

    Examples
    --------
    >>> from sylvan.data import build_sequences
    >>> found = build_sequences(["ann", "bob", "ann"], ["tea", "tea", "rice"], min_interactions=1)
    >>> len(found), found.n_items, found[0].tolist(), found.items[0]
    (2, 2, [0, 1], 'tea')
    """

    users: Vocabulary
    items: Vocabulary
    ids: npt.NDArray[np.int32]
    offsets: _Ids

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, user: int) -> npt.NDArray[np.int32]:
        """The items of one user, in order."""
        if not 0 <= user < len(self):
            raise IndexError(f"User ids must be in [0, {len(self) - 1}]. Got {user} instead.")
        return self.ids[self.offsets[user] : self.offsets[user + 1]]

    def __iter__(self) -> Iterator[npt.NDArray[np.int32]]:
        return (self[user] for user in range(len(self)))

    @property
    def n_items(self) -> int:
        """How many items there are."""
        return len(self.items)

    @property
    def n_interactions(self) -> int:
        """How many interactions there are."""
        return len(self.ids)

    def counts(self) -> _Ids:
        """Interactions of each item, shape (n_items,)."""
        return np.bincount(self.ids, minlength=self.n_items).astype(np.int64)

    def describe(self) -> str:
        """The size in words."""
        sizes = {"user": len(self), "item": self.n_items, "interaction": self.n_interactions}
        return ", ".join(counted(n, one) for one, n in sizes.items())


def build_sequences(
    users: Iterable[Any],
    items: Iterable[Any],
    times: Sequence[float] | npt.NDArray[Any] | None = None,
    *,
    min_interactions: int = 10,
    until_stable: bool = True,
) -> SequenceData:
    """Sequences from interactions that lie in memory, such as the columns of a data frame.

    Parameters
    ----------
    users, items : iterable of str or int
        Who and what, one entry an interaction.
    times : sequence of int or float, optional
        When; interactions are put in this order, equal times in the order given. Without it the order is as given.
    min_interactions : int
        Users and items with fewer interactions are dropped; 1 keeps all.
    until_stable : bool
        Dropping users makes items rarer and the other way round. True repeats it until every user and item left has
        ``min_interactions`` (the "core" of the data); False counts once and drops by these counts, so that what is
        left may have fewer.

    Returns
    -------
    SequenceData

    Raises
    ------
    DataError
        When the columns are of different lengths, a time isn't finite, or no interaction is left.
    ParameterError
        When a parameter is out of its range.

    Examples
    --------
    >>> from sylvan.data import build_sequences
    >>> found = build_sequences([7, 7, 8], ["a", "b", "b"], times=[20, 10, 15], min_interactions=1)
    >>> [found.items[i] for i in found[0]]
    ['b', 'a']
    """
    user_names, user_codes = _coded(users)
    item_names, item_codes = _coded(items)
    when = None if times is None else np.asarray(times)
    if len(user_codes) != len(item_codes) or (when is not None and when.shape != user_codes.shape):
        raise DataError(
            "users, items and times must be of one length. Got "
            f"{len(user_codes)}, {len(item_codes)}{'' if when is None else f' and shape {when.shape}'} instead."
        )
    if when is not None and (when.dtype.kind not in "iuf" or not np.isfinite(when).all()):
        raise DataError(f"times must be finite numbers. Got an array of dtype {when.dtype} instead.")
    return from_codes(
        (user_names, user_codes), (item_names, item_codes), when, min_interactions, until_stable, "The data"
    )


def _coded(names: Iterable[Any]) -> tuple[list[str], _Ids]:
    """Distinct names in the order of their first occurrence, and the place among them of each."""
    table: dict[str, int] = {}
    codes = [table.setdefault(str(name), len(table)) for name in names]
    return list(table), np.array(codes, np.int64)


def from_codes(
    users: tuple[list[str], _Ids],
    items: tuple[list[str], _Ids],
    times: npt.NDArray[Any] | None,
    min_interactions: int,
    until_stable: bool,
    source: str,
) -> SequenceData:
    """As :func:`build_sequences`, from names and places among them; ``source`` is what messages call the data."""
    if isinstance(min_interactions, bool) or not isinstance(min_interactions, int) or min_interactions < 1:
        raise ParameterError(
            f"The 'min_interactions' parameter must be an int in [1, inf). Got {min_interactions!r} instead."
        )
    if not isinstance(until_stable, bool):
        raise ParameterError(f"The 'until_stable' parameter must be True or False. Got {until_stable!r} instead.")
    (user_names, user_of), (item_names, item_of) = users, items
    places = _frequent_enough(user_of, item_of, min_interactions, until_stable)
    if not len(places):
        if not len(user_of):
            raise DataError(f"{source}: there are no interactions.")
        raise DataError(
            f"{source}: of {counted(len(user_of), 'interaction')} of {counted(len(user_names), 'user')} with "
            f"{counted(len(item_names), 'item')} none is left when users and items with fewer than {min_interactions} "
            "are dropped. Lower min_interactions (--min-interactions)."
        )
    user_of, item_of = user_of[places], item_of[places]
    user_rank, user_order = _renumbered(user_of, len(user_names), by_count=False)
    item_rank, item_order = _renumbered(item_of, len(item_names), by_count=True)
    user_of, item_of = user_rank[user_of], item_rank[item_of]
    # lexsort is stable: equal times stay in the order of the lines.
    order = np.argsort(user_of, kind="stable") if times is None else np.lexsort((times[places], user_of))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(user_of, minlength=len(user_order)))])
    return SequenceData(
        Vocabulary.verbatim(user_names[i] for i in user_order.tolist()),
        Vocabulary.verbatim(item_names[i] for i in item_order.tolist()),
        item_of[order].astype(np.int32),
        offsets.astype(np.int64),
    )


def _frequent_enough(user_of: _Ids, item_of: _Ids, least: int, until_stable: bool) -> _Ids:
    """Places of the interactions whose user and item have enough of them."""
    places = np.arange(len(user_of))
    while len(places):
        user, item = user_of[places], item_of[places]
        enough = (np.bincount(user)[user] >= least) & (np.bincount(item)[item] >= least)
        if enough.all():
            break
        places = places[enough]
        if not until_stable:
            break
    return places


def _renumbered(codes: _Ids, n: int, *, by_count: bool) -> tuple[_Ids, _Ids]:
    """New ids of the codes that occur (-1 for others), and the codes in the order of their new ids."""
    result, first, counts = np.unique(codes, return_index=True, return_counts=True)
    order = result[np.lexsort((first, -counts))] if by_count else result[np.argsort(first)]
    rank = np.full(n, -1, np.int64)
    rank[order] = np.arange(len(order))
    return rank, order
