"""``POST …/update`` and ``POST …/reload``, behind an admin key: a model learns, or its folder is read again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from typing import Any

import msgspec

from sylvan.params.wording import counted
from sylvan.serve.bodies import text_of
from sylvan.serve.calls import ADMIN, JSON, Call, Operation, Reply, decode
from sylvan.serve.problems import Problem
from sylvan.serve.routes.ranking import MODEL
from sylvan.serve.service import Service
from sylvan.serve.versions import Version

_BAD_USAGE = 2  # exit code of the command line for what its user can mend


class Updated(msgspec.Struct):
    """The version that is served now, and what was done."""

    version: str
    message: str


class Reloaded(msgspec.Struct):
    """The version that is served now, whether it is a new one, and why the newest on disk isn't served, if so."""

    version: str
    changed: bool
    message: str | None


def operations(service: Service) -> list[Operation]:
    """The routes."""
    kind = service.bodies.update

    async def update(call: Call) -> Reply:
        served, version = service.asked(call)
        call.need_type(JSON)
        body = decode(await call.body(), kind)
        call.rows = len(body.texts)
        _check_update(version, body)
        texts = [text_of(version, one, service.limits, f"In 'texts[{at}]': ") for at, one in enumerate(body.texts)]
        message = await _run_update(served.folder.folder, version, texts, body)
        await served.reload()
        current = served.version()
        call.version = current.checksum
        return Reply.of(Updated(current.checksum, message), current.headers())

    async def reload(call: Call) -> Reply:
        served = service.find(call.params["model"])
        call.model = served.name
        changed = await served.reload(force=served.message is not None)
        current = served.version()
        call.version = current.checksum
        return Reply.of(Reloaded(current.checksum, changed, served.message), current.headers())

    return [
        Operation(
            "POST", "/v1/models/{model}/update", update,
            "Teaches a model new texts and labels, has it forget rows or merge labels, and serves the new version.",
            Updated, {JSON: kind}, parameters=(MODEL,), who=ADMIN, errors=(404, 503), tag="changes",
        ),
        Operation(
            "POST", "/v1/models/{model}/reload", reload, "Reads the model's folder again.", Reloaded,
            parameters=(MODEL,), who=ADMIN, errors=(403, 404, 503), tag="changes",
        ),
    ]  # fmt: skip


def _check_update(version: Version, body: Any) -> None:
    if version.takes != "texts":
        raise Problem(422, f"The model takes {version.takes}: only models over texts are updated here.")
    if len(body.texts) != len(body.labels):
        raise Problem(
            422,
            f"The 'labels' field must be a list for each text. Got {len(body.labels)} for "
            f"{counted(len(body.texts), 'text')}.",
        )
    if not (body.texts or body.forget or body.merge):
        raise Problem(422, "There is nothing to do: give 'texts' and 'labels', 'forget' or 'merge'.")
    for labels in body.merge.values():
        if not labels:
            raise Problem(422, "The 'merge' field must name labels for each that they become. Got none.")


async def _run_update(folder: str, version: Version, texts: list[str], body: Any) -> str:
    """Have ``sylvan update`` do it, in a process of its own: whatever memory it takes is gone with it."""
    with tempfile.TemporaryDirectory(prefix="sylvan-update-") as scratch:
        words = [sys.executable, "-m", "sylvan", "update", folder]
        if body.texts:
            field, labels_field = version.model.text_fields_[0], version.model.labels_field_
            rows = os.path.join(scratch, "rows.jsonl")
            with open(rows, "wb") as stream:
                for text, labels in zip(texts, body.labels, strict=True):
                    row = {**dict.fromkeys(version.model.text_fields_, ""), field: text, labels_field: labels}
                    stream.write(msgspec.json.encode(row) + b"\n")
            words.append(rows)
        if body.forget:
            ids = os.path.join(scratch, "ids.txt")
            with open(ids, "w", encoding="ascii") as lines:
                lines.writelines(f"{number}\n" for number in body.forget)
            words += ["--forget", ids]
        for into, labels in body.merge.items():
            words += [f"--merge={','.join(labels)}={into}"]
        code, said = await _run(words)
    if code:
        sentence = said.removeprefix("Error: ").strip() or f"The update ended with exit code {code}."
        raise Problem(422 if code == _BAD_USAGE else 503, sentence)
    return said.strip()


async def _run(words: list[str]) -> tuple[int, str]:
    """The exit code of a command and what it said on stderr; the command ends with whoever waits for it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except (OSError, ValueError) as error:  # labels that are too long for a command line, or that hold a NUL
        raise Problem(422, f"The update can't be begun: {error}.") from error
    try:
        _, said = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    return process.returncode or 0, said.decode("utf-8", "replace")
