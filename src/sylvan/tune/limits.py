"""What a tuning may take and what its model must hold to: seconds, bytes, and the clock that counts them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sylvan.errors import ParameterError
from sylvan.runtime.memory import parse_bytes, shown_bytes
from sylvan.runtime.plan import shown_seconds

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]+)\s*", re.IGNORECASE)


def parse_seconds(value: Any, name: str) -> float:
    """A duration in seconds."""
    seconds = -1.0
    if isinstance(value, str):
        parts = _PART.findall(value)
        if parts and not _PART.sub("", value) and all(unit.lower() in _UNITS for _, unit in parts):
            seconds = sum(float(amount) * _UNITS[unit.lower()] for amount, unit in parts)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    if not 0 < seconds < 1e9:
        raise ParameterError(
            f"The {name!r} parameter must be a number of seconds above 0, or text such as '10m', '1h30m', '90s' or "
            f"'1ms'. Got {value!r} instead."
        )
    return seconds


def shown_time(seconds: float) -> str:
    """A time as sentences show it, short ones too: ``"0.8 ms"``, ``"4.2 s"``."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 0.1 else shown_seconds(seconds)


@dataclass(frozen=True)
class Limits:
    """What the tuned model must hold to; None where there is no limit."""

    latency: float | None = None  # most seconds of a single query, the median of some on this machine
    size: int | None = None  # most bytes of the saved model's folder
    train_time: float | None = None  # most seconds of the training on all rows

    @classmethod
    def of(cls, max_latency: Any = None, max_size: Any = None, max_train_time: Any = None) -> Limits:
        """The limits as a caller writes them: ``"1ms"``, ``"50MB"``, ``"5m"``."""
        return cls(
            None if max_latency is None else parse_seconds(max_latency, "max_latency"),
            None if max_size is None else parse_bytes(max_size, "max_size"),
            None if max_train_time is None else parse_seconds(max_train_time, "max_train_time"),
        )

    def excesses(self, latency: float | None, size: float | None, train_time: float | None) -> dict[str, float]:
        """How much each limit is exceeded, as a share of it; at most 0 where it's held. Unknown values hold."""
        pairs = {"latency": (latency, self.latency), "size": (size, self.size),
                 "train_time": (train_time, self.train_time)}  # fmt: skip
        return {
            name: value / limit - 1 for name, (value, limit) in pairs.items() if value is not None and limit is not None
        }

    def broken(self, latency: float | None, size: float | None, train_time: float | None) -> list[str]:
        """A few words for each limit that isn't held."""
        shown: dict[str, Callable[[Any], str]] = {"latency": shown_time, "size": shown_bytes, "train_time": shown_time}
        words = {"latency": "a single query takes", "size": "it takes", "train_time": "its training takes"}
        values = {"latency": latency, "size": size, "train_time": train_time}
        return [
            f"{words[name]} {shown[name](values[name])}, which is more than {shown[name](getattr(self, name))}"
            for name, excess in self.excesses(latency, size, train_time).items()
            if excess > 0
        ]


@dataclass
class Budget:
    """The time that a tuning may take, the final training included; without end where ``seconds`` is None."""

    seconds: float | None = None
    clock: Callable[[], float] = time.perf_counter
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.clock()

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.start

    @property
    def remaining(self) -> float:
        """Seconds that are left; infinity without a budget."""
        return float("inf") if self.seconds is None else self.seconds - self.spent
