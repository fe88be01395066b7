#!/usr/bin/env python
"""Check the links of a built site: tools/check_site.py build/site.

Every link to a file must lead to one inside the folder, and every anchor to an element there. Pictures, styles and
scripts must be there too, none from elsewhere, or pages wouldn't look right offline. Other addresses on the web, which
a reader may follow, aren't asked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif (tag, name) in LOADED:
                self.loaded.append(value)


def faults(folder: Path) -> Iterator[str]:
    """A sentence for each link that leads nowhere, and for all that a page loads from elsewhere."""
    root = folder.resolve()
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(root.rglob("*.html"))}
    if not pages:
        yield f"{folder} has no pages."
    for path, page in pages.items():
        name = path.relative_to(root)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{name} loads {address}, which isn't there offline."
        for address in (*page.links, *page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_relative_to(root) or not target.exists():
                yield f"{name} links to {address}, which isn't there."
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} links to {address}, an anchor that isn't there."


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("Usage: tools/check_site.py FOLDER, where the site was built")
    found = list(dict.fromkeys(faults(Path(sys.argv[1]))))
    print("\n".join(found) or "Every link leads somewhere.")
    sys.exit(1 if found else 0)
