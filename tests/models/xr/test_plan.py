"""Plans: near to what training then takes, what they say, and refusing what the machine can't hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sylvan
from sylvan import NeighborRanker, TextModel, XRLinear, data
from sylvan.errors import DataError, MemoryLimitError, ParameterError
from sylvan.models.xr import plan as plans
from sylvan.models.xr import xr_linear
from sylvan.runtime.plan import Phase, Plan, shown_seconds

SOURCE = str(Path(sylvan.__file__).parents[1])
# What a process says of itself: a plan, or the peak of memory and the size of the model after training.
PROGRAM = """
import json, os, re, sys, tempfile
from sylvan import TextModel, TfidfVectorizer, XRLinear, data
train, _ = data.load_sample()
model = TextModel(TfidfVectorizer(ngrams=(1, 2)), XRLinear(n_jobs=1, **json.loads(sys.argv[2])))
if sys.argv[1] == "plan":
    plan = model.plan(train.texts, train.labels)
    print(json.dumps([plan.peak_bytes, plan.model_bytes]))
else:
    folder = tempfile.mkdtemp()
    model.fit(train.texts, train.labels)
    # Not getrusage's, in which the process that started this one counts too.
    peak = int(re.search("VmHWM:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1]) * 1024
    model.save(folder)
    print(json.dumps([peak, sum(entry.stat().st_size for entry in os.scandir(folder))]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks of memory are counted otherwise elsewhere")
@pytest.mark.skipif("SYLVAN_SANITIZED" in os.environ, reason="the sanitizers' own memory would be counted")
@pytest.mark.parametrize("params", [{}, {"n_trees": 2, "calibration": "platt"}], ids=["default", "more of it"])
def test_memory_and_size_are_near_the_real_ones(params: dict[str, Any]) -> None:
    found = {}
    for what in ("plan", "fit"):
        words = [sys.executable, "-c", PROGRAM, what, json.dumps(params)]
        environment = {**os.environ, "PYTHONPATH": SOURCE}
        result = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=200)
        assert result.returncode == 0, result.stderr
        found[what] = json.loads(result.stdout)
    assert found["plan"] == pytest.approx(found["fit"], rel=0.3)


def rows(n: int = 400, n_labels: int = 60) -> tuple[np.ndarray, list[list[int]]]:
    rng = np.random.default_rng(0)
    X = (rng.random((n, 80)) < 0.1).astype(np.float32)
    return X, [rng.choice(n_labels, 2, replace=False).tolist() for _ in range(n)]


def test_a_plan_changes_nothing_and_adds_up() -> None:
    X, Y = rows()
    model = XRLinear(branching=4, max_leaf=8, n_trees=2, calibration="isotonic", n_jobs=1)
    plan = model.plan(X, Y)
    assert not model._is_fitted() and plan.fits
    assert [phase.name for phase in plan.phases] == ["trees", "rankers", "calibration"]
    assert plan.seconds == pytest.approx(sum(phase.seconds for phase in plan.phases))
    assert plan.peak_bytes > max(phase.peak_bytes for phase in plan.phases)
    assert json.loads(json.dumps(plan.to_dict()))["model_bytes"] == plan.model_bytes
    single = XRLinear(branching=4, max_leaf=8, n_jobs=1).plan(X, Y)
    assert plan.model_bytes == pytest.approx(2 * single.model_bytes, rel=0.2)
    assert single.phases[0].name == "tree"


def test_texts_have_a_plan() -> None:
    model = TextModel()
    plan = model.plan(["whales at sea", "bread and cakes"] * 20, [["Whaling"], ["Baking"]] * 20)
    assert [phase.name for phase in plan.phases] == ["features", "tree", "rankers"]
    assert not hasattr(model.vectorizer, "n_terms_") and not model._is_fitted()
    with pytest.raises(ParameterError, match="NeighborRanker has no plan"):
        TextModel(model=NeighborRanker()).plan(["a b"], [["c"]])
    with pytest.raises(DataError, match="there is no label to learn"):
        XRLinear().plan(np.eye(2), [[], []])


def too_small(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    """The machine has ``n_bytes`` left."""
    monkeypatch.setattr(plans, "available_bytes", lambda: n_bytes)
    monkeypatch.setattr(xr_linear, "available_bytes", lambda: n_bytes)


def test_training_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = rows()
    model = XRLinear(branching=4, max_leaf=8, n_trees=3, n_jobs=2)
    too_small(monkeypatch, 10_000)
    with pytest.raises(MemoryLimitError) as refused:
        model.fit(X, Y)
    message = str(refused.value)
    for piece in ("Training would take about", "but there are only", "memory_limit='", "force=True"):
        assert piece in message, message
    assert not model._is_fitted()
    assert model.fit(X, Y, force=True)._is_fitted()
    plain = XRLinear(branching=4, max_leaf=8, n_trees=3, n_jobs=2)
    too_small(monkeypatch, 1 << 40)
    assert plain.fit(X, Y).rank(X, k=3).scores.tobytes() == model.rank(X, k=3).scores.tobytes()


@pytest.mark.parametrize(
    ("params", "pieces"),
    [
        ({"n_jobs": 1, "n_trees": 3, "threshold": 0.01}, ["threshold=0.02 (about", "n_trees=1 (about"]),
        ({"n_jobs": 40}, ["n_jobs=1 (about"]),
        ({"n_jobs": 1, "max_leaf": 5_000}, ["max_leaf=100"]),
    ],
    ids=["pruning", "threads", "depth"],
)
def test_offers_take_less(monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], pieces: list[str]) -> None:
    train, _ = data.load_sample()
    too_small(monkeypatch, 1_000_000)
    plan = TextModel(model=XRLinear(**params)).plan(train.texts, train.labels)
    assert not plan.fits and "What takes less:" in plan.text() and "too little" in plan.text()
    offers = " ".join(plan.offers)
    for piece in ("memory_limit=", *pieces):
        assert piece in offers, offers
    with pytest.raises(MemoryLimitError):
        plan.check()


def test_unknown_memory_refuses_nothing() -> None:
    plan = Plan(1.0, 1 << 50, 10, None, (Phase("rankers", 1.0, 10),))
    plan.check()
    assert plan.fits and "available" not in plan.text()


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (89, "89.0 s"), (600, "10 min"), (5400, "1.5 h"), (90_000, "25.0 h")]
)
def test_times_as_people_say_them(seconds: float, shown: str) -> None:
    assert shown_seconds(seconds) == shown


def test_the_command_line_plans_and_refuses(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sylvan.cli import main

    train = str(tmp_path / "train.jsonl")
    data.write_jsonl(train, ["whales at sea", "bread and cakes"] * 20, [["Whaling"], ["Baking"]] * 20)
    for words in (["plan", "xr-linear", train], ["train", "xr-linear", train, "--plan", "--model", "unused"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert "peak memory" in out and "saved model" in out and "which is enough" in out
    assert list(tmp_path.iterdir()) == [tmp_path / "train.jsonl"]
    assert main(["plan"]) == 2 and main(["plan", "xr-linear"]) == 2
    assert "Missing argument 'TRAIN'" in capsys.readouterr().err
    too_small(monkeypatch, 100)
    model = str(tmp_path / "m")
    assert main(["train", "xr-linear", train, "--model", model]) == 1
    error = capsys.readouterr().err
    assert error.startswith("Error: Training would take about") and "--force" in error and error.count("\n") == 1
    assert not Path(model).exists()
    assert main(["train", "xr-linear", train, "--model", model, "--force", "-q"]) == 0
