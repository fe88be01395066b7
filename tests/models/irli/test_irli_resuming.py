"""IRLI's checkpoint: what later rounds don't need is deleted, and a kill at any point costs time alone."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("torch")

from sylvan.models.irli.buckets import Buckets
from sylvan.models.irli.learning import LearnedPartitions, learn_partitions
from sylvan.models.irli.rounds import LearningSettings
from sylvan.runtime import Checkpoint, checkpointed, opened_runner
from sylvan.runtime.groups import block_names

N_GROUPS = 2  # two networks of 300 hidden values don't fit into one group
SETTINGS: dict[str, Any] = {
    "n_buckets": 6, "n_repetitions": N_GROUPS, "hidden": 300, "choices": 2, "epochs_per_round": 1, "final_epochs": 1,
    "batch_size": 64, "dropout": 0.1,
}  # fmt: skip
SCORES = (0.1, 0.3, 0.2, 0.25, 0.5)  # the best round is the first, then round 1 for long, at last the last


class Killed(BaseException):
    """Nothing is written or deleted any more."""


def judge(buckets: Buckets, network: Any) -> dict[str, float]:
    """A score that depends on the partitions alone, as a judge's does."""
    return {"score": float(np.round(buckets.load_deviation().sum() % 0.01, 6))}


def learn(checkpoint: Checkpoint | None = None, n_jobs: int = 1, rounds: int = 4, **options: Any) -> LearnedPartitions:
    random = np.random.default_rng(0)
    X = random.standard_normal((90, 5)).astype(np.float32)
    truths = sp.csr_matrix((random.random((90, 30)) < 0.1).astype(np.float32))
    with opened_runner(n_jobs, checkpoint=checkpoint) as runner:
        settings = LearningSettings(**SETTINGS, rounds=rounds)
        return learn_partitions(X, truths, settings, runner=runner, **{"judge": judge, **options})


def outcome(learned: LearnedPartitions) -> Any:
    arrays = {**learned.buckets.arrays(), **learned.network.arrays()}
    rounds = [
        (one.moved, one.affinity_before, one.affinity_after, one.loss, one.holdout) for one in learned.record.rounds
    ]
    return [array.tobytes() for array in arrays.values()], rounds, learned.record.best


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every result is written as soon as it is there, if not to the disk itself, which takes its time."""
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda file: None)


def networks_in(folder: Path) -> list[str]:
    """The rounds whose networks are stored."""
    checkpoint = Checkpoint(folder)
    checkpoint._begun = True
    states = [checkpoint.read(block) for block in checkpoint.names("block")]
    names = [name for state in states if state is not None for name in block_names(state)]
    return sorted({name.split(".")[0] for name in names if ".group" in name})


def killed_at(monkeypatch: pytest.MonkeyPatch, least: int, partly: bool = False) -> list[str]:
    """From the ``least``-th change of the folder on nothing happens any more; of a deletion the first file goes, if
    ``partly``. Gives what the changes are."""
    write, drop, changes = Checkpoint.write, Checkpoint.drop, list[str]()

    def step(change: str) -> bool:
        changes.append(change)
        if len(changes) > least:
            raise Killed
        return len(changes) == least

    def dying_write(self: Checkpoint, name: str, state: Any) -> None:
        step("write")
        write(self, name, state)

    def dying_drop(self: Checkpoint, name: str) -> None:
        if step("drop") and partly:
            sorted((self.folder / name).iterdir())[0].unlink()
            raise Killed
        drop(self, name)

    monkeypatch.setattr(Checkpoint, "write", dying_write)
    monkeypatch.setattr(Checkpoint, "drop", dying_drop)
    return changes


def test_a_kill_between_any_two_changes_of_the_folder_costs_time_alone(tmp_path: Path) -> None:
    once = outcome(learn(rounds=2))
    with pytest.MonkeyPatch.context() as counting:
        changes = killed_at(counting, 1000)
        assert outcome(learn(Checkpoint(tmp_path / "whole"), rounds=2)) == once
    assert changes.count("write") >= 9 and changes.count("drop") >= 5, "three writes and two deletions a round"
    within = [least for least, change in enumerate(changes, 1) if change == "drop"]
    for least, partly in [*((least, False) for least in range(len(changes))), *((least, True) for least in within)]:
        folder = tmp_path / f"killed{least}{partly}"
        with pytest.MonkeyPatch.context() as killing, pytest.raises(Killed):
            killed_at(killing, least, partly)
            learn(Checkpoint(folder), rounds=2)
        assert outcome(learn(Checkpoint(folder), n_jobs=2, rounds=2)) == once, (least, partly)


def test_only_networks_that_are_needed_are_stored(tmp_path: Path) -> None:
    scores, seen, folder = iter(SCORES), [], tmp_path / "work"

    def scored(buckets: Buckets, network: Any) -> dict[str, float]:
        seen.append(networks_in(folder))
        return {"score": next(scores)}

    learned = learn(Checkpoint(folder), judge=scored)
    assert learned.record.best == 4
    # While a round is judged: its networks, those that it went on from, and the best ones so far.
    assert seen == [["round0"], ["round0", "round1"], ["round1", "round2"], ["round1", "round2", "round3"],
                    ["round1", "round3", "round4"]]  # fmt: skip
    assert networks_in(folder) == ["final", "round4"]
    again = learn(Checkpoint(folder), judge=None)  # all of it is there: neither trained nor judged again
    assert outcome(again) == outcome(learned)


def test_what_waits_to_be_written_is_let_go_of_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointed, "SECONDS", 1000.0)
    sizes: list[int] = []
    forget = checkpointed.Checkpointed.forget

    def noting(self: Any, names: Any) -> None:
        forget(self, names)
        sizes.append(self._bytes)
        assert self._bytes == sum(checkpointed._size(arrays) for arrays in self._waiting.values())

    monkeypatch.setattr(checkpointed.Checkpointed, "forget", noting)
    scores = iter(SCORES)
    learn(Checkpoint(tmp_path / "work"), judge=lambda buckets, network: {"score": next(scores)})
    assert len(sizes) == 5 and max(sizes) < 2.5 * sizes[0]
    assert not (tmp_path / "work").exists()
