"""The recipe for Ray Serve: replicas answer as the model does, whatever becomes of one of them."""

import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kit.books import load_sample
from recipes import recipe
from waiting import PATIENCE, alive, until

import sylvan
from sylvan import TextModel

for name in ("starlette", "uvicorn", "msgspec", "prometheus_client"):
    pytest.importorskip(name, reason='needs pip install "sylvan[serve]"')
RANK = "/v1/models/books/rank"


@dataclass
class Served:
    """Replicas that serve a model in a folder."""

    ray: Any
    port: int
    folder: Path
    texts: list[str]

    def ask(self, path: str, body: bytes, kind: str = "application/json") -> tuple[int, str, bytes]:
        """The status, the version that answered, and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("POST", path, body, {"Content-Type": kind})
            answer = connection.getresponse()
            return answer.status, answer.getheader("Sylvan-Model", ""), answer.read()
        finally:
            connection.close()

    def rank(self) -> tuple[int, str, Any]:
        status, version, body = self.ask(RANK, json.dumps({"texts": self.texts, "k": 5}).encode())
        return status, version, json.loads(body)

    @property
    def replicas(self) -> set[str]:
        """The names of those that have started."""
        known = self.ray.util.list_named_actors(all_namespaces=True)
        return {one["name"] for one in known if one["name"].startswith("SERVE_REPLICA::")}

    def wait_for_replicas(self, n: int) -> None:
        """Wait until so many take requests."""
        from ray import serve

        wanted = {"RUNNING": n}
        until(lambda: dict(serve.status().applications["default"].deployments["sylvan"].replica_states) == wanted,
              lambda: str(serve.status()))  # fmt: skip


def fitted(first: int) -> TextModel:
    """A model of some of the sample's rows."""
    train, _ = load_sample()
    return TextModel().fit(train.texts[first : first + 1000], train.labels[first : first + 1000])


def answers(served: Served) -> dict[str, Any]:
    """What the model in the folder says itself, as the server writes it."""
    top = sylvan.load(served.folder, mmap=False).rank(served.texts, k=5)
    return {
        "results": [
            {"labels": names, "scores": [float(score) for score in scores]}
            for names, scores in zip(top.names, top.scores, strict=True)
        ]
    }


@pytest.fixture(scope="module")
def served(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pytest.importorskip("ray.serve", reason='needs Ray Serve: pip install "ray[serve]"')
    import ray
    from ray import serve

    folder = tmp_path_factory.mktemp("served") / "books"
    fitted(0).save(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(recipe("ray_serve").models({"books": str(folder)}))
        yield Served(ray, port, folder, load_sample().test.texts[:3])
    finally:
        serve.shutdown()
    left = [actor for actor in ray.util.list_named_actors(all_namespaces=True) if actor["namespace"] == "serve"]
    assert not left  # Ray Data has actors of its own
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", port)) != 0


def test_replicas_answer_as_the_model_does(served: Served) -> None:
    served.wait_for_replicas(2)
    wanted = answers(served)
    for _ in range(10):  # of both
        status, version, found = served.rank()
        assert (status, found) == (200, wanted) and version.startswith("books@crc32:")
    status, _, body = served.ask("/v1/models/none/rank", b"{}")
    assert (status, json.loads(body)["detail"]) == (404, "There is no model 'none' here. There is: 'books'.")


def test_lines_pass_through(served: Served) -> None:
    lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in served.texts * 300)
    status, _, body = served.ask(f"{RANK}?k=5", lines, "application/x-ndjson")
    assert status == 200
    assert [json.loads(line) for line in body.splitlines()] == answers(served)["results"] * 300


def test_a_replica_that_dies_is_replaced(served: Served) -> None:
    """The other one answers meanwhile, and the new one takes no request before its model is open."""
    served.wait_for_replicas(2)
    wanted, before = answers(served), served.replicas
    replica = served.ray.get_actor(min(before), namespace="serve")
    process = served.ray.get(replica.__ray_call__.remote(lambda _: os.getpid()))
    os.kill(process, signal.SIGKILL)
    until(lambda: not alive(process), "it doesn't die")  # a request that it has taken dies with it, says the guide

    def replaced() -> bool:
        assert served.rank()[::2] == (200, wanted)
        return len(served.replicas) > 1 and bool(served.replicas - before)

    until(replaced, "it isn't replaced")
    served.wait_for_replicas(2)
    for _ in range(20):
        assert served.rank()[::2] == (200, wanted)


def test_replicas_take_a_new_version(served: Served) -> None:
    served.wait_for_replicas(2)
    old = served.rank()[1]
    fitted(1000).save(served.folder)
    wanted = answers(served)
    in_row: list[bool] = []

    def only_new() -> bool:
        status, version, found = served.rank()
        assert status == 200 and (found == wanted) is (version != old)
        in_row.append(version != old)
        return len(in_row) >= 30 and all(in_row[-30:])  # of both

    until(only_new, "a replica keeps the old version")
