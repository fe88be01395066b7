"""Annif's REST API besides: its clients, its web page and its ``http`` backend get answers from models served here. A
project is a model that takes texts. Values that aren't as they should be are answered with 400, as there."""

from __future__ import annotations

import asyncio
import datetime
import functools
import urllib.parse
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sylvan.labels.vocabulary import looks_like_uri
from sylvan.serve.answers import RankedRow, answers
from sylvan.serve.bodies import Asked
from sylvan.serve.calls import JSON, Call, Operation, Parameter, Reply, convert, decode, fields_of
from sylvan.serve.problems import Problem
from sylvan.serve.service import Service
from sylvan.serve.settings import Limits
from sylvan.serve.versions import Served, Version, stamp_of
from sylvan.version import __version__

_FORM, _TSV = "application/x-www-form-urlencoded", "text/tab-separated-values; charset=utf-8"
_MOST_DOCUMENTS = 32  # of a batch
_MOST_FIELDS = 1000  # of a form
_LINES = 10_000  # of subjects, written at a time
_OPTIONS = ("limit", "threshold", "language")
_LANGUAGE = {"type": "string", "maxLength": 100}
_UNKNOWN = "und"  # BCP 47's word for a language that isn't known; a project must name one


class ApiInfo(msgspec.Struct):
    """What answers here."""

    title: str
    version: str


class Vocab(msgspec.Struct):
    """The labels of a model: in which languages, and how many."""

    vocab_id: str
    languages: list[str]
    size: int
    loaded: bool


class Backend(msgspec.Struct):
    """What ranks."""

    backend_id: str


class Project(msgspec.Struct):
    """A model that takes texts; null is what isn't known while it is being opened."""

    project_id: str
    name: str
    language: str
    backend: Backend
    vocab: Vocab | None
    vocab_language: str | None
    is_trained: bool | None
    modification_time: str | None


class ListedVocabs(msgspec.Struct):
    """The labels of each project."""

    vocabs: list[Vocab]


class ListedProjects(msgspec.Struct):
    """All models that take texts."""

    projects: list[Project]


class Suggestion(msgspec.Struct):
    """A label of a text and its probability; of a model that isn't calibrated, its score mapped into [0, 1]."""

    uri: str
    label: str
    score: float
    notation: str | None = None


class Suggestions(msgspec.Struct):
    """The labels of a text, best first."""

    results: list[Suggestion]


class DocumentSuggestions(msgspec.Struct):
    """The labels of a document, best first."""

    results: list[Suggestion]
    document_id: str | None


@functools.cache
def _bodies(limits: Limits) -> dict[str, type[Any]]:
    """The types of requests, with a server's limits in them."""

    def struct(name: str, words: str, *fields: Any, strict: bool = False) -> type[Any]:
        return msgspec.defstruct(name, fields, namespace={"__doc__": words}, forbid_unknown_fields=strict)

    text = ("text", Annotated[str, Meta(max_length=limits.text_length)])
    options = (
        ("limit", Annotated[int, Meta(ge=0)], 10),
        ("threshold", Annotated[float, Meta(ge=0, le=1)], 0.0),
        ("language", Annotated[str, Meta(max_length=100)], ""),
    )
    document = struct(
        "SuggestDocument", "A text, and an id that comes back with its labels; metadata are passed over.",
        text, ("document_id", str | None, None), ("metadata", dict[str, str], {}),
    )  # fmt: skip
    documents: Any = Annotated[list[document], Meta(max_length=min(_MOST_DOCUMENTS, limits.texts))]  # type: ignore[valid-type]
    return {
        "form": struct("SuggestForm", "A text to find labels for; further fields are passed over.", text, *options),
        "batch": struct("SuggestBatch", "Texts to find labels for.", ("documents", documents), strict=True),
        "options": struct("SuggestOptions", "How many labels a text gets.", *options),
    }


def uri_of(version: Version, label: str | int) -> str:
    """The URI of a label: itself, or its subject's in the vocabulary, or its name, percent-encoded. A name isn't a URI
    where it has blanks or the like, and Annif refuses to load such a one."""
    word, subjects = str(label), version.subjects
    if looks_like_uri(word) or (subjects is not None and word in subjects):
        return word
    return (subjects is not None and subjects.uri(word)) or urllib.parse.quote(word, safe="")


async def info(call: Call) -> ApiInfo:
    """Says what answers here, in Annif's form."""
    return ApiInfo("Sylvan", __version__)


async def projects(call: Call) -> ListedProjects:
    """Lists the models that take texts, as Annif's projects."""
    served = [each for each in call.service.served.values() if each.current is None or each.current.takes == "texts"]
    return ListedProjects(await asyncio.to_thread(lambda: list(map(_project, served))))


async def project(call: Call) -> Project:
    """Describes a model as Annif's project."""
    return await asyncio.to_thread(_project, _asked_project(call)[0])


async def vocabs(call: Call) -> ListedVocabs:
    """Lists the models' labels, as Annif's vocabularies."""
    versions = [served.current for served in call.service.served.values() if served.current is not None]
    texts = [version for version in versions if version.takes == "texts"]
    return ListedVocabs(await asyncio.to_thread(lambda: list(map(_vocab, texts))))


async def subjects(call: Call) -> Reply:
    """Writes a model's labels as the TSV of URIs and names that Annif's load-vocab takes."""
    _, version = _asked_project(call)
    language = call.query().get("language", "")
    await _need_language(version, language)
    return Reply(type=_TSV, headers=version.headers, pieces=_subject_lines(version, language))


async def suggest(call: Call) -> Suggestions:
    """Finds the labels of a text, as Annif does."""
    served, version = _asked_project(call)
    call.need_type(_FORM)
    served.engine.check_room()
    form = await asyncio.to_thread(_fields, await call.body())
    options = convert(form, _bodies(call.limits)["form"], 400)
    (row,) = await _suggested(call, served, version, [options.text], options)
    return Suggestions(row)


async def suggest_batch(call: Call) -> list[DocumentSuggestions]:
    """Finds the labels of up to 32 texts, as Annif does."""
    served, version = _asked_project(call)
    call.need_type(JSON)
    served.engine.check_room()
    options = convert(call.query(), _bodies(call.limits)["options"], 400)
    try:
        documents = decode(await call.body(), _bodies(call.limits)["batch"]).documents
    except Problem as problem:
        raise Problem(400 if problem.status == 422 else problem.status, problem.detail) from None
    rows = await _suggested(call, served, version, [document.text for document in documents], options)
    return [DocumentSuggestions(row, document.document_id) for row, document in zip(rows, documents, strict=True)]


def operations(service: Service) -> list[Operation]:
    """The routes."""
    bodies, language = _bodies(service.limits), Parameter("language", "Of the labels, such as en.", _LANGUAGE)
    limit = {"type": "integer", "minimum": 0, "default": 10}
    options = (
        Parameter("limit", f"How many labels at most; above {service.limits.k} as many as that.", limit),
        Parameter("threshold", "The least score.", {"type": "number", "minimum": 0, "maximum": 1, "default": 0}),
        language,
    )
    routes = (
        Operation("POST", "/v1/projects/{project}/suggest", suggest, Suggestions, {_FORM: bodies["form"]},
                  errors=(400, 429)),
        Operation("POST", "/v1/projects/{project}/suggest-batch", suggest_batch, list[DocumentSuggestions],
                  {JSON: bodies["batch"]}, query=options, errors=(400, 429)),
        Operation("GET", "/v1/projects", projects, ListedProjects),
        Operation("GET", "/v1/projects/{project}", project, Project),
        Operation("GET", "/v1/vocabs", vocabs, ListedVocabs),
        Operation("GET", "/v1/vocabs/{project}/subjects", subjects, answer_type=_TSV, query=(language,),
                  errors=(400, 422)),
        Operation("GET", "/v1/", info, ApiInfo),
    )  # fmt: skip
    return [replace(operation, tag="annif") for operation in routes]


def _asked_project(call: Call) -> tuple[Served, Version]:
    """The model that a path names, and its current version."""
    served, version = call.asked("project")
    if version.takes != "texts":
        raise Problem(404, f"The model {call.model!r} takes {version.takes}, and projects are models that take texts.")
    return served, version


def _project(served: Served) -> Project:
    """A model as a project."""
    folder, version, stamp = served.folder, served.current, stamp_of(served.folder.folder)
    vocab = language = changed = None
    if version is not None:
        vocab = _vocab(version)
        wanted = (folder.language, _UNKNOWN, "en", *vocab.languages)
        language = next(name for name in wanted if name in vocab.languages)
        if stamp is not None:
            changed = datetime.datetime.fromtimestamp(stamp[0] // 10**9, datetime.timezone.utc).isoformat()
            changed = changed.replace("+00:00", "Z")
    return Project(
        served.name, folder.title, folder.language or _UNKNOWN, Backend("sylvan"), vocab, language,
        None if version is None else True, changed,
    )  # fmt: skip


def _vocab(version: Version) -> Vocab:
    return Vocab(version.served.name, _languages(version), version.n_labels - len(version.removed), True)


def _languages(version: Version) -> list[str]:
    """The languages that labels can be had in."""
    usual = version.served.language or _UNKNOWN
    return sorted({language or usual for language in version.languages}) or [usual]


async def _need_language(version: Version, language: str) -> None:
    """Refuse a language that the labels don't have; where that of some isn't known, it may be any."""
    if not language or language == version.served.language:
        return
    languages = await asyncio.to_thread(_languages, version)
    if language not in languages and _UNKNOWN not in languages:
        words = " or ".join(map(repr, languages))
        raise Problem(400, f"The 'language' field must be {words}, as the labels are. Got {language!r:.60} instead.")


def _fields(data: bytes) -> dict[str, str]:
    """The fields of a form that are of use."""
    return fields_of(data, "form", "utf-8", _MOST_FIELDS, 400, ("text", *_OPTIONS))


async def _suggested(
    call: Call, served: Served, version: Version, texts: list[str], options: Any
) -> list[list[Suggestion]]:
    """The labels of each text with a score above 0, and at least the threshold, as many as there may be."""
    await _need_language(version, options.language)
    call.rows = len(texts)
    k = min(options.limit, call.limits.k)  # Annif's own clients ask for more than they need
    if not texts or k == 0:
        return [[] for _ in texts]
    request = Asked(k, probabilities=True)
    rows: list[RankedRow] = await served.engine.ask((version, request), texts, partial(answers, version, request))
    return [
        [
            Suggestion(uri_of(version, label), _name(version, label, options.language), score)
            for label, score in zip(row.labels, row.probabilities or (), strict=True)
            if score > 0 and score >= options.threshold
        ]
        for row in rows
    ]


def _name(version: Version, label: str | int, language: str = "") -> str:
    """What people call a label, in a language where one is asked for."""
    subjects = version.subjects
    if subjects is None or (not language and not looks_like_uri(str(label)) and label not in subjects):
        return str(label)
    return subjects.label(uri_of(version, label), language or version.served.language) or str(label)


async def _subject_lines(version: Version, language: str) -> AsyncIterator[bytes]:
    """A URI and a name for each label, many at a time."""

    def block(first: int) -> bytes:
        last, names = min(first + _LINES, version.n_labels), version.vocabulary
        every: Sequence[str | int] = range(first, last) if names is None else names[first:last]
        labels = (label for number, label in enumerate(every, first) if number not in version.removed)
        named = ((uri_of(version, label), _name(version, label, language).split()) for label in labels)
        return "".join(f"<{uri}>\t{' '.join(words)}\n" for uri, words in named).encode("utf-8")

    for first in range(0, version.n_labels, _LINES):
        yield await asyncio.to_thread(block, first)
