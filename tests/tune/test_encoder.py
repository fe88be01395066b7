"""Tuning with a frozen encoder of texts: it is tried, reproduced by its configuration, and encodes each text once."""

from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises
from tuned_rows import corpus  # type: ignore[import-not-found]

import sylvan
from sylvan import XRTransformer, data
from sylvan.cli import main
from sylvan.errors import ParameterError
from sylvan.tune.space import Setting, Space, Start
from sylvan.tune.workbench import Workbench

pytest.importorskip("optuna")
pytest.importorskip("torch")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small bag of words that has learned a little."""
    texts, labels = corpus(60)
    model = XRTransformer("bag", preset="tiny", n_jobs=1).fit(texts, labels)
    folder = tmp_path_factory.mktemp("encoder") / "bag"
    model.encoder_.save_pretrained(str(folder))
    return str(folder)


def test_an_encoder_is_part_of_the_space(encoder: str) -> None:
    space = Space(True, encoder=encoder, seed=2)
    (start,) = (one for one in space.starts() if one.model == "xr-transformer")
    assert start == Start({}, "xr-transformer", whole=True)
    point = space.point(start)

    class Fixed:
        suggest_categorical = suggest_int = suggest_float = lambda self, name, *_, **__: point[name]

    setting = space.setting(Fixed())
    assert setting == Setting("xr-transformer", {"encoder": encoder, "frozen": True, "seed": 2}, {})
    model = setting.build(True, 1)
    assert isinstance(model, XRTransformer) and model.frozen and model.get_params()["seed"] == 2
    other = Setting("xr-transformer", {"ranker__beam": 7}, {"ngrams": [1, 2]}).build(True)
    assert other.get_params()["ranker__beam"] == 7 and other.get_params()["vectorizer__ngrams"] == (1, 2)


def test_tuning_with_an_encoder(encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Workbench.measure

    def preferred(self: Any, setting: Any, rung: int) -> Any:
        """The encoder's models as if they were the best."""
        measured = measure(self, setting, rung)
        if setting.model != "xr-transformer":
            measured.top.labels[:, 1:] = -1
            measured.top.labels[:, 0] = 0
            object.__setattr__(measured, "scores", self.scores(measured.top, rung))
        return measured

    monkeypatch.setattr(Workbench, "measure", preferred)
    texts, labels = corpus(120)
    result = sylvan.tune(texts, labels, encoder=encoder, max_trials=6, n_jobs=1)
    tried = [trial for trial in result.trials if trial.members[0].model == "xr-transformer"]
    assert tried and tried[0].state == "complete" and (tried[0].n_bytes or 0) > 1000
    assert isinstance(result.model, XRTransformer) and result.model.cache is None
    data.write_jsonl(tmp_path / "train.jsonl", texts, labels)
    (tmp_path / "c.toml").write_text(result.to_toml(), "utf-8")
    words = ["train", "xr-transformer", str(tmp_path / "train.jsonl"), "--model", str(tmp_path / "m"), "--config",
             str(tmp_path / "c.toml"), "--threads", "1", "-q"]  # fmt: skip
    assert main(words) == 0
    again = sylvan.load(tmp_path / "m")
    assert (again.rank(texts, k=3).scores == result.model.rank(texts, k=3).scores).all()


def test_encoders_that_cannot_be_opened(encoder: str) -> None:
    texts, labels = corpus(120)
    with raises(ParameterError, "encoder"):
        sylvan.tune(sylvan.TfidfVectorizer(n_jobs=1).fit_transform(texts), labels, encoder=encoder, max_trials=1)
    with pytest.raises(sylvan.SylvanError):
        sylvan.tune(texts, labels, encoder="/no/such/folder", max_trials=1)
