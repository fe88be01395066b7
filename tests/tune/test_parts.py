"""Durations and limits, metrics, the holdout, the space, settings and their configuration, the Pareto front."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from sylvan import NeighborRanker, TextModel, XRLinear, metrics
from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ParameterError
from sylvan.params.wording import shown_time
from sylvan.tune.result import Budget, Limits, Trial, pareto_front, parse_seconds
from sylvan.tune.space import Setting, Space, Start, joined, toml_of
from sylvan.tune.tuner import split_rows
from sylvan.tune.workbench import Metric, bootstrap

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("10m", 600), ("1h30m", 5400), ("90s", 90), (" 1.5 min ", 90), ("1ms", 0.001), (2, 2.0), ("60", 60), (".5", 0.5)],
)
def test_durations(value: Any, seconds: float) -> None:
    assert parse_seconds(value, "budget") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", ["", " ", "0", "1.2.3", "1 2", "1h30", "10x", "m10", "-5s", "0s", 0, -1, True, None, "1h m", float("nan")]
)
def test_no_durations(value: Any) -> None:
    with raises(ParameterError, "budget", 0):
        parse_seconds(value, "budget")


def test_limits_say_what_breaks_them() -> None:
    limits = Limits.of("1ms", "1MB", "5m")
    assert limits == Limits(0.001, 1_000_000, 300)

    def trial(latency: float, n_bytes: int | None, seconds: float | None) -> Trial:
        return Trial(0, (Setting("xr-linear"),), latency=latency, n_bytes=n_bytes, seconds=seconds)

    within, over = trial(0.001, 1_000_000, 300), trial(0.002, 2_500_000, None)
    assert within.holds(limits) and within.broken(limits) == []
    assert not over.holds(limits) and over.broken(limits) == [
        "a single query takes 2 ms, which is more than 1 ms", "it takes 2.5 MB, which is more than 1.0 MB",
    ]  # fmt: skip
    assert trial(0.002, None, 150).excesses(limits) == {"latency": 1.0, "train_time": -0.5}
    assert shown_time(7) == "7.0 s"


def test_a_budget_counts_from_its_beginning() -> None:
    times = iter([10.0, 13.0, 14.0])
    budget = Budget(5.0, lambda: next(times))
    assert (budget.spent, budget.remaining) == (3.0, 1.0)
    assert Budget().remaining == float("inf")


def ranking(n: int = 60, n_labels: int = 12, k: int = 6) -> tuple[Any, TopK]:
    rng = np.random.default_rng(1)
    truth = validate.labels(sp.csr_matrix((rng.random((n, n_labels)) < 0.2) | np.eye(n, n_labels, dtype=bool)))
    rows = np.diff(truth.indptr) > 0
    truth = validate.labels(truth.to_scipy()[rows])
    labels = np.stack([rng.permutation(n_labels)[:k] for _ in range(truth.shape[0])]).astype(np.int32)
    return truth, TopK(labels, -np.sort(-rng.random(labels.shape).astype(np.float32), axis=1))


@pytest.mark.parametrize("name", ["P@1", "p@3", "R@5", "nDCG@3", "PSP@3", "psndcg@5", "macro-recall@2", "P@6"])
def test_metrics_are_those_of_the_library(name: str) -> None:
    truth, top = ranking()
    counts, n_rows = np.arange(1, 13), 40
    metric = Metric.of(name)
    likely = metrics.propensities_of_counts(counts, n_rows)
    functions = {
        "P": metrics.precision, "R": metrics.recall, "nDCG": metrics.ndcg, "macro-recall": metrics.macro_recall,
        "PSP": lambda *a, at: metrics.psp(*a, likely, at=at),
        "PSnDCG": lambda *a, at: metrics.psndcg(*a, likely, at=at),
    }  # fmt: skip
    expected = functions[metric.kind](truth, top, at=metric.k)[metric.k]
    scores = metric.scores(truth, top, counts, n_rows)
    assert scores.value() == pytest.approx(expected)
    # Rows that count twice are as if they stood there twice.
    twice = validate.labels(sp.vstack([truth.to_scipy(), truth.to_scipy()[:20]]).tocsr())
    again = TopK(np.concatenate([top.labels, top.labels[:20]]), np.concatenate([top.scores, top.scores[:20]]))
    weights = np.concatenate([np.full(20, 2.0), np.ones(truth.shape[0] - 20)])
    assert scores.value(weights) == pytest.approx(functions[metric.kind](twice, again, at=metric.k)[metric.k])


def test_f1_of_a_row() -> None:
    truth = validate.labels([[0, 1], [2]], n_labels=4)
    top = TopK(np.array([[0, 3], [3, 2]], np.int32), np.array([[0.9, 0.1], [0.8, 0.3]], np.float32))
    counts = np.ones(4, np.int64)
    assert Metric.of("F1@1").scores(truth, top, counts, 9).value() == pytest.approx((2 / 3 + 0) / 2)
    assert Metric.of("F1@2").scores(truth, top, counts, 9).value() == pytest.approx((2 / 4 + 2 / 3) / 2)
    assert Metric.of("F1").scores(truth, top, counts, 9).value() == pytest.approx((2 / 3 + 0) / 2)  # of one answer each


def test_a_metric_of_more_answers_than_there_are_labels() -> None:
    truth = validate.labels([[0], [1]], n_labels=2)
    top = TopK(np.array([[0, 1], [1, 0]], np.int32), np.ones((2, 2), np.float32))
    assert Metric.of("P@5").scores(truth, top, np.ones(2, np.int64), 9).value() == pytest.approx(0.2)


@pytest.mark.parametrize("name", ["Q@5", "P@0", "P@101", "P@", "", 5, None, "P @ 5"])
def test_unknown_metrics(name: Any) -> None:
    with raises(ParameterError, "metric", "k", "F1"):
        Metric.of(name)


def test_the_bootstrap_is_paired() -> None:
    truth, top = ranking(400)
    worse = TopK(top.labels[:, ::-1].copy(), top.scores)
    score = [Metric.of("nDCG@6").scores(truth, one, np.ones(12, np.int64), 9) for one in (top, worse)]
    low, high = bootstrap(score[0], score[1], truth.shape[0], seed=1)
    assert low < score[0].value() - score[1].value() < high
    assert bootstrap(score[0], score[0], truth.shape[0]) == (0.0, 0.0)
    # About as wide as the normal interval of the mean of the rows' differences.
    spread = np.std(score[0].gained - score[1].gained) / np.sqrt(truth.shape[0])  # type: ignore[union-attr]
    assert high - low == pytest.approx(2 * 1.96 * spread, rel=0.15)


def test_a_random_holdout() -> None:
    labelled = np.ones(1000, bool)
    labelled[::10] = False
    train, holdout = split_rows(labelled, seed=3)
    assert len(train) == 750 and labelled[holdout].all()
    assert not set(train) & set(holdout) and len(set(train)) == 750
    assert not np.array_equal(train, np.sort(train))
    again, other = split_rows(labelled, seed=3)[0], split_rows(labelled, seed=4)[0]
    assert np.array_equal(train, again) and not np.array_equal(train, other)


def test_the_last_rows_and_the_most_recent_of_the_rest() -> None:
    train, holdout = split_rows(np.ones(100, bool), "last")
    assert holdout.tolist() == list(range(75, 100))
    assert train.tolist() == list(range(74, -1, -1))


def test_groups_stay_together() -> None:
    groups = np.repeat([f"g{i}" for i in range(50)], 20)
    for how in ("random", "last"):
        train, holdout = split_rows(np.ones(1000, bool), how, groups)
        assert not set(groups[train]) & set(groups[holdout])
        assert 240 <= len(holdout) <= 260
    assert set(groups[holdout]) == {f"g{i}" for i in range(37, 50)}


@pytest.mark.parametrize(
    ("n", "options", "sentence"),
    [
        (60, {}, ("rows", 60, 20, 80)),
        (100, {"groups": np.zeros(100)}, (100, "none")),
        (100, {"groups": np.zeros(99)}, (100, "(99,)")),
        (100, {"groups": np.zeros((100, 2))}, "(100, 2)"),
    ],
)
def test_rows_that_cannot_be_held_out(n: int, options: dict[str, Any], sentence: object) -> None:
    with raises(DataError, sentence):
        split_rows(np.ones(n, bool), **options)


def test_a_holdout_without_labels_and_an_unknown_word() -> None:
    labelled = np.ones(100, bool)
    labelled[60:] = False
    with raises(DataError, "label", 25, 0):
        split_rows(labelled, "last")
    with raises(ParameterError, "holdout", "random", "last"):
        split_rows(labelled, "first")
    with raises(ParameterError, "groups"):
        split_rows(labelled, groups=np.array(["a", 1] * 50, dtype=object))


class Fixed:
    """A trial whose values are given."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        assert self.values[name] in choices, name
        return self.values[name]

    def suggest_int(self, name: str, low: int, high: int, log: bool) -> Any:
        assert low <= self.values[name] <= high, name
        return self.values[name]

    suggest_float = suggest_int


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("long", [False, True])
def test_every_start_is_a_point_of_the_space(texts: bool, small: bool, long: bool) -> None:
    space = Space(texts, "psp", small, long=long)
    starts = list(space.starts())
    assert starts[0] == Start({}, whole=True)
    for start in starts:
        setting = space.setting(Fixed(space.point(start)))
        assert setting.model == start.model
        for name, value in start.changes.items():
            assert getattr(setting.inner_model(), name) == value
        for name, value in start.text.items() if texts else ():
            assert getattr(setting.vectorizer(), name) == value
        setting.build(texts).check_params()


@pytest.mark.parametrize("texts", [False, True])
def test_variations_are_near_and_points_of_the_space(texts: bool) -> None:
    space = Space(texts, "psp")
    changed = set()
    for start in space.starts():
        point = space.point(start)
        for seed in range(40):
            varied = space.varied(point, np.random.default_rng(seed))
            differing = {name for name in point if varied[name] != point[name]}
            assert varied.keys() == point.keys() and 1 <= len(differing) <= 2
            assert all(name.split(".")[0] in (start.model, "text") for name in differing)
            assert varied == space.varied(point, np.random.default_rng(seed))
            space.setting(Fixed(varied)).build(texts).check_params()
            changed |= differing
    reached = {f"{model}.{name}" for model, dimensions in space.of_model.items() for name in dimensions}
    assert changed == reached | {f"text.{name}" for name in space.of_text}


def test_the_default_point_is_the_model_without_arguments() -> None:
    space = Space(True)
    setting = space.setting(Fixed(space.point(Start({}))))
    assert setting == Setting("xr-linear", {}, {})
    assert setting.build(True).get_params() == TextModel().get_params() or not setting.parameters
    seeded = Space(True, seed=3)
    assert seeded.setting(Fixed(seeded.point(Start({})))).parameters == {"seed": 3}


def test_settings_build_what_they_say() -> None:
    one = Setting("xr-linear", {"beam": 7}, {"ngrams": [1, 2]})
    two = Setting("neighbors", {"n_neighbors": 9}, {})
    assert Setting(*json.loads(one.key)) == one and one.key != two.key
    model = one.build(True, n_jobs=1)
    assert isinstance(model, TextModel) and model.vectorizer.ngrams == (1, 2)
    assert isinstance(model.model, XRLinear) and model.model.beam == 7 and model.model.n_jobs == 1
    assert isinstance(two.build(False), NeighborRanker)
    both = joined([one, two], [0.75, 0.25], True)
    assert both.get_params(deep=False)["weights"] == [0.75, 0.25]
    assert one.words() == "xr-linear: beam=7, ngrams=1-2" and Setting("neighbors").words() == "neighbors: defaults"


def test_the_configuration_is_toml() -> None:
    one = Setting("xr-linear", {"beam": 7, "cost": 0.1, "negatives": "paper"}, {"ngrams": [1, 2], "lowercase": False})
    read = tomllib.loads(toml_of([one], [1.0]))
    assert read == {"parameters": dict(one.parameters), "text": dict(one.text)}
    two = Setting("neighbors", {"tail": None})
    read = tomllib.loads(toml_of([one, two], [2 / 3, 1 / 3]))
    assert read["parameters"]["weights"] == [2 / 3, 1 / 3]
    assert read["parameters"]["member0"] == {"model": "xr-linear", **one.parameters, "text": dict(one.text)}
    assert read["parameters"]["member1"] == {"model": "neighbors", "tail": "none"}
    words = tomllib.loads(toml_of([Setting("xr-linear", {"cost": [None, 0.5]})], [1.0]))
    assert words["parameters"] == {"cost": ["none", 0.5]}


def test_the_pareto_front() -> None:
    usual = Trial(0, (Setting("xr-linear"),), score=0.5, n_rows=9, seconds=2.0, n_bytes=100, latency=1.0)
    trials = [
        usual, replace(usual, number=1, score=0.4), replace(usual, number=2, score=0.4, n_bytes=50),
        replace(usual, number=3, score=0.6, seconds=3.0), replace(usual, number=4),
        replace(usual, number=5, score=0.9, state="pruned"),
    ]  # fmt: skip
    assert [trial.number for trial in pareto_front(trials)] == [3, 0, 2]
    assert Trial.of_json(usual.as_json()) == usual
