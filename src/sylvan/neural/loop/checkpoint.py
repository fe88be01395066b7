"""The folder of a training: its last checkpoint as a tree of arrays, its best model, its history and results."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sylvan import store
from sylvan.data.streams import open_write
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.metrics import figures
from sylvan.runtime.checkpoint import refuse_another
from sylvan.runtime.jobs import Arrays, Packing
from sylvan.store import JSON
from sylvan.version import __version__

# What NumPy has no type for, or a store none, travels as the bits of something that both have.
_CARRIERS = {torch.bfloat16: torch.int16, torch.bool: torch.uint8}
_DTYPES = {
    str(dtype).partition(".")[2]: dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.bfloat16, torch.float16, torch.float32, torch.float64,
    )
}  # fmt: skip
_SMALL = 2**62  # ints beyond it are written as text
_CHECKPOINT, _BEST, _RESULTS = "checkpoint", "best", "results.json"
_KINDS = {_CHECKPOINT: "neural-checkpoint", _BEST: "neural-model"}


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

    def compare(self, value: float) -> int:
        """1 where ``value`` of the watched measure beats the best entry, 0 where it equals it, else -1, as for NaN."""
        if math.isnan(value):
            return -1
        if self.best is None:
            return 1
        before = float(self.best[self.metric])
        return 0 if value == before else 1 if (value > before) == self.larger_is_better else -1


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
    text = json.dumps(to_json(value), indent=1, ensure_ascii=False, allow_nan=False)
    with open_write(path) as stream:
        stream.write(f"{text}\n".encode("utf-8", "replace"))


def draw_convergence(history: History, paths: Sequence[str | os.PathLike[str]], title: str = "") -> None:
    """Draw how the training loss and the validation measure went, into each of ``paths`` (PNG, SVG or PDF).

    Raises
    ------
    DataError
        When there is nothing to draw, or matplotlib is missing.
    """
    figures.need_matplotlib("The picture of a training needs")
    if not history.epochs:
        raise DataError("There is nothing to draw: the training has no evaluation yet.")

    def curve(axes: Any, key: str, colour: str, label: str) -> None:
        finite = [entry for entry in history.epochs if math.isfinite(entry[key])]
        steps, values = [entry["step"] for entry in finite], [entry[key] for entry in finite]
        axes.plot(steps, values, marker="o", markersize=3.5, color=colour)
        axes.set(xlabel="steps", ylabel=label)
        figures.whole_numbers(axes)

    def measure(axes: Any) -> None:
        curve(axes, history.metric, figures.BLUE, f"validation {history.metric}")
        if history.best is not None and math.isfinite(value := history.best[history.metric]):
            place = history.best["step"], value
            axes.scatter(*place, s=70, facecolors="none", edgecolors=figures.GREY, zorder=3)
            axes.annotate(f"{value:.4g}", place, textcoords="offset points", xytext=(0, 8), ha="center", fontsize=9)
            axes.margins(y=0.14)

    loss = partial(curve, key="loss", colour=figures.ORANGE, label="training loss")
    figures.draw_panels(paths, title, (loss, measure), (9.2, 3.9))


def save_tree(folder: str | os.PathLike[str], tree: Any, *, kind: str, params: dict[str, JSON] | None = None) -> None:
    """Write nested dicts, lists and tuples of tensors, arrays and plain values, whole or not at all.

    Parameters
    ----------
    folder : path
    tree : Any
        Of None, bool, int, float (infinities and NaN too), str, tensors, arrays, and lists, tuples and dicts (with keys
        that are str or int) of these.
    kind : str
        What this is, asked for again by :func:`load_tree`.
    params : dict, optional
        Plain values that stand in the manifest for people to read.

    Raises
    ------
    ParameterError
        When ``tree`` holds anything else.
    ModelError
        When the folder can't be written; what was there before is then still there.

    Examples
    --------
    >>> import tempfile, torch
    >>> from sylvan.neural import load_tree, save_tree
    >>> folder = tempfile.mkdtemp()
    >>> save_tree(folder, {"weights": torch.ones(2), "step": 3}, kind="example")
    >>> load_tree(folder, kind="example")
    {'weights': tensor([1., 1.]), 'step': 3}
    """
    _save(folder, tree, kind, params or {})


def _save(folder: str | os.PathLike[str], tree: Any, kind: str, params: dict[str, JSON], keep: int = 0) -> None:
    arrays: dict[str, Any] = {}
    packed = _pack(tree, arrays, "")
    store.save(folder, store.State(kind, 1, params=params, meta={"tree": packed}, arrays=arrays), keep=keep)


def load_tree(folder: str | os.PathLike[str], *, kind: str) -> Any:
    """What :func:`save_tree` wrote; tensors are copies in the memory of the CPU.

    Raises
    ------
    ModelError
        When the folder is missing, damaged, or of another kind.
    """
    state = store.load(folder, mmap=False)
    store.need_kind(state, kind)
    if "tree" not in state.meta:
        raise ModelError(f"{state.where!r} is damaged: its manifest holds no 'tree'.")
    return _unpack(state.meta["tree"], state)


def _pack_nested(tree: Any) -> Arrays:
    arrays: dict[str, Any] = {}
    packed = _pack(tree, arrays, "")
    return {**arrays, "tree": np.frombuffer(json.dumps(packed).encode(), np.uint8)}


def _unpack_nested(arrays: Arrays) -> Any:
    try:
        tree = json.loads(bytes(arrays["tree"]))
    except (KeyError, ValueError) as error:
        raise ModelError("A stored result of nested values is damaged: it doesn't say how they are nested.") from error
    return _unpack(tree, store.State("", 1, arrays=dict(arrays)))


NESTED: Packing[Any] = Packing(_pack_nested, _unpack_nested)  # of a job whose result is what save_tree writes


def _pack(value: Any, arrays: dict[str, Any], place: str) -> JSON:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_SMALL < value < _SMALL else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    name = f"a{len(arrays)}"
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.dtype not in _DTYPES.values():
            raise ParameterError(
                f"A checkpoint holds dense tensors of ints, floats or truth values. Got a {value.layout} tensor of "
                f"{value.dtype} at {place or 'its top'} instead."
            )
        plain = value.detach().cpu().contiguous()
        arrays[name] = plain.view(_CARRIERS.get(plain.dtype, plain.dtype)).numpy()
        return {"$tensor": [name, str(value.dtype).partition(".")[2]]}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"$array": name}
    if isinstance(value, list | tuple):
        listed = [_pack(item, arrays, f"{place}[{i}]") for i, item in enumerate(value)]
        return listed if isinstance(value, list) else {"$tuple": listed}
    if isinstance(value, dict):
        if not all(isinstance(key, str | int) for key in value):
            raise ParameterError(f"Keys in a checkpoint must be str or int; there are others at {place or 'its top'}.")
        items = {key: _pack(item, arrays, f"{place}[{key!r}]") for key, item in value.items()}
        if all(isinstance(key, str) and not key.startswith("$") for key in items):
            return items
        return {"$dict": [[key, item] for key, item in items.items()]}
    raise ParameterError(
        f"A checkpoint holds numbers, texts, tensors, arrays, and lists and dicts of these. Got a "
        f"{type(value).__name__} at {place or 'its top'} instead."
    )


def _unpack(value: JSON, state: store.State) -> Any:
    if isinstance(value, list):
        return [_unpack(item, state) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) != 1 or not next(iter(value)).startswith("$"):
        return {key: _unpack(item, state) for key, item in value.items()}
    ((word, inner),) = value.items()
    try:
        if word == "$tensor":
            name, written = inner
            array, dtype = state.arrays[name], _DTYPES[written]
            # A copy, because the store's arrays can't be written to; of the same shape, which copies of scalars lose.
            tensor = torch.from_numpy(np.array(array, order="C").reshape(array.shape))
            return tensor.view(dtype) if dtype in _CARRIERS else tensor.to(dtype)
        if word == "$array":
            return np.array(state.arrays[inner])
        if word == "$tuple":
            return tuple(_unpack(item, state) for item in inner)
        if word == "$dict":
            return {key: _unpack(item, state) for key, item in inner}
        return {"$int": int, "$float": float}[word](inner)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{state.where!r} is damaged: {word} {inner!r} is nothing that a checkpoint holds.") from error


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether a training has left a checkpoint in its folder."""
    return os.path.isfile(os.path.join(store.folder_path(folder), _CHECKPOINT, "manifest.json"))


def load_best(folder: str | os.PathLike[str], module: nn.Module) -> None:
    """Put the best model of a training that wrote to ``folder`` into ``module``, which then is in evaluation mode.

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
    module.eval()


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

    def save_best(self, module: nn.Module, entry: dict[str, Any], keep: bool = False) -> None:
        """Take ``module`` as it is now for the best model, and ``keep`` the one before for :meth:`bring_back`."""
        if self.folder is not None:
            if self.writes:
                _save(self._path(_BEST), module.state_dict(), _KINDS[_BEST], to_json(entry), int(keep))
            return
        copied = module.state_dict()
        self._best = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in copied.items()}

    def bring_back(self, best: dict[str, Any] | None) -> None:
        """Have the best model of a checkpoint again: a training that ended within an epoch may have taken a later one,
        which it wouldn't have measured if it had gone on."""
        path = self._path(_BEST)
        if not self.writes or not os.path.isfile(os.path.join(path, "manifest.json")):
            return
        if best is None:
            shutil.rmtree(path)
        elif store.contents(path)["model"]["params"] != to_json(best):
            with contextlib.suppress(ModelError):  # of an evaluation that will be made again
                store.undo(path)

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
    versions = {
        "sylvan": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
    return {"settings": dict(settings), "training": dict(limits), **history.as_dict(), "versions": versions}
