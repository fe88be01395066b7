"""Pushing a model to the Hub: verified, with its card, and with no other file that lies in its folder."""

from __future__ import annotations

import os
from typing import Any

from sylvan import store
from sylvan.errors import HubError, ParameterError
from sylvan.hub.card import Card, card_of
from sylvan.hub.card_text import as_markdown
from sylvan.models.base import Estimator
from sylvan.remote import readme
from sylvan.remote.client import Pushed, Repository, asking, check_links, need_library, unreachable
from sylvan.store.registry import rebuild

_LEVELS, _BRANCHES, _LABELS = 2, 6, 10  # what is shown of a tree and of the labels
_NAMES = {"P": "precision", "R": "recall", "nDCG": "ndcg"}  # the Hub's, for measures that it knows
_MANIFEST = "manifest.json"
_TOKEN = "[0-9a-f]" * 8
# The files of the model that was there before, which the new one doesn't name: as saving calls them.
_REPLACED = [f"*.{_TOKEN}.npy", f"*.{_TOKEN}.files/*"]


def push(
    folder: str | os.PathLike[str], repository: str, *, revision: str | None = None, private: bool | None = None,
    license: str | None = None, message: str | None = None, token: str | None = None,
) -> Pushed:  # fmt: skip
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
    present = readme.read(path)
    check_links(path, [_MANIFEST, *places, *([] if present is None else [readme.NAME])])
    text = _readme(path, target.name, present, license)
    if reason := unreachable(library):
        raise HubError(f"{target} can't be pushed: the Hugging Face Hub can't be reached ({reason}).")
    files = {place: os.path.realpath(os.path.join(path, place)) for place in (_MANIFEST, *places)}
    with asking(target, token, "pushed") as api:
        api.create_repo(target.name, private=private, exist_ok=True)
        if private and not api.model_info(target.name).private:
            raise HubError(
                f"{target} can't be pushed: {target.name!r} exists and is public. Make it private on its page, or push "
                "it without 'private'."
            )
        if target.revision is not None:
            api.create_branch(target.name, branch=target.revision, exist_ok=True)
        before = api.list_repo_files(target.name, revision=target.revision)
        replaced = library.utils.filter_repo_objects(before, allow_patterns=_REPLACED)
        operations = [library.CommitOperationDelete(name) for name in replaced if name not in files]
        operations += [library.CommitOperationAdd(place, source) for place, source in files.items()]
        operations.append(library.CommitOperationAdd(readme.NAME, text.encode("utf-8", "replace")))
        commit = api.create_commit(
            target.name, operations, commit_message=message or "A model of Sylvan", revision=target.revision
        )
    return Pushed(target.name, str(commit.oid), str(commit.commit_url))


def license_of(folder: str | os.PathLike[str]) -> str | None:
    """The license that the README.md in a folder names in its metadata; None where it names none."""
    text = readme.read(store.folder_path(folder))
    license = None if text is None else readme.metadata_of(text).get("license")
    return license if isinstance(license, str) else None


def _readme(path: str, repository: str, present: str | None, license: str | None) -> str:
    """The card, or the README.md that somebody wrote; what stands in its metadata goes before what the card says."""
    state = store.load(path)
    model = rebuild(state)
    card = card_of(state, model, path, levels=_LEVELS, branches=_BRANCHES, n_labels=_LABELS)
    before = {} if present is None else readme.metadata_of(present, os.path.join(path, readme.NAME))
    chosen = {} if license is None else {"license": license.strip()}
    text = as_markdown(card, repository) if present is None or readme.card_checksum(present) else present
    return readme.with_metadata(text, {**_metadata(card, model, repository), **before, **chosen})


def _metadata(card: Card, model: Any, repository: str) -> dict[str, Any]:
    """What the Hub reads of a model: its task, where it ranks labels, and the figures that training took."""
    library = need_library()
    task = f"{'text' if model.takes_texts else 'tabular'}-classification" if isinstance(model, Estimator) else None
    evaluation: dict[str, Any] = {}
    if card.measured is not None and any(card.measured["measures"].values()):
        dataset = f"{card.measured['on']} ({card.measured['rows']:,} rows)"
        figures = [
            library.EvalResult(
                task or "other", "unknown", dataset, f"{_NAMES.get(name, name.lower())}_at_{k}",
                round(float(value), 4), metric_name=f"{name}@{k}",
            )
            for name, values in card.measured["measures"].items()
            for k, value in sorted(values.items(), key=lambda item: int(item[0]))
        ]  # fmt: skip
        evaluation = {"model_name": repository.partition("/")[2], "eval_results": figures}
    tags = ["sylvan", "extreme-classification", card.kind]
    card_data: Any = library.ModelCardData(library_name="sylvan", pipeline_tag=task, tags=tags, **evaluation)
    return dict(card_data.to_dict())
