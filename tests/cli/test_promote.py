"""``sylvan promote``: a better model takes the place of the live one in one step; whatever else is in a sentence."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from kit.bits import bits, same_models

import sylvan
from sylvan import data, store
from sylvan.cli import promote

LIVE = Path("live")


@pytest.fixture(scope="module")
def worse(files: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that has learned other rows' labels, and lacks one of them."""
    folder = str(tmp_path_factory.mktemp("worse") / "model")
    rows = data.read_jsonl(files("train.jsonl"))
    labels = [[label for label in row if label != "Chess"] for row in rows.labels[50:180]]
    sylvan.TextModel(model=sylvan.XRLinear(keep_rows=True)).fit(rows.texts[:130], labels).save(folder)
    return folder


@pytest.fixture
def live(worse: str, in_folder: Path) -> str:
    """Where that model lies, which has been copied into the folder live."""
    shutil.copytree(worse, LIVE)
    return worse


def test_a_better_model_takes_the_place_of_the_live_one(call: Any, files: Any, live: str) -> None:
    before = bits(Path(files.text_model))
    outcome = call("promote {text-model} live {test.jsonl} --by P@1 --threads 1 --json log.jsonl")
    assert outcome.err.splitlines()[-1].startswith(f"Promoted: live is {files.text_model} now")
    assert "over the same 60 rows" in outcome.out and "P@1" in outcome.out
    same_models(LIVE, files.text_model)
    assert bits(Path(files.text_model)) == before
    (found,) = data.read_records("log.jsonl")
    assert found["promoted"] and found["comparison"]["P@1"]["p"] < 0.05 < found["comparison"]["P@1"]["difference"]
    assert found["candidate"]["version"] == store.contents(files.text_model)["checksum"]
    assert found["live"]["version"] == store.contents(live)["checksum"]
    assert found["live"]["version_after"] == store.contents(LIVE)["checksum"]
    call("update live --undo -q")
    same_models(LIVE, live)


def test_a_worse_model_or_one_that_differs_by_chance_changes_nothing(call: Any, files: Any, live: str) -> None:
    shutil.copytree(files.text_model, "good")
    before = bits(Path("good")), bits(LIVE)
    outcome = call(f"promote {live} good {{test.jsonl}} --json -", code=4)
    assert not outcome.json["promoted"]
    assert f"Note: {live} doesn't have 1 label of good, such as 'Chess'." in outcome.err
    assert outcome.err.splitlines()[-1].startswith(f"Not promoted: {live} is worse than good (nDCG@5 -")
    assert "p = 1.0000" in call("promote {text-model} good {test.jsonl}", code=3).err.splitlines()[-1]
    call("promote {text-model} live {test.jsonl} --significance 1e-9", code=3)
    assert (bits(Path("good")), bits(LIVE)) == before


def test_matrices(call: Any, files: Any) -> None:
    shutil.copytree(files.matrix_model, LIVE)
    call("promote {matrix-model} live {test.xmc} -q", code=3)


@pytest.mark.parametrize("saved", [False, True])
def test_an_interruption_says_which_model_is_there(
    saved: bool, call: Any, files: Any, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = store.save

    def interrupted(*arguments: Any, **options: Any) -> None:
        if saved:
            save(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "save", interrupted)
    outcome = call("promote {text-model} live {test.jsonl}", code=1)
    words = f"live holds {files.text_model} now" if saved else "nothing was written"
    assert outcome.err.splitlines()[-1] == f"Interrupted; {words}."
    same_models(LIVE, files.text_model if saved else live)


def test_a_model_that_changes_meanwhile_is_not_promoted(
    refused: Any, files: Any, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(files.text_model, "candidate")
    found = promote.side_by_side

    def changed(*arguments: Any) -> Any:
        store.annotate("candidate", {"note": 1})
        return found(*arguments)

    monkeypatch.setattr(promote, "side_by_side", changed)
    said = refused("candidate", "promote candidate live {test.jsonl}")
    assert "candidate" in said.splitlines()[-1]
    same_models(LIVE, live)


WRONG = [
    ("{text-model} none {test.jsonl}", "cp -r"),
    ("none good {test.jsonl}", "none"),
    ("{text-model} {test.jsonl} {test.jsonl}", "a file"),
    ("good ./good {test.jsonl}", "same folder"),
    ("{text-model} good -", "stdin"),
    ("{text-model} good {train.jsonl}", "good"),
    ("live good copy.jsonl", "live"),  # rows that one keeps
    ("{matrix-model} good {test.jsonl}", "matrices"),
    ("renamed good {test.jsonl}", "'u:Astronomy'"),
    ("{text-model} good {test.jsonl} --by PSP@5", "PSP@5"),
    ("{text-model} good {test.jsonl} --by P@0", "P@0"),
    ("{text-model} good {test.jsonl} --by P", "nDCG@5"),
]


def test_wrong_input_is_refused(refused: Any, files: Any, live: str) -> None:
    shutil.copytree(files.text_model, "good")
    rows, model = data.read_jsonl(files("train.jsonl")), sylvan.load(files.text_model)
    data.write_jsonl("copy.jsonl", rows.texts[:20], rows.labels[:20])
    model.with_label_names({label: f"u:{label}" for label in model.vocabulary_}).save("renamed")
    before = bits(Path("good"))
    for words, said in WRONG:
        refused(said, f"promote {words}")
        assert bits(Path("good")) == before, words
