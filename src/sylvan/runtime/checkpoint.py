"""A training's finished parts in a folder, from which the same training resumes after an interruption. The folder
contains one model folder per part, each written completely or not at all and checksummed (:mod:`sylvan.store`). The
first one identifies the training: its parameters, and checksums of the data. Damaged parts are computed again."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.types import Array
from sylvan.errors import ModelError, ParameterError
from sylvan.store import JSON
from sylvan.version import __version__

_IDENTITY, _KIND = "training", "training-checkpoint"
_BEGINNING = re.compile(r"training|\.training\.[0-9a-f]{8}\.saving")  # all that a kill can leave before it is one
_CHUNK = 16 << 20


class Checkpoint:
    """The folder of one training.

    Parameters
    ----------
    folder : path
        Created when the first part is finished; existing parts of the same training are used.

    Notes
    -----
    A path given to ``fit`` is removed when ``fit`` is done. A Checkpoint remains until its :meth:`remove` is called, so
    that you can save the model first.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from sylvan import XRLinear
    >>> from sylvan.runtime.checkpoint import Checkpoint
    >>> place = pathlib.Path(tempfile.mkdtemp())
    >>> checkpoint = Checkpoint(place / "work")
    >>> model = XRLinear().fit(np.eye(4), np.arange(4), checkpoint=checkpoint)
    >>> model.save(place / "model")
    >>> checkpoint.remove()
    >>> [path.name for path in place.iterdir()]
    ['model']
    """

    def __init__(self, folder: str | os.PathLike[str], _outer: Checkpoint | None = None) -> None:
        path = store.folder_path(folder)
        self._outer = _outer
        self.folder = Path(os.path.realpath(path))
        self._shown = path
        self._identity: dict[str, JSON] = {}
        self._begun = False
        self._beginning = threading.Lock()
        self._locked: int | None = None
        self.writes = True

    def inner(self, name: str) -> Checkpoint:
        """The checkpoint of a training that is a part of this one, in a folder within; this one begins with it."""
        return Checkpoint(self.folder / name, self)

    def exists(self) -> bool:
        """Whether a training has left parts in the folder."""
        return (self.folder / _IDENTITY / "manifest.json").is_file()

    def open(self, identity: Mapping[str, JSON]) -> None:
        """Say which training this is; nothing is written yet."""
        self._identity = dict(identity)
        if not self.exists():
            # A folder may be written into that is empty, or that a killed training began.
            ours = self.folder.is_dir() and all(_BEGINNING.fullmatch(name) for name in os.listdir(self.folder))
            if self.folder.exists() and not ours:
                raise ModelError(f"{self._shown!r} is no checkpoint of a training and is not empty: choose another.")
            if why := store.unwritable(self.folder):
                raise ModelError(f"The checkpoint {self._shown!r} can't be made: {why}.")
            return
        before = store.load(self.folder / _IDENTITY, mmap=False)
        store.need_kind(before, _KIND)
        refuse_another(self._shown, before.meta, self._identity)
        self._lock()
        self._begun = True

    @property
    def begun(self) -> bool:
        """Whether anything is on the disk."""
        return self._begun if self.writes else self.exists()

    def begin(self) -> None:
        """Make the folder, unless that has been done."""
        with self._beginning:
            if self._begun or not self.writes:
                return
            if self._outer is not None:
                self._outer.begin()
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ModelError(f"The checkpoint {self._shown!r} can't be made: {error.strerror or error}.") from error
            self._lock()
            store.save(self.folder / _IDENTITY, store.State(_KIND, 1, meta=self._identity))
            self._begun = True

    def write(self, name: str, state: store.State) -> None:
        """Put a part into the folder, whole or not at all."""
        self.begin()
        if self.writes:
            store.save(self.folder / name, state)

    def read(self, name: str) -> store.State | None:
        """A part, every byte compared with its checksum; None when there is none, or none that is whole."""
        if not self.begun or not (self.folder / name).is_dir():
            return None
        try:
            return store.load(self.folder / name, mmap=False, verify=True)
        except ModelError:
            return None

    def drop(self, name: str) -> None:
        """Delete a part; when that is interrupted, what remains is not whole and counts as none."""
        if self.writes:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def names(self, prefix: str) -> list[str]:
        """The parts whose names begin so, in order of their names."""
        return sorted(name for name in os.listdir(self.folder) if name.startswith(prefix)) if self.begun else []

    def close(self) -> None:
        """Let another process have the folder."""
        if self._locked is not None:
            os.close(self._locked)
            self._locked = None

    def remove(self) -> None:
        """Delete the folder; nothing happens when there is none, or when it isn't a checkpoint's."""
        if self.exists():
            self._lock()  # what another training is using stays
            for name in {*os.listdir(self.folder)} - {_IDENTITY}:  # which says whose they are, and goes last
                shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.rmtree(self.folder, ignore_errors=True)
        self.close()
        self._begun = False

    def remains(self) -> bool:
        """Whether there is something in the folder to go on from; without that it is removed."""
        if self.exists() and all(name == _IDENTITY for name in os.listdir(self.folder)):
            self.remove()
        return self.exists()

    def _lock(self) -> None:
        """Keep a second training out; the lock dies with the process."""
        try:
            import fcntl
        except ImportError:  # Windows: two trainings with one checkpoint are not distinguished
            return
        if self._locked is None:
            self._locked = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ModelError(f"Another training is using the checkpoint in {self._shown!r}.") from None
        except OSError:  # some network file systems have no locks
            pass


def checksum(*arrays: Array | None, any_integer: bool = False) -> str:
    """A checksum of the bytes and sizes of arrays, fast enough to be taken of a whole training set."""
    value = 0
    for array in arrays:
        if array is None:
            continue
        kind = "<i8" if any_integer else array.dtype.str
        value = zlib.crc32(f"{kind}{array.shape}".encode(), value)
        flat = np.ascontiguousarray(array).reshape(-1)
        at_once = max(1, _CHUNK // np.dtype(kind).itemsize)
        for start in range(0, flat.size, at_once):
            part = flat[start : start + at_once].astype(kind, copy=False)
            value = zlib.crc32(part.view(np.uint8).data, value)
    return f"crc32:{value:08x}"


def identity_of(estimator: str, parameters: Mapping[str, Any], **data: Any) -> dict[str, JSON]:
    """What identifies a training: release, estimator, parameters, and checksums of the data. ``data`` are matrices in
    any form that ``fit`` takes, also rows in parts, vectors, or None; a model among the parameters, such as a
    LabelTree, counts by its arrays."""

    def plain(value: Any) -> JSON:
        if hasattr(value, "to_state"):
            return checksum(*value.to_state().arrays.values())
        if isinstance(value, np.ndarray):
            return checksum(value)
        return list(value) if isinstance(value, tuple) else value.item() if isinstance(value, np.generic) else value

    results: dict[str, JSON] = {"the release of Sylvan": __version__, "the estimator": estimator}
    for name, value in data.items():
        if isinstance(getattr(value, "checksum", None), str):  # rows that aren't in memory
            results[f"the shape of {name}"], results[name] = [int(size) for size in value.shape], value.checksum
        elif value is not None and not isinstance(value, np.ndarray):
            matrix = validate.features(value, name=name)
            results[f"the shape of {name}"] = [int(size) for size in matrix.shape]
            results[name] = checksum(matrix.indptr, matrix.indices, matrix.data)
        else:
            results[name] = None if value is None else checksum(value)
    return {**results, **{f"the parameter {name!r}": plain(value) for name, value in parameters.items()}}


def refuse_another(where: str | os.PathLike[str], before: Mapping[str, JSON], current: Mapping[str, JSON]) -> None:
    """Refuse to resume a checkpoint that another training wrote."""
    for key in dict.fromkeys([*current, *before]):
        old, new = before.get(key), current.get(key)
        if old == new:
            continue
        # Checksums and whole structures say nothing to a reader.
        short = not any(isinstance(value, dict) or str(value).startswith("crc32:") for value in (old, new))
        difference = f"{key} was {old!r} and is {new!r}" if short else f"{key} was another"
        raise ModelError(
            f"The checkpoint in {os.fspath(where)!r} is of another training: {difference}. Go on with what it was "
            "begun with, choose another folder, or remove it."
        )


@contextlib.contextmanager
def opened(
    checkpoint: Checkpoint | str | os.PathLike[str] | None,
    identity: Callable[[], Mapping[str, JSON]],
    writes: bool = True,
) -> Iterator[Checkpoint | None]:
    """The checkpoint while a training runs, or None; one given as a path is removed when it ends well. A training that
    ends otherwise leaves what there is to go on from, and no folder without that."""
    if checkpoint is None:
        yield None
        return
    if not isinstance(checkpoint, (str, os.PathLike, Checkpoint)):
        raise ParameterError(
            f"The 'checkpoint' parameter of fit must be a path or a Checkpoint. Got {checkpoint!r} instead."
        )
    folder = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    if not writes:
        reader = Checkpoint(folder.folder)  # another process opens and writes it
        reader.writes = False
        yield reader
        return
    folder.open(identity())
    try:
        yield folder
    except BaseException:
        folder.remains()
        raise
    finally:
        folder.close()
    if folder is not checkpoint:
        folder.remove()
