"""Records in MARCXML through pymarc: text and labels from fields and subfields, record by record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax import SAXException, SAXParseException, make_parser
from xml.sax.handler import ContentHandler, LexicalHandler, feature_namespaces, property_lexical_handler

from sylvan.data.formats.format import Format, Layout, Records
from sylvan.data.formats.rdf import without_utf16
from sylvan.data.label_cells import AUTO, LabelCells
from sylvan.data.streams import InputStream, PathLike, open_read, shown
from sylvan.data.text_rows import Row, TextData, field_names, quoted
from sylvan.errors import DataError, ParameterError, warn_data
from sylvan.labels.vocabulary import composed, looks_like_uri
from sylvan.lazy import need_extra
from sylvan.parallel import progress

_NAMESPACES = ("http://www.loc.gov/MARC21/slim", None)
_BLOCK = 1 << 16
_PART = re.compile(r"([0-9A-Z]{3})(?:\|([0-9a-z *]{2})\|)?([a-z0-9]*)")
_NON_FILING = dict.fromkeys((0x88, 0x89, 0x98, 0x9C))  # characters around what isn't sorted, such as an article
# What ISBD puts at the end: a mark before the next part, and a full stop, here one that ends no abbreviation.
_MARKS = re.compile(r"\s*[/:;,=]\s*$")
_STOP = re.compile(r"(?<=[^\W_]{3})(?<!\betc)(?<!\bInc)(?<!\bLtd)\.$|(?<=[-)\]\"”])\.$")
_LISTED = 100  # fields that are named


def read_marc(
    path: PathLike, *, text_fields: str | Sequence[str] = "245a", labels_field: str | Sequence[str] | None = "650a",
    label_separator: str | None = AUTO, separator: str = " ",
) -> TextData:  # fmt: skip
    """Read texts and labels from MARCXML, also from within the answers of OAI-PMH and SRU; needs pymarc (``pip install
    "sylvan[marc]"``).

    ``"245a"`` is subfield a of the fields 245, ``"245ab"`` its subfields a and b, ``"245"`` all that are letters, and
    ``"001"`` a control field. Indicators don't matter, unless they stand between bars: ``"650|*0|a"`` takes fields with
    any first and the second 0 (a blank is written as one). Every field that is there counts, and every subfield.

    Characters that mark what isn't sorted are left out, and so is the punctuation at the end of labels: ``Whaling.``
    and ``Whaling /`` are ``Whaling``. A full stop stays behind fewer than three letters and behind "etc", "Inc" and
    "Ltd".

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.
    text_fields : str or sequence of str
        Where the text is; all of it is joined by ``separator``.
    labels_field : str, sequence of str, or None
        Where the labels are; several may stand in one string with commas between. Of one subfield every one is a label;
        several of a field are joined to one, in fields 6xx with " -- " before v, x, y and z. None reads texts alone.
    label_separator : str or None
        As in :func:`read_jsonl`, for labels within a subfield.
    separator : str

    Returns
    -------
    TextData

    Raises
    ------
    DataError
        When no record has a field or subfield that is asked for (texts alone may lack some, with a warning); when the
        file is missing, cut short, no XML, no MARCXML or declares entities; when pymarc is missing.
    ParameterError
        When a field is named in another way.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "books.xml"
    >>> _ = path.write_text('''<collection xmlns="http://www.loc.gov/MARC21/slim"><record>
    ... <controlfield tag="001">b1</controlfield>
    ... <datafield tag="245" ind1="1" ind2="0"><subfield code="a">Moby Dick /</subfield></datafield>
    ... <datafield tag="650" ind1=" " ind2="0"><subfield code="a">Whaling.</subfield></datafield>
    ... </record></collection>''')
    >>> data.read_marc(path)
    TextData(texts=['Moby Dick /'], labels=[['Whaling']], weights=None)
    """
    return MARCXML.read(path, Layout(text_fields, labels_field, "", True, label_separator, separator))


def stream_marc(
    path: PathLike, *, text_fields: str | Sequence[str] = "245a", labels_field: str | Sequence[str] | None = "650a",
    label_separator: str | None = AUTO, separator: str = " ", rows: int = 4096,
    records: list[Mapping[str, Any]] | None = None,
) -> Iterator[TextData]:  # fmt: skip
    """Read what :func:`read_marc` reads, ``rows`` records at a time; other parameters and errors as there.

    To ``records`` a mapping is appended for each record as it is read: ``"id"`` (field 001), and the text of each of
    ``text_fields``. Which fields no record has is known, and said, at the end.
    """
    return MARCXML.stream(path, rows, Layout(text_fields, labels_field, "", True, label_separator, separator), records)


@dataclass(frozen=True)
class _Part:
    """Subfields of a field, as they are named: ``245ab``, ``650|*0|a``."""

    name: str
    tag: str
    indicators: str  # two characters, * for any; "" where they don't matter
    codes: str  # of subfields; "" for all that are letters

    @classmethod
    def of(cls, name: str, path: PathLike) -> _Part:
        """What a name stands for."""
        if (match := _PART.fullmatch(name)) is None:
            raise ParameterError(
                f"{shown(path)}: parts of MARCXML are named by field and subfields, as in 245a, 245ab, 001, 650|*0|a. "
                f"Got {name!r} instead: say which have the text with text_fields (--text-field), and the labels with "
                "labels_field (--labels-field)."
            )
        return cls(name, match[1], match[2] or "", match[3])

    def values(self, record: Any) -> Iterator[str]:
        """What a record has there: of each field, or of each subfield where one is named."""
        for field in record.get_fields(self.tag):
            if field.control_field:
                yield field.data or ""
                continue
            pairs = zip(self.indicators, field.indicators, strict=False)
            if all(wanted in ("*", indicator) for wanted, indicator in pairs):
                chosen = [each for each in field if each.code in self.codes or (not self.codes and each.code.isalpha())]
                if len(self.codes) == 1:
                    yield from (subfield.value for subfield in chosen)
                elif chosen:
                    yield type(field)(self.tag, subfields=chosen).format_field()


class _Handler(ContentHandler, LexicalHandler):
    """Passes on to pymarc's handler what is MARCXML, and refuses declarations."""

    def __init__(self, name: str, inner: Any) -> None:
        super().__init__()
        self._name, self._inner = name, inner
        self.root = ""  # what the first element is called
        self.namespace: str | None = None  # another one that has records

    def startElementNS(self, name: tuple[str | None, str], qname: str | None, attrs: Any) -> None:
        self.root = self.root or name[1]
        if name[0] in _NAMESPACES:
            self._inner.startElementNS(name, qname, attrs)
        elif name[1] in ("record", "datafield"):
            self.namespace = self.namespace or name[0]

    def endElementNS(self, name: tuple[str | None, str], qname: str | None) -> None:
        if name[0] in _NAMESPACES and name[1] != "leader":  # whose length, which doesn't matter here, pymarc checks
            self._inner.endElementNS(name, qname)

    def characters(self, content: str) -> None:
        self._inner.characters(content)

    def startDTD(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise DataError(
            f"{self._name}: it declares a document type, which may hold entities of any size: save the records without."
        )


def _records(stream: InputStream) -> Iterator[Any]:
    """pymarc's record of each record of a file."""
    needs = f"{stream.name}: MARCXML needs pymarc, and other formats, such as JSON lines, don't"
    inner = need_extra(needs, "marc", "pymarc", refusal=DataError).XmlHandler()
    parser: Any = make_parser()  # which is fed
    handler, n_records, block = _Handler(stream.name, inner), 0, b"-"
    parser.setContentHandler(handler)
    parser.setFeature(feature_namespaces, True)
    parser.setProperty(property_lexical_handler, handler)
    with progress(f"reading {stream.name}", stream.packed_size, "B") as bar:
        while block:
            block = stream.read(_BLOCK)
            try:
                parser.feed(block if n_records else without_utf16(block)) if block else parser.close()
            except DataError:
                raise
            except SAXParseException as error:
                words = f"line {error.getLineNumber()}: not XML, or cut short ({error.getMessage()})"
                raise DataError(f"{stream.name}, {words}.") from error
            except (SAXException, KeyError, ValueError) as error:
                place = f"{stream.name}, record {n_records + len(inner.records) + 1}"
                raise DataError(f"{place}: not MARCXML, in which fields have a tag and subfields a code.") from error
            n_records += len(inner.records)
            yield from inner.records
            inner.records.clear()
            stream.report(bar)
    if not n_records:
        other = "" if handler.namespace is None else f", and records in the namespace {quoted(handler.namespace)}"
        raise DataError(
            f"{stream.name}: there are no records in MARCXML, which are in the namespace {_NAMESPACES[0]} or none. Got "
            f"the root element {quoted(handler.root)}{other}."
        )


class _Fields:
    """Which parts that are asked for no record has had so far, and what the records have instead."""

    def __init__(self, parts: Iterable[_Part]) -> None:
        self._missing = {part.name: None for part in parts}
        self._there: dict[str, set[str]] = {}

    def look(self, record: Any, present: Iterable[str]) -> None:
        """Take note of what a record has, until all parts were there."""
        for name in present:
            self._missing.pop(name, None)
        for field in record if self._missing else ():
            self._there.setdefault(field.tag, set()).update(field.subfields_as_dict())

    def check(self, name: str, refused: Iterable[str]) -> None:
        """Refuse what no record has, or warn of it."""
        if not self._missing:
            return
        listed = [
            tag + "".join(sorted(codes, key=lambda code: (code.isdigit(), code)))  # 650ax2, not 6502ax
            for tag, codes in sorted(self._there.items())
        ]
        there = ", ".join(listed[:_LISTED]) + (", …" if len(listed) > _LISTED else "")
        sentence = f"{name}: no record has {', '.join(self._missing)}. Their fields, with subfields, are: {there}."
        if not self._missing.keys().isdisjoint(refused):
            raise DataError(sentence)
        warn_data(sentence)


def _rows(path: PathLike, layout: Layout, taken: Records | None = None) -> Iterator[Row]:
    texts = [_Part.of(name, path) for name in field_names(layout.text_fields)]
    listed = layout.labels_field or ()
    labels = [_Part.of(each.strip(), path) for each in (listed.split(",") if isinstance(listed, str) else listed)]
    fields = _Fields([*texts, *labels])
    with open_read(path) as stream:
        cells, some_text = LabelCells(stream.name, layout.label_separator), False
        for number, record in enumerate(cells.watched(_records(stream)), 1):
            place = f"{stream.name}, record {number}"
            parts = {part.name: layout.separator.join(map(_clean, part.values(record))) for part in texts}
            names = {part.name: [_label(each) for each in part.values(record)] for part in labels}
            row = cells.list_of(place, [name for listed in names.values() for name in listed])
            fields.look(record, [part for part, values in (*parts.items(), *names.items()) if values])
            if taken is not None:
                identity = record.get("001")
                taken.append({"id": None if identity is None else identity.data, **parts})
            text = layout.separator.join(filter(None, parts.values()))
            some_text = some_text or bool(text)
            yield text, list(dict.fromkeys(row)), None
        # A few records to be ranked may well lack a field that the model has learned from.
        fields.check(stream.name, [part.name for part in (*texts, *labels)] if labels or not some_text else [])


def _clean(text: str) -> str:
    """A text on one line, without characters that mark what isn't sorted."""
    return " ".join(text.translate(_NON_FILING).split())


def _label(text: str) -> str:
    """A label without the punctuation that a record has behind it."""
    text = composed(_clean(text))
    return text if looks_like_uri(text) else _STOP.sub("", _MARKS.sub("", text))


MARCXML = Format(_rows, fields=lambda path, layout, texts: [] if texts else ["id"])
