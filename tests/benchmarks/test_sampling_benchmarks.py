"""What benchmarks.sampling plans and makes of finished rows, and what it does beside training."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.sampling import cane_tables, large_text, trainings, variance
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
