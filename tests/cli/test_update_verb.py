"""``sylvan update``: labels renamed and removed, rows learned and forgotten; planned, undone, refused unchanged."""

from __future__ import annotations

import json
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

PROBES = ["bread and cakes", "whales at sea"]


@pytest.fixture
def model(files: Any, tmp_path: Path) -> str:
    shutil.copytree(files.text_model, tmp_path / "m")
    return str(tmp_path / "m")


def names_of(folder: str) -> list[str]:
    return list(sylvan.load(folder).vocabulary_)


def test_labels_are_renamed_and_removed_in_place(call: Any, model: str, tmp_path: Path) -> None:
    before = sylvan.load(model)
    first, second, third = before.vocabulary_[0], before.vocabulary_[1], before.vocabulary_[2]
    (tmp_path / "gone.txt").write_text(f"{second}\n\n")
    outcome = call("update", model, "--rename", f"{first}=a=b", "--remove", str(tmp_path / "gone.txt"))
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"Updated {model}: 1 label renamed, 1 removed.\n"
    after = sylvan.load(model)
    assert after.vocabulary_[0] == "a=b" and after.removed_labels_.tolist() == [1]
    np.testing.assert_array_equal(after.rank(PROBES).labels, before.rank(PROBES, denied=[1]).labels)
    assert call("update", model, "--rename", "a=b=c", "-q").err == ""  # the name of a label ends at the second sign
    assert names_of(model)[0] == "c"
    assert call("update", model, "--rename", f"c={third}").code == 2
    shown = call("inspect", model).out
    assert shown.count("\nUpdated 20") == 2
    assert ": 1 label renamed, 1 removed.\n" in shown and ": 1 label renamed.\n" in shown
    assert [note["renamed"] for note in sylvan.store.load(model).meta["updates"]] == [1, 1]
    assert call("inspect", model, "--card").code == 0
    assert "1 label renamed, 1 removed" in (Path(model) / "README.md").read_text()


def test_ids_of_a_model_over_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    shutil.copytree(files.matrix_model, folder)
    (tmp_path / "gone").write_text("0\n2\n")
    assert call("update", folder, "--remove", str(tmp_path / "gone"), "-q").code == 0
    assert sylvan.load(folder).removed_labels_.tolist() == [0, 2]
    outcome = call("update", folder, "--rename", "0=zero")
    assert outcome.code == 2 and "ids without names" in outcome.err


def test_versions_are_kept_and_brought_back(call: Any, model: str) -> None:
    first = names_of(model)[0]
    n_files = len(bits(Path(model)))
    for name in ("v1", "v2", "v3"):
        assert call("update", model, "--rename", f"{names_of(model)[0]}={name}", "--keep", "2", "-q").code == 0
    assert call("update", model, "--undo", "--keep", "2").err == "Went back to the version before; 1 earlier is left.\n"
    assert names_of(model)[0] == "v2"
    assert call("update", model, "--undo", "-q").code == 0
    assert names_of(model)[0] == "v1"
    before = bits(Path(model))
    outcome = call("update", model, "--undo")
    assert outcome.code == 2 and "no earlier version" in outcome.err
    assert bits(Path(model)) == before and len(before) == n_files
    assert call("update", model, "--rename", "v1=v4", "--keep", "0", "-q").code == 0
    assert len(bits(Path(model))) == n_files, "nothing of the version before is left"
    assert call("update", model, "--undo").code == 2
    assert call("update", model, "--rename", f"v4={first}", "-q").code == 0
    assert sylvan.load(model, mmap=False).vocabulary_[0] == first


def test_a_training_keeps_the_model_that_it_replaces(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    command = ("train", "xr-linear", files("train.jsonl"), "--model", folder)
    first = call(*command, "--set", "beam=3").out.splitlines()[-1]
    again = call(*command, "--set", "beam=4", "--quiet")
    assert (again.code, again.out, sylvan.load(folder).model.beam) == (0, "", 4)
    replaced = call(*command, "--set", "beam=5").out.splitlines()[-1]
    assert replaced == f"{first} The model that was there stays: sylvan update {folder} --undo goes back to it."
    assert call("update", folder, "--undo", "-q").code == 0
    assert sylvan.load(folder).model.beam == 4 and call("update", folder, "--undo").code == 2
    Path(folder, "manifest.json").write_text('{"format": "sylvan-model"}')  # there is no way back to what is damaged
    assert call(*command, "--set", "beam=3").out.splitlines()[-1] == first
    assert call("update", folder, "--undo").code == 2


def test_a_model_in_use_goes_on_with_its_version(call: Any, model: str, tmp_path: Path) -> None:
    used = sylvan.load(model, mmap=True)
    before = used.rank(PROBES).scores.tobytes()
    (tmp_path / "gone").write_text("\n".join(names_of(model)[:-1]))
    assert call("update", model, "--remove", str(tmp_path / "gone"), "--keep", "0", "-q").code == 0
    assert used.rank(PROBES).scores.tobytes() == before
    assert set(sylvan.load(model).rank(PROBES, k=3).labels.ravel().tolist()) == {-1, len(used.vocabulary_) - 1}


def test_a_plan_changes_nothing(call: Any, model: str) -> None:
    before = bits(Path(model))
    outcome = call("update", model, "--rename", f"{names_of(model)[0]}=new", "--plan")
    assert (outcome.code, outcome.out) == (0, f"Would update {model}: 1 label renamed.\n")
    assert bits(Path(model)) == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "nothing to do: give NEW"),
        (["--undo", "--plan"], "--undo goes alone"),
        (["--undo"], "no earlier version of the model"),
        (["--rename", "nobody=new"], "none of the model's"),
        (["--rename", "name"], "--rename takes OLD=NEW"),
        (["--rename", "=name"], "--rename takes OLD=NEW"),
        (["--rename", "{0}="], "--rename takes OLD=NEW"),
        (["--rename", "{0}=x", "--rename", "{0}=y"], "gives '{0}' twice"),
        (["--rename", "{0}={1}"], "can't be called '{1}'"),
        (["--rename", "{0}=x", "--rename", "{1}=x"], "stands for two ids"),
        (["--remove", "{folder}/nobody"], "nobody"),
        (["--remove", "{folder}/unknown"], "line 2"),
        (["--remove", "{folder}/all"], "labels not all can be removed"),
        (["--remove", "{folder}/one", "--rename", "{0}=x"], "none of the model's"),
    ],
)
def test_what_can_not_be_done_changes_nothing(call: Any, model: str, tmp_path: Path, words: Any, why: str) -> None:
    names = names_of(model)
    (tmp_path / "unknown").write_text(f"{names[0]}\nnever heard of\n")
    (tmp_path / "all").write_text("\n".join(names))
    (tmp_path / "one").write_text(names[0])
    before = bits(Path(model))
    outcome = call("update", model, *[word.format(*names, folder=tmp_path) for word in words])
    assert outcome.code == 2
    assert why.format(*names) in outcome.err and outcome.err.count("\n") == 1
    assert bits(Path(model)) == before


def test_models_that_can_not_lose_labels_and_no_models(call: Any, tmp_path: Path) -> None:
    model = sylvan.BeamTreeClassifier(epochs=1).fit(np.eye(3).repeat(4, axis=0), np.arange(3).repeat(4))
    model.save(tmp_path / "m")
    (tmp_path / "gone").write_text("1\n")
    outcome = call("update", str(tmp_path / "m"), "--remove", str(tmp_path / "gone"))
    assert outcome.code == 2 and "train it without them" in outcome.err
    outcome = call("update", str(tmp_path / "nothing"), "--undo")
    assert outcome.code == 2 and "no such folder" in outcome.err
    sylvan.LabelTree.flat(3).save(tmp_path / "tree")
    outcome = call("update", str(tmp_path / "tree"), "--rename", "a=b")
    assert outcome.code == 2 and "no model that ranks labels" in outcome.err


def test_one_update_at_a_time(call: Any, model: str) -> None:
    name = names_of(model)[0]
    code = (
        "import sys\nfrom sylvan import store\n"
        "with store.updating(sys.argv[1]):\n    print('locked', flush=True)\n    sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    child = child_processes.start([sys.executable, "-c", code, model], stdin=pipe, stdout=pipe, encoding="utf-8")
    assert child.stdout is not None and child.stdout.readline() == "locked\n"
    outcome = call("update", model, "--rename", f"{name}=new")
    assert outcome.code == 2 and f"is being updated by process {child.pid}" in outcome.err
    assert names_of(model)[0] == name
    child_processes.end(child)
    assert (Path(model) / "updating.lock").exists()  # it was killed; its lock died with it
    assert call("update", model, "--rename", f"{name}=new", "-q").code == 0
    assert names_of(model)[0] == "new" and not (Path(model) / "updating.lock").exists()
    assert os.listdir(model).count("updating.lock") == 0


@pytest.mark.parametrize("history", [3, [3], [{"when": 3}], [{"when": "now", "removed": "1"}]])
def test_a_history_that_is_none_is_a_sentence(call: Any, model: str, history: Any) -> None:
    store.annotate(model, {"updates": history})
    with raises(ModelError, "manifest.json"):
        from sylvan.hub.card import history_of

        history_of(store.load(model))
    assert "isn't what update writes" in call("inspect", model).err


WORDS = {"Whaling": "whale sea ship", "Baking": "bread cake oven", "Boats, small": "sail oar ship"}


def write(path: Path, labels: list[str], n: int = 12) -> str:
    """JSON lines of texts that say their label."""
    rows = [{"text": f"{WORDS.get(label, label.lower())} {i}", "labels": [label]} for i in range(n) for label in labels]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def trained(call: Any, tmp_path: Path) -> str:
    rows, folder = write(tmp_path / "train.jsonl", list(WORDS)), str(tmp_path / "m")
    assert call("train", "xr-linear", rows, "--model", folder, "--set", "keep_rows=true", "-q").code == 0
    return folder


def test_rows_are_learned_and_forgotten(call: Any, trained: str, tmp_path: Path) -> None:
    new = write(tmp_path / "new.jsonl", ["Railways", "Baking"], 3)
    before = bits(Path(trained))
    planned = call("update", trained, new, "--plan")
    assert planned.code == 0 and planned.out.startswith(f"Would update {trained}: 6 rows learned. Nodes that would be")
    assert bits(Path(trained)) == before
    outcome = call("update", trained, new)
    assert outcome.code == 0 and outcome.err.startswith(f"Read 6 rows from {new}: JSON lines of text")
    assert outcome.err.endswith(f"\nUpdated {trained}: 6 rows learned, 1 label added.\n")
    assert sylvan.load(trained).rank(["railways"], k=1).names == [["Railways"]]
    shown = call("inspect", trained).out
    assert ": 6 rows learned, 1 label added.\n" in shown and "Keeps its 42 rows for updates" in shown
    (tmp_path / "ids").write_text("0\n5\n5\n")
    outcome = call("update", trained, "--forget", str(tmp_path / "ids"), "--merge", "Boats, small=Whaling", "--precise")
    assert outcome.err == f"Updated {trained}: 2 rows forgotten, 1 label merged.\n"
    model = sylvan.load(trained)
    assert model.model.row_ids_.tolist() == [1, 2, 3, 4, *range(6, 42)]
    assert model.rank(["sail and oar"], k=1).names == [["Whaling"]]
    assert call("update", trained, "--undo").code == 0
    assert len(sylvan.load(trained).model.row_ids_) == 42
    assert json.loads(call("inspect", trained, "--json", "-").out)["living"]["n_rows"] == 42


def test_rows_that_are_learned_again_are_counted(call: Any, trained: str, tmp_path: Path) -> None:
    new, way = write(tmp_path / "new.jsonl", ["Railways", "Fishing"], 3), f"sylvan update {trained} --undo goes back.\n"
    assert "Warning" not in call("update", trained, new).err
    assert f"Warning: the model has learned from {new} before" in call("update", trained, new, "--plan").err
    again = call("update", trained, new)
    said = f"Warning: the model had learned 6 of the rows of {new} before, with the same labels: they count twice now; "
    assert again.code == 0 and said + way in again.err, again.err
    other = write(tmp_path / "other.jsonl", ["Railways", "Sailing"], 3)
    assert "had learned 3 of the rows" in (some := call("update", trained, other, "--keep", "0")).err
    assert "--undo" not in some.err
    changed = tmp_path / "changed.jsonl"
    changed.write_text(Path(new).read_text().replace("]", ', "Whaling"]'))
    assert "Warning" not in call("update", trained, str(changed)).err


def test_a_file_that_is_learned_again_by_a_model_that_keeps_no_weights(call: Any, tmp_path: Path) -> None:
    rows, folder = write(tmp_path / "train.jsonl", list(WORDS)), str(tmp_path / "m")
    assert call("train", "neighbors", rows, "--model", folder, "-q").code == 0
    assert f"Warning: the model has learned from {rows} before: its rows count twice then" in call(
        "update", folder, rows).err  # fmt: skip
    assert "Warning" not in call("update", folder, write(tmp_path / "new.jsonl", ["Baking"], 2)).err


def test_rows_are_given_again(call: Any, trained: str, tmp_path: Path) -> None:
    new, rows, folder = write(tmp_path / "new.jsonl", ["Railways"], 3), str(tmp_path / "train.jsonl"), tmp_path / "n"
    assert call("train", "xr-linear", rows, "--model", str(folder), "-q").code == 0
    refused = call("update", str(folder), write(tmp_path / "known.jsonl", ["Whaling"], 3))
    assert refused.code == 2 and "keeps no rows" in refused.err
    learned = call("update", str(folder), new)
    assert learned.code == 0 and "\nNote: This XRLinear keeps no rows: known labels (3) learn" in learned.err
    assert call("update", str(folder), "--undo", "-q").code == 0
    assert call("update", str(folder), new, "--rows", rows, "-q").code == 0
    assert sylvan.load(folder).model.n_rows_ == 39


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["{folder}/none.jsonl"], "none.jsonl"),
        (["--forget", "{folder}/bad"], "line 2: 'x' is no id of a row"),
        (["--forget", "{folder}/empty"], "names no row"),
        (["--forget", "{folder}/far"], r"numbered in [0, 35]"),
        (["--merge", "Whaling"], "--merge takes A,B=C"),
        (["--merge", "Nothing=Whaling"], "--merge takes A,B=C"),
        (["--merge", "Whaling=Whaling"], "can't be merged with itself"),
        (["--merge", "Baking=Whaling", "--merge", "Boats, small=Whaling"], "gives 'Whaling' twice"),
        (["{folder}/train.jsonl", "--rows", "{folder}/train.jsonl"], "keeps its rows"),
        (["{folder}/train.jsonl", "--undo"], "--undo goes alone"),
    ],
)
def test_what_can_not_be_learned_changes_nothing(
    call: Any, trained: str, tmp_path: Path, words: list[str], why: str
) -> None:
    for name, text in (("bad", "1\nx\n"), ("empty", ""), ("far", "36\n")):
        (tmp_path / name).write_text(text)
    before = bits(Path(trained))
    outcome = call("update", trained, *(word.format(folder=tmp_path) for word in words))
    assert outcome.code == 2 and why in outcome.err and "Traceback" not in outcome.err
    assert bits(Path(trained)) == before


def test_buckets_learn_with_known_rows_beside(call: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows, folder = write(tmp_path / "train.jsonl", list(WORDS)), str(tmp_path / "m")
    new = write(tmp_path / "new.jsonl", ["Railways"], 6)
    small = ("n_buckets=4", "n_repetitions=4", "hidden=16", "rounds=0", "batch_size=4", "learning_rate=0.01")
    options = [word for value in small for word in ("--set", value)]
    assert call("train", "irli", rows, "--model", folder, *options, "-q").code == 0
    before = bits(Path(folder))
    refused = call("update", folder, new, "--rows", rows, "--precise")
    assert refused.code == 2 and "takes no 'precise'" in refused.err
    planned = call("update", folder, new, "--rows", rows, "--plan").out
    assert "shown to the networks, 8 times: 6 new ones and 36 known ones; about" in planned
    assert bits(Path(folder)) == before
    learned = call("update", folder, new, "--rows", rows)
    assert learned.code == 0 and learned.err.endswith(f"\nUpdated {folder}: 6 rows learned, 1 label added.\n")
    assert sylvan.load(folder).rank(["railways", "bread"], k=1).names == [["Railways"], ["Baking"]]
    assert ": 6 rows learned, 1 label added.\n" in call("inspect", folder).out
    assert call("update", folder, "--undo", "-q").code == 0
    alone = call("update", folder, new)
    assert alone.code == 0 and "Note: This IRLIClassifier has learned new labels (1) from rows (6)" in alone.err
    (tmp_path / "ids").write_text("0\n")
    assert "can't forget rows" in call("update", folder, "--forget", str(tmp_path / "ids")).err


def test_names_beside_uris_are_refused(call: Any, tmp_path: Path) -> None:
    """They would be labels of their own; a vocabulary says whose names they are."""
    uris = [[f"http://example.org/{i % 3}"] for i in range(30)]
    texts = [("whales at sea", "bread and cakes", "rails and trains")[i % 3] for i in range(30)]
    data.write_jsonl(rows := tmp_path / "rows.jsonl", texts, uris)
    data.write_jsonl(new := tmp_path / "new.jsonl", texts[:2], [["Whaling"], uris[1]])
    folder = str(tmp_path / "m")
    assert call("train", "xr-linear", str(rows), "--model", folder, "--set", "keep_rows=true", "-q").code == 0
    before = bits(Path(folder))
    outcome = call("update", folder, str(new))
    assert outcome.code == 2 and "1 label that is no URI, such as 'Whaling'" in outcome.err, outcome
    assert outcome.err.endswith("which names have by --vocabulary FILE.\n"), outcome
    assert bits(Path(folder)) == before
    (tmp_path / "names.tsv").write_text("<http://example.org/0>\tWhaling\n<http://example.org/1>\tBaking\n")
    outcome = call("update", folder, str(new), "--vocabulary", str(tmp_path / "names.tsv"))
    assert outcome.code == 0 and outcome.err.endswith(": 2 rows learned.\n"), outcome
