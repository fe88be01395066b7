"""``--vocabulary``: a file that says what labels that are codes are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from sylvan import data
from sylvan.cli.io.label_texts import is_vocabulary, need_language
from sylvan.errors import DataError


@dataclass(frozen=True)
class LabelTitles:
    """From a code, such as a URI, to what it is called in a language; None where the file doesn't say."""

    vocabulary: data.SubjectVocabulary = field(repr=False)
    language: str | None
    path: str = field(default="", repr=False)
    source: str = ""  # checksum of the file that the vocabulary is of

    def __call__(self, code: str) -> str | None:
        return self.vocabulary.label(code, self.language)

    def check(self, codes: Iterable[str]) -> None:
        """Refuse a file that names none of a model's labels."""
        first = None
        for code in codes:
            if code in self.vocabulary:
                return
            first = code if first is None else first
        if first is None:
            raise DataError(f"{self.path} names labels, of which there are none here: leave --vocabulary out.")
        other = next(iter(self.vocabulary))
        raise DataError(
            f"{self.path} names none of the model's labels: it has {other!r}, for instance, and the model {first!r}."
        )


def read_titles(given: Mapping[str, Any]) -> LabelTitles | None:
    """The file of ``--vocabulary`` in the language of ``--language``; None without the option."""
    path, language = given["vocabulary"], given["language"]
    if path is None:
        if language is not None:
            raise click.UsageError("--language is for the labels of a --vocabulary.")
        return None
    if path.lower().removesuffix(".gz").removesuffix(".xz").endswith(".jsonl") and not is_vocabulary(path):
        texts = data.read_label_texts(path)
        vocabulary = data.SubjectVocabulary({label: {"": names[0]} for label, names in texts.items() if names})
    else:
        vocabulary = data.read_subjects(path)
    # With a language, a label that has no name in it is called as it is in another.
    need_language(vocabulary, language, path, "labels are called by their English or else their first name")
    return LabelTitles(vocabulary, language, path)
