"""One version of a served model: opened, checked and warmed, and then never changed."""

from __future__ import annotations

import asyncio
import datetime
import functools
import os
import stat
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sylvan import data, store
from sylvan.arrays.canonical import Csr
from sylvan.data import LabelTerms, SubjectVocabulary, Vocabulary
from sylvan.data.streams import unpacked_name
from sylvan.errors import DataError, ModelError, SylvanError
from sylvan.hub.card import Card, card_of, distinct_titles
from sylvan.indexing import LabelTree
from sylvan.models import IRLIIndex, ShardedIRLIIndex
from sylvan.models.base import Estimator
from sylvan.models.blocks import set_threads
from sylvan.models.text_estimator import TextEstimator
from sylvan.serve.engine import Engine
from sylvan.serve.names import MOST_RELATED, MatchingLabel, NameIndex, RelatedSubject, Relations
from sylvan.serve.problems import Problem
from sylvan.serve.settings import Limits, ServedFolder
from sylvan.store.registry import rebuild

_T = TypeVar("_T")
_ATTEMPTS = 20
_WARMING = "a text to warm the model with"


class Served:
    """A model by its name, whatever version of it is current. Requests take the current version once and keep it to
    their end, so that every answer is of one version. A new one takes its place when it is open, verified and warm;
    until then, and if anything is wrong with it, the old one stays. A first version whose ``examples`` or
    ``vocabulary`` are wrong is served without them."""

    def __init__(
        self, folder: ServedFolder, limits: Limits, batched: Callable[[int], None],
        looked: Callable[[Served, str | None, str | None], None],
    ) -> None:  # fmt: skip
        self.folder, self.name = folder, folder.name  # what it is called in addresses
        self.current: Version | None = None  # None while the first one is being opened
        self.refused: str | None = None  # why the newest version on disk isn't served
        self.looked = False  # whether the folder was looked at at all
        self.engine = Engine(folder.name, limits.queue, limits.seconds, batched)
        self._looked = looked  # called with the checksum and message from before
        self._stamp: tuple[int, ...] | None = None
        self._reloading = asyncio.Lock()

    @property
    def checksum(self) -> str | None:
        """Of the manifest of the current version."""
        return None if self.current is None else self.current.checksum

    @property
    def message(self) -> str | None:
        """What is wrong: why the newest version on disk isn't served, or which settings the current one is without."""
        faults = self.current.faults if self.current is not None else []
        return self.refused or " ".join(faults) or None

    def version(self) -> Version:
        """The current version."""
        if self.current is None:
            why = f"can't be opened: {self.refused}" if self.refused else "is being opened."
            raise Problem(503, f"The model {self.name!r} {why}", {"Retry-After": "1"})
        return self.current

    async def reload(self, force: bool = False) -> bool:
        """Open what is in the folder now, if that isn't what was looked at last; whether a new version is current. A
        version that can't be opened leaves the old one where it is; ``refused`` says why."""
        async with self._reloading:
            stamp = stamp_of(self.folder.folder)
            if stamp == self._stamp and self.looked and not force:
                return False
            before, old, message = self.current, self.checksum, self.message
            try:
                new = await asyncio.to_thread(open_version, self.folder)
            except Exception as error:
                self.refused = reason(error)
            else:
                worse = bool(new.faults) and before is not None and not before.faults
                self.refused = " ".join(new.faults) if worse else None
                if not worse and (new.checksum != old or force):
                    self.current = new
            self._stamp, self.looked = stamp, True
            self._looked(self, old, message)
            return self.checksum != old

    async def watch(self, seconds: float) -> None:
        """Look at the manifest now and then, for ever."""
        while True:
            started = time.monotonic()
            await self.reload()
            await asyncio.sleep(max(0.0, seconds - (time.monotonic() - started)))

    def close(self) -> None:
        """End the engine."""
        self.engine.close()
        if self.current is not None and hasattr(self.current.model, "close"):
            self.current.model.close()


class Version:
    """A model as it was in its folder at one time, with what is asked of it beside rankings."""

    def __init__(self, served: ServedFolder, model: Any, card: Card) -> None:
        self.served, self.model, self.card = served, model, card
        self.subjects: SubjectVocabulary | None = None  # of the setting `vocabulary`
        # training texts, and their rows by label, for explanations to show the nearest of
        self.examples: tuple[list[str], dict[str, list[int]]] | None = None
        self.faults: list[str] = []  # what is wrong with its settings: the model answers without what they name
        self.checksum = card.checksum  # of its manifest
        # when, in UTC (ISO 8601)
        self.loaded = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
        self.takes = "vectors" if not isinstance(model, Estimator) else "texts" if model.takes_texts else "features"
        is_index = self.takes == "vectors"
        self.n_labels = int(model.n_vectors_ if is_index else model.n_labels_)  # or vectors
        # the model over matrices inside one over texts, or the model itself
        self.inner: Any = model.inner() if isinstance(model, TextEstimator) else model
        # the fields of records that the model was trained on; none where it takes no texts
        self.text_fields: tuple[str, ...] = tuple(model.text_fields_) if self.takes == "texts" else ()
        names = None if is_index else getattr(model, "vocabulary_", None)
        self.vocabulary = names if isinstance(names, Vocabulary) else None  # of its labels, where it has them
        self.trees: list[LabelTree] = [ranker.tree for ranker in getattr(self.inner, "rankers_", ())]
        taken = [] if is_index else model.rank_options()
        self.rank_options = [name for name in ("beam", "tail") if name in taken]  # beside k, allowed and denied
        self._names: dict[int, str] = {}
        self._making = threading.Lock()
        # of each answer: which model, and which version of it, has given it
        model_version = f"{served.name}@{self.checksum}".encode()
        self.headers = [(b"etag", f'"{self.checksum}"'.encode()), (b"sylvan-model", model_version)]

    def label(self, number: int) -> str | int:
        """A label as answers give it: its name, or its id where labels have none."""
        if self.vocabulary is None:
            return number
        if number not in self._names:
            self._names[number] = self.vocabulary[number]
        return self._names[number]

    def title(self, label: str | int) -> str:
        """What people read for a label: of a URI, its subject's label."""
        if self.subjects is not None and isinstance(label, str):
            return self.subjects.label(label, self.served.language) or label
        return str(label) if self.vocabulary is not None else f"label {label}"

    @functools.cached_property
    def languages(self) -> list[str]:
        """Those of the subjects' labels; "" where they name none."""
        return [] if self.subjects is None else self.subjects.languages

    @functools.cached_property
    def titled(self) -> tuple[Any, dict[str, str]]:
        """The model with its labels called as people call them, for explanations; and the titles by the labels."""
        if self.subjects is None or self.vocabulary is None:
            return self.model, {}
        titles = distinct_titles(self.vocabulary, lambda code: self.title(str(code)))
        new = {code: title for code, title in zip(self.vocabulary, titles, strict=True) if code != title}
        return (self.model.with_label_names(new) if new else self.model), new

    @functools.cached_property
    def codes(self) -> dict[str, str]:
        """The labels by what explanations call them."""
        return {title: code for code, title in self.titled[1].items()}

    def uri(self, label: str | int) -> str | None:
        """The URI of a label's subject; None where the vocabulary has none of it, or there is no vocabulary."""
        if self.subjects is None or not isinstance(label, str):
            return None
        return label if label in self.subjects else self.subjects.uri(label)

    @functools.cached_property
    def removed(self) -> frozenset[int]:
        """The ids of labels that are gone."""
        return frozenset(self.model.removed_labels_.tolist())

    @functools.cached_property
    def names(self) -> NameIndex:
        """What its labels are called, to be found by."""
        codes = [None if label in self.removed else self.label(label) for label in range(self.n_labels)]
        others: dict[str, LabelTerms] = {} if self.subjects is None else self.subjects.terms(self.served.language)
        synonyms = [
            (label, text)
            for label, code in enumerate(codes) if code is not None and (terms := others.get(self.uri(code) or ""))
            for text in dict.fromkeys((*terms.preferred, *terms.alternative)) if text != self.title(code)
        ]  # fmt: skip
        version = weakref.proxy(self)  # in a circle, it would stay in memory when another one has taken its place
        return NameIndex(lambda label: version.title(version.label(label)), codes, synonyms)

    def complete(self, prefix: str, limit: int) -> list[MatchingLabel]:
        """Labels of which a name, or a word of a name, begins with a prefix; as :meth:`NameIndex.beginning`."""
        with self._making:  # several first requests at once make it once
            names = self.names
        counts = getattr(self.inner, "label_counts_", None)
        return [
            MatchingLabel(label, number, self.title(label), None if counts is None else int(counts[number]), synonym)
            for number, label, synonym in ((n, self.label(n), synonym) for n, synonym in names.beginning(prefix, limit))
        ]

    @functools.cached_property
    def narrower(self) -> dict[str, list[str]]:
        """For each URI of the vocabulary, those of narrower subjects."""
        found: dict[str, list[str]] = {}
        for uri, broader in ({} if self.subjects is None else self.subjects.broader).items():
            for other in broader:
                found.setdefault(other, []).append(uri)
        return found

    def relations(self, label: str) -> Relations:
        """The broader and narrower subjects of a label, by name; none where the vocabulary has none."""
        uri = self.uri(label)
        if self.subjects is None or uri is None:
            return Relations([], [], 0)
        broader, narrower = (
            sorted(map(self._related, set(uris) - {uri}), key=lambda each: each.name.casefold())
            for uris in (self.subjects.broader.get(uri, ()), self.narrower.get(uri, ()))
        )
        return Relations(broader[:MOST_RELATED], narrower[:MOST_RELATED], max(0, len(narrower) - MOST_RELATED))

    def _related(self, uri: str) -> RelatedSubject:
        """A subject, as the model calls it if it has it."""
        name = self.title(uri)
        label = next((code for code in (uri, name) if self.vocabulary and self.vocabulary.get(code) is not None), None)
        return RelatedSubject(label or uri, name, label is not None)


def stamp_of(folder: str) -> tuple[int, ...] | None:
    """What changes when the manifest in a folder does; None where there is none that can be read."""
    try:
        status = os.stat(os.path.join(folder, "manifest.json"))
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def open_version(served: ServedFolder) -> Version:
    """Open the model in a folder, verify all of it, and ask it once."""
    try:
        model, card = _opened(served)
        set_threads(model, served.threads)
        version = Version(served, model, card)
        version.subjects = _beside(version, "vocabulary", _read_subjects)
        version.examples = _beside(version, "examples", _read_examples)
        _warm(version)
        return version
    except OSError as error:
        raise ModelError(f"{served.folder!r} can't be read: {error.strerror or error}.") from error


def _opened(served: ServedFolder) -> tuple[Any, Card]:
    """The model in a folder and its card, both of one version."""
    for _ in range(_ATTEMPTS):
        before = stamp_of(served.folder)
        try:
            state = store.load(served.folder, mmap=served.mmap, verify=True)
            model = rebuild(state)
            if not isinstance(model, Estimator | IRLIIndex | ShardedIRLIIndex):
                raise ModelError(f"{served.folder!r} holds a {type(model).__name__}, which ranks nothing to serve.")
            card = card_of(state, model, served.folder)
        except (ModelError, OSError):
            if stamp_of(served.folder) == before:
                raise
            continue  # another version has taken its place, and its files are gone
        if stamp_of(served.folder) == before:
            return model, card
    raise ModelError(f"The model in {served.folder!r} could not be opened: other processes keep replacing it.")


def reason(error: Exception) -> str:
    """Why something can't be opened, in a sentence."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)} can't be read: {error.strerror}."
    if isinstance(error, SylvanError | MemoryError | OSError | ImportError):
        return str(error)
    return f"something went wrong ({type(error).__name__}: {error})."


def _beside(version: Version, setting: str, read: Callable[[str, Version], _T]) -> _T | None:
    """What a setting names beside the model; a setting that is wrong is noted, and the model serves without it."""
    path = getattr(version.served, setting)
    if path is None:
        return None
    try:
        return read(path, version)
    except Exception as error:
        version.faults.append(f"The {setting!r} setting isn't used: {reason(error)}")
        return None


def _read_subjects(path: str, version: Version) -> SubjectVocabulary:
    """What labels are called; those of the model are codes in the file, or names of subjects."""
    names = version.vocabulary
    if names is None:
        labels = "vectors" if version.takes == "vectors" else "ids"
        raise DataError(f"{path} names labels, but those of the model are {labels} without names.")
    subjects = data.read_subjects(path)
    if not any(name in subjects or subjects.uri(name) is not None for name in map(str, names)):
        subject, name = next(iter(subjects), None), next(iter(names), None)
        raise DataError(f"{path} names none of the model's labels: it has {subject!r}, and the model {name!r}.")
    language, languages = version.served.language, subjects.languages
    if language is not None and not {language, ""} & set(languages):
        version.faults.append(
            f"The 'language' setting isn't used: {path} has no labels in {language!r}, but in {', '.join(languages)}."
        )
    return subjects


def _read_examples(path: str, version: Version) -> tuple[list[str], dict[str, list[int]]]:
    """Training texts and their labels, in the fields that the model was trained on."""
    model, names = version.model, version.vocabulary
    if version.takes != "texts" or names is None:
        raise DataError(f"Examples are texts, as in {path}, but the model takes {version.takes}.")
    unpacked = unpacked_name(path)
    if unpacked.endswith((".jsonl", ".ndjson", ".json")):
        read = data.read_jsonl(path, text_fields=model.text_fields_, labels_field=model.labels_field_)
    elif unpacked.endswith((".csv", ".tsv")):
        read = data.read_table(path, text_columns=model.text_fields_, labels_columns=model.labels_field_)
    else:
        read = data.read_annif_tsv(path)
    rows_of: dict[str, list[int]] = {}
    for row, labels in enumerate(read.labels):
        for name in labels:
            rows_of.setdefault(str(name), []).append(row)
    if not any(label in names for label in rows_of):
        raise DataError(f"No text in {path} has a label of the model, which knows {names[0]!r}, for instance.")
    return list(read.texts), rows_of


def _warm(version: Version) -> None:
    """Ask once, so that tables which are made when they are first needed are there."""
    model = version.model
    if version.takes == "vectors":
        model.search(np.ones((1, model.n_dimensions_), np.float32), 1)
        return
    texts = version.takes == "texts"
    model.probabilities(model.rank([_WARMING] if texts else Csr.empty(1, model.n_features_).to_scipy(), 1))
    if version.vocabulary:
        version.vocabulary.get(version.vocabulary[0])
