"""The words that Annif's analysers find, as texts whose words Sylvan's vectoriser counts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sylvan.text import TfidfVectorizer

# The names are Annif's own where it has one; ``ngram`` is the most words that a term has.
WORD_PARAMETERS: Mapping[str, Any] = {
    "ngram": "auto", "min_df": 1, "max_df": 1.0, "max_features": None, "sublinear_tf": False,
}  # fmt: skip
_APART = re.compile(r"\W")


def word_vectorizer(parameters: Mapping[str, Any], n_jobs: int | None) -> TfidfVectorizer:
    """A vectoriser of texts from :func:`joined_words`: its words are those between spaces."""
    given = {name: value for name, value in parameters.items() if name in WORD_PARAMETERS and name != "ngram"}
    longest = parameters["ngram"]
    ngrams = (1, longest) if isinstance(longest, int) else longest
    return TfidfVectorizer(ngrams=ngrams, min_token_length=1, cjk="word", n_jobs=n_jobs, **given)


def joined_words(tokenize_words: Callable[[str], Iterable[str]], text: str) -> str:
    """A text's words with spaces between them; inside a word there is nothing that the vectoriser would part it at."""
    return " ".join(_APART.sub(_letters, word) for word in tokenize_words(text) if word)


def _letters(found: re.Match[str]) -> str:
    """Letters in place of a character that is none: marks, which tell words apart, by their numbers."""
    character = found[0]
    return f"_{ord(character):x}_" if unicodedata.category(character).startswith("M") else "_"
