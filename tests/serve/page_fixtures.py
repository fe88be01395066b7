"""A real service with small models, and a real Chromium that opens its page.

The browser is a module's, not the session's: as long as Playwright runs, no other test of the process could run an event
loop. The service is a child process and stays for all modules.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sylvan import TextModel, XRLinear, data

sync_api = pytest.importorskip("playwright.sync_api", reason="tests of the page need playwright")
pytest.importorskip("starlette", reason="tests of the page need the extra 'serve'")

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
WHALES = "A whaling voyage in the South Seas, and the manners of whalers"
KEY = "a key of the tests"
MARKUP = "<img src=x onerror=alert(1)> & Fiction"  # a label's name that must stay text
ROWS = 3000


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


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Models of all kinds: two trees with examples, without calibration, of features, and with URIs as labels."""
    folder = tmp_path_factory.mktemp("page")
    train, _ = data.load_sample()
    texts, labels = train.texts[:ROWS], train.labels[:ROWS]
    books = TextModel(model=XRLinear(seed=0, n_trees=2, max_leaf=16)).fit(texts, labels)
    books.save(folder / "books")
    TextModel(model=XRLinear(seed=0, calibration=None)).fit(texts, labels).save(folder / "plain")
    XRLinear(seed=0).fit(books.vectorizer.transform(texts), books.vocabulary_.encode(labels)).save(folder / "rows")

    names = sorted({label for row in labels for label in row})
    uris = {name: f"http://example.org/subject/{i}" for i, name in enumerate(names)}
    subjects = [f"<{uri}>\t{MARKUP if name == 'Fiction' else name}\n" for name, uri in uris.items()]
    (folder / "subjects.tsv").write_text("".join(subjects), encoding="utf-8")
    addresses = [[uris[label] for label in row] for row in labels]
    TextModel(model=XRLinear(seed=0)).fit(texts, addresses).save(folder / "subjects")
    data.write_jsonl(folder / "train.jsonl", texts, labels)

    running = start(
        folder,
        """
        [models.books]
        folder = "books"
        title = "Books"
        examples = "train.jsonl"
        [models.plain]
        folder = "plain"
        [models.subjects]
        folder = "subjects"
        vocabulary = "subjects.tsv"
        [models.rows]
        folder = "rows"
        [limits]
        text_length = 5000
        """,
    )
    yield running
    running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("tests of the page need Chromium")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens an address in a window of its own; whatever the page complains about fails the test at its end."""
    contexts, complaints = [], []

    def opened(url: str, init: str = "", **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        if init:
            context.add_init_script(init)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    # A refused or missing answer is a state of its own, and Chromium says each; the page's own errors are no state.
    assert [words for words in complaints if not words.startswith("Failed to load resource")] == []


@pytest.fixture
def page(open_page: Any, service: Service) -> Any:
    """The page with the models of :func:`service`; Books is chosen."""
    opened = open_page(service.url)
    sync_api.expect(opened.locator("#about")).to_contain_text("Books")
    return opened


def tag(page: Any, text: str = WHALES) -> Any:
    """Types a text, and returns its labels once they are there."""
    with page.expect_response(lambda answer: answer.url.endswith("/rank")):
        page.fill("#text", text)
    rows = page.locator("#labels > li")
    sync_api.expect(rows.first).to_be_visible()
    return rows


def choose(page: Any, model: str, words: str | None = None) -> None:
    """Chooses a model, and waits for its card."""
    page.select_option("#model", model)
    sync_api.expect(page.locator("#about")).to_contain_text(words or model)


def body(request: Any) -> Any:
    """The JSON that a request sends."""
    return json.loads(request.post_data)
