"""``sylvan task``: a language model from files to results, resuming, several seeds, and wrong usage."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import python
from task_results import results

from sylvan.cli import task_runs
from sylvan.cli.task import TASKS

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
    assert lines[1].startswith("Epoch 1: loss ") and "validation perplexity" in lines[1]
    assert lines[3].startswith("Best in epoch") and "test perplexity" in lines[3]
    assert lines[4].startswith(f"Wrote {out / 'results.json'}. convergence.png")
    written = results(out)
    assert written["stopped"] == "epochs" and written["settings"]["sampler"] == "uniform"
    assert (out / "convergence.png").exists() and (out / "convergence.svg").exists()


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


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sylvan task lang", ["plain,language-model"]),
        ("sylvan task language-model --set emb", ["plain,embedding=", "plain,embedding_learning_rate="]),
        ("sylvan task language-model --sampler midx-r", ["plain,midx-rq"]),
        ("sylvan task language-model --loss nc", ["plain,nce"]),
        ("sylvan task language-model --loss beam", ["plain,beam-tree"]),
        ("sylvan task language-model texts --out ru", ["dir,ru"]),
    ],
)
def test_completion(line: str, expected: list[str], call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    monkeypatch.setenv("_SYLVAN_COMPLETE", "bash_complete")
    assert call().out.split() == expected


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
