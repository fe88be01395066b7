"""The page for everyone: axe-core, the keyboard, narrow screens, themes, and a strict content policy."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from page_steps import WHALES, Service, choose, give, tag
from playwright.sync_api import expect

import sylvan

pytest_plugins = ("page_fixtures",)

FILES = sorted((Path(sylvan.__file__).parent / "serve" / "page").iterdir())


def axe_source() -> str:
    """axe-core, where it is installed."""
    local = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
    path = Path(os.environ.get("SYLVAN_AXE", local))
    if not path.is_file():
        pytest.skip("needs axe-core: npm install axe-core, or SYLVAN_AXE=…/axe.min.js")
    return path.read_text(encoding="utf-8")


def show_all(page: Any, view: str) -> None:
    """A view with everything in it that it can show."""
    if view == "record":
        rows = tag(page)
        rows.nth(1).locator("button.remove").click()
        page.locator("#labels button.label").first.click()
        page.locator("#explain summary").click()
        page.locator("#explain ol.path").first.get_by_role("button").first.click()
        page.locator("#labels .tick").nth(2).check()
        expect(page.locator("#chips .chip")).to_have_count(2)
        page.fill("#search", "ship")
        expect(page.locator("#search-list li").first).to_be_visible()
        page.keyboard.press("ArrowDown")
        expect(page.locator("#search-list li").first).to_be_visible()
        expect(page.locator("#mirror mark").first).to_be_visible()
        give(page, "a.pdf", b"%PDF", "application/pdf")
        expect(page.locator("#file-problem")).to_be_visible()
    elif view == "subjects":  # with codes, and broader subjects
        choose(page, "subjects")
        rows = tag(page)
        rows.nth(1).locator(".tick").check()
        rows.first.locator("button.label").click()
        expect(page.locator("#explain .relations").first).to_be_visible()
        page.click("#save")
        page.click("#previous")
        expect(page.locator("#record-saved")).to_be_visible()
    elif view == "tree":
        tag(page)
        page.click("nav a[data-view=tree]")
        expect(page.locator("#drawing .node.on-path").last).to_be_visible()
    elif view == "compare":
        tag(page)
        page.click("nav a[data-view=compare]")
        expect(page.locator("#compare-sides li").last).to_be_visible()
    else:
        choose(page, "rows")
        page.click("footer summary")
        page.evaluate("document.querySelectorAll('#banners > *').forEach(banner => { banner.hidden = false; })")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page: Any, service: Service, scheme: str) -> None:
    axe = axe_source()
    page = open_page(service.url, color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator("#about")).to_contain_text("Books")
    page.evaluate(axe)
    for view in ("empty", "record", "subjects", "tree", "compare", "rows"):
        if view != "empty":
            page.click("nav a[data-view=record]")
            show_all(page, view)
        found = page.evaluate("axe.run().then(({violations}) => violations)")
        faults = [(rule["id"], node["html"][:150], node["failureSummary"]) for rule in found for node in rule["nodes"]]
        assert faults == [], view


def test_no_view_is_wider_than_a_narrow_screen(page: Any) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    for view in ("record", "subjects", "tree", "compare", "rows"):
        page.click("nav a[data-view=record]")
        show_all(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") == 360, view
        outside = page.evaluate(
            "[...document.querySelectorAll('button, input, select, textarea, a')].filter(e => {"
            " const box = e.getBoundingClientRect();"
            " return box.width && e.checkVisibility() && (box.left < 0 || box.right > 360); }).map(e => e.outerHTML)"
        )
        assert outside == [], view


BROKEN_WORDS = """() => {
    const [broken, range] = [[], document.createRange()];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode;
        if (!node.parentElement.checkVisibility() || node.parentElement.closest('.unseen, .mirror, svg')) continue;
        for (const word of node.data.matchAll(/[^\\s-]+/g)) {
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].filter(r => r.width).map(r => Math.round(r.top)));
            if (lines.size > 1) broken.push(word[0]);
        }
    }
    return broken;
}"""


@pytest.mark.parametrize("language", ["en", "de"])
def test_no_word_is_broken_on_a_narrow_screen(open_page: Any, service: Service, language: str) -> None:
    page = open_page(service.url, locale=language)
    page.set_viewport_size({"width": 375, "height": 812})
    page.click("footer summary")
    for model in ("books", "subjects"):
        page.click("nav a[data-view=record]")
        choose(page, model, "Books" if model == "books" else model)
        for view in ("record", "tree", "compare"):
            page.click("nav a[data-view=record]")
            if view == "record":
                tag(page).nth(1).locator("button.label").click()
                page.click("#explain summary")
                page.fill("#search", "ship")
                expect(page.locator("#search-list li").first).to_be_visible()
            else:
                show_all(page, view)
            assert page.evaluate(BROKEN_WORDS) == [], (model, view)


def test_the_theme_follows_the_system_until_it_is_chosen(open_page: Any, service: Service) -> None:
    page = open_page(service.url, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    toggle = page.get_by_role("button", name="Dark theme")
    expect(toggle).to_have_attribute("aria-pressed", "true")
    page.emulate_media(color_scheme="light")
    expect(toggle).to_have_attribute("aria-pressed", "false")
    light = page.evaluate(background)
    assert light != dark
    toggle.click()
    assert page.evaluate(background) == dark
    page.reload()
    expect(toggle).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(background) == dark


def test_a_keyboard_reaches_everything_and_shows_where_it_is(page: Any) -> None:
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    expect(page.locator("#skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator("#record")).to_be_visible()  # the address still names the view
    tag(page)
    page.locator("#labels button.label").first.click()
    expect(page.locator("#explain .word").first).to_be_visible()
    page.click("#explain summary")
    page.focus("#skip")
    reached = []
    for _ in range(150):
        page.keyboard.press("Tab")
        where = page.evaluate(
            "(e => e === document.body ? null : [e.id || e.textContent.trim() || e.getAttribute('aria-label'),"
            " [e, e.parentElement].some(it => getComputedStyle(it).outlineStyle !== 'none')])(document.activeElement)"
        )
        if where is None:
            break
        reached.append(where)
    assert [name for name, visible in reached if not visible] == []
    wanted = {
        "Record", "Tree", "Compare", "model", "theme", "text", "open-file", "open-folder", "clear-text", "save",
        "copy-codes", "copy-csv", "copy-json", "sure", "labels-more", "search", "×", "Details", "Only this branch",
        "Accept this subject", "Remove this suggestion", "Show it in the tree",
    }  # fmt: skip
    assert wanted - {name for name, _ in reached} == set()

    assert page.locator("#labels > li").first.locator("input, button").count() == 3
    ticks = [name for name, _ in reached if page.locator(f"#labels .tick[aria-label={json.dumps(name)}]").count()]
    assert len(ticks) == 10  # one stop a suggestion
    page.locator("#labels .tick").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#labels button.label").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#labels .tick").nth(1)).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#labels .tick").nth(1)).to_be_checked()


def test_nothing_moves_for_those_who_want_it_still(open_page: Any, service: Service) -> None:
    page = open_page(service.url, reduced_motion="reduce")
    page.route("**/rank", lambda route: None)
    page.fill("#text", WHALES)
    expect(page.locator("#progress")).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline(page: Any, service: Service) -> None:
    loaded = page.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
    assert loaded and all(name.startswith(service.url) for name in loaded)
    # With this policy an inline script or style would be refused, and what the browser refuses fails every test here.
    policy = page.request.get(service.url).headers["content-security-policy"]
    parts = {part.strip() for part in policy.split(";")}
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= parts


def test_the_page_works_below_a_prefix(open_page: Any, service: Service) -> None:
    page = open_page("about:blank")
    prefix = f"{service.url}tools/sylvan/"
    asked: list[str] = []

    def forward(route: Any) -> None:  # as an application does in which this one is mounted
        asked.append(route.request.url)
        route.continue_(url=route.request.url.replace(prefix, service.url))

    page.route("**", forward)
    page.goto(prefix)
    tag(page).first.locator("button.label").click()
    expect(page.locator("#explain .word").first).to_be_visible()
    page.click("nav a[data-view=tree]")
    expect(page.locator("#drawing .node.on-path").last).to_be_visible()
    assert all(url.startswith(prefix) for url in asked)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_makes_markup_of_data(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 400
    if path.suffix == ".js":
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(|DOMParser", text)
        assert not re.search(r"[\"'`]/(v1|page)", text)  # relative: the application may be mounted under a prefix
    if path.suffix == ".html":
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|(?:src|href)=\"(?:/|https?:)", text)
