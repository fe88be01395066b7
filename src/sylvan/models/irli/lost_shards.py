"""Shards that are lost with their workers: they are started again from what they came from, and asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sylvan.errors import SylvanError
from sylvan.models.irli.shard_workers import STARTING, ShardCall, ShardExecutor

_MOST_LOSSES = 5  # of one list of calls: a shard that its node has no memory for is lost each time


class LostShardsError(SylvanError):
    """Raised by a :class:`~sylvan.models.irli.shard_workers.ShardExecutor` when workers of shards have ended."""

    def __init__(self, lost: Mapping[int, str], answers: Sequence[Any]) -> None:
        self.lost, self.answers = dict(sorted(lost.items())), list(answers)
        super().__init__("; ".join(f"shard {number} was lost: {why}" for number, why in self.lost.items()) + ".")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.lost, self.answers)


def run_calls(
    executor: ShardExecutor, calls: Sequence[ShardCall | None], sources: Sequence[ShardCall] | None = None
) -> list[Any]:
    """The shards' answers; those that are lost meanwhile are started again and asked again."""
    try:
        return executor.run(calls)
    except LostShardsError as lost:
        return recovered(executor, calls, sources, lost)


def recovered(
    executor: ShardExecutor,
    calls: Sequence[ShardCall | None],
    sources: Sequence[ShardCall] | None,
    lost: LostShardsError,
    n_losses: int = 1,
) -> list[Any]:
    """The answers to calls in which ``lost`` was raised; parameters and errors as those of :func:`run_calls`."""
    number, why = next(iter(lost.lost.items()))
    if n_losses > _MOST_LOSSES:
        raise SylvanError(f"Shard {number} was lost {n_losses} times, the last time because {why}.") from lost
    again = [call if number in lost.lost else None for number, call in enumerate(calls)]
    starts: list[ShardCall | None] = [None] * len(again)
    for number, call in enumerate(again):
        if call is not None and call.method not in STARTING:
            if sources is None:
                raise SylvanError(
                    f"Shard {number} was lost with vectors that were not saved, because {lost.lost[number]}. Fit the "
                    "index again, or load it from where it was saved before. An index that is saved after it was "
                    "fitted or changed starts lost shards again by itself."
                ) from lost
            starts[number] = sources[number]
    for part in (starts, again):
        if any(call is not None for call in part):
            try:
                answers = executor.run(part)
            except LostShardsError as more:
                answers = recovered(executor, part, sources, more, n_losses + 1)
    return [answers[number] if number in lost.lost else answer for number, answer in enumerate(lost.answers)]
