"""What ``--label-texts`` names: texts of labels, or a vocabulary of subjects."""

from __future__ import annotations

import os
import warnings
from typing import Any

from sylvan import data
from sylvan.data.formats.rdf import RDF_FORMS
from sylvan.data.formats.subjects import header_separator
from sylvan.data.label_terms import label_terms
from sylvan.data.streams import head_of, unpacked_name
from sylvan.errors import DataError, DataWarning


def read_given_texts(path: str | None, language: str | None = None) -> dict[str, Any]:
    """The option ``label_texts`` of a model's ``fit``; nothing without a path."""
    if path is None:
        return {}
    if path == "names":
        return {"label_texts": path}
    if not is_vocabulary(path):
        return {"label_texts": data.read_label_texts(path)}
    subjects = data.read_subjects(path)
    return {"label_texts": subjects if language is None else need_language(subjects, language, path)}


def need_language(
    subjects: data.SubjectVocabulary, language: str | None, path: str, otherwise: str = ""
) -> data.SubjectVocabulary:
    """A vocabulary in one language; without one, a warning names its languages and says what holds ``otherwise``."""
    if language is not None:
        named = [known for known in subjects.languages if known]
        if named and not subjects.has_language(language):
            raise DataError(f"{path} has no labels in the language {language!r}: its languages are {', '.join(named)}.")
        return subjects.in_language(language)
    if subjects.several_languages:
        warnings.warn(
            f"{path} names its subjects in several languages ({subjects.several_languages}), and {otherwise}: "
            "--language CODE chooses one.", DataWarning, stacklevel=2,
        )  # fmt: skip
    return subjects


def is_vocabulary(path: str) -> bool:
    """Whether a file is a vocabulary of subjects, by its name or its first line; lines of label and text are none."""
    suffix = os.path.splitext(unpacked_name(path))[1]
    if suffix == ".jsonl":
        return "uri" in next(data.read_records(path), {})
    if suffix in RDF_FORMS or suffix == ".csv" or path == "-":
        return path != "-"
    first = head_of(path).split(b"\n", 1)[0]
    return header_separator(first.decode("utf-8", "replace").rstrip("\r")) is not None


def plain_texts(given: Any, names: Any) -> Any:
    """A vocabulary as a mapping of labels to texts, for models that know no kinds of them; anything else as it is."""
    if not isinstance(given, data.SubjectVocabulary):
        return given
    listed = (name for row in names for name in ([row] if isinstance(row, str) else row))
    terms = label_terms(given, (name for name in listed if isinstance(name, str)))
    return {name: [*known.names, *known.definitions] for name, known in terms.items()}
