"""The record of a training in rounds: what each did, as a report shows it and a saved model holds it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sylvan import store
from sylvan.errors import ModelError

__all__ = ["Round", "Rounds"]

_MOST_ROUNDS, _MOST_NUMBERS = 10_000, 1 << 20
_NUMBERS = ("affinity_before", "affinity_after", "loss", "seconds")
_LISTS = ("moved", "load_deviation")


@dataclass(frozen=True)
class Round:
    """One round of a training.

    Attributes
    ----------
    number : int
        0 for the training on the hashed partition; each later round begins with a re-partition.
    moved : tuple of float
        Share of the labels that went to another bucket, a repetition each.
    affinity_before, affinity_after : float
        Theorem 1's quantity before the re-partition and after the training that follows it: the mean probability that
        the networks give the bucket that a label is in, over labels and their inputs; NaN where it wasn't measured. See
        :func:`~sylvan.models.irli.affinity.expected_affinity`.
    load_deviation : tuple of float
        Standard deviation of the buckets' loads, a repetition each.
    loss : float
        Mean binary cross-entropy of a row and a repetition, summed over buckets, in the round's last epoch.
    seconds : float
    holdout : dict of str to float
        What the judge measured on holdout rows; its "score" decides which round is the best.
    """

    number: int
    moved: tuple[float, ...]
    affinity_before: float
    affinity_after: float
    load_deviation: tuple[float, ...]
    loss: float
    seconds: float
    holdout: dict[str, float]


@dataclass(frozen=True)
class Rounds:
    """The rounds of a training, and the number of the best, whose partitions the model has."""

    rounds: tuple[Round, ...]
    best: int

    def as_json(self) -> dict[str, Any]:
        """Plain values for a saved model; None for numbers that JSON has no word for."""
        plain = []
        for one in self.rounds:
            entry: dict[str, Any] = {"number": one.number}
            entry.update({name: _finite(getattr(one, name)) for name in _NUMBERS})
            entry.update({name: [_finite(value) for value in getattr(one, name)] for name in _LISTS})
            entry["holdout"] = {name: _finite(value) for name, value in one.holdout.items()}
            plain.append(entry)
        return {"rounds": plain, "best_round": self.best}

    @classmethod
    def from_state(cls, state: store.State) -> Rounds:
        """From what :meth:`as_json` gave to a State, verified.

        Raises
        ------
        ModelError
            When it isn't a list of rounds.
        """
        rounds = state.meta.get("rounds")
        best = store.need_int(state, "best_round", 0, _MOST_ROUNDS)
        try:
            if not isinstance(rounds, list) or len(rounds) > _MOST_ROUNDS:
                raise TypeError("it is no list")
            return cls(tuple(_read_round(entry) for entry in rounds), best)
        except (TypeError, KeyError, ValueError) as error:
            where = state.where or "The model"
            raise ModelError(
                f"{where!r} is damaged: 'rounds' of the {state.kind} is no record of a training."
            ) from error


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _read_round(entry: Any) -> Round:
    if not isinstance(entry, dict) or not isinstance(entry["holdout"], dict):
        raise TypeError("a round is an object")
    number = entry["number"]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MOST_ROUNDS:
        raise ValueError("a round has a number")
    lists = {name: entry[name] for name in _LISTS}
    if any(not isinstance(values, list) or len(values) > _MOST_NUMBERS for values in lists.values()):
        raise TypeError("these are lists")
    return Round(
        number=number,
        holdout={str(name): _read_number(value) for name, value in entry["holdout"].items()},
        moved=tuple(_read_number(value) for value in lists["moved"]),
        load_deviation=tuple(_read_number(value) for value in lists["load_deviation"]),
        **{name: _read_number(entry[name]) for name in _NUMBERS},
    )


def _read_number(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise ValueError("no number")
    return float(value)
