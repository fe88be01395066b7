"""How a server ends: the first signal lets it finish what it does, the second ends it."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from servers import (
    JSON,
    NDJSON,
    Server,
    group,
    is_open,
    pytestmark,  # noqa: F401
    read_all,
    request,
    serving,
    statuses,
    until,
)

LIMITS = "[limits]\ntexts = 100000\n"


def hold(server: Server, texts: list[str], rows: int = 1500) -> socket.socket:
    """A request that takes the server a while: it has arrived."""
    body = json.dumps({"texts": (texts * (rows // len(texts) + 1))[:rows], "k": 50, "beam": 60}).encode()
    sock = server.raw()
    sock.sendall(request("POST", "/v1/models/first/rank", body, f"Content-Type: {JSON}"))
    return sock


def ended(server: Server, leader: int) -> None:
    """It and all that it started, without a traceback."""
    until(lambda: not group(leader), lambda: f"these are left: {group(leader)}")
    assert not is_open(server.port)
    assert "Traceback" not in server.errors and "something went wrong" not in server.errors, server.errors


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_lets_it_finish_what_it_does(first, tmp_path, workers):
    with serving(tmp_path, first.folder, "--workers", workers, config=LIMITS) as server:
        leader = server.process.pid
        idle = server.connect()  # kept, with nothing asked: nobody waits for it
        assert idle.ask("GET", "/health/live").status == 200
        held = [hold(server, first.texts) for _ in range(3)]
        server.wait_for_arrival(3, 1500)
        server.signal(signal.SIGTERM)
        answers = [read_all(sock) for sock in held]
        assert [statuses(answer) for answer in answers] == [[200]] * 3
        for answer in answers:
            head, _, body = answer.partition(b"\r\n\r\n")
            assert len(json.loads(body)["results"]) == 1500, head
        assert server.exit_code() == 0
        ended(server, leader)


@pytest.mark.parametrize("workers", [1, 2])
def test_drain_says_so_and_goes_on_answering(first, tmp_path, workers):
    """A balancer has time to see that it isn't ready, while requests that come are still answered."""
    with serving(tmp_path, first.folder, "--workers", workers, "--drain", 3600) as server:
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


@pytest.mark.parametrize("workers", [1, 2])
def test_drain_ends_by_itself_and_not_before_its_time(first, tmp_path, workers):
    with serving(tmp_path, first.folder, "--workers", workers, "--drain", 2) as server:
        leader = server.process.pid
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        assert time.monotonic() - began >= 1.9
        ended(server, leader)


@pytest.mark.parametrize(("workers", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_a_second_signal_ends_it_at_once(first, tmp_path, workers, number):
    with serving(tmp_path, first.folder, "--workers", workers, "--drain", 3600, config=LIMITS) as server:
        leader = server.process.pid
        server.signal(number)
        until(lambda: server.ask("GET", "/health/ready").status == 503, "it doesn't drain")
        server.signal(number)
        server.exit_code()
        until(lambda: not group(leader), lambda: f"these are left: {group(leader)}")
        assert not is_open(server.port)
        assert "something went wrong" not in server.errors


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_in_a_terminal_reaches_all_its_processes(first, tmp_path, workers):
    with serving(tmp_path, first.folder, "--workers", workers, config=LIMITS) as server:
        leader = server.process.pid
        held = hold(server, first.texts)
        server.wait_for_arrival(1, 1500)
        os.killpg(leader, signal.SIGINT)
        assert statuses(read_all(held)) == [200]
        assert server.exit_code() in (0, 130)
        ended(server, leader)


def test_a_signal_while_models_are_being_opened(first, tmp_path):
    for pause in (0.0, 0.3):
        with serving(tmp_path, first.folder, "--workers", 2, ready=False, open=False) as server:
            leader = server.process.pid
            time.sleep(pause)
            server.signal(signal.SIGTERM)
            server.exit_code()
            until(lambda: not group(leader), lambda: f"these are left: {group(leader)}")  # noqa: B023


def test_a_bulk_ranking_is_finished(first, tmp_path):
    lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in first.texts[:500])
    with serving(tmp_path, first.folder) as server:
        leader = server.process.pid
        with server.raw() as sock:
            head = (f"POST /v1/models/first/rank?k=5 HTTP/1.1\r\nHost: x\r\nContent-Type: {NDJSON}\r\n"
                    f"Content-Length: {2 * len(lines)}\r\n\r\n")  # fmt: skip
            sock.sendall(head.encode() + lines)
            until(lambda: sock.recv(1) == b"H", "no answer has begun")
            server.signal(signal.SIGTERM)
            time.sleep(0.5)
            sock.sendall(lines)
            rows = [line for line in read_all(sock).splitlines() if line.startswith(b'{"labels"')]
        assert len(rows) == 1000
        assert server.exit_code() == 0
        ended(server, leader)


def test_a_client_that_never_finishes_doesnt_keep_it(first, tmp_path):
    """Not for longer than one may take."""
    config = "[limits]\nseconds = 2\nslow = 2"
    with serving(tmp_path, first.folder, config=config) as server:
        leader = server.process.pid
        with server.raw() as half, server.raw() as nothing:
            half.sendall(b"POST /v1/models/first/rank HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         b"Content-Length: 1000\r\n\r\n{")  # fmt: skip
            assert server.ask("GET", "/health/live").status == 200  # it is awake, and both have most likely arrived
            server.signal(signal.SIGTERM)
            server.exit_code()
            assert read_all(nothing) == b""  # closed, or reset if it hadn't arrived
        ended(server, leader)


def test_requests_that_come_while_it_ends_arent_left_without_a_word(first, tmp_path):
    """Each is answered, or its connection refused or closed before anything is answered; none hangs."""
    outcomes: list[str] = []
    with serving(tmp_path, first.folder, "--workers", 2, "--drain", 1) as server:

        def ask() -> None:
            while server.process.poll() is None:
                try:
                    outcomes.append(str(server.rank(text="whales").status))
                except TimeoutError:
                    outcomes.append("hangs")
                except Exception as error:
                    outcomes.append(type(error).__name__)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(outcomes) > 20, "nobody is answered")
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        for thread in threads:
            thread.join()
    closed = {"ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError", "RemoteDisconnected"}
    allowed = {"200", "503", *closed}
    assert set(outcomes) <= allowed, set(outcomes)
    assert outcomes.count("200") > 20


def test_nothing_is_left_in_the_temporary_folder(first, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with serving(tmp_path, first.folder, "--workers", 2, environment={"TMPDIR": str(temporary)}) as server:
        assert server.rank(text="whales").status == 200
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
    assert left(temporary) == []


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
