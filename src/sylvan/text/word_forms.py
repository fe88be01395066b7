"""Words counted as their stems or their lemmas: a library of the language is asked once for each distinct word."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sylvan import kernels
from sylvan.text.characters import without_unseen
from sylvan.text.terms import PADDING

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


class WordForms(ABC):
    """What the words of a language are counted as."""

    # whether words are to be given as they are written, as "Haus" and "haus" are forms of different words
    by_case: ClassVar[bool]

    def __init__(self, language: str, lowercase: bool) -> None:
        self._lowercase = lowercase
        self._known: dict[bytes, bytes] = {}
        self._lock = threading.Lock()  # a stemmer's state is that of the word that it is at
        self.library, self._ask = self._open(language)

    @abstractmethod
    def _open(self, language: str) -> tuple[str, Callable[[str], str]]:
        """The library and its release, and what it says of a word."""

    @abstractmethod
    def agrees(self, library: str) -> bool:
        """Whether another library and its release, as in ``library``, may be taken to give the same forms."""

    def of(self, word: str) -> str:
        """What one word is counted as."""
        return self._forms_of([word.encode("utf-8", "surrogatepass")])[0].decode("utf-8", "surrogatepass")

    def table(self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> kernels.TfidfForms:
        """The forms of distinct words, as the kernels look them up."""
        # Shape: offsets (n_words + 1,)
        all_words, ends = data.tobytes(), offsets.tolist()
        forms = self._forms_of([all_words[ends[i] : ends[i + 1]] for i in range(len(ends) - 1)])
        form_offsets = np.zeros(len(forms) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, forms), np.int64, len(forms)), out=form_offsets[1:])
        form_data = np.frombuffer(b"".join(forms) + bytes(PADDING), np.uint8)
        return kernels.TfidfForms(data, offsets, kernels.tfidf_slots(data, offsets), form_data, form_offsets)

    def _forms_of(self, words: Sequence[bytes]) -> list[bytes]:
        known = self._known
        new = [word for word in words if word not in known]
        if new:
            forms = self._asked(new)
            if len(known) + len(new) > _MOST_KNOWN:
                known = self._known = dict(zip(words, map(known.get, words), strict=True))  # type: ignore[arg-type]
            known.update(zip(new, forms, strict=True))
        return [known[word] for word in words]

    def _asked(self, words: Sequence[bytes]) -> list[bytes]:
        with self._lock:
            return [self._form(word) for word in words]

    def _form(self, word: bytes) -> bytes:
        """One word: never empty, and without the spaces that part the words of a phrase."""
        try:
            form = self._ask(word.decode())
        except UnicodeDecodeError:  # half of a surrogate pair, which is no word of any language
            form = word.decode("utf-8", "surrogatepass")
        form = without_unseen(form.lower() if self._lowercase else form)
        return "_".join(form.split()).encode("utf-8", "surrogatepass") or word


class _Stems(WordForms):
    """Stems by the Snowball stemmer of a language (Porter 2001), which takes words in lower case."""

    by_case = False

    def _open(self, language: str) -> tuple[str, Callable[[str], str]]:
        library, name = _library("snowballstemmer", "Stemming"), STEM_LANGUAGES[language]
        try:
            stemmer = library.stemmer(name)
        except KeyError as error:
            here = metadata.version("snowballstemmer")
            raise ImportError(
                f"snowballstemmer {here} has no stemmer of {language!r} ({name}); a later one may. {_INSTALL}"
            ) from error
        # PyStemmer is the same in C; where it is installed, the library hands out its stemmers.
        package = "PyStemmer" if type(stemmer).__module__ == "Stemmer" else "snowballstemmer"
        return f"{package} {metadata.version(package)}", stemmer.stemWord

    def agrees(self, library: str) -> bool:
        return _release(library) == _release(self.library)


class _Lemmas(WordForms):
    """Lemmas by simplemma's dictionary of a language, in which German nouns are capitalised."""

    by_case = True

    def _open(self, language: str) -> tuple[str, Callable[[str], str]]:
        library = _library("simplemma", "Lemmatizing")
        release = f"simplemma {metadata.version('simplemma')}"
        try:
            library.lemmatize("a", lang=language)  # reads the dictionary
        except ValueError as error:
            raise ImportError(f"{release} has no dictionary of {language!r}; a later one may. {_INSTALL}") from error

        def ask(word: str) -> str:
            shouted = self._lowercase and word.isupper()  # which the dictionary doesn't look through
            return str(library.lemmatize(word.lower() if shouted else word, lang=language))

        return release, ask

    def agrees(self, library: str) -> bool:
        return library == self.library


def _library(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{what} needs {name}. {_INSTALL}") from error


def _release(library: str) -> str:
    """That of Snowball itself: its Python and its C library have the same first two numbers."""
    return ".".join(library.rpartition(" ")[2].split(".")[:2])


@lru_cache(maxsize=8)
def forms_of_language(stem: str | None, lemmatize: str | None, lowercase: bool) -> WordForms | None:
    """The stems or the lemmas of a language, with all that was asked before; None where neither is given."""
    if stem is not None:
        return _Stems(stem, lowercase)
    return None if lemmatize is None else _Lemmas(lemmatize, lowercase)


if hasattr(os, "register_at_fork"):  # a lock that another thread of the parent held would stay locked
    os.register_at_fork(after_in_child=forms_of_language.cache_clear)
