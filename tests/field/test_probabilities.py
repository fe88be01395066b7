"""Probabilities where labels are rare: as many answers are right as their probabilities add up to."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import same_bits
from kit.errors import raises

import sylvan
from sylvan import BeamTreeClassifier, TextModel, TopK, XRLinear
from sylvan.arrays import validate
from sylvan.errors import DataError, ParameterError, UnsupportedError
from sylvan.metrics import expected_hits
from sylvan.ranking.calibrate import calibrated, crosswise


def titles(n: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Short texts: words of one or two rare labels, words of any text, and words that hardly another text has."""
    random = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        own = np.unique((2_000 * random.random(random.integers(1, 3)) ** 1.5).astype(int))
        words = [f"l{label}w{random.integers(4)}" for label in own for _ in range(2) if random.random() < 0.6]
        words += [f"common{random.integers(50)}" for _ in range(2)]
        words += [f"rare{random.integers(20_000)}" for _ in range(random.integers(1, 4))]
        random.shuffle(words)
        texts.append(" ".join(words))
        labels.append([f"label {label}" for label in own])
    return texts, labels


@pytest.mark.parametrize("model", [XRLinear(n_jobs=1), XRLinear(n_trees=2, n_jobs=2)], ids=["one tree", "two trees"])
def test_expected_answers_are_right(model: Any) -> None:
    tagger = TextModel(model=model).fit(*titles(3_000, seed=0))
    texts, labels = titles(2_000, seed=1)
    truth = tagger.vocabulary_.encode(labels, unknown="ignore")
    counted = expected_hits(truth, tagger.probabilities(tagger.rank(texts, k=5)), k=5)
    assert counted.right > 300
    assert 0.85 < counted.ratio < 1.15, counted


def test_rows_to_spare_calibrate(tmp_path: Path) -> None:
    texts, labels = titles(6_000, seed=0)
    fitted = TextModel(model=XRLinear(n_jobs=1)).fit(texts[:2_000], labels[:2_000])
    fitted.save(tmp_path / "m")
    test, truth = texts[5_000:], fitted.vocabulary_.encode(labels[5_000:], unknown="ignore")
    before = fitted.rank(test, k=5)
    for tagger in (fitted, sylvan.load(tmp_path / "m")):
        curves = tagger.model.calibrator_
        assert tagger.calibrate(["???", *texts[2_000:5_000]], [["label 1"], *labels[2_000:5_000]]) is tagger
        after = tagger.rank(test, k=5)
        assert tagger.model.calibrator_ is not curves
        same_bits(after, before)
        counted = expected_hits(truth, tagger.probabilities(after), k=5)
        assert 0.9 < counted.ratio < 1.1, counted


def test_what_calibrate_refuses() -> None:
    X, y = np.eye(4, dtype=np.float32).repeat(50, axis=0), np.arange(4).repeat(50)
    with raises(ParameterError, "calibration", "None"):
        XRLinear(calibration=None).fit(X, y).calibrate(X, y)
    with raises(DataError, 200):
        XRLinear().fit(X, y).calibrate(X, y[:100])
    with raises(UnsupportedError, "curves"):
        TextModel(model=BeamTreeClassifier()).fit(["whales"] * 3, ["whales"] * 3).calibrate(["whales"], ["whales"])


def test_an_update_goes_on_from_the_rows_that_calibrated() -> None:
    random = np.random.default_rng(0)
    y = np.arange(900) % 4
    X = (np.eye(4)[y] + random.normal(0, 0.7, (900, 4))).astype(np.float32)
    model = XRLinear(keep_rows=True).fit(X[:300], y[:300]).calibrate(X[300:600], y[300:600])
    assert len(model.training_rows_.held_out.ids) == 300
    model.update(X[600:], y[600:], forget=[0, 1])
    assert len(model.training_rows_.held_out.ids) == 600 and model.calibrator_ is not None


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_held_out_rows_do_not_tell_their_own_probabilities(share: float) -> None:
    random = np.random.default_rng(0)
    n = 2_000
    scores = -np.sort(-random.random((n, 5)).astype(np.float32), axis=1)
    top = TopK(np.tile(np.arange(5, dtype=np.int32), (n, 1)), scores)
    labels = validate.labels((random.random((n, 5)) < share).astype(np.float32))  # which have nothing to do with scores
    right, rows = labels.to_scipy().toarray() > 0, np.arange(n, dtype=np.int32)
    calibrator = calibrated("isotonic", top, rows, labels)
    assert calibrator is not None

    def gain(answers: TopK) -> float:
        """How much more probable right answers are called than wrong ones, as a share."""
        return float(answers.scores[right].mean() / answers.scores[~right].mean() - 1)

    unseen = crosswise(calibrator, top, rows, labels)
    assert gain(calibrator(top)) > 0.01 > gain(unseen)
    assert unseen.scores.sum() == pytest.approx(right.sum(), rel=0.1)
    few = top.of_rows(rows[:10])  # too few for curves
    assert crosswise(calibrator, few, rows[:10], labels).scores.tobytes() == calibrator(few).scores.tobytes()
