"""``sylvan tune``: a model, a report that reproduces it, errors that are sentences."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits
from kit.books import load_sample
from kit.topics import corpus
from processes import same_models

import sylvan
from sylvan import data
from sylvan.tune.workbench import Workbench

pytest.importorskip("optuna")


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without figures, as where matplotlib is missing: tests of the search look at them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Titles, authors and subjects."""
    path = tmp_path_factory.mktemp("books") / "train.jsonl"
    rows = enumerate(zip(*corpus(160, 0), strict=True))
    data.write_records(
        path, [{"title": text, "author": f"a{at % 7}", "subjects": labels} for at, (text, labels) in rows]
    )
    return path


FIELDS = ("--text-field", "title", "--text-field", "author", "--labels-field", "subjects")


def test_tuning_a_file_and_training_by_its_configuration(call: Any, books: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    outcome = call("tune", str(books), "--model", str(model), "--max-trials", "7", "--threads", "1", *FIELDS)
    assert outcome.code == 0, outcome.err
    assert "#6" in outcome.err and "best" in outcome.err and outcome.out.startswith("Best: ")
    assert f"Saved it in {model}" in outcome.out
    report = tmp_path / "m.tuning"
    written = json.loads((report / "trials.json").read_text("utf-8"))
    assert written["metric"] == "P@5" and len(written["trials"]) >= 7
    kind = "ensemble" if len(written["best"]["members"]) > 1 else written["best"]["members"][0]["model"]
    toml = report / "tuned.toml"
    assert f"# sylvan train {kind} TRAIN" in toml.read_text("utf-8")
    again = call("train", kind, str(books), "--model", str(tmp_path / "n"), "--config", str(toml), "--threads", "2")
    assert again.code == 0, again.err
    same_models(model, tmp_path / "n")
    loaded = sylvan.load(model)
    assert loaded.text_fields_ == ("title", "author") and loaded.labels_field_ == "subjects"
    assert call("evaluate", str(model), str(books), "-k", "1").code == 0


@pytest.mark.parametrize("kinds", [("xr-linear",), ("neighbors",), ("xr-linear", "neighbors")])
def test_a_configuration_gives_the_same_bits(call: Any, files: Any, tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """Whatever the best is: each kind of setting, as a model in Python and by its configuration."""
    from sylvan.tune.space import Setting, joined, toml_of

    members = [
        Setting("xr-linear", {"beam": 7, "cost": 0.5, "negatives": "paper", "seed": 3}, {"ngrams": [1, 2]})
        if kind == "xr-linear"
        else Setting(kind, {"n_neighbors": 9, "power": 2.5}, {"analyzer": "char_wb", "ngrams": [3, 4]})
        for kind in kinds
    ]
    weights = [2 / 3, 1 / 3][: len(kinds)]
    rows = data.read_jsonl(files("train.jsonl"))
    joined(members, weights, True, 1).fit(rows.texts, rows.labels).save(tmp_path / "a")
    (tmp_path / "c.toml").write_text(toml_of(members, weights), "utf-8")
    kind = kinds[0] if len(kinds) == 1 else "ensemble"
    outcome = call("train", kind, files("train.jsonl"), "--model", str(tmp_path / "b"), "--config",
                   str(tmp_path / "c.toml"), "-q")  # fmt: skip
    assert outcome.code == 0, outcome.err
    same_models(tmp_path / "a", tmp_path / "b")


def test_a_size_is_reproduced_by_two_commands(call: Any, tmp_path: Path) -> None:
    rows, default, model, whole, small = (str(tmp_path / name) for name in ("rows.jsonl", "d", "m", "w", "s"))
    train = load_sample().train
    data.write_jsonl(rows, train.texts[:200], train.labels[:200])
    assert call("tune", rows, "--model", default, "--max-trials", "1", "-q").code == 0
    limit = int(0.8 * sum(path.stat().st_size for path in Path(default).iterdir()))
    assert call("tune", rows, "--model", model, "--max-trials", "1", "--max-size", str(limit), "-q").code == 0
    assert sum(path.stat().st_size for path in Path(model).iterdir()) <= limit
    toml = Path(f"{model}.tuning", "tuned.toml")
    assert f"# sylvan compress DIR --output SMALL_DIR --max-size {limit}" in toml.read_text("utf-8").splitlines()
    assert call("train", "xr-linear", rows, "--model", whole, "--config", str(toml), "-q").code == 0
    assert call("compress", whole, "--output", small, "--max-size", str(limit), "-q").code == 0
    same_models(model, small)
    assert bits(sylvan.load(model)) != bits(sylvan.load(whole))


def test_a_matrix_with_groups_and_a_study(call: Any, files: Any, tmp_path: Path) -> None:
    groups = tmp_path / "groups.npy"
    np.save(groups, np.arange(240) // 4)
    words = ("tune", files("X.train.npz"), "--labels", files("Y.train.npz"), "--model", str(tmp_path / "m"),
             "--max-trials", "2", "--study", str(tmp_path / "s"), "--groups", str(groups), "--holdout", "last",
             "--report", str(tmp_path / "r"), "--metric", "nDCG@3")  # fmt: skip
    quiet = call(*words, "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert sylvan.load(tmp_path / "m").takes_texts is False and (tmp_path / "r" / "tuned.toml").is_file()
    more = call(*(word if word != "2" else "3" for word in words))
    assert more.code == 0 and more.err.splitlines()[1].startswith("#2 nDCG@3")
    groups.write_bytes(b"nothing")
    wrong = call(*words)
    assert wrong.code == 2 and "can't be read as an array of groups" in wrong.err


def test_groups_are_a_field(call: Any, books: Path, tmp_path: Path) -> None:
    words = ("--max-trials", "1", "--groups", "author", *FIELDS)
    outcome = call("tune", str(books), "--model", str(tmp_path / "m"), *words)
    assert outcome.code == 0, outcome.err
    holdout = json.loads((tmp_path / "m.tuning" / "trials.json").read_text("utf-8"))["holdout"]
    assert holdout in (45, 46)  # two of seven authors, where a quarter of the rows is asked for


def test_few_rows_and_no_optuna(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: Any) -> None:
    data.write_jsonl(tmp_path / "few.jsonl", ["a b", "c d"] * 10, [["A"], ["B"]] * 10)
    outcome = call("tune", str(tmp_path / "few.jsonl"), "--model", str(tmp_path / "m"))
    assert outcome.code == 2 and "There are 20 rows: too few to hold 20 out" in outcome.err
    monkeypatch.setitem(sys.modules, "optuna", None)
    outcome = call("tune", files("train.jsonl"), "--model", str(tmp_path / "m"))
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == 'Error: Tuning needs Optuna. Install it with: pip install "sylvan[tune]".'


def test_options_of_a_configuration_file(call: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[options]\nmax-trials = 1\nmetric = "P@1"\n', "utf-8")
    outcome = call("tune", files("train.jsonl"), "--model", str(tmp_path / "m"), "--config", str(tmp_path / "t.toml"))
    assert outcome.code == 0 and "P@1 " in outcome.out
    (tmp_path / "t.toml").write_text("[parameters]\nbeam = 3\n[options]\nbudgets = 1\n", "utf-8")
    outcome = call("tune", files("train.jsonl"), "--model", str(tmp_path / "m"), "--config", str(tmp_path / "t.toml"))
    assert outcome.code == 2 and "Did you mean 'budget'" in outcome.err and "[parameters] is for" in outcome.err


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_saves_the_best_so_far(call: Any, books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure, measured = Workbench.measure, []

    def interrupted(self: Any, setting: Any, rung: int) -> Any:
        measured.append(setting)
        if len(measured) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return measure(self, setting, rung)

    monkeypatch.setattr(Workbench, "measure", interrupted)
    outcome = call("tune", str(books), "--model", str(tmp_path / "m"), "--budget", "1h", "--threads", "1", *FIELDS)
    assert outcome.code == 0, outcome.err
    assert "Interrupted: the best so far is trained on all rows." in outcome.err
    assert "The search was interrupted: this is the best so far." in outcome.out
    assert sylvan.load(tmp_path / "m").n_labels_ > 0
