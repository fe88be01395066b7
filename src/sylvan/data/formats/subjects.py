"""Vocabularies of subjects: URIs, their names in several languages and their relations; texts of labels."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from sylvan.data.formats.jsonl import objects, read_records
from sylvan.data.formats.rdf import RDF_FORMS, read_skos
from sylvan.data.label_terms import LabelTerms
from sylvan.data.streams import InputStream, PathLike, open_read, open_write, shown, unpacked_name
from sylvan.data.text_rows import CR_ENDS, Row, complete_rows, encoded, quoted, refuse_repeated, text_lines, unexpected
from sylvan.errors import DataError, warn_data
from sylvan.labels.vocabulary import bare_uri, label_name, looks_like_uri
from sylvan.params.wording import are, counted

_SEPARATORS = (",", ";", "\t")
_TEXTS = {"label": "labels", "alternative": "alternative", "hidden": "hidden", "definition": "definitions"}
_COLUMN = re.compile(r"(label|alternative|hidden|definition)(?:_(.+))?")
_RELATIONS = ("broader", "narrower", "related")
_Row = tuple[str, str, Mapping[str, list[str]]]  # place, URI, perhaps in brackets, and the values of columns
_OTHERS = ("alternative", "hidden", "definitions")
_Texts = Mapping[str, Mapping[str, Sequence[str]]]
_NOTATION = re.compile(r"[A-Z0-9 .,:/()+-]+|[!-~]*[0-9][!-~]*")  # 641, QA 76.9, b2-c; but no name


def header_separator(line: str) -> str | None:
    """What separates the cells of a header with "uri" and "label", or "label_en"; None where it is no such header."""
    for mark in _SEPARATORS:
        names = _names(next(csv.reader([line.partition("\r")[0]], delimiter=mark), []))
        if "uri" in names and any(re.fullmatch(r"label(_.+)?", name) for name in names):
            return mark
    return None


def _names(header: Iterable[str]) -> list[str]:
    """Names of columns, without blanks around them; their words may be written large, languages stay as they are."""
    parts = (name.strip().partition("_") for name in header)
    return [word.lower() + mark + language for word, mark, language in parts]


def _csv_rows(lines: list[tuple[str, str]], name: str) -> Iterator[_Row]:
    """The subjects of a table with a header."""
    mark = header_separator(lines[0][1]) if lines else None
    if mark is None:
        raise DataError(f"{name}, line 1: the header must name the columns uri and label or label_en, say.")
    reader = csv.reader((f"{line}\n" for _, line in lines), delimiter=mark, strict=True)
    start = 1  # of the row
    try:
        header = _names(next(reader))
        refuse_repeated(f"{name}, line 1", header)
        start = reader.line_num + 1
        for row in reader:
            if any(row[len(header) :]):
                raise DataError(
                    f"{name}, line {start}: the row has {len(row)} cells, but the header has {len(header)}."
                )
            values = {column: [cell] for column, cell in zip(header, row) if cell}  # noqa: B905
            if values:
                for column, cells in values.items():  # of which all but labels may have several
                    if not column.startswith("label"):
                        values[column] = [value for part in cells[0].split("|") if (value := part.strip())]
                yield f"{name}, line {start}", row[header.index("uri")].strip() if "uri" in values else "", values
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{name}, line {start}: not a row of CSV ({error}).") from error


def _jsonl_rows(stream: InputStream) -> Iterator[_Row]:
    """The subjects of JSON lines."""
    for place, record in objects(stream):
        if not isinstance(record.get("uri"), str):
            raise unexpected(place, "must be an object with a string called 'uri'", quoted(record))
        values = {name: [value] if isinstance(value, str) else value for name, value in record.items()}
        for name, value in values.items():
            is_column = _COLUMN.fullmatch(name) or name in _RELATIONS
            if is_column and not (isinstance(value, list) and all(isinstance(text, str) for text in value)):
                raise unexpected(place, f"{name!r} must be a string or a list of strings", quoted(record[name]))
        yield place, record["uri"].strip(), values


def _tsv_rows(lines: Iterable[tuple[str, str]]) -> Iterator[_Row]:
    """The subjects of lines of a URI, a tab and a label."""
    for place, line in sound_lines(lines):
        first, tab, remainder = line.partition("\t")
        if not tab or not bare_uri(first.strip()):
            raise unexpected(place, "a line must be a URI, a tab and a label", quoted(line))
        yield place, first.strip(), {"label": [remainder.split("\t")[0].strip()]}


def sound_lines(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The lines that aren't blank; those that end in CR alone, which reads as one line, are refused."""
    for place, line in lines:
        if "\r" in line.strip():
            raise unexpected(place, CR_ENDS, quoted(line))
        if line.strip():
            yield place, line


def _subjects(rows: Iterable[_Row]) -> dict[str, Any]:
    """Subjects as the parameters of :class:`SubjectVocabulary`; other columns, such as notations, are passed over."""
    fields: dict[str, dict[str, Any]] = {name: {} for name in (*_TEXTS.values(), "broader", "related")}
    labels = fields["labels"]
    for place, bracketed, values in rows:
        uri = bare_uri(bracketed)
        if not uri:
            raise DataError(f"{place}: the cell of the URI is empty.")
        if uri in labels:
            raise DataError(f"{place}: the URI {quoted(uri)} stands there twice.")
        labels[uri] = {}
        for column, texts in values.items():
            match = _COLUMN.fullmatch(column)
            if match and texts:
                language, kind = match[2] or "", _TEXTS[match[1]]
                if kind == "labels":  # the first is the preferred one
                    labels[uri][language], texts, kind = texts[0], texts[1:], "alternative"
                if texts:
                    fields[kind].setdefault(uri, {}).setdefault(language, []).extend(texts)
            elif column in _RELATIONS:
                for other in map(bare_uri, texts):
                    narrow, broad = (other, uri) if column == "narrower" else (uri, other)
                    fields["related" if column == "related" else "broader"].setdefault(narrow, []).append(broad)
    return fields


class SubjectVocabulary:
    """Subjects by URI: what they are called in each language, and how they are related.

    Parameters
    ----------
    labels : mapping of str to (mapping of str to str)
        For every URI, its preferred label in each language; the language is "" where the file names none. Names are
        composed (NFC) and without blanks around them, and languages may be written large or small.
    broader : mapping of str to sequence of str, optional
        For every URI, those of its broader subjects.
    alternative, hidden, definitions : mapping of str to (mapping of str to sequence of str), optional
        For every URI, its other names, those by which it is found but not shown, and what it means, by language.
    related : mapping of str to sequence of str, optional
        For every URI, those of its related subjects.
    deprecated : mapping of str to str, optional
        URIs that are no longer in use and no subjects here, and the URI that stands in place of each, or "".

    Examples
    --------
    >>> from sylvan.data import SubjectVocabulary
    >>> subjects = SubjectVocabulary({"urn:1": {"en": "whales", "fi": "valaat"}, "urn:2": {"en": "animals"}},
    ...                              broader={"urn:1": ["urn:2"]}, alternative={"urn:1": {"en": ["cetaceans"]}})
    >>> subjects.label("urn:1"), subjects.label("urn:1", "fi"), subjects.uri("animals"), len(subjects)
    ('whales', 'valaat', 'urn:2', 2)
    >>> subjects.terms("en")["urn:1"].names
    ('whales', 'cetaceans')
    """

    def __init__(
        self, labels: Mapping[str, Mapping[str, str]], broader: Mapping[str, Sequence[str]] | None = None, *,
        alternative: _Texts | None = None, hidden: _Texts | None = None, definitions: _Texts | None = None,
        related: Mapping[str, Sequence[str]] | None = None, deprecated: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.deprecated = dict(deprecated or {})
        self.labels = {
            label_name(uri): {language: name for language, text in names.items() if (name := label_name(text))}
            for uri, names in labels.items()
        }
        self.broader, self.related = (
            {label_name(uri): tuple(dict.fromkeys(map(label_name, uris))) for uri, uris in (relation or {}).items()}
            for relation in (broader, related)
        )
        self.alternative, self.hidden, self.definitions = (
            {
                label_name(uri): {tag: tuple(filter(None, map(label_name, texts))) for tag, texts in by.items()}
                for uri, by in (texts_by_uri or {}).items()
            }
            for texts_by_uri in (alternative, hidden, definitions)
        )
        self._uris: dict[str, str] = {}
        self._others: dict[str, str] = {}  # of a name that several subjects have, the second
        for uri, names in self.labels.items():
            for name in names.values():
                if self._uris.setdefault(name, uri) != uri:
                    self._others.setdefault(name, uri)

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
            Such as "en", which "en-GB" is too. By default the label without a language, else the English one, else
            the first; so too where the one asked for is missing.
        """
        names = self.labels.get(uri, {})
        for wanted in ("", "en") if language is None else (language, "", "en"):
            if near := _nearest(names, wanted):
                return names[near[0]]
        return next(iter(names.values()), None)

    def uri(self, label: str) -> str | None:
        """The URI of the subject with this label in any language, the first of several; or None."""
        return self._uris.get(label_name(label))

    def other_uri(self, label: str) -> str | None:
        """The second subject with this label in any language, if there is one."""
        return self._others.get(label_name(label))

    @property
    def several_languages(self) -> str:
        """The languages of the labels in words, where there are several: "en-GB" and "en" are one; else ""."""
        named = [language for language in self.languages if language]
        main = {language.lower().replace("_", "-").partition("-")[0] for language in named}
        return ", ".join(named) if len(main) > 1 else ""

    def has_language(self, language: str) -> bool:
        """Whether a label is in a language, as "en-GB" is in "en"."""
        return any(_nearness(tag, language) in (0, 1, 2) for tag in self.languages)

    def in_language(self, language: str) -> SubjectVocabulary:
        """The same subjects with their names and definitions in one language, and those that name no language.

        Parameters
        ----------
        language : str
            Such as "en", which "en-GB" is too, written large or small.

        Raises
        ------
        DataError
            When no label is in this language, and labels name theirs.

        Examples
        --------
        >>> from sylvan.data import SubjectVocabulary
        >>> subjects = SubjectVocabulary({"urn:1": {"en": "roads", "fi": "tie"}, "urn:2": {"en": "neckwear"}})
        >>> subjects.in_language("en").labels, subjects.in_language("fi").uri("neckwear")
        ({'urn:1': {'en': 'roads'}, 'urn:2': {'en': 'neckwear'}}, None)
        """
        named = [tag for tag in self.languages if tag]
        if named and not self.has_language(language):
            raise DataError(f"No label is in the language {language!r}: the languages are {', '.join(named)}.")
        chosen: dict[str, Any] = {
            name: {uri: {tag: by[tag] for tag in _nearest(by, language)} for uri, by in getattr(self, name).items()}
            for name in ("labels", *_OTHERS)
        }
        return SubjectVocabulary(broader=self.broader, related=self.related, deprecated=self.deprecated, **chosen)

    def terms(self, language: str | None = None) -> dict[str, LabelTerms]:
        """The words for each subject, as :class:`~sylvan.LexicalMatcher` takes them.

        Parameters
        ----------
        language : str, optional
            Only texts in this language, and those without one; all by default.
        """
        terms = {}
        for uri in self.labels:
            labels, *other_texts = (
                tuple(by[uri][tag] for tag in _nearest(by.get(uri, ()), language))
                for by in (getattr(self, name) for name in ("labels", *_OTHERS))
            )
            alternative, hidden, definitions = (tuple(chain.from_iterable(by_language)) for by_language in other_texts)
            preferred = tuple(dict.fromkeys(labels))
            relations = self.broader.get(uri, ()), self.related.get(uri, ())
            terms[uri] = LabelTerms(preferred, alternative, hidden, definitions, *relations)
        return terms

    def by_label(self, language: str | None = None, named: Mapping[str, str] | None = None) -> SubjectVocabulary:
        """The same subjects by their preferred labels instead of URIs; of several with one label, the first.

        Parameters
        ----------
        language : str, optional
            Which labels; as in :meth:`label`.
        named : mapping of str to str, optional
            What subjects are called instead, by their URIs.
        """
        names = {uri: name for uri in self.labels if (name := (named or {}).get(uri) or self.label(uri, language))}
        first: dict[str, str] = {}
        for uri, name in names.items():
            first.setdefault(name, uri)

        def renamed(relation: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
            return {name: [names[other] for other in relation[uri] if other in names] for name, uri in first.items()
                    if uri in relation}  # fmt: skip

        texts = {field: {name: by[uri] for name, uri in first.items() if uri in by}
                 for field in ("labels", *_OTHERS) for by in [getattr(self, field)]}  # fmt: skip
        return SubjectVocabulary(broader=renamed(self.broader), related=renamed(self.related), **texts)


def by_uris(rows: Iterable[Row], vocabulary: SubjectVocabulary, source: str) -> Iterator[Row]:
    """Rows whose labels are URIs of a vocabulary. A label that it lacks is left out, a URI stays: they are counted, and
    said at the end."""
    unknown, shared = Counter[str](), Counter[str]()
    for text, labels, weights in rows:
        uris: dict[str, float] = {}
        for label, weight in zip(labels, weights or repeat(1.0)):  # noqa: B905
            name = label_name(str(label))
            uri = name if name in vocabulary else vocabulary.uri(name)
            if uri is None:
                unknown[name] += 1
                uri = name if looks_like_uri(name) else None
            elif uri != name and vocabulary.other_uri(name):
                shared[name] += 1
            if uri is not None:
                uris[uri] = uris.get(uri, 0.0) + weight
        yield text, list(uris), None if weights is None else list(uris.values())
    if shared:
        name = next(iter(shared))
        warn_data(
            f"{source}: {counted(len(shared), 'label')} (in {sum(shared.values()):,} of the rows' labels) "
            f"{are(len(shared))} that of several subjects, of which the first was taken, such as "
            f"{quoted(name)} ({vocabulary.uri(name)} and {vocabulary.other_uri(name)}): write URIs to tell them apart."
        )
    for are_uris, outcome in ((False, "left out"), (True, "kept by URI")):
        lacking = {name: n for name, n in unknown.items() if looks_like_uri(name) == are_uris}
        if lacking:
            warn_data(
                f"{source}: {counted(len(lacking), 'subject')} (in {sum(lacking.values()):,} of the rows' labels) "
                f"{are(len(lacking))} not in the vocabulary and {outcome}, such as {quoted(next(iter(lacking)))}."
            )


def read_subjects(path: PathLike) -> SubjectVocabulary:
    """Read a vocabulary of subjects: TSV and CSV as Annif takes them, JSON lines, or SKOS.

    - **TSV**: ``<URI>``, a tab and a label a line; further columns, such as notations, are passed over.
    - **CSV**, or a TSV with such a header: ``uri`` and ``label_en``, ``label_fi`` and so on, or ``label``; and where
      there are any, columns ``alternative``, ``hidden`` and ``definition``, in the same way with or without a
      language, and ``broader``, ``narrower`` and ``related`` with URIs. Several values stand between ``|`` in a cell.
    - **JSON lines** (.jsonl): objects with the same names, whose values are strings or lists of strings.
    - **SKOS**: Turtle (.ttl), RDF/XML (.rdf, .xml, .owl), N-Triples (.nt), N3 or JSON-LD, read by rdflib
      (``pip install "sylvan[rdf]"``): concepts, their preferred, alternative and hidden labels, definitions, and
      what is broader, narrower and related; deprecated concepts are listed apart. Labels may be things themselves
      (SKOS-XL) or ``rdfs:label``, and concepts of classes below ``skos:Concept``. Nothing is fetched from elsewhere.

    Parameters
    ----------
    path : path-like
        The suffix says which of these it is (.gz, .xz, .bz2 and .zst are passed over); anything else is TSV.

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
    suffix = os.path.splitext(unpacked_name(path))[1]
    with open_read(path) as stream:
        if suffix in RDF_FORMS:
            fields = read_skos(stream.read(), RDF_FORMS[suffix], stream.name)
        elif suffix == ".jsonl":
            fields = _subjects(_jsonl_rows(stream))
        else:
            lines = list(text_lines(stream))
            headed = suffix == ".csv" or (lines and header_separator(lines[0][1]) is not None)
            fields = _subjects(_csv_rows(lines, stream.name) if headed else _tsv_rows(lines))
    if not fields["labels"]:
        raise DataError(f"{shown(path)}: the file holds no subjects.")
    if not any(fields["labels"].values()):
        warn_data(f"{shown(path)}: no subject has a name, which is prefLabel in SKOS, and label or label_en elsewhere.")
    return SubjectVocabulary(**fields)


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


def _nearness(tag: str, language: str) -> int | None:
    """How near a language is to the one that is asked for: the same, a kind of it, what it is a kind of, or unnamed."""
    tag, language = (name.lower().replace("_", "-") for name in (tag, language))
    if tag == language:
        return 0
    if not language:
        return None
    return 1 if tag.startswith(f"{language}-") else 2 if tag and language.startswith(f"{tag}-") else None if tag else 3


def _nearest(tags: Iterable[str], language: str | None) -> list[str]:
    """Those of some languages that are the one that is asked for, nearest first; all where none is."""
    if language is None:
        return list(tags)
    near = [(nearness, tag) for tag in tags if (nearness := _nearness(tag, language)) is not None]
    return [tag for _, tag in sorted(near)]


def read_label_texts(path: PathLike) -> dict[str, list[str]]:
    """The texts of labels, as :meth:`sylvan.TextModel.fit` takes them as ``label_texts``.

    Parameters
    ----------
    path : path-like
        Lines of a label, a tab and its text, and further texts after further tabs; angle brackets around a label are
        dropped. Where the labels are URIs, notations (``641``) in a third column are no texts, as in Annif's
        vocabularies; a warning says so. Or JSON lines (``.jsonl``) of objects with "label" and "text", a string or
        a list of strings. Packed when it ends in .gz, .xz, .bz2 or .zst; "-" reads tabs from stdin.

    Returns
    -------
    dict of str to list of str
        The texts of a label that has several lines are joined.

    Raises
    ------
    DataError
        For the first line at fault, with file and line; when the file is missing, damaged or empty.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels.tsv"
    >>> _ = path.write_text("Whaling\\twhale hunting\\tcatching of whales\\n")
    >>> data.read_label_texts(path)
    {'Whaling': ['whale hunting', 'catching of whales']}
    """
    rows = _of_objects(path) if unpacked_name(path).endswith(".jsonl") else _of_lines(path)
    result: dict[str, list[str]] = {}
    for label, texts in complete_rows(rows, shown(path)):
        result.setdefault(label, []).extend(texts)
    return result


def _of_lines(path: PathLike) -> Iterator[tuple[str, list[str]]]:
    rows: list[tuple[str, list[str]]] = []
    with open_read(path) as stream:
        for place, line in sound_lines(text_lines(stream)):
            first, *texts = (cell.strip() for cell in line.split("\t"))
            if not bare_uri(first) or not any(texts):
                raise unexpected(place, "a line must be a label, a tab and its text", quoted(line))
            rows.append((first, texts))
    with_notations = _has_notations(rows, shown(path))
    for first, texts in rows:
        yield label_name(bare_uri(first)), [text for text in (texts[:1] if with_notations else texts) if text]


def _has_notations(rows: list[tuple[str, list[str]]], name: str) -> bool:
    """Whether the third column is that of Annif's vocabularies: URI, label, notation."""
    third = [texts[1] for _, texts in rows if len(texts) == 2 and texts[1]]
    bracketed = all(first != bare_uri(first) for first, _ in rows)
    uris = bracketed or all(looks_like_uri(first) for first, _ in rows)
    if not third or not uris or any(len(texts) > 2 for _, texts in rows):
        return False
    other = next((text for text in third if not _NOTATION.fullmatch(text)), None)
    say = f"is read as further names of the labels, such as {quoted(other)}, not as notations"
    if other is None:
        say = f"holds notations, such as {quoted(third[0])}, which are no words of the labels"
    if other is None or bracketed:
        warn_data(
            f"{name}: the third column {say}. A CSV with the columns uri, label, alternative and notation says which "
            "is which."
        )
    return other is None


def _of_objects(path: PathLike) -> Iterator[tuple[str, list[str]]]:
    for number, record in enumerate(read_records(path), 1):
        label, text = record.get("label"), record.get("text")
        texts: Any = [text] if isinstance(text, str) else text
        fine = isinstance(texts, list) and all(isinstance(part, str) for part in texts)
        if isinstance(label, bool) or not isinstance(label, str | int) or not (fine and label_name(str(label))):
            rule = "must have a label, and a text that is a string or a list of strings"
            raise unexpected(f"{shown(path)}, object {number}", rule, quoted(record))
        yield label_name(str(label)), texts
