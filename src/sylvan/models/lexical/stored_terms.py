"""The terms of a model's labels, as it stores them, and the forms by which they are looked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.data import Vocabulary
from sylvan.data.label_terms import LabelTerms
from sylvan.models.lexical.lexicon import DEFINITION, FORM_KINDS, PART, FormRows, Lexicon
from sylvan.text.label_words import LabelWords, is_content

_PARENTHESES = re.compile(r"\s*\([^()]*\)")
_PARTS = re.compile(r"\s*--\s*")
_DERIVED = FORM_KINDS.index("derived")
_KINDS = (*FORM_KINDS[:_DERIVED], "definitions")  # of stored texts, by the fields of LabelTerms


def derived_names(text: str) -> tuple[str, ...]:
    """What a heading is called in running text: without what stands in parentheses, dates and inversion."""
    plain = _PARENTHESES.sub("", text).strip()
    pieces = [piece.strip() for piece in plain.split(",") if any(c.isalpha() for c in piece)]
    if len(pieces) > 1:
        plain = f"{pieces[1]} {pieces[0]}"
    elif pieces:
        plain = pieces[0]
    return (plain,) if plain and plain != text.strip() else ()


def heading_parts(text: str) -> tuple[str, ...]:
    """The parts of a heading that has several, as they stand in running text; none of others."""
    parts = [part for part in _PARTS.split(text.strip()) if part]
    return tuple((*derived_names(part), part)[0] for part in parts) if len(parts) > 1 else ()


class _StoredTexts(Sequence[str]):
    """Texts that are decoded when they are asked for: a model of a million opens at once."""

    def __init__(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        self._data, self._offsets = data, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"There are {len(self)} texts. Got {index} instead.")
        return self._data[self._offsets[index] : self._offsets[index + 1]].tobytes().decode("utf-8", "replace")


@dataclass(frozen=True, eq=False)
class StoredTerms:
    """The texts of labels by label ids."""

    texts: Sequence[str]
    labels: npt.NDArray[np.int32]  # shape (n_texts,): whose each is, rising
    kinds: npt.NDArray[np.uint8]  # shape (n_texts,): 0 preferred, 1 alternative, 2 hidden, 3 definition
    broader: npt.NDArray[np.int32]  # shape (n, 2): pairs of a label and one that is broader
    related: npt.NDArray[np.int32]  # shape (n, 2): pairs of labels that are related

    @classmethod
    def of(cls, terms: Mapping[str, LabelTerms], vocabulary: Vocabulary) -> StoredTerms:
        """The terms of the labels of a vocabulary; what is said of other labels is left out."""
        texts: list[str] = []
        labels: list[int] = []
        kinds: list[int] = []
        pairs: dict[str, list[tuple[int, int]]] = {"broader": [], "related": []}
        known = sorted((at, one) for name, one in terms.items() if (at := vocabulary.get(name)) is not None)
        for label, of_label in known:
            for kind, field in enumerate(_KINDS):
                own = [text for text in getattr(of_label, field) if text.strip()]
                texts += own
                labels += [label] * len(own)
                kinds += [kind] * len(own)
            for relation, listed in pairs.items():
                others = (vocabulary.get(name) for name in getattr(of_label, relation))
                listed += [(label, other) for other in others if other is not None and other != label]
        both = (np.array(listed, np.int32).reshape(-1, 2) for listed in pairs.values())
        return cls(tuple(texts), np.array(labels, np.int32), np.array(kinds, np.uint8), *both)

    def lexicon(self, n_labels: int, stem: str | None, lemmatize: str | None) -> tuple[LabelWords, Lexicon]:
        """What documents are matched with."""
        texts, labels, kinds = list(self.texts), self.labels.tolist(), self.kinds.tolist()
        for text, label, kind in zip(self.texts, self.labels.tolist(), self.kinds.tolist(), strict=True):
            if kind >= _DERIVED:
                continue
            parts = heading_parts(text) if "--" in text else ()
            derived = derived_names(text) if not parts and ("," in text or "(" in text) else ()
            if not parts and not derived:
                continue
            texts += [*derived, *parts]
            labels += [label] * (len(derived) + len(parts))
            kinds += [_DERIVED] * len(derived) + [PART] * len(parts)
        n_own = len(self.texts)
        of_kind = np.array(kinds, np.uint8)
        of_kind[:n_own][of_kind[:n_own] == _DERIVED] = DEFINITION  # which comes in its place among stored texts
        words, scanned, ids = LabelWords.of_texts(tuple(texts), stem, lemmatize)
        forms = FormRows(np.array(labels, np.int32), of_kind, scanned.offsets, ids[scanned.words])
        content = np.fromiter(map(is_content, words.vocabulary), bool, len(words.vocabulary))
        return words, Lexicon.build(forms, content, n_labels, self.broader, self.related)

    def of_label(self, label: int) -> list[tuple[str, str]]:
        """Kind and text of each of a label's forms, as they are looked for."""
        first, last = np.searchsorted(self.labels, [label, label + 1])
        found = []
        for text, kind in zip(self.texts[first:last], self.kinds[first:last].tolist(), strict=True):
            if kind < _DERIVED:
                found.append((FORM_KINDS[kind], text))
                if not heading_parts(text):
                    found += [("derived", one) for one in derived_names(text)]
        return found

    def without(self, labels: npt.NDArray[np.int32]) -> StoredTerms:
        """Without the texts of some labels, and without what is said of them."""
        stays = ~np.isin(self.labels, labels)
        broader, related = (pairs[~np.isin(pairs, labels).any(axis=1)] for pairs in (self.broader, self.related))
        texts = tuple(text for text, stay in zip(self.texts, stays.tolist(), strict=True) if stay)
        return StoredTerms(texts, self.labels[stays], self.kinds[stays], broader, related)

    def with_others(self, others: StoredTerms) -> StoredTerms:
        """With texts of other labels, or other texts of the same ones in the place of theirs."""
        left = self.without_texts(np.unique(others.labels))
        labels = np.concatenate((left.labels, others.labels))
        order = np.argsort(labels, kind="stable")
        texts = (*left.texts, *others.texts)
        return StoredTerms(
            tuple(texts[at] for at in order.tolist()), labels[order],
            np.concatenate((left.kinds, others.kinds))[order], np.vstack((left.broader, others.broader)),
            np.vstack((left.related, others.related)),
        )  # fmt: skip

    def without_texts(self, labels: npt.NDArray[np.int32]) -> StoredTerms:
        """Without the texts of some labels, which stay related to others."""
        return replace(self.without(labels), broader=self.broader, related=self.related)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by the names that they are stored under."""
        encoded = [text.encode("utf-8", "replace") for text in self.texts]
        return {
            "terms.bytes": np.frombuffer(b"".join(encoded), np.uint8),
            "terms.offsets": np.cumsum([0, *map(len, encoded)], dtype=np.int64), "terms.labels": self.labels,
            "terms.kinds": self.kinds, "terms.broader": self.broader, "terms.related": self.related,
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: store.State, n_labels: int) -> StoredTerms:
        """From :meth:`to_arrays`' result, verified."""
        data = store.need_array(state, "terms.bytes", np.uint8, (None,))
        offsets = store.need_offsets(state, "terms.offsets", total=len(data))
        n = (len(offsets) - 1,)
        labels = store.need_range(state, "terms.labels", 0, n_labels - 1, np.int32, n)
        kinds = store.need_range(state, "terms.kinds", 0, len(_KINDS) - 1, np.uint8, n)
        pairs = (
            store.need_range(state, f"terms.{name}", 0, n_labels - 1, np.int32, (None, 2))
            for name in ("broader", "related")
        )
        return cls(_StoredTexts(data, offsets), labels, kinds, *pairs)
