"""Sylvan beside its peers: what a busy machine leaves out, contenders that are added, and LibMultiLabel's runner."""

import argparse
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

from benchmarks.linear import peers
from benchmarks.linear.file_contenders import CONTENDERS
from benchmarks.linear.libmultilabel_models import BATCH
from benchmarks.report.more_peers import more_peers_sections

N_LABELS = 12


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """Sixty rows whose only feature is that of their label."""
    folder, labels = tmp_path / "set", np.arange(60) % N_LABELS
    folder.mkdir()
    matrix = sp.csr_matrix((np.ones(60, dtype=np.float32), (np.arange(60), labels)), shape=(60, N_LABELS))
    for name in ("X.trn", "X.tst", "Y.trn", "Y.tst"):
        sp.save_npz(folder / f"{name}.npz", matrix)
    return folder


def asked(results: Path, **more: Any) -> argparse.Namespace:
    usual = {"steps": "train,rank", "repeats": 1, "threads": "1", "single": 4, "rounds": 1, "timeout": 600.0}
    return argparse.Namespace(**usual | {"busy": True, "add": True, "results": str(results)} | more)


def measured(folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    found = {"python": sys.executable, "version": "1.2.3"}
    peers.measure_set("small", folder, {name: found}, options)
    return dict(json.loads(peers.path_of("small", options).read_text()))


def test_a_busy_machine_leaves_the_clock_out_and_adds_contenders(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, figures = peers.run, dict[str, Any]()

    def once(python: str, job: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Each step in a process once; the same figures for whoever takes it again."""
        if job["step"] not in figures:
            figures[job["step"]] = run(python, job, timeout)
        return dict(figures[job["step"]])

    monkeypatch.setattr(peers, "run", once)
    first = measured(prepared, "sylvan", asked(tmp_path))
    both = measured(prepared, "sylvan-fast", asked(tmp_path))
    assert both["contenders"].keys() == {"sylvan", "sylvan-fast"}
    assert both["contenders"]["sylvan"] == first["contenders"]["sylvan"]
    steps = both["contenders"]["sylvan-fast"]["median"]
    assert steps["train 1"].keys() == {"cpu_s", "before_mb", "peak_mb", "model_mb"}
    assert not set(peers.WALL) & steps["rank 1"].keys() and steps["rank 1"]["P@1"] == 100
    assert steps["rank 1"]["cpu_mean_ms"] > 0 and steps["rank 1"]["cpu_ms_per_row"] > 0
    alone = measured(prepared, "sylvan-fast", asked(tmp_path, busy=False, add=False, steps="train"))
    assert "wall_s" in alone["contenders"]["sylvan-fast"]["median"]["train 1"]
    assert {path.name for path in tmp_path.glob("*.json")} == {"more-peers-small.json", "peers-small.json"}


def test_another_processor_is_not_added_to(tmp_path: Path) -> None:
    options = asked(tmp_path)
    path = peers.path_of("small", options)
    path.write_text(json.dumps({"machine": {"cpu": "abacus"}, "contenders": {"sylvan": {}}}))
    with raises(SystemExit, "more-peers-small.json", "--add"):
        peers.earlier(path, options)
    assert peers.earlier(path, asked(tmp_path, add=False)) == {}


class OfRows:
    """Stands in for a model of LibMultiLabel: the scores of a row are its features."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def predict_values(self, rows: Any, beam_width: int = 10) -> Any:
        assert rows.dtype == np.float64  # which liblinear computes with
        self.sizes.append(rows.shape[0])
        return rows.toarray()


@pytest.mark.parametrize("name", ["libmultilabel", "libmultilabel-flat"])
def test_libmultilabel_ranks_in_its_own_batches(
    name: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, called = OfRows(), []

    def trained(kind: str) -> Any:
        return lambda Y, X, verbose: called.append((kind, Y.shape, X.dtype, verbose)) or model

    linear = types.SimpleNamespace(
        train_tree=trained("libmultilabel"),
        train_1vsrest=trained("libmultilabel-flat"),
        get_topk_labels=lambda scores, labels, k: (labels[np.argsort(-scores, axis=1)[:, :k]], None),
    )
    monkeypatch.setitem(sys.modules, "libmultilabel", types.SimpleNamespace(linear=linear))
    cores: list[Any] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, some: cores.append(list(some)), raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 3, 4}, raising=False)
    contender = CONTENDERS[name]()
    contender.load_imports()
    contender.prepare(prepared, tmp_path)
    contender.train(2)
    assert called == [(name, (60, N_LABELS), np.float64, False)] and cores == [[3, 4]]

    n = BATCH + 3
    X = sp.csr_matrix((np.ones(n, dtype=np.float32), (np.arange(n), np.arange(n) % N_LABELS)), shape=(n, N_LABELS))
    answer = contender.top(contender.rank_all(contender.queries(X)))
    assert model.sizes == [BATCH, 3] and answer.dtype == np.int64
    assert np.array_equal(answer[:, 0], np.arange(n) % N_LABELS)
    assert contender.rank_one(contender.rows(X[5:6])[0])[0, 0] == 5


def test_the_table_says_where_sylvan_is_behind(tmp_path: Path) -> None:
    train = {"cpu_s": 2.0, "peak_mb": 100.0, "model_mb": 8.0}
    rank = {"cpu_ms_per_row": 0.5, "cpu_mean_ms": 0.6, "P@1": 60.0, "P@3": 40.0, "P@5": 30.0}
    ahead = {"train 1": {**train, "cpu_s": 1.5}, "rank 1": {**rank, "P@3": 41.5, "P@1": 59.0}}
    failed = {"train 1": {"error": "exit 1: no room"}}
    contenders = {
        "libmultilabel": {"version": "0.10.0", "median": failed},
        "napkinxc": {"version": "0.7.2", "median": ahead},
        "napkinxc-default": {"missing": True},
        "sylvan": {"version": "0.1.0", "median": {"train 1": train, "rank 1": rank}},
    }
    record = {"set": "small", "date": "2026-01-02", "machine": {"cpu": "abacus", "cores": 2}, "contenders": contenders}
    path = tmp_path / "more-peers-small.json"
    path.write_text(json.dumps(record))
    lines = more_peers_sections(tmp_path)
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert rows[0] == "| Sylvan 0.1.0 | 2.00 | 100 | 8.0 | 0.5000 | 0.6000 | 60.00 | 40.00 | 30.00 |"
    assert rows[1].startswith("| napkinXC 0.7.2 | 1.50 |") and "napkinXC, its defaults | not installed |" in rows[2]
    assert rows[3].startswith("| LibMultiLabel, tree 0.10.0 | failed (exit 1: no room) | – |")
    assert lines[-1] == (
        "Sylvan's defaults are **behind** in training, CPU-s (napkinXC, 1.50 beside 2.00); P@3 (napkinXC, 41.50 beside "
        "40.00)."
    )
    contenders["napkinxc"]["median"] = {"train 1": train, "rank 1": rank}  # as good isn't ahead
    path.write_text(json.dumps(record))
    assert more_peers_sections(tmp_path)[-1].startswith("No other library is ahead")
    del contenders["sylvan"]
    path.write_text(json.dumps(record))
    assert more_peers_sections(tmp_path)[-1] == "Sylvan itself wasn't measured."
    assert more_peers_sections(tmp_path / "nowhere") == []
