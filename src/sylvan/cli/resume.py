"""Options of long trainings: how much memory they may take, and where they leave what they can go on from."""

from __future__ import annotations

import inspect
from typing import Any

import click

from sylvan.cli.session import Session
from sylvan.errors import ModelError, ParameterError

__all__ = ["resume_options", "work_options", "working"]


def resume_options(function: Any) -> Any:
    """``--checkpoint`` and ``--resume``."""
    for option in (
        click.option(
            "--resume/--no-resume",
            default=None,
            help="Resume an interrupted training, or start again although there is one.",
        ),
        click.option(
            "--checkpoint",
            metavar="DIR",
            help="Folder for finished parts until the model is saved. [default: the model's folder with .training]",
        ),
    ):
        function = option(function)
    return function


def work_options(function: Any) -> Any:
    """``--memory-limit``, ``--force``, ``--checkpoint`` and ``--resume``."""
    function = resume_options(function)
    for option in (
        click.option("--force", is_flag=True, help="Train even if the plan says that there is too little memory."),
        click.option(
            "--memory-limit",
            metavar="SIZE",
            help="Memory limit for training, such as 2GB or 500MB; finished parts are written to files.",
        ),
    ):
        function = option(function)
    return function


def working(session: Session, model: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The checkpoint of this command, or None for a model that has none, and options for the model's ``fit``.

    Raises
    ------
    ParameterError
        When an option isn't for this model or is no amount of memory.
    ModelError
        When an interrupted training lies there and nothing was said of it.
    """
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
    if checkpoint.exists():
        if given["resume"] is None:
            raise ModelError(
                f"An interrupted training lies in {folder!r}: --resume goes on with it, --no-resume begins anew."
            )
        if not given["resume"]:
            checkpoint.remove()
    elif given["resume"] and not given["quiet"]:
        click.echo(f"There is nothing to resume in {folder}: training from the beginning.")
    session.remains = lambda: (
        f"what is trained so far lies in {folder!r}: the same command with --resume goes on from there"
        if checkpoint.exists() else None
    )  # fmt: skip
    return checkpoint, {**options, "checkpoint": checkpoint}
