"""``/`` and ``/page/…``: the page for people; a fixed set of files that were read at the start."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sylvan.serve.calls import ANYONE, Call, Operation, Parameter, Reply
from sylvan.serve.problems import Problem
from sylvan.serve.service import Service

_FOLDER = Path(__file__).parents[1] / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SECURITY = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
]


def operations(service: Service) -> list[Operation]:
    """The routes. What a client names is looked up among the files that are known, and never becomes a path."""
    files = {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
    tags = {name: f'"{hashlib.sha256(content).hexdigest()[:16]}"' for name, content in files.items()}

    def answer(call: Call, name: str) -> Reply:
        if name not in files:
            raise Problem(404, "There is nothing at this address.")
        headers = [*_SECURITY, (b"etag", tags[name].encode())]
        if call.header(b"if-none-match") == tags[name]:
            return Reply(b"", 304, headers=headers)
        return Reply(files[name], type=_TYPES[Path(name).suffix], headers=headers)

    async def index(call: Call) -> Reply:
        return answer(call, "index.html")

    async def file(call: Call) -> Reply:
        return answer(call, call.params["file"])

    named = Parameter("file", "The file's name.", "path")
    return [
        Operation("GET", "/", index, "The page for people.", answer_type="text/html", who=ANYONE, tag="page"),
        Operation(
            "GET", "/page/{file}", file, "A file of the page.", answer_type="text/*", parameters=(named,),
            who=ANYONE, errors=(404,), tag="page",
        ),
    ]  # fmt: skip
