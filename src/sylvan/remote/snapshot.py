"""A model of the Hub in the Hub's own cache: its manifest first, then the files that the manifest names, no others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sylvan import store
from sylvan.errors import HubError, ModelError
from sylvan.remote import readme
from sylvan.remote.client import PATIENCE, asking, need_library, unreachable
from sylvan.remote.repository import Repository, Source, cache_of
from sylvan.runtime.disk import free_bytes
from sylvan.runtime.memory import shown_bytes

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


@dataclass(frozen=True)
class Snapshot:
    """A commit of a repository in the cache."""

    folder: str
    source: Source
    n_bytes: int


def download(repository: Repository, token: str | None = None) -> Snapshot:
    """Bring a model into the Hub's cache, unless it is there, with its checksums compared. Of the repository only the
    manifest, the files that it names and README.md are fetched: no other file, pickled or not, reaches this machine.
    Where the Hub can't be reached, what is in the cache is taken."""
    offline = unreachable(need_library())
    with asking(repository, token, "downloaded", offline) as api:
        folder = _fetch(api, repository.name, repository.revision, [_MANIFEST], offline)
        if not os.path.lexists(os.path.join(folder, _MANIFEST)):
            raise ModelError(f"{repository} holds no Sylvan model: it has no {_MANIFEST}.")
        commit = os.path.basename(folder)
        check_links(folder, [_MANIFEST])
        sizes = store.files_of(folder)
        missing = [place for place in sizes if not os.path.exists(os.path.join(folder, place))]
        _need_room(repository, folder, sum(sizes[place] for place in missing))
        _fetch(api, repository.name, commit, [*sizes, readme.NAME], offline)
    _need_all(repository, folder, sizes, offline)
    check_links(folder, [*sizes, *_there(folder, readme.NAME)])
    if missing:
        store.load(folder, verify=True)
    return Snapshot(folder, Source(repository.name, commit), sum(sizes.values()))


def _fetch(api: Any, name: str, revision: str | None, places: list[str], offline: str) -> str:
    """The folder in the cache with these files of a commit, as far as the repository has them."""
    folder: str = api.snapshot_download(
        name, revision=revision, allow_patterns=places, etag_timeout=PATIENCE, local_files_only=bool(offline)
    )
    if cache_of(os.path.realpath(folder)) is None:
        raise HubError(f"The Hub's cache has {folder!r} for {name!r}, where no commit lies.")
    return folder


def _need_room(repository: Repository, folder: str, n_bytes: int) -> None:
    free = free_bytes(folder)
    if free is not None and n_bytes > free:
        raise HubError(
            f"{repository} can't be downloaded: it takes {shown_bytes(n_bytes)} more, and there are "
            f"{shown_bytes(free)} free in the cache, {folder!r}."
        )


def _need_all(repository: Repository, folder: str, places: Iterable[str], offline: str) -> None:
    """Older clients answer with what they have when the Hub fails on the way."""
    for place in places:
        if not os.path.exists(os.path.join(folder, place)):
            why = f", and the Hub can't be reached ({offline})" if offline else ""
            raise HubError(
                f"{repository} isn't complete in the cache: {place!r}, which its manifest names, is missing{why}."
            )


def _there(folder: str, place: str) -> list[str]:
    return [place] if os.path.lexists(os.path.join(folder, place)) else []
