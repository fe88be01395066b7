"""Where and how a training computes: device, precision, accumulated gradients, several processes, random numbers."""

from __future__ import annotations

import contextlib
import copy
import datetime
import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from sylvan.errors import MemoryLimitError, ParameterError, SylvanError
from sylvan.params.fields import Parameterized, Range, attribute, parameterized

# What PyTorch's allocators of the CPU say, on Linux and macOS and on Windows; they raise plain RuntimeErrors.
_CPU_WORDS = ("can't allocate memory", "not enough memory: you tried to allocate")
_control: Any = None  # the group for small messages; there is one for the whole life of a process
Precision = Literal["auto", "no", "bf16", "fp16"]
_Module = TypeVar("_Module", bound=nn.Module)
_BUCKET = 1 << 23  # numbers of gradients that travel together: 32 MiB of float32
_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that a device or the machine has no more memory."""
    if isinstance(error, SylvanError):
        return False
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _CPU_WORDS)


@contextmanager
def memory_sentences(doing: str, device: str, remedy: str) -> Iterator[None]:
    """Whatever runs out of memory in the block becomes one sentence."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        first = _first_line(error).split(". ")[0].rstrip(".")
        raise MemoryLimitError(f"{doing} ran out of memory on {device} ({first[:160]}). {remedy}") from error


def _find_processes(device: str, timeout: float) -> torch.device | None:
    """This process's device where several were launched; None where it is alone."""
    size = os.environ.get("WORLD_SIZE", "")
    launched = size.isdigit() and int(size) > 1 and "RANK" in os.environ
    if not dist.is_available() or not (launched or dist.is_initialized()):
        return None
    if launched and not dist.is_initialized() and "LOCAL_RANK" not in os.environ:
        return None  # another framework's variables, not a launcher's
    several = f"{os.environ.get('WORLD_SIZE', 'several')} processes"
    try:
        PartialState = importlib.import_module("accelerate.state").PartialState
    except ImportError as error:
        raise ParameterError(
            f"{several.capitalize()} were launched, which needs Accelerate. Install it with: pip install "
            '"sylvan[transformers]"'
        ) from error
    forced = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    on_cpu = device == "cpu" or (device == "auto" and (forced or not torch.cuda.is_available()))
    try:
        state = PartialState(cpu=on_cpu, timeout=datetime.timedelta(seconds=timeout))
    except RuntimeError as error:
        raise SylvanError(
            f"The {several} could not find each other within {timeout:g} seconds ({_first_line(error)[:200]})."
        ) from error
    of_process = torch.device(state.device)
    return (torch.device("cpu") if of_process.type == "cpu" else of_process) if state.num_processes > 1 else None


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@parameterized
class Engine(Parameterized):
    """A device, a precision and the processes that train together; given to :func:`sylvan.neural.train`.

    Several processes are started by ``torchrun``, on GPUs by ``accelerate launch`` too, with ``pip install
    "sylvan[transformers]"``; every one of them makes its engine and calls the same functions in the same order. Each
    then learns from its part of every batch, and they share the mean of their gradients, so that they do what one
    process does with the whole batch, up to rounding. The main process alone writes files.

    Parameters
    ----------
    device : str or torch.device, default "auto"
        "cpu", "cuda", "cuda:1"; "auto" is CUDA where there is some. Of several processes each has a device of its own.
    precision : {"auto", "no", "bf16", "fp16"}, default "auto"
        In what the forward pass computes; parameters and the optimisers' states stay in float32. "no" is float32 as
        well. "auto" is "bf16" on a CUDA device that knows it, else "no". "fp16" scales the loss, on CUDA alone.
    accumulate : int, default 1
        Batches whose gradients make one step of the optimisers: the memory of one batch, the step of many.
    timeout : float, default 3600
        Seconds that a process waits for the others before it gives up with a sentence. One that ends is noticed at
        once by those on the CPU.

    Attributes
    ----------
    device : torch.device
    precision : {"no", "bf16", "fp16"}
    n_processes, process : int
        How many there are, and which of them this is, from 0.
    is_main : bool
        Whether this is process 0.

    Raises
    ------
    ParameterError
        When a parameter is out of its range, there is no such device, or it doesn't know the precision.
    SylvanError
        When other processes were launched that can't be found.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import Engine
    >>> engine = Engine(device="cpu", precision="bf16", accumulate=4)
    >>> engine
    Engine(device='cpu', precision='bf16', accumulate=4)
    >>> with engine.autocast():
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    device: str | torch.device = "auto"
    precision: Precision = "auto"
    accumulate: Annotated[int, Range(1)] = 1
    timeout: Annotated[float, Range(0, open_low=True)] = 3600.0

    n_processes: int = attribute(1)
    process: int = attribute(0)
    _scaler: torch.amp.GradScaler = attribute(torch.amp.GradScaler("cpu", enabled=False))  # which does nothing

    def __post_init__(self) -> None:
        self.check_params()
        wanted = wanted_device(self.device)
        launched = _find_processes("auto" if wanted is None else wanted.type, self.timeout)
        if launched is not None:
            global _control
            self.n_processes, self.process = dist.get_world_size(), dist.get_rank()
            if _control is None:
                with self._with_others():
                    _control = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=self.timeout))
            if wanted is not None and (wanted.type != launched.type or wanted.index not in (None, launched.index)):
                raise ParameterError(
                    f"The 'device' parameter of Engine is {str(wanted)!r}, but this is process {self.process} of "
                    f"{self.n_processes}, whose device is {str(launched)!r}. Take 'auto'."
                )
        self.device = launched or wanted or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if self.precision == "auto":
            bf16 = self.device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
            self.precision = "bf16" if bf16 else "no"
        if self.precision == "fp16":
            if self.device.type != "cuda":
                raise ParameterError(
                    "The 'precision' parameter of Engine is 'fp16', which needs a CUDA device; this one is "
                    f"{str(self.device)!r}. Take 'bf16' or 'no'."
                )
            self._scaler = torch.amp.GradScaler(self.device.type)

    @contextmanager
    def _with_others(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # of PyTorch's distributed package every error is one
            raise SylvanError(
                f"Process {self.process} of {self.n_processes} lost the others: one of them ended, or gave no sign for "
                f"{self.timeout:g} seconds ({_first_line(error)[:200]}). Look for the first error among their outputs; "
                "a training with a folder goes on from its last checkpoint by resume."
            ) from error

    def __repr__(self) -> str:
        several = f", n_processes={self.n_processes}" if self.n_processes > 1 else ""
        settings = f"device={str(self.device)!r}, precision={self.precision!r}, accumulate={self.accumulate}"
        return f"{type(self).__name__}({settings}{several})"

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes."""
        return self.process == 0

    def settings(self) -> dict[str, Any]:
        """What decides the bits of a training; a checkpoint goes on under the same values only."""
        return {"precision": self.precision, "accumulate": self.accumulate, "processes": self.n_processes}

    # Where things are.

    def place(self, module: _Module) -> _Module:
        """Move a module to the device, in every process with the main one's values."""
        module.to(self.device)
        if self.n_processes > 1:
            with self._with_others(), torch.no_grad():
                for tensor in (*module.parameters(), *module.buffers()):
                    plain = tensor.detach().contiguous()
                    dist.broadcast(plain, src=0, group=_group_of(tensor))
                    if plain.data_ptr() != tensor.data_ptr():
                        tensor.copy_(plain)
        return module

    def batch(self, batch: Any) -> Any:
        """The tensors of a batch, in dicts, lists and tuples or alone, on the device.

        Examples
        --------
        >>> import torch
        >>> from sylvan.neural import Engine
        >>> Engine(device="cpu").batch({"ids": torch.ones(2)})["ids"].device
        device(type='cpu')
        """
        if isinstance(batch, Tensor):
            return batch.to(self.device, non_blocking=True)
        if isinstance(batch, dict):
            return {key: self.batch(value) for key, value in batch.items()}
        if isinstance(batch, list | tuple):
            return type(batch)(self.batch(value) for value in batch)
        return batch

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """What is computed in the block is computed in the precision."""
        if self.precision == "no":
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.device).type, dtype=_TYPES[self.precision])

    def without_rounding(self) -> Engine:
        """The same device and processes, computing in float32.

        Examples
        --------
        >>> from sylvan.neural import Engine
        >>> Engine(device="cpu", precision="bf16", accumulate=4).without_rounding()
        Engine(device='cpu', precision='no', accumulate=4)
        """
        engine = copy.copy(self)
        engine.precision, engine._scaler = "no", Engine._scaler
        return engine

    # One step.

    def backward(self, loss: Tensor, weight: float = 1.0) -> None:
        """Add a loss's gradients, times ``weight``, to those that the parameters have."""
        if weight != 1.0:
            loss = loss * weight
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]

    def reduce_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace gradients, dense and sparse, by their mean over the processes; the same bits in all of them."""
        if self.n_processes > 1:
            with self._with_others():
                distinct = list({id(parameter): parameter for parameter in parameters}.values())
                sparse = _average_gradients(distinct, self.n_processes)
            for parameter in sparse:
                self._average_sparse(parameter)

    @torch.no_grad()
    def _average_sparse(self, parameter: Tensor) -> None:
        """Only the rows that a process has travel, so that nothing of a table's own size is ever made."""
        grad = None if parameter.grad is None else parameter.grad.coalesce()
        n_indices = max(self.everyone(0 if grad is None else grad.sparse_dim()))
        if grad is None:
            places = torch.empty((n_indices, 0), dtype=torch.int64, device=parameter.device)
            values = parameter.new_empty((0, *parameter.shape[n_indices:]))
        else:
            places, values = grad.indices(), grad.values()
        places, values = self.gather(places.t()).t(), self.gather(values) / self.n_processes
        parameter.grad = torch.sparse_coo_tensor(places, values, parameter.shape, check_invariants=False).coalesce()

    def update(self, optimizers: Sequence[torch.optim.Optimizer], clip_norm: float | None = None) -> bool:
        """Let the optimisers make their step; False where it was skipped because a scaled loss overflowed."""
        parameters = [p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
        self.reduce_gradients(parameters)
        scaler = self._scaler
        if scaler.is_enabled():  # an optimiser without any gradient has nothing to unscale, and the scaler minds
            optimizers = [o for o in optimizers if any(p.grad is not None for g in o.param_groups for p in g["params"])]
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
        if clip_norm is not None:
            clip_gradients(parameters, clip_norm)
        before = scaler.get_scale()
        for optimizer in optimizers:
            scaler.step(optimizer)
        if optimizers:
            scaler.update()
        return scaler.get_scale() >= before

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to hold: the loss's scale."""
        return {"scaler": self._scaler.state_dict()} if self._scaler.is_enabled() else {}

    def load_state(self, state: dict[str, Any]) -> None:
        """What :meth:`state` gave, put back."""
        if "scaler" in state:
            self._scaler.load_state_dict(state["scaler"])

    # Several processes.

    def share(self, rows: Any) -> Any:
        """This process's rows of a batch: neighbours, the first processes one more where they can't be even.

        Parameters
        ----------
        rows : Tensor, ndarray, list, anything with ``len`` and ``take(ids)``, or dicts and tuples of these
            The same in every process.
        """
        return self.share_weighted(rows)[0]

    def share_weighted(self, rows: Any) -> tuple[Any, float]:
        """:meth:`share`, and what this part's mean loss counts so that the processes' mean is the batch's.

        The weight is 0 for a process that has no row of it.
        """
        if self.n_processes == 1:
            return rows, 1.0
        n = _length(rows)
        each, remainder = divmod(n, self.n_processes)
        first = self.process * each + min(self.process, remainder)
        last = first + each + (self.process < remainder)
        return _cut(rows, first, last), (last - first) * self.n_processes / max(n, 1)

    def gather(self, array: Any) -> Any:
        """Every process's rows, a Tensor's or an ndarray's, one after the other: what :meth:`share` cut, whole."""
        if self.n_processes == 1:
            return array
        if isinstance(array, np.ndarray):
            return self.gather(torch.from_numpy(np.ascontiguousarray(array))).numpy()
        shapes = self.everyone(tuple(array.shape))
        if len({shape[1:] for shape in shapes}) > 1:
            raise ParameterError(f"Processes can only gather rows of the same width. Got the shapes {shapes}.")
        counts = [shape[0] for shape in shapes]
        width = array.element_size() * int(torch.Size(array.shape[1:]).numel())
        if not max(counts) * width:
            return array.new_empty((sum(counts), *array.shape[1:]))
        padded = torch.zeros((max(counts), width), dtype=torch.uint8, device=array.device)
        if len(array):  # as bytes, which every backend carries
            padded[: len(array)] = array.detach().reshape(-1).view(torch.uint8).view(len(array), width)
        parts = [torch.empty_like(padded) for _ in counts]
        with self._with_others():
            dist.all_gather(parts, padded, group=_group_of(array))
        gathered = torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])
        return gathered.view(array.dtype).reshape(sum(counts), *array.shape[1:])

    def agree(self, value: Any) -> Any:
        """The main process's value, a plain one, in every process."""
        message = [value]
        if self.n_processes > 1:
            with self._with_others():
                dist.broadcast_object_list(message, src=0, group=_control)
        return message[0]

    def everyone(self, value: Any) -> list[Any]:
        """Each process's value, a plain one, in the order of their numbers."""
        values = [value] * self.n_processes
        if self.n_processes > 1:
            with self._with_others():
                dist.all_gather_object(values, value, group=_control)
        return values

    def wait(self) -> None:
        """Go on when every process is here.

        Raises
        ------
        SylvanError
            When one doesn't come within ``timeout`` seconds, or has ended.
        """
        if self.n_processes > 1:
            with self._with_others():
                dist.monitored_barrier(group=_control, timeout=datetime.timedelta(seconds=self.timeout))


class AsItIs(Engine):
    """What a training without an engine has: its module stays where it is, in one process."""

    def __init__(self, module: nn.Module) -> None:
        self.device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
        self.precision, self.accumulate, self.timeout = "no", 1, 3600.0

    def settings(self) -> dict[str, Any]:
        return {}

    def place(self, module: _Module) -> _Module:
        return module


def wanted_device(device: object, owner: str = "Engine") -> torch.device | None:
    """The device that an owner's parameter asks for; None for "auto"."""
    if isinstance(device, str) and device == "auto":
        return None
    try:
        if not isinstance(device, str | torch.device):
            raise RuntimeError
        wanted = torch.device(device)
    except RuntimeError:
        wanted = torch.device("meta")
    if wanted.type not in ("cpu", "cuda"):
        raise ParameterError(
            f"The 'device' parameter of {owner} must be 'auto', 'cpu', 'cuda' or one of several CUDA devices, like "
            f"'cuda:1'. Got {str(device)!r} instead."
        )
    n = torch.cuda.device_count()
    if wanted.type == "cuda" and (wanted.index or 0) >= n:
        raise ParameterError(
            f"The 'device' parameter of {owner} is {str(device)!r}, but PyTorch sees {n or 'no'} CUDA "
            f"device{'' if n == 1 else 's'} here. Take 'auto' or 'cpu', or install a PyTorch that knows your GPU."
        )
    return wanted


def _group_of(tensor: Tensor) -> Any:
    """Tensors of the CPU go where those of the devices can't: NCCL knows only GPUs."""
    return _control if tensor.device.type == "cpu" else None


def _length(rows: Any) -> int:
    if isinstance(rows, dict | tuple):
        values = list(rows.values() if isinstance(rows, dict) else rows)
        return max((_length(value) for value in values), default=0)
    return 0 if isinstance(rows, Tensor | np.ndarray) and rows.ndim == 0 else len(rows)


def _cut(rows: Any, first: int, last: int) -> Any:
    if isinstance(rows, dict):
        return {key: _cut(value, first, last) for key, value in rows.items()}
    if isinstance(rows, tuple):
        return tuple(_cut(value, first, last) for value in rows)
    if isinstance(rows, Tensor | np.ndarray):
        return rows if rows.ndim == 0 else rows[first:last]
    return rows.take(np.arange(first, last)) if hasattr(rows, "take") else rows[first:last]


@torch.no_grad()
def _average_gradients(parameters: Sequence[Tensor], n_processes: int) -> list[Tensor]:
    """Replace each parameter's dense gradient by the mean over all processes, those without one counted as zeros, in a
    few flat buffers; the parameters whose gradients are sparse wherever they have one."""
    kinds = torch.zeros((2, len(parameters)), dtype=torch.int32)
    for i, parameter in enumerate(parameters):
        if parameter.grad is not None:
            kinds[int(parameter.grad.is_sparse), i] = 1
    dist.all_reduce(kinds, op=dist.ReduceOp.MAX, group=_control)
    dense = [p for p, has in zip(parameters, kinds[0].tolist(), strict=True) if has]
    sparse = [p for p, d, s in zip(parameters, *kinds.tolist(), strict=True) if s and not d]
    for bucket in _buckets(dense):
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([(grad.to_dense() if grad.is_sparse else grad).reshape(-1) for grad in grads])
        dist.all_reduce(flat, group=_group_of(flat))
        flat /= n_processes
        for parameter, mean in zip(bucket, torch.split(flat, [p.numel() for p in bucket]), strict=True):
            grad = torch.empty_like(parameter) if parameter.grad is None or parameter.grad.is_sparse else parameter.grad
            parameter.grad = grad.copy_(mean.view_as(grad))
    return sparse


def _buckets(parameters: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbours of the same type and device, up to the most that travels together."""
    bucket: list[Tensor] = []
    size = 0
    for parameter in parameters:
        alike = not bucket or (parameter.dtype, parameter.device) == (bucket[0].dtype, bucket[0].device)
        if bucket and (not alike or size + parameter.numel() > _BUCKET):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        yield bucket


@torch.no_grad()
def clip_gradients(parameters: Tensor | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients so that their common 2-norm is at most ``max_norm``.

    As :func:`torch.nn.utils.clip_grad_norm_`, which fails on sparse gradients: of those only the rows that are there
    are touched. Nothing waits for the device.

    Parameters
    ----------
    parameters : Tensor, or iterable of Tensor
        Those without a gradient are passed over. A sparse gradient is replaced by its coalesced form.
    max_norm : float
        Above 0.

    Returns
    -------
    Tensor of float32, shape ()
        The norm before.

    Raises
    ------
    ParameterError
        When ``max_norm`` isn't a number above 0.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import clip_gradients
    >>> weight = torch.zeros(2, requires_grad=True)
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> float(clip_gradients([weight], 1.0)), weight.grad
    (5.0, tensor([0.6000, 0.8000]))
    """
    if not max_norm > 0:
        raise ParameterError(f"The 'max_norm' parameter of clip_gradients must be above 0. Got {max_norm!r} instead.")
    values: list[Tensor] = []
    for parameter in [parameters] if isinstance(parameters, Tensor) else parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        else:
            values.append(parameter.grad)
    if not values:
        return torch.zeros(())
    device = values[0].device
    norms = [torch.linalg.vector_norm(value, dtype=torch.float32).to(device) for value in values]
    total: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale.to(value.device, value.dtype))
    return total


@torch.no_grad()
def finite(module: nn.Module) -> bool:
    """Whether every parameter is finite. Sums are looked at, which need no memory of a table's size, and the device is
    waited for once."""
    sums = [
        parameter.sum(dtype=torch.promote_types(parameter.dtype, torch.float32))
        for parameter in module.parameters()
        if parameter.is_floating_point()
    ]
    return not sums or bool(torch.isfinite(torch.stack([each.double().to(sums[0].device) for each in sums])).all())


def random_state() -> dict[str, Any]:
    """The states of the CPU's generator and of every CUDA device's."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": list(cuda)}


def set_random_state(state: dict[str, Any]) -> None:
    """What :func:`random_state` gave, put back; states of devices that aren't there are skipped."""
    torch.set_rng_state(state["cpu"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"][: torch.cuda.device_count()])


def untouched_randomness() -> contextlib.AbstractContextManager[None]:
    """Whatever the block draws, the generators stand afterwards where they stood before."""
    return torch.random.fork_rng(range(torch.cuda.device_count()), device_type="cuda")
