"""Models of the Hub on this machine: opened from the Hub's cache, or written into a folder of their own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from sylvan import store
from sylvan.data.streams import open_write
from sylvan.errors import ModelError
from sylvan.remote import readme
from sylvan.remote.repository import SOURCE, Repository
from sylvan.remote.snapshot import check_links, download
from sylvan.store.registry import rebuild


def pull(
    repository: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
) -> str:
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
    asked = Repository.parse(repository, revision)
    if folder is not None:
        store.check_target(folder)
    snapshot = download(asked, token)
    with _in_the_cache(snapshot.folder):
        state = store.load(snapshot.folder, verify=folder is not None)
        rebuild(state)  # what can't be opened here is refused now, not when it is needed
    if folder is None:
        return snapshot.folder
    path = store.folder_path(folder)
    state.meta[SOURCE] = snapshot.source.as_json()
    store.save(path, state)
    _copy_readme(snapshot.folder, path)
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
    folder = download(Repository.parse(source, revision), token).folder
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


def _copy_readme(source: str, folder: str) -> None:
    """The repository's README.md as that of the folder, unless somebody wrote one there."""
    path = os.path.join(folder, readme.NAME)
    if os.path.islink(path):  # it isn't written through
        return
    text, there = readme.read(source), readme.read(folder)
    if text is None or (there is not None and not readme.card_checksum(there)):
        return
    with open_write(path) as stream:
        stream.write(readme.remarked(text, str(store.contents(folder)["checksum"])).encode("utf-8", "replace"))
