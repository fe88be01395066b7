"""Vocabularies in SKOS, read by rdflib."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sylvan.errors import DataError

__all__ = ["SKOS_FORMS", "read_skos"]

SKOS_FORMS: Mapping[str, str] = MappingProxyType({
    ".ttl": "turtle", ".rdf": "xml", ".xml": "xml", ".owl": "xml", ".nt": "nt", ".n3": "n3", ".jsonld": "json-ld",
})  # fmt: skip


def read_skos(content: bytes, form: str, name: str) -> dict[str, Any]:
    """The concepts of a vocabulary, as the parameters of :class:`~sylvan.data.SubjectVocabulary`.

    Parameters
    ----------
    content : bytes
        Of the file.
    form : str
        Its format by rdflib's name, of ``SKOS_FORMS``.
    name : str
        What errors call the file.

    Raises
    ------
    DataError
        When rdflib is missing, or can't read it.
    """
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
            labels[str(uri)].setdefault(_language(label), str(label))
    others = {"alternative": SKOS.altLabel, "hidden": SKOS.hiddenLabel, "definitions": SKOS.definition}
    found: dict[str, Any] = {"labels": labels}
    for field, relation in others.items():
        texts: dict[str, dict[str, list[str]]] = {}
        for uri, text in sorted(graph.subject_objects(relation), key=str):
            if str(uri) in concepts and isinstance(text, rdflib.Literal):
                texts.setdefault(str(uri), {}).setdefault(_language(text), []).append(str(text))
        found[field] = texts

    def related(relation: Any, opposite: Any) -> dict[str, list[str]]:
        pairs = {(str(one), str(other)) for one, other in graph.subject_objects(relation)}
        pairs |= {(str(one), str(other)) for other, one in graph.subject_objects(opposite)}
        listed: dict[str, list[str]] = {}
        for one, other in sorted(pairs):
            if one in concepts and other in concepts:
                listed.setdefault(one, []).append(other)
        return listed

    return {**found, "broader": related(SKOS.broader, SKOS.narrower), "related": related(SKOS.related, SKOS.related)}


def _language(text: Any) -> str:
    return getattr(text, "language", None) or ""
