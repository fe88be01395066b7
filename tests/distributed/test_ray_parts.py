"""Trainings on a cluster from rows in parts: the bits of one machine, whatever is lost, killed or damaged."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import start
from kit.bits import same_bits
from kit.books import load_sample
from kit.errors import raises
from ray_work import gone, squared
from waiting import until

import sylvan
from sylvan import TextModel, XRLinear, data, store
from sylvan.distributed.ray_runner import RayRunner
from sylvan.errors import DataError, ModelError, SylvanError
from sylvan.runtime import Job, checkpointed
from sylvan.runtime.checkpoint import Checkpoint
from sylvan.runtime.groups import block_names

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    train, _ = load_sample()
    model = TextModel().fit(train.texts[:1500], train.labels[:1500])
    folder = tmp_path_factory.mktemp("rows")
    X, Y = model.vectorizer.transform(train.texts[:1500]), model.vocabulary_.encode(train.labels[:1500])
    data.save_parts(folder / "parts", X, Y, rows_per_part=200)
    return folder / "parts"


@pytest.fixture(scope="module")
def plain(place: Path) -> XRLinear:
    X, Y = data.open_parts(place)
    return XRLinear(n_jobs=1, n_trees=3, max_leaf=20).fit(X.take(np.arange(X.shape[0])), Y)


@pytest.mark.parametrize("stored", [False, True])
def test_xr_linear(
    cluster: Any, place: Path, plain: XRLinear, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointed, "BLOCK_BYTES", 1024)  # larger arrays lie in files of the checkpoint
    X, Y = data.open_parts(place)
    given = {"checkpoint": tmp_path / "work"} if stored else {}
    with sylvan.distributed.ray() as runner:
        spread = XRLinear(n_jobs=1, n_trees=3, max_leaf=20).fit(X, Y, **given)
    same_bits(plain, spread)
    names = {phase.name.partition(" ")[0] for phase in runner.phases}
    assert names == {"Reading", "Embedding", "Clustering", "Training", "Looking", "Searching"}
    assert not (tmp_path / "work").exists()
    if stored:  # what workers write doesn't come back to the driver
        assert sum(phase.bytes_returned for phase in runner.phases if phase.name.startswith("Training")) == 0
        assert not spread.layers_[-1].values.flags.owndata


def test_a_node_that_is_removed_in_mid_layer(
    cluster: Any, place: Path, plain: XRLinear, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    removed: list[int] = []
    result = RayRunner._result

    def removing(self: RayRunner, reference: Any, job: Any) -> Any:
        found = result(self, reference, job)
        if not removed and ".layer" in job.name:
            cluster.remove_node(node, allow_graceful=False)
            removed.append(len(self.phases))
        return found

    monkeypatch.setattr(RayRunner, "_result", removing)
    X, Y = data.open_parts(place)
    with sylvan.distributed.ray():
        spread = XRLinear(n_jobs=1, n_trees=3, max_leaf=20).fit(X, Y)
    assert removed
    same_bits(plain, spread)


def test_files_become_parts(cluster: Any, tmp_path: Path) -> None:
    train, _ = load_sample()
    files = []
    for at in range(4):
        files.append(tmp_path / f"{at}.jsonl")
        data.write_jsonl(files[-1], train.texts[at * 50 : at * 50 + 50], train.labels[at * 50 : at * 50 + 50])
    vectorizer = sylvan.TfidfVectorizer().fit(train.texts[:200])
    with sylvan.distributed.ray() as runner:
        data.write_parts(files, tmp_path / "parts", vectorizer)
    assert [phase.n_jobs for phase in runner.phases] == [4, 4]
    data.write_parts(files, tmp_path / "here", vectorizer)
    (one, labels), (two, others) = data.open_parts(tmp_path / "parts"), data.open_parts(tmp_path / "here")
    assert one.take(np.arange(200)).data.tobytes() == two.take(np.arange(200)).data.tobytes()
    assert labels is not None and others is not None and labels.indices.tolist() == others.indices.tolist()


def test_a_killed_driver_is_gone_on_from(cluster: Any, place: Path, plain: XRLinear, tmp_path: Path) -> None:
    work = tmp_path / "work"
    command = [sys.executable, str(Path(__file__).with_name("ray_driver.py")), cluster.address, str(place), str(work)]
    driver = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
    until(lambda: driver.poll() is not None or list(work.glob("block*")), "nothing is stored")
    driver.kill()
    driver.wait()
    stored = list(work.glob("block*"))
    assert stored, driver.stdout.read() if driver.stdout else ""
    X, Y = data.open_parts(place)
    checkpoint, trained = Checkpoint(work), list[XRLinear]()

    def trains() -> bool:
        try:
            trained.append(XRLinear(n_jobs=1, n_trees=3, max_leaf=20).fit(X, Y, checkpoint=checkpoint))
        except ModelError as error:
            assert "Another training" in str(error)
        return bool(trained)

    with sylvan.distributed.ray():
        until(trains, "the lock doesn't go with the process")
    same_bits(plain, trained[0])
    # What was stored wasn't computed again.
    before = {name for block in stored for name in block_names(store.load(block))}
    later = [block_names(store.load(block)) for block in work.glob("block*") if block not in stored]
    assert later and not before & {name for names in later for name in names}
    checkpoint.remove()


def lost(value: Any) -> Any:
    """A reference of which Ray says that its object is lost; when it notices that an owner has died isn't certain."""
    import ray

    return ray.remote(num_cpus=0, max_retries=0)(gone).remote()


def test_a_lost_input_is_sent_again(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    puts: list[Any] = []
    put = ray.put

    def lossy(value: Any) -> Any:
        puts.append(value)
        return lost(value) if len(puts) == 1 else put(value)

    monkeypatch.setattr(ray, "put", lossy)
    with sylvan.distributed.ray() as runner:
        assert runner.run([Job("a", squared, {"base": np.arange(200_000.0), "at": 3})])[0][0] == 9
    assert len(puts) == 2


def test_an_input_that_is_always_lost_ends_in_a_sentence(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.put", lost)
    with sylvan.distributed.ray() as runner, raises(SylvanError, "'a'", 6):
        runner.run([Job("a", squared, {"base": np.arange(200_000.0), "at": 3})])


def test_a_part_that_cant_be_read_is_named(cluster: Any, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "parts")
    X, Y = data.open_parts(tmp_path / "parts")
    (tmp_path / "parts" / "part-00003" / "data.npy").unlink()
    with sylvan.distributed.ray(), raises(DataError, "00003", "data.npy"):
        XRLinear(n_jobs=1).fit(X, Y)


def test_a_checkpoint_that_a_node_doesnt_see(
    cluster: Any, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sylvan.distributed import ray_runner

    monkeypatch.setenv("SYLVAN_TEST_DRIVER", str(os.getpid()))
    monkeypatch.setattr(ray_runner, "_seen", _sees_only_here)
    X, Y = data.open_parts(place)
    with sylvan.distributed.ray(), raises(ModelError, tmp_path / "work"):
        XRLinear(n_jobs=1).fit(X, Y, checkpoint=tmp_path / "work")
    assert not list(tmp_path.glob("work/block*"))


def _sees_only_here(path: str) -> str:
    return path if os.getpid() == int(os.environ.get("SYLVAN_TEST_DRIVER", "0")) else ""
