"""Plans and estimates: near to what training then takes, what they say, and refusing what the machine can't hold."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from child_processes import python
from kit.books import books, load_sample
from kit.errors import raises
from kit.watching import calls_of

import sylvan
from sylvan import LabelTree, NeighborRanker, TextModel, TfidfVectorizer, XRLinear, data, indexing
from sylvan.arrays import validate
from sylvan.errors import DataError, MemoryLimitError, ParameterError
from sylvan.models.xr import estimate, fitted
from sylvan.models.xr.estimate import RankerEstimate, TrainingSize, estimate_ranker
from sylvan.models.xr.params import tree_training
from sylvan.params.wording import shown_seconds
from sylvan.ranking.training import train_rankers
from sylvan.runtime.plan import Phase, Plan, state_bytes
from sylvan.text import estimate as texts_module

SOURCE = str(Path(sylvan.__file__).parents[1])
# What a process says of itself: a plan, or the peak of memory and the size of the model after training.
PROGRAM = """
import json, os, re, sys, tempfile
from sylvan import TextModel, TfidfVectorizer, XRLinear, data
train, _ = data.load_sample()
given = json.loads(sys.argv[2])
model = TextModel(TfidfVectorizer(**given.pop("text", {"ngrams": (1, 2)})), XRLinear(n_jobs=1, **given))
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
@pytest.mark.parametrize(
    "params",
    [
        {}, {"n_trees": 2, "calibration": "platt"}, {"negatives": "paper", "combine": "damped", "text": {"min_df": 2}},
        {"text": {"analyzer": "char_wb", "ngrams": (3, 4)}},
    ],
    ids=["default", "more of it", "matcher-aware", "characters"],
)  # fmt: skip
def test_memory_and_size_are_near_the_real_ones(params: dict[str, Any]) -> None:
    found = {}
    for what in ("plan", "fit"):
        found[what] = json.loads(python("-c", PROGRAM, what, json.dumps(params), check=True).stdout)
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
    with raises(ParameterError, "NeighborRanker", "plan"):
        TextModel(model=NeighborRanker()).plan(["a b"], [["c"]])
    with raises(DataError, "(2, 0)"):
        XRLinear().plan(np.eye(2), [[], []])


SIZED: dict[str, dict[str, Any]] = {
    "default": {}, "searched": {"negatives": "tfn+man", "beam": 3}, "deep": {"max_leaf": 20, "branching": 4},
    "flat": {"max_leaf": 10_000}, "float32": {"weight_dtype": "float32", "threshold": 0.02, "negatives": "tfn"},
    "trees": {"n_trees": 3}, "overlap": {"overlap": 2}, "unscaled": {"scaling": "none"},
    "layer by layer": {"embedding": "pii", "negatives": ["tfn", "tfn", "tfn+man"]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "n_rows"), [*((name, None) for name in SIZED), *((name, 1500) for name in ("default", "searched", "flat"))]
)
def test_sizes_are_near_the_real_ones(monkeypatch: pytest.MonkeyPatch, name: str, n_rows: int | None) -> None:
    """Estimated from a sample, and of fewer rows from all of them."""
    monkeypatch.setattr(estimate, "MOST_ROWS", 2_000)
    X, Y, *_ = books(n_rows, min_df=1)
    model = XRLinear(n_jobs=1, **SIZED[name])
    plan = model.plan(X, Y)
    assert plan.sampled_rows == (0 if n_rows else 2_000) and ("Estimated from" in plan.text()) == (n_rows is None)
    real = state_bytes(model.fit(X, Y).to_state())
    assert plan.model_bytes == pytest.approx(real, rel=0.35)


def many_rows() -> tuple[sp.csr_matrix, np.ndarray]:
    rng = np.random.default_rng(0)
    return sp.random(20_000, 300, 0.05, "csr", np.float32, rng), rng.integers(0, 40, 20_000)


def test_a_plan_trains_on_no_more_than_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = calls_of(monkeypatch, estimate, "train_rankers")
    (X, y), model = many_rows(), XRLinear(n_jobs=1)
    plan = model.plan(X, y)
    assert plan.sampled_rows == max(call.args[0].shape[0] for call in trainings) == estimate.MOST_ROWS
    trainings.clear()
    monkeypatch.setattr(estimate, "MOST_ENTRIES", 3_000)
    model.plan(X, y)
    assert 2_000 < max(len(call.args[0].indices) for call in trainings) <= 3_000
    trainings.clear()
    monkeypatch.setattr(estimate, "MOST_SECONDS", 0.0)  # the first training takes too long already
    model.plan(X, y)
    assert len(trainings) == 1


def test_a_sample_stands_for_a_larger_set() -> None:
    X, Y, *_ = books(2_000, min_df=1)
    model, whole = XRLinear(n_jobs=1), TrainingSize(X.shape[0], Y.shape[1], X.shape[1], X.nnz, Y.nnz)
    rows = np.random.default_rng(1).permutation(X.shape[0])[:1_500]
    plan, real = model.plan(X[rows], Y[rows], whole=whole), model.plan(X, Y)
    assert plan.model_bytes == pytest.approx(real.model_bytes, rel=0.25) and plan.sampled_rows == 1_500


def test_a_sample_is_solved_as_all_rows_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sets are solved precisely, which takes longer; the samples of a large one are small, but stand for it."""
    trainings = calls_of(monkeypatch, estimate, "train_rankers")
    (X, y), model = many_rows(), XRLinear(n_jobs=1)

    def solved(rows: Any, y: Any, **options: Any) -> set[tuple[float, int]]:
        trainings.clear()
        model.plan(rows, y, **options)
        return {(call.args[3].linear.tolerance, call.args[3].linear.max_iterations) for call in trainings}

    assert solved(X, y) == {(0.1, 10)} == {(model.fit(X, y).chosen_["tolerance"], model.chosen_["max_iterations"])}
    assert solved(X[:500], y[:500], whole=TrainingSize(20_000, 40, 300, X.nnz, 20_000)) == {(0.1, 10)}
    assert solved(X[:500], y[:500]) == {(1e-4, 300)}


def test_hardly_any_labels_in_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample without a label, or with one; and labels in other forms than lists of names."""
    for module, name in ((estimate, "MOST_ROWS"), (texts_module, "MOST_TEXTS")):
        monkeypatch.setattr(module, name, 20)
    texts, names = ["a whale at sea"] * 2_000, [[]] * 1_997 + [["Whaling"], ["Sea"], ["Sea"]]
    X, Y = TfidfVectorizer().fit_transform(texts), data.Vocabulary.from_labels(names).encode(names)
    assert XRLinear(max_leaf=1).plan(X, Y).model_bytes > 0
    model = TextModel(model=XRLinear(max_leaf=1))
    for labels in (names, [[(name, 2.0) for name in row] for row in names], Y):
        plan = model.plan(texts, labels, sample_weight=np.ones(2_000))
        assert plan.model_bytes > 0 and plan.sampled_rows == 20
    embeddings = np.eye(2, dtype=np.float32)
    assert model.plan(texts, names, label_embeddings=embeddings).model_bytes > 0
    with raises(DataError, "X", "2,000", "Y", "1,999"):
        model.plan(texts, names[1:])


def too_small(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    """The machine has ``n_bytes`` left."""
    monkeypatch.setattr(fitted, "SMALL", 0)
    for module in (estimate, fitted):
        monkeypatch.setattr(module, "available_bytes", lambda: n_bytes)


def test_training_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = rows()
    model = XRLinear(branching=4, max_leaf=8, n_trees=3, n_jobs=2)
    too_small(monkeypatch, 10_000)
    with pytest.raises(MemoryLimitError) as refused:
        model.fit(X, Y)
    pieces = ("Training would take about", "but there are only", "memory_limit='", "force=True")
    assert [piece for piece in pieces if piece not in str(refused.value)] == []
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
    train, _ = load_sample()
    too_small(monkeypatch, 100_000)
    plan = TextModel(model=XRLinear(**params)).plan(train.texts[:800], train.labels[:800])
    assert not plan.fits and "What takes less:" in plan.text() and "too little" in plan.text()
    assert [piece for piece in ("memory_limit=", *pieces) if piece not in " ".join(plan.offers)] == []
    with pytest.raises(MemoryLimitError):
        plan.check()


def test_unknown_memory_refuses_nothing() -> None:
    plan = Plan(1.0, 1 << 50, 10, None, (Phase("rankers", 1.0, 10),))
    plan.check()
    assert plan.fits and "available" not in plan.text()


def test_times_as_people_say_them() -> None:
    times = [shown_seconds(seconds) for seconds in (0.04, 89, 600, 5400, 90_000)]
    assert times == ["0.0 s", "89.0 s", "10 min", "1.5 h", "25.0 h"]


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
    read, error = capsys.readouterr().err.splitlines()
    assert read.startswith("Read 40 rows") and error.startswith("Error: Training would take about")
    assert "--memory-limit " in error and error.endswith("Or go on regardless with --force.")
    assert not Path(model).exists()
    assert main(["train", "xr-linear", train, "--model", model, "--force", "-q"]) == 0


def trained_and_estimated(
    X: validate.Csr, Y: validate.Csr, tree: LabelTree, weight: Any = None, **params: Any
) -> tuple[Any, RankerEstimate]:
    training = tree_training(XRLinear(n_jobs=1, **params), tree.depth, 0, X)
    return train_rankers(X, Y, tree, training, weight)[0], estimate_ranker(X, Y, tree, training, weight)


@pytest.fixture(scope="module")
def sample() -> tuple[validate.Csr, validate.Csr, LabelTree]:
    """Of the bundled sample: skewed labels, short texts."""
    X, Y = validate.pair(*books(700, min_df=1)[:2])
    return X, Y, LabelTree.build(indexing.pifa(X, Y), 16, 100, seed=0)


def test_left_is_what_a_higher_threshold_leaves(sample: Any) -> None:
    ranker, estimate = trained_and_estimated(*sample)
    pruned, _ = trained_and_estimated(*sample, threshold=0.3)
    share = sum(layer.n_entries for layer in pruned.layers) / sum(layer.n_entries for layer in ranker.layers)
    assert estimate.left(0.3) == pytest.approx(share, rel=0.2)
    assert estimate.left(0.0) == 1.0 and estimate.left(1e9) == 0.0


def test_more_threads_take_less_time_and_more_memory(sample: Any) -> None:
    _, one = trained_and_estimated(*sample, negatives="tfn", threshold=0.02)
    assert one.peak_bytes(n_jobs=50) > one.peak_bytes()
    assert one.peak_bytes(share=0.1) < one.peak_bytes()
    assert 0 < one.seconds < 600


def test_hardly_any_data() -> None:
    """One row, one label, empty rows, weights of rows and of labels: nothing to divide by zero on."""
    cases = [
        (sp.csr_matrix(np.eye(1, dtype=np.float32)), [[0]], 1),
        (sp.csr_matrix((5, 3), dtype=np.float32), [[0], [], [1], [1], [0]], 2),
        (sp.csr_matrix(np.eye(40, 7, dtype=np.float32)), [[i % 9] for i in range(40)], 9),
    ]
    for X, Y, n_labels in cases:
        features, labels = validate.pair(X, Y)
        tree = LabelTree.random(n_labels, branching=2, max_leaf=2)
        for negatives in ("tfn", "man", "tfn+man"):
            weight = np.ones(features.shape[0], np.float32)
            _, estimate = trained_and_estimated(features, labels, tree, weight, negatives=negatives, beam=1)
            assert estimate.seconds >= 0 and estimate.peak_bytes() > 0 and estimate.model_bytes > 0
