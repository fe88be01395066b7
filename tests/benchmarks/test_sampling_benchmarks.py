"""What benchmarks.sampling plans and makes of finished rows, and what it does beside training."""

from __future__ import annotations

import argparse
import json
import lzma
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from child_processes import exit_code, forked

from benchmarks.common import records
from benchmarks.sampling import (
    cane_epochs,
    cane_tables,
    codeword_learning,
    contenders,
    figures,
    large_text,
    trainings,
    variance,
)
from sylvan.neural import LSTMEncoder
from sylvan.sampling import HeadAndTailLoss, make_tail_sampler


def run(contender: str, seed: int, *values: float, coverage: float | None = None) -> dict[str, Any]:
    return {
        "task": "language-model", "set": "ptb", "model": "lstm", "hidden": 64, "embedding": 64, "n_layers": 1,
        "batch_size": 40, "contender": contender, "seed": seed, "table_learning_rate": 0.4, "tuned": 100,
        "epochs": len(values), "curve": [{"epoch": at + 1, "perplexity": value} for at, value in enumerate(values)],
        "test": values[-1] - 5, "coverage": coverage,
    }  # fmt: skip


def test_a_longer_training_takes_the_place_of_a_shorter_one(tmp_path: Path) -> None:
    runs = [
        run("nce-40", 0, 160.0, 150.0), run("nce-40", 0, 160.0, 150.0, 140.0), run("nce-40", 1, 162.0, 152.0, 142.0),
        run("full", 0, 150.0, 130.0), run("cane-tree-40", 0, 180.0, coverage=0.6),
    ]  # fmt: skip
    lines = cane_tables.epochs_table(runs)
    assert lines[3] == "| full softmax, chunked | 0.4 | 1 | 150.0 | 130.0 | – | 125.0 | – |"
    assert lines[4] == "| NCE, 40 unigram | 0.4 | 2 | 161.0 ± 1.4 | 151.0 ± 1.4 | 141.0 ± 1.4 | 136.0 ± 1.4 | – |"
    assert lines[5].endswith("| 0.4 | 1 | 180.0 | – | – | 175.0 | 0.60 |") and len(lines) == 6
    assert cane_tables.epochs_section(tmp_path) == []
    about = {"date": "2020-02-02", "machine": {"cpu": "a processor", "cores": 2}}
    (tmp_path / "cane_epochs.json").write_text(json.dumps({**about, "runs": runs}))
    section = cane_tables.epochs_section(tmp_path)
    assert lines[4] in section and "after 100 steps" in " ".join(section) and section[-1].startswith("a processor")
    runs.append(run("blackout-40", 0, 160.0, 144.0))
    (tmp_path / "cane_epochs.json").write_text(json.dumps({**about, "runs": runs}))
    assert "one uniform noise, it isn't: +28.7% compared with the better perplexity of these two, +40.0%" in " ".join(
        cane_tables.epochs_section(tmp_path)
    )
    pytest.importorskip("matplotlib")
    assert [path.suffix for path in cane_tables.draw(runs, tmp_path)] == [".svg"]


def test_rows_are_there_with_as_many_epochs(tmp_path: Path) -> None:
    rows = cane_epochs.planned(argparse.Namespace(seeds=[0, 1], contenders=["nce-40", "full"]))
    assert [(row["contender"], row["seed"]) for row in rows] == [("nce-40", 0), ("full", 0), ("nce-40", 1), ("full", 1)]
    (tmp_path / "book.json").write_text(json.dumps({"runs": [run("nce-40", 0, 3.0, 2.0), run("nce-40", 0, 3.0)]}))
    book = records.Book(tmp_path / "book.json")
    assert [cane_epochs.longest(row, book) for row in rows] == [2, 0, 0, 0]
    with pytest.raises(SystemExit):
        cane_epochs.command_line(["--contenders", "nce-4"])


def test_every_contender_can_be_drawn() -> None:
    planned = {name for plan in contenders.PLANS.values() for name in plan["contenders"]}
    assert planned <= set(contenders.CONTENDERS) and set(contenders.CONTENDERS) == set(figures.COLOURS)


def test_a_large_text_knows_its_most_frequent_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_text, "N_WORDS", 4)
    monkeypatch.setattr(large_text, "OTHERS", 1)
    (tmp_path / "gutenberg").mkdir()
    for part, titles in (("train", ["The Whale, or the whale", "A whale"]), ("test", ["The Sea", "Whale", "More"])):
        with lzma.open(tmp_path / "gutenberg" / f"{part}.jsonl.xz", "wt") as lines:
            lines.writelines(json.dumps({"title": title, "labels": ["x"]}) + "\n" for title in titles)
    folder = large_text.prepare(tmp_path, tmp_path / "cache")
    assert (folder / "train.txt").read_text() == "the whale <unk> <unk> the whale\n<unk> whale\n"
    assert [(folder / f"{part}.txt").read_text() for part in ("valid", "test")] == ["the <unk>\n", "whale\n"]


def test_errors_of_gradients_are_their_scatter_and_their_bias() -> None:
    torch.manual_seed(0)
    table, queries, targets = torch.randn(60, 8), torch.randn(30, 8), torch.randint(60, (30,))
    loss = HeadAndTailLoss(make_tail_sampler("unigram", 60, counts=range(60, 0, -1), n_head=20), 10)
    found = variance.scatter(loss, queries, (queries, targets), table, 200)
    assert found["gradient_error"] ** 2 == pytest.approx(
        found["gradient_deviation"] ** 2 + found["gradient_bias"] ** 2, rel=1e-2
    )
    full = torch.nn.functional.cross_entropy(queries @ table.t(), targets)
    assert found["full"] == pytest.approx(float(full), abs=1e-3)
    assert all(found[name] > 0 for name in ("gradient_bias", "gradient_deviation", "loss_deviation"))


@pytest.mark.skipif(os.name == "nt", reason="locks of a POSIX system")
def test_a_run_is_free_again_when_its_process_was_killed(tmp_path: Path) -> None:
    from benchmarks.sampling import cane

    lock = tmp_path / "run.lock"

    def work() -> None:
        with cane.claimed(lock) as free:
            os.kill(os.getpid(), signal.SIGKILL if free else signal.SIGTERM)

    assert exit_code(forked(work)) == -signal.SIGKILL
    with cane.claimed(lock) as free, cane.claimed(lock) as again:
        assert free and not again


def test_adagrad_trains_the_words_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, list[Any]] = {}
    for name in ("Adam", "Adagrad"):
        kind = getattr(torch.optim, name)

        def make(parameters: Any, name: str = name, kind: Any = kind, **more: Any) -> Any:
            given[name] = list(parameters)
            return kind(given[name], **more)

        monkeypatch.setattr(torch.optim, name, make)
    encoder, table = LSTMEncoder(30, 6, 5), torch.nn.Parameter(torch.randn(30, 5))
    codeword_learning.train(encoder, table, torch.arange(30).repeat(40), steps=1)
    assert [id(one) for one in given["Adagrad"]] == [id(encoder.inputs.weight), id(table)]
    assert len(given["Adam"]) == len(list(encoder.parameters())) - 1


def test_neighbours_that_occur_together_are_one_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(large_text.PHRASES, "eurlex-phrases-100k", ((2,), 6))
    monkeypatch.setattr(large_text, "EXCERPTS", {"validation": (1, 2), "test": (2, 9)})
    (tmp_path / "eurlex57k").mkdir()
    texts = {
        "train": ["the board , the board , the board of the east", "the board"],
        "dev": ["seas the board of the east", "x"], "test": ["of", "the board"],
    }  # fmt: skip
    for part, rows in texts.items():
        with lzma.open(tmp_path / "eurlex57k" / f"{part}.jsonl.xz", "wt") as lines:
            lines.writelines(json.dumps({"text": text, "labels": ["x"]}) + "\n" for text in rows)
    corpus = large_text.corpus_of("eurlex-phrases-100k", tmp_path, tmp_path / "cache")
    assert corpus.words[0] == "<eos>" and len(corpus.words) == 6
    # Of overlapping pairs every second is joined: "the board", ", the", "board ,", "the board". 0 ends a text, 1 is
    # what the six don't have.
    assert corpus.train.tolist() == [2, 1, 1, 2, 4, 3, 5, 0, 2, 0]
    assert corpus.validation.tolist() == [4, 3] and corpus.test.tolist() == [4, 0, 2, 0]


def test_a_training_by_the_second_ends_at_its_last_mark() -> None:
    from sylvan.tasks import LanguageModel
    from sylvan.tasks.language_model import build_corpus

    text = [["the", "cat", "sat"], ["the", "dog", "ran"]] * 40
    job = LanguageModel(build_corpus(text, text[:4], text[:4]), embedding=8, hidden=8, length=5, batch_size=4)
    n_steps, order, given = job.steps_per_epoch(), job.batches, list[int]()

    def counted(epoch: int) -> Iterator[Any]:
        for batch in order(epoch):
            given.append(epoch)
            yield batch

    job.batches = counted
    run = {"marks": [n_steps, 3 * n_steps], "seed": 0}
    _, history, seconds = trainings._trained_until(job, run, lambda: float(len(given)))
    first, last = history.epochs
    assert (first["step"], last["step"], seconds) == (n_steps - 1, 3 * n_steps - 1, 3 * n_steps)
    assert set(given) == {0, 1, 2} and last["perplexity"] < 3 < first["perplexity"] and history.test["perplexity"] < 3
