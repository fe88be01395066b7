"""``sylvan tune`` and ``sylvan train ensemble``: a model, a report that reproduces it, errors that are sentences."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import start
from waiting import PATIENCE

import sylvan
from sylvan import Ensemble, TextModel, data

pytest.importorskip("optuna")


def arrays(folder: Path) -> dict[str, bytes]:
    """The arrays of a saved model, by their names without the save's own mark."""
    return {path.name.rsplit(".", 2)[0]: path.read_bytes() for path in folder.rglob("*.npy")}


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Titles and authors as fields, some hundreds of them."""
    train = data.load_sample().train
    path = tmp_path_factory.mktemp("books") / "train.jsonl"
    lines = [
        json.dumps({"title": text, "author": f"a{at % 7}", "subjects": labels})
        for at, (text, labels) in enumerate(zip(train.texts[:600], train.labels[:600], strict=True))
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
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
    assert arrays(model) == arrays(tmp_path / "n")
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
    assert arrays(tmp_path / "a") == arrays(tmp_path / "b") != {}


def test_a_size_is_reproduced_by_two_commands(call: Any, books: Path, tmp_path: Path) -> None:
    default = call("tune", str(books), "--model", str(tmp_path / "d"), "--max-trials", "1", "-q", *FIELDS)
    assert default.code == 0
    limit = int(0.8 * sum(path.stat().st_size for path in (tmp_path / "d").iterdir()))
    words = ("--max-trials", "1", "--max-size", str(limit), "-q", *FIELDS)
    assert call("tune", str(books), "--model", str(tmp_path / "m"), *words).code == 0
    assert sum(path.stat().st_size for path in (tmp_path / "m").iterdir()) <= limit
    toml = tmp_path / "m.tuning" / "tuned.toml"
    assert f"# sylvan compress DIR --output SMALL_DIR --max-size {limit}" in toml.read_text("utf-8").splitlines()
    whole, small = str(tmp_path / "w"), str(tmp_path / "s")
    assert call("train", "xr-linear", str(books), "--model", whole, "--config", str(toml), "-q").code == 0
    assert call("compress", whole, "--output", small, "--max-size", str(limit), "-q").code == 0
    assert arrays(tmp_path / "m") == arrays(tmp_path / "s") != arrays(tmp_path / "w")


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
    assert holdout in (171, 172)  # two of seven authors, where a quarter of the rows is asked for


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--metric", "accuracy"), "--metric must be one of P@k"),
        (("--budget", "soon"), "--budget must be a number of seconds above 0"),
        (("--budget", "1us"), "The budget of 0.001 ms is too short: training the default model once"),
        (("--max-trials", "0"), "Invalid value for '--max-trials'"),
        (("--max-size", "20", "--max-trials", "1"), "the names of the 6 labels alone take"),
        (("--max-latency", "1us", "--max-trials", "1"), "No setting that was tried holds to the limits"),
        (("--groups", "none", "--max-trials", "1"), "has no field 'none'"),
        (("--report", "FILE"), "The report is a folder, but"),
        (("--holdout", "first"), "Invalid value for '--holdout'"),
    ],
)
def test_errors_are_sentences_and_nothing_is_written(
    call: Any, files: Any, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    words = tuple(files("train.jsonl") if word == "FILE" else word for word in words)
    outcome = call("tune", files("train.jsonl"), "--model", str(tmp_path / "m"), *words)
    assert outcome.code == 2 and sentence in outcome.err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


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
def test_ctrl_c_saves_the_best_so_far(books: Path, tmp_path: Path) -> None:
    process = start("tune", str(books), "--model", str(tmp_path / "m"), "--budget", "1h", *FIELDS, encoding="utf-8")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("Read 600 rows")
    assert process.stderr.readline().startswith("#0 P@5")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Interrupted: the best so far is trained on all rows." in err
    assert "The search was interrupted: this is the best so far." in out
    assert sylvan.load(tmp_path / "m").n_labels_ > 0


# ----------------------------------------------------------------------------------------------- train ensemble


def test_an_ensemble_from_the_command_line(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    outcome = call(
        "train", "ensemble", files("train.jsonl"), "--model", folder, "--set", "weights=3,1", "--set",
        "member0__model=xr-linear", "--set", "member0__beam=5", "--set", "member0__text__ngrams=1,2", "--set",
        "member1__model=neighbors", "--test", files("test.jsonl"),
    )  # fmt: skip
    assert outcome.code == 0 and "Trained 2 models with 6 labels" in outcome.out and "P  " in outcome.out
    model = sylvan.load(folder)
    assert isinstance(model, Ensemble) and model.weights_.tolist() == [0.75, 0.25]
    first = model.members[0]
    assert isinstance(first, TextModel) and first.vectorizer.ngrams == (1, 2)
    assert first.get_params()["model__beam"] == 5
    matrix = call("train", "ensemble", files("train.xmc"), "--model", folder, "--set", "member0__model=neighbors", "-q")
    assert matrix.code == 0 and not sylvan.load(folder).takes_texts


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((), "An ensemble takes --preset, or members numbered from 0, such as member0__model=xr-linear"),
        (("member1__model=neighbors",), "Got member1 instead"),
        (("member0__model=svm",), "The model of member0 must be one of 'xr-linear', 'neighbors', 'lexical'"),
        (("member0__beam=5",), "'xr-transformer', 'x-transformer'. Got None instead."),
        (("member0__model=xr-linear", "member0__beam=0"), "member0: The 'beam' parameter of XRLinear must be"),
        (("member0__model=xr-linear", "member0__text__ngrams=0"), "member0: The 'ngrams' parameter"),
        (("member0__model=xr-linear", "how=often"), "The 'how' parameter of Ensemble must be"),
        (("member0__model=xr-linear", "weights=a"), "The 'weights' parameter of Ensemble must be"),
    ],
)
def test_wrong_ensembles(call: Any, files: Any, tmp_path: Path, settings: tuple[str, ...], sentence: str) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    outcome = call("train", "ensemble", files("train.jsonl"), "--model", str(tmp_path / "m"), *words)
    assert outcome.code == 2 and sentence in outcome.err
    assert not list(tmp_path.iterdir())


def test_an_ensemble_of_matrices_has_no_vectorisers(call: Any, files: Any, tmp_path: Path) -> None:
    outcome = call("train", "ensemble", files("train.xmc"), "--model", str(tmp_path / "m"), "--set",
                   "member0__model=neighbors", "--set", "member0__text__min_df=2")  # fmt: skip
    assert outcome.code == 2 and "The members have parameters of vectorisers" in outcome.err
    (tmp_path / "c.toml").write_text('[text]\nmin_df = 2\n[parameters.member0]\nmodel = "neighbors"\n', "utf-8")
    outcome = call("train", "ensemble", files("train.jsonl"), "--model", str(tmp_path / "m"), "--config",
                   str(tmp_path / "c.toml"))  # fmt: skip
    assert outcome.code == 2 and "[text] is for one model" in outcome.err
