"""Pushing a model to the Hub: verified, with its card, and with no other file that lies in its folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from typing import Any

from sylvan import store
from sylvan.errors import HubError, ParameterError
from sylvan.hub.card_text import hub_description
from sylvan.remote import readme
from sylvan.remote.client import asking, need_library, unreachable
from sylvan.remote.pull import check_links
from sylvan.remote.repository import Pushed, Repository

_MANIFEST = "manifest.json"
_TOKEN = "[0-9a-f]" * 8
# The files of the model that was there before, which the new one doesn't name: as saving calls them.
_REPLACED = [f"*.{_TOKEN}.npy", f"*.{_TOKEN}.files/*"]


def push(
    folder: str | os.PathLike[str],
    repository: str,
    *,
    revision: str | None = None,
    private: bool | None = None,
    license: str | None = None,
    message: str | None = None,
    token: str | None = None,
) -> Pushed:
    """Push the model in ``folder`` to a repository on the Hugging Face Hub, in one commit.

    Its checksums are compared before. Then ``manifest.json``, the files that it names and README.md are pushed, nothing
    else that lies in the folder. README.md is the model's card, or the one in the folder if you wrote it, with the
    metadata that the Hub reads. The files of a model that was in the repository before are deleted in the same commit.

    Parameters
    ----------
    folder : path
    repository : str
        ``"owner/name"``. It is created if it doesn't exist.
    revision : str, optional
        A branch; the main one by default. It is created if it doesn't exist.
    private : bool, optional
        Whether a new repository is private; by default as its owner has set on the Hub. With True, a repository that is
        public already is refused.
    license : str, optional
        As the Hub calls it, like ``"apache-2.0"``.
    message : str, optional
        Of the commit.
    token : str, optional
        By default that of the environment: ``HF_TOKEN``, or what ``hf auth login`` has stored.

    Returns
    -------
    Pushed
        The repository, the commit's id and its page.

    Raises
    ------
    ModelError
        When there is no model in ``folder``, it is damaged, or a file of it is a link that leads out of it.
    HubError
        When the Hub can't be reached, refuses or fails; the repository's files are then as they were.
    ParameterError
        For something else than ``"owner/name"``.
    ImportError
        When huggingface_hub isn't installed.
    """
    target, path = Repository.parse(repository, revision), store.folder_path(folder)
    if license is not None and not (isinstance(license, str) and license.strip() and license.isprintable()):
        raise ParameterError(f"The 'license' parameter of push must be a name. Got {license!r:.80} instead.")
    library = need_library()
    store.load(path, verify=True)
    places = store.files_of(path)
    own = readme.read(path)
    check_links(path, [_MANIFEST, *places, *([] if own is None else [readme.NAME])])
    text = _readme(path, target.name, own, license)
    if reason := unreachable(library):
        raise HubError(f"{target} can't be pushed: the Hugging Face Hub can't be reached ({reason}).")
    with tempfile.TemporaryDirectory(prefix="sylvan-push-") as stage, asking(target, token, "pushed") as api:
        _gather(path, [_MANIFEST, *places], stage)
        with open(os.path.join(stage, readme.NAME), "w", encoding="utf-8", errors="replace", newline="") as stream:
            stream.write(text)
        _need_repository(api, target, private)
        commit = api.upload_folder(
            repo_id=target.name,
            folder_path=stage,
            revision=target.revision,
            commit_message=message or "A model of Sylvan",
            delete_patterns=_REPLACED,
        )
    return Pushed(target.name, str(commit.oid), str(commit.commit_url))


def license_of(folder: str | os.PathLike[str]) -> str | None:
    """The license that the README.md in a folder names in its metadata; None where it names none."""
    text = readme.read(store.folder_path(folder))
    found = None if text is None else readme.metadata_of(text).get("license")
    return found if isinstance(found, str) else None


def _readme(path: str, repository: str, own: str | None, license: str | None) -> str:
    """The card, or what somebody wrote instead; what stands in its metadata goes before what the card says."""
    card = hub_description(path, repository)
    before = {} if own is None else readme.metadata_of(own, os.path.join(path, readme.NAME))
    chosen = {} if license is None else {"license": license.strip()}
    text = card.text if own is None or readme.card_checksum(own) else own
    return readme.with_metadata(text, {**card.metadata, **before, **chosen})


def _gather(path: str, places: Iterable[str], stage: str) -> None:
    """A folder of links to the files that are pushed; of copies where the system has no links."""
    for place in places:
        source, target = os.path.realpath(os.path.join(path, place)), os.path.join(stage, place)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.symlink(source, target)
        except OSError:
            shutil.copyfile(source, target)


def _need_repository(api: Any, target: Repository, private: bool | None) -> None:
    """The repository is there, as private as it was asked to be, and has the branch."""
    api.create_repo(target.name, private=private, exist_ok=True)
    if private and not api.model_info(target.name).private:
        raise HubError(
            f"{target} can't be pushed: {target.name!r} exists and is public. Make it private on its page, or push it "
            "without 'private'."
        )
    if target.revision is not None:
        api.create_branch(target.name, branch=target.revision, exist_ok=True)
