"""Words as labels and documents are compared by them: their stems or lemmas, without case and diacritics."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan.data import Vocabulary
from sylvan.errors import OtherReleaseWarning
from sylvan.labels.names import composed
from sylvan.text.characters import RULES, without_unseen
from sylvan.text.word_forms import WordForms, forms_of_language
from sylvan.text.words import ScannedWords, scan_words

_MOST_KNOWN = 1 << 20  # words that are remembered; a server may meet ever more
_UNKNOWN = -2


class Places(NamedTuple):
    """Texts as ids of labels' words."""

    offsets: npt.NDArray[np.int64]  # shape (n_texts + 1,)
    words: npt.NDArray[np.int32]  # shape (n_places,): -1 for a word that no label has
    kinds: npt.NDArray[np.uint8]  # shape (n_places,): as `ScannedWords` has them


def folded(word: str) -> str:
    """A word without case and diacritics."""
    if word.isascii():
        return word.lower()
    parts = without_unseen(unicodedata.normalize("NFKD", word))
    return "".join(c for c in parts if not unicodedata.combining(c) and unicodedata.category(c) != "Cf").casefold()


def is_content(word: str) -> bool:
    """Whether a word says anything by itself: it has a letter, and three characters where scripts have an alphabet."""
    if not any(unicodedata.category(c)[0] == "L" for c in word):
        return False
    return len(word) >= 3 or any(unicodedata.category(c) == "Lo" for c in word)


class LabelWords:
    """Reads texts as ids of the words of labels."""

    def __init__(
        self, vocabulary: Vocabulary, stem: str | None, lemmatize: str | None, library: str | None, rules: int = RULES
    ) -> None:  # fmt: skip
        self.vocabulary, self.library, self.rules = vocabulary, library, rules
        self._language = stem, lemmatize
        self._agrees = False  # whether the library that is here was compared with that
        self._known: dict[bytes, int] = {}  # only remembered: it makes no difference what it holds

    @classmethod
    def of_texts(
        cls, texts: tuple[str, ...], stem: str | None, lemmatize: str | None
    ) -> tuple[LabelWords, ScannedWords, npt.NDArray[np.int32]]:
        """The words of labels' texts, the texts as they were read, and the id of each of their distinct words."""
        forms = forms_of_language(stem, lemmatize, True)
        scanned = scan_words(texts)
        normal = _normal(scanned.distinct, forms)
        vocabulary = Vocabulary.verbatim(sorted(set(normal)))
        words = cls(vocabulary, stem, lemmatize, None if forms is None else forms.library)
        return words, scanned, np.array([vocabulary.id(word) for word in normal], np.int32)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def read(self, texts: tuple[str, ...], first: int = 0, last: int | None = None) -> Places:
        """``texts[first:last]`` as ids."""
        scanned = self.scan(texts, first, last)
        return Places(scanned.offsets, self.ids(scanned.distinct)[scanned.words], scanned.kinds)

    def scan(self, texts: tuple[str, ...], first: int = 0, last: int | None = None) -> ScannedWords:
        """The words of ``texts[first:last]``, as labels' words were read."""
        return scan_words(texts, first, last, self.rules)

    def ids(self, words: Sequence[bytes]) -> npt.NDArray[np.int32]:
        """The id of each word of a text; -1 for those that no label has."""
        known = self._known
        ids = np.fromiter(map(known.get, words, repeat(_UNKNOWN)), np.int32, len(words))
        unknown = np.flatnonzero(ids == _UNKNOWN)
        if len(unknown):
            new = [words[at] for at in unknown.tolist()]
            numbers = (self.vocabulary.get(word) for word in _normal(new, self._forms()))
            found = dict(zip(new, (-1 if number is None else number for number in numbers), strict=True))
            ids[unknown] = [found[word] for word in new]
            if len(known) + len(found) > _MOST_KNOWN:
                known = self._known = {}
            known.update(found)
        return ids

    def _forms(self) -> WordForms | None:
        """The library for stems or lemmas, with a warning when it is another than the labels' words went through."""
        forms = forms_of_language(*self._language, True)
        if forms is not None and self.library is not None and not self._agrees:
            self._agrees = True
            if not forms.agrees(self.library):
                warnings.warn(
                    f"The labels' words went through {self.library}, and texts go through {forms.library}: where the "
                    "two differ, labels aren't found. Fit the model again.",
                    OtherReleaseWarning, stacklevel=2,
                )  # fmt: skip
        return forms


def _normal(words: Sequence[bytes], forms: WordForms | None) -> list[str]:
    """Words as they are compared: their forms, without case and diacritics."""
    decoded = (composed(word.decode("utf-8", "replace")) for word in words)
    return [folded(word if forms is None else forms.of(word)) for word in decoded]
