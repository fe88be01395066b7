"""What is served: the list of models, the card of each, health, and the page for people; and, behind an admin key,
``POST …/update`` and ``POST …/reload``: a model learns, or its folder is read again."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from sylvan.models.blocks import has_probabilities
from sylvan.params.wording import counted
from sylvan.serve.answers import known_label
from sylvan.serve.bodies import texts_of
from sylvan.serve.calls import ADMIN, ANYONE, JSON, Call, Operation, Reply
from sylvan.serve.problems import Problem
from sylvan.serve.versions import Version

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_FOLDER = Path(__file__).parents[1] / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".json": "application/json", ".svg": "image/svg+xml",
}  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_SECURITY = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]
_BAD_USAGE = 2  # exit code of the command line for what its user can mend


class ModelLine(msgspec.Struct):
    """A model at a glance; ``message`` says why the newest version on disk isn't the one that is served."""

    name: str
    title: str
    takes: str | None
    labels: int | None
    version: str | None
    ready: bool
    message: str | None


class ModelList(msgspec.Struct):
    """The models that are served."""

    models: list[ModelLine]


class ModelCard(msgspec.Struct):
    """What there is to know of a model: its sizes, its parameters, figures of its training, what can be asked."""

    name: str
    title: str
    takes: str
    labels: int
    version: str
    ready: bool
    message: str | None
    kind: str
    owner: str = msgspec.field(name="class")
    summary: str = ""
    facts: dict[str, int] = {}
    parameters: dict[str, dict[str, Any]] = {}
    measured: dict[str, Any] | None = None
    bytes: int = 0
    written_by: str = ""
    loaded: str = ""
    calibrated: bool = False
    n_trees: int = 0
    explains: bool = False
    examples: bool = False
    updates: bool = False
    options: list[str] = []
    language: str | None = None
    fields: list[str] = []
    labels_field: str = "labels"
    threshold: dict[str, Any] | None = None
    relations: bool = False


class ModelHealth(msgspec.Struct):
    """Whether a model can answer, by which version, and what is wrong with it or with a newer one, if so."""

    ready: bool
    version: str | None
    message: str | None


class Readiness(msgspec.Struct):
    """Whether the server can answer: it has looked at all of its models, and at least one is open."""

    ready: bool
    draining: bool
    models: dict[str, ModelHealth]


class Liveness(msgspec.Struct):
    """That the server's process answers at all."""

    live: bool


class Updated(msgspec.Struct):
    """The version that is served now, and what was done."""

    version: str
    message: str


class Reloaded(msgspec.Struct):
    """The version that is served now, whether it is a new one, and why the newest on disk isn't served, if so."""

    version: str
    changed: bool
    message: str | None


async def list_models(call: Call) -> ModelList:
    """Lists the models."""
    lines = []
    for served in call.service.served.values():
        version, title = served.current, served.folder.title
        takes, n_labels = (None, None) if version is None else (version.takes, version.n_labels)
        lines.append(
            ModelLine(served.name, title, takes, n_labels, served.checksum, version is not None, served.message)
        )
    return ModelList(lines)


async def describe(call: Call) -> ModelCard | Reply:
    """Describes a model and what can be asked of it."""
    served, version = call.asked()
    if served.message is None and call.header(b"if-none-match") == f'"{version.checksum}"':
        return Reply(b"", 304, headers=version.headers)
    card, takes = version.card, version.takes
    return ModelCard(
        served.name, served.folder.title, takes, version.n_labels, version.checksum, True, served.message,
        card.kind, card.owner, card.summary, card.facts, card.as_json()["parameters"], card.measured, card.n_bytes,
        card.written_by, version.loaded, takes != "vectors" and has_probabilities(version.model), len(version.trees),
        takes != "vectors", version.examples is not None or hasattr(version.inner, "nearest_with"),
        takes == "texts" and bool(call.service.keyring), version.rank_options, served.folder.language,
        list(version.text_fields), getattr(version.model, "labels_field_", "labels"), card.threshold,
        version.subjects is not None and any(version.subjects.broader.values()),
    )  # fmt: skip


async def live(call: Call) -> Liveness:
    """Says that the process lives."""
    return Liveness(True)


async def ready(call: Call) -> dict[str, Any] | Reply:
    """Says whether models answer, and what is wrong with each."""
    readiness = call.service.readiness()
    if readiness["ready"]:
        return readiness
    return Reply(msgspec.json.encode(readiness), 503, headers=[(b"retry-after", b"1")])


async def metrics(call: Call) -> Reply:
    """Counts and times, for Prometheus."""
    return Reply(call.service.metrics.text(), type=_PROMETHEUS)


async def openapi(call: Call) -> Reply:
    """This document."""
    return Reply(call.service.openapi)


async def update(call: Call) -> Updated:
    """Teaches a model new texts and labels, has it forget rows or merge labels, and serves the new version."""
    served, version = call.asked()
    body = await call.read(call.service.bodies["update"])
    call.rows = n_texts = len(body.texts)
    if version.takes != "texts":
        raise Problem(422, f"The model takes {version.takes}: only models over texts are updated here.")
    if n_texts != len(body.labels):
        n_labels, texts = len(body.labels), counted(n_texts, "text")
        raise Problem(422, f"The 'labels' field must be a list for each text. Got {n_labels} for {texts}.")
    if not (body.texts or body.forget or body.merge):
        raise Problem(422, "There is nothing to do: give 'texts' and 'labels', 'forget' or 'merge'.")
    if not all(body.merge.values()):
        raise Problem(422, "The 'merge' field must name labels for each that they become. Got none.")
    merges = {_label(version, into): [_label(version, name) for name in names] for into, names in body.merge.items()}
    message = await _run_update(served.folder.folder, version, texts_of(version, body.texts, call.limits), body, merges)
    await served.reload()
    call.version = served.version()
    return Updated(call.version.checksum, message)


async def reload(call: Call) -> Reloaded:
    """Reads the model's folder again."""
    served = call.served()
    changed = await served.reload(force=True)
    call.version = served.version()
    return Reloaded(call.version.checksum, changed, served.message)


def _label(version: Version, name: str) -> str:
    """The name of a label that is to be merged."""
    return str(version.label(known_label(version, name, "merge")))


async def _run_update(
    folder: str, version: Version, texts: list[str], body: Any, merges: dict[str, list[str]]
) -> str:
    """Have ``sylvan update`` do it, in a process of its own: whatever memory it takes is gone with it."""
    with tempfile.TemporaryDirectory(prefix="sylvan-update-") as scratch:
        words = [sys.executable, "-m", "sylvan", "update", folder]
        if body.texts:
            fields, labels_field = version.model.text_fields_, version.model.labels_field_
            words += ["--label-separator", "none", os.path.join(scratch, "rows.jsonl")]
            with open(words[-1], "wb") as stream:
                for text, labels in zip(texts, body.labels, strict=True):
                    row = {**dict.fromkeys(fields, ""), fields[0]: text, labels_field: labels}
                    stream.write(msgspec.json.encode(row) + b"\n")
        if body.forget:
            words += ["--forget", os.path.join(scratch, "ids.txt")]
            with open(words[-1], "w", encoding="ascii") as lines:
                lines.writelines(f"{number}\n" for number in body.forget)
        # As JSON: a label's name may hold commas and equals signs.
        words += [f"--merge={json.dumps({into: names})}" for into, names in merges.items()]
        code, said = await _run(words)
    said = re.sub(r"^Read .*\n", "", said, flags=re.MULTILINE).replace(f"{scratch}{os.sep}", "")
    if code:
        sentence = re.split(r"^Error: ", said, flags=re.MULTILINE)[-1].strip()
        status = 409 if sentence.startswith(f"{folder!r} is being updated by ") else 422 if code == _BAD_USAGE else 503
        raise Problem(status, sentence or f"The update ended with exit code {code}.")
    return said.strip()


async def _run(words: list[str]) -> tuple[int, str]:
    """The exit code of a command and what it said on stderr; the command ends with whoever waits for it."""
    none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*words, stdin=none, stdout=none, stderr=pipe)
    except (OSError, ValueError) as error:  # labels that are too long for a command line, or that hold a NUL
        raise Problem(422, f"The update can't be begun: {error}.") from error
    try:
        _, said = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    return process.returncode or 0, said.decode("utf-8", "replace")


@functools.cache
def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by their names, and the tag of each."""
    contents = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
    return {name: (data, f'"{hashlib.sha256(data).hexdigest()[:16]}"') for name, data in contents.items()}


async def page_file(call: Call) -> Reply:
    """A file. What a client names is looked up among the files that are known, and never becomes a path."""
    name = call.scope["path_params"].get("file", "index.html")
    if name not in page_files():
        raise Problem(404, "There is nothing at this address.")
    content, tag = page_files()[name]
    headers = [*_PAGE_SECURITY, (b"etag", tag.encode())]
    if call.header(b"if-none-match") == tag:
        return Reply(b"", 304, headers=headers)
    return Reply(content, type=_TYPES[Path(name).suffix], headers=headers)


OPERATIONS = (
    Operation("GET", "/v1/models", list_models, ModelList, errors=(503,)),
    Operation("GET", "/v1/models/{model}", describe, ModelCard),
    Operation("POST", "/v1/models/{model}/update", update, Updated, {JSON: "update"}, who=ADMIN, errors=(409,),
              tag="changes"),
    Operation("POST", "/v1/models/{model}/reload", reload, Reloaded, who=ADMIN, tag="changes"),
)
HEALTH = (  # KServe's names for health besides
    *(Operation("GET", path, live, Liveness, who=ANYONE, tag="health") for path in ("/health/live", "/v2/health/live")),
    *(Operation("GET", path, ready, Readiness, who=ANYONE, errors=(503,), tag="health")
      for path in ("/health/ready", "/v2/health/ready")),
    Operation("GET", "/metrics", metrics, answer_type="text/plain", tag="health"),
    Operation("GET", "/openapi.json", openapi, who=ANYONE, tag="health"),
)  # fmt: skip
PAGE = (
    Operation("GET", "/", page_file, answer_type="text/html", who=ANYONE, tag="page", words="The page for people."),
    Operation("GET", "/page/{file}", page_file, answer_type="text/*", who=ANYONE, errors=(404,), tag="page",
              words="A file of the page."),
)  # fmt: skip
