"""Saved models in commands: loaded and set, saved where there is space, and the files that they learned from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from sylvan import store
from sylvan.cli.io.inputs import TextInput, open_input
from sylvan.cli.io.matrices import MatrixInput
from sylvan.cli.options import Config, config_of, settable_parameters
from sylvan.cli.session import Session
from sylvan.data.streams import open_read
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.blocks import Source, inner_of, load_ranking, set_device, set_ranking, set_threads
from sylvan.runtime.plan import Need, disk_of, free_bytes, is_full, need_room

TRAINED_ON = "trained_on"  # in a model's manifest: name and checksum of each file
SEPARATOR = "label_separator"  # there too: that of its training's cells, where it was named
LOST_THRESHOLD = " Its saved threshold is gone: sylvan thresholds {} FILE --save finds it again."
# What changes an answer without a new training; anything else would be silently without effect.
_RANK_PARAMETERS = ("beam", "combine", "n_neighbors", "power", "tail", "unknown")
# A disk with so many times the bytes of the data free, and so many beside, isn't asked further: to estimate a model's
# size takes a second or two.
AMPLE, BESIDE = 20, 1 << 30
# Of a plan's options those that say how, not what, is trained.
_OF_THE_RUN = ("checkpoint", "memory_limit", "force", "report")


def separator_of(folder: str) -> str | None:
    """The separator of labels that the training of the model in ``folder`` was told; None where it wasn't."""
    noted = store.contents(folder)["model"]["meta"].get(SEPARATOR) if os.path.isdir(folder) else None
    return noted if isinstance(noted, str) else None


def training_files(folders: Iterable[str], paths: Iterable[str | None] = ()) -> list[Any]:
    """The records of the files that the models in ``folders`` have learned from, and those of ``paths``, each once."""
    records = [_record(path) for path in paths if path is not None and os.path.isfile(path)]
    for folder in filter(os.path.isdir, folders):
        noted = store.contents(folder)["model"]["meta"].get(TRAINED_ON)
        records += [record for record in noted if isinstance(record, dict)] if isinstance(noted, list) else []
    return list({str(record.get("sha256")): record for record in records}.values())


def training_notes(folder: str, path: str | None = None) -> dict[str, Any]:
    """What the manifest of the model in ``folder`` notes of its training, for one made of it, and of ``path``."""
    notes = {TRAINED_ON: training_files([folder], [path]), SEPARATOR: separator_of(folder)}
    return {name: note for name, note in notes.items() if note is not None}


def training_name(folder: str, path: str) -> str | None:
    """The name that a file had when the model in ``folder`` learned from it; None where it hasn't, or isn't known."""
    records = training_files([folder]) if os.path.isfile(path) else []
    checksum = _record(path)["sha256"] if records else None
    return next((str(record.get("name")) for record in records if record.get("sha256") == checksum), None)


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


def kept_rows(model: Any) -> Any:
    """The rows that a model keeps for updates, or the first of its members that does; None where none does."""
    rows = (getattr(inner_of(each), "training_rows_", None) for each in getattr(model, "members", (model,)))
    return next((each for each in rows if each is not None), None)


def text_name(path: str) -> str:
    """A file's name as text, which a manifest holds: names of files are any bytes."""
    return "stdin" if path == "-" else os.fsencode(os.path.basename(os.path.abspath(path))).decode("utf-8", "replace")


def _record(path: str) -> dict[str, str]:
    """A file's name, and the checksum of its content after unpacking: a compressed copy is the same file."""
    digest = hashlib.sha256()
    with open_read(path) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return {"name": text_name(path), "sha256": digest.hexdigest()}


def load_model(folder: str, settings: Sequence[str], threads: int | None, device: str | None = None) -> Any:
    """The model in ``folder``, its parameters changed by ``settings`` (``beam=20``), ``threads`` and ``device``."""
    loaded = load_ranking(folder)
    set_ranking(loaded, ranking_parameters(loaded, settings))
    set_threads(loaded, threads)
    if device is not None and not set_device(loaded, device):
        raise ParameterError(f"--device is for models with a text encoder, which {folder!r} holds none of.")
    return loaded


def codes_of(model: Any) -> Sequence[str]:
    """What a model calls its labels: their names, or their ids where they have none."""
    return model.vocabulary_ if model.vocabulary_ is not None else [str(label) for label in range(model.n_labels_)]


def ranking_parameters(model: Any, settings: Sequence[str]) -> dict[str, Any]:
    """The parameters that ``settings``, or else the configuration file of the running command, give a model."""
    inner = inner_of(model)
    ctx = click.get_current_context(silent=True)
    config = Config() if ctx is None else config_of(ctx)
    values, of_texts = config.read_model(type(inner), config.typed(settings))
    if inner is model:
        config.problems += [
            f"The {name!r} parameter is for texts, and the model is over matrices." for name in of_texts
        ]
    elif "unlearned" in of_texts:
        config.problems.append("The 'unlearned' parameter of TextModel matters in training alone.")
    names = [name for name, *_ in settable_parameters(type(inner))]
    # Those that change an answer without a new training.
    counting = [name for name in names if name.removeprefix("ranker__") in _RANK_PARAMETERS]
    config.problems += [
        f"The {name!r} parameter of {type(inner).__name__} matters in training alone. "
        f"Those that can be set here: {', '.join(counting) or 'none'}."
        for name in values
        if name in names and name not in counting
    ]
    config.refuse()
    return values | of_texts


def input_for(
    model: Any, folder: str, path: str, flags: Mapping[str, Any], part: str = "tst"
) -> TextInput | MatrixInput:
    """As :func:`~sylvan.cli.io.inputs.open_input`, of texts or a matrix as the model in ``folder`` takes them."""
    usual = {} if "usual_separator" in flags else {"usual_separator": separator_of(folder)}
    source = open_input(path, {**flags, **usual}, model, part)
    if model.takes_texts != source.is_text:
        taken = "text" if model.takes_texts else "matrices"
        raise DataError(f"The model in {folder!r} takes {taken}, but {source.name} is {source.words}.")
    return source


def need_disk(model: Any, inputs: Any, labels: Any, options: Mapping[str, Any], folder: str) -> None:
    """Refuse a training whose model, which goes into ``folder``, or whose checkpoint has no room."""
    if not hasattr(getattr(model, "model", model), "plan"):
        return
    parts = (inputs.data, inputs.indices) if hasattr(inputs, "indices") else (inputs,)
    n_bytes = sum(map(len, inputs) if isinstance(inputs, list) else (getattr(part, "nbytes", 0) for part in parts))
    checkpoint = None if "checkpoint" not in options else os.fspath(options["checkpoint"].folder)
    free = [size for size in map(free_bytes, filter(None, (folder, checkpoint))) if size is not None]
    if not free or min(free) > AMPLE * n_bytes + BESIDE:
        return
    from sylvan.runtime.checkpointed import SECONDS

    plan = model.plan(inputs, labels, **{name: it for name, it in options.items() if name not in _OF_THE_RUN})
    needs = [Need("the model", folder, plan.model_bytes)]
    if checkpoint is not None and plan.seconds > SECONDS:  # a shorter training writes none
        needs.append(Need("its checkpoint", checkpoint, plan.model_bytes))
    need_room(needs)


def save_model(
    session: Session, model: Any, folder: str, flags: Mapping[str, Any], checkpoint: Any = None
) -> str:
    """:func:`save_state` of a model, whose checkpoint is taken away; where the disk is full, it is saved on another."""
    try:
        replaced = save_state(folder, model.to_state())
    except ModelError as error:
        place = _saved_elsewhere(model, folder) if is_full(error) else None
        if place is None:
            raise
        if checkpoint is not None:
            checkpoint.remove()
        session.remains = lambda: None
        words = f"{error} It is in {place!r} instead, whole: move it to where there is room."
        raise ModelError(words) from error.__cause__
    notes: dict[str, Any] = {}
    if records := training_files([], [flags["train"]]):  # unless that is stdin or a folder
        notes[TRAINED_ON] = records
    if flags["label_separator"] is not None:
        notes[SEPARATOR] = flags["label_separator"]
    if notes:
        store.annotate(folder, notes)
    if checkpoint is not None:
        checkpoint.remove()
    return replaced


def save_state(folder: str, state: store.State) -> str:
    """Save a model. One that was there, and that this release can go back to, stays as the earlier version: a sentence
    says how to go back, and else is empty."""
    is_replaced = False
    with contextlib.suppress(ModelError):
        is_replaced = bool(store.contents(folder))
    store.save(folder, state, keep=int(is_replaced))
    Session.of(click.get_current_context()).written = f"the model was saved in {folder}"
    return f" The model that was there stays: sylvan update {folder} --undo goes back to it." if is_replaced else ""


def _saved_elsewhere(model: Any, folder: str) -> str | None:
    """Where the model could be saved on another disk; None for nowhere."""
    name, places = os.path.basename(os.path.normpath(folder)) or "model", {disk_of(folder): ""}
    for place in (tempfile.gettempdir(), os.getcwd(), os.path.expanduser("~")):
        places.setdefault(disk_of(place), place)  # the first of each disk
    for place in filter(None, places.values()):
        with contextlib.suppress(ModelError, OSError):
            parent = tempfile.mkdtemp(prefix="sylvan-", dir=place)
            try:
                model.save(os.path.join(parent, name))
                return os.path.join(parent, name)
            finally:
                with contextlib.suppress(OSError):  # which holds the model, unless that failed
                    os.rmdir(parent)
    return None
