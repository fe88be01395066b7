"""The client of the Hugging Face Hub, loaded when it is first used; whatever fails with it is a sentence. The token is
the client's affair: it takes it from ``HF_TOKEN`` or from where ``hf auth login`` has put it. No message holds it."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from sylvan.errors import HubError, SylvanError
from sylvan.remote.repository import Repository
from sylvan.version import __version__

_SIGNATURE = re.compile(r"(?<=\S)\?\S+")
PATIENCE = 3.0  # seconds to wait for the Hub's first answer


def need_library() -> Any:
    """Import huggingface_hub, or say how to get it."""
    try:
        for module in ("constants", "errors", "utils"):  # which the package doesn't load by itself
            importlib.import_module(f"huggingface_hub.{module}")
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise ImportError(
            'Models on the Hugging Face Hub need huggingface_hub. Install it with: pip install "sylvan[hub]"'
        ) from error


@contextlib.contextmanager
def quiet(library: Any) -> Iterator[None]:
    """No progress bars where nobody watches, and no warnings of the client while the block runs; errors remain."""
    bars, level = library.utils.are_progress_bars_disabled(), library.utils.logging.get_verbosity()
    try:
        library.utils.logging.set_verbosity_error()
        if not bars and not (sys.stderr is not None and sys.stderr.isatty()):
            library.utils.disable_progress_bars()
        yield
    finally:
        library.utils.logging.set_verbosity(level)
        if not bars:
            library.utils.enable_progress_bars()


def unreachable(library: Any) -> str:
    """Why the Hub isn't asked; empty where somebody answers. The client itself would try for much longer."""
    import socket
    import urllib.parse
    import urllib.request  # loads much that import sylvan does without

    if library.constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    if urllib.request.getproxies():
        return ""  # then the Hub may answer though nobody can be reached directly
    place = urllib.parse.urlsplit(library.constants.ENDPOINT)
    try:
        port = place.port or (80 if place.scheme == "http" else 443)
        socket.create_connection((place.hostname or "", port), timeout=PATIENCE).close()
    except OSError as error:
        return str(error.strerror or error)
    return ""


@contextlib.contextmanager
def asking(repository: Repository, token: str | None, doing: str, offline: str = "") -> Iterator[Any]:
    """The client for one repository; every error of the block is a sentence."""
    library = need_library()
    api = library.HfApi(library_name="sylvan", library_version=__version__, token=token)
    try:
        with quiet(library):
            yield api
    except (SylvanError, MemoryError):
        raise
    except Exception as error:  # of the client and of whichever HTTP library it uses
        sentence = f"{repository} can't be {doing}: {_reason(error, repository, library, offline)}"
        raise HubError(_without_token(sentence, token or library.get_token())) from error


def _reason(error: BaseException, repository: Repository, library: Any, offline: str) -> str:
    """What an error of the client means, as the end of a sentence."""
    errors, place = library.errors, f"the Hugging Face Hub ({library.constants.ENDPOINT})"
    cause = error.__cause__
    if isinstance(error, errors.LocalEntryNotFoundError):
        if offline or _status(cause) is None:
            why = offline or _first_line(cause or error)
            return f"it isn't complete in the cache, and {place} can't be reached ({why})."
        return _reason(cause, repository, library, offline)  # type: ignore[arg-type]  # it has a status
    if isinstance(error, errors.GatedRepoError):
        return f"its owner gives access on request: ask on its page on {place} then set HF_TOKEN."
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{place} has no such model, or it is private and HF_TOKEN isn't set to a token that may read it."
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repository.name!r} has no revision {repository.revision or 'main'!r}."
    status, of_cause = _status(error), _status(cause)
    if status is not None:
        return _of_status(status, error)
    if isinstance(error, ValueError):
        return f"{place} refuses it: {' '.join(str(error).split())[:300].rstrip('.')}."
    if of_cause is not None and cause is not None:
        return _of_status(of_cause, cause)
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        at = f" at {error.filename!r}" if error.filename else ""
        return f"{error.strerror or error}{at}."
    return f"{place} can't be reached ({_first_line(error)})."


def _of_status(status: int, error: BaseException) -> str:
    if status == 401:
        return "the token was refused (401): set HF_TOKEN to a valid one."
    if status == 403:
        return "the token doesn't allow it (403): set HF_TOKEN to one that may write there, or read it."
    if status in (409, 412):
        return f"somebody else changed it at the same time ({status}): try again. Nothing was changed."
    if status == 429:
        return "the Hub asks for fewer requests (429): wait a few minutes."
    if status >= 500:
        return f"the Hub fails ({status}): try again later."
    return f"the Hub refuses it ({status}): {_first_line(error)}."


def _status(error: BaseException | None) -> int | None:
    """The HTTP status of an error that has one."""
    found = getattr(getattr(error, "response", None), "status_code", None)
    return found if isinstance(found, int) else None


def _first_line(error: BaseException) -> str:
    """The first line of a message that isn't empty, without its full stop and what signs an address after its "?"."""
    lines = [_SIGNATURE.sub("", line.strip()) for line in str(error).splitlines() if line.strip()]
    return "".join(c if c.isprintable() else "�" for c in (lines or [type(error).__name__])[0])[:300].rstrip(".")


def _without_token(sentence: str, token: object) -> str:
    return sentence.replace(token, "…") if isinstance(token, str) and token else sentence
