"""RDF files as rdflib's graphs, of what stands in the file alone: nothing is ever fetched; and SKOS in them."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from xml.parsers import expat

from sylvan.data.text_rows import quoted
from sylvan.errors import DataError, warn_data
from sylvan.lazy import need_extra
from sylvan.params.wording import counted

RDF_FORMS: Mapping[str, str] = MappingProxyType({
    ".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".owl": "xml", ".nt": "nt", ".n3": "n3", ".jsonld": "json-ld",
})  # fmt: skip
RELATIVE = "http://relative.invalid/"  # what URIs are relative to where the file doesn't say
# XML that said it was UTF-16, and has become UTF-8 on the way.
_UTF_16_DECLARED = re.compile(rb"""\A((?:\xef\xbb\xbf)?<\?xml[^>]*?)\s+encoding=["']utf-?16[a-z]*["']""", re.IGNORECASE)
_BOM, _UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_XL = "http://www.w3.org/2008/05/skos-xl#"
_Texts = dict[str, dict[str, list[str]]]  # by URI and language


def without_utf16(content: bytes) -> bytes:
    """XML, or its beginning, which has become UTF-8 on the way, without a declaration that it is UTF-16."""
    return _UTF_16_DECLARED.sub(rb"\1", content)


def read_graph(content: bytes, form: str, name: str) -> Any:
    """The graph of a file."""
    rdflib = need_extra(f"{name}: SKOS needs rdflib, and a TSV doesn't", "rdf", "rdflib", refusal=DataError)
    if form == "xml":
        content = without_utf16(content)
        _refuse_entities(content, name)
    else:
        try:
            content = content.decode("utf-16" if content.startswith(_UTF_16) else "utf-8").encode().removeprefix(_BOM)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}: {form} must be UTF-8, which this isn't (byte {error.start + 1}): convert the file, for "
                "instance with iconv."
            ) from error
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
        warn_data(
            f"{name} imports {imported[0]}{' and others' * (len(imported) > 1)}, which isn't fetched: only what stands "
            "in the file counts."
        )
    return graph


class _Begun(Exception):
    """The first element of an XML file is reached: what follows names nothing from elsewhere."""


def _refuse_entities(content: bytes, name: str) -> None:
    """Refuse XML of which a part lies elsewhere; the parser would leave it out without a word."""
    links: list[str] = []

    def entity(_: str, __: bool, value: str | None, base: str | None, system: str | None, *unused: Any) -> None:
        links.extend([] if system is None else [system])

    def begin(*_: Any) -> None:
        raise _Begun

    parser = expat.ParserCreate()
    parser.EntityDeclHandler, parser.StartElementHandler = entity, begin
    parser.StartDoctypeDeclHandler = lambda _, system, *unused: entity("", False, None, None, system)
    with suppress(_Begun, expat.ExpatError):  # what is no XML is rdflib's to say
        parser.Parse(content, True)
    if links:
        raise DataError(
            f"{name}: its document type names {quoted(links[0])}, which would have to be fetched, and Sylvan fetches "
            "nothing for a vocabulary: save the file without it, as Turtle for instance."
        )


def _refuse_contexts(content: bytes, name: str) -> None:
    """Refuse JSON-LD whose terms are explained elsewhere, at any depth."""
    try:
        waiting = [json.loads(content)]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: not json-ld ({' '.join(str(error).split())[:200]}).") from error
    while waiting:
        value = waiting.pop()
        for key, inner in value.items() if isinstance(value, dict) else ():
            listed = inner if isinstance(inner, list) else [inner]
            address = next((item for item in listed if isinstance(item, str)), None)
            if key in ("@context", "@import") and address is not None:
                raise DataError(
                    f"{name}: its @context is {quoted(address)}, which would have to be fetched, and Sylvan fetches "
                    "nothing for a vocabulary: put the content of the context into the file, or convert it to Turtle."
                )
        waiting.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def read_skos(content: bytes, form: str, name: str) -> dict[str, Any]:
    """The concepts of a vocabulary, as the parameters of :class:`~sylvan.data.SubjectVocabulary`."""
    graph = read_graph(content, form, name)
    from rdflib.namespace import RDFS, SKOS

    deprecated = _deprecated(graph)
    concepts = _concepts(graph, name) - {*deprecated}
    preferred = _texts(graph, concepts, SKOS.prefLabel, "prefLabel")
    for uri, by in _texts(graph, concepts, RDFS.label).items():  # where SKOS has no name in this language
        for language, texts in by.items():
            preferred.setdefault(uri, {}).setdefault(language, texts)
    alternative = _texts(graph, concepts, SKOS.altLabel, "altLabel")
    for uri, by in preferred.items():
        for tag in (tag for tag, texts in by.items() if texts[1:]):  # of which one can be the preferred label
            others = alternative.setdefault(uri, {}).setdefault(tag, [])
            others[:0] = [text for text in by[tag][1:] if text not in others]
    fields: dict[str, Any] = {
        "labels": {uri: {tag: texts[0] for tag, texts in preferred.get(uri, {}).items()} for uri in sorted(concepts)},
        "alternative": alternative,
        "hidden": _texts(graph, concepts, SKOS.hiddenLabel, "hiddenLabel"),
        "definitions": _texts(graph, concepts, SKOS.definition),
        "deprecated": deprecated,
    }

    def related(relation: Any, opposite: Any) -> dict[str, list[str]]:
        pairs = {(str(subject), str(other)) for subject, other in graph.subject_objects(relation)}
        pairs |= {(str(subject), str(other)) for other, subject in graph.subject_objects(opposite)}
        listed: dict[str, list[str]] = {}
        for subject, other in sorted(pairs):
            if subject in concepts and other in concepts:
                listed.setdefault(subject, []).append(other)
        return listed

    return {**fields, "broader": related(SKOS.broader, SKOS.narrower), "related": related(SKOS.related, SKOS.related)}


def _concepts(graph: Any, name: str) -> set[str]:
    """The URIs of all concepts, those of the file's own kinds of concepts too."""
    from rdflib import URIRef
    from rdflib.namespace import RDF, RDFS, SKOS

    kinds = set(graph.transitive_subjects(RDFS.subClassOf, SKOS.Concept))
    nodes = {node for kind in kinds for node in graph.subjects(RDF.type, kind)}
    typed = {node for node in nodes if isinstance(node, URIRef)}
    relative = next((uri for uri in sorted(typed) if uri.startswith(RELATIVE)), None)
    if relative is not None:
        raise DataError(
            f"{name}: the concept {quoted(relative.removeprefix(RELATIVE))} has no full URI, and the file doesn't say "
            "what its URIs are relative to: add a base (@base, xml:base)."
        )
    if not typed:
        types = Counter(map(str, graph.objects(predicate=RDF.type))).most_common(1)
        instead = "".join(f" It has {counted(n, 'thing')} of the type {kind}." for kind, n in types)
        raise DataError(f"{name}: the file holds no subjects: no skos:Concept that has a URI.{instead}")
    if blank := nodes - typed:
        pairs = ((node, kind) for node in blank for kind in (SKOS.prefLabel, RDFS.label))
        names = sorted(f", such as {quoted(str(text))}" for pair in pairs for text in graph.objects(*pair))
        warn_data(f"{name}: {counted(len(blank), 'concept')} without a URI left out{''.join(names[:1])}.")
    return {*map(str, typed)}


def _deprecated(graph: Any) -> dict[str, str]:
    """The URIs of what is no longer in use, and the URI that stands in place of each, or ""."""
    from rdflib.namespace import DCTERMS, OWL

    dropped = [uri for uri, flag in graph.subject_objects(OWL.deprecated) if str(flag).lower() in ("true", "1")]
    return {str(uri): min(map(str, graph.objects(uri, DCTERMS.isReplacedBy)), default="") for uri in dropped}


def _texts(graph: Any, concepts: set[str], relation: Any, xl: str | None = None) -> _Texts:
    """What a relation gives each concept, in alphabetical order; with ``xl`` labels of SKOS-XL too."""
    from rdflib import Literal, URIRef

    pairs = [(uri, text) for uri, text in graph.subject_objects(relation) if isinstance(text, Literal)]
    if xl is not None:
        forms = dict(graph.subject_objects(URIRef(_XL + "literalForm")))
        pairs += [(uri, forms[node]) for uri, node in graph.subject_objects(URIRef(_XL + xl)) if node in forms]
    texts: _Texts = {}
    for uri, text in sorted(set(pairs), key=lambda pair: (str(pair[0]), str(pair[1]), pair[1].language or "")):
        if str(uri) in concepts:
            listed = texts.setdefault(str(uri), {}).setdefault(text.language or "", [])
            listed.extend([] if str(text) in listed else [str(text)])
    return texts
