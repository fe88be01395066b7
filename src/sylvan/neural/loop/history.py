"""What a training went through, as plain values that become ``results.json``."""

from __future__ import annotations

import json
import math
import os
import secrets
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["History", "to_json", "write_json"]


@dataclass
class History:
    """What :func:`sylvan.neural.train` gives back.

    Attributes
    ----------
    metric : str
        The measure that decided which model is the best, a key of each entry of ``epochs``.
    larger_is_better : bool
    epochs : list of dict
        One entry an evaluation, usually one an epoch: ``epoch`` (from 1; 0 before the first step), ``step`` (steps
        done), ``seconds`` (of training, evaluations included, over all resumed runs), ``loss`` (mean of the training
        losses since the entry before; NaN before the first step), and the validation measures by their names.
    best : dict or None
        The entry of the best model.
    stopped : {"patience", "epochs", "time", "steps", "diverged"} or ""
        What ended the training; "diverged" when a loss or a weight was no finite number any more. The last of
        ``epochs`` then says where, and neither the best model nor the checkpoint is of that time.
    test : dict
        The best model's measures on the test part.
    seconds : float
    """

    metric: str = ""
    larger_is_better: bool = True
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None
    stopped: str = ""
    test: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        return asdict(self)

    def better(self, value: float) -> bool:
        """Whether ``value`` of the watched measure beats the best entry's; a NaN never does."""
        if math.isnan(value):
            return False
        if self.best is None:
            return True
        before = float(self.best[self.metric])
        return value > before if self.larger_is_better else value < before

    def as_good(self, value: float) -> bool:
        """Whether ``value`` of the watched measure is the best entry's."""
        return self.best is not None and value == float(self.best[self.metric])


def to_json(value: Any) -> Any:
    """``value`` with what JSON has no word for replaced: infinities and NaN by None, other objects by their text."""
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def write_json(path: str, value: Any) -> None:
    """Write ``value`` as JSON, whole or not at all."""
    waiting = f"{path}.{secrets.token_hex(4)}"
    try:
        with open(waiting, "x", encoding="utf-8") as stream:
            json.dump(to_json(value), stream, indent=1, ensure_ascii=False, allow_nan=False)
            stream.write("\n")
        os.replace(waiting, path)
    except BaseException:
        if os.path.exists(waiting):
            os.unlink(waiting)
        raise
