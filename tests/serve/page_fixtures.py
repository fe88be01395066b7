"""A real service with small models, and a real Chromium that opens its page.

Tests of the page name this file as a plugin of theirs, so that all of them share one service. It is a child process and
stays for all modules; the browser is a module's, as no other test of this process could run an event loop as long as
Playwright runs.
"""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from kit.books import load_sample
from page_steps import MARKUP, Service, service_of
from playwright.sync_api import expect, sync_playwright
from waiting import PATIENCE

from sylvan import TextModel, XRLinear, data

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
ROWS = 3000
expect.set_options(timeout=1000 * PATIENCE)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Models of all kinds: two trees with examples, without calibration, of features, and with URIs as labels."""
    folder = tmp_path_factory.mktemp("page")
    train, _ = load_sample()
    texts, labels = train.texts[:ROWS], train.labels[:ROWS]
    books = TextModel(model=XRLinear(seed=0, n_trees=2, max_leaf=16)).fit(texts, labels)
    books.save(folder / "books")
    TextModel(model=XRLinear(seed=0, calibration=None)).fit(texts, labels).save(folder / "plain")
    XRLinear(seed=0).fit(books.vectorizer.transform(texts), books.vocabulary_.encode(labels)).save(folder / "rows")

    names = sorted({label for row in labels for label in row})
    uris = {name: f"http://example.org/subject/{i}" for i, name in enumerate(names)}
    broadest = "http://example.org/subject/all"
    subjects = [{"uri": uri, "label": MARKUP if name == "Fiction" else name, "broader": broadest}
                for name, uri in uris.items()]  # fmt: skip
    lines = map(json.dumps, [{"uri": broadest, "label": "All subjects"}, *subjects])
    (folder / "subjects.jsonl").write_text("\n".join(lines), encoding="utf-8")
    addresses = [[uris[label] for label in row] for row in labels]
    TextModel(model=XRLinear(seed=0)).fit(texts, addresses).save(folder / "subjects")
    data.write_jsonl(folder / "train.jsonl", texts, labels)

    settings = """
        [models.books]
        folder = "books"
        title = "Books"
        examples = "train.jsonl"
        [models.plain]
        folder = "plain"
        [models.subjects]
        folder = "subjects"
        vocabulary = "subjects.jsonl"
        [models.rows]
        folder = "rows"
        [limits]
        text_length = 5000
        """
    with service_of(folder, settings) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium, without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("tests of the page need Chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Any]:
    """Opens an address in a window of its own; whatever the page complains about fails the test at its end."""
    contexts, complaints = [], []

    def opened(url: str, init: str = "", **options: Any) -> Any:
        context = chromium.new_context(viewport={"width": 1280, "height": 800}, **options)
        contexts.append(context)
        context.set_default_timeout(1000 * PATIENCE)
        if init:
            context.add_init_script(init)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
        page.goto(url)
        if url != "about:blank":  # its script waits for its sentences, and the load event for neither
            expect(page.locator("[data-say]").first).not_to_be_empty()
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
    expect(opened.locator("#about")).to_contain_text("Books")
    return opened
