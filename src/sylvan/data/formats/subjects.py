"""Vocabularies of subjects: URIs, their labels in several languages, and what is broader than what."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sylvan.data.streams import PathLike, open_read, open_write, shown
from sylvan.data.text_rows import encoded, quoted, text_lines
from sylvan.errors import DataError
from sylvan.wording import counted

__all__ = ["SubjectVocabulary", "bare_uri", "looks_like_uri", "read_subjects", "write_subjects"]

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|urn:\S+")
_RDF = {
    ".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".owl": "xml", ".nt": "nt", ".n3": "n3", ".jsonld": "json-ld",
}  # fmt: skip


def bare_uri(text: str) -> str:
    """A URI without the angle brackets around it."""
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def looks_like_uri(text: str) -> bool:
    """Whether a label is a URI: a scheme and ``://``, or a URN."""
    return bool(_URI.fullmatch(text))


class SubjectVocabulary:
    """Subjects by URI: their preferred labels by language, and what is broader than each.

    Parameters
    ----------
    labels : mapping of str to (mapping of str to str)
        For every URI, its preferred label in each language; the language is "" where the file names none.
    broader : mapping of str to sequence of str, optional
        For every URI, those of its broader subjects.

    Examples
    --------
    >>> from sylvan.data import SubjectVocabulary
    >>> subjects = SubjectVocabulary({"urn:1": {"en": "whales", "fi": "valaat"}, "urn:2": {"en": "animals"}},
    ...                              broader={"urn:1": ["urn:2"]})
    >>> subjects.label("urn:1"), subjects.label("urn:1", "fi"), subjects.uri("animals"), len(subjects)
    ('whales', 'valaat', 'urn:2', 2)
    """

    def __init__(
        self, labels: Mapping[str, Mapping[str, str]], broader: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.labels = {uri: dict(names) for uri, names in labels.items()}
        self.broader = {uri: tuple(above) for uri, above in (broader or {}).items()}
        self._uris: dict[str, str] = {}
        for uri, names in self.labels.items():
            for name in names.values():
                self._uris.setdefault(name, uri)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, uri: object) -> bool:
        return uri in self.labels

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __repr__(self) -> str:
        languages = ", ".join(self.languages) or "none"
        return f"SubjectVocabulary({counted(len(self), 'subject')}, languages: {languages})"

    @property
    def languages(self) -> list[str]:
        """The languages of the labels, in alphabetical order; "" where labels name none."""
        return sorted({language for names in self.labels.values() for language in names})

    def label(self, uri: str, language: str | None = None) -> str | None:
        """The preferred label of a URI, or None.

        Parameters
        ----------
        uri : str
        language : str, optional
            By default the label without a language, else the English one, else the first; so too where the one
            asked for is missing.
        """
        names = self.labels.get(uri, {})
        for wanted in (language, "", "en"):
            if wanted in names:
                return names[wanted]
        return next(iter(names.values()), None)

    def uri(self, label: str) -> str | None:
        """The URI of the subject with this label in any language, the first of several; or None."""
        return self._uris.get(label)


def read_subjects(path: PathLike) -> SubjectVocabulary:
    """Read a vocabulary of subjects as Annif takes them: TSV, CSV or SKOS.

    - **TSV**: ``<URI>``, a tab and a label a line; further columns are passed over.
    - **CSV**: a header with ``uri`` and ``label_en``, ``label_fi`` and so on, or ``label``.
    - **SKOS**: Turtle (.ttl), RDF/XML (.rdf, .xml, .owl), N-Triples (.nt), N3 or JSON-LD, read by rdflib
      (``pip install "sylvan[rdf]"``): concepts, preferred labels and broader relations; deprecated ones are skipped.

    Parameters
    ----------
    path : path-like
        The suffix says which of these it is (.gz and .xz are passed over); anything else is TSV.

    Returns
    -------
    SubjectVocabulary

    Raises
    ------
    DataError
        For the first line at fault, with file and line; when the file is missing, damaged or holds no subjects; when
        rdflib is needed and missing.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "subjects.tsv"
    >>> _ = path.write_text("<http://example.org/whaling>\\tWhaling\\n")
    >>> data.read_subjects(path).label("http://example.org/whaling")
    'Whaling'
    """
    suffix = os.path.splitext(os.fspath(path).lower().removesuffix(".gz").removesuffix(".xz"))[1]
    with open_read(path) as stream:
        if suffix in _RDF:
            result = _skos(stream.read(), _RDF[suffix], stream.name)
        elif suffix == ".csv":
            result = SubjectVocabulary(_csv_labels(list(text_lines(stream)), stream.name))
        else:
            result = SubjectVocabulary(_tsv_labels(text_lines(stream)))
    if not len(result):
        raise DataError(f"{shown(path)}: the file holds no subjects.")
    return result


def write_subjects(path: PathLike, subjects: SubjectVocabulary, *, language: str | None = None) -> None:
    """Write URIs and labels as the TSV that :func:`read_subjects` and Annif read.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    subjects : SubjectVocabulary
    language : str, optional
        Which labels; as in :meth:`SubjectVocabulary.label`.

    Raises
    ------
    DataError
        When a URI or label holds a tab or line break, or the file can't be written.
    """
    with open_write(path) as stream:
        for number, uri in enumerate(subjects):
            label = subjects.label(uri, language) or ""
            if re.search(r"[\t\n\r]", uri + label):
                raise DataError(f"The label {quoted(label)} of {quoted(uri)} holds a tab or a line break.")
            stream.write(encoded(number, f"<{uri}>\t{label}\n"))


def _tsv_labels(lines: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    labels: dict[str, dict[str, str]] = {}
    for place, line in lines:
        if not line.strip():
            continue
        first, tab, rest = line.partition("\t")
        uri = bare_uri(first.strip())
        if not tab or not uri:
            raise DataError(f"{place}: a line must be a URI, a tab and a label. Got {quoted(line)} instead.")
        _once(place, uri, labels)
        labels[uri] = {"": rest.split("\t")[0].strip()}
    return labels


def _csv_labels(lines: list[tuple[str, str]], name: str) -> dict[str, dict[str, str]]:
    reader = csv.DictReader((line for _, line in lines), strict=True)
    labels: dict[str, dict[str, str]] = {}
    try:
        columns = {
            column: "" if column == "label" else column.removeprefix("label_")
            for column in reader.fieldnames or ()
            if column == "label" or column.startswith("label_")
        }
        if "uri" not in (reader.fieldnames or ()) or not columns:
            raise DataError(f"{name}, line 1: the header must name the columns uri and label or label_en, say.")
        for row in reader:
            place = f"{name}, line {reader.line_num}"
            uri = bare_uri((row["uri"] or "").strip())
            if not uri:
                raise DataError(f"{place}: the cell of the URI is empty.")
            _once(place, uri, labels)
            labels[uri] = {language: row[column] for column, language in columns.items() if row[column]}
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num + 1}: not a row of CSV ({error}).") from error
    return labels


def _once(place: str, uri: str, labels: Mapping[str, Any]) -> None:
    if uri in labels:
        raise DataError(f"{place}: the URI {quoted(uri)} stands there twice.")


def _skos(content: bytes, form: str, name: str) -> SubjectVocabulary:
    try:
        import rdflib
        from rdflib.namespace import OWL, RDF, SKOS
    except ImportError as error:
        raise DataError(f'{name}: reading SKOS needs rdflib: pip install "sylvan[rdf]", or give a TSV.') from error
    graph = rdflib.Graph()
    try:
        graph.parse(data=content, format=form)
    except Exception as error:  # every parser of rdflib's fails in ways of its own
        raise DataError(f"{name}: not {form} ({' '.join(str(error).split())[:200]}).") from error
    dropped = {str(uri) for uri, flag in graph.subject_objects(OWL.deprecated) if str(flag).lower() in ("true", "1")}
    concepts = {str(uri) for uri in graph.subjects(RDF.type, SKOS.Concept) if isinstance(uri, rdflib.URIRef)} - dropped
    labels: dict[str, dict[str, str]] = {uri: {} for uri in sorted(concepts)}
    for uri, label in sorted(graph.subject_objects(SKOS.prefLabel), key=str):
        if str(uri) in concepts:
            labels[str(uri)].setdefault(getattr(label, "language", None) or "", str(label))
    pairs = {(str(below), str(above)) for below, above in graph.subject_objects(SKOS.broader)}
    pairs |= {(str(below), str(above)) for above, below in graph.subject_objects(SKOS.narrower)}
    broader: dict[str, list[str]] = {}
    for below, above in sorted(pairs):
        if below in concepts and above in concepts:
            broader.setdefault(below, []).append(above)
    return SubjectVocabulary(labels, broader)
