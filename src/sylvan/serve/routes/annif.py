"""Annif's REST API besides: its clients, its web page and its ``http`` backend get answers from models served here. A
project is a model that takes texts. Values that aren't as they should be are answered with 400, as there."""

from __future__ import annotations

import asyncio
import datetime
import urllib.parse
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from sylvan.data import SubjectVocabulary
from sylvan.labels.names import looks_like_uri
from sylvan.serve.asked import Asked, RankedRow, answers
from sylvan.serve.calls import JSON, Call, Operation, Parameter, Reply, Stream, decode
from sylvan.serve.problems import Problem, problem_of_body
from sylvan.serve.service import Service
from sylvan.serve.settings import Limits
from sylvan.serve.versions import Served, Version, stamp_of
from sylvan.version import __version__

_T = TypeVar("_T")
_FORM, _TSV = "application/x-www-form-urlencoded", "text/tab-separated-values; charset=utf-8"
_MOST_DOCUMENTS = 32  # of a batch
_MOST_FIELDS = 1000  # of a form
_LARGE = 1 << 16  # bytes of a form from which on it is taken apart in a thread
_LINES = 10_000  # of subjects, written at a time
_UNKNOWN = "und"  # BCP 47's word for a language that isn't known; a project must name one

_languages_of: weakref.WeakKeyDictionary[SubjectVocabulary, list[str]] = weakref.WeakKeyDictionary()


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


class _Bodies(NamedTuple):
    """The types of requests, with a server's limits in them."""

    form: type[Any]
    batch: type[Any]
    options: type[Any]


def _make_bodies(limits: Limits) -> _Bodies:
    def struct(name: str, words: str, *fields: Any) -> type[Any]:
        return msgspec.defstruct(name, fields, namespace={"__doc__": words})

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
    return _Bodies(
        struct("SuggestForm", "A text to find labels for; further fields are passed over.", text, *options),
        struct("SuggestBatch", "Texts to find labels for.", ("documents", documents)),
        struct("SuggestOptions", "How many labels a text gets.", *options),
    )


def uri_of(version: Version, label: str | int) -> str:
    """The URI of a label: itself, or its subject's in the vocabulary, or its name, percent-encoded. A name isn't a URI
    where it has blanks or the like, and Annif refuses to load such a one."""
    word, subjects = str(label), version.subjects
    if looks_like_uri(word) or (subjects is not None and word in subjects):
        return word
    known = None if subjects is None else subjects.uri(word)
    return known or urllib.parse.quote(word, safe="")


def operations(service: Service) -> list[Operation]:
    """The routes."""
    bodies, most = _make_bodies(service.limits), service.limits.k

    async def info(call: Call) -> Reply:
        return Reply.of(ApiInfo("Sylvan", __version__))

    async def projects(call: Call) -> Reply:
        served = [one for one in service.served.values() if one.current is None or one.current.takes == "texts"]
        return Reply.of(ListedProjects(await _in_thread(lambda: list(map(_project, served)))))

    async def project(call: Call) -> Reply:
        served, version = _asked_project(service, call)
        return Reply.of(await _in_thread(lambda: _project(served)), version.headers())

    async def vocabs(call: Call) -> Reply:
        versions = [one.current for one in service.served.values() if one.current is not None]
        texts = [version for version in versions if version.takes == "texts"]
        return Reply.of(ListedVocabs(await _in_thread(lambda: list(map(_vocab, texts)))))

    async def subjects(call: Call) -> Stream:
        _, version = _asked_project(service, call)
        language = call.query().get("language", "")
        await _need_language(version, language)
        return Stream(_subject_lines(version, language), _TSV, version.headers())

    async def suggest(call: Call) -> Reply:
        served, version = _asked_project(service, call)
        call.need_type(_FORM)
        served.engine.check_room()
        data = await call.body()
        form = _converted(_fields(data) if len(data) < _LARGE else await _in_thread(lambda: _fields(data)), bodies.form)
        (row,) = await _suggested(call, served, version, [form.text], form, most)
        return Reply.of(Suggestions(row), version.headers())

    async def suggest_batch(call: Call) -> Reply:
        served, version = _asked_project(service, call)
        call.need_type(JSON)
        served.engine.check_room()
        options = _converted(_of_options(call.query()), bodies.options)
        try:
            documents = decode(await call.body(), bodies.batch).documents
        except Problem as problem:
            raise Problem(400 if problem.status == 422 else problem.status, problem.detail) from None
        rows = await _suggested(call, served, version, [one.text for one in documents], options, most)
        results = [
            DocumentSuggestions(row, document.document_id) for row, document in zip(rows, documents, strict=True)
        ]
        return Reply.of(results, version.headers())

    name = Parameter("project", "The model's name.", "path")
    language = Parameter("language", "Of the labels, such as en.", schema={"type": "string", "maxLength": 100})
    options = (
        Parameter("limit", "How many labels at most.", schema={"type": "integer", "minimum": 0, "default": 10}),
        Parameter("threshold", "The least score.", schema={"type": "number", "minimum": 0, "maximum": 1, "default": 0}),
        language,
    )
    failing = (400, 404, 503)
    routes = [
        Operation(
            "POST", "/v1/projects/{project}/suggest", suggest, "Finds the labels of a text, as Annif does.",
            Suggestions, {_FORM: bodies.form}, parameters=(name,), errors=(*failing, 429),
        ),
        Operation(
            "POST", "/v1/projects/{project}/suggest-batch", suggest_batch,
            "Finds the labels of up to 32 texts, as Annif does.", list[DocumentSuggestions], {JSON: bodies.batch},
            parameters=(name, *options), errors=(*failing, 429),
        ),
        Operation(
            "GET", "/v1/projects", projects, "Lists the models that take texts, as Annif's projects.", ListedProjects
        ),
        Operation(
            "GET", "/v1/projects/{project}", project, "Describes a model as Annif's project.", Project,
            parameters=(name,), errors=(404, 503),
        ),
        Operation("GET", "/v1/vocabs", vocabs, "Lists the models' labels, as Annif's vocabularies.", ListedVocabs),
        Operation(
            "GET", "/v1/vocabs/{project}/subjects", subjects,
            "Writes a model's labels as the TSV of URIs and names that Annif's load-vocab takes.",
            answer_type=_TSV, parameters=(name, language), errors=(*failing, 422),
        ),
        Operation("GET", "/v1/", info, "Says what answers here, in Annif's form.", ApiInfo),
    ]  # fmt: skip
    return [replace(one, tag="annif") for one in routes]


def _asked_project(service: Service, call: Call) -> tuple[Served, Version]:
    """The model that a path names, and its current version."""
    served, version = service.asked(call, "project")
    if version.takes != "texts":
        raise Problem(404, f"The model {call.model!r} takes {version.takes}, and projects are models that take texts.")
    return served, version


async def _in_thread(work: Callable[[], _T]) -> _T:
    """The result of what may take a while, such as to go through a vocabulary."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def _project(served: Served) -> Project:
    """A model as a project."""
    folder, version, stamp = served.folder, served.current, stamp_of(served.folder.folder)
    result = Project(served.name, folder.title, folder.language or _UNKNOWN, Backend("sylvan"), None, None, None, None)
    if version is None:
        return result
    result.vocab = _vocab(version)
    wanted = (folder.language, _UNKNOWN, "en", *result.vocab.languages)
    result.vocab_language = next(one for one in wanted if one in result.vocab.languages)
    result.is_trained = True
    if stamp is not None:
        changed = datetime.datetime.fromtimestamp(stamp[0] // 10**9, datetime.timezone.utc)
        result.modification_time = changed.isoformat().replace("+00:00", "Z")
    return result


def _vocab(version: Version) -> Vocab:
    return Vocab(version.served.name, _languages(version), version.n_labels, True)


def _languages(version: Version) -> list[str]:
    """The languages that labels can be had in."""
    own, subjects = version.served.language or _UNKNOWN, version.subjects
    if subjects is None:
        return [own]
    known = _languages_of.get(subjects)
    if known is None:
        known = _languages_of[subjects] = subjects.languages
    return sorted({one or own for one in known}) or [own]


async def _need_language(version: Version, language: str) -> None:
    """Refuse a language that the labels don't have; where that of some isn't known, it may be any."""
    if not language or language == version.served.language:
        return
    known = await _in_thread(lambda: _languages(version))
    if language not in known and _UNKNOWN not in known:
        words = " or ".join(map(repr, known))
        raise Problem(400, f"The 'language' field must be {words}, as the labels are. Got {language!r:.60} instead.")


def _of_options(query: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if name in ("limit", "threshold", "language")}


def _fields(data: bytes) -> dict[str, str]:
    """The fields of a form that are of use."""
    try:
        pairs = urllib.parse.parse_qsl(
            data.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        raise Problem(400, f"The form must be UTF-8, percent-encoded, and of at most {_MOST_FIELDS} fields.") from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in ("text", "limit", "threshold", "language"):
            if name in values:
                raise Problem(400, f"The form gives {name!r} twice.")
            values[name] = value
    return values


def _converted(values: dict[str, str], kind: type[Any]) -> Any:
    """The strings of a form or query as what they are to be."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, problem_of_body(error, msgspec.json.encode(values), kind).detail) from None


async def _suggested(
    call: Call, served: Served, version: Version, texts: list[str], options: Any, most: int
) -> list[list[Suggestion]]:
    """The labels of each text with a score above 0, and at least the threshold, as many as there may be."""
    await _need_language(version, options.language)
    call.rows = len(texts)
    k = min(options.limit, most)
    if not texts or k == 0:
        return [[] for _ in texts]
    asked = Asked(k, probabilities=True)
    rows: list[RankedRow] = await served.engine.ask((version, asked), texts, partial(answers, version, asked))
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
        labels: Sequence[str | int] = range(first, last) if names is None else names[first:last]
        lines = (f"<{uri_of(version, one)}>\t{' '.join(_name(version, one, language).split())}\n" for one in labels)
        return "".join(lines).encode("utf-8")

    for first in range(0, version.n_labels, _LINES):
        yield await _in_thread(partial(block, first))
