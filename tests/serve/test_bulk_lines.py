"""Bulk rankings: lines in and out in their order, in memory that stays as it is; an event loop that stays free."""

import functools
import json
import socket
import threading
import time
from collections.abc import Iterator
from statistics import median

import pytest
from servers import NDJSON, Server, meanwhile, pytestmark, read_all, request, serving, statuses, until  # noqa: F401

MIB = 1 << 20
RANK = "/v1/models/first/rank"
BUSY = 0.5  # seconds for which the server is kept at work


@pytest.fixture(scope="module")
def server(first, tmp_path_factory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("bulk"), first.folder) as server:
        yield server


def as_lines(texts: list[str]) -> bytes:
    return b"".join(json.dumps({"text": text}, ensure_ascii=False).encode() + b"\n" for text in texts)


class Stream:
    """A bulk ranking: a thread sends while another reads."""

    def __init__(self, server: Server, query: str) -> None:
        self.sock = server.raw()
        self.sock.sendall(
            request("POST", f"{RANK}?{query}", b"", f"Content-Type: {NDJSON}", "Transfer-Encoding: chunked")
        )

    def run(self, parts: list[bytes], times: int = 1) -> Iterator[bytes]:
        """The answers' lines, while parts are sent."""
        chunks = [f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts]

        def send() -> None:
            for _ in range(times):
                for chunk in chunks:
                    self.sock.sendall(chunk)
            self.sock.sendall(b"0\r\n\r\n")

        sender = threading.Thread(target=send)
        sender.start()
        with self.sock, self.sock.makefile("rb", 1 << 20) as stream:
            assert stream.readline().startswith(b"HTTP/1.1 200 ")
            while stream.readline() != b"\r\n":
                pass
            rest = b""
            while size := int(stream.readline(), 16):
                lines = (rest + stream.read(size)).split(b"\n")
                rest = lines.pop()
                yield from lines
                stream.readline()
        assert not rest
        sender.join()


def test_lines_are_as_the_model_ranks_them(server, first):
    texts = [f"{text} {at % 7}" for at in range(2) for text in first.texts]
    data = as_lines(texts)
    cut = [data[at : at + 10_007] for at in range(0, len(data), 10_007)]  # lines are cut anywhere
    rows = [json.loads(line) for line in Stream(server, "k=5").run(cut)]
    assert rows == first.expected(texts, 5)


def test_memory_stays_as_it_is_while_100_megabytes_pass(server, first):
    """Half of them in, half of them out."""
    texts = [f"{text:<4000}" for text in first.texts[:1000]]
    list(Stream(server, "k=70").run([as_lines(texts)]))
    before = most = server.memory
    n = size = 0
    for line in Stream(server, "k=70").run([as_lines(texts)], 12):
        n += 1
        size += len(line)
        if n % 1000 == 0:
            most = max(most, server.memory)
    assert n == 12_000 and size > 40_000_000
    assert most - before < 25 * MIB, f"{before >> 20} MiB became {most >> 20}"


def test_other_ends_of_lines(server, first):
    expected = first.expected(["whales", "ships"], 3)
    for data in (
        b'{"text":"whales"}\r\n{"text":"ships"}\r\n',
        b'{"text":"whales"}\n\n\n{"text":"ships"}',
        b'\n{"text":"whales"}\n  \n{"text":"ships"}\n\n',
    ):
        answer = server.lines(data, k=3)
        assert answer.status == 200 and answer.lines == expected, answer
    for data in (b"", b"\n", b"\n\n \r\n"):
        heard = server.talk(
            request("POST", RANK, data, f"Content-Type: {NDJSON}", *([] if data else ["Content-Length: 0"]))
        )
        assert statuses(heard) == [200] and b"labels" not in heard and b"error" not in heard
    assert b"Line 3: " in server.lines(b'{"text": "whales"}\n\n{').body, "empty lines count too"
    paragraph = "a\u2028b\x85c"  # which str.splitlines would cut
    answer = server.lines(json.dumps({"text": paragraph}, ensure_ascii=False).encode(), k=3)
    assert answer.lines == first.expected([paragraph], 3)


def test_options_of_bulk(server, first):
    texts = first.texts[:30]
    for query, body in (
        ("k=7&probabilities=true", {"k": 7, "probabilities": True}), ("threshold=0.2", {"threshold": 0.2}),
        ("expected=f1", {"expected": "f1"}), ("precision=0.5", {"precision": 0.5}), ("beam=3&k=2", {"beam": 3, "k": 2}),
    ):  # fmt: skip
        rows = [json.loads(line) for line in Stream(server, query).run([as_lines(texts)])]
        assert rows == server.rank(texts=texts, **body).json["results"], query


def test_a_cut_off_bulk_body_isnt_taken_for_a_whole_one(server):
    """A client that counts lines sees what has come; one that only reads to the end must see that there is none."""
    with server.raw() as sock:
        head = request("POST", RANK, b"", f"Content-Type: {NDJSON}", "Content-Length: 1000000", close=False)
        sock.sendall(head + b'{"text": "whales"}\n' * 600)
        sock.shutdown(socket.SHUT_WR)
        heard = read_all(sock)
    assert not heard.endswith(b"0\r\n\r\n")


def test_the_event_loop_stays_free_while_rankings_run(server, first):
    """Others are answered while the engine works: many times during each long ranking, not once after it.

    Soon, too: but how long it takes is compared with the rankings, as both take longer on a busy machine.
    """
    texts = [" ".join(first.texts[at : at + 300]) for at in range(100)]
    long = json.dumps({"texts": texts, "k": 200, "beam": 100}).encode()
    over = threading.Event()
    ranked: list[float] = []  # seconds

    def rank() -> None:
        with server.connect() as connection:
            while not over.is_set():
                began = time.monotonic()
                assert connection.ask("POST", RANK, long).status == 200
                ranked.append(time.monotonic() - began)

    def stream() -> None:
        while not over.is_set():
            assert sum(1 for _ in Stream(server, "k=100").run([as_lines(first.texts)])) == len(first.texts)

    times = []
    with meanwhile(rank, rank, rank, stream), server.connect() as connection:
        try:
            last = time.monotonic() + BUSY
            while time.monotonic() < last or len(ranked) < 3:
                began = time.monotonic()
                assert connection.ask("GET", "/health/live").status == 200
                times.append(time.monotonic() - began)
                time.sleep(0.005)
        finally:
            over.set()
    assert len(times) > 2 * len(ranked), (len(times), len(ranked))
    assert median(times) < median(ranked) / 4, sorted(times)[:: max(1, len(times) // 10)]


def test_many_clients_at_once_each_get_their_own_answers(server, first):
    """Requests are ranked together; nobody may get another's answer, nor one with another's options."""
    expected = {k: first.expected(first.texts[:200], k) for k in (1, 3, 10)}

    def ask(seed: int) -> None:
        with server.connect() as connection:
            for turn in range(20):
                at, k = (seed * 31 + turn * 7) % 200, (1, 3, 10)[(seed + turn) % 3]
                answer = connection.ask("POST", RANK, {"text": first.texts[at], "k": k})
                assert answer.status == 200 and answer.json["results"] == [expected[k][at]], (at, k, answer)
                if turn % 10 == 9:
                    body = {"text": first.texts[at], "allowed": ["no label"]}
                    assert connection.ask("POST", RANK, body).status == 422

    with meanwhile(*(functools.partial(ask, seed) for seed in range(8))):
        pass
    assert server.metric("sylvan_batch_rows_count", model="first") > 0
    until(lambda: server.metric("sylvan_queue_requests") == 0, "nobody waits, and yet somebody is counted")
