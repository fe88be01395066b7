"""The training loop of every task: early stopping, the best model, checkpoints that resume to the same bits."""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from sylvan.errors import DataError, ModelError
from sylvan.neural.loop.checkpoint import History, TrainingFolder
from sylvan.neural.loop.engine import (
    AsItIs,
    Engine,
    finite,
    memory_sentences,
    random_state,
    set_random_state,
    untouched_randomness,
)
from sylvan.parallel import Progress, progress, quiet
from sylvan.params.fields import Parameterized, Range

_LOOKED_AT = 50  # steps between two looks at the loss; a look waits for the device
_OWN = ("random", "job", "loss")  # what of a checkpoint differs from process to process
_REMEDY = (
    "Lower batch_size (accumulate=2 with half of it makes the same steps) or max_length, turn gradient_checkpointing "
    "on where the encoder has it, or take precision='bf16'."
)


@dataclass(repr=False)
class WarmupSchedule(Parameterized):
    """Up in a straight line over the first steps, then down in one to ``floor`` at the last step.

    For fine-tuning a pretrained encoder (PECOS, section 4.2, as in BERT).

    Parameters
    ----------
    steps : int, from 1
        Steps of the optimiser in all; beyond them the factor stays at ``floor``.
    warmup : float in [0, 1]
        The share of them during which the rate rises. The first step is never of rate 0.
    floor : float in [0, 1]
        The factor after the last step.

    Examples
    --------
    >>> from sylvan.neural import WarmupSchedule
    >>> schedule = WarmupSchedule(steps=10, warmup=0.2)
    >>> [round(schedule.factor(step), 3) for step in range(11)]
    [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0]
    """

    steps: Annotated[int, Range(1)]
    warmup: Annotated[float, Range(0, 1)] = 0.1
    floor: Annotated[float, Range(0, 1)] = 0.0

    def __post_init__(self) -> None:
        self.check_params()

    @property
    def rising(self) -> int:
        """How many steps the rate rises."""
        return round(self.steps * self.warmup)

    def factor(self, step: int) -> float:
        """What the learning rate is multiplied by in a step, counted from 0."""
        if step < self.rising:
            return (step + 1) / self.rising
        left = (self.steps - step) / max(self.steps - self.rising, 1)
        return self.floor + (1 - self.floor) * min(max(left, 0.0), 1.0)

    def schedulers(self, optimizers: Sequence[torch.optim.Optimizer]) -> list[LambdaLR]:
        """One scheduler an optimiser, for ``schedulers`` of a :class:`sylvan.neural.Job`.

        Examples
        --------
        >>> import torch
        >>> from sylvan.neural import WarmupSchedule
        >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        >>> (scheduler,) = WarmupSchedule(steps=4, warmup=0.5).schedulers([optimizer])
        >>> optimizer.param_groups[0]["lr"]
        0.05
        """
        return [LambdaLR(optimizer, self.factor) for optimizer in optimizers]


@dataclass(repr=False)
class RefreshSchedule(Parameterized):
    """Every ``early_every`` steps up to step ``early_steps``, every ``every`` steps from then on; step 0 is due.

    What a refresh costs grows with the classes, so the tasks take :meth:`for_classes` when they are given none.

    Parameters
    ----------
    every, early_every : int, from 1
    early_steps : int, from 0

    Examples
    --------
    >>> from sylvan.neural import RefreshSchedule
    >>> schedule = RefreshSchedule(every=50, early_every=10, early_steps=20)
    >>> [step for step in range(120) if schedule.due(step)]
    [0, 10, 50, 100]
    """

    every: Annotated[int, Range(1)] = 20
    early_every: Annotated[int, Range(1)] = 10
    early_steps: Annotated[int, Range(0)] = 200

    def __post_init__(self) -> None:
        self.check_params()

    def due(self, step: int) -> bool:
        """Whether the index is to be built before this step, counted from 0."""
        return step % (self.early_every if step < self.early_steps else self.every) == 0

    @classmethod
    def for_classes(cls, n_classes: int) -> RefreshSchedule:
        """Every five steps up to ten thousand classes, and in proportion to their number beyond.

        A step's share of a refresh then costs about the same however many classes there are.

        Examples
        --------
        >>> RefreshSchedule.for_classes(1_000_000).every
        500
        """
        every = max(5, n_classes // 2000)
        return cls(every=every, early_every=every, early_steps=0)


class Job(ABC):
    """What is trained: a module, its optimisers, batches in an order that the epoch decides, and measures.

    Attributes
    ----------
    module : nn.Module
        Holds every parameter and buffer: encoder, class table, sampler, loss.
    optimizers : list of torch.optim.Optimizer
        All of them step after every batch.
    metric : str
        The key of :meth:`evaluate` that decides which model is the best.
    larger_is_better : bool
    later_of_equals : bool, default False
        Whether the later of two models that measure the same is taken for the best. It doesn't count as a better
        one: patience goes on waiting.
    measures_start : bool, default False
        Whether the model is measured before the first step too, and is the best where nothing better follows.
    schedulers : sequence of torch.optim.lr_scheduler.LRScheduler
        All of them step after every step of the optimisers; :class:`~sylvan.neural.WarmupSchedule` makes some.
    title : str, default "Training"
        What the progress bar is called.

    Examples
    --------
    >>> import torch
    >>> from sylvan.neural import Job, train
    >>> class Line(Job):
    ...     metric, larger_is_better = "error", False
    ...     def __init__(self):
    ...         self.module = torch.nn.Linear(1, 1)
    ...         self.optimizers = [torch.optim.SGD(self.module.parameters(), lr=0.5)]
    ...         self.x = torch.linspace(-1, 1, 20).unsqueeze(1)
    ...     def steps_per_epoch(self):
    ...         return 4
    ...     def batches(self, epoch):
    ...         return iter(self.x.split(5))
    ...     def step(self, batch, step):
    ...         return ((self.module(batch) - 3 * batch - 1) ** 2).mean()
    ...     def evaluate(self, split):
    ...         return {"error": float(self.step(self.x, 0))}
    >>> history = train(Line(), epochs=50, patience=5)
    >>> history.test["error"] < 1e-6
    True
    """

    module: nn.Module
    optimizers: list[torch.optim.Optimizer]
    metric: str
    larger_is_better: bool = True
    later_of_equals: bool = False
    measures_start: bool = False
    schedulers: Sequence[LRScheduler] = ()
    title: str = "Training"

    @abstractmethod
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has."""

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of an epoch, counted from 0: the same for the same seed and epoch."""

    @abstractmethod
    def step(self, batch: Any, step: int) -> Tensor:
        """The loss of one batch; ``step`` counts from 0 over all epochs. Refreshes the sampler when it is due.

        With an engine, ``batch`` is this process's part of what :meth:`batches` gave, the loss its rows' mean, and
        ``step`` counts the optimisers' steps, each of which may take several batches. What the batch needs on the
        engine's device :meth:`sylvan.neural.Engine.batch` puts there.
        """

    def prepare(self, step: int) -> None:  # noqa: B027  # most jobs have nothing to prepare
        """What is due before a step of the optimisers.

        Of several processes each is asked, one without a row of the batch too, whose :meth:`step` isn't called: here is
        the place for what they compute together.
        """

    @abstractmethod
    def evaluate(self, split: str) -> dict[str, float]:
        """Measures on "validation" or "test"; called without gradients and with the module in evaluation mode.

        Of several processes each is asked, and what the main one answers holds.
        """

    def settings(self) -> dict[str, Any]:
        """Plain values that decide what is trained; a checkpoint goes on under the same ones only."""
        return {}

    def state(self) -> dict[str, Any]:
        """What a checkpoint has to hold beside module and optimisers, like hidden states that are carried over."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027  # most jobs have no state of their own
        """What :meth:`state` gave, put back; its tensors are on the CPU."""


@dataclass(repr=False)
class _Limits(Parameterized):
    """The parameters of :func:`train` that have ranges."""

    epochs: Annotated[int, Range(1)]
    patience: Annotated[int | None, Range(1)]
    seed: Annotated[int, Range(0)]
    max_steps: Annotated[int | None, Range(1)]
    time_limit: Annotated[float | None, Range(0, open_low=True)]
    clip_norm: Annotated[float | None, Range(0, open_low=True)]
    checkpoint_every: Annotated[float, Range(0)]
    evaluate_every: Annotated[int | None, Range(1)]


_Limits.__name__ = "train"  # whose parameters they are, in errors


def train(
    job: Job,
    *,
    epochs: int,
    patience: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    seed: int = 0,
    max_steps: int | None = None,
    time_limit: float | None = None,
    clip_norm: float | None = None,
    checkpoint_every: float = 600.0,
    evaluate_every: int | None = None,
    on_entry: Callable[[dict[str, Any]], None] | None = None,
    on_start: Callable[[], None] | None = None,
    engine: Engine | None = None,
) -> History:
    """Train until the validation measure stops improving or a limit is reached; ``job.module`` is then the best model.

    A training that was stopped or killed and goes on by ``resume`` has the same parameters, bit for bit, as one that
    never stopped (on the same device, with the same number of threads).

    Parameters
    ----------
    job : Job
    epochs : int
        The most epochs.
    patience : int, optional
        Stop after so many evaluations in a row without a better one; never for None.
    folder : path, optional
        Where ``checkpoint``, ``best`` (both folders of :mod:`sylvan.store`) and ``results.json`` are written; for
        None nothing is, and the best model stays in memory.
    resume : bool
        Go on from the checkpoint in ``folder`` if there is one; otherwise it is removed.
    seed : int
        Given to :func:`torch.manual_seed` before the first step.
    max_steps, time_limit : int and float, optional
        Stop after so many steps or seconds, those before a ``resume`` among them, with a last evaluation and a
        checkpoint.
    clip_norm : float, optional
        The most that the gradients' common norm may be.
    checkpoint_every : float
        Seconds between two checkpoints within an epoch; there is one after each epoch anyway.
    evaluate_every : int, optional
        Steps between two evaluations; by default there is one after each epoch.
    on_entry : callable, optional
        Given each new entry of the history.
    on_start : callable, optional
        Called once, before the first step, when the checkpoint is taken in or removed: the time to write beside it what
        belongs to this training.
    engine : Engine, optional
        Where and how it computes: the module is then placed on its device, batches are shared among its processes,
        gradients accumulated over its number of batches, and steps counted are the optimisers'. A checkpoint is never
        made within an accumulation. Of several processes each calls this function; the main one writes, and calls
        ``on_entry`` and ``on_start``; all must see the same ``folder``. Without one everything stays where it is.

    Returns
    -------
    History

    Raises
    ------
    ParameterError
        When a parameter is out of its range.
    DataError
        When an epoch has no batch.
    ModelError
        When the checkpoint is damaged or of another training, or the folder can't be written.
    MemoryLimitError
        When the device or the machine runs out of memory.
    SylvanError
        When another process of the engine ended, or gave no sign for its ``timeout``.
    """
    limits = _Limits(epochs, patience, seed, max_steps, time_limit, clip_norm, checkpoint_every, evaluate_every)
    limits.check_params()
    engine = AsItIs(job.module) if engine is None else engine
    with memory_sentences("Training", str(engine.device), _REMEDY), quiet(not engine.is_main):
        engine.place(job.module)
        return _Run(job, limits, TrainingFolder(folder, writes=engine.is_main), engine, on_entry).run(resume, on_start)


class _Run:
    """One training on its way: where it stands, and the steps of the loop."""

    def __init__(
        self,
        job: Job,
        limits: _Limits,
        files: TrainingFolder,
        engine: Engine,
        on_entry: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.job, self.limits, self.files, self.engine, self.on_entry = job, limits, files, engine, on_entry
        self.n_batches = job.steps_per_epoch()  # in an epoch
        if self.n_batches < 1:
            raise DataError("There is nothing to train on: not even one batch. Give more data, or smaller batches.")
        self.history = History(job.metric, job.larger_is_better)
        self.epoch = self.within = self.step = self.stale = self.n_losses = 0
        self.loss: Tensor = torch.zeros((), dtype=torch.float64)  # sum since the last entry, on the losses' device
        self.restored: dict[str, Any] | None = None
        self.seconds_before = 0.0

    def run(self, resume: bool, on_start: Callable[[], None] | None) -> History:
        self.started = self.saved = time.monotonic()
        # The seed itself in the first process, and others that differ in the rest.
        seed, process = self.limits.seed, self.engine.process
        torch.manual_seed((seed + process * 0x9E3779B97F4A7C15) % 2**63 if process else seed)
        restored = self.engine.everyone(resume and self._restore())
        if len(set(restored)) > 1:
            raise ModelError(
                f"Not every process sees the checkpoint in {self.files.folder!r}: they must share a folder."
            )
        if not restored[0]:
            self.files.clear()
        if on_start is not None and self.engine.is_main:
            on_start()
        self.engine.wait()
        if self.job.measures_start and not self.step:
            self._evaluate()
        self.history.stopped = self._reason()
        if self.history.stopped and self.within:
            self._evaluate(counts=False)
        per_epoch = -(-self.n_batches // self.engine.accumulate)
        total = min(self.limits.epochs * per_epoch, self.limits.max_steps or self.limits.epochs * per_epoch)
        with progress(self.job.title, max(total - self.step, 0), "step") as bar:
            while not self.history.stopped:
                self._run_epoch(bar)
                self.history.stopped = self.history.stopped or self._reason()
                if self.history.stopped == "diverged":
                    self.history.seconds = self._seconds()
                elif not self.within:  # else it is saved already
                    self._save()
        self.engine.wait()
        self.files.restore_best(self.job.module)
        self.engine.place(self.job.module)  # of several processes the main one's best is everyone's
        if self.history.best is not None:
            with untouched_randomness(), torch.no_grad():
                self.job.module.eval()
                self.history.test = self.engine.agree(self.job.evaluate("test"))
        self.files.write_results(self.job.settings(), vars(self.limits), self.history)
        return self.history

    def _reason(self) -> str:
        """Why training ends here; "" while it goes on."""
        limits = self.limits
        if limits.patience is not None and self.stale >= limits.patience:
            return "patience"
        if self.epoch >= limits.epochs:
            return "epochs"
        if limits.max_steps is not None and self.step >= limits.max_steps:
            return "steps"
        return "time" if limits.time_limit is not None and self._seconds() >= limits.time_limit else ""

    def _seconds(self) -> float:
        return float(self.engine.agree(self.seconds_before + time.monotonic() - self.started))

    def _run_epoch(self, bar: Progress) -> None:
        """The rest of an epoch, or a part of it where a limit or the patience ends the training."""
        job, limits = self.job, self.limits
        batches = iter(job.batches(self.epoch))
        if self.restored is not None:  # pass over what was learned from before, leaving no trace of doing so
            for _ in range(self.within):
                next(batches, None)
            job.load_state(self.restored["job"])
            set_random_state(self.restored["random"])
            self.restored = None
        job.module.train()
        while group := list(islice(batches, self.engine.accumulate)):
            self._learn(group)
            bar.update()
            measured = limits.evaluate_every is not None and self.step % limits.evaluate_every == 0
            if measured:
                self._evaluate()
            waited = time.monotonic() - self.saved
            due = self.files.folder is not None and bool(self.engine.agree(waited) >= limits.checkpoint_every)
            complete = self.within >= self.n_batches
            if not measured and not self._sound(due or complete):
                self.history.stopped = "diverged"
            reason = self.history.stopped or self._reason()
            if reason and (reason == "diverged" or not complete):
                if reason != "diverged":
                    self._save()  # before a measurement that an uninterrupted training doesn't make
                self._evaluate(counts=False)
                self.history.stopped = self.history.stopped or reason
                return
            if due:
                self._save()
        self.epoch, self.within = self.epoch + 1, 0
        if limits.evaluate_every is None or self.epoch == limits.epochs:
            self._evaluate()

    def _sound(self, saving: bool) -> bool:
        """Whether losses, and weights that are to be saved, are finite numbers. Reading a loss waits for the device, so
        that it is done now and then, and before anything is overwritten."""
        if not saving and self.step % _LOOKED_AT:
            return True
        sound = math.isfinite(float(self.loss)) and (not saving or finite(self.job.module))
        return all(self.engine.everyone(sound))

    def _learn(self, group: list[Any]) -> None:
        """One step of the optimisers, from the batches of ``group``."""
        job, engine = self.job, self.engine
        job.prepare(self.step)
        for number, batch in enumerate(group):
            part, weight = engine.share_weighted(batch)
            loss = None
            if weight:
                with engine.autocast():
                    loss = job.step(part, self.step)
            if not number:
                for optimizer in job.optimizers:
                    optimizer.zero_grad(set_to_none=True)
            if loss is not None:
                engine.backward(loss, weight / len(group))
                self.loss = self.loss.to(loss.device) + loss.detach().double() * weight
        if engine.update(job.optimizers, self.limits.clip_norm):
            for scheduler in job.schedulers:
                scheduler.step()
        self.n_losses += len(group)
        self.step += 1
        self.within += len(group)

    def _evaluate(self, counts: bool = True) -> None:
        """Add an entry to the history, save the model if it is the best so far; once for each step at most."""
        history = self.history
        if history.epochs and history.epochs[-1]["step"] == self.step:
            return
        loss, module = float(self.loss), self.job.module
        with untouched_randomness(), torch.no_grad():
            module.eval()
            measures = self.job.evaluate("validation")
            module.train()
        values = (loss, finite(module), self.seconds_before + time.monotonic() - self.started, measures)
        losses, finite_, seconds, measured = zip(*self.engine.everyone(values), strict=True)
        mean = sum(losses) / len(losses) / self.n_losses if self.n_losses else math.nan  # before the first step
        epoch = self.epoch + (1 if self.within else 0)
        entry = {"epoch": epoch, "step": self.step, "seconds": seconds[0], "loss": mean, **measured[0]}
        self.loss, self.n_losses = torch.zeros((), dtype=torch.float64), 0
        history.epochs.append(entry)
        order = history.compare(entry[history.metric])
        if (self.step and not math.isfinite(mean)) or not all(finite_):
            order, history.stopped = -1, "diverged"  # whatever it measures, it isn't a model any more
        elif order > 0 or (order == 0 and self.job.later_of_equals):
            history.best = entry
            self.files.save_best(module, entry, keep=not counts)
        if order > 0:
            self.stale = 0
        elif counts:
            self.stale += 1
        if self.on_entry is not None and self.engine.is_main:
            self.on_entry(entry)

    # Checkpoints.

    def _identity(self) -> dict[str, Any]:
        own = {"seed": self.limits.seed, "clip_norm": self.limits.clip_norm}
        return {**self.job.settings(), **self.engine.settings(), **own}

    def _save(self) -> None:
        self.history.seconds = self._seconds()
        self.saved = time.monotonic()
        if self.files.folder is None:
            return
        tree: dict[str, Any] = {
            "module": self.job.module.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.job.optimizers],
            "random": random_state(),
            "job": self.job.state(),
            "history": self.history.as_dict(),
            "position": [self.epoch, self.within, self.step, self.stale, self.n_losses],
            "loss": self.loss,
        }
        if self.job.schedulers:
            tree["schedulers"] = [scheduler.state_dict() for scheduler in self.job.schedulers]
        if self.engine.state():
            tree["engine"] = self.engine.state()
        if self.engine.n_processes > 1:
            tree["processes"] = self.engine.everyone({name: tree[name] for name in _OWN})
        self.files.save(tree, self._identity())
        self.files.write_results(self.job.settings(), vars(self.limits), self.history)
        self.engine.wait()

    def _restore(self) -> bool:
        """Take the checkpoint in, if there is one."""
        tree = self.files.load(self._identity())
        if tree is None:
            return False
        self.job.module.load_state_dict(tree["module"])
        for optimizer, state in zip(self.job.optimizers, tree["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        for scheduler, state in zip(self.job.schedulers, tree.get("schedulers", []), strict=True):
            scheduler.load_state_dict(state)
        self.engine.load_state(tree.get("engine", {}))
        if "processes" in tree:
            tree.update(tree["processes"][self.engine.process])
        self.job.load_state(tree["job"])
        set_random_state(tree["random"])
        self.history = History(**tree["history"])
        self.epoch, self.within, self.step, self.stale, self.n_losses = tree["position"]
        self.loss = tree["loss"]
        self.seconds_before = self.history.seconds
        self.files.bring_back(self.history.best)
        self.restored = {name: tree[name] for name in ("job", "random")}
        return True
