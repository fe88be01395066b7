"""``sylvan task sequential-recommendation`` and ``extreme-classification``: from files to results, and wrong usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises
from task_results import results

import sylvan
from sylvan import data, metrics
from sylvan.errors import ModelError
from sylvan.neural import load_best
from sylvan.tasks import ExtremeClassification

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
WRONG = [("sequential-recommendation", *case) for case in RECOMMENDING.values()]
WRONG += [("extreme-classification", *case) for case in CLASSIFYING.values()]


@pytest.mark.parametrize(("task", "words", "piece"), WRONG)
def test_wrong_usage(task: str, words: str, piece: str, call: Any, files: Path, tmp_path: Path) -> None:
    typed = [word.replace("{in}", str(files)) for word in words.split()]
    outcome = call("task", task, *typed, "--out", str(tmp_path / "out"), "-q")
    assert outcome.code == 2 and "Traceback" not in outcome.err
    assert outcome.err.startswith("Error: ") and piece in outcome.err, outcome.err
    assert not (tmp_path / "out").exists()
