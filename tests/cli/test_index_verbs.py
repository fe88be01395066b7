"""``sylvan index`` and ``sylvan search``: from files of vectors to files of neighbours."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.errors import raises
from processes import start
from waiting import PATIENCE, group_seconds, until

import sylvan
from sylvan import data
from sylvan.models.irli import shards
from sylvan.models.irli.vectors import exact_neighbors
from sylvan.runtime import checkpointed
from sylvan.runtime.checkpoint import Checkpoint

BASE = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
QUERIES = BASE[:20] + np.float32(0.01)
QUICK = [
    word
    for setting in ("n_buckets=8", "n_repetitions=3", "hidden=16", "choices=3", "rounds=1", "epochs_per_round=1")
    for word in ("--set", setting)
] + ["--set", "partition=learned"]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    np.save(folder / "base.npy", BASE)
    np.savez(folder / "base.npz", vectors=BASE.astype(np.float64))
    sp.save_npz(folder / "sparse.npz", sp.csr_matrix(BASE))
    np.savez(folder / "two.npz", a=BASE, b=BASE)
    np.save(folder / "queries.npy", QUERIES.astype(np.float16))
    np.save(folder / "narrow.npy", QUERIES[:, :4])
    np.save(folder / "nearest.npy", exact_neighbors(QUERIES, BASE, 12, "euclidean")[0])
    np.save(folder / "words.npy", np.array(["a", "b"]))
    return folder


@pytest.fixture(scope="module")
def index(vectors: Path) -> str:
    from sylvan.cli import main

    folder = str(vectors / "index")
    assert main(["index", str(vectors / "base.npy"), "--index", folder, "-q", "--threads", "1", *QUICK]) == 0
    return folder


def test_an_index_from_the_command_line(index: str, vectors: Path, call: Any, tmp_path: Path) -> None:
    queries = str(vectors / "queries.npy")
    outcome = call("search", index, queries, "-k", "3", "--probes", "8", "--counts")
    assert outcome.code == 0, outcome.err
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    loaded = sylvan.load(index)
    ids, distances = loaded.search(QUERIES.astype(np.float16), 3, probes=8)
    assert [line["ids"] for line in lines] == ids.tolist()
    np.testing.assert_allclose([line["distances"] for line in lines], distances, rtol=1e-5)
    assert all(line["candidates"] == 200 for line in lines)
    for name, options in (("ids.npy", []), ("both.npz", ["--counts"])):
        target = str(tmp_path / name)
        outcome = call("search", index, queries, "-k", "3", "--candidates", "20", "-o", target, *options)
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    expected = loaded.search(QUERIES.astype(np.float16), 3, candidates=20, return_counts=True)
    np.testing.assert_array_equal(np.load(tmp_path / "ids.npy"), expected[0])
    with np.load(tmp_path / "both.npz") as both:
        for found, array in zip(("ids", "distances", "candidates"), expected, strict=True):
            np.testing.assert_array_equal(both[found], array)


def test_rows_with_fewer_answers_are_shorter(index: str, vectors: Path, call: Any) -> None:
    outcome = call("search", index, str(vectors / "queries.npy"), "-k", "300", "--probes", "8", "--candidates", "all")
    assert {len(json.loads(line)["ids"]) for line in outcome.out.splitlines()} == {200}


def test_files_of_every_form_give_the_same_index(index: str, vectors: Path, call: Any, tmp_path: Path) -> None:
    expected = sylvan.load(index).search(QUERIES, 4)
    for name in ("base.npz", "sparse.npz"):
        folder = str(tmp_path / name)
        assert call("index", str(vectors / name), "--index", folder, "-q", *QUICK).code == 0
        for a, b in zip(sylvan.load(folder).search(QUERIES, 4), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_all_options_together(vectors: Path, call: Any, tmp_path: Path) -> None:
    folder, figure = str(tmp_path / "index"), tmp_path / "report.svg"
    outcome = call(
        "index", str(vectors / "base.npy"), "--index", folder, "--metric", "angular", "--seed", "3", *QUICK,
        "--queries", str(vectors / "queries.npy"), "--neighbors", str(vectors / "nearest.npy"),
        "--recall", "0.9", "--tune-on", str(vectors / "queries.npy"), "--figure", str(figure),
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(f"Read 200 vectors of 6 dimensions from {vectors / 'base.npy'}.\nIndexed them in ")
    assert re.search(r" s\.\nprobes=\d+, .*: recall [01]\.", outcome.out)
    assert f"Saved it in {folder}" in outcome.out and "standard deviation" in outcome.out
    assert figure.read_text().startswith("<?xml")
    loaded = sylvan.load(folder)
    assert (loaded.metric, loaded.seed) == ("angular", 3)
    shown = call("inspect", folder)
    assert shown.code == 0 and "200" in shown.out and "vectors in learned buckets" in shown.out


def test_shards(vectors: Path, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; test_an_interrupted_training_writes_nothing has a process for each."""
    monkeypatch.setitem(shards.EXECUTORS, "processes", shards.SerialExecutor)  # type: ignore[arg-type]
    folder, figure = str(tmp_path / "index"), tmp_path / "report.png"
    words = ["index", str(vectors / "base.npy"), "--index", folder, "--shards", "2", *QUICK, "--recall", "0.8"]
    outcome = call(*words, "--figure", str(figure))
    assert outcome.code == 0, outcome.err
    assert "Shard 1: probes=" in outcome.out
    assert (tmp_path / "report-0.png").exists() and (tmp_path / "report-1.png").exists()
    found = call("search", folder, str(vectors / "queries.npy"), "-k", "1", "--probes", "8", "--candidates", "all")
    assert [json.loads(line)["ids"] for line in found.out.splitlines()] == [[i] for i in range(20)]


WRONG = {
    "no index named": ("index {base.npy}", "Missing option '--index'"),
    "no file": ("index {nowhere.npy} --index {out}", "There is no file"),
    "two arrays": ("index {two.npz} --index {out}", "must hold one array"),
    "words": ("index {words.npy} --index {out}", "words.npy"),
    "unknown parameter": ("index {base.npy} --index {out} --set buckets=3", "Did you mean 'n_buckets'"),
    "unknown metric": ("index {base.npy} --index {out} --metric cosine", "'metric' parameter of IRLIIndex"),
    "neighbours alone": ("index {base.npy} --index {out} --neighbors {nearest.npy}", "--neighbors is for --queries"),
    "nothing to tune for": ("index {base.npy} --index {out} --tune-on {queries.npy}", "--tune-on is for --recall"),
    "recall beyond 1": ("index {base.npy} --index {out} --recall 2", "--recall must be a number in"),
    "figure in words": ("index {base.npy} --index {out} --figure report.txt", "--figure takes a"),
    "shards beyond reason": ("index {base.npy} --index {out} --shards 999999", "'n_shards' parameter"),
    "queries too narrow": ("index {base.npy} --index {out} --queries {narrow.npy}", "queries has 4 dimensions"),
    "somebody's folder": ("index {base.npy} --index {.}", "is not a Sylvan model"),
    "no index": ("search {nowhere} {queries.npy}", "no such folder"),
    "no queries": ("search {index} {nowhere.npy}", "There is no file"),
    "narrow queries": ("search {index} {narrow.npy}", "queries has 4 dimensions, but the index has vectors of 6"),
    "k of 0": ("search {index} {queries.npy} -k 0", "'-k'"),
    "probes of 0": ("search {index} {queries.npy} --probes 0", "--probes must be an int"),
    "votes of many": ("search {index} {queries.npy} --min-votes 4", "--min-votes must be an int"),
    "candidates in words": ("search {index} {queries.npy} --candidates few", "--candidates takes an int or all"),
    "order by name": ("search {index} {queries.npy} --order name", "'--order'"),
    "predict with an index": ("predict {index} {base.npy}", "no model that ranks labels"),
    "nowhere to write": ("search {index} {queries.npy} -o {nowhere/out.npy}", "can't be written"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage(case: str, index: str, vectors: Path, call: Any, tmp_path: Path) -> None:
    line, piece = WRONG[case]

    def place(found: re.Match[str]) -> str:
        return str(tmp_path / "out" if found[1] == "out" else vectors / found[1])

    outcome = call(*(re.sub(r"\{([^}]*)\}", place, word) for word in line.split()))
    assert outcome.code == 2, outcome
    assert outcome.err.startswith("Error: ") and outcome.err.count("\n") == 1 and piece in outcome.err, outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_configuration_file(vectors: Path, call: Any, tmp_path: Path) -> None:
    config = tmp_path / "titles.toml"
    parameters = "n_buckets = 8\nn_repetitions = 3\nhidden = 16\nchoices = 3\nrounds = 0\nepochs_per_round = 1\n"
    parameters += "partition = 'learned'\n"
    config.write_text(f'[options]\nindex = "{(tmp_path / "index").as_posix()}"\n[parameters]\n{parameters}')
    outcome = call("index", str(vectors / "base.npy"), "--config", str(config), "--set", "n_repetitions=2")
    assert outcome.code == 0, outcome.err
    made = sylvan.load(tmp_path / "index")
    assert (made.n_buckets, made.n_repetitions) == (8, 2)
    config.write_text('[parameters]\nbuckets = 8\n[text]\nngrams = [1, 2]\n[options]\nfolder = "x"\n')
    outcome = call("index", str(vectors / "base.npy"), "--index", str(tmp_path / "b"), "--config", str(config))
    assert outcome.code == 2
    for piece in ("no option 'folder'", "Did you mean 'n_buckets'", "A [text] table is for 'sylvan train'"):
        assert piece in outcome.err, outcome.err


def test_an_interrupted_index_is_resumed(
    vectors: Path, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("index", str(vectors / "base.npy"), "--index", str(tmp_path / "index"), "--threads", "1", *QUICK)
    assert call(*words, "--resume").out.startswith("Read 200 vectors")
    once = bits(sylvan.load(tmp_path / "index"))
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    write = Checkpoint.write

    def dying(self: Checkpoint, name: str, state: Any) -> None:
        write(self, name, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write", dying)
        stopped = call(*words)
    work = tmp_path / "index.training"
    assert stopped.code == 1 and f"lies in {str(work)!r}: the same command with --resume" in stopped.err, stopped.err
    refused = call(*words)
    assert refused.code == 2 and "--resume goes on with it, --no-resume starts over" in refused.err
    assert call(*words, "--resume").code == 0 and not work.exists()
    assert bits(sylvan.load(tmp_path / "index")) == once
    refused = call(*words, "--shards", "2", "--resume")
    assert refused.code == 2 and "--resume is not for ShardedIRLIIndex" in refused.err


def test_a_search_in_what_is_no_index(files: Any, vectors: Path, call: Any) -> None:
    outcome = call("search", files.matrix_model, str(vectors / "queries.npy"))
    assert outcome.code == 2 and "which is no index of vectors" in outcome.err


def test_help_shows_examples_and_parameters(call: Any) -> None:
    shown = call("index", "--help").out
    assert "sylvan index base.npy --index runs/titles" in shown and "n_buckets=auto" in shown
    assert "sylvan search runs/titles queries.npy -k 5" in call("search", "--help").out


def test_numbers_from_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "ids.npz", ids=np.arange(3))
    assert data.load_numbers(tmp_path / "ids.npz").dtype == np.int64
    np.save(tmp_path / "words.npy", np.array(["a"]))
    with raises(sylvan.SylvanError, "words.npy"):
        data.load_numbers(tmp_path / "words.npy")


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_an_interrupted_training_writes_nothing(vectors: Path, tmp_path: Path) -> None:
    long = ("--set", "partition=learned", "--set", "epochs_per_round=10000", "--set", "batch_size=1", "--shards", "2")
    process = start("index", str(vectors / "base.npy"), "--index", str(tmp_path / "index"), *long)
    assert process.stdout is not None and process.stdout.readline().startswith(b"Read 200 vectors")
    last = group_seconds(process.pid) + 3  # of its shards too, which are processes
    until(lambda: process.poll() is not None or group_seconds(process.pid) > last, "it doesn't work")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and b"Traceback" not in err
    assert err.strip().splitlines()[-1] == b"Interrupted; nothing was written."  # after PyTorch's words, if any
    assert list(tmp_path.iterdir()) == []
