"""``sylvan task``: every task from files to results; resuming, several seeds, what is left in folders, wrong usage."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from child_processes import python
from kit.errors import raises

import sylvan
from sylvan import data, metrics
from sylvan.cli import task_runs
from sylvan.cli.task import TASKS
from sylvan.errors import ModelError
from sylvan.neural import RefreshSchedule, load_best
from sylvan.tasks import ExtremeClassification


def results(folder: Path) -> dict[str, Any]:
    """What a training wrote."""
    written: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return written


SMALL = (
    "--sampler", "uniform", "--samples", "4", "--set", "embedding=8", "--set", "hidden=8", "--set", "length=5",
    "--set", "batch_size=4",
)  # fmt: skip


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    for name, n in (("train", 150), ("valid", 20), ("test", 20)):
        lines = [" ".join(f"w{i}" for i in rng.integers(12, size=6)) for _ in range(n)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_a_language_model(call: Any, texts: Path, pictures: None, tmp_path: Path) -> None:
    out = tmp_path / "run"
    outcome = call("task", "language-model", str(texts), *SMALL, "--epochs", "2", "--out", str(out))
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Read Corpus(13 words; train 1,050")
    shared = "Trains with head-and-tail, 4 negatives from uniform for a whole batch (--set shared=false draws for each "
    assert lines[1] == f"{shared}target)."
    assert lines[2].startswith("Epoch 1: loss ") and "validation perplexity" in lines[2]
    assert lines[4].startswith("Best in epoch") and "test perplexity" in lines[4]
    assert lines[5].startswith(f"Wrote {out / 'results.json'}. convergence.png")
    written = results(out)
    assert written["stopped"] == "epochs" and written["settings"]["sampler"] == "uniform"
    assert (out / "convergence.png").exists() and (out / "convergence.svg").exists()


@pytest.mark.parametrize(("words", "said"), [
    ("--set shared=false", "head-and-tail, 4 negatives from uniform for each target."),
    ("--set shared=true --loss nce", "nce, 4 negatives from uniform for a whole batch."),
    ("--set-loss shared=true", "head-and-tail, 4 negatives from uniform for a whole batch (--set shared=false draws"),
    ("--set-loss shared=true --loss nce", "nce, 4 negatives from uniform for a whole batch."),
    ("--loss cane", "cane, 4 candidates and noises from uniform."),
    ("--loss full", "the full softmax, without negatives."),
])  # fmt: skip
def test_what_negatives_it_trains_with_is_said(words: str, said: str, call: Any, texts: Path, tmp_path: Path) -> None:
    command = ("task", "language-model", str(texts), *SMALL, "--epochs", "1", "--out", str(tmp_path))
    outcome = call(*command, *words.split())
    assert outcome.code == 0 and f"Trains with {said}" in outcome.out, outcome


def test_a_language_model_with_a_tree(call: Any, texts: Path, tmp_path: Path) -> None:
    words = ("task", "language-model", str(texts), *SMALL, "--loss", "beam-tree", "--epochs", "1")
    outcome = call(*words, "--set-loss", "tree=kmeans", "--set-loss", "branching=3", "--out", str(tmp_path / "run"))
    assert outcome.code == 0, outcome.err
    written = results(tmp_path / "run")
    assert written["settings"]["loss"] == "beam-tree" and written["test"]["perplexity"] < 14
    for wrong, said in (
        (("--set-loss", "tree=oak"), "'tree' parameter of 'beam-tree' must be one of 'frequency', 'kmeans', 'random'"),
        (("--set-loss", "bias=true"), "must have --set bias=false"),
        (("--set", "shared=true"), "'beam-tree' has no parameter 'shared'"),
    ):
        refused = call(*words, *wrong, "--out", str(tmp_path / "other"))
        assert refused.code == 2 and said in refused.err and refused.err.count("\n") == 1
    assert not (tmp_path / "other").exists()


def test_it_resumes(call: Any, texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("task", "language-model", str(texts), *SMALL, "--out", str(out))
    assert call(*words, "--epochs", "1", "-q").out == ""
    refused = call(*words, "--epochs", "2")
    assert refused.code == 2 and "--resume goes on with it, --no-resume starts over" in refused.err
    assert call(*words, "--epochs", "2", "--resume").code == 0
    assert [entry["epoch"] for entry in results(out)["epochs"]] == [1, 2]
    other = call(*words, "--epochs", "3", "--resume", "--set", "dropout=0.5")
    assert other.code == 2 and "of another training: the setting 'dropout' was 0.0 and is 0.5" in other.err
    assert call(*words, "--epochs", "1", "--no-resume", "--set", "dropout=0.5").code == 0
    assert len(results(out)["epochs"]) == 1
    anew = call("task", "language-model", str(texts), *SMALL, "--epochs", "1", "--resume", "--out", str(tmp_path / "b"))
    assert "There is nothing to resume" in anew.out


def test_several_seeds_with_parameters_of_sampler_and_loss(call: Any, texts: Path, tmp_path: Path) -> None:
    parts = [str(texts / f"{name}.txt") for name in ("train", "valid", "test")]
    out = tmp_path / "run"
    words = ("--seed", "0", "--seed", "3", "--epochs", "1", "--out", str(out), "--set-sampler", "power=0.5",
             "--loss", "sampled-softmax", "--set-loss", "correction=drawn")  # fmt: skip
    outcome = call("task", "language-model", *parts, *SMALL, "--sampler", "unigram", *words)
    assert outcome.code == 0 and "Over 2 seeds: test perplexity" in outcome.out, outcome.err
    each = [results(out / f"seed-{seed}")["test"]["perplexity"] for seed in (0, 3)]
    assert results(out)["test"]["perplexity"]["values"] == each and each[0] != each[1]
    assert results(out)["test"]["perplexity"]["mean"] == pytest.approx(sum(each) / 2)
    settings = results(out)["settings"]
    assert settings["sampler_parameters"] == {"power": 0.5} and settings["loss_parameters"] == {"correction": "drawn"}


WRONG = {
    "no such task": (("language-modle", "{texts}", "--out", "{out}"), "No such command 'language-modle'"),
    "no data": (("language-model", "--out", "{out}"), "Missing argument 'DATA...'"),
    "nowhere to write": (("language-model", "{texts}"), "Missing option '--out'"),
    "two files": (("language-model", "{texts}", "{texts}", "--out", "{out}"), "a folder, or three files"),
    "no folder": (("language-model", "{texts}x", "--out", "{out}"), "is no folder"),
    "no such sampler": (("language-model", "{texts}", "--sampler", "unigrm", "--out", "{out}"), "no sampler 'unigrm'"),
    "no such loss": (("language-model", "{texts}", *SMALL, "--loss", "x", "--out", "{out}"), "no loss 'x'"),
    "no such parameter": (
        ("language-model", "{texts}", "--set", "hiden=3", "--out", "{out}"), "Did you mean 'hidden'"),
    "sampler by --set": (
        ("language-model", "{texts}", "--set", "sampler=x", "--out", "{out}"), "given by --sampler"),
    "samples twice": (
        ("language-model", "{texts}", "--set", "n_samples=3", "--samples", "4", "--out", "{out}"), "the same thing"),
    "no value": (("language-model", "{texts}", "--set-loss", "x", "--out", "{out}"), "--set-loss takes name=value"),
    "no such device": (("language-model", "{texts}", "--device", "abacus", "--out", "{out}"), "--device abacus"),
    "no epochs": (("language-model", "{texts}", *SMALL, "--epochs", "0", "--out", "{out}"), "--epochs must"),
    "a seed twice": (("language-model", "{texts}", "--seed", "1", "--seed", "1", "--out", "{out}"), "twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage(case: str, call: Any, texts: Path, tmp_path: Path) -> None:
    words, piece = WRONG[case]
    outcome = call("task", *(word.format(texts=texts, out=tmp_path / "out") for word in words), "-q")
    assert outcome.code == 2 and "Traceback" not in outcome.err
    assert outcome.err.startswith("Error: ") and outcome.err.count("\n") == 1 and piece in outcome.err, outcome.err
    assert not (tmp_path / "out").exists()


def test_without_pytorch_it_says_what_to_install(texts: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from sylvan.cli import main; "
        f"assert main(['task', 'language-model', '--help']) == 0; "
        f"sys.exit(main(['task', 'language-model', {str(texts)!r}, '--out', {str(tmp_path / 'out')!r}]))"
    )
    done = python("-c", code)
    assert done.returncode == 2
    assert done.stderr == 'Error: sylvan task needs PyTorch. Install it with: pip install "sylvan[neural]".\n'
    assert "Needs PyTorch" in done.stdout


def test_every_task_has_an_example_and_lists_what_it_takes(call: Any) -> None:
    listed = call("task", "--help").out
    assert "Example" in listed
    for task in TASKS:
        if f"  {task} " not in listed:
            continue  # its module isn't there yet
        text = call("task", task, "--help").out
        assert "Example" in text and f"sylvan task {task} " in text
        assert "midx-rq" in text and "n_samples=" in text and "nce" in text and "beam-tree" in text


def test_a_task_without_a_name_shows_its_help(call: Any) -> None:
    outcome = call("task")
    assert outcome.code == 2 and "language-model" in outcome.err and "Error" not in outcome.err


def test_the_list_of_tasks_loads_no_pytorch() -> None:
    code = (
        "import sys; from sylvan.cli import main; assert main(['task', '--help']) == 0; "
        "assert 'torch' not in sys.modules"
    )
    python("-c", code, check=True)


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_interrupted_it_says_what_is_left(
    call: Any, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = task_runs.say

    def interrupt(given: Any, line: str) -> None:
        say(given, line)
        if line.startswith("Epoch 2"):
            os.kill(os.getpid(), signal.SIGINT)

    out = tmp_path / "run"
    words = ("task", "language-model", str(texts), *SMALL, "--out", str(out))
    with monkeypatch.context() as patched:
        patched.setattr(task_runs, "say", interrupt)
        stopped = call(*words, "--epochs", "100000")
    assert stopped.code == 1 and "Traceback" not in stopped.err
    assert stopped.err.startswith("Interrupted; what is trained so far lies in") and "--resume" in stopped.err
    assert call(*words, "--epochs", "2", "--resume").code == 0


RECOMMENDER = (
    "--sampler", "uniform", "--samples", "4", "--set", "dim=8", "--set", "hidden=8", "--set", "max_length=4",
    "--set", "batch_size=16", "--min-interactions", "1",
)  # fmt: skip
CLASSIFIER = ("--sampler", "uniform", "--samples", "3", "--set", "dim=8", "--set", "batch_size=16")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    rows = [(user, int(item), time) for user in range(30) for time, item in enumerate(rng.integers(9, size=5))]
    rng.shuffle(rows)
    (folder / "log.tsv").write_text("".join(f"u{user}\ti{item}\t{time}\n" for user, item, time in rows))
    (folder / "users.txt").write_text(
        "".join(f"{u} {' '.join(map(str, rng.integers(9, size=6)))}\n" for u in range(30))
    )
    words = ["red", "green", "blue", "black", "white", "pink"]
    for name, n in (("train", 60), ("dev", 15), ("test", 15)):
        lines = []
        for _ in range(n):
            chosen = rng.choice(6, 2, replace=False)
            lines.append(json.dumps({"text": " ".join(words[i] for i in chosen), "labels": [f"L{i}" for i in chosen]}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    for name, n in (("trn", 40), ("tst", 10)):
        classes = rng.integers(6, size=n)
        data.save_npz(folder / f"X.{name}.npz", sp.csr_matrix(np.eye(6, dtype=np.float32)[classes]))
        data.save_npz(folder / f"Y.{name}.npz", sp.csr_matrix(np.eye(6, dtype=np.float32)[classes]))
    return folder


@pytest.mark.parametrize("words", [("log.tsv",), ("users.txt", "--set", "encoder=gru4rec", "--set", "split=last")])
def test_a_recommender(call: Any, files: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    out = tmp_path / "run"
    command = ("task", "sequential-recommendation", str(files / words[0]), *words[1:], *RECOMMENDER, "--out", str(out))
    outcome = call(*command, "--epochs", "1")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(f"Read 30 users, 9 items, {150 if words[0] == 'log.tsv' else 180} interactions.")
    assert "validation ndcg@10" in outcome.out and "test ndcg@10" in outcome.out
    assert call(*command, "--epochs", "2", "--resume", "-q").out == ""
    written = results(out)
    assert [entry["epoch"] for entry in written["epochs"]] == [1, 2]
    assert set(written["test"]) == {f"{name}@{k}" for name in ("ndcg", "recall") for k in (10, 20, 50)}
    assert written["settings"]["task"] == "sequential-recommendation" and written["training"]["patience"] == 10


def test_a_classifier_of_texts(call: Any, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    parts = ("--validation", str(files / "dev.jsonl"), "--test", str(files / "test.jsonl"))
    command = ("task", "extreme-classification", str(files / "train.jsonl"), *parts, *CLASSIFIER, "--out", str(out))
    outcome = call(*command, "--epochs", "1", "--set-text", "sublinear_tf=true")
    assert outcome.code == 0, outcome.err
    assert f"Read 60 rows from {files / 'train.jsonl'}: JSON lines" in outcome.err and "test P@1" in outcome.out
    assert call(*command, "--epochs", "12", "--resume", "-q", "--set-text", "sublinear_tf=true").code == 0
    written = results(out)
    assert set(written["test"]) == {"P@1", "P@3", "P@5"} and written["test"]["P@1"] > 0.6
    assert written["settings"]["data"] == "60 rows, 6 features, 6 classes"
    # What ranks new texts: the vectorizer, the labels' names, and the best model in a job of the same settings.
    rows = [json.loads(line) for line in (files / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    vectorizer, names = sylvan.load(out / "vectorizer"), sylvan.load(out / "labels")
    X, Y = vectorizer.transform([row["text"] for row in rows]), names.encode([row["labels"] for row in rows])
    settings = {name: written["settings"][name] for name in ("sampler", "n_samples", "dim", "batch_size")}
    job = ExtremeClassification(X, Y, **settings)
    load_best(out, job.module)
    assert metrics.precision(Y, job.rank(X, 1), (1,))[1] > 0.6
    with raises(ModelError, "network"):
        load_best(out, ExtremeClassification(X, Y, **{**settings, "dim": settings["dim"] + 1}).module)


def test_a_classifier_of_matrices(call: Any, files: Path, tmp_path: Path) -> None:
    test_part = ("--test", str(files / "X.tst.npz"), "--test-labels", str(files / "Y.tst.npz"))
    source = (str(files / "X.trn.npz"), "--labels", str(files / "Y.trn.npz"))
    words = (*CLASSIFIER, "--epochs", "1", "--seed", "0", "--seed", "1", "--out")
    outcome = call("task", "extreme-classification", *source, *test_part, *words, str(tmp_path / "apart"))
    assert outcome.code == 0, outcome.err
    assert "Read 40 rows" in outcome.err and "Over 2 seeds: test P@1" in outcome.out
    folder = ("extreme-classification", str(files), "--test", str(files))
    whole = call("task", *folder, *words, str(tmp_path / "folder"), "-q")
    assert whole.code == 0, whole.err
    assert results(tmp_path / "folder")["test"] == results(tmp_path / "apart")["test"]


# Words after the name of a task, with {in} for the folder of the files.
RECOMMENDING = {
    "two logs": ("{in}/log.tsv {in}/log.tsv", "must be one file of interactions"),
    "no log": ("{in}/nothing.tsv", "There is no file"),
    "no such split": ("{in}/log.tsv --set split=half", "'users', 'interactions', 'last'"),
    "no such encoder": ("{in}/log.tsv --set encoder=lstm", "must be one of 'sasrec', 'gru4rec', or a SequenceEncoder"),
    "lines in the wrong layout": ("{in}/log.tsv --layout users", "the user"),
    "too few interactions": ("{in}/log.tsv --min-interactions 99", "Lower --min-interactions"),
}
CLASSIFYING = {
    "two trainings": ("{in}/train.jsonl {in}/dev.jsonl", "must be one file to train on"),
    "labels of nothing": ("{in}/train.jsonl --test-labels {in}/Y.tst.npz", "--test-labels goes with --test"),
    "a matrix for texts": ("{in}/train.jsonl --test {in}/X.tst.npz", "must be like the training file"),
    "text settings of a matrix": (
        "{in}/X.trn.npz --labels {in}/Y.trn.npz --set-text min_df=2", "--set-text is for text"),
    "no such text setting": ("{in}/train.jsonl --set-text ngram=1,2", "Did you mean 'ngrams'"),
    "a matrix without labels": ("{in}/X.trn.npz", "give them with --labels Y.npz"),
    "more samples than classes": ("{in}/train.jsonl --sampler uniform --samples 100", "100"),
}  # fmt: skip
WRONG_OF_OTHERS = [("sequential-recommendation", *case) for case in RECOMMENDING.values()]
WRONG_OF_OTHERS += [("extreme-classification", *case) for case in CLASSIFYING.values()]


@pytest.mark.parametrize(("task", "words", "piece"), WRONG_OF_OTHERS)
def test_wrong_usage_of_the_others(task: str, words: str, piece: str, call: Any, files: Path, tmp_path: Path) -> None:
    typed = [word.replace("{in}", str(files)) for word in words.split()]
    outcome = call("task", task, *typed, "--out", str(tmp_path / "out"), "-q")
    assert outcome.code == 2 and "Traceback" not in outcome.err
    assert outcome.err.startswith("Error: ") and piece in outcome.err, outcome.err
    assert not (tmp_path / "out").exists()


CLASSES = ("--sampler", "uniform", "--set", "dim=8", "--set", "batch_size=16", "-q")
COLOURS = ("red", "green", "blue", "black", "white", "pink")


def write_texts(path: Path, first: str, n: int = 60) -> Path:
    """Rows of two words, each a label too; ``first`` marks the labels of this file."""
    rows = [(COLOURS[i % 6], COLOURS[(i // 6 + 1 + i) % 6]) for i in range(n)]
    lines = [json.dumps({"text": " ".join(row), "labels": [first + word for word in row]}) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def classify(call: Any, data: Path, out: Path, *more: str) -> Any:
    return call("task", "extreme-classification", str(data), *CLASSES, "--epochs", "1", "--out", str(out), *more)


@pytest.mark.parametrize("more", [("--samples", "100"), ("--samples", "3", "--epochs", "0")], ids=" ".join)
def test_what_is_refused_leaves_no_folder(more: tuple[str, ...], call: Any, tmp_path: Path) -> None:
    outcome = classify(call, write_texts(tmp_path / "a.jsonl", "A"), tmp_path / "out", *more)
    assert outcome.code == 2 and outcome.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seeds", [(), ("--seed", "3", "--seed", "4")], ids=["one", "several"])
def test_a_refused_resume_leaves_the_runs_labels_and_promises_nothing(
    seeds: tuple[str, ...], call: Any, tmp_path: Path
) -> None:
    out, more = tmp_path / "out", ("--samples", "3", *seeds)
    first, other = write_texts(tmp_path / "a.jsonl", "A"), write_texts(tmp_path / "b.jsonl", "B", 66)
    assert classify(call, first, out, *more).code == 0
    labels = list(sylvan.load(out / "labels"))
    for texts, wrong in ((other, ()), (other, ("--set", "learning_rate=0.5")), (first, ("--set", "learning_rate=0.5"))):
        outcome = classify(call, texts, out, *more, "--resume", *wrong)
        assert outcome.code == 2 and "of another training" in outcome.err
        assert "choose another folder, or remove it." in outcome.err and "with --resume goes on" not in outcome.err
        assert list(sylvan.load(out / "labels")) == labels
    assert classify(call, first, out, *more, "--resume", "--epochs", "2").code == 0
    assert classify(call, other, out, *more, "--no-resume").code == 0
    assert next(iter(sylvan.load(out / "labels"))).startswith("B")


def test_no_seed_is_trained_when_another_cannot_go_on(call: Any, tmp_path: Path) -> None:
    data, out = write_texts(tmp_path / "a.jsonl", "A"), tmp_path / "out"
    assert classify(call, data, out / "seed-2", "--samples", "4", "--seed", "2").code == 0
    outcome = classify(call, data, out, "--samples", "3", "--seed", "1", "--seed", "2", "--resume")
    assert outcome.code == 2 and "the setting 'n_samples' was 4 and is 3" in outcome.err
    assert not (out / "seed-1").exists() and not (out / "labels").exists()


def test_other_texts_of_the_same_size_are_no_training_to_go_on_with(call: Any, tmp_path: Path) -> None:
    data, out = write_texts(tmp_path / "a.jsonl", "A"), tmp_path / "out"
    assert classify(call, data, out, "--samples", "3").code == 0
    lines = data.read_text().splitlines()
    data.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")
    outcome = classify(call, data, out, "--samples", "3", "--resume", "--epochs", "2")
    assert outcome.code == 2 and "the setting 'data_checksum' was another" in outcome.err


def test_a_wrong_sampler_beside_the_full_softmax(call: Any, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "a.jsonl", "A")
    outcome = classify(call, data, tmp_path / "out", "--loss", "full", "--sampler", "nope")
    assert outcome.code == 2 and outcome.err.startswith("Error: There is no sampler 'nope'. The known ones are: ")
    assert not (tmp_path / "out").exists()


def test_a_small_set_needs_no_option(call: Any, tmp_path: Path) -> None:
    outcome = call(
        "task", "extreme-classification", str(write_texts(tmp_path / "a.jsonl", "A")), "--epochs", "1",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    settings = json.loads((tmp_path / "out" / "results.json").read_text())["settings"]
    assert settings["n_samples"] == 3 and settings["sampler"] == "midx-aware-rq"
    assert settings["loss"] == "head-and-tail"


def test_the_warning_of_adam_is_a_sentence(call: Any, tmp_path: Path) -> None:
    data = write_texts(tmp_path / "a.jsonl", "A")
    outcome = classify(call, data, tmp_path / "out", "--set", "optimizer=adam")
    assert outcome.code == 0
    assert outcome.err.startswith("Warning: SparseAdam trains the class table of a sampled loss.")
    assert outcome.err.count("\n") == 1 and ".py" not in outcome.err


def test_the_help_has_the_default_of_the_schedule(call: Any) -> None:
    text = " ".join(call("task", "language-model", "--help").out.split())
    for n in (10_000, 1_000_000):
        assert f"{RefreshSchedule.for_classes(n).every} with {n:,} classes" in text
