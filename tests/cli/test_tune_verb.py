"""``sylvan tune``: a model, a report that reproduces it, errors that are sentences."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits, same_models
from kit.books import load_sample
from kit.topics import corpus

import sylvan
from sylvan import data
from sylvan.tune.space import Setting, joined, toml_of
from sylvan.tune.workbench import Workbench

pytest.importorskip("optuna")


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without figures, as where matplotlib is missing: tests of the search look at them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def books(in_folder: Path) -> None:
    """Titles, authors and subjects."""
    rows = enumerate(zip(*corpus(160, 0), strict=True))
    records = [{"title": text, "author": f"a{at % 7}", "subjects": labels} for at, (text, labels) in rows]
    data.write_records("books.jsonl", records)


BOOKS = "books.jsonl --text-field title --text-field author --labels-field subjects --model m"


def trials(report: str = "m.tuning") -> Any:
    return json.loads(Path(report, "trials.json").read_text("utf-8"))


@pytest.mark.usefixtures("books")
def test_tuning_a_file_and_training_by_its_configuration(call: Any) -> None:
    outcome = call(f"tune {BOOKS} --max-trials 7 --threads 1")
    assert "#6" in outcome.err and "best" in outcome.err and outcome.out.startswith("Best: ")
    assert "Saved it in m" in outcome.out
    written, toml = trials(), Path("m.tuning", "tuned.toml")
    assert written["metric"] == "P@5" and len(written["trials"]) >= 7
    kind = "ensemble" if len(written["best"]["members"]) > 1 else written["best"]["members"][0]["model"]
    assert f"# sylvan train {kind} TRAIN" in toml.read_text("utf-8")
    call(f"train {kind} books.jsonl --model n --config {toml} --threads 2")
    same_models("m", "n")
    loaded = sylvan.load("m")
    assert loaded.text_fields_ == ("title", "author") and loaded.labels_field_ == "subjects"
    call("evaluate m books.jsonl -k 1")


@pytest.mark.parametrize("kinds", [("xr-linear",), ("neighbors",), ("xr-linear", "neighbors")])
def test_a_configuration_gives_the_same_bits(call: Any, files: Any, kinds: tuple[str, ...]) -> None:
    """Whatever the best is: each kind of setting, as a model in Python and by its configuration."""
    members = [
        Setting("xr-linear", {"beam": 7, "cost": 0.5, "negatives": "paper", "seed": 3}, {"ngrams": [1, 2]})
        if kind == "xr-linear"
        else Setting(kind, {"n_neighbors": 9, "power": 2.5}, {"analyzer": "char_wb", "ngrams": [3, 4]})
        for kind in kinds
    ]
    weights = [2 / 3, 1 / 3][: len(kinds)]
    rows = data.read_jsonl(files("train.jsonl"))
    joined(members, weights, True, 1).fit(rows.texts, rows.labels).save("a")
    Path("c.toml").write_text(toml_of(members, weights), "utf-8")
    call(f"train {kinds[0] if len(kinds) == 1 else 'ensemble'} {{train.jsonl}} --model b --config c.toml -q")
    same_models("a", "b")


def test_a_size_is_reproduced_by_two_commands(call: Any) -> None:
    def size(folder: str) -> int:
        return sum(path.stat().st_size for path in Path(folder).iterdir())

    train = load_sample().train
    data.write_jsonl("rows.jsonl", train.texts[:200], train.labels[:200])
    call("tune rows.jsonl --model default --max-trials 1 -q")
    limit = int(0.8 * size("default"))
    call(f"tune rows.jsonl --model m --max-trials 1 --max-size {limit} -q")
    assert size("m") <= limit
    toml = Path("m.tuning", "tuned.toml")
    assert f"# sylvan compress DIR --output SMALL_DIR --max-size {limit}" in toml.read_text("utf-8").splitlines()
    call(f"train xr-linear rows.jsonl --model whole --config {toml} -q")
    call(f"compress whole --output small --max-size {limit} -q")
    same_models("m", "small")
    assert bits(sylvan.load("m")) != bits(sylvan.load("whole"))


def test_a_matrix_with_groups_and_a_study(call: Any, refused: Any) -> None:
    np.save("groups.npy", np.arange(240) // 4)
    given = "{X.train.npz} --labels {Y.train.npz} --groups groups.npy --holdout last --metric nDCG@3"
    tune = f"tune {given} --model m --study s --report r --max-trials"
    assert call(f"{tune} 2 -q") == (0, "", "")
    assert sylvan.load("m").takes_texts is False and Path("r", "tuned.toml").is_file()
    assert call(f"{tune} 3").err.splitlines()[1].startswith("#2 nDCG@3")
    Path("groups.npy").write_bytes(b"nothing")
    refused("can't be read as an array of groups", f"{tune} 2")
    Path("groups.npy").write_bytes(b"")
    refused("can't be read as an array of groups", f"{tune} 2")
    refused("--study and --model are both 'n'", "tune {train.jsonl} --model n --study ./n --max-trials 1")


@pytest.mark.usefixtures("books")
def test_groups_are_a_field(call: Any) -> None:
    call(f"tune {BOOKS} --max-trials 1 --groups author")
    assert trials()["holdout"] in (45, 46)  # two of seven authors, where a quarter of the rows is asked for


def test_few_rows_and_no_optuna(refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data.write_jsonl("few.jsonl", ["a b", "c d"] * 10, [["A"], ["B"]] * 10)
    refused("There are 20 rows: too few to hold 20 out", "tune few.jsonl --model m")
    monkeypatch.setitem(sys.modules, "optuna", None)
    said = 'Error: Tuning needs Optuna. Install it with: pip install "sylvan[tune]".'
    assert refused(said, "tune {train.jsonl} --model m").splitlines()[-1] == said


def test_options_of_a_configuration_file(call: Any, refused: Any) -> None:
    tune = "tune {train.jsonl} --model m --config t.toml"
    Path("t.toml").write_text('[options]\nmax-trials = 1\nmetric = "P@1"\n', "utf-8")
    assert "P@1 " in call(tune).out
    Path("t.toml").write_text("[parameters]\nbeam = 3\n[options]\nbudgets = 1\n", "utf-8")
    said = call(tune, code=2).err
    assert "Did you mean 'budget'" in said and "[parameters] is for" in said


@pytest.mark.usefixtures("books")
@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_saves_the_best_so_far(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measure, measured = Workbench.measure, []

    def interrupted(self: Any, setting: Any, rung: int) -> Any:
        measured.append(setting)
        if len(measured) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return measure(self, setting, rung)

    monkeypatch.setattr(Workbench, "measure", interrupted)
    outcome = call(f"tune {BOOKS} --budget 1h --threads 1")
    assert "Interrupted: the best so far is trained on all rows." in outcome.err
    assert "The search was interrupted: this is the best so far." in outcome.out
    assert sylvan.load("m").n_labels_ > 0
