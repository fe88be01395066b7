"""``sylvan index`` and ``sylvan search``: from files of vectors to files of neighbours."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from kit.bits import bits
from kit.commands import start
from kit.errors import raises
from waiting import PATIENCE, group_seconds, until

import sylvan
from sylvan import data
from sylvan.cli import main
from sylvan.models.irli import shards
from sylvan.models.irli.vectors import exact_neighbors
from sylvan.runtime import checkpointed
from sylvan.runtime.checkpoint import Checkpoint

BASE = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
QUERIES = BASE[:20] + np.float32(0.01)
SETTINGS = {"n_buckets": 8, "n_repetitions": 3, "hidden": 16, "choices": 3, "rounds": 1, "epochs_per_round": 1}
QUICK = " ".join(f"--set {name}={value}" for name, value in SETTINGS.items()) + " --set partition=learned"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of vectors, right and wrong, and an index."""
    folder = tmp_path_factory.mktemp("vectors")
    np.save(folder / "base.npy", BASE)
    np.savez(folder / "base.npz", vectors=BASE.astype(np.float64))
    sp.save_npz(folder / "sparse.npz", sp.csr_matrix(BASE))
    np.savez(folder / "two.npz", a=BASE, b=BASE)
    np.save(folder / "queries.npy", QUERIES.astype(np.float16))
    np.save(folder / "narrow.npy", QUERIES[:, :4])
    np.save(folder / "nearest.npy", exact_neighbors(QUERIES, BASE, 12, "euclidean")[0])
    np.save(folder / "words.npy", np.array(["a", "b"]))
    assert main(f"index {folder}/base.npy --index {folder}/index -q --threads 1 {QUICK}".split()) == 0
    return folder


@pytest.fixture
def place(vectors: Path) -> Callable[[str], str]:
    return lambda name: str(vectors / name)


@pytest.fixture
def index(vectors: Path) -> Any:
    return sylvan.load(vectors / "index")


def test_an_index_from_the_command_line(index: Any, call: Any) -> None:
    lines = call("search {index} {queries.npy} -k 3 --probes 8 --counts").rows
    ids, distances = index.search(QUERIES.astype(np.float16), 3, probes=8)
    assert [line["ids"] for line in lines] == ids.tolist()
    np.testing.assert_allclose([line["distances"] for line in lines], distances, rtol=1e-5)
    assert all(line["candidates"] == 200 for line in lines)
    for options in ("-o ids.npy", "-o both.npz --counts"):
        assert call(f"search {{index}} {{queries.npy}} -k 3 --candidates 20 {options}") == (0, "", "")
    expected = index.search(QUERIES.astype(np.float16), 3, candidates=20, return_counts=True)
    np.testing.assert_array_equal(np.load("ids.npy"), expected[0])
    with np.load("both.npz") as both:
        for name, array in zip(("ids", "distances", "candidates"), expected, strict=True):
            np.testing.assert_array_equal(both[name], array)
    all_of_them = call("search {index} {queries.npy} -k 300 --probes 8 --candidates all").rows
    assert {len(line["ids"]) for line in all_of_them} == {200}, "rows with fewer answers are shorter"


@pytest.mark.parametrize("name", ["base.npz", "sparse.npz"])
def test_files_of_every_form_give_the_same_index(name: str, index: Any, call: Any) -> None:
    call(f"index {{{name}}} --index again -q {QUICK}")
    for a, b in zip(sylvan.load("again").search(QUERIES, 4), index.search(QUERIES, 4), strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_options_together(vectors: Path, call: Any) -> None:
    out = call(
        f"index {{base.npy}} --index i --metric angular --seed 3 {QUICK} --queries {{queries.npy}} --neighbors "
        "{nearest.npy} --recall 0.9 --tune-on {queries.npy} --figure report.svg"
    ).out
    assert out.startswith(f"Read 200 vectors of 6 dimensions from {vectors / 'base.npy'}.\nIndexed them in ")
    assert re.search(r" s\.\nprobes=\d+, .*: recall [01]\.", out)
    assert "Saved it in i" in out and "standard deviation" in out
    assert Path("report.svg").read_text().startswith("<?xml")
    loaded = sylvan.load("i")
    assert (loaded.metric, loaded.seed) == ("angular", 3)
    shown = call("inspect i").out
    assert "200" in shown and "vectors in learned buckets" in shown


def test_shards(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process; test_an_interrupted_training_writes_nothing has a process for each."""
    monkeypatch.setitem(shards.EXECUTORS, "processes", shards.SerialExecutor)  # type: ignore[arg-type]
    said = call(f"index {{base.npy}} --index i --shards 2 {QUICK} --recall 0.8 --figure report.svg").out
    assert "Shard 1: probes=" in said
    assert Path("report-0.svg").exists() and Path("report-1.svg").exists()
    found = call("search i {queries.npy} -k 1 --probes 8 --candidates all").rows
    assert [line["ids"] for line in found] == [[i] for i in range(20)]


WRONG = [
    ("index {base.npy}", "Missing option '--index'"),
    ("index {nowhere.npy} --index i", "There is no file"),
    ("index {two.npz} --index i", "must hold one array"),
    ("index {words.npy} --index i", "words.npy"),
    ("index {base.npy} --index i --set buckets=3", "Did you mean 'n_buckets'"),
    ("index {base.npy} --index i --metric cosine", "'metric' parameter of IRLIIndex"),
    ("index {base.npy} --index i --neighbors {nearest.npy}", "--neighbors is for --queries"),
    ("index {base.npy} --index i --tune-on {queries.npy}", "--tune-on is for --recall"),
    ("index {base.npy} --index i --recall 2", "--recall must be a number in"),
    ("index {base.npy} --index i --figure report.txt", "--figure takes a"),
    ("index {base.npy} --index i --shards 999999", "'n_shards' parameter"),
    ("index {base.npy} --index i --queries {narrow.npy}", "queries has 4 dimensions"),
    ("index {base.npy} --index {.}", "is not a Sylvan model"),
    ("search {nowhere} {queries.npy}", "no such folder"),
    ("search {index} {nowhere.npy}", "There is no file"),
    ("search {index} {narrow.npy}", "queries has 4 dimensions, but the index has vectors of 6"),
    ("search {index} {queries.npy} -k 0", "'-k'"),
    ("search {index} {queries.npy} --probes 0", "--probes must be an int"),
    ("search {index} {queries.npy} --min-votes 4", "--min-votes must be an int"),
    ("search {index} {queries.npy} --candidates few", "--candidates takes an int or all"),
    ("search {index} {queries.npy} --order name", "'--order'"),
    ("predict {index} {base.npy}", "no model that ranks labels"),
    ("search {index} {queries.npy} -o {nowhere/out.npy}", "can't be written"),
]


@pytest.mark.parametrize(("line", "said"), WRONG, ids=[line for line, _ in WRONG])
def test_wrong_usage(line: str, said: str, refused: Any, in_folder: Path) -> None:
    assert refused(said, line).count("\n") == 1
    assert list(in_folder.iterdir()) == []


def test_a_configuration_file(call: Any) -> None:
    rows = "".join(f"{name} = {value}\n" for name, value in {**SETTINGS, "rounds": 0}.items())
    Path("titles.toml").write_text(f'[options]\nindex = "i"\n[parameters]\n{rows}partition = "learned"\n')
    call("index {base.npy} --config titles.toml --set n_repetitions=2")
    made = sylvan.load("i")
    assert (made.n_buckets, made.n_repetitions) == (8, 2)
    Path("titles.toml").write_text('[parameters]\nbuckets = 8\n[text]\nngrams = [1, 2]\n[options]\nfolder = "x"\n')
    said = call("index {base.npy} --index b --config titles.toml", code=2).err
    for piece in ("no option 'folder'", "Did you mean 'n_buckets'", "A [text] table is for 'sylvan train'"):
        assert piece in said


def test_an_interrupted_index_is_resumed(call: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"index {{base.npy}} --index i --threads 1 {QUICK}"
    assert call(f"{line} --resume").out.startswith("Read 200 vectors")
    once = bits(sylvan.load("i"))
    monkeypatch.setattr(checkpointed, "SECONDS", 0.0)
    write = Checkpoint.write

    def dying(self: Checkpoint, name: str, state: Any) -> None:
        write(self, name, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "write", dying)
        assert "lies in 'i.training': the same command with --resume" in call(line, code=1).err
    refused("--resume goes on with it, --no-resume starts over", line)
    call(f"{line} --resume")
    assert not Path("i.training").exists() and bits(sylvan.load("i")) == once
    refused("--resume is not for ShardedIRLIIndex", f"{line} --shards 2 --resume")


def test_numbers_from_files(vectors: Path) -> None:
    np.savez("ids.npz", ids=np.arange(3))
    assert data.load_numbers("ids.npz").dtype == np.int64
    with raises(sylvan.SylvanError, "words.npy"):
        data.load_numbers(vectors / "words.npy")


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_an_interrupted_training_writes_nothing(vectors: Path, in_folder: Path) -> None:
    long = ("--set", "partition=learned", "--set", "epochs_per_round=10000", "--set", "batch_size=1", "--shards", "2")
    process = start("index", str(vectors / "base.npy"), "--index", "i", *long)
    assert process.stdout is not None and process.stdout.readline().startswith(b"Read 200 vectors")
    last = group_seconds(process.pid) + 3  # of its shards too, which are processes
    until(lambda: process.poll() is not None or group_seconds(process.pid) > last, "it doesn't work")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1 and b"Traceback" not in err
    assert err.strip().splitlines()[-1] == b"Interrupted; nothing was written."  # after PyTorch's words, if any
    assert list(in_folder.iterdir()) == []
