"""What became of a model after its training: the notes that ``sylvan update`` leaves in a manifest."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from sylvan import store
from sylvan.errors import ModelError

HISTORY = "updates"  # what the manifest calls it: a model may have a "history" of its training
_MOST = 1000  # notes; older ones are dropped
_KINDS = {  # and how many
    "row": ("learned", "forgotten"),
    "label": ("added", "described", "merged", "renamed", "removed"),
}


def history_of(state: store.State) -> list[dict[str, Any]]:
    """The notes of earlier updates, oldest first."""
    result = state.meta.get(HISTORY, [])
    sound = isinstance(result, list) and all(
        isinstance(note, dict)
        and isinstance(note.get("when"), str)
        and all(type(note.get(kind, 0)) is int for kinds in _KINDS.values() for kind in kinds)
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
    """A note in words: "2 labels renamed, 1 removed"."""
    words: list[str] = []
    for noun, kinds in _KINDS.items():
        counts = [(note[kind], kind) for kind in kinds if note.get(kind)]
        if counts:
            (n, kind), *others = counts
            words += [f"{n:,} {noun}{'' if n == 1 else 's'} {kind}", *(f"{n:,} {kind}" for n, kind in others)]
    return ", ".join(words) or "nothing"
