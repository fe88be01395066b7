"""The page's comparison of two models, in a real browser against a real service."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="tests of the page need playwright")
pytest.importorskip("starlette", reason="tests of the page need the extra 'serve'")

from page_steps import WHALES, Service
from playwright.sync_api import expect

pytest_plugins = ("page_fixtures",)


def best(service: Service, model: str) -> list[str]:
    labels: list[str] = service.ask(f"v1/models/{model}/rank", {"text": WHALES, "k": 10})["results"][0]["labels"]
    return labels


def test_common_and_different_labels_are_marked(page: Any, service: Service) -> None:
    page.click("nav a[data-view=compare]")
    expect(page.locator("#compare-sides .empty").first).to_have_text("Labels appear here while you type.")
    page.fill("#compare-text", WHALES)
    first, second = best(service, "books"), best(service, "plain")
    common = set(first) & set(second)
    assert 0 < len(common) < 10
    sides = page.locator("#compare-sides section")
    for i, (own, other) in enumerate(((first, second), (second, first))):
        expect(sides.nth(i).locator(".label")).to_have_text(own)
        for place, label in enumerate(own):
            badge = sides.nth(i).locator("li").nth(place).locator(".badge")
            if label in common:
                expect(badge).to_contain_text(f"both, {other.index(label) + 1}")
            else:
                expect(badge).to_have_text("only here")
    expect(page.locator("#compare-summary")).to_contain_text(f"{len(common)} label")
    expect(sides.nth(1)).to_contain_text("not calibrated")
    expect(sides.nth(0).locator(".value").first).to_contain_text("%")

    page.get_by_role("combobox", name="Second model").select_option("books")
    expect(page.locator("#compare-summary")).to_contain_text("10 labels of the best 10 are common to both")
    page.click("nav a[data-view=tag]")
    expect(page.locator("#text")).to_have_value(WHALES)  # one text for all views


def test_one_model_that_fails_leaves_the_other(page: Any, service: Service) -> None:
    broken = {"title": "Broken", "detail": "It is broken."}
    page.route("**/v1/models/plain/rank", lambda route: route.fulfill(status=500, json=broken))
    page.click("nav a[data-view=compare]")
    page.fill("#compare-text", WHALES)
    sides = page.locator("#compare-sides section")
    expect(sides.nth(0).locator(".label")).to_have_text(best(service, "books"))
    expect(sides.nth(1).locator(".empty")).to_have_text("It is broken.")


def test_one_model_alone_is_not_compared(open_page: Any, service: Service) -> None:
    page = open_page("about:blank")
    models = service.ask("v1/models")["models"]
    one = [model for model in models if model["name"] in ("books", "rows")]
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": one}))
    page.goto(f"{service.url}#compare")
    expect(page.locator("#compare-none")).to_contain_text("Two models that take texts are needed")
    expect(page.locator("#compare-text")).to_be_hidden()
