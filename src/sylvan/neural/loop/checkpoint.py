"""The folder of a training: its last checkpoint, its best model and its results."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from sylvan import store
from sylvan.errors import ModelError
from sylvan.neural.loop.history import History, to_json, write_json
from sylvan.neural.loop.state_tree import load_tree, save_tree
from sylvan.runtime.checkpoint import refuse_another
from sylvan.version import __version__

_CHECKPOINT, _BEST, _RESULTS = "checkpoint", "best", "results.json"
_KINDS = {_CHECKPOINT: "neural-checkpoint", _BEST: "neural-model"}


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether a training has left a checkpoint in its folder."""
    return os.path.isfile(os.path.join(store.folder_path(folder), _CHECKPOINT, "manifest.json"))


def load_best(folder: str | os.PathLike[str], module: nn.Module) -> None:
    """Put the best model of a training that wrote to ``folder`` into ``module``.

    Parameters
    ----------
    folder : path
        What :func:`~sylvan.neural.train` or ``sylvan task`` was given.
    module : nn.Module
        The ``module`` of a job that was made with the same settings.

    Raises
    ------
    ModelError
        When no best model lies there, it is damaged, or it is of another network.

    Examples
    --------
    >>> import tempfile, torch
    >>> from sylvan.neural import load_best
    >>> load_best(tempfile.mkdtemp(), torch.nn.Linear(2, 2))
    Traceback (most recent call last):
    ...
    sylvan.errors.ModelError: ... holds no best model of a training.
    """
    path = os.path.join(store.folder_path(folder), _BEST)
    if not os.path.isfile(os.path.join(path, "manifest.json")):
        raise ModelError(f"{os.fspath(folder)!r} holds no best model of a training.")
    try:
        module.load_state_dict(load_tree(path, kind=_KINDS[_BEST]))
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ModelError(
            f"The best model in {os.fspath(folder)!r} is of another network than this one: {reason}"
        ) from error


class TrainingFolder:
    """The folder of a training: its checkpoint, best model and results; without one the best model stays in memory."""

    def __init__(self, folder: str | os.PathLike[str] | None, writes: bool = True) -> None:
        self.folder = None if folder is None else store.folder_path(folder)
        self.writes = writes  # False for a process that only reads what another one writes
        self._best: dict[str, Any] | None = None
        if self.folder is not None and writes:
            for name in _KINDS:
                store.check_target(self._path(name))

    def _path(self, name: str) -> str:
        assert self.folder is not None
        return os.path.join(self.folder, name)

    def clear(self) -> None:
        """Remove what an earlier training left."""
        if self.folder is None or not self.writes:
            return
        for name in _KINDS:
            if os.path.isfile(os.path.join(self._path(name), "manifest.json")):
                shutil.rmtree(self._path(name))

    def save(self, tree: dict[str, Any], identity: Mapping[str, Any]) -> None:
        """Replace the checkpoint."""
        if self.writes:
            save_tree(self._path(_CHECKPOINT), tree, kind=_KINDS[_CHECKPOINT], params=to_json(dict(identity)))

    def check(self, identity: Mapping[str, Any]) -> bool:
        """Whether there is a checkpoint to go on from."""
        if self.folder is None or not has_checkpoint(self.folder):
            return False
        before = store.load(self._path(_CHECKPOINT)).params
        refuse_another(self.folder, _settings(before), _settings(to_json(dict(identity))))
        return True

    def load(self, identity: Mapping[str, Any]) -> dict[str, Any] | None:
        """The checkpoint, or None where there is none; see :meth:`check`."""
        if not self.check(identity):
            return None
        tree: dict[str, Any] = load_tree(self._path(_CHECKPOINT), kind=_KINDS[_CHECKPOINT])
        return tree

    def save_best(self, module: nn.Module, entry: dict[str, Any]) -> None:
        """Take ``module`` as it is now for the best model."""
        if self.folder is not None:
            if self.writes:
                save_tree(self._path(_BEST), module.state_dict(), kind=_KINDS[_BEST], params=to_json(entry))
            return
        copied = module.state_dict()
        self._best = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in copied.items()}

    def restore_best(self, module: nn.Module) -> None:
        """Put the best model's values into ``module``; they stay as they are where there is none."""
        if self.folder is None:
            if self._best is not None:
                module.load_state_dict(self._best)
        elif os.path.isfile(os.path.join(self._path(_BEST), "manifest.json")):
            load_best(self.folder, module)

    def write_results(self, settings: Mapping[str, Any], limits: Mapping[str, Any], history: History) -> None:
        """Write ``results.json``."""
        if self.folder is not None and self.writes:
            os.makedirs(self.folder, exist_ok=True)
            write_json(self._path(_RESULTS), results_of(settings, limits, history))


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The names by which a sentence calls them."""
    return {f"the setting {name!r}": value for name, value in values.items()}


def results_of(settings: Mapping[str, Any], limits: Mapping[str, Any], history: History) -> dict[str, Any]:
    """What ``results.json`` holds: settings, limits, the history, versions."""
    return {"settings": dict(settings), "training": dict(limits), **history.as_dict(), "versions": _versions()}


def _versions() -> dict[str, Any]:

    return {
        "sylvan": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
