"""The state of PyTorch's generators: what makes a resumed training draw what an uninterrupted one would have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["own_seed", "random_state", "set_random_state", "untouched_randomness"]


def own_seed(seed: int, process: int) -> int:
    """What a process's generator begins with: the seed itself in the first, and others that differ in the rest."""
    return seed if process == 0 else (seed + process * 0x9E3779B97F4A7C15) % 2**63


def random_state() -> dict[str, Any]:
    """The states of the CPU's generator and of every CUDA device's."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": list(cuda)}


def set_random_state(state: dict[str, Any]) -> None:
    """What :func:`random_state` gave, put back; states of devices that aren't there are skipped."""
    torch.set_rng_state(state["cpu"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])


@contextmanager
def untouched_randomness() -> Iterator[None]:
    """Whatever the block draws, the generators stand afterwards where they stood before."""
    before = random_state()
    try:
        yield
    finally:
        set_random_state(before)
