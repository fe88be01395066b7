"""``sylvan promote``: a better model takes the place of the live one in one step; whatever else is in a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kit.bits import bits
from processes import same_models

import sylvan
from sylvan import data, store


@pytest.fixture(scope="module")
def worse(files: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that has learned other rows' labels, and lacks one of them."""
    folder = str(tmp_path_factory.mktemp("worse") / "model")
    rows = data.read_jsonl(files("train.jsonl"))
    labels = [[label for label in row if label != "Chess"] for row in rows.labels[50:180]]
    sylvan.TextModel(model=sylvan.XRLinear(keep_rows=True)).fit(rows.texts[:130], labels).save(folder)
    return folder


def copied(folder: str, target: Path) -> str:
    return str(shutil.copytree(folder, target))


def test_a_better_model_takes_the_place_of_the_live_one(call: Any, files: Any, worse: str, tmp_path: Path) -> None:
    live, before = copied(worse, tmp_path / "live"), bits(Path(files.text_model))
    outcome = call("promote", files.text_model, live, files("test.jsonl"), "--by", "P@1", "--threads", "1", "--json",
                   str(tmp_path / "log.jsonl"))  # fmt: skip
    assert outcome.code == 0 and outcome.err.splitlines()[-1].startswith(f"Promoted: {live} is {files.text_model} now")
    assert "over the same 60 rows" in outcome.out and "P@1" in outcome.out
    same_models(live, files.text_model)
    assert bits(Path(files.text_model)) == before
    (line,) = (tmp_path / "log.jsonl").read_text("utf-8").splitlines()
    found = json.loads(line)
    assert found["promoted"] and found["comparison"]["P@1"]["p"] < 0.05 < found["comparison"]["P@1"]["difference"]
    assert found["candidate"]["version"] == store.contents(files.text_model)["checksum"]
    assert found["live"]["version"] == store.contents(worse)["checksum"]
    assert found["live"]["version_after"] == store.contents(live)["checksum"]
    assert call("update", live, "--undo", "-q").code == 0
    same_models(live, worse)


def test_a_worse_model_or_one_that_differs_by_chance_changes_nothing(
    call: Any, files: Any, worse: str, tmp_path: Path
) -> None:
    live = copied(files.text_model, tmp_path / "live")
    before = bits(Path(live))
    outcome = call("promote", worse, live, files("test.jsonl"), "--json", "-")
    assert outcome.code == 4 and not json.loads(outcome.out)["promoted"]
    assert f"Note: {worse} doesn't have 1 label of {live}, such as 'Chess'." in outcome.err
    assert outcome.err.splitlines()[-1].startswith(f"Not promoted: {worse} is worse than {live} (nDCG@5 -")
    outcome = call("promote", files.text_model, live, files("test.jsonl"))
    assert outcome.code == 3 and "p = 1.0000" in outcome.err.splitlines()[-1]
    other = copied(worse, tmp_path / "other")
    assert call("promote", files.text_model, other, files("test.jsonl"), "--significance", "1e-9").code == 3
    assert bits(Path(live)) == before and bits(Path(other)) == bits(Path(worse))


def test_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    live = copied(files.matrix_model, tmp_path / "live")
    assert call("promote", files.matrix_model, live, files("test.xmc"), "-q").code == 3


@pytest.mark.parametrize("saved", [False, True])
def test_an_interruption_says_which_model_is_there(
    saved: bool, call: Any, files: Any, worse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, save = copied(worse, tmp_path / "live"), store.save

    def interrupted(*arguments: Any, **options: Any) -> None:
        if saved:
            save(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "save", interrupted)
    outcome = call("promote", files.text_model, live, files("test.jsonl"))
    words = f"{live} holds {files.text_model} now" if saved else "nothing was written"
    assert outcome.code == 1 and outcome.err.splitlines()[-1] == f"Interrupted; {words}."
    same_models(live, files.text_model if saved else worse)


def test_a_model_that_changes_meanwhile_is_not_promoted(
    call: Any, files: Any, worse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, candidate = copied(worse, tmp_path / "live"), copied(files.text_model, tmp_path / "candidate")

    def changed(*arguments: Any) -> Any:
        store.annotate(candidate, {"note": 1})
        return found(*arguments)

    from sylvan.cli import promote

    found = promote.side_by_side
    monkeypatch.setattr(promote, "side_by_side", changed)
    outcome = call("promote", candidate, live, files("test.jsonl"))
    assert outcome.code == 2 and candidate in outcome.err.splitlines()[-1]
    same_models(live, worse)


WRONG = {
    "no live model": (["{model}", "{tmp}/none", "{test}"], "cp -r"),
    "no candidate": (["{tmp}/none", "{live}", "{test}"], "{tmp}/none"),
    "a live file": (["{model}", "{test}", "{test}"], "a file"),
    "the same folder": (["{live}", "{tmp}/../{name}/live", "{test}"], "same folder"),
    "stdin": (["{model}", "{live}", "-"], "stdin"),
    "rows that one has learned": (["{model}", "{live}", "{train}"], "{live}"),
    "rows that one keeps": (["{worse}", "{live}", "{copy}"], "{worse}"),
    "texts and matrices": (["{matrices}", "{live}", "{test}"], "matrices"),
    "other labels": (["{renamed}", "{live}", "{test}"], "'u:Astronomy'"),
    "no such measure": (["{model}", "{live}", "{test}", "--by", "PSP@5"], "PSP@5"),
    "no answers": (["{model}", "{live}", "{test}", "--by", "P@0"], "P@0"),
    "no number": (["{model}", "{live}", "{test}", "--by", "P"], "nDCG@5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused(name: str, call: Any, files: Any, worse: str, tmp_path: Path) -> None:
    words, said = WRONG[name]
    names = {
        "model": files.text_model, "matrices": files.matrix_model, "test": files("test.jsonl"), "worse": worse,
        "train": files("train.jsonl"), "copy": str(tmp_path / "copy.jsonl"), "tmp": tmp_path, "name": tmp_path.name,
        "live": copied(files.text_model, tmp_path / "live"), "renamed": str(tmp_path / "renamed"),
    }  # fmt: skip
    rows = data.read_jsonl(files("train.jsonl"))
    data.write_jsonl(names["copy"], rows.texts[:20], rows.labels[:20])
    model = sylvan.load(files.text_model)
    model.with_label_names({label: f"u:{label}" for label in model.vocabulary_}).save(names["renamed"])
    before = bits(tmp_path / "live")
    outcome = call("promote", *(word.format(**names) for word in words))
    assert outcome.code == 2 and said.format(**names) in outcome.err and not outcome.out, outcome
    assert bits(tmp_path / "live") == before
