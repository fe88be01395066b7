"""What is known of each trial, as the study keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sylvan.runtime.memory import shown_bytes
from sylvan.tune.limits import Limits, shown_time
from sylvan.tune.setting import Setting

HEADER = ("trial", "score", "rows", "training", "size", "query", "state", "setting")


@dataclass(frozen=True)
class Trial:
    """A setting, or an ensemble of several, and what was measured of it."""

    number: int  # 0 for the default model; ensembles follow after all others
    members: tuple[Setting, ...]  # one, or those of an ensemble
    weights: tuple[float, ...] = (1.0,)  # of the members
    # "complete" if it was measured with all training rows, "pruned" if it wasn't good enough for that, "skipped" if it
    # couldn't fit, "failed" if its training failed
    state: str = "complete"
    score: float | None = None  # the metric over the holdout, after training on `n_rows` rows
    n_rows: int = 0
    seconds: float | None = None  # of the training on all rows
    n_bytes: int | None = None  # of the saved model
    latency: float | None = None  # seconds of a single query
    note: str = ""  # why it was skipped or failed
    of_trials: tuple[int, ...] = field(default=())

    def words(self) -> str:
        """The setting in a few words."""
        if len(self.members) == 1:
            return self.members[0].words()
        parts = (f"{weight:.2f} of #{number}" for weight, number in zip(self.weights, self.of_trials, strict=True))
        return f"ensemble: {', '.join(parts)}"

    @property
    def family(self) -> tuple[str, ...]:
        """The model and what its terms are made of: settings of different families make the better ensembles."""
        one = self.members[0]
        return one.model, str(one.text.get("analyzer")), str(one.text.get("ngrams"))

    def excesses(self, limits: Limits) -> dict[str, float]:
        """By how much it exceeds each limit."""
        return limits.excesses(self.latency, self.n_bytes, self.seconds)

    def holds(self, limits: Limits) -> bool:
        """Whether it is within all limits, as far as is known."""
        return all(excess <= 0 for excess in self.excesses(limits).values())

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Trial:
        """What :meth:`as_json` gave."""
        trial = cls(**{**values, "members": tuple(Setting(**member) for member in values["members"])})
        return replace(trial, weights=tuple(trial.weights), of_trials=tuple(trial.of_trials))


def leaders(trials: Sequence[Trial]) -> list[Trial]:
    """The first trial of each family, in the order of these, each of one setting."""
    found: dict[tuple[str, ...], Trial] = {}
    for trial in trials:
        found.setdefault(trial.family, trial)
    return list(found.values())


def pareto_front(trials: Sequence[Trial]) -> list[Trial]:
    """The complete trials that no other beats: none is at least as good in score, latency, size and training time. Best
    score first."""
    complete = [trial for trial in trials if trial.state == "complete" and trial.score is not None]

    def costs(trial: Trial) -> list[float]:
        return [-(trial.score or 0.0), trial.latency or 0.0, trial.n_bytes or 0.0, trial.seconds or 0.0]

    def beats(one: Trial, other: Trial) -> bool:
        pairs = list(zip(costs(one), costs(other), strict=True))
        return all(a <= b for a, b in pairs) and (any(a < b for a, b in pairs) or one.number < other.number)

    front = [trial for trial in complete if not any(beats(other, trial) for other in complete if other is not trial)]
    return sorted(front, key=lambda trial: (-(trial.score or 0.0), trial.number))


def cells_of(trial: Trial) -> tuple[str, ...]:
    """A trial as a row of a table, in words."""
    return (
        f"#{trial.number}",
        "-" if trial.score is None else f"{100 * trial.score:.2f}",
        f"{trial.n_rows:,}" if trial.n_rows else "-",
        "-" if trial.seconds is None else shown_time(trial.seconds),
        "-" if trial.n_bytes is None else shown_bytes(trial.n_bytes),
        "-" if trial.latency is None else shown_time(trial.latency),
        trial.state,
        trial.words() + (f" ({trial.note})" if trial.note else ""),
    )
