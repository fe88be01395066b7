"""Repositories of the Hugging Face Hub and its client, loaded when it is first used; and models from there on this
machine, opened from the Hub's cache or written into a folder. Whatever fails is a sentence. The token is the
client's affair: it takes it from ``HF_TOKEN`` or from where ``hf auth login`` has put it. No message holds it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sylvan import store
from sylvan.data.streams import open_write
from sylvan.errors import HubError, ModelError, ParameterError, SylvanError
from sylvan.lazy import need_extra
from sylvan.params.wording import shown_bytes
from sylvan.remote import readme
from sylvan.runtime.plan import free_bytes
from sylvan.store.registry import rebuild
from sylvan.version import __version__

_MANIFEST = "manifest.json"


def check_links(folder: str, places: Iterable[str]) -> None:
    """Refuse files that lie outside of ``folder``, but for the Hub's cache, whose snapshots are links to its blobs.
    Otherwise a folder from somebody else could have any file of this machine pushed, or read as a model."""
    root = os.path.realpath(folder)
    allowed, cache = [root], cache_of(root)
    if cache is not None:
        allowed.append(os.path.join(cache, "blobs"))
    for place in places:
        real = os.path.realpath(os.path.join(root, place))
        if not any(real.startswith(os.path.join(above, "")) for above in allowed):
            raise ModelError(f"{os.path.join(folder, place)!r} is a link that leads out of the folder, to {real!r}.")


def download(repository: Repository, token: str | None = None) -> tuple[str, Source]:
    """Bring a model into the Hub's cache, unless it is there, with its checksums compared; the folder of its commit.
    Of the repository only the manifest, the files that it names and README.md are fetched: no other file, pickled or
    not, reaches this machine. Where the Hub can't be reached, what is in the cache is taken."""
    offline = unreachable(need_library())
    with asking(repository, token, "downloaded", offline) as api:
        folder = _fetch(api, repository.name, repository.revision, [_MANIFEST], offline)
        if not os.path.lexists(os.path.join(folder, _MANIFEST)):
            raise ModelError(f"{repository} holds no Sylvan model: it has no {_MANIFEST}.")
        commit = os.path.basename(folder)
        check_links(folder, [_MANIFEST])
        sizes = store.files_of(folder)
        missing = [place for place in sizes if not os.path.exists(os.path.join(folder, place))]
        n_bytes, free = sum(sizes[place] for place in missing), free_bytes(folder)
        if free is not None and n_bytes > free:
            raise HubError(
                f"{repository} can't be downloaded: it takes {shown_bytes(n_bytes)} more, and there are "
                f"{shown_bytes(free)} free in the cache, {folder!r}."
            )
        _fetch(api, repository.name, commit, [*sizes, readme.NAME], offline)
    for place in sizes:  # older clients answer with what they have when the Hub fails on the way
        if not os.path.exists(os.path.join(folder, place)):
            why = f", and the Hub can't be reached ({offline})" if offline else ""
            raise HubError(
                f"{repository} isn't complete in the cache: {place!r}, which its manifest names, is missing{why}."
            )
    has_readme = os.path.lexists(os.path.join(folder, readme.NAME))
    check_links(folder, [*sizes, *([readme.NAME] if has_readme else [])])
    if missing:
        store.load(folder, verify=True)
    return folder, Source(repository.name, commit)


def _fetch(api: Any, name: str, revision: str | None, places: list[str], offline: str) -> str:
    """The folder in the cache with these files of a commit, as far as the repository has them."""
    folder: str = api.snapshot_download(
        name, revision=revision, allow_patterns=places, etag_timeout=PATIENCE, local_files_only=bool(offline)
    )
    if cache_of(os.path.realpath(folder)) is None:
        raise HubError(f"The Hub's cache has {folder!r} for {name!r}, where no commit lies.")
    return folder


def pull(
    repository: str, folder: str | os.PathLike[str] | None = None, *, revision: str | None = None,
    token: str | None = None,
) -> str:  # fmt: skip
    """Bring a model of the Hugging Face Hub to this machine, verified.

    Only ``manifest.json``, the files that it names and README.md are downloaded. Nothing in them is run or unpickled.

    Parameters
    ----------
    repository : str
        ``"owner/name"``, or ``"owner/name@revision"``.
    folder : path, optional
        Where the model is written, whole or not at all; an older Sylvan model there is replaced. Its manifest says
        which commit it is. Without it, the model stays in the Hub's cache.
    revision : str, optional
        A branch, a tag or a commit; the main branch by default.
    token : str, optional
        By default that of the environment: ``HF_TOKEN``, or what ``hf auth login`` has stored.

    Returns
    -------
    str
        The folder with the model, for :func:`sylvan.load`.

    Raises
    ------
    HubError
        When the Hub can't be reached and the model isn't in the cache, or there is no such model or revision.
    ModelError
        When the repository holds no Sylvan model, a damaged one, or one of a kind that this release doesn't know; and
        when ``folder`` can't be written or holds something else.
    ParameterError
        When ``repository`` is no such name.
    ImportError
        When huggingface_hub isn't installed.
    """
    wanted = Repository.parse(repository, revision)
    if folder is not None:
        store.check_target(folder)
    snapshot, source = download(wanted, token)
    with _in_the_cache(snapshot):
        state = store.load(snapshot, verify=folder is not None)
        rebuild(state)  # what can't be opened here is refused now, not when it is needed
    if folder is None:
        return snapshot
    path = store.folder_path(folder)
    state.meta[SOURCE] = dict(vars(source))
    store.save(path, state)
    # The repository's README.md becomes that of the folder, unless somebody wrote one there; nor is a link followed.
    place = os.path.join(path, readme.NAME)
    text = None if os.path.islink(place) else readme.read(snapshot)
    before = None if text is None else readme.read(path)
    if text is not None and (before is None or readme.card_checksum(before)):
        with open_write(place) as stream:
            text = readme.remarked(text, str(store.contents(path)["checksum"]))
            stream.write(text.encode("utf-8", "replace"))
    return path


def from_pretrained(
    source: str | os.PathLike[str], *, revision: str | None = None, mmap: bool = True, token: str | None = None
) -> Any:
    """Open a model, vectoriser, tree or vocabulary of the Hugging Face Hub, or of a folder.

    Parameters
    ----------
    source : str or path
        ``"owner/name"`` or ``"owner/name@revision"``, which is downloaded into the Hub's cache; or a folder, which goes
        first where there is one of that name. ``"hf://owner/name"`` is always the Hub's.
    revision : str, optional
        A branch, a tag or a commit; the main branch by default. Give a commit to have the same model always.
    mmap : bool, default True
        As of :func:`sylvan.load`. The checksums of what was downloaded just now are compared in any case.
    token : str, optional
        As of :func:`pull`.

    Returns
    -------
    object
        Of the class that was pushed, as an :class:`~sylvan.XRLinear`.

    Raises
    ------
    HubError, ModelError, ParameterError, ImportError
        As :func:`pull`.

    Examples
    --------
    >>> import numpy as np, sylvan, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> sylvan.XRLinear().fit(np.eye(3, dtype=np.float32), [[0], [1], [2]]).save(folder)
    >>> sylvan.from_pretrained(folder)
    XRLinear()
    """
    if revision is None and isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        return rebuild(store.load(source, mmap=mmap))
    folder, _ = download(Repository.parse(source, revision), token)
    with _in_the_cache(folder):
        check_links(folder, store.files_of(folder))
        return rebuild(store.load(folder, mmap=mmap))


@contextlib.contextmanager
def _in_the_cache(folder: str) -> Iterator[None]:
    """Say how a model whose copy in the cache is damaged is fetched again."""
    try:
        yield
    except ModelError as error:
        copy = os.path.dirname(os.path.dirname(os.path.abspath(folder)))  # of all revisions, with their files
        way = f"If it is so in the Hub's cache alone, delete {copy} and ask again: it is fetched then."
        raise ModelError(f"{error} {way}") from error


_SIGNATURE = re.compile(r"(?<=\S)\?\S+")
SOURCE = "pulled"  # what a manifest calls it
_CACHED = re.compile(r"models--([A-Za-z0-9_.-]+?)--([A-Za-z0-9_.-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
SCHEME = "hf://"
_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_REVISION = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./+-]*[A-Za-z0-9_+-])?")
_LONGEST = 96
PATIENCE = 3.0  # seconds to wait for the Hub's first answer
_FAILS = "the Hub fails ({}): try again later."
_CHANGED = "somebody else changed it at the same time ({}): try again. Nothing was changed."
_STATUSES = {
    401: "the token was refused ({}): set HF_TOKEN to a valid one.",
    403: "the token doesn't allow it ({}): set HF_TOKEN to one that may write there, or read it.",
    409: _CHANGED,
    412: _CHANGED,
    429: "the Hub asks for fewer requests ({}): wait a few minutes.",
}


@dataclass(frozen=True)
class Source:
    """A repository on the Hub and a commit of it."""

    repository: str
    revision: str


def source_of(folder: str | os.PathLike[str], meta: Mapping[str, Any]) -> Source | None:
    """Where the model in ``folder`` came from; None for one that wasn't pulled."""
    path = os.path.realpath(folder)
    cached = _CACHED.fullmatch(os.path.basename(cache_of(path) or ""))
    if cached is not None:
        return Source(f"{cached[1]}/{cached[2]}", os.path.basename(path))
    note = meta.get(SOURCE)
    if note is None:
        return None
    values = [note.get(key) for key in ("repository", "revision")] if isinstance(note, dict) else [None]
    if not all(isinstance(value, str) and value.isprintable() for value in values):
        raise ModelError(f"{os.fspath(folder)!r} is damaged: in manifest.json, {SOURCE!r} isn't what pull writes.")
    return Source(*values)


def cache_of(path: str) -> str | None:
    """The folder of a repository in the Hub's cache to which a snapshot belongs; None for any other folder. A snapshot
    is called ``models--owner--name/snapshots/COMMIT``, and its files are links to ``models--owner--name/blobs``."""
    above, name = os.path.split(path)
    root, middle = os.path.split(above)
    is_snapshot = _COMMIT.fullmatch(name) and middle == "snapshots" and _CACHED.fullmatch(os.path.basename(root))
    return root if is_snapshot else None


@dataclass(frozen=True)
class Repository:
    """A repository of the Hub: ``owner/name``, and a branch, tag or commit of it; None stands for its main branch."""

    name: str
    revision: str | None = None

    @classmethod
    def parse(cls, source: object, revision: str | None = None) -> Repository:
        """What ``owner/name``, ``owner/name@revision`` or either after ``hf://`` means."""
        text = source.removeprefix(SCHEME) if isinstance(source, str) else ""
        name, mark, named = text.partition("@")
        parts = name.split("/")
        if len(parts) != 2 or not all(_is_word(part, _PART, _LONGEST) and "--" not in part for part in parts):
            raise ParameterError(
                "A repository on the Hugging Face Hub is called 'owner/name', of letters, digits and single hyphens, "
                f"dots and underscores between them. Got {source!r:.120} instead."
            )
        if mark and revision is not None:
            raise ParameterError(f"There are two revisions: {named!r:.60} in {source!r:.120}, and {revision!r:.60}.")
        wanted = named if mark else revision
        if wanted is not None and not _is_word(wanted, _REVISION, 200):
            raise ParameterError(
                f"A revision is a branch, a tag or a commit, such as 'main'. Got {wanted!r:.120} instead."
            )
        return cls(name, wanted)

    def __str__(self) -> str:
        return self.name if self.revision is None else f"{self.name}@{self.revision}"


def _is_word(text: object, pattern: re.Pattern[str], longest: int) -> bool:
    return isinstance(text, str) and len(text) <= longest and bool(pattern.fullmatch(text)) and ".." not in text


@dataclass(frozen=True)
class Pushed:
    """What a push has made: a commit, and its page."""

    repository: str
    revision: str
    url: str


def need_library() -> Any:
    """Import huggingface_hub, or say how to get it."""
    modules = [f"huggingface_hub.{name}" for name in ("constants", "errors", "utils")]  # it doesn't load them by itself
    return need_extra("Models on the Hugging Face Hub need huggingface_hub", "hub", *modules, "huggingface_hub")


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
        secret = token or library.get_token()
        raise HubError(sentence.replace(secret, "…") if isinstance(secret, str) and secret else sentence) from error


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
    if isinstance(error, ValueError) and _status(error) is None:
        return f"{place} refuses it: {' '.join(str(error).split())[:300].rstrip('.')}."
    for answer in (error, cause):
        if answer is not None and (status := _status(answer)) is not None:
            if status not in _STATUSES and status < 500:
                return f"the Hub refuses it ({status}): {_first_line(answer)}."
            return _STATUSES.get(status, _FAILS).format(status)
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
        where = f" at {error.filename!r}" if error.filename else ""
        return f"{error.strerror or error}{where}."
    return f"{place} can't be reached ({_first_line(error)})."


def _status(error: BaseException | None) -> int | None:
    """The HTTP status of an error that has one."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _first_line(error: BaseException) -> str:
    """The first line of a message that isn't empty, without its full stop and what signs an address after its "?"."""
    lines = [_SIGNATURE.sub("", line.strip()) for line in str(error).splitlines() if line.strip()]
    return "".join(c if c.isprintable() else "�" for c in (lines or [type(error).__name__])[0])[:300].rstrip(".")
