"""What a label is called in words: its terms, and the labels that it is related to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sylvan.errors import DataError, warn_data
from sylvan.labels.vocabulary import label_name


@dataclass(frozen=True)
class LabelTerms:
    """The words for one label, in all the languages that count.

    Attributes
    ----------
    preferred : tuple of str
        What it is called first of all; one in each language.
    alternative : tuple of str
        Other names that it is shown by: synonyms, abbreviations.
    hidden : tuple of str
        Names by which it is found but not shown: other spellings.
    definitions : tuple of str
        What it means.
    broader, related : tuple of str
        Other labels, by the names that the model's labels have.

    Examples
    --------
    >>> from sylvan.data import LabelTerms
    >>> LabelTerms(("whaling",), alternative=("whale hunting",), broader=("fishing",)).names
    ('whaling', 'whale hunting')
    """

    preferred: tuple[str, ...] = ()
    alternative: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    broader: tuple[str, ...] = ()
    related: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that it is called: preferred, alternative and hidden."""
        return self.preferred + self.alternative + self.hidden


def label_terms(label_texts: Any, names: Iterable[str]) -> dict[str, LabelTerms]:
    """The terms of each label that has any, from the forms in which a caller may give them."""
    if label_texts is None or (isinstance(label_texts, str) and label_texts == "names"):
        return {name: LabelTerms((name,)) for name in names}
    if hasattr(label_texts, "terms"):
        _say_languages(label_texts)
        return dict(_by_rows_names(label_texts, sorted(set(names))).terms())
    return {
        name: texts if isinstance(texts, LabelTerms) else LabelTerms(tuple(texts[:1]), tuple(texts[1:]))
        for name, texts in _listed(label_texts)
    }


def _by_rows_names(subjects: Any, listed: list[str]) -> Any:
    """A vocabulary by what rows call its subjects: the others by their labels in the language of most of these names,
    or by their URIs where rows have some."""
    uris = [name for name in listed if name in subjects]
    named = {uri: name for name in listed if name not in subjects and (uri := subjects.uri(name)) is not None}
    if not named:
        return subjects
    tags = Counter(tag for uri in named for tag, text in subjects.labels[uri].items() if text == label_name(named[uri]))
    if uris:
        named = {uri: uri for uri in subjects} | named | dict(zip(uris, uris, strict=True))
    return subjects.by_label(tags.most_common(1)[0][0], named)


def named_texts(label_texts: Any, names: Iterable[str]) -> dict[str, str]:
    """The text of each label that has one, for models that know no kinds of terms: a label's texts are joined."""
    if isinstance(label_texts, str) and label_texts == "names":
        return {name: name.replace("_", " ") for name in names}
    terms = label_terms(label_texts, names)
    # Rows are in the order of the names, whatever the mapping's.
    return dict(sorted((label_name(name), " ".join((*each.names, *each.definitions))) for name, each in terms.items()))


def _listed(label_texts: Any) -> Iterator[tuple[str, Any]]:
    """Each label of a mapping, with the list of its texts or their terms."""
    if not isinstance(label_texts, Mapping):
        raise DataError(
            "label_texts must be a mapping of labels to texts, a SubjectVocabulary, or 'names'. Got "
            f"{type(label_texts).__name__} instead."
        )
    given: dict[str, Any] = {}
    for name, texts in label_texts.items():
        parts = [texts] if isinstance(texts, str) else texts
        if not isinstance(name, str | int | np.integer) or isinstance(name, bool) or not label_name(str(name)):
            raise DataError(f"label_texts must name labels by ints or non-blank strings. Got {name!r:.60} instead.")
        listed = isinstance(parts, list | tuple) and all(isinstance(part, str) for part in parts)
        if not listed and not isinstance(texts, LabelTerms):
            raise DataError(
                "label_texts must give a string, a list of strings or LabelTerms for each label. Got "
                f"{texts!r:.60} for label {name!r:.60} instead."
            )
        if (first := given.setdefault(label_name(str(name)), name)) is not name:
            raise DataError(f"label_texts names one label twice, as {first!r:.60} and as {name!r:.60}.")
        yield str(name), parts


def _say_languages(subjects: Any) -> None:
    """Warn where words of several languages count, with one that means different things in two of them."""
    if not subjects.several_languages:
        return
    first: dict[str, tuple[str, str]] = {}
    clash = ""
    for uri, names in subjects.labels.items():
        alternatives = subjects.alternative.get(uri, {})
        pairs = chain(names.items(), ((language, text) for language, texts in alternatives.items() for text in texts))
        for language, name in pairs:
            other, first_language = first.setdefault(name, (uri, language))
            if not clash and other != uri and first_language != language:
                clash = f" ({name!r} names {other} and {uri})"
    warn_data(
        f"The vocabulary names its labels in several languages ({subjects.several_languages}), and the words of all "
        f"count{clash}: name the language of the texts by --language, or in Python by in_language.",
        4,
    )
