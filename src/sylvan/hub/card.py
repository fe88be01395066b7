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
import numpy.typing as npt

from sylvan import store
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ModelError
from sylvan.explain.explanation import printable
from sylvan.indexing import LabelTree
from sylvan.indexing.tree import node_title
from sylvan.matching.class_beam import ClassWeights
from sylvan.models.base import Estimator
from sylvan.models.blocks import inner_of, training_counts
from sylvan.models.encoders import encoder_extra
from sylvan.params.fields import Parameterized
from sylvan.params.wording import counted
from sylvan.remote.client import Source, source_of
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
THRESHOLD = "threshold"  # and the threshold of the highest F1, which `sylvan thresholds --save` found
COMPRESSED = "compressed"  # and how the model was made from a larger one
ROWS, TEXT_ROWS = "training rows", "further rows that are texts of labels"
# What the sizes of a model are called, by the attribute that holds them.
_FACTS = (
    ("labels", "n_labels_"), ("features", "n_features_"), (ROWS, "n_rows_"), ("terms", "n_terms_"),
    ("vectors", "n_vectors_"), ("dimensions", "n_dimensions_"), ("dimensions of the encoder", "n_dense_"),
    ("labels", "n_labels"),
)  # fmt: skip


def _note(state: store.State, key: str, is_sound: Callable[[Any], bool], fault: str) -> Any:
    """What a manifest says under a key, in the form in which it is written there; None where it says nothing."""
    note = state.meta.get(key)
    if note is not None and not is_sound(note):
        raise ModelError(f"{state.where!r} is damaged: in manifest.json, {key!r} {fault}.")
    return note


def history_of(state: store.State) -> list[dict[str, Any]]:
    """The notes of earlier updates, oldest first."""

    def is_sound(notes: Any) -> bool:
        return isinstance(notes, list) and all(
            isinstance(note, dict)
            and isinstance(note.get("when"), str)
            and all(type(note.get(kind, 0)) is int for kinds in _KINDS.values() for kind in kinds)
            for note in notes
        )

    return list(_note(state, HISTORY, is_sound, "isn't what update writes") or [])


def _is_measured(note: Any) -> bool:
    """Whether a note has the form in which training writes its figures."""
    match note:
        case {"measures": dict() as measures, "on": str(), "rows": int()}:
            tables = all(isinstance(values, dict) for values in measures.values())
            cells = (cell for values in measures.values() for cell in values.items())
            return tables and all(k.isdecimal() and isinstance(value, int | float) for k, value in cells)
    return False


def _is_threshold(note: Any) -> bool:
    """Whether a note has the form in which ``sylvan thresholds`` writes what to start with."""
    match note:
        case {"f1": int() | float() as value, "on": str(), "rows": int()}:
            return 0 <= value <= 1
    return False


def _is_compressed(note: Any) -> bool:
    """Whether a note has the form in which ``sylvan compress`` speaks of a model that it made."""
    match note:
        case {"weight_dtypes": list() as types, "bytes_before": before}:
            counts = type(before) is int and type(note.get("max_size") or 0) is int
            return counts and all(name in WEIGHT_DTYPES for name in types)
    return False


def noted(history: list[dict[str, Any]], counts: Mapping[str, int]) -> list[Any]:
    """The history with one note more: that so many rows and labels were changed, now."""
    time = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return [*history, {"when": time, **{kind: n for kind, n in counts.items() if n}}][-_MOST:]


def words_of(note: Mapping[str, Any]) -> str:
    """A note in words: "2 labels renamed, 1 removed"."""
    words: list[str] = []
    for noun, kinds in _KINDS.items():
        counts = [(note[kind], kind) for kind in kinds if note.get(kind)]
        if counts:
            (n, kind), *remaining = counts
            words += [f"{n:,} {noun}{'' if n == 1 else 's'} {kind}", *(f"{n:,} {kind}" for n, kind in remaining)]
    return ", ".join(words) or "nothing"


class Titles(Protocol):
    """From a code to what people call it."""

    def __call__(self, code: str) -> str | None:
        """The title of a code; None where there is none."""

    def check(self, codes: Iterable[str]) -> None:
        """Refuse codes of which none has a title."""


def names_of(
    names: Sequence[str] | None, n_labels: int, titles: Titles | None
) -> tuple[Callable[[int], str], Callable[[int], str]]:
    """What labels are called by their ids: in a drawing, and in a list, where the code follows the title."""
    name: Callable[[int], str] = "label {}".format if names is None else names.__getitem__
    if titles is None:
        return name, name
    codes: Sequence[str] = [str(label) for label in range(n_labels)] if names is None else names
    titles.check(codes)

    def short(label: int) -> str:
        return titles(codes[label]) or name(label)

    def listed(label: int) -> str:
        title = titles(codes[label])
        return name(label) if title is None else f"{title} ({codes[label]})"

    return short, listed


def distinct_titles(codes: Sequence[str], title_of: Callable[[str], str | None]) -> list[str]:
    """What each label is called: its code where it has no title, title and code where others have the same title."""
    titles = [title_of(code) or code for code in codes]
    names = [unicodedata.normalize("NFC", title).strip() for title in titles]
    times = Counter(names)
    return [
        title if times[name] == 1 or title == code else f"{title} ({code})"
        for code, title, name in zip(codes, titles, names, strict=True)
    ]


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
    top: dict[str, Any]  # see `outline`


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
    threshold: dict[str, Any] | None = None
    compressed: dict[str, Any] | None = None
    history: tuple[dict[str, Any], ...] = ()
    # of the rows that a model keeps for updates: number and bytes, and the share of a search that a new tree would save
    living: dict[str, Any] | None = None
    source: Source | None = None
    needs: str | None = None
    labels: tuple[tuple[str, int | None], ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""

        def by_owner(value_of: Callable[[Parameters], Any]) -> dict[str, Any]:
            return {each.path or each.owner: value_of(each) for each in self.parameters}

        return {
            "folder": self.folder, "kind": self.kind, "class": self.owner, "facts": self.facts, "bytes": self.n_bytes,
            "files": self.n_files, "written_by": self.written_by, "parts": [vars(part) for part in self.parts],
            "parameters": by_owner(lambda each: {name: _plain(value) for name, value, _ in each.values}),
            "changed": by_owner(lambda each: [name for name, _, changed in each.values if changed]),
            "chosen": by_owner(lambda each: {name: _plain(value) for name, value in each.chosen.items()}),
            "trees": [
                {"path": tree.path, "layers": [vars(layer) for layer in tree.layers], "top": tree.top}
                for tree in self.trees
            ],
            "measured": self.measured, "threshold": self.threshold, "compressed": self.compressed,
            "history": list(self.history), "living": self.living,
            "source": None if self.source is None else vars(self.source), "needs": self.needs,
            "labels": [{"name": name, "rows": rows} for name, rows in self.labels],
        }  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else repr(value)


def read_card(folder: str, **options: Any) -> Card:
    """Look at the model in ``folder``; options as of :func:`card_of`."""
    state = store.load(folder)
    return card_of(state, rebuild(state), folder, **options)


def card_of(
    state: store.State, model: Any, folder: str, *, levels: int = 0, branches: int = 0, n_labels: int = 0,
    names: Vocabulary | None = None, titles: Titles | None = None,
) -> Card:  # fmt: skip
    """The card of a model that was read from ``folder`` already, with so many levels and branches of its tree, and of
    its most frequent labels. ``names`` are those of labels that have none in the model."""
    vocabulary = getattr(model, "vocabulary_", None) if isinstance(model, Estimator) else model
    vocabulary = (vocabulary if isinstance(vocabulary, Vocabulary) else None) or names
    n = getattr(model, "n_labels_", None) or getattr(model, "n_labels", None)
    if vocabulary is not None and n is not None and len(vocabulary) != n:
        wrong = f"There are {counted(len(vocabulary), 'name')} of labels, but the model has {counted(n, 'label')}."
        raise DataError(wrong)
    name, listed = names_of(vocabulary, n or 0, titles)
    written, sizes = store.contents(folder), store.files_of(folder)
    n_bytes = sum(sizes.values()) + os.stat(os.path.join(folder, manifest.NAME)).st_size
    rows, living = getattr(inner_of(model), "training_rows_", None), None
    if rows is not None:
        living = {"n_rows": len(rows.ids), "n_bytes": _bytes_of(rows.to_state()), "drift": inner_of(model).drift_}
    return Card(
        folder=folder, kind=state.kind, owner=type(model).__name__,
        summary=KINDS[state.kind].summary if state.kind in KINDS else "",
        facts=_facts(model), n_bytes=n_bytes, n_files=len(sizes) + 1,
        checksum=str(written["checksum"]), written_by=str(written["sylvan_version"]), parts=tuple(_parts(state, "")),
        parameters=tuple(_parameters(model)), trees=tuple(_trees(model, levels, branches, name)),
        measured=_note(state, MEASURED, _is_measured, "holds no figures"),
        threshold=_note(state, THRESHOLD, _is_threshold, "isn't what thresholds writes"),
        compressed=_note(state, COMPRESSED, _is_compressed, "isn't what compress writes"),
        history=tuple(history_of(state)), living=living, source=source_of(folder, state.meta),
        needs=encoder_extra(state), labels=tuple(_frequent(model, n_labels, listed)),
    )  # fmt: skip


def _bytes_of(state: store.State) -> int:
    return sum(array.nbytes for array in state.arrays.values())


def _facts(model: Any) -> dict[str, int]:
    results: dict[str, int] = {}
    for name, attribute in _FACTS:
        value = getattr(inner_of(model) if attribute == "n_rows_" else model, attribute, None)
        if isinstance(value, (int, np.integer)):
            results.setdefault(name, int(value))
    members = getattr(model, "members", (model,))
    texts = [each.label_texts_ for each in members if getattr(each, "label_texts_", None) is not None]
    if texts:
        results[ROWS] = max(n_rows or 0 for _, n_rows in map(training_counts, members))
        results[TEXT_ROWS] = max(len(each.labels) for each in texts)
    if getattr(model, "label_texts_", None) is not None:
        results["labels known by their texts alone"] = len(model.unlearned_labels_)
    if isinstance(model, Vocabulary):
        results["names"] = len(model)
    if isinstance(model, LabelTree):
        results.update(leaves=model.n_leaves, depth=model.depth)
    return results


def _parts(state: store.State, path: str) -> Iterator[Part]:
    yield Part(path, state.kind, len(state.arrays), _bytes_of(state))
    for name, part in state.parts.items():
        yield from _parts(part, f"{path}.{name}" if path else name)


def _objects(model: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The model and the objects with parameters inside it."""
    yield path, model
    if not isinstance(model, Parameterized):
        return
    parts: list[tuple[str, Any]] = []
    for name, value in model.get_params(deep=False).items():
        several = isinstance(value, (list, tuple))
        parts += [(f"{name}[{number}]" if several else name, part) for number, part in enumerate(_entries(value))]
    learned = model.__dict__.get("fitted_")  # of a model with an encoder
    parts += [(name, getattr(learned, name, None)) for name in ("vectorizer", "ranker")]
    for name, part in parts:
        if isinstance(part, Parameterized):
            yield from _objects(part, f"{path}.{name}" if path else name)


def _parameters(model: Any) -> Iterator[Parameters]:
    for path, owner in _objects(model, ""):
        if not isinstance(owner, Parameterized):
            continue
        defaults = inspect.signature(type(owner).__init__).parameters
        values = tuple(
            (name, value, not _same(value, defaults[name].default))
            for name, value in owner.get_params(deep=False).items()
            if not any(isinstance(part, Parameterized) for part in _entries(value))
        )
        if values:
            yield Parameters(path, type(owner).__name__, values, getattr(owner, "chosen_", {}))


def _entries(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return value is default or (type(value) is type(default) and bool(value == default))


def _trees(model: Any, levels: int, branches: int, name: Callable[[int], str]) -> Iterator[Tree]:
    for path, owner in _objects(model, ""):
        trees: list[tuple[str, LabelTree, list[Layer], Any]] = []
        if isinstance(owner, LabelTree):
            layers = [Layer(len(offsets) - 1, int(offsets[-1]), None, None) for offsets in owner.child_offsets]
            trees.append((path, owner, layers, None))
        if isinstance(edges := getattr(owner, "weights_", None), ClassWeights):
            width, ends = edges.weights.shape[1], [(len(cuts) - 1, int(cuts[-1])) for cuts in edges.tree.child_offsets]
            layers = [Layer(n_clusters, n, n * width, n * width * 4) for n_clusters, n in ends]
            trees.append((path, edges.tree, layers, owner.label_counts_))
        for number, ranker in enumerate(getattr(owner, "rankers_", ())):
            layers = [
                Layer(len(weights.child_offsets) - 1, len(weights.intercepts), weights.n_entries, _size(weights))
                for weights in ranker.layers
            ]
            where = f"{path}.tree{number}" if path else f"tree{number}"
            trees.append((where, ranker.tree, layers, owner.label_counts_))
        for where, tree, layers, counts in trees:
            yield Tree(where, repr(tree), tuple(layers), outline(tree, levels, branches, name, counts))


def _size(weights: Any) -> int:
    """Bytes of a layer's own arrays; the offsets of its children are the tree's."""
    return sum(array.nbytes for array in weights.to_arrays("").values())


def _frequent(model: Any, n: int, name: Callable[[int], str]) -> Iterator[tuple[str, int | None]]:
    """The labels that training saw most often and in how many rows; of a bare vocabulary the first."""
    counts = training_counts(model)[0]
    if counts is not None:
        for label in np.argsort(-np.asarray(counts), kind="stable")[:n].tolist():
            yield name(label), int(counts[label])
    elif isinstance(model, Vocabulary):
        yield from ((name(label), None) for label in range(min(n, len(model))))


def outline(
    tree: LabelTree, levels: int, branches: int, name: Callable[[int], str], counts: np.ndarray | None = None
) -> dict[str, Any]:
    """The top of a tree as plain values: a node's ``title``, its ``children`` that are shown, and how many ``more``
    there are; both are left out where there are none, and where a node's children aren't drawn at all."""
    # Shape: counts (n_labels,)
    seen = np.ones(tree.n_labels, np.int64) if counts is None else np.asarray(counts, np.int64)
    before = np.concatenate(([0], np.cumsum(seen[tree.leaf_labels])))

    def branch(title: str, layer: int, node: int) -> dict[str, Any]:
        """A node whose children are in ``layer``."""
        children, hidden = [], 0
        if layer < min(levels, tree.depth):
            displayed, hidden = frequent_children(tree, layer, node, before, branches)
            titles = [printable(node_title(tree, layer, child, name, counts)) for child in displayed]
            children = [branch(title, layer + 1, child) for title, child in zip(titles, displayed, strict=True)]
        return {"title": title, **({"children": children} if children else {}), **({"more": hidden} if hidden else {})}

    return branch(f"all labels ({tree.n_labels:,})", 0, 0)


def frequent_children(
    tree: LabelTree, layer: int, node: int, before: npt.NDArray[np.int64], most: int
) -> tuple[list[int], int]:
    """The children, in ``layer``, of a node of the layer above, those with the most training rows first, and how many
    there are besides. ``before`` has the rows of all labels that stand before each leaf."""
    first, last = (int(end) for end in tree.child_offsets[layer][node : node + 2])
    ranges = [tree.leaves(layer, child) for child in range(first, last)]
    weight = np.array([before[leaves.stop] - before[leaves.start] for leaves in ranges])
    displayed = (first + np.argsort(-weight, kind="stable")[:most]).tolist()
    return displayed, last - first - len(displayed)


def as_lines(branch: dict[str, Any]) -> Iterator[str]:
    """A line a node of :func:`outline`, with the lines of a tree before it."""
    yield branch["title"]
    parts = [*branch.get("children", ())]
    if "more" in branch:
        parts.append({"title": f"… {branch['more']:,} more"})
    for part in parts:
        corner, rail = ("└─ ", "   ") if part is parts[-1] else ("├─ ", "│  ")
        lines = as_lines(part)
        yield f"{corner}{next(lines)}"
        yield from (f"{rail}{line}" for line in lines)
