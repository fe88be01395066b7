"""The page's first view: labels for a text, in a real browser against a real service."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_steps import MARKUP, WHALES, Service, body, choose, give, ranked, shown, tag
from playwright.sync_api import expect

pytest_plugins = ("page_fixtures",)


def is_rank(request: Any) -> bool:
    return bool(request.url.endswith("/rank"))


def test_labels_appear_while_typing_with_their_percentages_as_bars(page: Any, service: Service) -> None:
    expect(page.locator("#labels-empty")).to_have_text("Suggestions appear here while you type.")
    page.locator("#text").press_sequentially(WHALES, delay=1)
    answer = ranked(service, probabilities=True)
    expect(page.locator("#labels .label")).to_have_text(answer["labels"])
    first = page.locator("#labels > li").first
    share = answer["probabilities"][0]
    expect(first.locator(".value")).to_have_text(f"{share:.0%}" if share >= 0.1 else f"{100 * share:.1f}%")
    drawn = first.locator(".bar").evaluate("bar => Number(bar.style.getPropertyValue('--share'))")
    assert drawn == pytest.approx(share)
    width = first.locator(".bar").evaluate(
        "bar => Promise.all(bar.getAnimations({subtree: true}).map(a => a.finished)).then(() =>"
        " parseFloat(getComputedStyle(bar, '::before').width) / bar.clientWidth)"
    )
    assert width == pytest.approx(share, abs=0.02)
    # Read out once typing has ended, and not before.
    expect(page.locator("#summary")).to_contain_text(f"10 suggestions. First: {answer['labels'][0]}")
    page.click("#labels-more")
    expect(page.locator("#labels > li")).to_have_count(20)
    page.click("#clear-text")
    expect(page.locator("#labels > li")).to_have_count(0)
    expect(page.locator("#text")).to_be_focused()


def test_an_answer_to_an_older_text_never_shows(page: Any, service: Service) -> None:
    waiting: list[Any] = []
    page.route("**/rank", lambda route: waiting.append(route) if not waiting else route.continue_())
    with page.expect_event("requestfailed", is_rank) as ended:
        with page.expect_request(is_rank):
            page.fill("#text", "gardening")
        page.fill("#text", WHALES)
        expect(page.locator("#labels .label")).to_have_text(ranked(service)["labels"])
    assert "gardening" in ended.value.post_data and "ABORTED" in ended.value.failure


def test_a_label_is_explained_by_words_path_and_examples(page: Any, service: Service) -> None:
    text = f"🐋 {WHALES}"  # beyond the basic plane: places are counted in code points there, and not in JavaScript
    rows = tag(page, text)
    label = rows.nth(1).locator("button.label")
    name = label.inner_text()
    label.click()
    panel = page.locator("#explain")
    expect(page.locator("#explain-title")).to_be_focused()
    expect(page.locator("#explain-title")).to_have_text(name)
    expect(panel.locator(".word").first).to_be_visible()
    explained = service.ask("v1/models/books/explain", {"text": text, "label": name, "examples": 3})

    terms = {text[span["start"] : span["end"]].lower(): span["weight"] for span in explained["spans"]}
    positive = sorted((term for term, weight in terms.items() if weight > 0), key=lambda term: -terms[term])
    assert panel.locator(".words .word.for").all_text_contents() == positive[:12]
    assert set(panel.locator(".words .word.against").all_text_contents()) <= terms.keys() - set(positive)

    weights = [0.0] * len(text)
    for span in explained["spans"]:
        for place in range(span["start"], span["end"]):
            weights[place] += span["weight"]
    for side, wanted in (("for", lambda w: w > 0), ("against", lambda w: w < 0)):
        marked = "".join(page.locator(f"#mirror mark.{side}").all_text_contents())
        assert marked == "".join(c for c, weight in zip(text, weights, strict=True) if wanted(weight)), side
    assert page.locator("#mirror").inner_text().strip() == text  # the same text behind, so that marks stand right
    lines = {side: page.locator(f"#mirror mark.{side}").first.evaluate("m => getComputedStyle(m).textDecorationStyle")
             for side in ("for", "against")}  # fmt: skip
    assert lines == {"for": "solid", "against": "wavy"}  # not by colour alone

    steps = [tree["paths"][0]["steps"] for tree in explained["explanation"]["trees"]]
    assert panel.locator("ol.path").count() == len(steps) == 2
    assert panel.locator("ol.path").first.locator("li").count() == len(steps[0])
    expect(panel.locator("ol.path").first.locator(".step-title").last).to_have_text(name)
    expect(panel.locator("ol.path").first.locator("li .soft").last).to_contain_text("subjects here")
    excerpts = [example["excerpt"] for example in explained["explanation"]["examples"]]
    assert excerpts and panel.locator(".examples li > p:first-child").all_text_contents() == excerpts

    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(label).to_be_focused()
    expect(page.locator("#mirror mark")).to_have_count(0)
    label.click()
    expect(page.locator("#mirror mark").first).to_be_visible()
    page.fill("#text", "Gardening for children")
    expect(page.locator("#mirror")).to_contain_text("Gardening for children")  # explained anew, with the new text


def test_a_removed_label_stays_away_until_it_is_taken_back(page: Any, service: Service) -> None:
    rows = tag(page)
    first, second, third = shown(page)[:3]
    with page.expect_request(is_rank) as asked:
        rows.first.get_by_role("button", name=f"Remove {first}", exact=True).click()
    assert body(asked.value)["denied"] == [first]
    expect(page.locator("#labels .label")).to_have_text(ranked(service, denied=[first])["labels"])
    expect(rows.first.locator(".tick")).to_be_focused()
    page.click("#undo-button")
    expect(page.locator("#labels .label").first).to_have_text(first)
    expect(page.locator("#undo")).to_be_hidden()

    rows.nth(1).locator(".tick").focus()
    page.keyboard.press("Delete")
    expect(page.locator("#labels .label").nth(1)).to_have_text(third)
    chip = page.locator("#chips .chip")
    expect(chip).to_contain_text(second)
    chip.get_by_role("button", name=f"Take back {second}").click()
    expect(page.locator("#labels .label").nth(1)).to_have_text(second)
    expect(page.locator("#chips")).to_be_hidden()


def test_only_a_branch_of_the_path(page: Any, service: Service) -> None:
    tag(page).first.locator("button.label").click()
    page.click("#explain summary")
    with page.expect_request(is_rank) as asked:
        page.locator("#explain ol.path").first.get_by_role("button", name="Only this branch").first.click()
    branch = body(asked.value)["branch"]
    assert branch.startswith("0/0.")
    expect(page.locator("#labels .label")).to_have_text(ranked(service, branch=branch)["labels"])
    assert ranked(service, branch=branch)["labels"] != ranked(service)["labels"]
    page.get_by_role("button", name="Allow all branches again").click()
    expect(page.locator("#labels .label")).to_have_text(ranked(service)["labels"])


def test_how_sure_filters_what_is_shown_and_copied(open_page: Any, service: Service) -> None:
    page = open_page(service.url, permissions=["clipboard-read", "clipboard-write"])
    tag(page)
    answer = ranked(service, probabilities=True)
    floor = max(1, round(100 * answer["probabilities"][2]))
    page.locator("#sure").fill(str(floor))
    pairs = zip(answer["labels"], answer["probabilities"], strict=True)
    sure = [label for label, share in pairs if share >= floor / 100]
    assert 0 < len(sure) < 10
    expect(page.locator("#labels .label")).to_have_text(sure)
    expect(page.locator("#sure-value")).to_have_text(f"{floor}%")
    page.click("#copy-json")
    expect(page.locator("#copy-note")).to_have_text(f"Copied {len(sure)} suggestion{'s' if len(sure) > 1 else ''}.")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert [entry["label"] for entry in copied["labels"]] == sure
    assert copied["labels"][0]["probability"] == pytest.approx(answer["probabilities"][0], rel=1e-5)
    assert copied["version"] == service.ask("v1/models/books")["version"]
    page.locator("#sure").fill("100")
    expect(page.locator("#labels-empty")).to_contain_text("No suggestion is this sure")
    expect(page.locator("#copy-csv")).to_be_disabled()


def test_a_subject_found_by_name_is_added_or_asked_about(open_page: Any, service: Service) -> None:
    page = open_page(service.url, permissions=["clipboard-read", "clipboard-write"])
    tag(page)
    box = page.get_by_role("combobox", name="Another subject")
    box.fill("ships")
    options = page.locator("#search-list [role=option]")
    found = service.ask("v1/models/books/labels?prefix=ships&limit=12")["labels"]
    expect(options.locator(".option-name")).to_have_text([entry["label"] for entry in found])
    assert len(found) > 1
    expect(options.first).to_have_attribute("aria-selected", "true")
    box.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    name = found[1]["label"]
    page.click("#search-why")
    expect(page.locator("#search-list")).to_be_hidden()
    expect(page.locator("#explain-title")).to_have_text(name)
    expect(page.locator("#explain .verdict")).to_contain_text(re.compile(r"Not suggested|of [\d,]+ subjects"))
    box.focus()
    box.press("Enter")
    added = page.locator("#added > li")
    expect(added.locator(".label")).to_have_text(name)
    expect(added.locator(".tick")).to_be_checked()
    expect(added.locator(".value")).to_contain_text("%")  # asked for by name, as it isn't among the best
    expect(page.locator("#search-note")).to_have_text(f"Added {name}.")
    page.click("#copy-csv")
    expect(page.locator("#copy-note")).to_have_text("Copied 1 subject.")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0] == "name,probability,chosen_by" and len(lines) == 2
    assert lines[1].startswith(name) and lines[1].endswith(",person")
    page.get_by_role("button", name=f"Remove {name}", exact=True).click()
    expect(page.locator("#added")).to_be_hidden()
    expect(page.locator("#chips")).to_be_hidden()  # the model didn't suggest it
    box.fill("zzzz")
    expect(page.locator("#search-note")).to_contain_text("No subject")
    box.press("Enter")
    expect(page.locator("#added")).to_be_hidden()


def test_enter_takes_the_highlighted_subject_of_what_was_typed(page: Any, service: Service) -> None:
    """The first that fits, and nothing that was found for other words."""
    tag(page)
    box = page.get_by_role("combobox", name="Another subject")
    box.fill("ships")
    expect(page.locator("#search-list li").first).to_be_visible()
    page.route("**/labels?*", lambda route: None)  # no answer for what follows
    box.fill("garden")
    box.press("Enter")
    expect(page.locator("#added")).to_be_hidden()
    expect(page.locator("#search-add")).to_be_disabled()
    page.unroute("**/labels?*")
    box.fill("ship")
    first = service.ask("v1/models/books/labels?prefix=ship&limit=1")["labels"][0]["label"]
    expect(page.locator("#search-list li[aria-selected=true]")).to_contain_text(first)
    box.press("Enter")
    expect(page.locator("#added .label, #labels .is-accepted .label")).to_have_text(first)


def add_label(page: Any, words: str) -> str:
    """Adds the first subject that some letters complete to, and returns its name."""
    page.fill("#search", words)
    expect(page.locator("#search-list [aria-selected=true]")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#added > li")).to_have_count(1)
    return str(page.locator("#added .label").inner_text())


def delete(page: Any) -> None:
    page.focus("#text")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")


def compare(page: Any) -> None:
    page.click("nav a[data-view=compare]")
    page.fill("#compare-text", "Gardening for children")
    page.click("nav a[data-view=record]")


HOW: dict[str, Callable[[Any], None]] = {
    "cleared": lambda page: page.click("#clear-text"),
    "pasted": lambda page: page.fill("#text", "Gardening for children"),
    "deleted": delete,
    "file": lambda page: give(page, "a.txt", WHALES.encode()),
    "compare": compare,
    "edited": lambda page: page.fill("#text", WHALES.replace("South", "Northern")),
    "appended": lambda page: page.fill("#text", f"{WHALES} {'and of other people ' * 9}"),
}


@pytest.mark.parametrize("how", HOW)
def test_added_and_removed_labels_belong_to_their_text(page: Any, how: str) -> None:
    tag(page)
    page.locator("#labels button.remove").first.click()
    add_label(page, "ships")
    expect(page.locator("#chips .chip")).to_have_count(1)
    HOW[how](page)
    stay = how in ("edited", "appended")
    expect(page.locator("#chips .chip")).to_have_count(int(stay))
    expect(page.locator("#added > li")).to_have_count(int(stay))
    if not stay:
        expect(page.locator("#undo")).to_be_hidden()
        if how not in ("cleared", "deleted"):
            expect(page.locator("#labels > li")).to_have_count(10)


def test_subjects_are_copied_and_without_any_what_is_suggested(open_page: Any, service: Service) -> None:
    page = open_page(service.url, permissions=["clipboard-read", "clipboard-write"])
    choose(page, "subjects")
    tag(page, "Sea stories")
    answer = ranked(service, "subjects", "Sea stories")
    clipboard = "navigator.clipboard.readText()"
    expect(page.locator("#copy-what")).to_have_text("Copy 10 suggestions:")
    page.click("#copy-codes")
    expect(page.locator("#copy-note")).to_have_text("Copied 10 suggestions.")
    assert page.evaluate(clipboard).splitlines() == answer["labels"]
    page.locator("#labels .copy").nth(1).click()
    expect(page.locator("#copy-note")).to_have_text(f"Copied {answer['labels'][1]}.")
    assert page.evaluate(clipboard) == answer["labels"][1]

    page.locator("#labels .tick").nth(2).check()
    page.route("**/rank", lambda route: None)  # the answers to what follows don't come
    page.locator("#labels button.remove").first.click()
    name = add_label(page, "ships")
    expect(page.locator("#copy-what")).to_have_text("Copy 2 subjects:")
    page.click("#copy-json")
    expect(page.locator("#copy-note")).to_have_text("Copied 2 subjects.")
    labels = json.loads(page.evaluate(clipboard))["labels"]
    assert [entry["name"] for entry in labels] == [name, answer["names"][2]]
    assert [entry["chosen_by"] for entry in labels] == ["person", "model"]


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        (True, "The model knows no word of this record, so it suggests nothing."),
        (False, "The model suggests nothing for this record."),
    ],
)
def test_a_text_without_labels(page: Any, unknown: bool, words: str) -> None:
    empty = {"results": [{"labels": [], "probabilities": [], **({"unknown": True} if unknown else {})}]}
    page.route("**/rank", lambda route: route.fulfill(json=empty))
    page.fill("#text", "qqqq wwww")
    expect(page.locator("#labels-empty")).to_have_text(words)
    expect(page.locator("#copy-csv")).to_be_disabled()
    page.click("nav a[data-view=compare]")
    expect(page.locator("#compare-sides .empty").first).to_have_text(words)
    expect(page.locator("#compare-summary")).to_be_empty()


def test_copying_without_a_clipboard_leaves_a_text_to_copy(open_page: Any, service: Service) -> None:
    page = open_page(
        service.url,
        "Object.defineProperty(navigator, 'clipboard', {value: undefined}); document.execCommand = () => false;",
    )
    tag(page)
    page.click("#copy-csv")
    text = page.locator("#copy-text")
    expect(text).to_be_visible()
    assert text.input_value().startswith("name,probability,chosen_by")
    assert text.evaluate("area => area.selectionEnd - area.selectionStart === area.value.length")
    page.click("#copy-close")
    expect(text).to_be_hidden()


def test_a_text_file_is_opened_or_dropped(page: Any, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes("Wörter über Wale".encode("cp1252"))
    page.set_input_files("#file", tmp_path / "old.txt")
    expect(page.locator("#text")).to_have_value("Wörter über Wale")
    expect(page.locator("#labels > li").first).to_be_visible()
    give(page, "book.pdf", b"%PDF", "application/pdf")
    expect(page.locator("#file-problem")).to_contain_text("book.pdf is neither JSON lines (.jsonl) nor a text file")

    drop = """words => {
        const data = new DataTransfer();
        data.items.add(new File([words], 'dropped.txt', {type: 'text/plain'}));
        for (const name of ['dragenter', 'dragover', 'drop'])
            document.querySelector('#editor').dispatchEvent(
                new DragEvent(name, {dataTransfer: data, bubbles: true, cancelable: true}));
    }"""
    page.evaluate(drop, "Dropped\r\nlines 🐋")
    expect(page.locator("#text")).to_have_value("Dropped\nlines 🐋")
    expect(page.locator("#file-problem")).to_be_hidden()


def test_labels_that_are_addresses_are_links_and_names_stay_text(page: Any, service: Service) -> None:
    choose(page, "subjects")
    tag(page, "Fiction")
    answer = ranked(service, "subjects", "Fiction")
    expect(page.locator("#labels button.label")).to_have_text(answer["names"])
    link = page.locator("#labels a.code").first
    expect(link).to_have_attribute("href", answer["labels"][0])
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    page.fill("#search", "onerror")
    expect(page.locator("#search-list span").first).to_have_text(MARKUP)
    page.keyboard.press("Enter")
    expect(page.locator("#added .label, #labels .is-accepted .label")).to_have_text(MARKUP)
    assert page.locator("main img").count() == 0


def test_scores_without_calibration_say_so(page: Any, service: Service) -> None:
    choose(page, "plain")
    with page.expect_request(is_rank) as asked:
        tag(page)
    assert "probabilities" not in body(asked.value)
    expect(page.locator("#not-calibrated")).to_be_visible()
    page.locator("#labels button.label").first.click()
    expect(page.locator("#explain ol.path li").first).to_be_attached()  # one tree, and no examples were given
    assert page.locator("#explain h3").all_text_contents()[2:] == ["Path in the tree"]
    assert page.locator("#labels .value").first.inner_text() == f"{ranked(service, 'plain')['scores'][0]:.3f}"


def test_choices_belong_to_their_model(page: Any) -> None:
    rows = tag(page)
    rows.first.locator("button.remove").click()
    expect(page.locator("#chips .chip")).to_have_count(1)
    choose(page, "plain")
    expect(page.locator("#chips")).to_be_hidden()
    choose(page, "books", "Books")
    expect(page.locator("#chips .chip")).to_have_count(1)


def test_models_that_take_no_texts_say_so(page: Any) -> None:
    choose(page, "rows")
    expect(page.locator("#not-texts h1")).to_have_text("rows takes features, not texts")
    expect(page.locator("#not-texts pre")).to_contain_text("/v1/models/rows/rank")
    expect(page.locator("#text")).to_be_hidden()
    vectors = {"name": "rows", "takes": "vectors", "labels": 9, "version": "1", "n_trees": 0, "calibrated": False}
    page.route("**/v1/models/rows", lambda route: route.fulfill(json=vectors))
    choose(page, "books", "Books")
    choose(page, "rows")
    expect(page.locator("#not-texts h1")).to_have_text("rows takes vectors, not texts")
    expect(page.locator("#not-texts pre")).to_contain_text("/v1/models/rows/search")
