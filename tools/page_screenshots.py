#!/usr/bin/env python
"""Take the pictures of the page for the documentation: tools/page_screenshots.py FIRST SECOND [FOLDER].

FIRST and SECOND are folders of text models with a tree of labels; FIRST is trained on texts such as the Project
Gutenberg catalogue's, which the text of the pictures fits, and `sylvan thresholds --save` has noted a threshold in it.
FOLDER (docs/figures) gets serve-record.png, serve-tree.png and serve-compare.png. Needs the extra "serve", Playwright
for Python, Pillow and Chromium.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import sylvan

TEXT = (
    "Moby-Dick; or, The Whale. A whaling voyage in the South Seas: Captain Ahab of the ship Pequod hunts the white "
    "whale that took his leg, while his sailors learn the trade of whalers with harpoons, boats and oil."
)
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
MOST = 150_000  # bytes of a picture


def main(first: str, second: str, folder: str = "docs/figures") -> None:
    """Serve the models, and take a picture of each view."""
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile() as said:
        model = sylvan.load(first, expected=sylvan.TextModel)
        write_vocabulary(model, Path(place) / "subjects.jsonl")
        write_records(model, Path(place) / "new-books.jsonl")
        books, sample = (f"folder = '{os.path.abspath(path)}'" for path in (first, second))
        (Path(place) / "serve.toml").write_text(
            f"[models.books]\n{books}\nvocabulary = 'subjects.jsonl'\n[models.sample]\n{sample}\n"
        )
        command = [sys.executable, "-m", "sylvan", "serve", "--config", f"{place}/serve.toml", "--port", "0"]
        server = subprocess.Popen([*command, "--no-log"], stdout=said, stderr=subprocess.STDOUT)
        try:
            url = address(server, said)
            with sync_playwright() as playwright:
                path = shutil.which("chromium") or shutil.which("google-chrome")
                browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
                page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
                page.goto(url)
                page.set_input_files("#file", f"{place}/new-books.jsonl")
                for view, show in (("record", record), ("tree", tree), ("compare", compare)):
                    show(page)
                    save(page, Path(folder) / f"serve-{view}.png")
                browser.close()
        finally:
            server.terminate()
            server.wait()


def write_vocabulary(model: sylvan.TextModel, path: Path) -> None:
    """Codes for the model's subjects, such as catalogues have; what stands before two dashes is broader."""
    names = list(model.vocabulary_)
    heads = [name.rpartition(" -- ")[0] for name in names]
    codes = {name: f"sh{number:06}" for number, name in enumerate(sorted({*names, *filter(None, heads)}))}
    lines = []
    for name, code in codes.items():
        broader = codes.get(name.rpartition(" -- ")[0])
        lines.append({"uri": code, "label": name} | ({} if broader is None else {"broader": broader}))
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")


def write_records(model: sylvan.TextModel, path: Path) -> None:
    """A queue: the text of the pictures, and others."""
    texts = [TEXT, "Gardening for children", "Astronomy for beginners"] * 4
    first, *others = model.text_fields_
    empty = dict.fromkeys(others, "")
    lines = [{"id": 9780142437247 + number, first: text, **empty} for number, text in enumerate(texts)]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")


def address(server: subprocess.Popen[bytes], said: Any) -> str:
    """Where the server says that it listens."""
    while server.poll() is None:
        said.seek(0)
        found = re.search(rb"Listening at (\S+)", said.read())
        if found:
            return found[1].decode()
    said.seek(0)
    raise SystemExit(said.read().decode())


def record(page: Page) -> None:
    """Suggestions for the first record, some accepted, one removed, one explained."""
    page.locator("#labels > li").first.wait_for()
    page.locator("#sure").fill("5")
    page.locator("#labels button.remove").nth(4).click()
    page.locator("#chips .chip").wait_for()
    page.locator("#labels .tick").first.check()
    page.locator("#labels .tick").nth(2).check()
    page.locator("#labels button.label").first.click()
    page.locator("#explain .words").first.wait_for()
    page.mouse.move(0, 0)


def tree(page: Page) -> None:
    """The path of the best label."""
    page.click("nav a[data-view=tree]")
    page.locator("#drawing .node.on-path").last.wait_for()
    page.mouse.move(0, 0)


def compare(page: Page) -> None:
    """Both models' labels."""
    page.click("nav a[data-view=compare]")
    page.locator("#compare-sides li").last.wait_for()


def save(page: Page, path: Path) -> None:
    """A picture of 256 colours, which is about half as large and looks the same."""
    page.evaluate("document.activeElement.blur()")
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, optimize=True)
    size = path.stat().st_size
    if size > MOST:
        raise SystemExit(f"{path} has {size:,} bytes, more than {MOST:,}.")
    print(f"{path}: {size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
