"""``sylvan ensemble``, and ``train`` of ensembles, rerankers and presets: joined, trained together, as in Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sylvan
from sylvan import Ensemble, Reranker, TextModel, data, load, preset


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


def test_rows_are_kept_by_all_members_that_can(call: Any, files: Any, tmp_path: Path) -> None:
    folder, kept = str(tmp_path / "m"), ("--set", "keep_rows=true")
    words = ("train", "ensemble", files("train.jsonl"), "--model", folder, "-q", "--preset", "accurate")
    assert call(*words).code == 0
    assert "train it with --set keep_rows=true" in call("update", folder, files("test.jsonl")).err
    assert call(*words, *kept, "--set", "member3__model=neighbors").code == 0
    assert call("update", folder, files("test.jsonl"), "-q").code == 0
    assert [member.model.n_rows_ for member in load(folder).members] == [300, 300, 300, 300]
    assert call(*words, *kept, "--set", "member1__keep_rows=false").code == 0
    assert [member.model.keep_rows for member in load(folder).members] == [True, False, True]
    (tmp_path / "run.toml").write_text("[parameters]\nkeep_rows = true\nmember0 = {model = 'xr-linear'}\n")
    assert call(*words[:6], "--config", str(tmp_path / "run.toml")).code == 0
    assert load(folder).members[0].model.keep_rows
    alone = call(*words[:6], *kept, "--set", "member0__model=neighbors")
    assert alone.code == 2 and "Ensemble has no parameter 'keep_rows'" in alone.err


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


MEMBERS = ("--set", "member0__model=xr-linear", "--set", "member1__model=neighbors", "--threads", "1")
TREES = ("--set", "scorer=trees", "--set", "n_trees=3")
QUICK = (*MEMBERS, *TREES, "--set", "member2__model=lexical")


ROWS = 1200


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Texts, each about one of six things."""
    things = ["whales", "bread", "verse", "engines", "stars", "rivers"]
    texts = [f"note {at % 97} of {things[at % 6]} and part {at % 13}" for at in range(ROWS)]
    labels = [[f"L{at % 6}", f"P{at % 13}"] if at % 3 else [f"L{at % 6}"] for at in range(ROWS)]
    data.write_jsonl(tmp_path / "rows.jsonl", texts, labels)
    lines = [f"L{at}\t{thing}" for at, thing in enumerate(things)] + [f"P{at}\tpart {at}" for at in range(13)]
    (tmp_path / "names.tsv").write_text("\n".join([*lines, "N1\tsteam trains"]) + "\n", "utf-8")
    return tmp_path


def test_it_is_the_reranker_of_python(call: Any, rows: Path) -> None:
    folder, file, names = str(rows / "m"), str(rows / "rows.jsonl"), str(rows / "names.tsv")
    outcome = call("train", "reranker", file, "--model", folder, "--label-texts", names, "--test", file, *QUICK)
    assert outcome.code == 0 and "Trained 3 models with 20 labels" in outcome.out, outcome.err
    got = sylvan.load(folder)
    assert type(got) is Reranker and got.scorer_ is not None and not (rows / "m.training").exists()
    read = data.read_jsonl(file)
    texts = {label: [name] for label, name in (line.split("\t") for line in Path(names).read_text().splitlines())}
    expected = Reranker(got.members, scorer="trees", n_trees=3, n_jobs=1)
    expected.fit(read.texts, read.labels, label_texts=texts)
    top, same = got.rank(read.texts[:50], k=5), expected.rank(read.texts[:50], k=5)
    assert (top.labels == same.labels).all() and (top.scores == same.scores).all()
    asked = call("predict", folder, "-k", "3", "-", stdin=b'{"text": "steam trains"}\n')
    assert asked.code == 0 and "N1" in asked.out, asked.err
    explained = call("explain", folder, "--text", "whales", "--label", "L0")
    assert "By its mean probability" in explained.out.replace("\n", " ")
    inspected = call("inspect", folder)
    assert inspected.code == 0 and "scorer = 'trees'" in inspected.out


def test_a_plan_trains_and_writes_nothing(call: Any, rows: Path) -> None:
    outcome = call("train", "reranker", str(rows / "rows.jsonl"), "--plan", *QUICK)
    assert outcome.code == 0 and "order" in outcome.out and "peak memory" in outcome.out
    assert sorted(path.name for path in rows.iterdir()) == ["names.tsv", "rows.jsonl"]


def test_without_a_folder_or_members_it_says_so(call: Any, rows: Path) -> None:
    file = str(rows / "rows.jsonl")
    assert "'--model'" in call("train", "reranker", file, *QUICK).err
    none = call("train", "reranker", file, "--model", str(rows / "m"))
    assert none.code == 2 and "A reranker takes --preset, or members numbered from 0" in none.err
    wrong = call("train", "reranker", file, "--model", str(rows / "m"), *MEMBERS, "--set", "scorer=forest")
    assert wrong.code == 2 and "must be one of 'lightgbm'" in wrong.err
    order = call("train", "reranker", file, "--model", str(rows / "m"), *QUICK, "--set", "objective=rank")
    assert order.code == 2 and "must be 'right' with --set scorer=trees" in order.err
    texts = call("train", "reranker", file, "--model", str(rows / "m"), "--label-texts", str(rows / "names.tsv"),
                 "--set", "member0__model=neighbors", *TREES)  # fmt: skip
    assert texts.code == 2 and "is for a LexicalMatcher" in texts.err
    assert not (rows / "m").exists()


def test_an_interrupted_training_goes_on(call: Any, rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = str(rows / "rows.jsonl"), str(rows / "m")

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("sylvan.models.reranker.reranker.LabelFacts.of", stop)
        assert call("train", "reranker", file, "--model", folder, *QUICK).code == 1
    assert not (rows / "m").exists()
    again = call("train", "reranker", file, "--model", folder, *QUICK, "--no-resume")
    assert again.code == 0, again.err
    whole = call("train", "reranker", file, "--model", str(rows / "whole"), *QUICK)
    assert whole.code == 0
    texts = data.read_jsonl(file).texts[:20]
    assert (sylvan.load(folder).rank(texts).scores == sylvan.load(str(rows / "whole")).rank(texts).scores).all()


QUICK_TREES = ("--threads", "1", "--set", "scorer=trees", "--set", "n_trees=3")
THINGS = ["whales", "bread", "verse", "engines", "stars", "rivers"]


@pytest.fixture
def coded(tmp_path: Path) -> Path:
    """Texts, each about one of six things whose labels are codes, and the names of these."""
    texts = [f"note {number % 97} of {THINGS[number % 6]} and part {number % 13}" for number in range(900)]
    data.write_jsonl(tmp_path / "rows.jsonl", texts, [[f"L{number % 6}"] for number in range(900)])
    lines = [f"L{number}\t{thing}" for number, thing in enumerate(THINGS)]
    (tmp_path / "names.tsv").write_text("\n".join(["uri\tlabel_en", *lines]) + "\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize(("words", "kind"), [
    ((), TextModel), (("--preset", "fast"), TextModel), (("--preset=accurate",), Ensemble),
])  # fmt: skip
def test_no_model_need_be_named(words: tuple[str, ...], kind: type, call: Any, coded: Path) -> None:
    file, folder = str(coded / "rows.jsonl"), str(coded / "m")
    outcome = call("train", file, "--model", folder, *words, "--threads", "1", "--test", file)
    assert outcome.code == 0 and "P  " in outcome.out, outcome.err
    model = sylvan.load(folder)
    assert type(model) is kind
    if kind is TextModel:
        assert (model.model.calibration is None) == (words != ())
    first = call("train", *words, "--model", folder, "--threads", "1", file)
    assert first.code == 0, first.err


def test_the_best_with_a_vocabulary(call: Any, coded: Path) -> None:
    file, folder, names = (str(coded / name) for name in ("rows.jsonl", "m", "names.tsv"))
    outcome = call("train", file, "--model", folder, "--preset", "best", "--vocabulary", names, *QUICK_TREES)
    assert outcome.code == 0 and "Trained 6 models with 6 labels" in outcome.out, outcome.err
    assert "codes" not in outcome.err and "never answered" not in outcome.err
    model = sylvan.load(folder)
    assert type(model) is Reranker and model.members[0].label_texts_ is not None
    assert model.members[5].rank(["of whales"], k=1).names == [["L0"]]


def test_codes_without_a_vocabulary(call: Any, coded: Path) -> None:
    outcome = call("train", str(coded / "rows.jsonl"), "--model", str(coded / "m"), "--preset", "best", *QUICK_TREES)
    assert outcome.code == 0 and "Trained 5 models" in outcome.out, outcome.err
    assert outcome.err.count("The labels are codes, such as 'L0'") == 1
    assert "Give their names by --vocabulary FILE." in outcome.err


def test_plans(call: Any, coded: Path) -> None:
    file = str(coded / "rows.jsonl")
    for name in ("fast", "balanced", "accurate", "best"):
        plan = call("plan", file, "--preset", name, "--threads", "1")
        assert plan.code == 0 and "peak memory" in plan.out, plan.err
        assert ("order" in plan.out) == (name == "best")
    assert call("train", file, "--plan", "--preset", "best", "--threads", "1").code == 0
    assert sorted(path.name for path in coded.iterdir()) == ["names.tsv", "rows.jsonl"]


@pytest.mark.parametrize(("words", "sentence"), [
    (("{rows}", "--model", "{out}", "--preset", "bset"), "The presets of texts are fast, balanced, accurate, best"),
    (("{rows}", "--preset", "bset", "--model", "{out}"), "Did you mean 'best'?"),
    (("xrlinear", "{rows}", "--model", "{out}"), "No such command 'xrlinear'. Did you mean 'xr-linear'?"),
    (("missing.jsonl", "--model", "{out}"), "missing.jsonl"),
    (("--model", "{out}"), "Missing argument 'TRAIN'"),
    (("{rows}", "--preset", "best"), "Missing option '--model'"),
    (("{rows}", "--model", "{out}", "--wrong"), "No such option '--wrong'"),
])  # fmt: skip
def test_what_is_refused(words: tuple[str, ...], sentence: str, call: Any, coded: Path) -> None:
    places = {"rows": str(coded / "rows.jsonl"), "out": str(coded / "m")}
    outcome = call("train", *(word.format(**places) for word in words))
    assert outcome.code == 2 and sentence in outcome.err, outcome.err
    assert not (coded / "m").exists()


def test_presets_of_texts_are_not_for_matrices(call: Any, files: Any, tmp_path: Path) -> None:
    outcome = call("train", files("train.xmc"), "--model", str(tmp_path / "m"), "--preset", "accurate")
    assert outcome.code == 2 and "sylvan train xr-linear --preset accurate is for one" in outcome.err
    assert call("train", files("train.xmc"), "--model", str(tmp_path / "m"), "--preset", "fast").code == 0
