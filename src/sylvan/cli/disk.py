"""Models on disks: whether there is room for one before it is trained, and where it goes when there is none after."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from sylvan.cli.session import Session
from sylvan.cli.training_files import note_training_file
from sylvan.errors import ModelError
from sylvan.runtime.disk import Need, disk_of, free_bytes, is_full, need_room

# A disk with so many times the bytes of the data free, and so many beside, isn't asked further: to estimate a model's
# size takes a second or two.
AMPLE, BESIDE = 20, 1 << 30
# Of a plan's options those that say how, not what, is trained.
_OF_THE_RUN = ("checkpoint", "memory_limit", "force", "report")


def need_disk(model: Any, inputs: Any, labels: Any, options: Mapping[str, Any], folders: Mapping[str, str]) -> None:
    """Refuse a training whose model, or whose checkpoint, has no room."""
    if not hasattr(getattr(model, "model", model), "plan"):
        return
    free = [known for known in map(free_bytes, folders.values()) if known is not None]
    if not free or min(free) > AMPLE * _bytes_of(inputs) + BESIDE:
        return
    from sylvan.runtime.checkpointed import SECONDS

    plan = model.plan(inputs, labels, **{name: it for name, it in options.items() if name not in _OF_THE_RUN})
    needs = [Need("the model", folders["model"], plan.model_bytes)]
    if "checkpoint" in folders and plan.seconds > SECONDS:  # a shorter training writes none
        needs.append(Need("its checkpoint", folders["checkpoint"], plan.model_bytes))
    need_room(needs)


def save_model(
    session: Session, model: Any, folder: str, checkpoint: Any = None, training_file: str | None = None
) -> None:
    """Save a model and take its checkpoint away; where the disk is full, save it on another one."""
    try:
        model.save(folder)
    except ModelError as error:
        place = _saved_elsewhere(model, folder) if is_full(error) else None
        if place is None:
            raise
        if checkpoint is not None:
            checkpoint.remove()
        session.remains = lambda: None
        words = f"{error} It is in {place!r} instead, whole: move it to where there is room."
        raise ModelError(words) from error.__cause__
    session.written = f"the model was saved in {folder}"
    note_training_file(folder, training_file)
    if checkpoint is not None:
        checkpoint.remove()


def _saved_elsewhere(model: Any, folder: str) -> str | None:
    """Where the model could be saved on another disk; None for nowhere."""
    full, name = {disk_of(folder)}, os.path.basename(os.path.normpath(folder)) or "model"
    for place in (tempfile.gettempdir(), os.getcwd(), os.path.expanduser("~")):
        if disk_of(place) in full:
            continue
        full.add(disk_of(place))
        with contextlib.suppress(ModelError, OSError):
            made = tempfile.mkdtemp(prefix="sylvan-", dir=place)
            target = os.path.join(made, name)
            try:
                model.save(target)
                return target
            except BaseException:
                with contextlib.suppress(OSError):
                    os.rmdir(made)
                raise
    return None


def _bytes_of(inputs: Any) -> int:
    """About how much memory the rows take, texts in UTF-8."""
    if isinstance(inputs, list):
        return sum(map(len, inputs))
    parts = (inputs.data, inputs.indices) if hasattr(inputs, "indices") else (inputs,)
    return sum(int(getattr(part, "nbytes", 0)) for part in parts)
