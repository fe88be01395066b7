"""What the page's files hold, as far as it takes no browser: sentences in every language, and the export's lines."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import child_processes
import pytest
from kit.books import load_sample

import sylvan
from sylvan import TextModel, XRLinear, data
from sylvan.cli import main

PAGE = Path(sylvan.__file__).parent / "serve" / "page"
SCRIPTS = {path.name: path.read_text("utf-8") for path in PAGE.glob("*.js")}
LANGUAGES = {path.stem: json.loads(path.read_text("utf-8")) for path in PAGE.glob("*.json")}
FORMS = {"zero", "one", "two", "few", "many", "other"}  # of Intl.PluralRules


def forms(sentence: str | dict[str, str]) -> list[str]:
    return [sentence] if isinstance(sentence, str) else list(sentence.values())


def values(sentence: str | dict[str, str]) -> set[str]:
    return {name for form in forms(sentence) for name in re.findall(r"\{(\w+)\}", form)}


def test_every_language_has_every_sentence_with_its_values() -> None:
    assert {"en", "de"} <= LANGUAGES.keys()
    listed = re.search(r"const LANGUAGES = (\[.*\]);", SCRIPTS["sentences.js"])
    assert listed and sorted(json.loads(listed[1])) == sorted(LANGUAGES)
    english = LANGUAGES["en"]
    for language, sentences in LANGUAGES.items():
        assert sentences.keys() == english.keys(), language
        for key, sentence in sentences.items():
            assert values(sentence) == values(english[key]), (language, key)
            assert all(form.strip() for form in forms(sentence)), (language, key)
            if isinstance(sentence, dict):
                assert sentence.keys() <= FORMS and "other" in sentence, (language, key)
                assert "n" in values(sentence), (language, key)  # by which the form is chosen


def test_every_sentence_is_said_and_no_other() -> None:
    page = (PAGE / "index.html").read_text("utf-8")
    keys = set(LANGUAGES["en"])
    in_page = set(re.findall(r'data-say(?:-[a-z-]+)?="([^"]*)"', page))
    words = {word for text in SCRIPTS.values() for word in re.findall(r'"([\w.]+)"', text)}
    said = {key for text in SCRIPTS.values() for key in re.findall(r'\bsay\("([^"]*)"', text)}
    assert in_page | said <= keys
    assert keys - in_page - words == set()


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_hold_no_sentences(name: str) -> None:
    code = re.sub(r"^\s*(//|/?\*).*$|//.*$", "", SCRIPTS[name], flags=re.M)
    strings = re.findall(r'"([^"\n]*)"|`([^`]*)`', code)
    sentences = [text for pair in strings for text in pair if re.search(r"[A-Z][a-z]+ [a-z]+ [a-z]+", text)]
    assert sentences == []


def run_script(folder: Path, script: str) -> Any:
    """What a script prints as JSON, which may import the page's files that need no browser."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    shutil.copy(PAGE / "records.js", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "script.js").write_text(f'import * as records from "./records.js";\n{script}', encoding="utf-8")
    done = child_processes.run([node, "script.js"], cwd=folder, check=True)
    return json.loads(done.stdout)


def exported(folder: Path, records: Any, card: Any) -> str:
    """The lines of an export."""
    script = f"console.log(JSON.stringify(records.exported(...{json.dumps([records, card])})));"
    return str(run_script(folder, script))


CARD = {"name": "m", "version": "crc32:1", "fields": ["title", "note"], "labels_field": "subjects"}
RECORDS: list[dict[str, Any]] = [
    {"source": {"id": 7, "title": "Whales", "note": None, "subjects": ["old"], "scores": [1]}, "text": None},
    {"source": {"id": 8, "title": "Seas", "note": "A note"}, "text": "Seas and ships"},
    {"source": {}, "text": "typed"},
    {"source": {"title": "not saved", "note": ""}, "text": None},
]
LABELS: list[tuple[str, str]] = [("a", "model"), ("b", "person"), ("old", "file")]


def test_the_export_has_the_record_its_subjects_and_who_chose_them(tmp_path: Path) -> None:
    chosen = {
        "accepted": [{"label": label, "name": label, "by": by} for label, by in LABELS],
        "denied": [{"label": "c", "name": "c"}], "branch": None,
    }  # fmt: skip
    saved = {"model": "m", "version": "crc32:1", "decided": "2026-01-01T00:00:00Z"}
    records = [{"choices": {}, "exported": False, **record, "saved": saved} for record in RECORDS]
    records[0]["choices"] = {"m": chosen}
    records[3]["saved"] = None
    lines = exported(tmp_path, records, CARD)
    assert lines.endswith("\n")
    first, second, third = map(json.loads, lines.splitlines())
    assert first == {
        "id": 7, "title": "Whales", "note": None, "subjects": ["a", "b", "old"],
        "accepted": ["a"], "added": ["b"], "removed": ["c"], **saved,
    }  # fmt: skip
    assert second["title"] == "Seas and ships" and second["note"] == "" and second["subjects"] == []
    assert third["title"] == "typed" and third["note"] == ""


def test_subjects_of_a_file_are_read_in_the_forms_of_json_lines(tmp_path: Path) -> None:
    cases: list[tuple[Any, Any]] = [
        (["a", "b", "a"], ["a", "b"]), ("a", ["a"]), ([["a", 0.5], ["b", 1]], ["a", "b"]), ([3, 4], [3, 4]), ([], []),
        ([{"uri": "http://a", "label": "A"}, {"label": "B"}], ["http://a", "B"]), ([1.5], None), ([None], None),
        ([{}], None), (True, None),
    ]  # fmt: skip
    listed = json.dumps([case[0] for case in cases])
    script = f"console.log(JSON.stringify({listed}.map(each => records.labelsOf(each))));"
    assert run_script(tmp_path, script) == [case[1] for case in cases]


def test_what_is_exported_is_learned_by_sylvan_update(tmp_path: Path) -> None:
    train, test = load_sample()
    model = TextModel(model=XRLinear(seed=0, keep_rows=True)).fit(train.texts[:300], train.labels[:300])
    model.save(tmp_path / "model")
    known = model.vocabulary_[0]
    records = [
        {
            "source": {"id": i}, "text": text, "exported": False,
            "saved": {"model": "m", "version": "1", "decided": "now"},
            "choices": {"m": {"accepted": [{"label": known, "name": known, "by": "model"},
                                           {"label": "Brand new", "name": "Brand new", "by": "person"}] if i else [],
                              "denied": [], "branch": None}},
        }
        for i, text in enumerate(test.texts[:4])
    ]  # fmt: skip
    card = {"name": "m", "fields": list(model.text_fields_), "labels_field": model.labels_field_}
    (tmp_path / "export.jsonl").write_text(exported(tmp_path, records, card), encoding="utf-8")
    read = data.read_jsonl(tmp_path / "export.jsonl")
    assert read.texts == test.texts[:4] and read.labels[1:] == [[known, "Brand new"]] * 3
    assert main(["update", str(tmp_path / "model"), str(tmp_path / "export.jsonl"), "--quiet"]) == 0
    learned = sylvan.load(tmp_path / "model", expected=TextModel)
    assert "Brand new" in learned.vocabulary_ and "Brand new" in learned.rank(test.texts[1:2], k=3).names[0]
