"""Vocabularies in SKOS: concepts of a graph, what they are called and how they are related."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sylvan.data.formats.rdf import RELATIVE, read_graph
from sylvan.data.text_rows import quoted
from sylvan.errors import DataError
from sylvan.params.wording import counted

_XL = "http://www.w3.org/2008/05/skos-xl#"
_Texts = dict[str, dict[str, list[str]]]  # by URI and language


def read_skos(content: bytes, form: str, name: str) -> dict[str, Any]:
    """The concepts of a vocabulary, as the parameters of :class:`~sylvan.data.SubjectVocabulary`."""
    graph = read_graph(content, form, name)
    from rdflib.namespace import RDFS, SKOS

    concepts = _concepts(graph, name)
    preferred = _texts(graph, concepts, SKOS.prefLabel, "prefLabel")
    for uri, by in _texts(graph, concepts, RDFS.label).items():  # where SKOS has no name in this language
        for language, texts in by.items():
            preferred.setdefault(uri, {}).setdefault(language, texts)
    found: dict[str, Any] = {
        "labels": {uri: {at: texts[0] for at, texts in preferred.get(uri, {}).items()} for uri in sorted(concepts)},
        "alternative": _texts(graph, concepts, SKOS.altLabel, "altLabel"),
        "hidden": _texts(graph, concepts, SKOS.hiddenLabel, "hiddenLabel"),
        "definitions": _texts(graph, concepts, SKOS.definition),
    }

    def related(relation: Any, opposite: Any) -> dict[str, list[str]]:
        pairs = {(str(one), str(other)) for one, other in graph.subject_objects(relation)}
        pairs |= {(str(one), str(other)) for other, one in graph.subject_objects(opposite)}
        listed: dict[str, list[str]] = {}
        for one, other in sorted(pairs):
            if one in concepts and other in concepts:
                listed.setdefault(one, []).append(other)
        return listed

    return {**found, "broader": related(SKOS.broader, SKOS.narrower), "related": related(SKOS.related, SKOS.related)}


def _concepts(graph: Any, name: str) -> set[str]:
    """The URIs of all concepts, those of the file's own kinds of concepts too; but not of deprecated ones."""
    from rdflib import URIRef
    from rdflib.namespace import OWL, RDF, RDFS, SKOS

    kinds = set(graph.transitive_subjects(RDFS.subClassOf, SKOS.Concept))
    dropped = {str(uri) for uri, flag in graph.subject_objects(OWL.deprecated) if str(flag).lower() in ("true", "1")}
    typed = {uri for kind in kinds for uri in graph.subjects(RDF.type, kind) if isinstance(uri, URIRef)}
    relative = next((uri for uri in sorted(typed) if uri.startswith(RELATIVE)), None)
    if relative is not None:
        raise DataError(
            f"{name}: the concept {quoted(relative.removeprefix(RELATIVE))} has no full URI, and the file doesn't say "
            "what its URIs are relative to: add a base (@base, xml:base)."
        )
    if not typed:
        others = Counter(map(str, graph.objects(predicate=RDF.type))).most_common(1)
        instead = "".join(f" It has {counted(n, 'thing')} of the type {kind}." for kind, n in others)
        raise DataError(f"{name}: the file holds no subjects, which are of the type skos:Concept.{instead}")
    return {str(uri) for uri in typed} - dropped


def _texts(graph: Any, concepts: set[str], relation: Any, xl: str | None = None) -> _Texts:
    """What a relation gives each concept, in alphabetical order; with ``xl`` labels of SKOS-XL too."""
    from rdflib import Literal, URIRef

    pairs = [(uri, text) for uri, text in graph.subject_objects(relation) if isinstance(text, Literal)]
    if xl is not None:
        forms = dict(graph.subject_objects(URIRef(_XL + "literalForm")))
        pairs += [(uri, forms[at]) for uri, at in graph.subject_objects(URIRef(_XL + xl)) if at in forms]
    texts: _Texts = {}
    for uri, text in sorted(set(pairs), key=str):
        if str(uri) in concepts:
            listed = texts.setdefault(str(uri), {}).setdefault(text.language or "", [])
            listed.extend([] if str(text) in listed else [str(text)])
    return texts
