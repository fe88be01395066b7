"""A small Ray cluster of several nodes on this machine, started once; each module connects to it and leaves it, as a
test elsewhere that starts Ray would join it and find its CPUs taken."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import child_processes
import pytest
from kit.books import load_sample
from kit.commands import call, place, refused  # noqa: F401
from waiting import PATIENCE

from sylvan import TextModel, XRLinear


@pytest.fixture(scope="session")
def nodes() -> Iterator[Any]:
    pytest.importorskip("ray", reason='needs Ray: pip install "sylvan[ray]"')
    from ray.cluster_utils import Cluster

    import sylvan

    # Workers import the package that is tested, and the functions of these tests.
    here = Path(__file__).parent
    places = [str(here), str(here.parent), str(Path(sylvan.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    child_processes.guard()  # Ray's own processes end with this one, even if it is killed
    # Ray Serve ends a proxy that isn't ready after five seconds, which a busy machine needs.
    os.environ |= dict.fromkeys(("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S"),
                                str(PATIENCE))  # fmt: skip
    # A node that was removed is missed after seconds. One that is slow to answer has as long as ever. Workers have the
    # priority of these tests: with that of Ray (nice 15), they hardly get on beside other tests.
    settings = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "worker_niceness": 0}
    head = {
        "num_cpus": 1, "object_store_memory": 200 << 20, "include_dashboard": False, "_system_config": settings,
        "include_log_monitor": False, "no_monitor": True,  # nobody looks at logs, and no node is added by itself
    }  # fmt: skip
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=1, object_store_memory=200 << 20)
    try:
        yield made
    finally:
        made.shutdown()


@pytest.fixture(scope="module")
def cluster(nodes: Any) -> Iterator[Any]:
    import ray

    ray.init(address=nodes.address, log_to_driver=False, configure_logging=False)
    try:
        yield nodes
    finally:
        ray.shutdown()


class Saved:
    """A model of texts and one of features, in memory and in folders, and rows for them."""

    def __init__(self, folder: Path) -> None:
        train, test = load_sample()
        texts, labels = train.texts[:1000], train.labels[:1000]
        self.texts, self.labels = test.texts[:300], test.labels[:300]
        self.text_model = TextModel().fit(texts, labels)
        transform, encode = self.text_model.vectorizer.transform, self.text_model.vocabulary_.encode
        self.X = transform(self.texts)
        self.matrix_model = XRLinear(n_jobs=1).fit(transform(texts), encode(labels))
        self.folder, self.text_folder = folder, str(folder / "texts")
        self.text_model.save(self.text_folder)
        self.matrix_model.save(folder / "features")


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    return Saved(tmp_path_factory.mktemp("saved"))
