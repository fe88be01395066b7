"""What the tests of the page share: a service that runs as a child process, and steps that a person takes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="tests of the page need playwright")
pytest.importorskip("starlette", reason="tests of the page need the extra 'serve'")

from playwright.sync_api import expect
from servers import Server, serving

WHALES = "A whaling voyage in the South Seas, and the manners of whalers"
KEY = "a key of the tests"
MARKUP = "<img src=x onerror=alert(1)> & Fiction"  # a label's name that must stay text


@dataclass
class Service:
    """A service that listens at ``url``, and the folder of its models."""

    server: Server
    folder: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/"

    def ask(self, path: str, body: Any = None, key: str | None = None) -> Any:
        """The JSON of an answer."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = self.server.ask("GET" if body is None else "POST", f"/{path}", body, headers)
        assert answer.status == 200, answer
        return answer.json


@contextmanager
def service_of(folder: Path, settings: str) -> Iterator[Service]:
    """A service of what lies in a folder, once it is ready."""
    with serving(folder, config=dedent(settings), cwd=folder) as server:
        yield Service(server, folder)


def tag(page: Any, text: str = WHALES) -> Any:
    """Types a text, and returns its labels once they are there."""
    page.fill("#text", "")  # the same text again would ask for nothing
    with page.expect_response(lambda answer: answer.url.endswith("/rank")):
        page.fill("#text", text)
    rows = page.locator("#labels > li")
    expect(rows.first).to_be_visible()
    return rows


def ranked(service: Service, model: str = "books", text: str = WHALES, **options: Any) -> Any:
    """What the service answers about a text."""
    return service.ask(f"v1/models/{model}/rank", {"text": text, "k": 10, **options})["results"][0]


def shown(page: Any) -> list[str]:
    """The names of the suggestions."""
    names: list[str] = page.locator("#labels .label").all_text_contents()
    return names


def give(page: Any, name: str, content: bytes, kind: str = "text/plain") -> None:
    """Opens a file."""
    page.set_input_files("#file", {"name": name, "mimeType": kind, "buffer": content})


def choose(page: Any, model: str, words: str | None = None) -> None:
    """Chooses a model, and waits for its card."""
    page.select_option("#model", model)
    expect(page.locator("#about")).to_contain_text(words or model)


def body(request: Any) -> Any:
    """The JSON that a request sends."""
    return json.loads(request.post_data)
