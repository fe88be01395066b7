"""``sylvan update``: labels renamed and removed, rows learned and forgotten; planned, undone, refused unchanged."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import child_processes
import numpy as np
import pytest
from kit.bits import bits
from kit.errors import raises

import sylvan
from sylvan import data, store
from sylvan.errors import ModelError
from sylvan.hub.card import history_of

PROBES = ["bread and cakes", "whales at sea"]
M = Path("m")


@pytest.fixture
def model(files: Any) -> list[str]:
    """The names of the labels of a model in the folder m."""
    shutil.copytree(files.text_model, M)
    return names()


def names() -> list[str]:
    return list(sylvan.load(M).vocabulary_)


def test_labels_are_renamed_and_removed_in_place(call: Any, model: list[str]) -> None:
    before = sylvan.load(M)
    Path("gone.txt").write_text(f"{model[1]}\n\n")
    said = "Updated m: 1 label renamed, 1 removed.\n"
    assert call(f"update m --rename {model[0]}=a=b --remove gone.txt") == (0, "", said)
    after = sylvan.load(M)
    assert after.vocabulary_[0] == "a=b" and after.removed_labels_.tolist() == [1]
    np.testing.assert_array_equal(after.rank(PROBES).labels, before.rank(PROBES, denied=[1]).labels)
    assert call("update m --rename a=b=c -q").err == ""  # the name of a label ends at the second sign
    assert names()[0] == "c"
    call(f"update m --rename c={model[2]}", code=2)
    shown = call("inspect m").out
    assert shown.count("\nUpdated 20") == 2
    assert ": 1 label renamed, 1 removed.\n" in shown and ": 1 label renamed.\n" in shown
    assert [note["renamed"] for note in sylvan.store.load(M).meta["updates"]] == [1, 1]
    call("inspect m --card")
    assert "1 label renamed, 1 removed" in (M / "README.md").read_text()


def test_ids_of_a_model_over_matrices(call: Any, refused: Any, files: Any) -> None:
    shutil.copytree(files.matrix_model, M)
    Path("gone").write_text("0\n2\n")
    call("update m --remove gone -q")
    assert sylvan.load(M).removed_labels_.tolist() == [0, 2]
    refused("ids without names", "update m --rename 0=zero")


def test_versions_are_kept_and_brought_back(call: Any, refused: Any, model: list[str]) -> None:
    n_files = len(bits(M))
    for name in ("v1", "v2", "v3"):
        call(f"update m --rename {names()[0]}={name} --keep 2 -q")
    assert call("update m --undo --keep 2").err == "Went back to the version before; 1 earlier is left.\n"
    assert names()[0] == "v2"
    call("update m --undo -q")
    assert names()[0] == "v1"
    before = bits(M)
    refused("no earlier version", "update m --undo")
    assert bits(M) == before and len(before) == n_files
    call("update m --rename v1=v4 --keep 0 -q")
    assert len(bits(M)) == n_files, "nothing of the version before is left"
    call("update m --undo", code=2)
    call(f"update m --rename v4={model[0]} -q")
    assert sylvan.load(M, mmap=False).vocabulary_[0] == model[0]


def test_a_training_keeps_the_model_that_it_replaces(call: Any) -> None:
    command = "train xr-linear {train.jsonl} --model m --set beam="
    first = call(f"{command}3").out.splitlines()[-1]
    again = call(f"{command}4 --quiet")
    assert (again.out, sylvan.load(M).model.beam) == ("", 4)
    replaced = call(f"{command}5").out.splitlines()[-1]
    assert replaced == f"{first} The model that was there stays: sylvan update m --undo goes back to it."
    call("update m --undo -q")
    assert sylvan.load(M).model.beam == 4
    call("update m --undo", code=2)
    (M / "manifest.json").write_text('{"format": "sylvan-model"}')  # there is no way back to what is damaged
    assert call(f"{command}3").out.splitlines()[-1] == first
    call("update m --undo", code=2)


def test_a_model_in_use_goes_on_with_its_version(call: Any, model: list[str]) -> None:
    used = sylvan.load(M, mmap=True)
    before = used.rank(PROBES).scores.tobytes()
    Path("gone").write_text("\n".join(model[:-1]))
    call("update m --remove gone --keep 0 -q")
    assert used.rank(PROBES).scores.tobytes() == before
    assert set(sylvan.load(M).rank(PROBES, k=3).labels.ravel().tolist()) == {-1, len(model) - 1}


def test_what_can_not_be_done_changes_nothing(refused: Any, model: list[str]) -> None:
    Path("unknown").write_text(f"{model[0]}\nnever heard of\n")
    Path("all").write_text("\n".join(model))
    Path("one").write_text(model[0])
    before = bits(M)
    for words, why in (
        ("", "nothing to do: give NEW"),
        ("--undo --plan", "--undo goes alone"),
        ("--undo", "no earlier version of the model"),
        ("--rename nobody=new", "none of the model's"),
        ("--rename name", "--rename takes OLD=NEW"),
        ("--rename =name", "--rename takes OLD=NEW"),
        ("--rename {0}=", "--rename takes OLD=NEW"),
        ("--rename {0}=x --rename {0}=y", "gives '{0}' twice"),
        ("--rename {0}={1}", "can't be called '{1}'"),
        ("--rename {0}=x --rename {1}=x", "stands for two ids"),
        ("--remove nobody", "nobody"),
        ("--remove unknown", "line 2"),
        ("--remove all", "labels not all can be removed"),
        ("--remove one --rename {0}=x", "none of the model's"),
    ):
        said = refused(why.format(*model), f"update m {words.format(*model)}")
        assert said.count("\n") == 1 and bits(M) == before, words


def test_models_that_can_not_lose_labels_and_no_models(refused: Any) -> None:
    sylvan.BeamTreeClassifier(epochs=1).fit(np.eye(3).repeat(4, axis=0), np.arange(3).repeat(4)).save(M)
    Path("gone").write_text("1\n")
    refused("train it without them", "update m --remove gone")
    refused("no such folder", "update nothing --undo")
    sylvan.LabelTree.flat(3).save("tree")
    refused("no model that ranks labels", "update tree --rename a=b")


@pytest.mark.parametrize(("command", "said"), [
    ("update m --rename {0}=x", "the model in m was updated"), ("compress m -o n", "the model was saved in n"),
])  # fmt: skip
def test_an_interrupt_after_saving_says_so(
    command: str, said: str, call: Any, model: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module(f"sylvan.cli.{command.split()[0]}"), "say", interrupted)
    assert call(command.format(*model), code=1).err.endswith(f"Interrupted; {said}.\n")


def test_one_update_at_a_time(call: Any, refused: Any, model: list[str]) -> None:
    code = (
        "import sys\nfrom sylvan import store\n"
        "with store.updating('m'):\n    print('locked', flush=True)\n    sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    child = child_processes.start([sys.executable, "-c", code], stdin=pipe, stdout=pipe, encoding="utf-8")
    assert child.stdout is not None and child.stdout.readline() == "locked\n"
    refused(f"is being updated by process {child.pid}", f"update m --rename {model[0]}=new")
    assert names() == model
    child_processes.end(child)
    assert (M / "updating.lock").exists()  # it was killed; its lock died with it
    call(f"update m --rename {model[0]}=new -q")
    assert names()[0] == "new" and "updating.lock" not in os.listdir(M)


@pytest.mark.parametrize("history", [3, [3], [{"when": 3}], [{"when": "now", "removed": "1"}]])
def test_a_history_that_is_none_is_a_sentence(refused: Any, model: list[str], history: Any) -> None:
    store.annotate(M, {"updates": history})
    with raises(ModelError, "manifest.json"):
        history_of(store.load(M))
    refused("isn't what update writes", "inspect m")


WORDS = {"Whaling": "whale sea ship", "Baking": "bread cake oven", "Boats, small": "sail oar ship"}


def write(name: str, labels: list[str], n: int = 12) -> None:
    """JSON lines of texts that say their label."""
    rows = [{"text": f"{WORDS.get(label, label.lower())} {i}", "labels": [label]} for i in range(n) for label in labels]
    data.write_records(name, rows)


@pytest.fixture
def trained(call: Any) -> None:
    write("train.jsonl", list(WORDS))
    call("train xr-linear train.jsonl --model m --set keep_rows=true -q")


@pytest.mark.usefixtures("trained")
def test_rows_are_learned_and_forgotten(call: Any) -> None:
    write("new.jsonl", ["Railways", "Baking"], 3)
    before = bits(M)
    planned = call("update m new.jsonl --plan").out
    assert planned.startswith("Would update m: 6 rows learned. Nodes that would be") and bits(M) == before
    said = call("update m new.jsonl").err
    assert said.startswith("Read 6 rows from new.jsonl: JSON lines of text")
    assert said.endswith("\nUpdated m: 6 rows learned, 1 label added.\n")
    assert sylvan.load(M).rank(["railways"], k=1).names == [["Railways"]]
    shown = call("inspect m").out
    assert ": 6 rows learned, 1 label added.\n" in shown and "Keeps its 42 rows for updates" in shown
    Path("ids").write_text("0\n5\n5\n")
    outcome = call("update m --forget ids --merge 'Boats, small=Whaling' --precise")
    assert outcome.err == "Updated m: 2 rows forgotten, 1 label merged.\n"
    model = sylvan.load(M)
    assert model.model.row_ids_.tolist() == [1, 2, 3, 4, *range(6, 42)]
    assert model.rank(["sail and oar"], k=1).names == [["Whaling"]]
    call("update m --undo")
    assert len(sylvan.load(M).model.row_ids_) == 42
    assert call("inspect m --json -").json["living"]["n_rows"] == 42


@pytest.mark.usefixtures("trained")
def test_rows_that_are_learned_again_are_counted(call: Any) -> None:
    write("new.jsonl", ["Railways", "Fishing"], 3)
    assert "Warning" not in call("update m new.jsonl").err
    assert "Warning: the model has learned from new.jsonl before" in call("update m new.jsonl --plan").err
    said = "Warning: the model had learned 6 of the rows of new.jsonl before, with the same labels: they count twice "
    assert f"{said}now; sylvan update m --undo goes back.\n" in call("update m new.jsonl").err
    write("other.jsonl", ["Railways", "Sailing"], 3)
    some = call("update m other.jsonl --keep 0").err
    assert "had learned 3 of the rows" in some and "--undo" not in some
    Path("changed.jsonl").write_text(Path("new.jsonl").read_text().replace("]", ', "Whaling"]'))
    assert "Warning" not in call("update m changed.jsonl").err


def test_a_file_that_is_learned_again_by_a_model_that_keeps_no_weights(call: Any) -> None:
    write("train.jsonl", list(WORDS))
    call("train neighbors train.jsonl --model m -q")
    again = "Warning: the model has learned from train.jsonl before: its rows count twice then"
    assert again in call("update m train.jsonl").err
    write("new.jsonl", ["Baking"], 2)
    assert "Warning" not in call("update m new.jsonl").err


@pytest.mark.usefixtures("trained")
def test_rows_are_given_again(call: Any, refused: Any) -> None:
    write("new.jsonl", ["Railways"], 3)
    write("known.jsonl", ["Whaling"], 3)
    call("train xr-linear train.jsonl --model n -q")
    refused("keeps no rows", "update n known.jsonl")
    assert "\nNote: This XRLinear keeps no rows: known labels (3) learn" in call("update n new.jsonl").err
    call("update n --undo -q")
    call("update n new.jsonl --rows train.jsonl -q")
    assert sylvan.load("n").model.n_rows_ == 39


@pytest.mark.usefixtures("trained")
def test_what_can_not_be_learned_changes_nothing(refused: Any) -> None:
    for name, text in (("bad", "1\nx\n"), ("empty", ""), ("far", "36\n")):
        Path(name).write_text(text)
    before = bits(M)
    for words, why in (
        ("none.jsonl", "none.jsonl"),
        ("--forget bad", "line 2: 'x' is no id of a row"),
        ("--forget empty", "names no row"),
        ("--forget far", r"numbered in [0, 35]"),
        ("--merge Whaling", "--merge takes A,B=C"),
        ("--merge Nothing=Whaling", "'Nothing' is no label"),
        ("--merge Whaling=Whaling", "can't be merged with itself"),
        ("--merge Baking=Whaling --merge 'Boats, small=Whaling'", "gives 'Whaling' twice"),
        ("train.jsonl --rows train.jsonl", "keeps its rows"),
        ("train.jsonl --undo", "--undo goes alone"),
    ):
        refused(why, f"update m {words}")
        assert bits(M) == before, words


def test_a_merge_that_may_be_read_in_two_ways_is_refused(call: Any, refused: Any) -> None:
    names = ["a", "b", "a,b", "c=d", "d", "b=c"]
    rows = [{"text": f"topic{number} {i}", "labels": [name]} for number, name in enumerate(names) for i in range(6)]
    data.write_records("train.jsonl", rows)
    call("train xr-linear train.jsonl --model m --set keep_rows=true -q")
    refused('{"d": ["a", "b"]} and {"d": ["a,b"]}', "update m --merge a,b=d")
    refused('{"c=d": ["b"]} and {"d": ["b=c"]}', "update m --merge b=c=d")
    refused("but 'x' is no label", "update", "m", "--merge", '{"d": ["a,b", "x"]}')
    refused("--merge takes A,B=C", "update", "m", "--merge", '{"d": "a"}')
    (number,) = sylvan.load(M).vocabulary_.ids(["a,b"])
    assert call("update", "m", "--merge", '{"d": ["a,b"]}').err == "Updated m: 1 label merged.\n"
    assert sylvan.load(M).removed_labels_.tolist() == [number]


@pytest.mark.usefixtures("trained")
def test_what_is_refused_says_nothing_of_rows_learned_again(call: Any, refused: Any) -> None:
    write("new.jsonl", ["Railways"], 3)
    call("update m new.jsonl")
    assert "Warning" not in refused("none of the model's", "update m new.jsonl --rename Nothing=x")


def test_buckets_learn_with_known_rows_beside(call: Any, refused: Any) -> None:
    pytest.importorskip("torch")
    write("train.jsonl", list(WORDS))
    write("new.jsonl", ["Railways"], 6)
    small = ("n_buckets=4", "n_repetitions=4", "hidden=16", "rounds=0", "batch_size=4", "learning_rate=0.01")
    call(f"train irli train.jsonl --model m --set {' --set '.join(small)} -q")
    before = bits(M)
    refused("takes no 'precise'", "update m new.jsonl --rows train.jsonl --precise")
    planned = call("update m new.jsonl --rows train.jsonl --plan").out
    assert "shown to the networks, 8 times: 6 new ones and 36 known ones; about" in planned and bits(M) == before
    learned = call("update m new.jsonl --rows train.jsonl").err
    assert learned.endswith("\nUpdated m: 6 rows learned, 1 label added.\n")
    assert sylvan.load(M).rank(["railways", "bread"], k=1).names == [["Railways"], ["Baking"]]
    assert ": 6 rows learned, 1 label added.\n" in call("inspect m").out
    call("update m --undo -q")
    note = "Note: This IRLIClassifier has learned new labels (1) from rows (6)"
    assert note in call("update m new.jsonl").err
    Path("ids").write_text("0\n")
    refused("can't forget rows", "update m --forget ids")


def test_names_beside_uris_are_refused(call: Any, refused: Any) -> None:
    """They would be labels of their own; a vocabulary says whose names they are."""
    uris = [[f"http://example.org/{i % 3}"] for i in range(30)]
    texts = [("whales at sea", "bread and cakes", "rails and trains")[i % 3] for i in range(30)]
    data.write_jsonl("rows.jsonl", texts, uris)
    data.write_jsonl("new.jsonl", texts[:2], [["Whaling"], uris[1]])
    call("train xr-linear rows.jsonl --model m --set keep_rows=true -q")
    before = bits(M)
    said = refused("1 label that is no URI, such as 'Whaling'", "update m new.jsonl")
    assert said.endswith("which names have by --vocabulary FILE.\n") and bits(M) == before
    Path("texts.tsv").write_text("http://example.org/2\trails\nAstronomy\tstars at sea\n")
    said = refused("--label-texts has 1 label that is no URI, such as 'Astronomy'", "update m --label-texts texts.tsv")
    assert said.endswith("the model's labels are URIs: give URIs.\n") and bits(M) == before
    Path("names.tsv").write_text("<http://example.org/0>\tWhaling\n<http://example.org/1>\tBaking\n")
    assert call("update m new.jsonl --vocabulary names.tsv").err.endswith(": 2 rows learned.\n")
