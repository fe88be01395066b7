"""``sylvan train ensemble --preset``: the same bits as in Python, members changed and added, what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import Ensemble, data
from sylvan.errors import ParameterError


def test_a_preset_is_the_ensemble_of_python(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    outcome = call("train", "ensemble", files("train.jsonl"), "--model", folder, "--preset", "accurate")
    assert outcome.code == 0 and "Trained 3 models" in outcome.out
    rows = data.read_jsonl(files("train.jsonl"))
    expected = Ensemble.preset("accurate").fit(rows.texts, rows.labels).rank(rows.texts, k=3)
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


def test_what_a_preset_refuses(call: Any, files: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "m")
    matrix = call("train", "ensemble", files("train.xmc"), "--model", folder, "--preset", "accurate")
    assert matrix.code == 2 and "but the training file is a matrix" in matrix.err
    unknown = call("train", "ensemble", files("train.jsonl"), "--model", folder, "--preset", "best")
    assert unknown.code == 2 and "'accurate'" in unknown.err
    assert not Path(folder).exists()
    with pytest.raises(ParameterError, match=r"must be one of 'accurate'\. Got 'best' instead"):
        Ensemble.preset("best")
    with pytest.raises(ParameterError, match="no parameter 'depth'"):
        Ensemble.preset("accurate", depth=3)
    assert Ensemble.preset("accurate", n_jobs=1, member0__model__beam=7).get_params()["member0__model__beam"] == 7
