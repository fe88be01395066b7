"""Whatever is wrong with a cluster, or with what is asked of it, is one sentence, and soon."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import child_processes
import pytest
from kit.errors import raises
from ray_work import lacking
from waiting import PATIENCE

import sylvan
from sylvan import data
from sylvan.distributed import ray_runner
from sylvan.distributed.ray_runner import connect
from sylvan.errors import DataError, ParameterError, SylvanError
from sylvan.runtime import Runner
from sylvan.runtime.jobs import current_runner


def needs_ray() -> Any:
    return pytest.importorskip("ray", reason='needs Ray: pip install "sylvan[ray]".')


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    data.write_jsonl(path, ["whales at sea", "bread and cakes"] * 4, [["Whaling"], ["Baking"]] * 4)
    return path


@pytest.fixture
def unused() -> str:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def elsewhere(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A Python process of its own: this one may be connected to the cluster of other tests.

    It may take PATIENCE; Ray itself looks for a cluster for a quarter of an hour.
    """
    return child_processes.python(*words, env=child_processes.environment(**environment), timeout=PATIENCE)


# Nothing is connected yet.


def test_without_ray_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch, rows: Path, refused: Any) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with raises(ImportError, "sylvan[ray]"):
        sylvan.distributed.ray("auto").__enter__()
    way = 'Working on a cluster needs Ray. Install it with: pip install "sylvan[ray]".'
    said = refused(way, f"train xr-linear {rows} --model {rows.with_name('m')} --ray auto")
    assert said.count("\n") == 1 and list(rows.parent.iterdir()) == [rows]


@pytest.mark.parametrize("address", ["the address", "auto"])
def test_an_address_where_nobody_listens(address: str, rows: Path, unused: str) -> None:
    needs_ray()
    words = ["train", "xr-linear", str(rows), "--model", str(rows.with_name("m")), "--ray"]
    if address == "auto":
        done = elsewhere("-m", "sylvan", *words, "auto", RAY_ADDRESS=unused)
        sentence = f"The Ray cluster at 'auto' can't be reached (RAY_ADDRESS is {unused!r}): Connection refused."
    else:
        done = elsewhere("-m", "sylvan", *words, unused)
        sentence = f"The Ray cluster at {unused!r} can't be reached: Connection refused."
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.strip().endswith(sentence) and len(done.stderr.splitlines()) == 1
    assert list(rows.parent.iterdir()) == [rows]


def test_an_address_that_is_no_string() -> None:
    with raises(ParameterError, 6379):
        connect(needs_ray(), 6379, {})  # type: ignore[arg-type]


def test_clusters_that_can_not_be_had() -> None:
    """All in one process: what failed before doesn't spoil what comes later. Ray waits 10 s for an answer, not 30."""
    needs_ray()
    waits = {"RAY_py_gcs_connect_timeout_s": "10", "RAY_gcs_rpc_server_connect_timeout_s": "1"}
    done = elsewhere(Path(__file__).with_name("wrong_clusters.py"), **waits)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    here = "A Ray cluster can't be started on this machine: "
    assert found.pop("silent").startswith("The Ray cluster at '127.0.0.1:")
    assert found.pop("no number").startswith(here)
    assert found.pop("negative").startswith(f"{here}Resource quantities must be nonnegative.")
    assert found == {
        "no address": "The Ray cluster at 'nonsense' can't be reached: Invalid address format: nonsense.",
        "empty": "The Ray cluster at '' can't be reached: Invalid address format.",
        "client": "The address of a Ray cluster must be that of its own port, HOST:6379. "
        "Got 'ray://10.0.0.1:10001' instead.",
        "unknown option": f"{here}Unknown keyword argument(s): colour.",
        "threads": "The 'n_jobs' parameter must be an int in [1, inf), or -1 or None for every core. Got 0 instead.",
        "no CPUs": "The Ray cluster has no CPUs: no job will ever be run there.",
    }


# A cluster is there.


@pytest.mark.parametrize(
    ("what", "name", "other"),
    [
        ("Sylvan", "__version__", "0.0.1"),
        ("NumPy", "np", SimpleNamespace(__version__="0.0.1")),
        ("Python", "platform", SimpleNamespace(python_version=lambda: "0.0.1")),
    ],
)
def test_a_node_with_another_version(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, what: str, name: str, other: Any
) -> None:
    own = ray_runner.versions()[what]
    monkeypatch.setattr(ray_runner, name, other)  # in this process alone
    with raises(DataError, what, own), sylvan.distributed.ray():
        raise AssertionError
    assert type(current_runner(1)) is Runner


def test_a_node_without_sylvan(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runner, "versions", lacking(os.getpid()))
    with raises(DataError, "ModuleNotFoundError", "sylvan"), sylvan.distributed.ray():
        raise AssertionError


def test_another_address_than_that_of_the_connection(cluster: Any, unused: str) -> None:
    with raises(ParameterError, cluster.address, "connected"), sylvan.distributed.ray(unused):
        raise AssertionError


def test_a_memory_limit_on_the_command_line(cluster: Any, rows: Path, refused: Any) -> None:
    train = f"train xr-linear {rows} --model {rows.with_name('m')} --threads 1 --memory-limit 1GB"
    error = "Error: On a cluster, fit takes no 'memory_limit': each node has memory of its own."
    read, said = refused(error, f"{train} --ray {cluster.address}").splitlines()
    assert read.startswith("Read 8 rows from ") and said == error
    assert list(rows.parent.iterdir()) == [rows]


def test_a_connection_that_was_there_stays_after_an_error(cluster: Any) -> None:
    """It is for those who have made it to end it."""
    with raises(SylvanError, "purpose"), sylvan.distributed.ray():
        raise SylvanError("on purpose")
    with sylvan.distributed.ray(cluster.address) as runner:
        assert runner.run([]) == []
