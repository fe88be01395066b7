"""RDF files as rdflib's graphs, of what stands in the file alone: nothing is ever fetched."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from xml.parsers import expat

from sylvan.data.text_rows import quoted
from sylvan.errors import DataError, DataWarning

RDF_FORMS: Mapping[str, str] = MappingProxyType({
    ".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".owl": "xml", ".nt": "nt", ".n3": "n3", ".jsonld": "json-ld",
})  # fmt: skip
RELATIVE = "http://relative.invalid/"  # what URIs are relative to where the file doesn't say
# XML that said it was UTF-16, and has become UTF-8 on the way.
_UTF_16_DECLARED = re.compile(rb"""\A((?:\xef\xbb\xbf)?<\?xml[^>]*?)\s+encoding=["']utf-?16[a-z]*["']""", re.IGNORECASE)
_BOM, _UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_graph(content: bytes, form: str, name: str) -> Any:
    """The graph of a file."""
    try:
        import rdflib
    except ImportError as error:
        raise DataError(f'{name}: reading SKOS needs rdflib: pip install "sylvan[rdf]", or give a TSV.') from error
    if form == "xml":
        content = _UTF_16_DECLARED.sub(rb"\1", content)
        _refuse_entities(content, name)
    else:
        content = _utf_8(content, form, name)
    if form == "json-ld":
        _refuse_contexts(content, name)
    graph = rdflib.Graph()
    try:
        # A stream of bytes, as the encoding of RDF/XML stands within.
        graph.parse(io.BytesIO(content), format=form, publicID=RELATIVE)
    except Exception as error:  # every parser of rdflib's fails in ways of its own
        raise DataError(f"{name}: not {form} ({' '.join(str(error).split())[:200]}).") from error
    imported = sorted(str(other) for other in graph.objects(predicate=rdflib.OWL.imports))
    if imported:
        warnings.warn(
            f"{name} imports {imported[0]}{' and others' * (len(imported) > 1)}, which isn't fetched: only what stands "
            "in the file counts.", DataWarning, stacklevel=2,
        )  # fmt: skip
    return graph


def _utf_8(content: bytes, form: str, name: str) -> bytes:
    try:
        if content.startswith(_UTF_16):
            return content.decode("utf-16").encode()
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: {form} must be UTF-8, which this isn't (byte {error.start + 1}): convert the file, for instance "
            "with iconv."
        ) from error
    return content.removeprefix(_BOM)


class _Begun(Exception):
    """The first element of an XML file is reached: what follows names nothing from elsewhere."""


def _refuse_entities(content: bytes, name: str) -> None:
    """Refuse XML of which a part lies elsewhere; the parser would leave it out without a word."""
    found: list[str] = []

    def entity(_: str, __: bool, value: str | None, base: str | None, system: str | None, *rest: Any) -> None:
        found.extend([] if system is None else [system])

    def doctype(_: str, system: str | None, *rest: Any) -> None:
        found.extend([] if system is None else [system])

    def begin(*_: Any) -> None:
        raise _Begun

    parser = expat.ParserCreate()
    parser.EntityDeclHandler, parser.StartDoctypeDeclHandler, parser.StartElementHandler = entity, doctype, begin
    with suppress(_Begun, expat.ExpatError):  # what is no XML is rdflib's to say
        parser.Parse(content, True)
    if found:
        raise DataError(
            f"{name}: its document type names {quoted(found[0])}, which would have to be fetched, and Sylvan fetches "
            "nothing for a vocabulary: save the file without it, as Turtle for instance."
        )


def _refuse_contexts(content: bytes, name: str) -> None:
    """Refuse JSON-LD whose terms are explained elsewhere."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: not json-ld ({' '.join(str(error).split())[:200]}).") from error
    found = next(_contexts(record), None)
    if found is not None:
        raise DataError(
            f"{name}: its @context is {quoted(found)}, which would have to be fetched, and Sylvan fetches nothing for "
            "a vocabulary: put the content of the context into the file, or convert it to Turtle."
        )


def _contexts(value: Any) -> Iterator[str]:
    """Every address of a context, at any depth."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                listed = inner if isinstance(inner, list) else [inner]
                if key in ("@context", "@import"):
                    yield from (one for one in listed if isinstance(one, str))
                waiting.append(inner)
        elif isinstance(value, list):
            waiting.extend(value)
