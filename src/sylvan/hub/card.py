"""What there is to know of a saved model, gathered from its folder: sizes, parameters, layers, figures, its tree."""

from __future__ import annotations

import datetime
import inspect
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from sylvan import store
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError
from sylvan.hub.tree_drawing import Branch, outline
from sylvan.indexing import LabelTree
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.base import Estimator
from sylvan.models.encoders import encoder_extra
from sylvan.params.fields import Parameterized
from sylvan.params.wording import counted
from sylvan.remote.repository import Source, source_of
from sylvan.store import manifest
from sylvan.store.registry import KINDS, rebuild
from sylvan.weights.layer import WEIGHT_DTYPES

HISTORY = "updates"  # what the manifest calls it: a model may have a "history" of its training
_MOST = 1000  # notes; older ones are dropped
_KINDS = {  # and how many
    "row": ("learned", "forgotten"),
    "label": ("added", "described", "merged", "renamed", "removed"),
}
MEASURED = "measured"  # what the manifest calls the figures that training took on holdout rows
COMPRESSED = "compressed"  # and how the model was made from a larger one
# What the sizes of a model are called, by the attribute that holds them.
_FACTS = (
    ("labels", "n_labels_"),
    ("features", "n_features_"),
    ("training rows", "n_rows_"),
    ("terms", "n_terms_"),
    ("vectors", "n_vectors_"),
    ("dimensions", "n_dimensions_"),
    ("dimensions of the encoder", "n_dense_"),
    ("labels", "n_labels"),
)


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


class Titles(Protocol):
    """From a code to what people call it."""

    def __call__(self, code: str) -> str | None:
        """The title of a code; None where there is none."""

    def check(self, codes: Iterable[str]) -> None:
        """Refuse codes of which none has a title."""


def names_of(
    known: Sequence[str] | None, n_labels: int, titles: Titles | None
) -> tuple[Callable[[int], str], Callable[[int], str]]:
    """What labels are called by their ids: in a drawing, and in a list, where the code follows the title."""
    name: Callable[[int], str] = "label {}".format if known is None else known.__getitem__
    if titles is None:
        return name, name
    codes: Sequence[str] = [str(label) for label in range(n_labels)] if known is None else known
    titles.check(codes)

    def short(label: int) -> str:
        return titles(codes[label]) or name(label)

    def listed(label: int) -> str:
        title = titles(codes[label])
        return name(label) if title is None else f"{title} ({codes[label]})"

    return short, listed


def distinct_titles(codes: Sequence[str], title_of: Callable[[str], str | None]) -> list[str]:
    """What each label is called: its code where it has no title, title and code where others have the same title."""
    found = [title_of(code) or code for code in codes]
    times = Counter(map(_same_name, found))
    return [
        title if times[_same_name(title)] == 1 or title == code else f"{title} ({code})"
        for code, title in zip(codes, found, strict=True)
    ]


def _same_name(title: str) -> str:
    return unicodedata.normalize("NFC", title).strip()


@dataclass(frozen=True)
class Part:
    """One model of the folder: where it stands in the whole, its kind, and its arrays' number and size."""

    path: str
    kind: str
    n_arrays: int
    n_bytes: int


@dataclass(frozen=True)
class Parameters:
    """The parameters of one object: name, value, and whether it differs from the default; what "auto" became."""

    path: str
    owner: str
    values: tuple[tuple[str, Any, bool], ...]
    chosen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Layer:
    """One layer of a tree; a tree without models has no weights."""

    n_clusters: int
    n_nodes: int
    n_weights: int | None
    n_bytes: int | None


@dataclass(frozen=True)
class Tree:
    """One tree: its layers, in words, and its top as a drawing."""

    path: str
    words: str
    layers: tuple[Layer, ...]
    top: Branch


@dataclass(frozen=True)
class Living:
    """The rows that a model keeps to be brought up to date, and how much of a search a new tree would save."""

    n_rows: int
    n_bytes: int
    drift: float


@dataclass(frozen=True)
class Card:
    """A model at a glance."""

    folder: str
    kind: str
    owner: str
    summary: str
    facts: dict[str, int]
    n_bytes: int
    n_files: int
    checksum: str
    written_by: str
    parts: tuple[Part, ...]
    parameters: tuple[Parameters, ...]
    trees: tuple[Tree, ...]
    measured: dict[str, Any] | None = None
    compressed: dict[str, Any] | None = None
    history: tuple[dict[str, Any], ...] = ()
    living: Living | None = None
    source: Source | None = None
    needs: str | None = None
    labels: tuple[tuple[str, int | None], ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "folder": self.folder,
            "kind": self.kind,
            "class": self.owner,
            "facts": self.facts,
            "bytes": self.n_bytes,
            "files": self.n_files,
            "written_by": self.written_by,
            "parts": [vars(part) for part in self.parts],
            "parameters": {
                each.path or each.owner: {name: _plain(value) for name, value, _ in each.values}
                for each in self.parameters
            },
            "changed": {
                each.path or each.owner: [name for name, _, changed in each.values if changed]
                for each in self.parameters
            },
            "chosen": {
                each.path or each.owner: {name: _plain(value) for name, value in each.chosen.items()}
                for each in self.parameters
            },
            "trees": [
                {"path": tree.path, "layers": [vars(layer) for layer in tree.layers], "top": tree.top.as_json()}
                for tree in self.trees
            ],
            "measured": self.measured,
            "compressed": self.compressed,
            "history": list(self.history),
            "living": None if self.living is None else vars(self.living),
            "source": None if self.source is None else self.source.as_json(),
            "needs": self.needs,
            "labels": [{"name": name, "rows": rows} for name, rows in self.labels],
        }


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def read_card(
    folder: str, *, levels: int, branches: int, n_labels: int, names: Vocabulary | None = None,
    titles: Titles | None = None,
) -> Card:  # fmt: skip
    """Look at the model in ``folder``."""
    state, shown = store.load(folder), {"levels": levels, "branches": branches, "n_labels": n_labels}
    return card_of(state, rebuild(state), folder, **shown, names=names, titles=titles)


def card_of(
    state: store.State,
    model: Any,
    folder: str,
    *,
    levels: int = 0,
    branches: int = 0,
    n_labels: int = 0,
    names: Vocabulary | None = None,
    titles: Titles | None = None,
) -> Card:
    """The card of a model that was read from ``folder`` already; parameters and errors as of :func:`read_card`."""
    known = vocabulary_of(model) or names
    has = getattr(model, "n_labels_", None) or getattr(model, "n_labels", None)
    if known is not None and has is not None and len(known) != has:
        raise DataError(
            f"There are {counted(len(known), 'name')} of labels, but the model has {counted(has, 'label')}."
        )
    name, listed = names_of(known, has or 0, titles)
    written = store.contents(folder)
    files = [os.path.join(folder, manifest.NAME), *_files(state)]
    return Card(
        folder=folder,
        kind=state.kind,
        owner=type(model).__name__,
        summary=KINDS[state.kind].summary if state.kind in KINDS else "",
        facts=_facts(model),
        n_bytes=sum(os.stat(file).st_size for file in files),
        n_files=len(files),
        checksum=str(written["checksum"]),
        written_by=str(written["sylvan_version"]),
        parts=tuple(_parts(state, "")),
        parameters=tuple(_parameters(model, "")),
        trees=tuple(_trees(model, "", levels, branches, name)),
        measured=_measured(state),
        compressed=_compressed(state),
        history=tuple(history_of(state)),
        living=_living(_inner(model)),
        source=source_of(folder, state.meta),
        needs=encoder_extra(state),
        labels=tuple(_frequent(model, n_labels, listed)),
    )


def _living(model: Any) -> Living | None:
    """Of a model that keeps its rows for updates."""
    kept = getattr(model, "training_rows_", None)
    return None if kept is None else Living(len(kept.ids), _bytes_of(kept.to_state()), model.drift_)


def _bytes_of(state: store.State) -> int:
    return sum(array.nbytes for array in state.arrays.values())


def vocabulary_of(model: Any) -> Vocabulary | None:
    """The names of a model's labels, where it has them."""
    if isinstance(model, Vocabulary):
        return model
    result = getattr(model, "vocabulary_", None) if isinstance(model, Estimator) else None
    return result if isinstance(result, Vocabulary) else None


def _files(state: store.State) -> Iterator[str]:
    yield from state.array_files.values()
    yield from (os.fspath(path) for path in state.files.values() if not isinstance(path, bytes))
    for part in state.parts.values():
        yield from _files(part)


def _facts(model: Any) -> dict[str, int]:
    results: dict[str, int] = {}
    for name, attribute in _FACTS:
        value = getattr(_inner(model) if attribute == "n_rows_" else model, attribute, None)
        if isinstance(value, (int, np.integer)):
            results.setdefault(name, int(value))
    known = getattr(model, "label_texts_", None)
    if known is not None:
        results["rows that are texts of labels"] = len(known.labels)
        results["labels known by their texts alone"] = len(model.unlearned_labels_)
    if isinstance(model, Vocabulary):
        results["names"] = len(model)
    if isinstance(model, LabelTree):
        results.update(leaves=model.n_leaves, depth=model.depth)
    return results


def _inner(model: Any) -> Any:
    """The model over matrices inside a text model; else the model itself."""
    inner = getattr(model, "model", None)
    return inner if isinstance(inner, Estimator) else model


def _parts(state: store.State, path: str) -> Iterator[Part]:
    yield Part(path, state.kind, len(state.arrays), sum(array.nbytes for array in state.arrays.values()))
    for name, part in state.parts.items():
        yield from _parts(part, f"{path}.{name}" if path else name)


def _objects(model: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The model and the objects with parameters inside it."""
    yield path, model
    if not isinstance(model, Parameterized):
        return
    for name, value in model.get_params(deep=False).items():
        inner = f"{path}.{name}" if path else name
        if isinstance(value, Parameterized):
            yield from _objects(value, inner)
        elif isinstance(value, (list, tuple)):
            for number, one in enumerate(value):
                if isinstance(one, Parameterized):
                    yield from _objects(one, f"{inner}[{number}]")
    for name in ("vectorizer_", "ranker_"):  # what a model with an encoder has learned
        if isinstance(value := model.__dict__.get(name), Parameterized):
            yield from _objects(value, f"{path}.{name[:-1]}" if path else name[:-1])


def _parameters(model: Any, path: str) -> Iterator[Parameters]:
    for at, owner in _objects(model, path):
        if not isinstance(owner, Parameterized):
            continue
        defaults = inspect.signature(type(owner).__init__).parameters
        values = tuple(
            (name, value, not _same(value, defaults[name].default))
            for name, value in owner.get_params(deep=False).items()
            if not isinstance(value, Parameterized) and not _holds_objects(value)
        )
        if values:
            yield Parameters(at, type(owner).__name__, values, getattr(owner, "chosen_", {}))


def _holds_objects(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(one, Parameterized) for one in value)


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return value is default or (type(value) is type(default) and bool(value == default))


def _trees(model: Any, path: str, levels: int, branches: int, name: Callable[[int], str]) -> Iterator[Tree]:
    for at, owner in _objects(model, path):
        if isinstance(owner, LabelTree):
            layers = tuple(Layer(len(offsets) - 1, int(offsets[-1]), None, None) for offsets in owner.child_offsets)
            yield Tree(at, repr(owner), layers, outline(owner, levels, branches, name))
        if isinstance(edges := getattr(owner, "weights_", None), ClassWeights):
            width = edges.weights.shape[1]
            layers = tuple(
                Layer(len(offsets) - 1, int(offsets[-1]), int(offsets[-1]) * width, int(offsets[-1]) * width * 4)
                for offsets in edges.tree.child_offsets
            )
            drawn = outline(edges.tree, levels, branches, name, owner.label_counts_)
            yield Tree(at, repr(edges.tree), layers, drawn)
        for number, ranker in enumerate(getattr(owner, "rankers_", ())):
            where = f"{at}.tree{number}" if at else f"tree{number}"
            layers = tuple(
                Layer(len(weights.child_offsets) - 1, len(weights.intercepts), weights.n_entries, _size(weights))
                for weights in ranker.layers
            )
            drawn = outline(ranker.tree, levels, branches, name, owner.label_counts_)
            yield Tree(where, repr(ranker.tree), layers, drawn)


def _size(weights: Any) -> int:
    """Bytes of a layer's own arrays; the offsets of its children are the tree's."""
    return sum(array.nbytes for array in weights.to_arrays("").values())


def _frequent(model: Any, n: int, name: Callable[[int], str]) -> Iterator[tuple[str, int | None]]:
    """The labels that training saw most often and in how many rows; of a bare vocabulary the first."""
    counts = getattr(_inner(model), "label_counts_", None)
    if counts is not None:
        for label in np.argsort(-np.asarray(counts), kind="stable")[:n].tolist():
            yield name(label), int(counts[label])
    elif isinstance(model, Vocabulary):
        yield from ((name(label), None) for label in range(min(n, len(model))))


def _measured(state: store.State) -> dict[str, Any] | None:
    """The figures that training took, in the form in which it writes them."""
    result = state.meta.get(MEASURED)
    if result is None:
        return None
    sound = isinstance(result, dict) and isinstance(result.get("on"), str) and isinstance(result.get("rows"), int)
    measures = result.get("measures") if sound else None
    sound = isinstance(measures, dict) and all(
        isinstance(values, dict)
        and all(k.isdecimal() and isinstance(value, (int, float)) for k, value in values.items())
        for values in measures.values()
    )
    if not sound:
        raise ModelError(f"{state.where!r} is damaged: in manifest.json, {MEASURED!r} holds no figures.")
    return dict(result)


def _compressed(state: store.State) -> dict[str, Any] | None:
    """What ``sylvan compress`` says of a model that it made."""
    result = state.meta.get(COMPRESSED)
    if result is None:
        return None
    sizes = (result.get("bytes_before"), result.get("max_size") or 0) if isinstance(result, dict) else ()
    types = result.get("weight_dtypes") if sizes else None
    sound = isinstance(types, list) and all(name in WEIGHT_DTYPES for name in types)
    if not sound or not all(type(size) is int for size in sizes):
        raise ModelError(f"{state.where!r} is damaged: in manifest.json, {COMPRESSED!r} isn't what compress writes.")
    return dict(result)
