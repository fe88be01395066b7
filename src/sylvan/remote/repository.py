"""What a repository on the Hugging Face Hub is called, with the revision that is meant."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sylvan.errors import ModelError, ParameterError

SOURCE = "pulled"  # what a manifest calls it
_CACHED = re.compile(r"models--([A-Za-z0-9_.-]+?)--([A-Za-z0-9_.-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
SCHEME = "hf://"
_PART = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_REVISION = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./+-]*[A-Za-z0-9_+-])?")
_LONGEST = 96


@dataclass(frozen=True)
class Source:
    """A repository on the Hub and a commit of it."""

    repository: str
    revision: str

    def as_json(self) -> dict[str, str]:
        """As a manifest holds it."""
        return {"repository": self.repository, "revision": self.revision}


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
        name, at, own = text.partition("@")
        parts = name.split("/")
        if len(parts) != 2 or not all(_is_part(part) for part in parts):
            raise ParameterError(
                "A repository on the Hugging Face Hub is called 'owner/name', of letters, digits and single hyphens, "
                f"dots and underscores between them. Got {source!r:.120} instead."
            )
        if at and revision is not None:
            raise ParameterError(f"There are two revisions: {own!r:.60} in {source!r:.120}, and {revision!r:.60}.")
        wanted = own if at else revision
        if wanted is not None and not _is_revision(wanted):
            raise ParameterError(
                f"A revision is a branch, a tag or a commit, such as 'main'. Got {wanted!r:.120} instead."
            )
        return cls(name, wanted)

    def __str__(self) -> str:
        return self.name if self.revision is None else f"{self.name}@{self.revision}"


def _is_part(text: str) -> bool:
    return len(text) <= _LONGEST and bool(_PART.fullmatch(text)) and "--" not in text and ".." not in text


def _is_revision(text: object) -> bool:
    return isinstance(text, str) and len(text) <= 200 and bool(_REVISION.fullmatch(text)) and ".." not in text


@dataclass(frozen=True)
class Pushed:
    """What a push has made: a commit, and its page."""

    repository: str
    revision: str
    url: str
