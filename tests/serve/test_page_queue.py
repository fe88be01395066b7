"""The page as a tool for many records: a queue, ticks and keys, what is kept, an export that a model learns from."""

import json
from pathlib import Path
from typing import Any

import pytest
from kit.books import load_sample
from page_steps import WHALES, Service, choose, give, ranked, shown, tag
from playwright.sync_api import expect

import sylvan
from sylvan import TextModel
from sylvan.cli import main

pytest_plugins = ("page_fixtures",)

TEXTS = [WHALES, "Gardening for children", "Astronomy for beginners"]


def opened(page: Any, lines: list[Any], name: str = "records.jsonl") -> None:
    """A queue of JSON lines."""
    give(page, name, "".join(f"{json.dumps(line)}\n" for line in lines).encode(), "application/json")


def queue(page: Any) -> None:
    opened(page, [{"id": f"r{i}", "text": text} for i, text in enumerate(TEXTS)])
    expect(page.locator("#record-title")).to_have_text("Record 1 of 3")
    expect(page.locator("#labels > li").first).to_be_visible()


def exported(page: Any, folder: Path) -> Path:
    with page.expect_download() as download:
        page.click("#export")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_a_queue_is_worked_through_by_keys_and_what_is_exported_is_learned(
    page: Any, service: Service, tmp_path: Path
) -> None:
    queue(page)
    expect(page.locator("#record-id")).to_have_text("r0")
    expect(page.locator("#record-title")).to_be_focused()
    expect(page.locator("#export")).to_be_disabled()
    first = shown(page)
    page.keyboard.press("1")
    page.keyboard.press("3")
    page.keyboard.press("3")
    page.keyboard.press("2")
    expect(page.locator("#labels .tick").nth(1)).to_be_checked()
    expect(page.locator("#labels .tick").nth(2)).not_to_be_checked()
    expect(page.locator("#accepted-count")).to_have_text("2 subjects accepted")
    page.locator("#labels .tick").nth(4).focus()
    page.keyboard.press("Delete")
    expect(page.locator("#chips .chip")).to_contain_text(first[4])
    page.keyboard.press("/")
    page.keyboard.type("ships")
    added = page.locator("#search-list [aria-selected=true] .option-name")
    expect(added).to_be_visible()
    ships = added.inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("#added .label")).to_have_text(ships)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#record-title")).to_have_text("Record 2 of 3")
    expect(page.locator("#queue-note")).to_have_text("Saved. 2 records are left.")
    expect(page.locator("#text")).to_have_value(TEXTS[1])
    expect(page.locator("#accepted-count")).to_have_text("0 subjects accepted")
    expect(page.locator("#chips")).to_be_hidden()

    page.keyboard.press("s")
    expect(page.locator("#record-title")).to_have_text("Record 3 of 3")
    expect(page.locator("#labels > li").first).to_be_visible()
    third = shown(page)[0]
    page.keyboard.press("1")
    page.keyboard.press("n")
    expect(page.locator("#record-title")).to_have_text("Record 2 of 3")  # the one that was skipped
    page.keyboard.press("p")
    expect(page.locator("#record-saved")).to_be_visible()
    expect(page.locator("#labels .tick").first).to_be_checked()
    page.keyboard.press("s")
    page.keyboard.press("n")
    expect(page.locator("#queue-note")).to_have_text("Saved. All records are saved: export them.")

    path = exported(page, tmp_path)
    assert path.name == "records-subjects.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [line["id"] for line in lines] == ["r0", "r1", "r2"] and [line["text"] for line in lines] == TEXTS
    assert lines[0]["labels"] == [first[0], first[1], ships]
    assert lines[0]["accepted"] == first[:2] and lines[0]["added"] == [ships] and lines[0]["removed"] == [first[4]]
    assert lines[1]["labels"] == [] and lines[2]["labels"] == [third]
    assert lines[0]["version"] == service.ask("v1/models/books")["version"] and lines[0]["model"] == "books"

    train, _ = load_sample()
    model = TextModel(sylvan.TfidfVectorizer(), sylvan.XRLinear(seed=0, keep_rows=True))
    model.fit(train.texts[:400], train.labels[:400]).save(tmp_path / "model")
    assert main(["update", str(tmp_path / "model"), str(path), "--quiet"]) == 0
    learned = sylvan.load(tmp_path / "model", expected=TextModel)
    assert ships in learned.vocabulary_ and first[0] in learned.rank([TEXTS[0]], k=5).names[0]


def test_a_reload_loses_nothing(page: Any) -> None:
    queue(page)
    page.keyboard.press("2")
    page.locator("#sure").fill("1")
    page.locator("#labels button.remove").first.click()
    expect(page.locator("#chips .chip")).to_have_count(1)
    kept = shown(page)[0]
    page.keyboard.press("n")
    expect(page.locator("#record-title")).to_have_text("Record 2 of 3")
    page.fill("#text", f"{TEXTS[1]}, with pictures")
    page.locator("#labels .tick").nth(1).check()
    page.reload()
    expect(page.locator("#record-title")).to_have_text("Record 2 of 3")
    expect(page.locator("#text")).to_have_value(f"{TEXTS[1]}, with pictures")
    expect(page.locator("#accepted-count")).to_have_text("1 subject accepted")
    expect(page.locator("#sure-value")).to_have_text("1%")
    expect(page.locator("#queue-count")).to_have_text("1 saved")
    page.keyboard.press("p")
    expect(page.locator("#chips .chip")).to_have_count(1)
    expect(page.locator(f"#labels .is-accepted .label >> text='{kept}'")).to_be_visible()
    expect(page.locator("#queue-name")).to_have_text("records.jsonl")


@pytest.mark.parametrize("damage", ["null", "{", '{"source": {}, "text": 1, "choices": {}}', '{"source": {}}'])
def test_what_was_kept_and_makes_no_sense_is_passed_over(page: Any, damage: str) -> None:
    queue(page)
    page.evaluate("text => localStorage.setItem('sylvan/record.1', text)", damage)
    page.reload()
    expect(page.locator("#record-title")).to_have_text("Record")
    tag(page)
    page.reload()
    expect(page.locator("#text")).to_have_value(WHALES)


def test_another_window_is_noticed(page: Any) -> None:
    queue(page)
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.locator("#labels > li").first).to_be_visible()
    expect(page.locator("#elsewhere")).to_be_hidden()
    other.locator("#labels .tick").first.check()
    expect(page.locator("#elsewhere")).to_contain_text("changed in another window")


def test_typed_records_follow_each_other(page: Any, tmp_path: Path) -> None:
    expect(page.locator("#save")).to_be_disabled()
    tag(page)
    page.keyboard.press("1")  # in the text, where it is a character
    expect(page.locator("#text")).to_have_value(f"{WHALES}1")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#text")).to_be_focused()
    expect(page.locator("#record-title")).to_have_text("Record 2 of 2")
    tag(page, TEXTS[1])
    page.locator("#labels .tick").first.check()
    page.click("#save")
    page.reload()
    expect(page.locator("#record-title")).to_have_text("Record 3 of 3")
    lines = exported(page, tmp_path).read_text("utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == [f"{WHALES}1", TEXTS[1]]
    page.click("#close-queue")  # all is exported: nothing is asked
    expect(page.locator("#record-title")).to_have_text("Record")


def test_a_queue_that_would_be_lost_is_asked_about(page: Any) -> None:
    queue(page)
    page.keyboard.press("1")
    said: list[str] = []
    page.once("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    with page.expect_event("dialog"):
        opened(page, [{"text": "another"}], "other.jsonl")
    expect(page.locator("#queue-name")).to_have_text("records.jsonl")
    assert said == ["1 record with decisions isn't exported. Lose it?"]
    page.once("dialog", lambda dialog: dialog.accept())
    opened(page, [{"text": "another"}], "other.jsonl")
    expect(page.locator("#queue-name")).to_have_text("other.jsonl")
    expect(page.locator("#text")).to_have_value("another")


def test_subjects_of_the_file_are_accepted_to_begin_with(page: Any, service: Service) -> None:
    best = ranked(service)["labels"][0]
    opened(page, [{"text": WHALES, "labels": [best, "Never heard of"], "scores": [0.5, 0.1]}])
    expect(page.locator("#accepted-count")).to_have_text("2 subjects accepted")
    expect(page.locator("#added .label, #labels .is-accepted .label")).to_have_text(["Never heard of", best])
    expect(page.locator("#added .badge")).to_have_text("from the file")


def test_a_folder_of_texts(page: Any, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in (10, 9):
        (folder / f"{number}.txt").write_text(f"text {number}\r\nof whales", "utf-8")
    (folder / "notes.pdf").write_bytes(b"%PDF")
    page.set_input_files("#folder", folder)
    expect(page.locator("#record-title")).to_have_text("Record 1 of 2")
    expect(page.locator("#queue-name")).to_have_text("texts")
    expect(page.locator("#record-id")).to_have_text("9.txt")
    expect(page.locator("#text")).to_have_value("text 9\nof whales")
    expect(page.locator("#queue-note")).to_have_text("2 records opened. 1 other file is passed over: notes.pdf.")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"text": "a"}\nno json\n', "q.jsonl, line 2: this is no JSON."),
        ("[1]\n", 'q.jsonl, line 1: a record must be an object, such as {"text": "…"}.'),
        ('\n{"title": "a", "id": 1}\n', "line 2: there is no field text. The model reads text"),
        ('{"text": 5}\n', "line 1: the field text must be a text."),
        ('{"text": "a", "labels": [1.5]}\n', "line 1: the field labels must be a list of subjects."),
        ("\n \n", "q.jsonl has no records."),
    ],
)
def test_a_queue_that_is_not_understood_is_refused_in_a_sentence(page: Any, content: str, words: str) -> None:
    tag(page)
    give(page, "q.jsonl", content.encode(), "application/json")
    expect(page.locator("#file-problem")).to_contain_text(words)
    expect(page.locator("#text")).to_have_value(WHALES)  # what was there stays


def test_a_queue_beyond_the_browsers_room_is_refused_and_the_old_one_stays(page: Any) -> None:
    queue(page)
    page.keyboard.press("1")
    expect(page.locator("#accepted-count")).to_have_text("1 subject accepted")
    page.on("dialog", lambda dialog: dialog.accept())
    opened(page, [{"text": "whale " * 100_000}] * 20, "large.jsonl")
    expect(page.locator("#file-problem")).to_contain_text("large.jsonl is too large for the browser to keep: 20")
    page.reload()
    expect(page.locator("#record-title")).to_have_text("Record 1 of 3")
    expect(page.locator("#accepted-count")).to_have_text("1 subject accepted")


def test_without_storage_it_works_and_says_what_a_reload_loses(open_page: Any, service: Service) -> None:
    page = open_page(service.url, "Storage.prototype.setItem = () => { throw new Error('forbidden'); };")
    tag(page)
    expect(page.locator("#unkept")).to_contain_text("a reload would lose it")
    page.locator("#labels .tick").first.check()
    expect(page.locator("#accepted-count")).to_have_text("1 subject accepted")


def test_the_slider_begins_at_the_stored_threshold(page: Any, service: Service) -> None:
    expect(page.locator("#sure-note")).to_contain_text("No threshold is stored with this model")
    expect(page.locator("#sure-value")).to_have_text("0%")
    card = service.ask("v1/models/plain")
    stored = {**card, "calibrated": True, "threshold": {"f1": 0.23, "on": "dev.jsonl", "rows": 1200}}
    page.route("**/v1/models/plain", lambda route: route.fulfill(json=stored))
    choose(page, "plain")
    expect(page.locator("#sure-value")).to_have_text("23%")
    expect(page.locator("#sure-note")).to_have_text("F1 is highest from 23% on, on dev.jsonl (1,200 records).")
    page.locator("#sure").fill("40")
    page.reload()
    expect(page.locator("#about")).to_contain_text("plain")  # the model that was chosen
    expect(page.locator("#sure-value")).to_have_text("40%")


def test_keys_of_one_character_can_be_turned_off(page: Any) -> None:
    queue(page)
    page.click("footer summary")
    page.uncheck("#keys-on")
    page.focus("#record-title")
    page.keyboard.press("1")
    page.keyboard.press("n")
    expect(page.locator("#record-title")).to_have_text("Record 1 of 3")
    expect(page.locator("#accepted-count")).to_have_text("0 subjects accepted")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#record-title")).to_have_text("Record 2 of 3")
    page.reload()
    expect(page.locator("#keys-on")).not_to_be_checked()


def test_a_tick_asks_for_nothing_new(page: Any) -> None:
    tag(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator("#labels .tick").first.check()
    page.locator("#labels .tick").first.uncheck()
    expect(page.locator("#accepted-count")).to_have_text("0 subjects accepted")
    page.click("#labels-more")
    expect(page.locator("#labels > li")).to_have_count(20)
    assert len(asked) == 1  # for these


def test_broader_and_narrower_subjects_are_shown_and_added(page: Any, service: Service) -> None:
    choose(page, "subjects")
    tag(page, "Sea stories")
    page.locator("#labels button.label").first.click()
    expect(page.locator("#explain .relations").first).to_contain_text("All subjects")
    expect(page.locator("#explain .relations .badge")).to_have_text("new to the model")
    expect(page.locator("#explain details")).not_to_have_attribute("open", "")
    expect(page.locator("#explain ol.path")).to_be_hidden()
    page.get_by_role("button", name="Add All subjects").click()
    expect(page.locator("#added .label")).to_have_text("All subjects")


def test_german_is_spoken_where_the_browser_asks_for_it(open_page: Any, service: Service) -> None:
    page = open_page(service.url, locale="de-AT")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    tag(page)
    expect(page.locator("#labels-title")).to_have_text("Vorschläge")
    expect(page.locator("#labels-count")).to_have_text("10 Vorschläge")
    page.locator("#labels button.label").first.click()
    expect(page.locator("#explain .verdict")).to_contain_text("1. von ")
    other = open_page(service.url, locale="fi")
    expect(other.locator("#labels-title")).to_have_text("Suggestions")
