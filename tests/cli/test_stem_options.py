"""Stems and lemmas from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sylvan

pytest.importorskip("snowballstemmer")
pytest.importorskip("simplemma")


@pytest.mark.parametrize("option", ["stem", "lemmatize"])
def test_a_model_of_forms(option: str, files: Any, call: Any, tmp_path: Path) -> None:
    words = ("train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m"))
    assert call(*words, f"--{option}", "en").code == 0
    assert getattr(sylvan.load(tmp_path / "m").vectorizer, option) == "en"
    assert call("predict", str(tmp_path / "m"), files("test.jsonl"), "-k", "1").code == 0
    assert call("plan", "xr-linear", files("train.jsonl"), f"--{option}", "en").code == 0


def test_wrong_languages(files: Any, call: Any, tmp_path: Path) -> None:
    words = ("train", "xr-linear", files("train.jsonl"), "--model", str(tmp_path / "m"))
    done = call(*words, "--stem", "english")
    assert done.code == 2 and "The 'stem' parameter of TfidfVectorizer must be one of 'ar', 'ca'" in done.err
    done = call(*words, "--stem", "en", "--lemmatize", "en")
    assert done.code == 2 and "as its stem or as its lemma" in done.err
    assert not (tmp_path / "m").exists()
