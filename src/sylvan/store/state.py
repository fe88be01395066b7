"""What a model says of itself, and who can rebuild it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sylvan.errors import ParameterError

# What a manifest can hold: None, bool, int, float, str, and lists and dicts of these.
JSON: TypeAlias = Any


@dataclass(frozen=True)
class Entry:
    """One file of a model, as the manifest describes it."""

    file: str
    size: int
    checksum: str
    dtype: str = ""  # of an array's file
    shape: tuple[int, ...] = ()


@dataclass
class State:
    """A model taken apart into plain values and arrays; it knows nothing of files."""

    kind: str  # what sort of model this is: `"xr-linear"`, `"vocabulary"`, ...
    version: int  # version of this kind's layout, from 1
    params: dict[str, JSON] = field(default_factory=dict)  # the constructor's parameters
    meta: dict[str, JSON] = field(default_factory=dict)  # sizes and whatever else is needed to rebuild the model
    # arrays by name, like `"layer0.keys"`: words of letters, digits and underscores, joined by dots. Integers of 8 to
    # 64 bits and floats of 16 to 64 bits
    arrays: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    parts: dict[str, State] = field(default_factory=dict)  # nested models, by a name without dots
    # foreign files by name, `"encoder/config.json"` or `"encoder/1_Pooling/config.json"`: one or two folders and the
    # file's own name. To be saved, what they hold or where to copy it from; loaded, where each lies. What was loaded is
    # taken out of here by `sylvan.store.need_files`
    files: dict[str, bytes | str | os.PathLike[str]] = field(default_factory=dict)
    # set by `sylvan.store.load`: the folder it came from, for errors
    where: str = field(default="", compare=False, repr=False)
    # set by `sylvan.store.load`: the file of each array, for errors
    array_files: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    # set by `sylvan.store.load`: what the manifest says of each foreign file
    file_entries: dict[str, Entry] = field(default_factory=dict, compare=False, repr=False)


loaders: dict[str, Callable[[State], object]] = {}  # what rebuilds a model, by its kind


def register(kind: str, loader: Callable[[State], object]) -> None:
    """Say that ``loader(state)`` rebuilds a model of this kind; modules call it when they are imported. ``loader`` must
    verify whatever the kernels later trust, with the ``need_*`` helpers of this package."""
    loaders[kind] = loader


def folder_path(folder: str | os.PathLike[str]) -> str:
    """The folder as a string; a :class:`~sylvan.errors.ParameterError` when it is no path at all."""
    try:
        path = os.fsdecode(folder)
    except TypeError:
        path = ""
    if not path or "\0" in path:
        raise ParameterError(f"The 'folder' of a model must be a path. Got {folder!r} instead.")
    return path
