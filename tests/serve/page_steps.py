"""What the tests of the page share: a service that runs as a child process, and steps that a person takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

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
        with urllib.request.urlopen(urllib.request.Request(self.url + path, content, headers), timeout=30) as answer:
            return json.load(answer)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(folder: Path, settings: str) -> Service:
    """A service on a port of its own, once it is ready."""
    (folder / "serve.toml").write_text(settings, encoding="utf-8")
    said = folder / "said.txt"
    with said.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "sylvan", "serve", "--config", "serve.toml", "--port", "0", "--no-log"],
            cwd=folder, stdout=stream, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )  # fmt: skip
    service = Service("", folder, process)
    try:
        for _ in range(1200):
            words = said.read_text(encoding="utf-8")
            if process.poll() is not None:
                raise AssertionError(f"The service ended: {words}")
            address = words.partition("Listening at ")[2].split()
            if address:
                service.url = f"{address[0]}/"
                try:
                    urllib.request.urlopen(service.url + "health/ready", timeout=5).close()
                    return service
                except OSError:
                    pass  # it listens and still opens its models
            time.sleep(0.05)
        raise AssertionError(f"The service wasn't ready in time: {words}")
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
