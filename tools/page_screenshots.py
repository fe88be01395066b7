#!/usr/bin/env python
"""Take the pictures of the page for the documentation: tools/page_screenshots.py FIRST SECOND [FOLDER].

FIRST and SECOND are folders of text models with a tree of labels; FIRST is trained on texts such as the Project
Gutenberg catalogue's, which the text of the pictures fits. FOLDER (docs/figures) gets serve-tag.png, serve-tree.png and
serve-compare.png. Needs the extra "serve", Playwright for Python, Pillow and Chromium.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

TEXT = (
    "Moby-Dick; or, The Whale. A whaling voyage in the South Seas: Captain Ahab of the ship Pequod hunts the white "
    "whale that took his leg, while his sailors learn the trade of whalers with harpoons, boats and oil."
)
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
MOST = 150_000  # bytes of a picture


def main(first: str, second: str, folder: str = "docs/figures") -> None:
    """Serve the models, and take a picture of each view."""
    with tempfile.TemporaryFile() as said:
        command = [
            sys.executable,
            "-m",
            "sylvan",
            "serve",
            f"books={first}",
            f"sample={second}",
            "--port",
            "0",
            "--no-log",
        ]
        server = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        try:
            url = address(server, said)
            with sync_playwright() as playwright:
                path = shutil.which("chromium") or shutil.which("google-chrome")
                browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
                page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
                page.goto(url)
                for view, show in (("tag", tag), ("tree", tree), ("compare", compare)):
                    show(page)
                    save(page, Path(folder) / f"serve-{view}.png")
                browser.close()
        finally:
            server.terminate()
            server.wait()


def address(server: subprocess.Popen[bytes], said: Any) -> str:
    """Where the server says that it listens."""
    while server.poll() is None:
        said.seek(0)
        found = re.search(rb"Listening at (\S+)", said.read())
        if found:
            return found[1].decode()
    said.seek(0)
    raise SystemExit(said.read().decode())


def tag(page: Page) -> None:
    """Labels of the text, one of them explained, one removed."""
    page.fill("#text", TEXT)
    page.locator("#labels > li").nth(4).locator("button.remove").click()
    page.locator("#chips .chip").wait_for()
    page.locator("#labels button.label").first.click()
    page.locator("#explain .path").first.wait_for()
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
