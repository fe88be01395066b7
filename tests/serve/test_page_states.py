"""What the page does when the service is slow, away, busy, starting, locked, new or wrong; how it compares models."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.books import load_sample
from page_steps import KEY, WHALES, Service, give, ranked, service_of, tag
from playwright.sync_api import expect

from sylvan import TextModel, XRLinear

pytest_plugins = ("page_fixtures",)

PROBLEM = "application/problem+json"


def once(page: Any, status: int, detail: str, **headers: str) -> None:
    """The next ranking is refused; those after it aren't."""
    page.route("**/rank", lambda route: route.fulfill(
        status=status, headers={"Content-Type": PROBLEM, **headers},
        json={"title": "Refused", "status": status, "detail": detail}), times=1)  # fmt: skip


def test_a_slow_answer_shows_that_it_is_coming(page: Any) -> None:
    waiting: list[Any] = []
    page.route("**/rank", lambda route: waiting.append(route))
    expect(page.locator("#progress")).to_be_hidden()
    page.fill("#text", WHALES)
    expect(page.locator("#progress")).to_be_visible()
    expect(page.locator("#labels")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#labels-empty")).to_have_text("Asking for suggestions.")
    waiting[0].continue_()
    expect(page.locator("#labels > li").first).to_be_visible()
    expect(page.locator("#progress")).to_be_hidden()


def test_away_and_back_again(page: Any) -> None:
    page.route("**/rank", lambda route: route.abort("connectionrefused"), times=2)
    page.fill("#text", WHALES)
    expect(page.locator("#waiting-text")).to_contain_text("can't be reached")
    expect(page.locator("#labels > li").first).to_be_visible()  # by itself, at the second attempt
    expect(page.locator("#waiting")).to_be_hidden()

    page.clock.install(time=0)
    page.clock.pause_at(1000)  # no wait ends by itself from here on
    page.context.set_offline(True)
    page.fill("#text", "gardening")
    page.clock.run_for(200)
    expect(page.locator("#waiting")).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator("#waiting")).to_be_hidden()  # as the browser says that it is online


def test_a_service_that_starts_or_is_busy_is_asked_again(page: Any) -> None:
    once(page, 503, "The models are being opened.", **{"Retry-After": "1"})
    page.fill("#text", WHALES)
    expect(page.locator("#waiting-text")).to_have_text("The models are being opened.")
    expect(page.locator("#labels > li").first).to_be_visible()
    expect(page.locator("#waiting")).to_be_hidden()

    once(page, 429, "The queue is full.", **{"Retry-After": "30"})
    page.fill("#text", f"{WHALES} again")
    expect(page.locator("#waiting-text")).to_contain_text("busy")
    expect(page.locator("#waiting-retry")).to_contain_text("else in")
    page.click("#waiting-retry")
    expect(page.locator("#waiting")).to_be_hidden()


def test_a_refusal_shows_its_reason(page: Any) -> None:
    page.fill("#text", "whale " * 1000)  # the service's own words: it takes 5,000 characters
    expect(page.locator("#failed-text")).to_contain_text("5,000")
    expect(page.locator("#labels-empty")).to_have_text("There is no answer for this record.")
    tag(page)
    expect(page.locator("#failed")).to_be_hidden()

    once(page, 500, "Something broke.")
    page.fill("#text", "gardening")
    expect(page.locator("#failed-text")).to_have_text("Something broke.")
    page.click("#failed-retry")
    expect(page.locator("#labels > li").first).to_be_visible()
    expect(page.locator("#failed")).to_be_hidden()


def test_one_sentence_for_one_failure(page: Any) -> None:
    """It stands above the page, once, and goes with its cause."""
    tag(page).first.locator("button.label").click()
    expect(page.locator("#explain .word").first).to_be_visible()
    page.fill("#text", "whale " * 1000)
    sentence = page.locator("#failed-text").inner_text
    expect(page.locator("#failed-text")).to_contain_text("5,000")
    expect(page.locator("#explain .empty")).to_have_text("There is no answer for this record.")
    assert page.locator("body").inner_text().count(sentence()) == 1
    page.click("nav a[data-view=compare]")
    expect(page.locator("#compare-sides .empty")).to_have_text(["There is no answer for this record."] * 2)
    assert page.locator("body").inner_text().count(sentence()) == 1
    page.click("nav a[data-view=record]")

    page.route("**/rank", lambda route: route.abort("connectionrefused"))
    page.fill("#text", "gardening")
    expect(page.locator("#waiting-text")).to_contain_text("can't be reached")
    expect(page.locator("#failed")).to_be_hidden()
    expect(page.locator("#labels-empty")).to_have_text("Asking for suggestions.")
    page.click("#clear-text")
    expect(page.locator("#waiting")).to_be_hidden()

    page.fill("#text", "whale " * 1000)
    page.unroute("**/rank")
    expect(page.locator("#failed-text")).to_contain_text("5,000")
    page.click("#clear-text")
    expect(page.locator("#failed")).to_be_hidden()
    give(page, "book.pdf", b"%PDF", "application/pdf")
    expect(page.locator("#file-problem")).to_be_visible()
    page.fill("#text", "a")
    page.click("#clear-text")
    expect(page.locator("#file-problem")).to_be_hidden()


def test_a_body_above_the_limit_is_no_lost_server(page: Any) -> None:
    sent = "{method: 'POST', body, headers: {'Content-Type': 'application/json'}}"
    post = f"body => fetch('v1/models/books/rank', {sent})"
    status = page.evaluate(f"({post})('{{\"text\": \"' + 'a'.repeat(12e6) + '\"}}').then(answer => answer.status)")
    assert status == 413
    give(page, "a.txt", b"whale " * 1_000_000)
    expect(page.locator("#file-problem")).to_have_text("a.txt is too large: there may be 4 MiB.")


@pytest.fixture(scope="module")
def locked(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of one model that wants a key, and looks for a new version often."""
    folder = tmp_path_factory.mktemp("locked")
    shutil.copytree(service.folder / "plain", folder / "plain")
    settings = f'watch = 0.1\n[models.plain]\nfolder = "plain"\n[[keys]]\nname = "test"\nkey = "{KEY}"\n'
    with service_of(folder, settings) as running:
        yield running


def test_a_wanted_key_is_asked_for_and_stays_for_the_session(open_page: Any, locked: Service) -> None:
    page = open_page(locked.url)
    key = page.get_by_label("This service wants an API key")
    expect(key).to_be_focused()
    key.fill("not the right one")
    key.press("Enter")
    expect(page.locator("#key-problem")).not_to_be_empty()
    key.fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#about")).to_contain_text("plain")
    expect(page.locator("#key-form")).to_be_hidden()
    tag(page)
    page.reload()
    tag(page)
    assert page.evaluate("sessionStorage.length") == 1
    assert KEY not in page.evaluate("JSON.stringify(localStorage)")
    expect(page.locator("#model-pick")).to_be_hidden()  # there is only one


def test_a_new_version_is_noted(open_page: Any, locked: Service) -> None:
    page = open_page(locked.url, f"sessionStorage.setItem('sylvan.key', '{KEY}')")
    tag(page)
    before = locked.ask("v1/models/plain", key=KEY)["version"]
    train, _ = load_sample()
    newer = TextModel(model=XRLinear(seed=1, calibration=None)).fit(train.texts[:500], train.labels[:500])
    newer.save(Path(locked.folder) / "plain")
    for i in range(200):
        if locked.ask("v1/models/plain", key=KEY)["version"] != before:
            break
        page.wait_for_timeout(50)
        assert i < 199, "the service didn't take the new version"
    tag(page, "A history of gardening")
    expect(page.locator("#version-text")).to_contain_text("A new version of plain answers")
    after = locked.ask("v1/models/plain", key=KEY)["version"]
    expect(page.locator("#about")).to_contain_text(after)
    page.click("#version-close")
    expect(page.locator("#version-note")).to_be_hidden()


# The comparison of two models.


def test_common_and_different_labels_are_marked(page: Any, service: Service) -> None:
    page.click("nav a[data-view=compare]")
    expect(page.locator("#compare-sides .empty").first).to_have_text("Suggestions appear here while you type.")
    page.fill("#compare-text", WHALES)
    first, second = (ranked(service, model)["labels"] for model in ("books", "plain"))
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
    expect(page.locator("#compare-summary")).to_contain_text(f"{len(common)} suggestion")
    expect(sides.nth(1)).to_contain_text("not calibrated")
    expect(sides.nth(0).locator(".value").first).to_contain_text("%")

    page.get_by_role("combobox", name="Second model").select_option("books")
    expect(page.locator("#compare-summary")).to_contain_text("10 suggestions of the best 10 are common to both")
    page.click("nav a[data-view=record]")
    expect(page.locator("#text")).to_have_value(WHALES)  # one text for all views


def test_one_model_that_fails_leaves_the_other(page: Any, service: Service) -> None:
    broken = {"title": "Broken", "detail": "It is broken."}
    page.route("**/v1/models/plain/rank", lambda route: route.fulfill(status=500, json=broken))
    page.click("nav a[data-view=compare]")
    page.fill("#compare-text", WHALES)
    sides = page.locator("#compare-sides section")
    expect(sides.nth(0).locator(".label")).to_have_text(ranked(service)["labels"])
    expect(sides.nth(1).locator(".empty")).to_have_text("It is broken.")


def test_one_model_alone_is_not_compared(open_page: Any, service: Service) -> None:
    page = open_page("about:blank")
    models = service.ask("v1/models")["models"]
    one = [model for model in models if model["name"] in ("books", "rows")]
    page.route("**/v1/models", lambda route: route.fulfill(json={"models": one}))
    page.goto(f"{service.url}#compare")
    expect(page.locator("#compare-none")).to_contain_text("Two models that take texts are needed")
    expect(page.locator("#compare-text")).to_be_hidden()
