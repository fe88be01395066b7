"""Options of long trainings: how much memory they may take, and where they leave what they can go on from."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from sylvan.cli.options import together
from sylvan.cli.session import Session, say
from sylvan.errors import ModelError, ParameterError

# ``--checkpoint`` and ``--resume``.
resume_options = together(
    click.option("--resume/--no-resume", default=None,
                 help="Go on from where an interrupted training stopped, or start over although there is one."),
    click.option("--checkpoint", metavar="DIR", help="Where finished parts lie until the model is saved. "
                 "[default: the model's folder with .training]"),
)  # fmt: skip
# ``--ray``.
ray_option = click.option("--ray", "ray_address", metavar="ADDRESS",
                          help="Train on a Ray cluster: its address, auto for the one that this machine belongs to, or "
                          "local to start one here.")  # fmt: skip
# ``--memory-limit``, ``--force``, ``--checkpoint`` and ``--resume``.
work_options = together(
    resume_options,
    click.option("--force", is_flag=True,
                 help="Train even where the plan says that there is too little memory, or room on the disk."),
    click.option("--memory-limit", metavar="SIZE",
                 help="Train within so much memory, as in 2GB or 500MB; what is finished then lies in files."),
)  # fmt: skip


@contextlib.contextmanager
def on_cluster(address: str | None, threads: int | None) -> Iterator[None]:
    """Trainings within the block run on a Ray cluster, where ``--ray`` was given."""
    if address is None:
        yield
        return
    from sylvan.distributed import ray

    with ray(None if address == "local" else address, n_jobs=threads):
        yield


def resumes(
    session: Session, given: Mapping[str, Any], folder: str, before: str | None, remains: Callable[[], bool]
) -> bool:
    """Whether to go on with an earlier training; an interruption then says what remains of this one."""
    if before is not None and given["resume"] is None:
        raise ModelError(f"{before}: --resume goes on with it, --no-resume starts over.")
    if before is None and given["resume"]:
        say(given, f"There is nothing to resume in {folder}: training from the beginning.")
    sentence = f"what is trained so far lies in {folder!r}: the same command with --resume goes on from there"
    session.remains = lambda: sentence if remains() else None
    return before is not None and bool(given["resume"])


def working(session: Session, model: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The checkpoint of this command, or None for a model that has none, and options for the model's ``fit``."""
    from sylvan.runtime.checkpoint import Checkpoint
    from sylvan.runtime.memory import parse_bytes

    known = inspect.signature(type(model).fit).parameters
    for option in ("memory_limit", "checkpoint", "resume"):
        needed = "memory_limit" if option == "memory_limit" else "checkpoint"
        if given.get(option) is not None and needed not in known:
            name = option.replace("_", "-")
            raise ParameterError(f"--{name} is not for {type(model).__name__}, which is trained in one piece.")
    options: dict[str, Any] = {}
    if given.get("force") and "force" in known:
        options["force"] = True
    if "checkpoint" not in known:
        return None, options
    if given.get("memory_limit") is not None:
        options["memory_limit"] = parse_bytes(given["memory_limit"], "--memory-limit")
    folder = given["checkpoint"] or given["folder"].rstrip("/\\") + ".training"
    checkpoint = Checkpoint(folder)
    before = f"An interrupted training lies in {folder!r}" if checkpoint.remains() else None
    if not resumes(session, given, folder, before, checkpoint.remains):
        checkpoint.remove()
    return checkpoint, {**options, "checkpoint": checkpoint}
