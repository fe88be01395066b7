"""The terms of a model's labels: how they are stored, matched in texts and explained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

import numpy as np

from sylvan import store
from sylvan.arrays.types import Array, Int32, Int64, UInt8
from sylvan.data import Vocabulary
from sylvan.data.label_terms import LabelTerms
from sylvan.models.lexical.lexicon import DEFINITION, FORM_KINDS, PART, FormRows, Lexicon
from sylvan.models.lexical.matching import MatchedRows
from sylvan.text.characters import BEGINS_SENTENCE
from sylvan.text.word_forms import LabelWords, is_content

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

    def __init__(self, data: UInt8, offsets: Int64) -> None:
        self._data, self._offsets = data, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(f"There are {len(self)} texts. Got {index} instead.")
        return self._data[self._offsets[index] : self._offsets[index + 1]].tobytes().decode("utf-8", "replace")


@dataclass(frozen=True, eq=False)
class StoredTerms:
    """The texts of labels by label ids."""

    texts: Sequence[str]
    labels: Int32  # shape (n_texts,): whose each is, rising
    kinds: UInt8  # shape (n_texts,): 0 preferred, 1 alternative, 2 hidden, 3 definition
    broader: Int32  # shape (n, 2): pairs of a label and one that is broader
    related: Int32  # shape (n, 2): pairs of labels that are related

    @classmethod
    def of(cls, terms: Mapping[str, LabelTerms], vocabulary: Vocabulary) -> StoredTerms:
        """The terms of the labels of a vocabulary; terms of other labels are left out."""
        texts, labels, kinds = list[str](), list[int](), list[int]()
        pairs: dict[str, list[tuple[int, int]]] = {"broader": [], "related": []}
        numbered = ((number, term) for name, term in terms.items() if (number := vocabulary.get(name)) is not None)
        for label, of_label in sorted(numbered):
            for kind, field in enumerate(_KINDS):
                written = [text for text in getattr(of_label, field) if text.strip()]
                texts += written
                labels += [label] * len(written)
                kinds += [kind] * len(written)
            for relation, listed in pairs.items():
                related_ids = (vocabulary.get(name) for name in getattr(of_label, relation))
                listed += [(label, other) for other in related_ids if other is not None and other != label]
        relations = (np.array(listed, np.int32).reshape(-1, 2) for listed in pairs.values())
        return cls(tuple(texts), np.array(labels, np.int32), np.array(kinds, np.uint8), *relations)

    def lexicon(self, n_labels: int, stem: str | None, lemmatize: str | None) -> tuple[LabelWords, Lexicon]:
        """What documents are matched with."""
        texts, labels, kinds = list(self.texts), self.labels.tolist(), self.kinds.tolist()
        for text, label, kind in zip(self.texts, self.labels.tolist(), self.kinds.tolist(), strict=True):
            if kind >= _DERIVED:
                continue
            parts = heading_parts(text) if "--" in text else ()
            derived = derived_names(text) if not parts and ("," in text or "(" in text) else ()
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
        forms = []
        for text, kind in zip(self.texts[first:last], self.kinds[first:last].tolist(), strict=True):
            if kind < _DERIVED:
                forms.append((FORM_KINDS[kind], text))
                if not heading_parts(text):
                    forms += [("derived", name) for name in derived_names(text)]
        return forms

    def without(self, labels: Int32) -> StoredTerms:
        """Without the texts of some labels, and without their relations."""
        stays = ~np.isin(self.labels, labels)
        broader, related = (pairs[~np.isin(pairs, labels).any(axis=1)] for pairs in (self.broader, self.related))
        texts = tuple(text for text, stay in zip(self.texts, stays.tolist(), strict=True) if stay)
        return StoredTerms(texts, self.labels[stays], self.kinds[stays], broader, related)

    def with_others(self, newer: StoredTerms) -> StoredTerms:
        """With texts of other labels, or other texts of the same ones in the place of theirs."""
        named = np.unique(newer.labels)
        left = replace(self.without(named), broader=self.broader, related=self.related)  # which stay related to others
        labels = np.concatenate((left.labels, newer.labels))
        order = np.argsort(labels, kind="stable")
        texts = (*left.texts, *newer.texts)
        return StoredTerms(
            tuple(texts[place] for place in order.tolist()), labels[order],
            np.concatenate((left.kinds, newer.kinds))[order], np.vstack((left.broader, newer.broader)),
            np.vstack((left.related, newer.related)),
        )  # fmt: skip

    def to_arrays(self) -> dict[str, Array]:
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
        names = "terms.broader", "terms.related"
        pairs = (store.need_range(state, name, 0, n_labels - 1, np.int32, (None, 2)) for name in names)
        return cls(_StoredTexts(data, offsets), labels, kinds, *pairs)


_AROUND = 30  # characters on both sides of a place


class _Text(NamedTuple):
    """A text's words by ids, where they stand, and in which sentence."""

    text: str
    ids: list[int]
    starts: list[int]
    ends: list[int]
    sentences: list[int]


def label_notes(
    text: str, forms: Sequence[tuple[str, str]], words: LabelWords, columns: Mapping[str, float], rows: MatchedRows,
    label: int, top: int,
) -> tuple[str, ...]:  # fmt: skip
    """Sentences about one label in one text."""
    read = _read(text, words)
    if not (notes := [note for kind, form in forms if (note := _form_note(read, kind, form, words, top))]):
        notes = [_partial_note(read, forms, words)]
    _, n_found, right, tried, ok = rows.sums[:, label].tolist()
    if columns["sentences"] > 0:
        notes.append(
            f"Its words were found in {_number(n_found)} training texts, of which {_number(right)} have it."
            if n_found else "Its words were found in no training text."
        )  # fmt: skip
    else:
        notes.append(
            f"Some of its words made it a candidate in {_number(tried)} training texts, of which {_number(ok)} have it."
        )
    counts = {name: round(np.expm1(columns[name])) for name in ("broader", "narrower", "related")}
    if related := [f"{count} {name}" for name, count in counts.items() if count]:
        notes.append(f"Labels that it is related to are found too: {', '.join(related)}.")
    notes.append(f"BM25 of its words is {columns['bm25']:.2f}, {columns['bm25_share']:.0%} of the best label's.")
    return tuple(notes)


def _number(weight: float) -> str:
    return f"{weight:,.0f}" if weight == round(weight) else f"{weight:,.1f}"


def _read(text: str, words: LabelWords) -> _Text:
    scanned = words.scan((text,))
    ids = words.ids(scanned.distinct)[scanned.words]
    sentences = np.cumsum((scanned.kinds & BEGINS_SENTENCE) != 0)
    return _Text(text, ids.tolist(), scanned.starts.tolist(), scanned.ends.tolist(), sentences.tolist())


def _form_note(read: _Text, kind: str, form: str, words: LabelWords, top: int) -> str:
    """Where a form stands as a phrase, or its words in one sentence; empty where neither."""
    of_form = _read(form, words)
    wanted, n = of_form.ids, len(of_form.ids)
    if not n:
        return ""
    places = [
        i for i in range(len(read.ids) - n + 1)
        if read.ids[i : i + n] == wanted and read.sentences[i] == read.sentences[i + n - 1]
    ]  # fmt: skip
    if places:
        listed = ", ".join(f"at character {read.starts[i]} ({_around(read, i, i + n - 1)})" for i in places[:top])
        remainder = f", and {len(places) - top} more" if len(places) > top else ""
        times = "once" if len(places) == 1 else f"{len(places)} times"
        return f"The {kind} form {form!r} stands there {times}: {listed}{remainder}."
    content = _content(of_form)
    in_sentence: dict[int, set[int]] = {}
    for number, sentence in zip(read.ids, read.sentences, strict=True):
        in_sentence.setdefault(sentence, set()).add(number)
    matching = next((sentence for sentence, words_there in in_sentence.items() if content <= words_there), None)
    if matching is None:
        return ""
    i = read.sentences.index(matching)
    return f"All words of the {kind} form {form!r} stand in the sentence at character {read.starts[i]}."


def _content(form: _Text) -> set[int]:
    """The words of a form that count in sets."""
    pairs = zip(form.ids, form.starts, form.ends, strict=True)
    content = {number for number, start, end in pairs if is_content(form.text[start:end])}
    return content or set(form.ids)


def _partial_note(read: _Text, forms: Sequence[tuple[str, str]], words: LabelWords) -> str:
    """Which words of which form stand anywhere in the text, of the form of which the largest share does."""
    present = set(read.ids)
    best = (0.0, "none of its words stands in the text.")
    for kind, form in forms:
        of_form = _read(form, words)
        content = _content(of_form)
        shared = content & present
        if content and len(shared) / len(content) > best[0]:
            pairs = zip(of_form.ids, of_form.starts, of_form.ends, strict=True)
            named = dict.fromkeys(form[start:end] for number, start, end in pairs if number in shared)
            words_of = f"{len(shared)} of the {len(content)} words of the {kind} form {form!r} stand in the text"
            best = (len(shared) / len(content), f"{words_of}: {', '.join(map(repr, named))}.")
    return f"None of its forms stands in one sentence; {best[1]}"


def _around(read: _Text, first: int, last: int) -> str:
    """The words of a place with some text around them."""
    start, end = max(read.starts[first] - _AROUND, 0), min(read.ends[last] + _AROUND, len(read.text))
    before, after = "…" if start else "", "…" if end < len(read.text) else ""
    return f"'{before}{' '.join(read.text[start:end].split())}{after}'"
