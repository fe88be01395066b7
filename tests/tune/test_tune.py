"""The search, its limits and its end: the same bits, errors that are sentences, studies on disk, interrupts."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from child_processes import start
from kit.bits import same_bits
from kit.books import load_sample
from kit.errors import raises
from kit.watching import calls_of
from tuned_rows import Clock, corpus  # type: ignore[import-not-found]
from waiting import PATIENCE

import sylvan
from sylvan import TfidfVectorizer, XRLinear, metrics, store
from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ModelError, ParameterError, TuningError
from sylvan.metrics import figures
from sylvan.tune import workbench
from sylvan.tune.result import Budget, Limits, Trial
from sylvan.tune.search import Search
from sylvan.tune.space import Setting, Space
from sylvan.tune.tuner import grow_ensemble, split_rows
from sylvan.tune.workbench import Metric, Workbench, rungs_of

pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def rows() -> tuple[list[str], list[list[str]]]:
    return corpus(400)


def tuned(rows: Any, **options: Any) -> sylvan.TuneResult:
    return sylvan.tune(*rows, **{"max_trials": 6, "n_jobs": 1, **options})


@pytest.fixture(scope="module")
def result(rows: Any) -> sylvan.TuneResult:
    """Of more trials than there are settings to begin with: the sampler draws the last."""
    return tuned(rows, max_trials=11)


def test_the_default_comes_first_and_the_best_is_no_worse(result: sylvan.TuneResult) -> None:
    assert [trial.number for trial in result.trials[:11]] == list(range(11))
    assert result.default is not None and result.default.members[0].words() == "xr-linear: defaults"
    assert result.default.state == "complete"
    assert result.best.score is not None and result.best.score >= (result.default.score or 1)
    assert result.interval is None or result.interval[0] <= result.interval[1]
    assert result.best.words() in result.summary() and f"#{result.best.number}" in result.table()


def test_the_model_is_trained_on_all_rows(rows: Any, result: sylvan.TuneResult) -> None:
    texts, labels = corpus(200, seed=5)
    top = result.model.rank(texts, k=1)
    assert top.vocabulary is not None and set(top.vocabulary) == {name for row in rows[1] for name in row}
    right = [names[0] in row for names, row in zip(top.names, labels, strict=True)]
    assert np.mean(right) > 0.9


def test_the_same_bits_for_a_number_of_trials(rows: Any, result: sylvan.TuneResult) -> None:
    again = tuned(rows, n_jobs=2, max_trials=11)
    assert [trial.score for trial in again.trials] == [trial.score for trial in result.trials]
    assert again.to_toml() == result.to_toml()
    same_bits(again.model, result.model)
    other = tuned(rows, seed=np.int64(1), max_trials=1)
    assert "seed = 1" in other.to_toml()


def test_scores_are_those_of_the_holdout(rows: Any) -> None:
    X, Y = TfidfVectorizer(n_jobs=1).fit_transform(rows[0]), sylvan.data.Vocabulary.from_labels(rows[1]).encode(rows[1])
    result = tuned((X, Y), max_trials=1, metric="nDCG@3", holdout="last")
    model = XRLinear(n_jobs=1).fit(X[:300][::-1], Y[:300][::-1])
    expected = metrics.ndcg(Y[300:], model.rank(X[300:], k=6), at=3)[3]
    assert result.trials[0].score == pytest.approx(expected)
    assert isinstance(result.model, XRLinear) and result.n_holdout == 100


@pytest.mark.parametrize("metric", ["PSP@3", "macro-recall@2", "F1", "F1@2"])
def test_every_kind_of_metric(rows: Any, metric: str) -> None:
    result = tuned(rows, max_trials=1, metric=metric)
    assert result.metric == metric and 0 < (result.best.score or 0) <= 1


def test_matrices_with_named_labels_and_class_ids(rows: Any) -> None:
    X = TfidfVectorizer(n_jobs=1).fit_transform(rows[0])
    named = tuned((X, rows[1]), max_trials=2)
    assert named.model.rank(X[:1], k=1).names[0][0] in {name for row in rows[1] for name in row}
    dense = tuned((X.toarray(), [row[0] for row in rows[1]]), max_trials=2)
    assert dense.best.score is not None


def test_rungs_and_pruning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rungs_of(45_000) == [5_000, 15_000, 45_000] and rungs_of(20_000) == [6_666, 20_000]
    assert rungs_of(900) == [900]
    monkeypatch.setattr(workbench, "LEAST_ROWS", 30)
    result = tuned(corpus(500), max_trials=12)
    states = {trial.state for trial in result.trials}
    assert states == {"complete", "pruned"}
    assert {trial.n_rows for trial in result.trials} <= {41, 125, 375}
    assert result.trials[0].n_rows == 375


def test_features_and_trees_are_made_once(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vectorized = calls_of(monkeypatch, TfidfVectorizer, "fit_transform_blocks")
    trees = calls_of(monkeypatch, XRLinear, "index")
    labels = validate.labels(sylvan.data.Vocabulary.from_labels(rows[1]).encode(rows[1]))
    train, holdout = split_rows(np.ones(len(rows[0]), bool))
    bench = Workbench(rows[0], labels, train, holdout, Metric.of("P@1"), 0, 1, Clock(0.001))
    shape = {"max_leaf": 2, "branching": 2}
    tops = [bench.measure(Setting("xr-linear", {**shape, **more}), 0).top for more in ({}, {"beam": 3}, {"cost": 2.0})]
    assert len(vectorized) == len(trees) == 1
    alone = XRLinear(**shape, n_jobs=1).fit(bench.features(Setting("xr-linear"), 0).train, bench.rung_labels(0)[0])
    expected = alone.probabilities(alone.rank(bench.features(Setting("xr-linear"), 0).holdout, 6))
    assert np.array_equal(tops[0].scores, expected.scores)  # a shared tree gives the same bits
    bench.measure(Setting("xr-linear", {**shape, "seed": 1}), 0)
    bench.measure(Setting("xr-linear", shape, {"min_df": 2}), 0)
    assert (len(vectorized), len(trees)) == (2, 3)


# ------------------------------------------------------------------------------------------ limits and budgets


def test_a_size_is_held_by_the_final_model(tmp_path: Path) -> None:
    sample = load_sample().train
    rows = sample.texts[:250], sample.labels[:250]
    default = tuned(rows, max_trials=1).best
    limit = int(0.31 * (default.n_bytes or 0))
    small = tuned(rows, max_size=limit, max_trials=5)
    assert small.pruned_to == limit
    assert f"# sylvan compress DIR --output SMALL_DIR --max-size {limit}" in small.to_toml()
    assert "the default within the size" in small.summary()
    small.model.save(tmp_path / "m")
    assert sum(path.stat().st_size for path in (tmp_path / "m").rglob("*") if path.is_file()) <= limit
    assert small.best.n_bytes is not None and small.best.n_bytes <= limit


def test_a_model_without_room_for_weights_is_judged_without_them() -> None:
    X, Y = np.eye(8, dtype=np.float32).repeat(4, axis=0), np.arange(8).repeat(4)
    model = XRLinear(max_leaf=2, n_jobs=1).fit(X, Y)
    whole = store.saved_bytes(model.to_state())
    bench = Workbench.__new__(Workbench)
    for room in (-5, 1, 100):
        small, n_bytes = bench._pruned(model, whole, room)
        assert n_bytes < whole
        assert sum(layer.n_entries for layer in small.layers_) == 0
    assert bench._pruned(model, whole, whole) == (model, whole)


def test_a_candidate_that_breaks_a_limit_at_the_end_gives_way(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:

    latency, measured = Workbench.latency, []

    def first_too_slow(self: Any, model: Any, *transform: Any) -> float:
        if transform:  # while settings are tried
            return latency(self, model, *transform)
        measured.append(1)
        return 0.5 if len(measured) == 1 else 0.001

    monkeypatch.setattr(Workbench, "latency", first_too_slow)
    result = tuned(rows, max_latency="100ms", max_trials=3)
    assert result.notes and "Passed over #" in result.notes[0] and "a single query takes 0.5 s" in result.notes[0]


def test_a_budget_ends_the_search(rows: Any) -> None:
    clock = Clock(0.01)
    result = tuned(rows, max_trials=None, budget=20.0, clock=clock)
    assert 2 < len(result.trials) < 100
    assert clock.now <= 22
    assert "no time" not in " ".join(result.notes)


@pytest.mark.parametrize(("size", "seconds"), [(None, 2 + 36), (1000, 2 + 12)])
def test_time_is_reserved_for_the_last_training(size: int | None, seconds: float) -> None:
    """1.2 times what the best trials take, of which three may become an ensemble unless a size lets none."""
    search = Search.__new__(Search)
    search.limits, search.budget = Limits(size=size), Budget(100.0, Clock())
    search.records = {
        at: Trial(at, (Setting("xr-linear", {"beam": at + 1}),), score=0.5, n_rows=9, seconds=10.0, n_bytes=10)
        for at in range(4)
    }
    assert search.reserve() == pytest.approx(seconds)
    search.records[0] = replace(search.records[0], seconds=100.0)
    assert search.reserve() == pytest.approx(2 + 120)


def test_a_budget_too_short_for_one_training(rows: Any, tmp_path: Path) -> None:
    sentence = 400
    with raises(TuningError, sentence):
        tuned(rows, budget="1ms", max_trials=None, clock=Clock(0.01), study=tmp_path / "study")
    assert tuned(rows, max_trials=1, study=tmp_path / "study").best.number == 0  # the same study, with more time


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"metric": "accuracy"}, ParameterError, ("metric", "accuracy")),
        ({"budget": "soon"}, ParameterError, ("budget", 0)),
        ({"max_trials": 0}, ParameterError, ("max_trials", "[1, inf)")),
        ({"max_size": "big"}, ParameterError, ("max_size", "big")),
        ({"max_latency": 0}, ParameterError, ("max_latency", 0)),
        ({"seed": -1}, ParameterError, ("seed", -1)),
        ({"holdout": "first"}, ParameterError, ("holdout", "first")),
        ({"n_jobs": 0}, ParameterError, ("n_jobs", 0)),
    ],
)
def test_wrong_options(rows: Any, options: dict[str, Any], error: type, sentence: object) -> None:
    with raises(error, sentence):
        tuned(rows, **options)


def test_wrong_rows(rows: Any) -> None:
    with raises(DataError, "X", 400, "Y", 3):
        tuned((rows[0], rows[1][:3]))
    with raises(DataError, "text"):
        tuned((rows[0], [[]] * 400))
    with raises(DataError, "rows", 30):
        tuned((rows[0][:30], rows[1][:30]))


def test_training_that_fails_is_a_failed_trial(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Workbench.measure

    def failing(self: Any, setting: Any, rung: int) -> Any:
        if setting.model == "neighbors":
            raise DataError("made to fail")
        return measure(self, setting, rung)

    monkeypatch.setattr(Workbench, "measure", failing)
    result = tuned(rows)
    (failed,) = (trial for trial in result.trials if trial.state == "failed")
    assert failed.note == "made to fail" and "made to fail" in result.table()


# ---------------------------------------------------------------------------------------- studies and interrupts


def test_a_study_of_something_else(rows: Any, tmp_path: Path) -> None:
    tuned(rows, max_trials=1, study=tmp_path / "study")
    with raises(ModelError, "tuning"):
        tuned(rows, max_trials=1, study=tmp_path / "study", metric="P@1")
    with raises(ModelError, "features"):
        tuned(([*rows[0][:-1], "other"], rows[1]), max_trials=1, study=tmp_path / "study")
    with raises(ModelError, "ranges"):
        tuned(rows, max_trials=1, study=tmp_path / "study", max_size="1MB")
    with raises(ModelError, "it has other held-out rows."):
        tuned(rows, max_trials=1, study=tmp_path / "study", holdout="last")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with raises(ModelError, "study", "something"):
        tuned(rows, max_trials=1, study=tmp_path / "other")
    tuned(rows, max_trials=1, study=tmp_path / "small", max_size="1MB")
    with raises(ModelError, "it has other size limit."):
        tuned(rows, max_trials=1, study=tmp_path / "small", max_size="2MB")


def test_a_damaged_study(rows: Any, tmp_path: Path) -> None:
    """Answers that are lost cost the interval and ensembles; what the study is, or its trials, can't be lost."""
    (tmp_path / "study.json.7").touch()  # another process is about to begin it
    whole = tuned(rows, max_trials=2, study=tmp_path)
    answers = tmp_path / f"answers-{whole.best.number}.npz"
    for content in (b"", b"PK\x03\x04 cut off", answers.read_bytes()[:-9]):
        answers.write_bytes(content)
        assert tuned(rows, max_trials=2, study=tmp_path).interval is None
    for name, content in (("journal.log", b'{"op_code":\n{}\n'), ("study.json", b"{"), ("study.json", b"[]"),
                          ("study.json", b"\xff")):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with raises(ModelError, "opened", str(tmp_path)):
            tuned(rows, max_trials=2, study=tmp_path)


def test_an_interrupted_study_ends_as_one_that_never_stopped(
    rows: Any, result: sylvan.TuneResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the default model, in a setting to begin with, and in one that the sampler drew; each has the best so far."""
    measure, calls = Workbench.measure, []

    def interrupted(self: Any, setting: Any, rung: int) -> Any:
        calls.append(setting)
        if len(calls) in (1, 4, 12):  # one more each time, as the setting comes again
            raise KeyboardInterrupt
        return measure(self, setting, rung)

    def study(**more: Any) -> sylvan.TuneResult:
        return tuned(rows, study=tmp_path / "study", max_trials=11, **more)

    monkeypatch.setattr(Workbench, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study()
    for n_measured in (2, 9):
        early = study()
        assert len([trial for trial in early.trials if len(trial.members) == 1]) == n_measured
        assert early.notes[0] == "The search was interrupted: this is the best so far."
        assert early.model.rank(rows[0][:1], k=1).names
    lines = list[str]()
    whole = study(report=lines.append)
    assert [line.split()[0] for line in lines] == ["#9", "#10"]
    assert [replace(trial, seconds=0, latency=0) for trial in whole.trials] == [
        replace(trial, seconds=0, latency=0) for trial in result.trials
    ]
    assert whole.to_toml() == result.to_toml() and whole.interval == result.interval


def test_the_report_has_figures_and_a_page(result: sylvan.TuneResult, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = result.save_report(tmp_path / "a")
    assert names == ["tuned.toml", "trials.txt", "trials.json", "report.html", "pareto.svg", "pareto.png"]
    assert (tmp_path / "a" / "pareto.png").read_bytes().startswith(b"\x89PNG")
    drawn, page = ((tmp_path / "a" / name).read_text("utf-8") for name in ("pareto.svg", "report.html"))
    assert "single query, ms" in drawn and "Pareto front" in drawn and drawn[drawn.index("<svg") :] in page
    assert result.best.words() in page and "[parameters]" in page and "<script" not in page
    result.draw(str(tmp_path / "front.svg"))
    assert (tmp_path / "front.svg").read_text("utf-8") == drawn
    assert {path.name for path in tmp_path.iterdir()} == {"a", "front.svg"}
    for name in ("front", "front.txt"):
        with raises(DataError, ".png, .svg or .pdf", name):
            result.draw([tmp_path / name])
    figures.draw_panels(tmp_path / "a.svg", "m$_$ on $5", [lambda axes: None])
    assert "m$_$ on $5" in (tmp_path / "a.svg").read_text("utf-8")  # and no formula


def test_a_report_without_matplotlib(
    result: sylvan.TuneResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the trials, and a page that escapes what it shows."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    noted = replace(result, notes=("<b>bold</b>",))
    assert noted.save_report(tmp_path)[-1] == "report.html"
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<svg" not in page and "&lt;b&gt;bold" in page and "<b>" not in page
    read = json.loads((tmp_path / "trials.json").read_text("utf-8"))
    assert read["best"]["number"] == result.best.number and len(read["trials"]) == len(result.trials)
    assert (tmp_path / "tuned.toml").read_text("utf-8") == noted.to_toml()
    with raises(DataError, "matplotlib"):
        result.draw([tmp_path / "x.png"])


def neighbors(n: int) -> list[Trial]:
    """Trials that took as long as each other."""
    return [
        Trial(at, (Setting("neighbors", {"n_neighbors": at + 1}),), score=0.5, n_rows=9, seconds=1.0, n_bytes=10,
              latency=0.1) for at in range(n)
    ]  # fmt: skip


def test_ensembles_join_what_is_different() -> None:
    """Two rankings that are each right on half of the rows are joined; the score is that of the ensemble."""

    n = 200
    truth = validate.labels(sp.csr_matrix((np.ones(n), (np.arange(n), np.arange(n) % 5)), shape=(n, 5)))
    rng = np.random.default_rng(0)
    tops = []
    for part in (0, 1, None):
        labels = np.stack([rng.permutation(5) for _ in range(n)]).astype(np.int32)
        scores = np.tile(np.array([0.3, 0.25, 0.2, 0.15, 0.1], np.float32), (n, 1))
        for row in range(n) if part is not None else ():
            if (row // 2) % 2 == part:
                labels[row] = np.roll(np.arange(5), -(row % 5))
                scores[row, 0] = 0.9
        tops.append(TopK(labels, scores))
    trials, metric = neighbors(3), Metric.of("P@1")

    def score(top: Any) -> Any:
        return metric.scores(truth, top, np.ones(5, np.int64), 9)

    grown = grow_ensemble(trials, tops, score, lambda trial: True, 7, 1, 1)
    assert grown is not None
    joined, scores = grown
    assert set(joined.of_trials) == {0, 1} and joined.number == 7 and sum(joined.weights) == pytest.approx(1)
    assert joined.score == scores.value() > 0.9 and (joined.seconds, joined.n_bytes, joined.latency) == (2.0, 20, 0.2)
    assert grow_ensemble(trials, tops, score, lambda trial: False, 7, 1, 1) is None
    assert grow_ensemble(trials[:1], tops[:1], score, lambda trial: True, 7, 1, 1) is None


def test_an_ensemble_of_chance_is_not_taken() -> None:
    """Rankings that are as good as each other by chance alone gain nothing on the other half of the holdout."""
    rng = np.random.default_rng(3)
    n = 120
    truth = validate.labels(sp.csr_matrix((np.ones(n), (np.arange(n), np.zeros(n, int))), shape=(n, 30)))
    right = np.argsort(rng.random((n, 30)), axis=1).astype(np.int32)
    tops = []
    for _ in range(4):
        labels = right.copy()
        for row in range(n):
            labels[row, :2] = labels[row, :2][rng.permutation(2)]  # places that the score doesn't tell apart
        tops.append(TopK(labels, np.tile(np.linspace(0.9, 0.1, 30, dtype=np.float32), (n, 1))))
    trials, metric = neighbors(4), Metric.of("P@5")

    def score(top: Any) -> Any:
        return metric.scores(truth, top, np.ones(30, np.int64), 9)

    assert grow_ensemble(trials, tops, score, lambda trial: True, 7, 5, 1) is None


def test_first_rungs_are_judged_by_a_part_of_the_holdout(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "LEAST_ROWS", 30)
    monkeypatch.setattr(workbench, "JUDGED", 40)
    labels = validate.labels(sylvan.data.Vocabulary.from_labels(rows[1]).encode(rows[1]))
    train, holdout = split_rows(np.ones(len(rows[0]), bool))
    bench = Workbench(rows[0], labels, train, holdout, Metric.of("P@1"), 0, 1, Clock(0.001))
    assert bench.rungs == [33, 100, 300] and [len(judged) for judged in bench.judged] == [50, 50, 100]
    measured = bench.measure(Setting("xr-linear"), 1)
    assert len(measured.top) == 50
    right = labels.to_scipy()[bench.judged[1]].toarray()[np.arange(50), measured.top.labels[:, 0]]
    assert measured.scores.value() == pytest.approx(right.mean())


def test_every_second_trial_varies_the_best(rows: Any) -> None:
    result = tuned(rows, max_trials=16)
    begun = len(list(Space(True).starts()))
    best = {trial.number: trial for trial in result.trials}
    for number in range(begun + 1 - begun % 2, 16, 2):
        given = [dict(best[number].members[0].parameters), dict(best[number].members[0].text)]
        others = [trial.members[0] for trial in result.trials[:number] if trial.state == "complete"]
        assert any(_distance(given, [one.parameters, one.text]) <= 4 for one in others)


def _distance(one: Any, other: Any) -> int:
    """How many values differ."""
    return sum(a.get(name) != b.get(name) for a, b in zip(one, other, strict=True) for name in {*a, *b})


def test_two_processes_share_a_study(rows: Any, tmp_path: Path) -> None:
    """Each trial is one process's; both see all of them in the end."""
    code = (
        "import json, sys, optuna, sylvan; rows = json.load(open(sys.argv[1])); sylvan.tune; print(flush=True); "
        "r = sylvan.tune(*rows, max_trials=8, n_jobs=1, study=sys.argv[2]); "
        "print(json.dumps([t.as_json() for t in r.trials]))"
    )
    (tmp_path / "rows.json").write_text(json.dumps(rows), "utf-8")
    words = [sys.executable, "-c", code, str(tmp_path / "rows.json"), str(tmp_path / "study")]
    other = start(words, stdout=subprocess.PIPE, encoding="utf-8")
    assert other.stdout is not None and other.stdout.readline() == "\n"
    here = [trial.as_json() for trial in tuned(rows, max_trials=8, study=tmp_path / "study").trials]
    found = [json.loads(json.dumps(here)), json.loads(other.communicate(timeout=PATIENCE)[0])]
    assert other.returncode == 0
    numbers = [{trial["number"] for trial in trials if len(trial["members"]) == 1} for trials in found]
    assert set(range(8)) <= numbers[0] | numbers[1] <= set(range(10))
    first = {trial["number"]: trial["members"] for trial in found[0]}
    assert all(trial["members"] == first[trial["number"]] for trial in found[1] if trial["number"] in first
               and len(trial["members"]) == len(first[trial["number"]]) == 1)  # fmt: skip
