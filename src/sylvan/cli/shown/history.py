"""What became of a model after its training: the notes that ``sylvan update`` leaves in a manifest."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from sylvan import store
from sylvan.errors import ModelError

__all__ = ["HISTORY", "history_of", "noted", "words_of"]

HISTORY = "updates"  # what the manifest calls it: a model may have a "history" of its training
_MOST = 1000  # notes; older ones are dropped
# What is counted, and how a count of one and of several is said.
_KINDS = {
    "learned": ("row learned", "rows learned"),
    "forgotten": ("row forgotten", "rows forgotten"),
    "added": ("label added", "labels added"),
    "merged": ("label merged into another", "labels merged into others"),
    "renamed": ("label renamed", "labels renamed"),
    "removed": ("label removed", "labels removed"),
}


def history_of(state: store.State) -> list[dict[str, Any]]:
    """The notes of earlier updates, oldest first.

    Raises
    ------
    ModelError
        When they have another form.
    """
    result = state.meta.get(HISTORY, [])
    sound = isinstance(result, list) and all(
        isinstance(note, dict)
        and isinstance(note.get("when"), str)
        and all(type(note.get(kind, 0)) is int for kind in _KINDS)
        for note in result
    )
    if not sound:
        raise ModelError(f"{state.where!r} is damaged: in manifest.json, {HISTORY!r} isn't what update writes.")
    return list(result)


def noted(history: list[dict[str, Any]], counts: Mapping[str, int]) -> list[Any]:
    """The history with one note more: that so many rows and labels were changed, now."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return [*history, {"when": now, **{kind: n for kind, n in counts.items() if n}}][-_MOST:]


def words_of(note: Mapping[str, Any]) -> str:
    """A note in words: "2 labels renamed, 1 label removed"."""
    counts = [(note[kind], words) for kind, words in _KINDS.items() if note.get(kind)]
    return ", ".join(f"{n:,} {one if n == 1 else several}" for n, (one, several) in counts) or "nothing"
