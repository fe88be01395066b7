"""Why a lexical matcher gives a label to a text, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sylvan.models.lexical.features import MatchedRows
from sylvan.text.label_words import LabelWords, is_content
from sylvan.text.words import BEGINS_SENTENCE

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
    notes = [note for kind, form in forms if (note := _form_note(read, kind, form, words, top))]
    if not notes:
        notes = [_partial_note(read, forms, words)]
    found, right = rows.found[label], rows.found_right[label]
    if columns["sentences"] > 0:
        notes.append(
            f"Its words were found in {_number(found)} training texts, of which {_number(right)} have it."
            if found else "Its words were found in no training text."
        )  # fmt: skip
    else:
        tried, ok = rows.partial[label], rows.partial_right[label]
        notes.append(
            f"Some of its words made it a candidate in {_number(tried)} training texts, of which {_number(ok)} have it."
        )
    counts = {name: round(np.expm1(columns[name])) for name in ("broader", "narrower", "related")}
    related = [f"{count} {name}" for name, count in counts.items() if count]
    if related:
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
        at for at in range(len(read.ids) - n + 1)
        if read.ids[at : at + n] == wanted and read.sentences[at] == read.sentences[at + n - 1]
    ]  # fmt: skip
    if places:
        shown = ", ".join(f"at character {read.starts[at]} ({_around(read, at, at + n - 1)})" for at in places[:top])
        more = f", and {len(places) - top} more" if len(places) > top else ""
        times = "once" if len(places) == 1 else f"{len(places)} times"
        return f"The {kind} form {form!r} stands there {times}: {shown}{more}."
    content = _content(of_form)
    in_sentence: dict[int, set[int]] = {}
    for number, sentence in zip(read.ids, read.sentences, strict=True):
        in_sentence.setdefault(sentence, set()).add(number)
    whole = next((sentence for sentence, there in in_sentence.items() if content <= there), None)
    if whole is None:
        return ""
    at = read.sentences.index(whole)
    return f"All words of the {kind} form {form!r} stand in the sentence at character {read.starts[at]}."


def _content(form: _Text) -> set[int]:
    """The words of a form that count in sets."""
    pairs = zip(form.ids, form.starts, form.ends, strict=True)
    found = {number for number, start, end in pairs if is_content(form.text[start:end])}
    return found or set(form.ids)


def _partial_note(read: _Text, forms: Sequence[tuple[str, str]], words: LabelWords) -> str:
    """Which words of which form stand anywhere in the text, of the form of which the largest share does."""
    there = set(read.ids)
    best = (0.0, "none of its words stands in the text.")
    for kind, form in forms:
        of_form = _read(form, words)
        content = _content(of_form)
        shared = content & there
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
