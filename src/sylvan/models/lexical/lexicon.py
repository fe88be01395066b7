"""The words of labels as documents are matched with them: an automaton of phrases, sets of words, and postings; and how
far the other candidates of a row speak for one, by what their names share, and by how labels are related."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sylvan import kernels, store
from sylvan.arrays.canonical import Csr
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64, UInt8
from sylvan.errors import ModelError

FORM_KINDS = ("preferred", "alternative", "hidden", "derived")
DEFINITION, PART = 4, 5  # kinds of what is no form: counted for BM25 alone, and a part of a heading, as a phrase alone
# What the kernel counts of a candidate, native/lexical/matching.hpp.
COUNTS = (
    *FORM_KINDS, "sentences", "inside", "first", "last", "words", "capitals", "others", "share", "bm25", "parts",
    "broader", "narrower", "related",
)  # fmt: skip
RELATIONS = ("broader", "narrower", "related")
OF_COMPANY = ("words", "first_part", "last_part", "broader", "narrower", "related", "siblings")
_MOST_SET_WORDS = 64  # larger sets aren't looked for
_K1, _B = 1.2, 0.75  # of BM25, the usual ones

_NO_LINKS = np.zeros(0, np.int32)


class FormRows(NamedTuple):
    """The forms of labels as word ids."""

    labels: Int32  # shape (n_forms,)
    kinds: UInt8  # shape (n_forms,): places in `FORM_KINDS`, or `DEFINITION`, or `PART`
    offsets: Int64  # shape (n_forms + 1,)
    words: Int32

    def some(self, mask: Bool) -> FormRows:
        """Some of the forms."""
        lengths = np.diff(self.offsets)
        offsets = np.concatenate(([0], np.cumsum(lengths[mask]))).astype(np.int64)
        return FormRows(self.labels[mask], self.kinds[mask], offsets, self.words[np.repeat(mask, lengths)])


class Candidates(NamedTuple):
    """Labels that may be those of some documents, and what was counted of them."""

    offsets: Int64  # shape (n_documents + 1,)
    labels: Int32  # shape (n_candidates,): rising in each document
    # shape (n_candidates,): whether all words of one of the label's forms stand in one sentence
    found: UInt8
    counts: Float32  # shape (n_candidates, len(COUNTS))
    best_bm25: Float32  # shape (n_documents,): the highest of any label
    n_words: Int64  # shape (n_documents,)

    @property
    def documents(self) -> Int64:
        """The document of each candidate."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def some(self, mask: Bool) -> Candidates:
        """Some of the candidates."""
        offsets = np.concatenate(([0], np.cumsum(mask)))[self.offsets].astype(np.int64)
        return self._replace(
            offsets=offsets, labels=self.labels[mask], found=self.found[mask], counts=self.counts[mask]
        )


@dataclass(frozen=True, eq=False)
class LabelTies:
    """What ties labels to each other."""

    # shape (n_labels, n_words): the words of all names and definitions of a label, rarer ones counting for more, each
    # row of length 1
    words: Csr
    # first_part, last_part: shape (n_labels, n_parts): 1 for the first and for the last part of a heading such as
    # "Soldiers -- Fiction"; of several headings, for the first part of the first one, and for the last part that isn't
    # in an earlier place already
    first_part: Csr
    last_part: Csr
    broader: Csr  # broader, narrower, related: shape (n_labels, n_labels): 1 for each label that a label is tied to
    narrower: Csr
    related: Csr

    @cached_property
    def items(self) -> tuple[Csr, UInt8]:
        """What labels may share, as one matrix, and of each item the place in OF_COMPANY."""
        parts = {
            "words": self.words, "first_part": self.first_part, "last_part": self.last_part, "siblings": self.broader
        }  # fmt: skip
        columns = np.array([OF_COMPANY.index(name) for name in parts], np.uint8)
        return _side_by_side(*parts.values()), np.repeat(columns, [part.shape[1] for part in parts.values()])

    @cached_property
    def pairs(self) -> tuple[Csr, UInt8]:
        """The labels that each is broader, narrower or related to, side by side, and the places in OF_COMPANY."""
        parts = {"broader": self.broader, "narrower": self.narrower, "related": self.related}
        return _side_by_side(*parts.values()), np.array([OF_COMPANY.index(name) for name in parts], np.uint8)


@dataclass(frozen=True, eq=False)
class Lexicon:
    """What the kernel matches documents with."""

    # phrase_first, phrase_word, phrase_fail, phrase_next, phrase_ending: the automaton of all forms: where the children
    # of a node begin, the word that leads to a node, the node of the longest proper suffix, the next of these at which
    # a form ends, and the number of the form that ends at a node, -1 for none (Aho & Corasick 1975)
    phrase_first: Int32
    phrase_word: Int32
    phrase_fail: Int32
    phrase_next: Int32
    phrase_ending: Int32
    # phrase_offsets, phrase_labels, phrase_kinds: the labels of each distinct form, and of which kind it is of them
    phrase_offsets: Int64
    phrase_labels: Int32
    phrase_kinds: UInt8
    # part_offsets, part_phrases: the parts of each label's heading in their order, as numbers of distinct forms
    part_offsets: Int64
    part_phrases: Int32
    set_first: Int32  # set_first, set_word, set_ending: the trie of the forms as sets of words, the rarest first
    set_word: Int32
    set_ending: Int32
    set_offsets: Int64  # set_offsets, set_labels: the labels of each distinct set
    set_labels: Int32
    # posting_offsets, posting_labels, posting_values, idf: the labels with each word, the parts of BM25 that don't
    # depend on a document, and the words' weights
    posting_offsets: Int64
    posting_labels: Int32
    posting_values: Float32
    idf: Float32
    form_offsets: Int64  # form_offsets, form_set_offsets, form_words: the sets of each label, and their words
    form_set_offsets: Int64
    form_words: Int32
    # how labels are related
    broader_offsets: Int64
    broader_labels: Int32
    narrower_offsets: Int64
    narrower_labels: Int32
    related_offsets: Int64
    related_labels: Int32

    @classmethod
    def build(cls, forms: FormRows, content: Bool, n_labels: int, broader: Int32, related: Int32) -> Lexicon:
        """From the forms of labels."""
        # Shapes: content (n_words,); broader, related (n, 2)
        n_words, forms = len(content), forms.some(np.diff(forms.offsets) > 0)
        pairs = {"broader": broader, "narrower": broader[:, ::-1], "related": np.vstack((related, related[:, ::-1]))}
        arrays = {
            **_phrases(forms.some(forms.kinds != DEFINITION), n_words, n_labels),
            **_postings(forms.some(forms.kinds != PART), n_words, n_labels),
            **_sets(forms.some(forms.kinds < DEFINITION), content, n_words, n_labels),
        }
        for name, listed in pairs.items():
            arrays |= _lists(name, listed[:, 0], listed[:, 1], n_labels)
        return cls(**arrays)

    @property
    def n_labels(self) -> int:
        return len(self.form_offsets) - 1

    @property
    def n_words(self) -> int:
        return len(self.idf)

    @cached_property
    def kernel(self) -> kernels.LabelLexicon:
        """The form that the kernel takes; it is verified."""
        lexicon = kernels.LabelLexicon(self.n_labels, self.n_words)
        lexicon.phrases(
            self.phrase_first, self.phrase_word, self.phrase_fail, self.phrase_next, self.phrase_ending,
            self.phrase_offsets, self.phrase_labels, self.phrase_kinds,
        )  # fmt: skip
        lexicon.parts(self.part_offsets, self.part_phrases)
        lexicon.sets(self.set_first, self.set_word, self.set_ending, self.set_offsets, self.set_labels)
        lexicon.postings(self.posting_offsets, self.posting_labels, self.posting_values, self.idf)
        lexicon.forms(self.form_offsets, self.form_set_offsets, self.form_words)
        for number, name in enumerate(RELATIONS):
            lexicon.relations(number, getattr(self, f"{name}_offsets"), getattr(self, f"{name}_labels"))
        return lexicon

    @cached_property
    def ties(self) -> LabelTies:
        """What names and relations tie labels to each other."""
        n_labels = self.n_labels
        idf = np.repeat(self.idf, np.diff(self.posting_offsets))
        by_word = sp.csr_matrix((idf, self.posting_labels, self.posting_offsets), (self.n_words, n_labels))
        words = Csr.of(by_word.T.tocsr().astype(np.float32)).unit_rows()
        n_phrases = len(self.phrase_offsets) - 1
        parts = (_ones(*_one_part(self, last), n_phrases) for last in (False, True))
        pairs = ((getattr(self, f"{name}_offsets"), getattr(self, f"{name}_labels")) for name in RELATIONS)
        return LabelTies(words, *parts, *(_ones(*each, n_labels) for each in pairs))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("kernel", "ties")}

    def to_arrays(self) -> dict[str, Array]:
        """The arrays by the names that they are stored under."""
        return {f"lexicon.{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_state(cls, state: store.State, n_labels: int, n_words: int) -> Lexicon:
        """From :meth:`to_arrays`' result, verified."""

        def ids(name: str, n_ids: int, n: int | None = None, dtype: type = np.int32) -> Array:
            return store.need_range(state, f"lexicon.{name}", 0, n_ids - 1, dtype, (n,))

        def offsets(name: str, total: int, n: int | None = None) -> Int64:
            return store.need_offsets(state, f"lexicon.{name}_offsets", total, None if n is None else n + 1)

        arrays: dict[str, Array] = {}
        lists = {"phrase": None, "set": None, "posting": n_words, **dict.fromkeys(RELATIONS, n_labels)}
        for name, n in lists.items():
            arrays[f"{name}_labels"] = ids(f"{name}_labels", n_labels)
            arrays[f"{name}_offsets"] = offsets(name, len(arrays[f"{name}_labels"]), n)
        for name, links in (("phrase", ("fail", "next")), ("set", ())):
            n_endings = len(arrays[f"{name}_offsets"]) - 1
            arrays |= _need_trie(state, name, ("word", *links, "ending"), n_words, n_endings)
        arrays["phrase_kinds"] = ids("phrase_kinds", len(FORM_KINDS), len(arrays["phrase_labels"]), np.uint8)
        arrays["part_phrases"] = ids("part_phrases", len(arrays["phrase_offsets"]) - 1)
        arrays["part_offsets"] = offsets("part", len(arrays["part_phrases"]), n_labels)
        for name, n in (("posting_values", len(arrays["posting_labels"])), ("idf", n_words)):
            store.need_finite(state, f"lexicon.{name}")
            arrays[name] = store.need_range(state, f"lexicon.{name}", 0, 1e6, np.float32, (n,))
        arrays["form_words"] = ids("form_words", n_words)
        arrays["form_set_offsets"] = offsets("form_set", len(arrays["form_words"]))
        arrays["form_offsets"] = offsets("form", len(arrays["form_set_offsets"]) - 1, n_labels)
        return cls(**arrays)


def _need_trie(state: store.State, name: str, fields: Sequence[str], n_words: int, n_endings: int) -> dict[str, Array]:
    """A trie of a loaded lexicon, verified."""
    first = store.need_array(state, f"lexicon.{name}_first", np.int32, (None,))
    shape = (max(len(first) - 1, 1),)
    arrays = {each: store.need_array(state, f"lexicon.{name}_{each}", np.int32, shape) for each in fields}
    fault, links = 1, (arrays.get("fail", _NO_LINKS), arrays.get("next", _NO_LINKS))
    if len(first) > 1:
        fault = kernels.trie_fault(first, arrays["word"], *links, arrays["ending"], n_words, n_endings)
    if fault:
        array = f"lexicon.{name}_{('first', 'word', 'fail', 'next', 'ending')[fault - 1]}"
        file = state.array_files.get(array, array)
        raise ModelError(f"{file!r} is damaged: array {array!r} of the {state.kind} holds no sound trie.")
    return {f"{name}_first": first, **{f"{name}_{each}": array for each, array in arrays.items()}}


def _lists(name: str, keys: Array, labels: Array, n: int, rising: bool = True) -> Mapping[str, Array]:
    """The labels of each key below n, each once, rising or in the order in which they come."""
    pairs = np.column_stack((keys, labels)).astype(np.int64).reshape(-1, 2)
    if rising:
        pairs = np.unique(pairs, axis=0)
    else:
        pairs = pairs[np.sort(np.unique(pairs, axis=0, return_index=True)[1])]
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(pairs[:, 0], minlength=n)))).astype(np.int64)
    return {f"{name}_offsets": offsets, f"{name}_labels": pairs[:, 1].astype(np.int32)}


def _phrases(forms: FormRows, n_words: int, n_labels: int) -> Mapping[str, Array]:
    """The automaton of the forms; of a label's equal forms, the kind that comes first counts. And labels' parts."""
    *trie, number = kernels.build_trie(forms.offsets, forms.words, n_words, True)
    part = forms.kinds == PART
    order = np.lexsort((forms.kinds, forms.labels, number))
    order = order[~part[order]]
    key = number[order].astype(np.int64) << 32 | forms.labels[order]
    order = order[np.diff(key, prepend=-1) != 0]
    n_endings = int(number.max(initial=-1)) + 1
    offsets = np.concatenate(([0], np.cumsum(np.bincount(number[order], minlength=n_endings)))).astype(np.int64)
    parts = _lists("part", forms.labels[part], number[part], n_labels, rising=False)
    names = (f"phrase_{name}" for name in ("first", "word", "fail", "next", "ending"))
    return {
        **dict(zip(names, trie, strict=True)), "phrase_offsets": offsets, "phrase_labels": forms.labels[order],
        "phrase_kinds": forms.kinds[order], "part_offsets": parts["part_offsets"],
        "part_phrases": parts["part_labels"],
    }  # fmt: skip


def _sets(forms: FormRows, content: Bool, n_words: int, n_labels: int) -> Mapping[str, Array]:
    """The trie of the forms' sets of words, and each label's sets."""
    form = np.repeat(np.arange(len(forms.labels)), np.diff(forms.offsets))  # in which each word stands
    counts = content[forms.words]
    empty = np.bincount(form[counts], minlength=len(forms.labels)) == 0
    use = counts | empty[form]
    form, words = form[use], forms.words[use]
    # The rarest word first, so that few sets begin with the same.
    rarity = np.bincount(words, minlength=n_words)
    place = np.empty(n_words, np.int64)
    by_rarity = np.lexsort((np.arange(n_words), rarity))
    place[by_rarity] = np.arange(n_words)
    keys = np.unique(form * np.int64(n_words) + place[words])
    form, words = keys // max(n_words, 1), by_rarity[keys % max(n_words, 1)].astype(np.int32)
    lengths = np.bincount(form, minlength=len(forms.labels))
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    sets = FormRows(forms.labels, forms.kinds, offsets, words).some((lengths > 0) & (lengths <= _MOST_SET_WORDS))
    first, word, _, _, ending, number = kernels.build_trie(sets.offsets, sets.words, n_words, False)
    labels_of_sets = _lists("set", number, sets.labels, int(number.max(initial=-1)) + 1)
    pair = sets.labels.astype(np.int64) << 32 | number
    distinct = sets.some(np.isin(np.arange(len(pair)), np.unique(pair, return_index=True)[1]))
    order = np.argsort(distinct.labels, kind="stable")
    starts, sizes = distinct.offsets[:-1][order], np.diff(distinct.offsets)[order]
    form_set_offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    places = np.arange(int(form_set_offsets[-1])) + np.repeat(starts - form_set_offsets[:-1], sizes)
    form_offsets = np.concatenate(([0], np.cumsum(np.bincount(distinct.labels, minlength=n_labels)))).astype(np.int64)
    return {
        **labels_of_sets, "set_first": first, "set_word": word, "set_ending": ending, "form_offsets": form_offsets,
        "form_set_offsets": form_set_offsets, "form_words": distinct.words[places],
    }  # fmt: skip


def _postings(forms: FormRows, n_words: int, n_labels: int) -> Mapping[str, Array]:
    """BM25 (Robertson & Walker 1994) of labels as documents: all their forms' words, and those of definitions."""
    labels = np.repeat(forms.labels, np.diff(forms.offsets)).astype(np.int64)
    keys, counts = np.unique(forms.words.astype(np.int64) * n_labels + labels, return_counts=True)
    words, labels = keys // n_labels, keys % n_labels
    with_word = np.bincount(words, minlength=n_words)
    idf = np.log1p((n_labels - with_word + 0.5) / (with_word + 0.5))
    length = np.bincount(labels, weights=counts, minlength=n_labels)
    mean = length.sum() / max(np.count_nonzero(length), 1)
    norm = _K1 * (1 - _B + _B * length[labels] / max(mean, 1))
    values = idf[words] * counts * (_K1 + 1) / (counts + norm)
    offsets = np.concatenate(([0], np.cumsum(with_word))).astype(np.int64)
    return {
        "posting_offsets": offsets, "posting_labels": labels.astype(np.int32),
        "posting_values": values.astype(np.float32), "idf": idf.astype(np.float32),
    }  # fmt: skip


def _side_by_side(*matrices: Csr) -> Csr:
    return Csr.of(sp.hstack([matrix.to_scipy() for matrix in matrices], "csr").astype(np.float32))


def _one_part(lexicon: Lexicon, last: bool) -> tuple[Int64, Int32]:
    """The first or the last part of each label's heading, where it is one of several parts."""
    has = np.diff(lexicon.part_offsets) > 0
    positions = lexicon.part_offsets[1:][has] - 1 if last else lexicon.part_offsets[:-1][has]
    return np.concatenate(([0], np.cumsum(has))).astype(np.int64), lexicon.part_phrases[positions]


def _ones(offsets: Int64, ids: Int32, n: int) -> Csr:
    return Csr(offsets, ids, np.ones(len(ids), np.float32), (len(offsets) - 1, n))


def company_columns(labels: Int32, mean: Float32, ties: LabelTies) -> Float32:
    """What the other candidates of a row, each by its mean score, say for a candidate."""
    # Shapes: labels (n, k); mean (n, k); returns (n, k, 7)
    n, k = labels.shape
    result = np.zeros((n * k, len(OF_COMPANY)), np.float32)
    labels, mean = np.ascontiguousarray(labels), np.ascontiguousarray(mean)
    items, kinds = ties.items
    kernels.shared_columns(labels, mean, items.indptr, items.indices, items.data, kinds, result)
    pairs, kinds = ties.pairs
    if pairs.nnz:
        kernels.tied_columns(labels, mean, pairs.indptr, pairs.indices, pairs.shape[0], kinds, result)
    return result.reshape(n, k, len(OF_COMPANY))
