"""Which interactions a recommender learns from, and which next items it is asked for."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from sylvan.data import SequenceData
from sylvan.errors import DataError, ParameterError
from sylvan.neural.sequence.sequence_encoder import PADDING

Split = Literal["users", "interactions", "last"]
SPLITS: tuple[Split, ...] = get_args(Split)
_SHARES = (0.8, 0.9)  # where training and validation end
_Ids = npt.NDArray[np.int64]


class Questions(NamedTuple):
    """Places of the items to be predicted: each is asked for from what its user did before it."""

    users: _Ids  # shape (n,)
    places: _Ids  # shape (n,): index of the item into `SequenceData.ids`

    def history(self, data: SequenceData, max_length: int) -> _Ids:
        """The last items before each, padded on the left with -1, shape (n, max_length)."""
        at = self.places[:, None] + np.arange(-max_length, 0)
        return _gathered(data, at, data.offsets[self.users])

    def targets(self, data: SequenceData) -> _Ids:
        """The items asked for, shape (n,)."""
        return data.ids[self.places].astype(np.int64)

    def seen(self, data: SequenceData) -> tuple[_Ids, _Ids]:
        """Everything that each user did before: rows, and the item of each, both of shape (total,)."""
        first = data.offsets[self.users]
        lengths = self.places - first
        rows = np.repeat(np.arange(len(lengths)), lengths)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return rows, data.ids[np.repeat(first, lengths) + within].astype(np.int64)

    def part(self, first: int, end: int) -> Questions:
        """Those of a range."""
        return Questions(self.users[first:end], self.places[first:end])


class SequenceSplit(NamedTuple):
    """How far each user's sequence is learned from, and the questions of validation and test."""

    train_ends: _Ids  # shape (n_users,): a user's first so many interactions are for training
    validation: Questions
    test: Questions

    def train_counts(self, data: SequenceData) -> _Ids:
        """How often each item is a target in training, shape (n_items,)."""
        lengths = np.diff(data.offsets)
        place = np.arange(data.n_interactions) - np.repeat(data.offsets[:-1], lengths)
        target = (place > 0) & (place < np.repeat(self.train_ends, lengths))
        return np.bincount(data.ids[target], minlength=data.n_items).astype(np.int64)


def split_sequences(data: SequenceData, split: Split = "users", seed: int = 0) -> SequenceSplit:
    """Divide interactions into training, validation and test.

    Parameters
    ----------
    data : SequenceData
    split : {"users", "interactions", "last"}
        - ``"users"``: 8:1:1 of the users, at random. A recommender learns from the whole sequences of eight tenths; the
          others' last items are asked for, from what stands before them.
        - ``"interactions"``: 8:1:1 of every user's interactions, in order. What lies in the ninth tenth is
          asked for in validation and what lies in the last in the test, each item from everything before it.
        - ``"last"``: every user's last item is asked for in the test and the last but one in validation; users with
          fewer than three are for training only.
    seed : int
        Which users.

    Returns
    -------
    SequenceSplit

    Raises
    ------
    DataError
        When a part would be empty.

    Notes
    -----
    The MIDX paper says "with a ratio of 8:1:1" and not of what. Users are the reading taken here by default: nothing
    of a test user is then seen in training.

    Examples
    --------
    >>> from sylvan.data import build_sequences
    >>> from sylvan.tasks.sequence_split import split_sequences
    >>> found = build_sequences("aaaabbbb", "wxyzwxyz", min_interactions=1)
    >>> parts = split_sequences(found, "last")
    >>> parts.train_ends.tolist(), parts.test.targets(found).tolist()
    ([2, 2], [3, 3])
    """
    if split not in SPLITS:
        raise ParameterError(f"The 'split' parameter must be one of {', '.join(map(repr, SPLITS))}. Got {split!r}.")
    lengths = np.diff(data.offsets)
    if split == "users":
        ends, validation, test = _by_users(lengths, seed)
    elif split == "interactions":
        a, b = (np.maximum(1, np.floor(lengths * share)).astype(np.int64) for share in _SHARES)
        ends, validation, test = a, (a, b), (b, lengths)
    else:
        a = np.where(lengths >= 3, lengths - 2, lengths)
        b = np.where(lengths >= 3, lengths - 1, lengths)
        ends, validation, test = a, (a, b), (b, lengths)
    parts = SequenceSplit(ends, _questions(data, *validation), _questions(data, *test))
    for name, size in (
        ("training", int(np.maximum(ends - 1, 0).sum())),
        ("validation", len(parts.validation.users)),
        ("test", len(parts.test.users)),
    ):
        if not size:
            raise DataError(
                f"Split by {split!r}, {data.describe()} leave nothing for {name}: take another split (--split), or "
                "more data."
            )
    return parts


def windows(data: SequenceData, ends: _Ids, max_length: int) -> tuple[_Ids, _Ids]:
    """Training rows: items, and at each place the item that follows. A sequence longer than ``max_length`` + 1 is cut
    from its end, so that every interaction but the first of a user is a target once."""
    # Returns items, targets (n_windows, max_length)
    pairs = np.maximum(ends - 1, 0)
    per_user = -(-pairs // max_length)
    users = np.repeat(np.arange(len(pairs)), per_user)
    number = np.arange(len(users)) - np.repeat(np.cumsum(per_user) - per_user, per_user)
    first = data.offsets[users]
    at = (first + pairs[users] - (number + 1) * max_length)[:, None] + np.arange(max_length)
    items = _gathered(data, at, first)
    targets = np.where(items == PADDING, PADDING, data.ids[np.clip(at + 1, 0, data.n_interactions - 1)])
    return items, targets


def _gathered(data: SequenceData, at: _Ids, first: _Ids) -> _Ids:
    """The items at places, -1 before a user's first."""
    return np.where(at >= first[:, None], data.ids[np.maximum(at, 0)], PADDING).astype(np.int64)


def _by_users(lengths: _Ids, seed: int) -> tuple[_Ids, tuple[_Ids, _Ids], tuple[_Ids, _Ids]]:
    order = np.random.default_rng(seed).permutation(len(lengths))
    a, b = (round(len(lengths) * share) for share in _SHARES)
    part = np.zeros(len(lengths), np.int64)
    part[order[a:b]], part[order[b:]] = 1, 2
    last = np.maximum(lengths - 1, 1)  # a user with a single item is asked for nothing
    nothing = lengths, lengths
    validation = tuple(np.where(part == 1, asked, none) for asked, none in zip((last, lengths), nothing, strict=True))
    test = tuple(np.where(part == 2, asked, none) for asked, none in zip((last, lengths), nothing, strict=True))
    return np.where(part == 0, lengths, 0), (validation[0], validation[1]), (test[0], test[1])


def _questions(data: SequenceData, first: _Ids, end: _Ids) -> Questions:
    """A question for every place of each user in [first, end)."""
    counts = np.maximum(end - first, 0)
    users = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    return Questions(users, data.offsets[users] + first[users] + within)
