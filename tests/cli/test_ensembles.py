"""``sylvan ensemble``, and ``train`` of ensembles, rerankers and presets: joined, trained together, as in Python."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.bits import bits

import sylvan
from sylvan import Ensemble, Reranker, TextModel, data, load, preset


@pytest.mark.parametrize("kind", ["text", "matrix", "npz"])
def test_probabilities_and_slices_of_a_joined_model(files: Any, call: Any, kind: str) -> None:
    model = files.text_model if kind == "text" else files.matrix_model
    dev = {"text": "{test.jsonl}", "matrix": "{test.xmc}", "npz": "{X.test.npz} --labels {Y.test.npz}"}[kind]
    joined = f"ensemble {model} {model} --model out --weights 3,1"
    assert "are not calibrated: --calibrate FILE does it" in call(joined).err
    assert load("out").weights_.tolist() == [0.75, 0.25]
    before, alone = (call(f"evaluate {one} {dev} --json -").json for one in ("out", model))
    assert before["slices"] == alone["slices"] and before["slices"]["tail"]["labels"] > 0
    assert before["measures"]["PSP"] == pytest.approx(alone["measures"]["PSP"])
    assert "ECE cal." not in before["measures"]
    assert f"calibrated on {files(dev.split('}')[0][1:])}." in call(f"{joined} --calibrate {dev}").err
    assert load("out").weights_.tolist() == [0.75, 0.25] and load("out").calibrator_ is not None
    after = call(f"evaluate out {dev} --json -").json
    assert after["measures"]["P"] == before["measures"]["P"]
    assert after["measures"]["ECE cal."]["1"] < before["measures"]["ECE"]["1"]
    chosen = call(f"predict out {dev.split()[0]} --threshold 0.5")
    assert chosen.err.startswith("Read ") and '"probabilities"' in chosen.out
    if kind != "npz":
        call(f"ensemble {model} {model} --model out --fit-weights {dev} -q")
        assert load("out").weights_.sum() == pytest.approx(1)


@pytest.mark.parametrize("command", [
    "ensemble one {text-model} --model one", "compress one -o one", "index {base.npy} --index one",
    "import --from libpecos {libpecos} --model one",
])  # fmt: skip
def test_a_model_that_is_replaced_stays_as_the_earlier_version(command: str, call: Any, files: Any) -> None:
    shutil.copytree(files.text_model, "one")
    np.save("base.npy", np.eye(64, 8, dtype=np.float32))
    fixtures = Path(__file__).parents[1] / "importers" / "fixtures"
    words = command.replace("{libpecos}", str(fixtures / "libpecos")).replace("{base.npy}", "base.npy")
    outcome = call(words)
    assert "The model that was there stays: sylvan update one --undo goes back to it." in outcome.out + outcome.err
    assert not isinstance(load("one"), TextModel) or "compress" in command
    call("update one --undo")
    assert bits(Path("one")) == bits(Path(files.text_model))


def test_platt_and_too_few_rows(call: Any) -> None:
    call("ensemble {text-model} --model one --calibrate {test.jsonl} --calibration platt -q")
    assert load("one").calibrator_.method == "platt"
    data.write_jsonl("few.jsonl", ["bread flour"], [["Baking"]])
    few = call("ensemble {text-model} --model one --calibrate few.jsonl")
    assert "few.jsonl gives too few right or wrong answers (30 of each)" in few.err
    assert load("one").calibrator_ is None


# ---------------------------------------- train ensemble


def test_an_ensemble_from_the_command_line(call: Any) -> None:
    first = "--set member0__model=xr-linear --set member0__beam=5 --set member0__text__ngrams=1,2"
    more = "--set member1__model=neighbors --set weights=3,1 --test {test.jsonl}"
    outcome = call(f"train ensemble {{train.jsonl}} --model m {first} {more}")
    assert "Trained 2 models with 6 labels" in outcome.out and "P  " in outcome.out
    model = sylvan.load("m")
    assert isinstance(model, Ensemble) and model.weights_.tolist() == [0.75, 0.25]
    member = model.members[0]
    assert isinstance(member, TextModel) and member.vectorizer.ngrams == (1, 2)
    assert member.get_params()["model__beam"] == 5
    call("train ensemble {train.xmc} --model m --set member0__model=neighbors -q")
    assert not sylvan.load("m").takes_texts


def test_an_ensemble_of_matrices_has_no_vectorisers(refused: Any) -> None:
    Path("c.toml").write_text('[text]\nmin_df = 2\n[parameters.member0]\nmodel = "neighbors"\n', "utf-8")
    refused("[text] is for one model", "train ensemble {train.jsonl} --model m --config c.toml")


def test_a_preset_is_the_ensemble_of_python(call: Any, files: Any) -> None:
    assert "Trained 3 models" in call("train ensemble {train.jsonl} --model m --preset accurate").out
    rows = data.read_jsonl(files("train.jsonl"))
    expected = preset("accurate").fit(rows.texts, rows.labels).rank(rows.texts, k=3)
    got = sylvan.load("m").rank(rows.texts, k=3)
    assert got.names == expected.names and (got.scores == expected.scores).all()


def test_members_of_a_preset_are_changed_and_added(call: Any) -> None:
    Path("c.toml").write_text("[parameters]\nweights = [1, 1, 1, 0.1]\n[parameters.member2]\nn_trees = 2\n", "utf-8")
    more = "--set member1__text__ngrams=1,3 --set member3__model=neighbors"
    call(f"train ensemble {{train.jsonl}} --model m --preset accurate --config c.toml {more} -q")
    first, pairs, characters, nearest = sylvan.load("m").members
    assert first.get_params()["model__n_trees"] == 1 and first.vectorizer.phrase_weight == 0.5  # short texts
    assert pairs.vectorizer.ngrams == (1, 3) and pairs.vectorizer.max_features == 120_000
    assert characters.get_params()["model__n_trees"] == 2 and characters.vectorizer.analyzer == "char_wb"
    assert type(nearest.model).__name__ == "NeighborRanker"


def test_rows_are_kept_by_all_members_that_can(call: Any, refused: Any) -> None:
    train = "train ensemble {train.jsonl} --model m -q"
    call(f"{train} --preset accurate")
    refused("train it with --set keep_rows=true", "update m {test.jsonl}")
    call(f"{train} --preset accurate --set keep_rows=true --set member3__model=neighbors")
    call("update m {test.jsonl} -q")
    assert [member.model.n_rows_ for member in load("m").members] == [300, 300, 300, 300]
    call(f"{train} --preset accurate --set keep_rows=true --set member1__keep_rows=false")
    assert [member.model.keep_rows for member in load("m").members] == [True, False, True]
    Path("run.toml").write_text("[parameters]\nkeep_rows = true\nmember0 = {model = 'xr-linear'}\n")
    call(f"{train} --config run.toml")
    assert load("m").members[0].model.keep_rows
    alone = f"{train} --set keep_rows=true --set member0__model=neighbors"
    refused("Ensemble has no parameter 'keep_rows'", alone)


def test_the_ensembles_of_the_papers_are_made_of_folders(call: Any) -> None:
    pytest.importorskip("torch")
    from sylvan.neural import BagTextEncoder

    BagTextEncoder(dim=4, n_buckets=32).save_pretrained("small")
    quick = ("encoder=./small", "frozen=true", "ranker__beam=3", "ranker__threshold=0.1")
    for name, n_members, seeds in (("x-transformer", 9, [0, 1, 2] * 3), ("xr-transformer", 3, [0, 1, 2])):
        settings = " ".join(f"--set member{at}__{setting}" for at in range(n_members) for setting in quick)
        call(f"train ensemble {{train.jsonl}} --model {name} --preset {name} -q {settings}")
        members = sylvan.load(name).members
        assert [member.seed for member in members] == seeds
        assert all(member.preset == "paper" and member.kind == name for member in members)


def stop(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_plan_and_a_checkpoint_of_an_ensemble(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "ensemble {train.jsonl} --preset accurate --threads 1"
    plan = call(f"train {words} --plan").out
    assert "member2" in plan and not Path("m").exists()
    assert call(f"plan {words}").out.splitlines()[0] == plan.splitlines()[0]
    with monkeypatch.context() as patched:
        patched.setattr("sylvan.models.ensembles.members.Joined.of", stop)
        call(f"train {words} --model m", code=1)
    call(f"train {words} --model m --no-resume")
    assert not Path("m.training").exists()


# ---------------------------------------- train reranker, and presets without the name of a model

MEMBERS = "--set member0__model=xr-linear --set member1__model=neighbors --threads 1"
TREES = "--threads 1 --set scorer=trees --set n_trees=3"
QUICK = f"{MEMBERS} {TREES} --set member2__model=lexical"


@pytest.fixture
def rows(in_folder: Path) -> None:
    """Texts, each about one of six things and perhaps a part, whose labels are codes; and their names."""
    things = ["whales", "bread", "verse", "engines", "stars", "rivers"]
    texts = [f"note {at % 97} of {things[at % 6]} and part {at % 13}" for at in range(840)]
    data.write_jsonl("rows.jsonl", texts, [[f"L{at % 6}", *[f"P{at % 13}"] * (at % 3 > 0)] for at in range(840)])
    data.write_jsonl("single.jsonl", texts, [[f"L{at % 6}"] for at in range(840)])
    names = [f"L{at}\t{thing}" for at, thing in enumerate(things)]
    parts = [f"P{at}\tpart {at}" for at in range(13)]
    Path("names.tsv").write_text("\n".join([*names, *parts, "N1\tsteam trains"]) + "\n", "utf-8")
    Path("single.tsv").write_text("\n".join(["uri\tlabel_en", *names]) + "\n", "utf-8")


FILES = ["names.tsv", "rows.jsonl", "single.jsonl", "single.tsv"]


def there() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


@pytest.mark.usefixtures("rows")
def test_it_is_the_reranker_of_python(call: Any) -> None:
    outcome = call(f"train reranker rows.jsonl --model m --label-texts names.tsv --test rows.jsonl {QUICK}")
    assert "Trained 3 models with 20 labels" in outcome.out
    got = sylvan.load("m")
    assert type(got) is Reranker and got.scorer_ is not None and not Path("m.training").exists()
    read = data.read_jsonl("rows.jsonl")
    lines = Path("names.tsv").read_text().splitlines()
    texts = {label: [name] for label, name in (line.split("\t") for line in lines)}
    expected = Reranker(got.members, scorer="trees", n_trees=3, n_jobs=1)
    expected.fit(read.texts, read.labels, label_texts=texts)
    top, same = got.rank(read.texts[:50], k=5), expected.rank(read.texts[:50], k=5)
    assert (top.labels == same.labels).all() and (top.scores == same.scores).all()
    assert "N1" in call("predict m -k 3 -", stdin=b'{"text": "steam trains"}\n').out
    assert "By its mean probability" in call("explain m --text whales --label L0").out.replace("\n", " ")
    assert "scorer = 'trees'" in call("inspect m").out


@pytest.mark.usefixtures("rows")
def test_an_interrupted_training_goes_on(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sylvan.models.reranker.reranker.LabelFacts.of", stop)
        call(f"train reranker rows.jsonl --model m {QUICK}", code=1)
    assert not Path("m").exists()
    call(f"train reranker rows.jsonl --model m {QUICK} --no-resume")
    call(f"train reranker rows.jsonl --model whole {QUICK}")
    texts = data.read_jsonl("rows.jsonl").texts[:20]
    assert (sylvan.load("m").rank(texts).scores == sylvan.load("whole").rank(texts).scores).all()


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(("words", "kind"), [
    ("", TextModel), ("--preset fast", TextModel), ("--preset=accurate", Ensemble),
])  # fmt: skip
def test_no_model_need_be_named(words: str, kind: type, call: Any) -> None:
    assert "P  " in call(f"train single.jsonl --model m {words} --threads 1 --test single.jsonl").out
    model = sylvan.load("m")
    assert type(model) is kind
    if kind is TextModel:
        assert (model.model.calibration is None) == (words != "")
    call(f"train {words} --model m --threads 1 single.jsonl")


@pytest.mark.usefixtures("rows")
def test_the_best_with_a_vocabulary_and_without(call: Any) -> None:
    outcome = call(f"train single.jsonl --model m --preset best --vocabulary single.tsv {TREES}")
    assert "Trained 6 models with 6 labels" in outcome.out
    assert "codes" not in outcome.err and "never answered" not in outcome.err
    model = sylvan.load("m")
    assert type(model) is Reranker and model.members[0].label_texts_ is not None
    assert model.members[5].rank(["of whales"], k=1).names == [["L0"]]
    outcome = call(f"train single.jsonl --model n --preset best {TREES}")
    assert "Trained 5 models" in outcome.out
    assert outcome.err.count("The labels are codes, such as 'L0'") == 1
    assert "Give their names by --vocabulary FILE." in outcome.err


@pytest.mark.usefixtures("rows")
def test_a_plan_trains_and_writes_nothing(call: Any) -> None:
    for name in ("fast", "balanced", "accurate", "best"):
        plan = call(f"plan single.jsonl --preset {name} --threads 1").out
        assert "peak memory" in plan and ("order" in plan) == (name == "best")
    call("train single.jsonl --plan --preset best --threads 1")
    plan = call(f"train reranker rows.jsonl --plan {QUICK}").out
    assert "order" in plan and "peak memory" in plan
    assert there() == FILES


@pytest.mark.usefixtures("rows")
def test_what_is_refused(refused: Any) -> None:
    for words, sentence in (
        ("single.jsonl --model m --preset bset", "The presets of texts are fast, balanced, accurate, best"),
        ("single.jsonl --preset bset --model m", "Did you mean 'best'?"),
        ("xrlinear single.jsonl --model m", "No such command 'xrlinear'. Did you mean 'xr-linear'?"),
        ("missing.jsonl --model m", "missing.jsonl"),
        ("--model m", "Missing argument 'TRAIN'"),
        ("single.jsonl --preset best", "Missing option '--model'"),
        ("single.jsonl --model m --wrong", "No such option '--wrong'"),
        (f"reranker rows.jsonl {QUICK}", "'--model'"),
        ("reranker rows.jsonl --model m", "A reranker takes --preset, or members numbered from 0"),
        (f"reranker rows.jsonl --model m {MEMBERS} --set scorer=forest", "must be one of 'lightgbm'"),
        (f"reranker rows.jsonl --model m {QUICK} --set objective=rank", "must be 'right' with --set scorer=trees"),
        (f"reranker rows.jsonl --model m --label-texts names.tsv --set member0__model=neighbors {TREES}",
         "is for a LexicalMatcher"),
    ):  # fmt: skip
        refused(sentence, f"train {words}")
        assert there() == FILES, words


def test_a_preset_of_texts_and_matrices_is_for_both(call: Any) -> None:
    call("train {train.xmc} --model m --preset fast")
