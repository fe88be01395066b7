"""``sylvan task``: every task from files to results; resuming, several seeds, what is left in folders, wrong usage."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from child_processes import python
from kit.errors import raises

import sylvan
from sylvan import data, metrics
from sylvan.cli import task_runs
from sylvan.cli.task import TASKS
from sylvan.errors import DataError, ModelError
from sylvan.neural import RefreshSchedule, load_best
from sylvan.tasks import ExtremeClassification

RUN = Path("run")
SMALL = "--sampler uniform --samples 4 --set embedding=8 --set hidden=8 --set length=5 --set batch_size=4"
LANGUAGE = f"task language-model {{texts}} {SMALL}"


def results(folder: Path | str = RUN) -> dict[str, Any]:
    """What a training wrote."""
    written: dict[str, Any] = json.loads(Path(folder, "results.json").read_text())
    return written


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of words, what users took, texts with labels, and matrices."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "texts").mkdir()
    rng = np.random.default_rng(0)
    for name, n in (("train", 50), ("valid", 20), ("test", 20)):
        lines = [" ".join(f"w{i}" for i in rng.integers(12, size=6)) for _ in range(n)]
        (folder / "texts" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    rng = np.random.default_rng(0)
    rows = [(user, int(item), time) for user in range(30) for time, item in enumerate(rng.integers(9, size=5))]
    rng.shuffle(rows)
    (folder / "log.tsv").write_text("".join(f"u{user}\ti{item}\t{time}\n" for user, item, time in rows))
    (folder / "users.txt").write_text(
        "".join(f"{u} {' '.join(map(str, rng.integers(9, size=6)))}\n" for u in range(30))
    )
    words = np.array(["red", "green", "blue", "black", "white", "pink"])
    for name, n in (("train", 60), ("dev", 15), ("test", 15)):
        chosen = [rng.choice(6, 2, replace=False) for _ in range(n)]
        texts, labels = [" ".join(words[row]) for row in chosen], [[f"L{i}" for i in row] for row in chosen]
        data.write_jsonl(folder / f"{name}.jsonl", texts, labels)
    for name, n in (("A", 60), ("B", 66)):  # two words a row, each a label too, after the name of the file
        pairs = [(words[i % 6], words[(i // 6 + 1 + i) % 6]) for i in range(n)]
        data.write_jsonl(
            folder / f"{name}.jsonl", map(" ".join, pairs), ([name + word for word in row] for row in pairs)
        )
    for name, n in (("trn", 40), ("tst", 10)):
        classes = sp.csr_matrix(np.eye(6, dtype=np.float32)[rng.integers(6, size=n)])
        for kind in "XY":
            data.save_npz(folder / f"{kind}.{name}.npz", classes)
    return folder


@pytest.fixture
def place(files: Path) -> Callable[[str], str]:
    return lambda name: str(files / name)


@pytest.fixture(autouse=True)
def no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws nothing, as where matplotlib is missing, but in one test: that takes longer than small trainings take."""
    if request.function is not test_a_language_model:
        missing = Mock(side_effect=DataError("No picture was drawn."))
        monkeypatch.setattr("sylvan.tasks.base.draw_convergence", missing)


def test_a_language_model(call: Any) -> None:
    lines = call(f"{LANGUAGE} --epochs 2 --out run").out.splitlines()
    assert lines[0].startswith("Read Corpus(13 words; train 350")
    shared = "Trains with head-and-tail, 4 negatives from uniform for a whole batch (--set shared=false draws for each "
    assert lines[1] == f"{shared}target)."
    assert lines[2].startswith("Epoch 1: loss ") and "validation perplexity" in lines[2]
    assert lines[4].startswith("Best in epoch") and "test perplexity" in lines[4]
    assert lines[5].startswith("Wrote run/results.json. convergence.png")
    written = results()
    assert written["stopped"] == "epochs" and written["settings"]["sampler"] == "uniform"
    assert (RUN / "convergence.png").exists() and (RUN / "convergence.svg").exists()


@pytest.mark.parametrize(("words", "said"), [
    ("--set shared=false", "head-and-tail, 4 negatives from uniform for each target."),
    ("--set shared=true --loss nce", "nce, 4 negatives from uniform for a whole batch."),
    ("--set-loss shared=true", "head-and-tail, 4 negatives from uniform for a whole batch (--set shared=false draws"),
    ("--set-loss shared=true --loss nce", "nce, 4 negatives from uniform for a whole batch."),
    ("--loss cane", "cane, 4 candidates and noises from uniform."),
    ("--loss full", "the full softmax, without negatives."),
])  # fmt: skip
def test_what_negatives_it_trains_with_is_said(words: str, said: str, call: Any) -> None:
    line = LANGUAGE.replace("--sampler uniform --samples 4", "") if "full" in words else LANGUAGE
    assert f"Trains with {said}" in call(f"{line} --epochs 1 --out run {words}").out


def test_a_language_model_with_a_tree(call: Any) -> None:
    call(f"{LANGUAGE} --loss beam-tree --epochs 1 --set-loss tree=kmeans --set-loss branching=3 --out run")
    written = results()
    assert written["settings"]["loss"] == "beam-tree" and written["test"]["perplexity"] < 14


def test_it_resumes(call: Any, refused: Any) -> None:
    train = f"{LANGUAGE} --out run"
    assert call(f"{train} --epochs 1 -q").out == ""
    undecided = call(f"{train} --epochs 2", code=2).err
    assert "--resume goes on with it, --no-resume starts over" in undecided
    call(f"{train} --epochs 2 --resume")
    assert [entry["epoch"] for entry in results()["epochs"]] == [1, 2]
    other = call(f"{train} --epochs 3 --resume --set dropout=0.5", code=2).err
    assert "of another training: the setting 'dropout' was 0.0 and is 0.5" in other
    call(f"{train} --epochs 1 --no-resume --set dropout=0.5")
    assert len(results()["epochs"]) == 1
    assert "There is nothing to resume" in call(f"{LANGUAGE} --epochs 1 --resume --out anew").out


def test_several_seeds_with_parameters_of_sampler_and_loss(call: Any) -> None:
    parts = " ".join(f"{{texts/{name}.txt}}" for name in ("train", "valid", "test"))
    more = "--set-sampler power=0.5 --loss sampled-softmax --set-loss correction=drawn"
    run = f"{SMALL} --sampler unigram --seed 0 --seed 3 --epochs 1 --out run {more}"
    assert "Over 2 seeds: test perplexity" in call(f"task language-model {parts} {run}").out
    each = [results(RUN / f"seed-{seed}")["test"]["perplexity"] for seed in (0, 3)]
    assert results()["test"]["perplexity"]["values"] == each and each[0] != each[1]
    assert results()["test"]["perplexity"]["mean"] == pytest.approx(sum(each) / 2)
    settings = results()["settings"]
    assert settings["sampler_parameters"] == {"power": 0.5} and settings["loss_parameters"] == {"correction": "drawn"}


def test_several_seeds_learn_from_what_stdin_holds_once(call: Any, files: Path) -> None:
    parts = "- {texts/valid.txt} {texts/test.txt}"
    text = (files / "texts" / "train.txt").read_bytes()
    call(f"task language-model {parts} {SMALL} --seed 0 --seed 3 --epochs 1 --out run -q", stdin=text)
    log = (files / "log.tsv").read_bytes()
    call(f"task sequential-recommendation - {RECOMMENDER} --seed 0 --seed 3 --epochs 1 --out log -q", stdin=log)
    assert results("log")["seeds"] == results()["seeds"] == [0, 3]


TREE = f"language-model {{texts}} {SMALL} --loss beam-tree --epochs 1 --out out"
LOG, ROWS = "sequential-recommendation {log.tsv} --out out", "extreme-classification {train.jsonl} --out out"
MATRIX = "extreme-classification {X.trn.npz} --out out"
WRONG = [
    ("language-modle {texts} --out out", "No such command 'language-modle'"),
    ("language-model --out out", "Missing argument 'DATA...'"),
    ("language-model {texts}", "Missing option '--out'"),
    ("language-model {texts} {texts} --out out", "a folder, or three files"),
    ("language-model {texts}x --out out", "is no folder"),
    ("language-model {texts} --sampler unigrm --out out", "no sampler 'unigrm'"),
    (f"language-model {{texts}} {SMALL} --loss x --out out", "no loss 'x'"),
    ("language-model {texts} --set hiden=3 --out out", "Did you mean 'hidden'"),
    ("language-model {texts} --set sampler=x --out out", "given by --sampler"),
    ("language-model {texts} --set n_samples=3 --samples 4 --out out", "the same thing"),
    ("language-model {texts} --loss full --samples 4 --out out", "--samples is not for --loss full"),
    ("language-model {texts} --set-loss x --out out", "--set-loss takes name=value"),
    ("language-model {texts} --device abacus --out out", "--device abacus"),
    (f"language-model {{texts}} {SMALL} --epochs 0 --out out", "--epochs must"),
    ("language-model {texts} --seed 1 --seed 1 --out out", "twice"),
    (f"{TREE} --set-loss tree=oak",
     "'tree' parameter of 'beam-tree' must be one of 'frequency', 'kmeans', 'random'"),
    (f"{TREE} --set-loss bias=true", "must have --set bias=false"),
    (f"{TREE} --set shared=true", "'beam-tree' has no parameter 'shared'"),
    (f"{LOG} {{log.tsv}}", "must be one file of interactions"),
    ("sequential-recommendation {nothing.tsv} --out out", "There is no file"),
    (f"{LOG} --set split=half", "'users', 'interactions', 'last'"),
    (f"{LOG} --set encoder=lstm", "must be one of 'sasrec', 'gru4rec', or a SequenceEncoder"),
    (f"{LOG} --layout users", "the user"),
    (f"{LOG} --min-interactions 99", "Lower --min-interactions"),
    (f"{ROWS} {{dev.jsonl}}", "must be one file to train on"),
    (f"{ROWS} --test-labels {{Y.tst.npz}}", "--test-labels goes with --test"),
    (f"{ROWS} --test {{X.tst.npz}}", "must be like the training file"),
    (f"{MATRIX} --labels {{Y.trn.npz}} --set-text min_df=2", "--set-text is for text"),
    (f"{ROWS} --set-text ngram=1,2", "Did you mean 'ngrams'"),
    (MATRIX, "give them with --labels Y.npz"),
    (f"{ROWS} --sampler uniform --samples 100", "100"),
    (f"{ROWS} --sampler uniform --samples 3 --epochs 0", "--epochs"),
    (f"{ROWS} --sampler nope", "There is no sampler 'nope'. The known ones are: "),
    (f"{ROWS} --loss full --sampler uniform", "--sampler is not for --loss full"),
    (f"{ROWS} --loss full --set-sampler x=1", "--set-sampler is not for --loss full"),
    (f"{ROWS} --loss full --refresh-every 3", "--refresh-every is not for --loss full"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_wrong_usage(line: str, said: str, refused: Any, in_folder: Path) -> None:
    assert refused(said, f"task {line} -q").count("\n") == 1
    assert list(in_folder.iterdir()) == []


def test_the_list_of_tasks_needs_no_pytorch_and_a_task_says_what_to_install(files: Path) -> None:
    code = (
        "import sys; from sylvan.cli import main; assert main(['task', '--help']) == 0; "
        "assert 'torch' not in sys.modules; sys.modules['torch'] = None; "
        f"assert main(['task', 'language-model', '--help']) == 0; "
        f"sys.exit(main(['task', 'language-model', {str(files / 'texts')!r}, '--out', 'out']))"
    )
    done = python("-c", code)
    assert done.returncode == 2
    assert done.stderr == 'Error: sylvan task needs PyTorch. Install it with: pip install "sylvan[neural]".\n'
    assert "Needs PyTorch" in done.stdout


def test_every_task_has_an_example_and_lists_what_it_takes(call: Any) -> None:
    listed = call("task --help").out
    assert "Example" in listed
    for task in TASKS:
        assert f"  {task} " in listed
        text = call(f"task {task} --help").out
        assert "Example" in text and f"sylvan task {task} " in text
        assert "midx-rq" in text and "n_samples=" in text and "nce" in text and "beam-tree" in text
    bare = call("task", code=2).err
    assert "language-model" in bare and "Error" not in bare
    text = " ".join(call("task language-model --help").out.split())
    for n in (10_000, 1_000_000):
        assert f"{RefreshSchedule.for_classes(n).every} with {n:,} classes" in text


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_interrupted_it_says_what_is_left(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    say = task_runs.say

    def interrupt(given: Any, line: str) -> None:
        say(given, line)
        if line.startswith("Epoch 2"):
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(task_runs, "say", interrupt)
        stopped = call(f"{LANGUAGE} --out run --epochs 100000", code=1).err
    assert stopped.startswith("Interrupted; what is trained so far lies in") and "--resume" in stopped
    call(f"{LANGUAGE} --out run --epochs 2 --resume")


RECOMMENDER = (
    "--sampler uniform --samples 4 --set dim=8 --set hidden=8 --set max_length=4 --set batch_size=16 "
    "--min-interactions 1"
)
CLASSIFIER = "--sampler uniform --samples 3 --set dim=8 --set batch_size=16"


@pytest.mark.parametrize(("rows", "n_rows"), [
    ("{log.tsv}", 150), ("{users.txt} --set encoder=gru4rec --set split=last", 180),
])  # fmt: skip
def test_a_recommender(call: Any, rows: str, n_rows: int) -> None:
    command = f"task sequential-recommendation {rows} {RECOMMENDER} --out run"
    said = call(f"{command} --epochs 1").out
    assert said.startswith(f"Read 30 users, 9 items, {n_rows} interactions.")
    assert "validation ndcg@10" in said and "test ndcg@10" in said
    assert call(f"{command} --epochs 2 --resume -q").out == ""
    written = results()
    assert [entry["epoch"] for entry in written["epochs"]] == [1, 2]
    assert set(written["test"]) == {f"{name}@{k}" for name in ("ndcg", "recall") for k in (10, 20, 50)}
    assert written["settings"]["task"] == "sequential-recommendation" and written["training"]["patience"] == 10


def test_a_classifier_of_texts(call: Any, files: Path) -> None:
    parts = "--validation {dev.jsonl} --test {test.jsonl} --set-text sublinear_tf=true"
    command = f"task extreme-classification {{train.jsonl}} {parts} {CLASSIFIER} --out run"
    outcome = call(f"{command} --epochs 1")
    assert f"Read 60 rows from {files / 'train.jsonl'}: JSON lines" in outcome.err and "test P@1" in outcome.out
    call(f"{command} --epochs 12 --resume -q")
    written = results()
    assert set(written["test"]) == {"P@1", "P@3", "P@5"} and written["test"]["P@1"] > 0.6
    assert written["settings"]["data"] == "60 rows, 6 features, 6 classes"
    # What ranks new texts: the vectorizer, the labels' names, and the best model in a job of the same settings.
    rows = data.read_jsonl(files / "train.jsonl")
    vectorizer, names = sylvan.load(RUN / "vectorizer"), sylvan.load(RUN / "labels")
    X, Y = vectorizer.transform(rows.texts), names.encode(rows.labels)
    settings = {name: written["settings"][name] for name in ("sampler", "n_samples", "dim", "batch_size")}
    job = ExtremeClassification(X, Y, **settings)
    load_best(RUN, job.module)
    assert metrics.precision(Y, job.rank(X, 1), (1,))[1] > 0.6
    with raises(ModelError, "network"):
        load_best(RUN, ExtremeClassification(X, Y, **{**settings, "dim": settings["dim"] + 1}).module)


def test_a_classifier_of_matrices(call: Any) -> None:
    words = f"{CLASSIFIER} --epochs 1 --seed 0 --seed 1"
    source = "{X.trn.npz} --labels {Y.trn.npz} --test {X.tst.npz} --test-labels {Y.tst.npz}"
    outcome = call(f"task extreme-classification {source} {words} --out apart")
    assert "Read 40 rows" in outcome.err and "Over 2 seeds: test P@1" in outcome.out
    call(f"task extreme-classification {{.}} --test {{.}} {words} --out folder -q")
    assert results("folder")["test"] == results("apart")["test"]


CLASSIFY = "--sampler uniform --set dim=8 --set batch_size=16 -q --epochs 1 --out run"
FIRST, SECOND = (f"task extreme-classification {{{name}.jsonl}} {CLASSIFY}" for name in "AB")


@pytest.mark.parametrize("seeds", ["", "--seed 3 --seed 4"], ids=["one", "several"])
def test_a_refused_resume_leaves_the_runs_labels_and_promises_nothing(seeds: str, call: Any, refused: Any) -> None:
    more = f"--samples 3 {seeds}"
    call(f"{FIRST} {more}")
    labels = list(sylvan.load(RUN / "labels"))
    for again in (SECOND, f"{SECOND} --set learning_rate=0.5", f"{FIRST} --set learning_rate=0.5"):
        said = refused("of another training", f"{again} {more} --resume")
        assert "choose another folder, or remove it." in said and "with --resume goes on" not in said
        assert list(sylvan.load(RUN / "labels")) == labels
    call(f"{FIRST} {more} --resume --epochs 2")
    call(f"{SECOND} {more} --no-resume")
    assert next(iter(sylvan.load(RUN / "labels"))).startswith("B")


def test_no_seed_is_trained_when_another_cannot_go_on(call: Any, refused: Any) -> None:
    call(f"{FIRST} --out run/seed-2 --samples 4 --seed 2")
    said = "the setting 'n_samples' was 4 and is 3"
    refused(said, f"{FIRST} --samples 3 --seed 1 --seed 2 --resume")
    assert not (RUN / "seed-1").exists() and not (RUN / "labels").exists()


def test_other_texts_of_the_same_size_are_no_training_to_go_on_with(call: Any, refused: Any, files: Path) -> None:
    call(f"{FIRST} --samples 3")
    first, second, *rest = (files / "A.jsonl").read_text().splitlines()
    Path("A.jsonl").write_text("\n".join([second, first, *rest]) + "\n")
    again = FIRST.replace("{A.jsonl}", "A.jsonl")
    refused("the setting 'data_checksum' was another", f"{again} --samples 3 --resume --epochs 2")


def test_a_small_set_needs_no_option(call: Any) -> None:
    call("task extreme-classification {train.jsonl} --epochs 1 --out run")
    settings = results()["settings"]
    assert (settings["n_samples"], settings["sampler"], settings["loss"]) == (3, "midx-aware-rq", "head-and-tail")


def test_the_warning_of_adam_is_a_sentence(call: Any) -> None:
    said = call(f"{FIRST} --set optimizer=adam").err
    assert said.startswith("Warning: SparseAdam trains the class table of a sampled loss.")
    assert said.count("\n") == 1 and ".py" not in said
