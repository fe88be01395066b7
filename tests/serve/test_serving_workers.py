"""Several processes: one that dies is replaced, and the others answer meanwhile."""

import http.client
import json
import os
import shutil
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from servers import NDJSON, Server, group, meanwhile, pytestmark, read_all, request, serving, statuses  # noqa: F401
from waiting import PATIENCE, until


@pytest.fixture(scope="module")
def folder(first, tmp_path_factory) -> Path:
    return Path(shutil.copytree(first.folder, tmp_path_factory.mktemp("workers") / "first"))


@pytest.fixture(scope="module")
def server(folder) -> Iterator[Server]:
    config = "watch = 0.05\n[limits]\ntexts = 100000"
    with serving(folder.parent, folder, "--workers", 2, config=config) as server:
        yield server
        (counted,) = server.shared_folders
        os.utime(counted, (0, 0))
        begin_another()
        assert os.path.isdir(counted), "that of a server that runs stays, however old it is"
        workers_end_when_their_parent_is_killed(server)
        begin_another()
        assert not os.path.isdir(counted), "nobody else removes from memory what a killed server has counted"


def begin_another() -> None:
    """What the next server does before its workers start."""
    from sylvan.serve.server import _shared_folder

    with ExitStack() as ends:
        ends.callback(shutil.rmtree, _shared_folder(ends))


def workers_end_when_their_parent_is_killed(server: Server) -> None:
    """Nobody could end them otherwise, and the port would stay taken."""
    leader = server.process.pid
    assert len(group(leader)) >= 3
    server.signal(signal.SIGKILL)
    server.exit_code()
    until(lambda: not group(leader), lambda: f"these are left: {group(leader)}")
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", server.port), PATIENCE):
        pass


def whole(server: Server) -> list[int]:
    """Its two workers, once both are there and ready."""

    def both() -> bool:
        n_started = server.errors.count("Serving 'first'")
        return len(server.workers) == 2 and n_started >= 2 + server.errors.count("another one takes its place")

    until(both, lambda: f"there aren't two workers: {server.workers} {server.errors}")
    return server.workers


class Kept:
    """A connection that is kept, and which of two workers is at its other end."""

    def __init__(self, server: Server) -> None:
        self.connection = server.connect()
        self.id = self.connection.ask("GET", "/health/live").headers["x-request-id"].partition("-")[0]


def connections_of_both(server: Server, n: int) -> list[Kept]:
    """Connections that are kept, ``n`` to each of two workers; which of them takes a connection is chance."""
    found: dict[str, list[Kept]] = {}

    def enough() -> bool:
        one = Kept(server)
        found.setdefault(one.id, []).append(one)
        return len(found) == 2 and all(len(kept) >= n for kept in found.values())

    until(enough, "one worker takes all connections")
    return [one for kept in found.values() for one in kept[:n]]


def test_the_workers_share_the_work(server):
    whole(server)
    ids: set[str] = set()

    def both() -> bool:
        """A worker that has just opened its models begins to accept a moment later."""
        ids.add(Kept(server).id)
        return len(ids) == 2

    until(both, "one worker takes everything")
    assert len(server.workers) == 2


def test_a_killed_worker_is_replaced_while_the_others_go_on(server, first):
    victim, other = whole(server)
    texts = first.texts[:300]
    expected = first.expected(texts[:1], 3)
    outcomes: Counter[str] = Counter()
    over = threading.Event()

    def ask() -> None:
        connection = server.connect()
        while not over.is_set():
            try:
                answer = connection.ask("POST", "/v1/models/first/rank", {"text": texts[0], "k": 3})
                right = answer.status == 200 and answer.json["results"] == expected
                outcomes["right" if right else f"wrong {answer.status} {answer.body[:100]!r}"] += 1
            except (OSError, http.client.HTTPException):  # the connection was the dead one's
                outcomes["lost"] += 1
                connection.close()
                connection = server.connect()
        connection.close()

    held = [one.connection.socket for one in connections_of_both(server, 3)]
    with meanwhile(*[ask] * 8):
        try:
            # Requests that take a while are in flight in each worker.
            slow = json.dumps({"texts": texts * 30, "k": 100, "beam": 50}).encode()
            ranked = server.metric("sylvan_batch_rows_sum")
            for sock in held:
                sock.sendall(request("POST", "/v1/models/first/rank", slow, "Content-Type: application/json"))
            arrived = ranked + len(texts) * 30
            until(lambda: server.metric("sylvan_batch_rows_sum") >= arrived, "they don't arrive")
            before = outcomes["right"]
            os.kill(victim, signal.SIGKILL)
            answers = [read_all(sock) for sock in held]
            until(lambda: outcomes["right"] > before + 50, lambda: f"the others don't go on: {outcomes}")
            survivors = whole(server)
        finally:
            over.set()
    assert other in survivors and victim not in survivors
    until(lambda: server.metric("sylvan_queue_requests") == 0, "what waited in the dead worker still counts")
    assert all(statuses(answer) in ([], [200]) for answer in answers)  # cut off with the worker, or whole
    assert any(len(answer) > 1000 for answer in answers), "no request in flight was answered by the other worker"
    assert outcomes["lost"] <= 16, outcomes  # each thread's connection once, and what came in between
    assert not [each for each in outcomes if each.startswith("wrong") and not each.startswith("wrong 503")], outcomes
    assert server.rank(text=texts[0], k=3).json["results"] == expected


def test_a_worker_that_opens_its_models_takes_no_requests(server, first):
    """While another one can answer, nobody should be told to come again; what the dead one has counted still counts."""
    victim = whole(server)[0]
    name, labels = "sylvan_requests_total", {"route": "POST /v1/models/{model}/rank"}
    for _ in range(20):
        server.rank(text="whales")
    before = server.metric(name, **labels)
    found: Counter[int] = Counter()
    os.kill(victim, signal.SIGKILL)
    until(lambda: victim not in server.workers, "the worker lives")
    started = server.errors.count("Serving 'first'")
    for _ in range(4000):
        found[server.rank(text="whales").status] += 1
        if server.errors.count("Serving 'first'") > started and sum(found.values()) > 300:
            break
    whole(server)
    assert set(found) == {200}, found
    asked = before + sum(found.values())
    until(lambda: server.metric(name, **labels) >= asked, "what the dead worker has counted is lost")
    until(lambda: server.metric("sylvan_queue_requests") == 0, "what waited in the dead worker still counts")


def test_all_workers_killed_at_once_while_the_version_on_disk_is_damaged(server, folder):
    """Those that take their places say so, and answer 503, until that is mended."""
    workers, path = whole(server), folder / "manifest.json"
    manifest = path.read_bytes()
    path.write_bytes(b"{")
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    answer = server.rank(text="whales")
    assert answer.status == 503 and "is not a Sylvan manifest" in answer.detail
    path.write_bytes(manifest)
    whole(server)
    until(lambda: server.ask("GET", "/health/ready").status == 200, "it isn't ready again")
    assert server.rank(text="whales").status == 200
    assert server.process.poll() is None and "Traceback" not in server.errors


def test_a_worker_that_stands_still_holds_nobody_up(server):
    """A process that is stopped takes no connections; those that come go to the other one."""
    victim = whole(server)[0]
    os.kill(victim, signal.SIGSTOP)
    try:
        for _ in range(60):
            assert server.rank(text="whales").status == 200
    finally:
        os.kill(victim, signal.SIGCONT)
    assert len(whole(server)) == 2


def test_the_metrics_are_of_all_workers(server):
    whole(server)
    kept: list[Kept] = []

    def of_both() -> bool:
        """Another connection; a worker that has just opened its models begins to accept a moment later."""
        kept.append(Kept(server))
        return len({one.id for one in kept}) == 2

    until(of_both, "one worker takes all connections")
    name, labels = "sylvan_requests_total", {"route": "GET /v1/models/{model}", "model": "first", "status": "200"}
    before = server.metric(name, **labels)
    for one in kept:
        assert one.connection.ask("GET", "/v1/models/first").status == 200
        one.connection.close()
    # A request is counted once its answer is sent.
    until(lambda: server.metric(name, **labels) == before + len(kept), "some requests aren't counted")
    values = {server.metric(name, **labels) for _ in range(20)}
    assert len(values) == 1, "what is counted depends on who is asked"


def test_bulk_in_both_workers_at_once(server, first):
    whole(server)
    texts = first.texts[:200]
    lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts * 5)
    expected = first.expected(texts, 5) * 5

    def ask() -> None:
        answer = server.ask("POST", "/v1/models/first/rank?k=5", lines, {"Content-Type": NDJSON})
        assert answer.lines == expected

    with meanwhile(*[ask] * 6):
        pass
