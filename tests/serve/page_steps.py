"""What the tests of the page share: a service that runs as a child process, and steps that a person takes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import child_processes
from playwright.sync_api import expect
from waiting import PATIENCE, until

WHALES = "A whaling voyage in the South Seas, and the manners of whalers"
KEY = "a key of the tests"
MARKUP = "<img src=x onerror=alert(1)> & Fiction"  # a label's name that must stay text


@dataclass
class Service:
    """A service that listens at ``url``, and the folder of its models."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]

    def ask(self, path: str, body: Any = None, key: str | None = None) -> Any:
        """The JSON of an answer."""
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def stop(self) -> None:
        child_processes.end(self.process)


def start(folder: Path, settings: str) -> Service:
    """A service on a port of its own, once it is ready."""
    (folder / "serve.toml").write_text(settings, encoding="utf-8")
    said = folder / "said.txt"
    with said.open("wb") as stream:
        command = [sys.executable, "-m", "sylvan", "serve", "--config", "serve.toml", "--port", "0", "--no-log"]
        process = child_processes.start(command, cwd=folder, stdout=stream, stderr=subprocess.STDOUT, lasting=True)
    service = Service("", folder, process)
    try:

        def is_ready() -> bool:
            words = said.read_text(encoding="utf-8")
            assert process.poll() is None, f"The service ended: {words}"
            address = words.partition("Listening at ")[2].split()
            if not address:
                return False
            service.url = f"{address[0]}/"
            with suppress(OSError):  # it listens and still opens its models
                urllib.request.urlopen(service.url + "health/ready", timeout=PATIENCE).close()
                return True
            return False

        until(is_ready, lambda: f"The service isn't ready: {said.read_text(encoding='utf-8')}")
        return service
    except BaseException:
        service.stop()
        raise


def tag(page: Any, text: str = WHALES) -> Any:
    """Types a text, and returns its labels once they are there."""
    page.fill("#text", "")  # the same text again would ask for nothing
    with page.expect_response(lambda answer: answer.url.endswith("/rank")):
        page.fill("#text", text)
    rows = page.locator("#labels > li")
    expect(rows.first).to_be_visible()
    return rows


def choose(page: Any, model: str, words: str | None = None) -> None:
    """Chooses a model, and waits for its card."""
    page.select_option("#model", model)
    expect(page.locator("#about")).to_contain_text(words or model)


def body(request: Any) -> Any:
    """The JSON that a request sends."""
    return json.loads(request.post_data)
