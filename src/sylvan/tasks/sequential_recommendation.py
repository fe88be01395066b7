"""Sequential recommendation: which item follows what a user has done so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from sylvan.arrays import validate
from sylvan.data import SequenceData
from sylvan.errors import DataError
from sylvan.neural.sequence import PADDING, GRU4Rec, SASRec, SequenceEncoder
from sylvan.params.fields import KW_ONLY, Choice, Range, check_value, parameterized
from sylvan.runtime.checkpoint import checksum
from sylvan.sampling.tensors import slices
from sylvan.tasks.base import Task, context_centers, part_of, ranking_measures, target_ranks

Split = Literal["users", "interactions", "last"]
SPLITS: tuple[Split, ...] = get_args(Split)
_SHARES = (0.8, 0.9)  # where training and validation end
_Ids = npt.NDArray[np.int64]
ENCODERS: dict[str, type[SASRec] | type[GRU4Rec]] = {"sasrec": SASRec, "gru4rec": GRU4Rec}
_QUERIES = 2048  # encoded at a time in evaluation
_IGNORED = -100


class Questions(NamedTuple):
    """Places of the items to be predicted: each is asked for from what its user did before it."""

    users: _Ids  # shape (n,)
    places: _Ids  # shape (n,): index of the item into `SequenceData.ids`

    def history(self, data: SequenceData, max_length: int) -> _Ids:
        """The last items before each, padded on the left with -1, shape (n, max_length)."""
        return _gathered(data, self.places[:, None] + np.arange(-max_length, 0), data.offsets[self.users])

    def targets(self, data: SequenceData) -> _Ids:
        """The items asked for, shape (n,)."""
        return data.ids[self.places].astype(np.int64)

    def seen(self, data: SequenceData) -> tuple[_Ids, _Ids]:
        """Everything that each user did before: rows, and the item of each, both of shape (total,)."""
        first = data.offsets[self.users]
        rows, within = _counted_out(self.places - first)
        return rows, data.ids[first[rows] + within].astype(np.int64)


class SequenceSplit(NamedTuple):
    """How far each user's sequence is learned from, and the questions of validation and test."""

    train_ends: _Ids  # shape (n_users,): a user's first so many interactions are for training
    validation: Questions
    test: Questions

    def train_counts(self, data: SequenceData) -> _Ids:
        """How often each item is a target in training, shape (n_items,)."""
        user, place = _counted_out(np.diff(data.offsets))
        target = (place > 0) & (place < self.train_ends[user])
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
    >>> from sylvan.tasks.sequential_recommendation import split_sequences
    >>> found = build_sequences("aaaabbbb", "wxyzwxyz", min_interactions=1)
    >>> parts = split_sequences(found, "last")
    >>> parts.train_ends.tolist(), parts.test.targets(found).tolist()
    ([2, 2], [3, 3])
    """
    check_value("split", split, Choice(SPLITS), "split_sequences")
    lengths = np.diff(data.offsets)
    if split == "users":
        order, last = np.random.default_rng(seed).permutation(len(lengths)), np.maximum(lengths - 1, 1)
        part, bounds = np.zeros(len(lengths), np.int64), [round(len(lengths) * share) for share in _SHARES]
        part[order[bounds[0] : bounds[1]]], part[order[bounds[1] :]] = 1, 2
        ends = np.where(part == 0, lengths, 0)
        # A user with a single item is asked for nothing.
        validation, test = ((np.where(part == number, last, lengths), lengths) for number in (1, 2))
    else:
        if split == "interactions":
            a, b = (np.maximum(1, np.floor(lengths * share)).astype(np.int64) for share in _SHARES)
        else:
            a, b = (np.where(lengths >= 3, lengths - n, lengths) for n in (2, 1))
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
    users, number = _counted_out(per_user)
    first = data.offsets[users]
    places = (first + pairs[users] - (number + 1) * max_length)[:, None] + np.arange(max_length)
    items = _gathered(data, places, first)
    targets = np.where(items == PADDING, PADDING, data.ids[np.clip(places + 1, 0, data.n_interactions - 1)])
    return items, targets


def _counted_out(counts: _Ids) -> tuple[_Ids, _Ids]:
    """Each number as often as its count, and beside it 0, 1, … within each."""
    numbers = np.repeat(np.arange(len(counts)), counts)
    return numbers, np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)


def _gathered(data: SequenceData, places: _Ids, first: _Ids) -> _Ids:
    """The items at places, -1 before a user's first."""
    return np.where(places >= first[:, None], data.ids[np.maximum(places, 0)], PADDING).astype(np.int64)


def _questions(data: SequenceData, first: _Ids, end: _Ids) -> Questions:
    """A question for every place of each user in [first, end)."""
    users, within = _counted_out(np.maximum(end - first, 0))
    return Questions(users, data.offsets[users] + first[users] + within)


@dataclass(frozen=True)
class _Encoder(Choice):
    """The name of an encoder, or one."""

    def accepts(self, value: Any) -> bool:
        return isinstance(value, SequenceEncoder) or super().accepts(value)

    def describe(self) -> str:
        return f"{super().describe()}, or a SequenceEncoder"


@parameterized
class SequentialRecommendation(Task):
    """Train SASRec or GRU4Rec to predict each user's next item, with any sampler and loss.

    Give it to :func:`sylvan.neural.train`. Adam trains the encoder's layers; the item tables have an optimiser of their
    own, row-wise Adagrad by default, whose steps touch only rows that have a gradient.

    Parameters
    ----------
    sequences : SequenceData
        From :func:`sylvan.data.read_sequences` or :func:`~sylvan.data.build_sequences`.
    encoder : {"sasrec", "gru4rec"} or SequenceEncoder
    dim, hidden, max_length, dropout, tied
        Of an encoder given by name: see :class:`~sylvan.neural.SASRec` and :class:`~sylvan.neural.GRU4Rec`.
    n_samples : int, optional
        Negatives at each place of a sequence, or for a whole batch where ``shared``. By default 90, or half of the
        items where that is less.
    split : {"users", "interactions", "last"}
        See :func:`~sylvan.tasks.split_sequences`.
    exclude_seen : bool
        Whether items that the user has had before are excluded from the ranking. The item asked for always stays in,
        also when the user has had it before.

    Attributes
    ----------
    encoder_ : SequenceEncoder
    split_ : SequenceSplit

    Notes
    -----
    Measures are NDCG and recall at 10, 20 and 50 over the full catalogue, exact. With one right item a question, NDCG@k
    is the mean of ``1 / log2(rank + 1)`` over the questions whose rank is at most k and recall the share of these;
    both agree with :mod:`sylvan.metrics`.

    References
    ----------
    Chen and others: Adaptive sampled softmax with inverted multi-index. Section 6.3.

    Examples
    --------
    >>> from sylvan.data import build_sequences
    >>> from sylvan.neural import train
    >>> from sylvan.tasks import SequentialRecommendation
    >>> users = [user for user in range(60) for _ in range(12)]
    >>> items = [(user + place) % 20 for user in range(60) for place in range(12)]  # each item has one that follows
    >>> sequences = build_sequences(users, items)
    >>> job = SequentialRecommendation(sequences, sampler="uniform", n_samples=5, batch_size=8, learning_rate=0.01)
    >>> history = train(job, epochs=5)
    >>> history.test["ndcg@10"] > 0.9
    True
    """

    sequences: SequenceData
    _: KW_ONLY
    encoder: Annotated[Literal["sasrec", "gru4rec"] | SequenceEncoder, _Encoder(tuple(ENCODERS))] = "sasrec"
    dim: Annotated[int, Range(1)] = 64
    hidden: Annotated[int, Range(1)] = 128
    max_length: Annotated[int, Range(1)] = 20
    dropout: float = 0.2
    tied: bool = True
    split: Split = "users"
    exclude_seen: bool = True

    metric = "ndcg@10"
    larger_is_better = True
    cutoffs = (10, 20, 50)
    usual_negatives = 90
    data_names = ("sequences", "device")

    def _prepare(self) -> None:
        data = self.sequences
        self._checksum = checksum(data.offsets, data.ids, any_integer=True)
        self.split_ = split_sequences(data, self.split, self.seed)
        names = ("hidden", "max_length", "dropout", "tied")
        self.encoder_ = self.encoder if isinstance(self.encoder, SequenceEncoder) else ENCODERS[self.encoder](
            data.n_items, self.dim, **{name: getattr(self, name) for name in names}
        )  # fmt: skip
        items, targets = windows(data, self.split_.train_ends, self.encoder_.max_length)
        counts = self.split_.train_counts(data)
        self.make_objective(data.n_items, self.encoder_.dim, counts, lambda: self._contexts(items, targets))
        self.module = nn.ModuleDict({"encoder": self.encoder_, "objective": self._objective}).to(self.device)
        self._items = torch.from_numpy(items.astype(np.int32))
        self._targets = torch.from_numpy(np.where(targets == PADDING, _IGNORED, targets).astype(np.int32))
        tables = [(table, self.table_learning_rate_) for table in self.encoder_.tables()]
        self.make_optimizers(self.encoder_.inner_parameters(), tables, self.encoder_.class_embeddings)

    def _contexts(self, items: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What items are like by those before them, for a tree by k-means."""
        real = targets != PADDING
        return context_centers(items[real][:, None], targets[real], self.sequences.n_items)

    # What the training loop asks.

    def steps_per_epoch(self) -> int:
        return -(-len(self._items) // self.batch_size)

    def batches(self, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in map(torch.from_numpy, self.shuffled(len(self._items), epoch)):
            items, targets = self._items[rows], self._targets[rows]
            yield items.to(self.device, torch.int64), targets.to(self.device, torch.int64)

    def step(self, batch: tuple[Tensor, Tensor], step: int) -> Tensor:
        loss: Tensor = self._objective(self.encoder_(batch[0]), self.encoder_.class_embeddings, batch[1], step)
        return loss

    def evaluate(self, split: str) -> dict[str, float]:
        return ranking_measures(self.ranks(split), self.cutoffs)

    def settings(self) -> dict[str, Any]:
        data = {"data": self.sequences.describe(), "data_checksum": self._checksum}
        return {"task": "sequential-recommendation", **data, **self.plain_settings()}

    # Evaluation and use.

    def ranks(self, split: str = "test") -> Tensor:
        """The place of the right item in the ranking of the catalogue, for every question of a part, int64 (n,)."""
        questions = {"validation": self.split_.validation, "test": self.split_.test}[part_of(split)]
        self.module.eval()
        data, encoder, ranks = self.sequences, self.encoder_, []
        classes = self._objective.output_embeddings(encoder.class_embeddings)
        for part in slices(len(questions.users), 1, _QUERIES):
            few = Questions(questions.users[part], questions.places[part])
            queries = encoder.last(self._on_device(few.history(data, encoder.max_length)))
            seen = None
            if self.exclude_seen:
                rows, items = few.seen(data)
                seen = self._on_device(rows), self._on_device(items)
            ranks.append(target_ranks(queries, classes, self._on_device(few.targets(data)), seen).cpu())
        return torch.cat(ranks)

    def _on_device(self, ids: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(ids).to(self.device)

    @torch.no_grad()
    def recommend(
        self, histories: Iterable[Sequence[str | int]], k: int = 10, *, unknown: Literal["error", "ignore"] = "error"
    ) -> list[list[str]]:
        """The names of the ``k`` items most probable next, for each history of item names (the last the newest).

        Items of the history are excluded when ``exclude_seen``.

        Parameters
        ----------
        histories : iterable of lists of str or int
            Of one user, ``[["tea", "rice"]]``.
        k : int
        unknown : {"error", "ignore"}
            What becomes of items that the training hadn't: they are refused, or left out. A history without any other
            has no answers, an empty list.

        Raises
        ------
        DataError
            When an item isn't known, a history is empty, or items stand where histories should.
        ParameterError
            When ``k`` or ``unknown`` is out of its range.
        """
        k = validate.count(k, "k", owner="recommend")
        ids_of_rows = self._known_items(histories, unknown)
        next_items = iter(self._next_items([ids for ids in ids_of_rows if ids], k) if any(ids_of_rows) else [])
        return [next(next_items) if ids else [] for ids in ids_of_rows]

    def _known_items(self, histories: Iterable[Sequence[str | int]], unknown: str) -> list[list[int]]:
        """The ids of the items of every history."""
        check_value("unknown", unknown, Choice(("error", "ignore")), "recommend")
        if isinstance(histories, str):
            raise DataError(f"recommend takes a list of histories, each a list of items. Got {histories!r} instead.")
        names, ids_of_rows = self.sequences.items, []
        for row, history in enumerate(histories):
            if isinstance(history, str | bytes) or not isinstance(history, Iterable):
                raise DataError(
                    f"recommend takes a list of histories, each a list of items. Got {history!r} for row {row}: "
                    f"a single history is [['…', '…']]."
                )
            items = list(history)
            if not items:
                raise DataError(f"A history must hold at least one item; that of row {row} is empty.")
            ids = [names.get(item) for item in items]
            if unknown == "error" and None in ids:
                raise DataError(
                    f"There is no item {items[ids.index(None)]!r} among the {len(names)} of the training, but in the "
                    f"history of row {row}. unknown='ignore' leaves such items out."
                )
            ids_of_rows.append([number for number in ids if number is not None])
        return ids_of_rows

    def _next_items(self, ids_of_rows: list[list[int]], k: int) -> list[list[str]]:
        """The best items after each history of ids, by name."""
        names, most = self.sequences.items, self.encoder_.max_length
        rows = np.full((len(ids_of_rows), most), PADDING, np.int64)
        for row, ids in zip(rows, ids_of_rows, strict=True):
            row[: len(ids[-most:])] = ids[-most:]
        self.module.eval()
        queries = self.encoder_.last(self._on_device(rows))
        seen = [set(ids) if self.exclude_seen else set() for ids in ids_of_rows]
        spare = max(map(len, seen), default=0)
        top = self._objective.top_classes(queries, self.encoder_.class_embeddings, k + spare).labels.tolist()
        best = ([i for i in row if i >= 0 and i not in excluded][:k] for row, excluded in zip(top, seen, strict=True))
        return [[names[i] for i in row] for row in best]
