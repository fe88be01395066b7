"""Models of the Hub on this machine: opened from the Hub's cache, or written into a folder of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from sylvan import store
from sylvan.data.streams import open_write
from sylvan.errors import HubError, ModelError
from sylvan.params.wording import shown_bytes
from sylvan.remote import readme
from sylvan.remote.client import PATIENCE, SOURCE, Repository, Source, asking, cache_of, need_library, unreachable
from sylvan.runtime.plan import free_bytes
from sylvan.store.registry import rebuild

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
