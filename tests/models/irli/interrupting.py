"""A training that is interrupted once so many of its results are stored."""

from __future__ import annotations

from typing import Any

import pytest

from sylvan.runtime import Checkpoint, checkpointed


def interrupt_after(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    """Every result is stored as soon as it is there; after the ``n``-th the training is interrupted, once."""
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    write, left = Checkpoint.write, [n]

    def interrupted(self: Checkpoint, name: str, state: Any) -> None:
        write(self, name, state)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", interrupted)
