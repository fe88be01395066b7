"""What there is to find in the records of a file, in one pass and a few bytes a record."""

from __future__ import annotations

import re
import unicodedata
import warnings
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from sylvan.cli.io.inputs import IDS
from sylvan.data import SubjectVocabulary
from sylvan.data.label_cells import STRONG_MARKS, looks_split
from sylvan.errors import DataError
from sylvan.labels.vocabulary import composed, looks_like_uri
from sylvan.params.wording import are, counted

KINDS = {  # what is looked for, as it is said where none is found
    "empty": "records without text", "unlabelled": "records without subjects", "duplicates": "repeated records",
    "contradictions": "texts with other subjects each time", "delimiters": "delimiters in subjects",
    "near-duplicates": "subjects written in several ways",
    "unknown": "subjects that the vocabulary lacks", "ambiguous": "subjects of which the vocabulary has several",
    "deprecated": "deprecated subjects",
    "leakage": "test records to learn from",
}  # fmt: skip
FEW = 3  # records: a subject needs as many to be learned from them, and fewer that repeat others are no fault
_LARGE = 0.1  # share of repeated records from which on the file is at fault, rather than some titles
_MOST = 1000  # records or subjects that are listed as data, of each kind
_HEAD = 200  # characters that tell the script of a text
_LAST_LATIN = "\u024f"  # before which there are no other letters, but for signs such as the micro sign
_PUNCTUATION = re.compile(r"[\s\-_.,:;/()'\"]+")
_SCHEME = re.compile(r"https?://(www\.)?")


class Example(NamedTuple):
    """A record that is shown."""

    text: str = ""
    labels: Sequence[Any] = ()
    identity: str | None = None  # its id, or its file's name, where it has one

    @property
    def mark(self) -> str:
        """What stands behind its number."""
        return "" if self.identity is None else f" ({self.identity:.40})"


@dataclass(frozen=True)
class Finding:
    """One kind of fault (or of what is only worth a note), how often it is there, and where for example."""

    kind: str
    count: int
    words: str  # a sentence without its full stop
    advice: str = ""
    record: int | None = None  # counted from 0
    value: str = ""  # what to see there; by default the record's text
    label: Any = None  # the subject that is the value
    other: int | None = None  # a record of the training file that belongs to it
    is_fault: bool = True
    in_test: bool = False  # whether the record is one of the test file
    with_labels: bool = False  # whether the records' subjects are to be shown
    everything: Sequence[Any] = ()  # the records, counted from 1, or the subjects

    def as_json(self, shown: Mapping[tuple[bool, int], Example]) -> dict[str, Any]:
        """As plain values; records are counted from 1."""
        example = shown.get((self.in_test, -1 if self.record is None else self.record))
        text, identity = (None, None) if example is None else (example.text, example.identity)
        return {
            "kind": self.kind, "fault": self.is_fault, "count": self.count, "words": self.words, "advice": self.advice,
            "record": None if self.record is None else self.record + 1, "id": identity, "value": self.value or text,
            "other_record": None if self.other is None else self.other + 1,
            "found": list(self.everything[:_MOST]),
        }  # fmt: skip


class Records:
    """What is remembered of a file's records: two numbers of 64 bits and a length of each, and its subjects."""

    def __init__(self) -> None:
        self.labels: dict[Any, list[int]] = {}  # how many records have each, and the first of them
        self.scripts: dict[str, list[int]] = {}  # so for the scripts of texts
        self.n_labels = 0
        self._texts, self._whole, self._lengths = array("Q"), array("Q"), array("I")
        self._empty, self._unlabelled = array("Q"), array("Q")

    @property
    def n_rows(self) -> int:
        """The number of records."""
        return len(self._texts)

    def take(self, texts: Sequence[str], labels: Sequence[Sequence[Any]]) -> None:
        """Remember some more records."""
        for row, (text, named) in enumerate(zip(texts, labels, strict=True), self.n_rows):
            words = " ".join(composed(text).casefold().split())
            key = blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8)
            self._texts.append(int.from_bytes(key.digest(), "little"))
            key.update("\0".join(["", *sorted(map(str, named))]).encode("utf-8", "surrogatepass"))
            self._whole.append(int.from_bytes(key.digest(), "little"))
            self._lengths.append(len(text))
            if not words:
                self._empty.append(row)
            elif script := script_of(text):
                self.scripts.setdefault(script, [0, row])[0] += 1
            if not named:
                self._unlabelled.append(row)
            self.n_labels += len(named)
            for label in named:
                self.labels.setdefault(label, [0, row])[0] += 1

    def lengths(self) -> tuple[int, int, int]:
        """The shortest, the middle and the longest text, in characters."""
        ordered = np.sort(np.asarray(self._lengths))
        return int(ordered[0]), int(ordered[(len(ordered) - 1) // 2]), int(ordered[-1])

    def longest(self) -> int:
        """The first record with the longest text."""
        return int(np.argmax(np.asarray(self._lengths)))

    def by_script(self) -> list[tuple[str, list[int]]]:
        """The scripts, the most frequent first."""
        return sorted(self.scripts.items(), key=lambda item: (-item[1][0], item[0]))

    def as_json(self) -> dict[str, Any]:
        """The numbers of the whole file."""
        return {
            "records": self.n_rows, "subjects": len(self.labels), "subjects_per_record": self.n_labels / self.n_rows,
            "characters": dict(zip(("shortest", "median", "longest"), self.lengths(), strict=True)),
            "scripts": {script: n for script, (n, _) in self.by_script()},
        }  # fmt: skip

    def findings(self, vocabulary: SubjectVocabulary | None) -> list[Finding]:
        """All that is found in the file by itself."""
        parts = self._of_rows(), self._repeated(), self._of_labels(), self._of_vocabulary(vocabulary), self._rare()
        return [found for part in parts for found in part]

    def _of_rows(self) -> Iterable[Finding]:
        if n := len(self._empty):
            words, rows = f"{counted(n, 'record')} without text", [row + 1 for row in self._empty]
            yield Finding("empty", n, words, "Leave them out.", self._empty[0], everything=rows)
        if n := len(self._unlabelled):
            words, rows = f"{counted(n, 'record')} without a subject", [row + 1 for row in self._unlabelled]
            yield Finding("unlabelled", n, words, "Nothing is learned from them.", self._unlabelled[0], everything=rows)

    def _counting(self) -> tuple[Any, Any, Any]:
        """The records that have text and subjects, and of these the keys of texts, and of texts with subjects."""
        used = np.ones(self.n_rows, bool)
        for rows in (self._empty, self._unlabelled):
            used[np.asarray(rows, np.int64)] = False
        return np.flatnonzero(used), np.asarray(self._texts)[used], np.asarray(self._whole)[used]

    def _repeated(self) -> Iterable[Finding]:
        rows, texts, whole = self._counting()
        first_text, first_whole = _firsts(texts), _firsts(whole)
        repeated = np.flatnonzero(first_whole != np.arange(len(rows)))
        if n := len(repeated):
            words = f"{counted(n, 'record')} {'repeats' if n == 1 else 'repeat'} an earlier one, text and subjects"
            here, other = int(rows[repeated[0]]), int(rows[first_whole[repeated[0]]])
            everything = (rows[repeated] + 1).tolist()
            yield Finding(
                "duplicates", n, words, "Keep one of each.", here, other=other, is_fault=_are_many(n, len(rows)),
                everything=everything,
            )  # fmt: skip
        contrary = np.flatnonzero(whole != whole[first_text])
        if len(contrary):
            n = len(np.unique(first_text[contrary]))
            words = f"{counted(n, 'text')} {'stands' if n == 1 else 'stand'} there again with other subjects"
            here, other = int(rows[contrary[0]]), int(rows[first_text[contrary[0]]])
            yield Finding(
                "contradictions", n, words, "Say which are right, or join them.", here, other=other, with_labels=True,
                is_fault=_are_many(len(contrary), len(rows)), everything=(rows[contrary] + 1).tolist(),
            )  # fmt: skip

    def leaks(self, test: Records) -> list[Finding]:
        """Records of a test file whose texts are among those to learn from."""
        texts, own = np.asarray(test._texts), np.asarray(self._texts)
        has_text = np.asarray(test._lengths) > 0
        has_text[np.asarray(test._empty, np.int64)] = False
        leaked = np.flatnonzero(np.isin(texts, own) & has_text)
        if not len(leaked):
            return []
        records = f"{counted(len(leaked), 'record')} ({100 * len(leaked) / test.n_rows:.1f}%)"
        words = f"{records} of the test file {are(len(leaked))} among those to learn from"
        other = int(np.flatnonzero(own == texts[leaked[0]])[0])
        advice = "Figures on them are too good: leave them out of one of the files."
        everything = (leaked + 1).tolist()
        return [
            Finding("leakage", len(leaked), words, advice, everything[0] - 1, "", None, other, True, True,
                    everything=everything)
        ]  # fmt: skip

    def _of_labels(self) -> Iterable[Finding]:
        places = {label: f"record {first + 1}" for label, (_, first) in self.labels.items() if isinstance(label, str)}
        for mark in (*STRONG_MARKS, ","):
            marked = [label for label in places if mark in label]
            if marked and (mark in STRONG_MARKS or looks_split(mark, marked, places)):
                word, n = {"\t": "tab", "\n": "newline"}.get(mark, mark), len(marked)
                words = f"{counted(n, 'subject')} with {word!r} inside, which may be several"
                advice = f'Say --label-separator "{word}", if it parts them.'
                yield self._labelled("delimiters", marked, words, advice)
        alike: dict[str, list[str]] = {}
        for label in places:
            alike.setdefault(_alike(label), []).append(label)
        groups = [labels for labels in alike.values() if len(labels) > 1]
        if n := len(groups):
            words = f"{counted(n, 'subject')} written in several ways (case, punctuation, Unicode, number)"
            ways = [sorted(labels, key=lambda label: (-self.labels[label][0], label)) for labels in groups]
            value = " and ".join(f"{label!r} ({self.labels[label][0]:,})" for label in ways[0][:2])
            row = self.labels[ways[0][1]][1]
            advice = "Choose one way each, unless they differ in meaning."
            yield Finding("near-duplicates", n, words, advice, row, value, everything=ways)

    def _of_vocabulary(self, vocabulary: SubjectVocabulary | None) -> Iterable[Finding]:
        if vocabulary is None:
            return
        uris = {label: vocabulary.uri(str(label)) for label in self.labels if str(label) not in vocabulary}
        missing = [label for label, uri in uris.items() if uri is None]
        old = [label for label in missing if str(label) in vocabulary.deprecated]
        missing = [label for label in missing if str(label) not in vocabulary.deprecated]
        if len(missing) == len(self.labels):
            example, other = str(next(iter(missing))), next(iter(vocabulary))
            raise DataError(
                f"The vocabulary has none of the file's subjects: it has {other!r:.80}, the file {example!r:.80}."
            )
        shared = [label for label in uris if vocabulary.other_uri(str(label))]
        both = "".join(f", here {uris[label]} and {vocabulary.other_uri(str(label))}" for label in shared[:1])
        instead = old and vocabulary.deprecated[str(old[0])]
        replaced = f"Its place has {instead}." if instead else "Take those that replace them."
        for kind, labels, fault, advice in (
            ("unknown", missing, "that the vocabulary lacks", "Correct them, or add them to the vocabulary."),
            ("ambiguous", shared, "of which the vocabulary has several", f"Write URIs to tell them apart{both}."),
            ("deprecated", old, "that the vocabulary has deprecated", replaced),
        ):
            if labels:
                yield self._labelled(kind, labels, f"{counted(len(labels), 'subject')} {fault}", advice)

    def _rare(self) -> Iterable[Finding]:
        rare = [label for label, (n, _) in self.labels.items() if n < FEW]
        if n := len(rare):
            all_labels = counted(len(self.labels), "subject")
            words = f"{n:,} of {all_labels} {'has' if n == 1 else 'have'} fewer than {FEW} records in this file"
            advice = "A model of it alone hardly ever suggests them, unless their names help (--vocabulary of train)."
            yield self._labelled("rare", rare, words, advice, is_fault=False)

    def _labelled(self, kind: str, labels: list[Any], words: str, advice: str, is_fault: bool = True) -> Finding:
        """A finding of subjects, with the first record of the first."""
        first = labels[0]
        row = self.labels[first][1]
        return Finding(kind, len(labels), words, advice, row, str(first), first, is_fault=is_fault, everything=labels)


def examples(source: Any, findings: Sequence[Finding], in_test: bool) -> dict[int, Example]:
    """The records that findings name, read again, by number."""
    named = [found.record for found in findings if found.in_test == in_test]
    wanted = {row for row in [*named, *(() if in_test else (found.other for found in findings))] if row is not None}
    result: dict[int, Example] = {}
    row, records = 0, list[Mapping[str, Any]]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in source.stream(records=records) if wanted else ():
            for number in wanted & set(range(row, row + len(block.texts))):
                fields = records[number - row] if records else {}  # of a format whose fields have no names
                identity = next((str(fields[name]) for name in IDS if fields.get(name) not in (None, "")), None)
                result[number] = Example(block.texts[number - row], block.labels[number - row], identity)
            row += len(block.texts)
            records.clear()
            if len(result) == len(wanted):
                break
    return result


def script_of(text: str) -> str:
    """The script of most letters of a text's beginning, as Unicode calls it; "" where there are none."""
    text = text[:_HEAD]
    if text.isascii() or max(text) <= _LAST_LATIN:
        return "Latin" if any(map(str.isalpha, text)) else ""
    counts: dict[str, int] = {}
    for character in text:
        if script := _script(character):
            counts[script] = counts.get(script, 0) + 1
    return max(counts, key=lambda script: (counts[script], script), default="")


@lru_cache(1 << 16)
def _script(character: str) -> str:
    name = unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
    return name if name == "CJK" else name.capitalize()


def _are_many(n: int, n_rows: int) -> bool:
    """Whether so many records are more than those that a catalogue has twice by chance: a large share, and not two."""
    return n >= FEW and n > _LARGE * n_rows


def _firsts(keys: Any) -> Any:
    """For each key, the first place where it stands."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first[inverse]


def _alike(label: str) -> str:
    """A label without what may differ by mistake: case, Unicode's forms, characters that aren't seen, punctuation,
    English plurals; of a URI the scheme and a slash at the end."""
    if not label.isascii():
        label = "".join(character for character in label if unicodedata.category(character) != "Cf")
    if looks_like_uri(label):
        return _SCHEME.sub("", label.casefold()).rstrip("/")
    words = _PUNCTUATION.sub(" ", unicodedata.normalize("NFKC", label).casefold()).split()
    return " ".join(map(_singular, words)) or label


def _singular(word: str) -> str:
    if len(word) < 4 or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("ses", "xes", "ches", "shes")) else word.removesuffix("s")
