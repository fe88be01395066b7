"""What words are counted as: stems and lemmas by other libraries, and the words of labels."""

from __future__ import annotations

import os
import threading
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import metadata
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.data import Vocabulary
from sylvan.errors import OtherReleaseWarning
from sylvan.labels.vocabulary import composed
from sylvan.lazy import need_extra
from sylvan.text.characters import PADDING, RULES, ScannedWords, scan_words, without_unseen

# By ISO 639-1, as simplemma has them too; some are in the library from a certain release on.
STEM_LANGUAGES = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
LEMMA_LANGUAGES = (
    "ar", "ast", "bg", "ca", "cs", "cy", "da", "de", "el", "en", "enm", "eo", "es", "et", "fa", "fi", "fr", "ga", "gd",
    "gl", "grc", "gv", "hbs", "he", "hi", "hu", "hy", "id", "is", "it", "ka", "la", "lb", "lt", "lv", "mk", "ml", "ms",
    "nb", "nl", "nn", "pl", "pt", "ro", "ru", "se", "sk", "sl", "sq", "sv", "sw", "tl", "tr", "uk",
)  # fmt: skip
_INSTALL = 'Install it with: pip install "sylvan[languages]"'
_MOST_KNOWN = 1 << 20  # words that are remembered; a server may meet ever more


class WordForms:
    """What the words of a language are counted as, by a library that is asked once for each distinct word."""

    def __init__(self, library: str, ask: Callable[[str], str], lowercase: bool, by_case: bool) -> None:
        # library: its name and release; ask: what it says of a word; by_case: whether words are to be given as they are
        # written, as "Haus" and "haus" are forms of different words
        self.library, self._ask, self._lowercase, self.by_case = library, ask, lowercase, by_case
        self._form = lru_cache(_MOST_KNOWN)(self._form_of)
        self._lock = threading.Lock()  # a stemmer's state is that of the word that it is at

    def agrees(self, library: str) -> bool:
        """Whether another library and its release, as in ``library``, may be taken to give the same forms: dictionaries
        of one release alone, stemmers of one release of Snowball, whose Python and C have the same first numbers."""
        if self.by_case:
            return library == self.library
        first, second = (each.rpartition(" ")[2].split(".")[:2] for each in (library, self.library))
        return first == second

    def of(self, word: str) -> str:
        """What one word is counted as."""
        return self._forms_of([word.encode("utf-8", "surrogatepass")])[0].decode("utf-8", "surrogatepass")

    def table(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> kernels.TfidfForms:
        """The forms of distinct words, as the kernels look them up."""
        # Shape: offsets (n_words + 1,)
        all_words, ends = data.tobytes(), offsets.tolist()
        forms = self._forms_of([all_words[start:end] for start, end in pairwise(ends)])
        form_offsets = np.cumsum([0, *map(len, forms)], dtype=np.int64)
        form_data = np.frombuffer(b"".join(forms) + bytes(PADDING), np.uint8)
        return kernels.TfidfForms(data, offsets, kernels.tfidf_slots(data, offsets), form_data, form_offsets)

    def _forms_of(self, words: Sequence[bytes]) -> list[bytes]:
        with self._lock:
            return [self._form(word) for word in words]

    def _form_of(self, word: bytes) -> bytes:
        """One word: never empty, and without the spaces that part the words of a phrase."""
        try:
            form = self._ask(word.decode())
        except UnicodeDecodeError:  # half of a surrogate pair, which is no word of any language
            form = word.decode("utf-8", "surrogatepass")
        form = without_unseen(form.lower() if self._lowercase else form)
        return "_".join(form.split()).encode("utf-8", "surrogatepass") or word


def _stemmer(language: str) -> tuple[str, Callable[[str], str]]:
    """The Snowball stemmer of a language (Porter 2001), which takes words in lower case."""
    library = need_extra("Stemming needs snowballstemmer", "languages", "snowballstemmer")
    name = STEM_LANGUAGES[language]
    try:
        stemmer = library.stemmer(name)
    except KeyError as error:
        version = metadata.version("snowballstemmer")
        raise ImportError(
            f"snowballstemmer {version} has no stemmer of {language!r} ({name}); a later one may. {_INSTALL}"
        ) from error
    # PyStemmer is the same in C; where it is installed, the library hands out its stemmers.
    package = "PyStemmer" if type(stemmer).__module__ == "Stemmer" else "snowballstemmer"
    return f"{package} {metadata.version(package)}", stemmer.stemWord


def _lemmatizer(language: str, lowercase: bool) -> tuple[str, Callable[[str], str]]:
    """simplemma's dictionary of a language, in which German nouns are capitalised."""
    library = need_extra("Lemmatizing needs simplemma", "languages", "simplemma")
    release = f"simplemma {metadata.version('simplemma')}"
    try:
        library.lemmatize("a", lang=language)  # reads the dictionary
    except ValueError as error:
        raise ImportError(f"{release} has no dictionary of {language!r}; a later one may. {_INSTALL}") from error

    def ask(word: str) -> str:
        shouted = lowercase and word.isupper()  # which the dictionary doesn't look through
        return str(library.lemmatize(word.lower() if shouted else word, lang=language))

    return release, ask


@lru_cache(maxsize=8)
def forms_of_language(stem: str | None, lemmatize: str | None, lowercase: bool) -> WordForms | None:
    """The stems or the lemmas of a language, with all that was asked before; None where neither is given."""
    if stem is not None:
        return WordForms(*_stemmer(stem), lowercase, by_case=False)
    return None if lemmatize is None else WordForms(*_lemmatizer(lemmatize, lowercase), lowercase, by_case=True)


if hasattr(os, "register_at_fork"):  # a lock that another thread of the parent held would stay locked
    os.register_at_fork(after_in_child=forms_of_language.cache_clear)


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
    kinds = [unicodedata.category(c) for c in word]
    return any(kind[0] == "L" for kind in kinds) and (len(word) >= 3 or "Lo" in kinds)


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
        ids_known = self._known
        ids = np.fromiter(map(ids_known.get, words, repeat(_UNKNOWN)), np.int32, len(words))
        unknown = np.flatnonzero(ids == _UNKNOWN)
        if len(unknown):
            new = [words[place] for place in unknown.tolist()]
            numbers = (self.vocabulary.get(word) for word in _normal(new, self._forms()))
            new_ids = dict(zip(new, (-1 if number is None else number for number in numbers), strict=True))
            ids[unknown] = [new_ids[word] for word in new]
            if len(ids_known) + len(new_ids) > _MOST_KNOWN:
                ids_known = self._known = {}
            ids_known.update(new_ids)
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
