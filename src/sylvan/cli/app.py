"""The group of all verbs, and the one place where an exception becomes a sentence and an exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence

import click

from sylvan.cli.session import BAD_USAGE, COMPLETE, FAILURE, LazyGroup, Session, need_subcommand, spoken_warnings
from sylvan.errors import DiskSpaceError, HubError, MemoryLimitError, SylvanError
from sylvan.parallel import exit_on_interrupt
from sylvan.version import __version__

VERBS = {
    "train": "Train a model on text or matrices and save it in a folder.",
    "tune": "Find the best model within a budget of time, and train it.",
    "ensemble": "Combine saved models into an ensemble.",
    "predict": "Rank the labels of each row of a file with a saved model.",
    "evaluate": "Measure a saved model on a file with known labels.",
    "thresholds": "Show what thresholds give, and what to set for a wanted precision.",
    "check": "Find what is wrong with a file of records before training.",
    "index": "Index vectors for nearest-neighbour search.",
    "search": "Find the nearest vectors in a saved index.",
    "serve": "Answer over HTTP, with a page for people.",
    "inspect": "Show what a saved model contains.",
    "push": "Push a saved model to the Hugging Face Hub.",
    "pull": "Bring a model from the Hugging Face Hub.",
    "compress": "Make a saved model smaller.",
    "update": "Teach a saved model new rows and labels, or have it forget some.",
    "promote": "Put a saved model in the place of another if it is better by more than chance.",
    "explain": "Explain why a saved model gives a label to a row, or doesn't.",
    "convert": "Convert a file of texts or a matrix to another format.",
    "import": "Import a model of libpecos, omikuji or napkinXC.",
    "plan": "Estimate the time, memory and disk space of a training.",
    "task": "Train a network with a softmax over many classes (PyTorch).",
    "demo": "Train, measure and try a model on the bundled sample.",
    "completion": "Print the shell completion script.",
}
# Verbs that aren't called as their modules: Python keeps one name for itself, and a plan is the same command as a
# training.
_PLACES = {
    "import": ("import_model", "command"), "plan": ("train", "plan_command"), "push": ("hub", "push_command"),
    "pull": ("hub", "pull_command"), "search": ("index", "search_command"),
}  # fmt: skip
# Errors of the system that a different command line would have avoided.
# A full or broken disk is nobody's bad usage.
_MACHINE_ERRNOS = {errno.ENOSPC, errno.EIO, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_USAGE_ERRNOS = {
    errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL,
}  # fmt: skip


def _verb(name: str) -> click.Command:
    """The command of a verb, whose module is imported when it is used, so that ``sylvan --help`` is quick."""
    module, attribute = _PLACES.get(name, (name, "command"))
    command = getattr(importlib.import_module(f"sylvan.cli.{module}"), attribute)
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyGroup, title="Commands", lines=VERBS, make=_verb,
             context_settings={"help_option_names": ["-h", "--help"]})  # fmt: skip
@click.version_option(__version__, prog_name="sylvan", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Picks the few right labels out of very many.

    \b
    Examples:
      sylvan demo
      sylvan train train.jsonl --model runs/m
      sylvan predict runs/m test.jsonl -k 5 -o top.jsonl
      sylvan evaluate runs/m test.jsonl
    """
    if debug:
        Session.of(ctx).debug = True
    need_subcommand(ctx)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every error has become one sentence on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    session = Session(debug=bool(os.environ.get("SYLVAN_DEBUG")), words=words)
    if hasattr(sys.stdout, "reconfigure") and not sys.stdout.closed and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr does: not every terminal has every character
    try:
        if COMPLETE in os.environ:
            from sylvan.cli.completion import answer

            return answer(cli)
        watch = exit_on_interrupt(session.interrupted, FAILURE, answers=lambda: session.answers())
        with watch, spoken_warnings(), cli.make_context("sylvan", words, obj=session) as ctx:
            cli.invoke(ctx)
            if sys.stdout is not None:  # closed by whoever called
                sys.stdout.flush()
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except BrokenPipeError:  # the reader of our output has had enough: no fault of anybody's
        with contextlib.suppress(OSError, ValueError, AttributeError), open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())  # so that the interpreter's last flush doesn't fail aloud
        return 0
    except (KeyboardInterrupt, click.Abort):
        return _interrupted(session)
    except Exception as error:
        if _follows_interrupt(error):
            return _interrupted(session)
        if session.debug:
            traceback.print_exc()
        code, sentence = _explain(error)
        # Where another command line is wanted, the same one with --resume goes nowhere.
        remains = session.remains() if code != BAD_USAGE else None
        _say(f"Error: {session.spoken(sentence)}" + (f" But {remains}." if remains else ""))
        return code
    return 0


def _interrupted(session: Session) -> int:
    begin = "\n" if sys.stderr is not None and sys.stderr.isatty() else ""  # a terminal has just shown ``^C``
    _say(f"{begin}{session.interrupted()}")
    return FAILURE


def _follows_interrupt(error: BaseException | None) -> bool:
    """Whether an error came of Ctrl-C: modules in C make another one of it while they are imported."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _explain(error: Exception) -> tuple[int, str]:
    """The exit code and the sentence of an error."""
    if isinstance(error, click.ClickException):
        sentence = error.format_message().strip()
        if sentence and sentence[-1] not in ".!?":
            sentence += "."
        ctx = error.ctx if isinstance(error, click.UsageError) else None
        if ctx is not None and isinstance(error, click.NoSuchOption):
            sentence = _without_option(ctx, error.option_name) or sentence
        return BAD_USAGE, f"{sentence} See '{ctx.command_path} --help'." if ctx is not None else sentence
    if isinstance(error, SylvanError):
        cause = error.__cause__
        full = isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno in _MACHINE_ERRNOS)
        of_machine = full or isinstance(error, HubError | MemoryLimitError | DiskSpaceError)
        return FAILURE if of_machine else BAD_USAGE, str(error)
    if isinstance(error, MemoryError):
        return FAILURE, "there is not enough memory for this."
    if isinstance(error, ImportError) and "pip install" in str(error):  # of an extra
        return BAD_USAGE, f"{str(error).rstrip('.')}."
    if isinstance(error, OSError):
        code = BAD_USAGE if error.errno in _USAGE_ERRNOS else FAILURE
        name = f"{error.filename}: " if error.filename else ""
        return code, f"{name}{error.strerror or error}."
    return FAILURE, (
        f"something went wrong inside Sylvan ({type(error).__name__}: {error}). "
        "Run the command again with 'sylvan --debug ...' to see where."
    )


def _without_option(ctx: click.Context, option: str) -> str | None:
    """A sentence for who gives an argument of a command as an option, as in --model; None where that isn't so."""
    arguments = [each.make_metavar(ctx) for each in ctx.command.params if isinstance(each, click.Argument)]
    name = option.lstrip("-").upper()
    if name not in re.findall(r"\w+", " ".join(arguments)):
        return None
    return f"'{ctx.command_path} {' '.join(arguments)}' takes {name} without {option}."


def _say(sentence: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(sentence, file=sys.stderr, flush=True)
