"""``sylvan ensemble`` and ``sylvan train ensemble``: saved models joined, and members trained together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import Ensemble, TextModel, data, load, preset


@pytest.mark.parametrize("kind", ["text", "matrix", "npz"])
def test_probabilities_and_slices_of_a_joined_model(files: Any, call: Any, tmp_path: Path, kind: str) -> None:
    model = files.text_model if kind == "text" else files.matrix_model
    dev = {"text": "test.jsonl", "matrix": "test.xmc", "npz": "X.test.npz"}[kind]
    labels = ("--labels", files("Y.test.npz")) if kind == "npz" else ()
    out = str(tmp_path / "both")
    plain = call("ensemble", model, model, "--model", out, "--weights", "3,1")
    assert plain.code == 0 and "are not calibrated: --calibrate FILE does it" in plain.err
    assert load(out).weights_.tolist() == [0.75, 0.25]
    before = json.loads(call("evaluate", out, files(dev), *labels, "--json", "-").out)
    alone = json.loads(call("evaluate", model, files(dev), *labels, "--json", "-").out)
    assert before["slices"] == alone["slices"] and before["slices"]["tail"]["labels"] > 0
    assert before["measures"]["PSP"] == pytest.approx(alone["measures"]["PSP"])
    assert "ECE cal." not in before["measures"]
    done = call("ensemble", model, model, "--model", out, "--weights", "3,1", "--calibrate", files(dev), *labels)
    assert done.code == 0 and f"calibrated on {files(dev)}." in done.err, done.err
    assert load(out).weights_.tolist() == [0.75, 0.25] and load(out).calibrator_ is not None
    after = json.loads(call("evaluate", out, files(dev), *labels, "--json", "-").out)
    assert after["measures"]["P"] == before["measures"]["P"]
    assert after["measures"]["ECE cal."]["1"] < before["measures"]["ECE"]["1"]
    chosen = call("predict", out, files(dev), "--threshold", "0.5")
    assert chosen.code == 0 and chosen.err.startswith("Read ") and '"probabilities"' in chosen.out
    if kind != "npz":
        assert call("ensemble", model, model, "--model", out, "--fit-weights", files(dev), "-q").code == 0
        assert load(out).weights_.sum() == pytest.approx(1)


def test_platt_and_too_few_rows(files: Any, call: Any, tmp_path: Path) -> None:
    words = ["ensemble", files.text_model, "--model", str(tmp_path / "one"), "--calibrate"]
    assert call(*words, files("test.jsonl"), "--calibration", "platt", "-q").code == 0
    assert load(tmp_path / "one").calibrator_.method == "platt"
    data.write_jsonl(tmp_path / "few.jsonl", ["bread flour"], [["Baking"]])
    few = call(*words, str(tmp_path / "few.jsonl"))
    assert few.code == 0 and "few.jsonl gives too few right or wrong answers (30 of each)" in few.err
    assert load(tmp_path / "one").calibrator_ is None
    bare = call("ensemble", files.matrix_model, "--model", str(tmp_path / "m"), "--calibrate", files("X.test.npz"))
    assert bare.code == 2 and "holds no labels: give them with --labels Y.npz" in bare.err


# ---------------------------------------- train ensemble


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


def test_an_ensemble_of_matrices_has_no_vectorisers(call: Any, files: Any, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[text]\nmin_df = 2\n[parameters.member0]\nmodel = "neighbors"\n', "utf-8")
    outcome = call("train", "ensemble", files("train.jsonl"), "--model", str(tmp_path / "m"), "--config",
                   str(tmp_path / "c.toml"))  # fmt: skip
    assert outcome.code == 2 and "[text] is for one model" in outcome.err


def test_a_preset_is_the_ensemble_of_python(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    outcome = call("train", "ensemble", files("train.jsonl"), "--model", folder, "--preset", "accurate")
    assert outcome.code == 0 and "Trained 3 models" in outcome.out
    rows = data.read_jsonl(files("train.jsonl"))
    expected = preset("accurate").fit(rows.texts, rows.labels).rank(rows.texts, k=3)
    got = sylvan.load(folder).rank(rows.texts, k=3)
    assert got.names == expected.names and (got.scores == expected.scores).all()


def test_members_of_a_preset_are_changed_and_added(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    config = tmp_path / "c.toml"
    config.write_text("[parameters]\nweights = [1, 1, 1, 0.1]\n[parameters.member2]\nn_trees = 2\n", "utf-8")
    outcome = call(
        "train", "ensemble", files("train.jsonl"), "--model", folder, "--preset", "accurate", "--config", str(config),
        "--set", "member1__text__ngrams=1,3", "--set", "member3__model=neighbors", "-q",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    first, pairs, characters, nearest = sylvan.load(folder).members
    assert first.get_params()["model__n_trees"] == 1 and first.vectorizer.phrase_weight == 0.5  # short texts
    assert pairs.vectorizer.ngrams == (1, 3) and pairs.vectorizer.max_features == 120_000
    assert characters.get_params()["model__n_trees"] == 2 and characters.vectorizer.analyzer == "char_wb"
    assert type(nearest.model).__name__ == "NeighborRanker"


def test_the_ensembles_of_the_papers_are_made_of_folders(call: Any, files: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from sylvan.neural import BagTextEncoder

    BagTextEncoder(dim=4, n_buckets=32).save_pretrained(tmp_path / "bag")
    quick = {"encoder": tmp_path / "bag", "frozen": "true", "ranker__beam": 3, "ranker__threshold": 0.1}
    for name, n_members, seeds in (("x-transformer", 9, [0, 1, 2] * 3), ("xr-transformer", 3, [0, 1, 2])):
        settings = [f"member{at}__{key}={value}" for at in range(n_members) for key, value in quick.items()]
        folder = str(tmp_path / name)
        words = [word for setting in settings for word in ("--set", setting)]
        outcome = call("train", "ensemble", files("train.jsonl"), "--model", folder, "--preset", name, "-q", *words)
        assert outcome.code == 0, outcome.err
        members = sylvan.load(folder).members
        assert [member.seed for member in members] == seeds
        assert all(member.preset == "paper" and member.kind == name for member in members)


def test_a_plan_and_a_checkpoint_of_an_ensemble(call: Any, files: Any, tmp_path: Path, monkeypatch: Any) -> None:
    folder = str(tmp_path / "m")
    words = (files("train.jsonl"), "--preset", "accurate", "--threads", "1")
    plan = call("train", "ensemble", *words, "--plan")
    assert plan.code == 0 and "member2" in plan.out and not (tmp_path / "m").exists(), plan.err
    assert call("plan", "ensemble", *words).out.splitlines()[0] == plan.out.splitlines()[0]

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("sylvan.models.ensembles.members.Joined.of", stop)
        assert call("train", "ensemble", *words, "--model", folder).code == 1
    again = call("train", "ensemble", *words, "--model", folder, "--no-resume")
    assert again.code == 0 and not (tmp_path / "m.training").exists(), again.err
