"""The files that a saved model has learned from, so that it is noticed when it is measured on one of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from sylvan import store
from sylvan.data.streams import open_read
from sylvan.models.at_work import Source, inner_of

TRAINED_ON = "trained_on"  # in a model's manifest: name and checksum of each file


def note_training_file(folder: str, path: str | None) -> None:
    """Write into the manifest of a saved model that it has learned from a file, unless that is stdin or a folder."""
    records = training_files([], [path])
    if records:
        store.annotate(folder, {TRAINED_ON: records})


def training_files(folders: Iterable[str], paths: Iterable[str | None] = ()) -> list[Any]:
    """The records of the files that the models in ``folders`` have learned from, and those of ``paths``, each once."""
    records = [_record(path) for path in paths if path is not None and os.path.isfile(path)]
    for folder in filter(os.path.isdir, folders):
        noted = store.contents(folder)["model"]["meta"].get(TRAINED_ON)
        records += [record for record in noted if isinstance(record, dict)] if isinstance(noted, list) else []
    return list({str(record.get("sha256")): record for record in records}.values())


def training_name(folder: str, path: str) -> str | None:
    """The name that a file had when the model in ``folder`` learned from it; None where it hasn't, or isn't known."""
    records = training_files([folder]) if os.path.isfile(path) else []
    names = {str(record.get("sha256")): str(record.get("name")) for record in records}
    return names.get(_record(path)["sha256"]) if names else None


def learned_rows(model: Any, source: Source) -> tuple[int, int]:
    """How many of the first rows of a file are among those that the model has learned from and keeps, and how many
    were compared: none where it keeps none, and of stdin."""
    inner = inner_of(model)
    if getattr(inner, "training_rows_", None) is None or source.path == "-":
        return 0, 0
    for rows, _ in source.blocks(False if source.is_text else model.n_features_):
        learned = inner.learned_rows(model.vectorizer.transform(rows) if source.is_text else rows)
        return int(learned.sum()), len(learned)
    return 0, 0


def _record(path: str) -> dict[str, str]:
    """A file's name, and the checksum of its content after unpacking: a compressed copy is the same file."""
    digest = hashlib.sha256()
    with open_read(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return {"name": os.path.basename(path), "sha256": digest.hexdigest()}
