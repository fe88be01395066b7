"""Several processes that train one model together: who they are, their messages and their gradients. Accelerate makes
the group of processes from what ``accelerate launch`` (or ``torchrun``) puts into the environment. Small messages
(counts, measures, decisions) go through a second group on the CPU, so that nothing waits for a GPU."""

from __future__ import annotations

import datetime
import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from sylvan.errors import ParameterError, SylvanError
from sylvan.neural.loop.gradients import average_gradients

__all__ = ["Together", "find_processes"]

_control: Any = None  # the group for small messages; there is one for the whole life of a process


class Together:
    """One of several processes."""

    def __init__(self, device: torch.device, timeout: float) -> None:
        global _control
        import torch.distributed as dist

        self._dist, self.device, self._timeout = dist, device, timeout
        self.n, self.index = dist.get_world_size(), dist.get_rank()
        if _control is None:
            with self._together():
                _control = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=timeout))

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # of PyTorch's distributed package every error is one
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise SylvanError(
                f"Process {self.index} of {self.n} lost the others: one of them ended, or gave no sign for "
                f"{self._timeout:g} seconds ({reason}). Look for the first error among their outputs; a training with "
                "a folder goes on from its last checkpoint by resume."
            ) from error

    def agree(self, value: Any) -> Any:
        """The main process's value, in every process."""
        message = [value]
        with self._together():
            self._dist.broadcast_object_list(message, src=0, group=_control)
        return message[0]

    def everyone(self, value: Any) -> list[Any]:
        """Each process's value, in the order of their numbers."""
        values: list[Any] = [None] * self.n
        with self._together():
            self._dist.all_gather_object(values, value, group=_control)
        return values

    def wait(self) -> None:
        """Go on when every process is here."""
        with self._together():
            self._dist.monitored_barrier(group=_control, timeout=datetime.timedelta(seconds=self._timeout))

    def gather(self, rows: Tensor) -> Tensor:
        """Every process's rows, one after the other."""
        shapes = self.everyone(tuple(rows.shape))
        if len({shape[1:] for shape in shapes}) > 1:
            raise ParameterError(f"Processes can only gather rows of the same width. Got the shapes {shapes}.")
        counts = [shape[0] for shape in shapes]
        width = rows.element_size() * int(torch.Size(rows.shape[1:]).numel())
        if not max(counts) * width:
            return rows.new_empty((sum(counts), *rows.shape[1:]))
        padded = torch.zeros((max(counts), width), dtype=torch.uint8, device=rows.device)
        if len(rows):  # as bytes, which every backend carries
            padded[: len(rows)] = rows.detach().contiguous().reshape(len(rows), -1).view(torch.uint8)
        parts = [torch.empty_like(padded) for _ in counts]
        with self._together():
            self._dist.all_gather(parts, padded, group=self._group(rows))
        whole = torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
        return whole.view(rows.dtype).reshape(sum(counts), *rows.shape[1:])

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Put the main process's values into every process's tensors."""
        with self._together(), torch.no_grad():
            for tensor in tensors:
                plain = tensor.detach().contiguous()
                self._dist.broadcast(plain, src=0, group=self._group(tensor))
                if plain.data_ptr() != tensor.data_ptr():
                    tensor.copy_(plain)

    def average(self, parameters: Sequence[Tensor]) -> None:
        """Give every parameter the mean of the processes' gradients."""
        with self._together():
            average_gradients(parameters, self.n, _control)

    def _group(self, tensor: Tensor) -> Any:
        """Tensors of the CPU go where those of the devices can't: NCCL knows only GPUs."""
        return _control if tensor.device.type == "cpu" else None


def find_processes(device: str, timeout: float) -> Together | None:
    """The processes that were launched, or None where this one is alone."""
    available = torch.distributed.is_available()
    launched = _number("WORLD_SIZE") > 1 and "RANK" in os.environ
    if not available or not (launched or torch.distributed.is_initialized()):
        return None
    if launched and torch.distributed.is_initialized() is False and "LOCAL_RANK" not in os.environ:
        return None  # another framework's variables, not a launcher's
    try:
        PartialState = importlib.import_module("accelerate.state").PartialState
    except ImportError as error:
        raise ParameterError(
            f"{os.environ.get('WORLD_SIZE', 'Several')} processes were launched, which needs Accelerate. Install it "
            'with: pip install "sylvan[transformers]"'
        ) from error
    forced = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    on_cpu = device == "cpu" or (device == "auto" and (forced or not torch.cuda.is_available()))
    try:
        state = PartialState(cpu=on_cpu, timeout=datetime.timedelta(seconds=timeout))
    except RuntimeError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise SylvanError(
            f"The {os.environ.get('WORLD_SIZE', 'several')} processes could not find each other within {timeout:g} "
            f"seconds ({reason})."
        ) from error
    own = torch.device(state.device)
    return Together(torch.device("cpu") if own.type == "cpu" else own, timeout) if state.num_processes > 1 else None


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else 0
