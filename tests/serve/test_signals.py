"""How a server ends: the first signal lets it finish what it does, the second ends it."""

import json
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from servers import (  # noqa: F401
    JSON,
    NDJSON,
    Server,
    group,
    is_open,
    meanwhile,
    pytestmark,
    read_all,
    request,
    serving,
    statuses,
    until,
)

LIMITS = "[limits]\ntexts = 100000\n"
ROWS = 800


def hold(server: Server, texts: list[str]) -> socket.socket:
    """A request that takes the server a while, sent."""
    body = json.dumps({"texts": texts[:ROWS], "k": 50, "beam": 60}).encode()
    sock = server.raw()
    sock.sendall(request("POST", "/v1/models/first/rank", body, f"Content-Type: {JSON}"))
    return sock


def ended(server: Server, leader: int) -> None:
    """It and all that it started, without a traceback."""
    until(lambda: not group(leader), lambda: f"these are left: {group(leader)}")
    assert not is_open(server.port)
    assert "Traceback" not in server.errors and "something went wrong" not in server.errors, server.errors


@pytest.mark.parametrize(
    ("workers", "to_all", "number", "drain"),
    [(1, False, signal.SIGINT, 0), (2, False, signal.SIGTERM, 1), (2, True, signal.SIGINT, 0)],
    ids=["one", "two that drain", "Ctrl-C in the terminal of all"],
)
def test_what_is_begun_is_finished(first, tmp_path, workers, to_all, number, drain):
    """Rankings and lines that come in still; nothing is left in the folder for temporary files.

    Each that asks meanwhile is answered, or its connection refused or closed before an answer; none hangs.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {"TMPDIR": str(temporary)}
    lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in first.texts[:500])
    words, over, outcomes = (first.folder, "--workers", workers, "--drain", drain), threading.Event(), []
    with serving(tmp_path, *words, config=LIMITS, environment=environment) as server:

        def ask() -> None:
            while server.process.poll() is None and not over.is_set():
                try:
                    outcomes.append(str(server.ask("GET", "/v1/models/first").status))
                except TimeoutError:
                    outcomes.append("hangs")
                except Exception as error:
                    outcomes.append(type(error).__name__)
                time.sleep(0.01)

        leader = server.process.pid
        shared = server.shared_folders
        assert len(shared) == (workers > 1)
        idle = server.connect()  # kept, with nothing asked: nobody waits for it
        assert idle.ask("GET", "/health/live").status == 200
        with meanwhile(*[ask] * 4), server.raw() as bulk, ExitStack() as last:
            last.callback(over.set)
            until(lambda: len(outcomes) > 20, "nobody is answered")
            size = f"Content-Length: {2 * len(lines)}"
            head = request("POST", "/v1/models/first/rank?k=5", b"", f"Content-Type: {NDJSON}", size, close=False)
            bulk.sendall(head + lines)
            until(lambda: bulk.recv(1) == b"H", "no answer has begun")
            before = server.metric("sylvan_batch_rows_sum")
            held = [hold(server, first.texts) for _ in range(2)]
            server.wait_for_arrival(2, ROWS, before)
            if to_all:
                os.killpg(leader, number)
            else:
                server.signal(number)
            assert read_all(idle.socket) == b"", "it ends"
            answers = [read_all(sock) for sock in held]
            assert [statuses(answer) for answer in answers] == [[200]] * 2
            for answer in answers:
                head, _, body = answer.partition(b"\r\n\r\n")
                assert len(json.loads(body)["results"]) == ROWS, head
            bulk.sendall(lines)
            rows = [line for line in read_all(bulk).splitlines() if line.startswith(b'{"labels"')]
            assert len(rows) == 1000
            assert server.exit_code() in ((0, 130) if number == signal.SIGINT else (0,))
        ended(server, leader)
    assert list(temporary.rglob("*")) == [] and not any(map(os.path.exists, shared))
    closed = {"ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "RemoteDisconnected"}
    assert set(outcomes) <= {"200", "503", *closed} and outcomes.count("200") > 20, set(outcomes)


def test_drain_says_so_and_goes_on_answering_until_a_second_signal(first, tmp_path):
    """A balancer has time to see that it isn't ready, while requests that come are still answered."""
    with serving(tmp_path, first.folder, "--workers", 2, "--drain", 3600) as server:
        leader = server.process.pid
        server.signal(signal.SIGTERM)

        def all_say_so() -> bool:
            """Each of its workers is told by itself."""
            return {server.ask("GET", "/health/ready").status for _ in range(10)} == {503}

        until(all_say_so, "it still says that it's ready")
        answer = server.ask("GET", "/health/ready")
        assert answer.status == 503 and answer.json["draining"] is True
        assert server.ask("GET", "/v2/health/ready").status == 503
        assert server.ask("GET", "/health/live").status == 200
        for _ in range(20):
            ranked = server.rank(text="whales")
            assert ranked.status == 200, ranked
        server.signal(signal.SIGTERM)
        server.exit_code()
        until(lambda: not group(leader), lambda: f"these are left: {group(leader)}")
        assert not is_open(server.port)
        assert "something went wrong" not in server.errors


@pytest.mark.parametrize("opening", [False, True])
def test_a_signal_while_models_are_being_opened(first, tmp_path, opening):
    with serving(tmp_path, first.folder, "--workers", 2, ready=False, open=False) as server:
        leader = server.process.pid
        if opening:
            until(lambda: len(server.workers) == 2, "no worker starts")
        server.signal(signal.SIGTERM)
        server.exit_code()
        until(lambda: not group(leader), lambda: f"these are left: {group(leader)}")


def test_a_client_that_never_finishes_doesnt_keep_it(first, tmp_path):
    """Not for longer than one may take."""
    config = "[limits]\nseconds = 1\nslow = 1"
    with serving(tmp_path, first.folder, config=config) as server:
        leader = server.process.pid
        with server.raw() as half, server.raw() as nothing:
            headers = (f"Content-Type: {JSON}", "Content-Length: 1000")
            half.sendall(request("POST", "/v1/models/first/rank", b"", *headers, close=False) + b"{")
            assert server.ask("GET", "/health/live").status == 200  # it is awake, and both have most likely arrived
            server.signal(signal.SIGTERM)
            server.exit_code()
            assert read_all(nothing) == b""  # closed, or reset if it hadn't arrived
        ended(server, leader)
