"""Clients that vanish, crawl, flood and lie: the server goes on answering the others, and its memory stays as it is."""

import functools
import gzip
import http.client
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from servers import JSON, NDJSON, PROBLEM, Server, meanwhile, pytestmark, read_all, request, serving, statuses  # noqa: F401
from waiting import PATIENCE, until, used_seconds

MIB = 1 << 20
RANK = "/v1/models/first/rank"
CONFIG = "[limits]\nslow = 2\ntexts = 20000\n"
RESET = b"\1\0\0\0\0\0\0\0"  # rather than an orderly end


@pytest.fixture(scope="module")
def shared(first, tmp_path_factory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("hostile"), first.folder, config=CONFIG) as server:
        for _ in range(20):  # what it needs once is there
            server.rank(texts=first.texts[:100])
        yield server


@pytest.fixture
def server(shared: Server, first) -> Iterator[Server]:
    """The server that all tests attack; after each it must be as well as before."""
    expected = first.expected(first.texts[:5])
    before, said = shared.memory, len(shared.errors)
    yield shared
    assert shared.process.poll() is None, shared.errors
    answer = shared.rank(texts=first.texts[:5])
    assert answer.status == 200 and answer.json["results"] == expected
    until(lambda: shared.metric("sylvan_queue_requests") == 0, "requests wait without an end")
    until(lambda: shared.memory - before < 60 * MIB, lambda: f"{before >> 20} MiB have become {shared.memory >> 20}")
    assert "Traceback" not in shared.errors[said:], shared.errors[said:][:3000]


def post(body: bytes, *headers: str, kind: str = JSON) -> bytes:
    return request("POST", RANK, body, f"Content-Type: {kind}", *headers)


def chunked(kind: str, path: str = RANK, close: bool = False) -> bytes:
    """The head of a request whose body comes in chunks."""
    return request("POST", path, b"", f"Content-Type: {kind}", "Transfer-Encoding: chunked", close=close)


def linger(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


# Those that vanish.


def in_mid_request(sock: socket.socket, turn: int, chosen: random.Random) -> None:
    whole = post(json.dumps({"text": "whales " * 1000}).encode())
    sock.sendall(whole[: chosen.randrange(len(whole))])


def before_the_answer(sock: socket.socket, turn: int, chosen: random.Random) -> None:
    sock.sendall(post(json.dumps({"texts": ["whales and ships"] * 100, "k": 1000}).encode()))
    if turn % 4 > 1:
        sock.recv(100)


def amid_many_requests(sock: socket.socket, turn: int, chosen: random.Random) -> None:
    """Whose answers are being written one after the other; the log isn't filled with tracebacks for it."""
    with suppress(OSError):
        sock.sendall(request("GET", ("/health/live", "/openapi.json")[turn // 2 % 2], close=False) * 300)
        if turn % 3:
            sock.recv(1000)
        time.sleep(chosen.random() * 0.005)


@pytest.mark.parametrize(("when", "times"), [(in_mid_request, 100), (before_the_answer, 20), (amid_many_requests, 60)])
def test_clients_vanish(server, when, times):
    chosen = random.Random(0)
    for turn in range(times):
        with server.raw() as sock:
            when(sock, turn, chosen)
            if turn % 2:
                linger(sock)
    assert server.ask("GET", "/health/live").status == 200


def test_bulk_clients_vanish(server, first):
    """What they have sent isn't all ranked for nobody."""
    lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in first.texts)
    for turn in range(10):
        with server.raw() as sock:
            sock.sendall(chunked(NDJSON, f"{RANK}?k=10") + f"{len(lines):x}\r\n".encode() + lines + b"\r\n")
            if turn % 2:
                sock.recv(5000)
            linger(sock)

    def rests() -> bool:
        """For a while it takes next to nothing of a processor's time."""
        before = used_seconds(server.process.pid)
        time.sleep(0.5)
        return used_seconds(server.process.pid) - before < 0.15

    begun = used_seconds(server.process.pid)
    until(rests, "it works without an end")
    assert used_seconds(server.process.pid) - begun < 10, "it works on for nobody"


def test_a_bulk_client_that_doesnt_read_holds_nobody_up(server, first):
    """The server takes no more than it can answer, and the whole of it later."""
    texts = first.texts[:500]
    lines = b"".join(json.dumps({"text": f"{text:<4000}"}).encode() + b"\n" for text in texts)
    memory = server.memory
    with server.raw() as sock:
        size = f"Content-Length: {10 * len(lines)}"
        sock.sendall(request("POST", f"{RANK}?k=100", b"", f"Content-Type: {NDJSON}", size))
        sock.settimeout(1.0)
        data = memoryview(lines * 10)
        sent = 0
        with suppress(TimeoutError):
            while sent < len(data):
                sent += sock.send(data[sent : sent + (1 << 16)])
        assert sent < len(data), "everything was taken, though nothing was read"
        assert server.rank(text="whales").status == 200
        assert server.memory - memory < 60 * MIB
        time.sleep(2.5)  # longer than a slow sender may take: it's the server that doesn't read
        received = bytearray()
        sock.setblocking(False)
        last = time.monotonic() + PATIENCE
        while time.monotonic() < last:
            progress = False
            with suppress(BlockingIOError):
                if sent < len(data):
                    sent += sock.send(data[sent : sent + (1 << 16)])
                    progress = True
            with suppress(BlockingIOError):
                part = sock.recv(1 << 18)
                progress = True
                received += part
                if not part:
                    break
            if not progress:
                time.sleep(0.001)
    n_rows = received.count(b'{"labels"')
    assert statuses(bytes(received[:200])) == [200] and n_rows == 10 * len(texts), (sent, len(data), n_rows)


# Those that crawl.


def trickle(sock: socket.socket, data: bytes, pause: float) -> bytes:
    """Send byte by byte until the server closes; what it said."""
    sock.settimeout(pause)
    heard = b""
    for at in range(len(data)):
        with suppress(TimeoutError):
            try:
                sock.sendall(data[at : at + 1])
                part = sock.recv(1000)
            except (BrokenPipeError, ConnectionResetError):
                return heard
            heard += part
            if not part:
                return heard
    sock.settimeout(PATIENCE)
    return heard + read_all(sock)


def crawlers() -> dict[str, tuple[bytes, bytes]]:
    """What each sends at once, and what it sends byte by byte then."""
    head, _, body = post(json.dumps({"text": "whales " * 300}).encode()).partition(b"\r\n\r\n")
    bulk = post(b"x", kind=NDJSON).replace(b"Content-Length: 1", b"Content-Length: 100000")[:-1]
    return {
        "headers": (b"", b"GET /health/live HTTP/1.1\r\nHost: " + b"x" * 1000),
        "a body": (head + b"\r\n\r\n", body),
        "lines": (bulk, b'{"text": "whales"}\n' * 100),
        "chunks": (chunked(JSON), b"1\r\n \r\n" * 200),
        "nothing": (b"", b""),
    }


def test_those_that_crawl_are_ended_and_hold_nobody_up(server):
    """Five ways at once, beside a crowd that stops in mid-word; a kept connection may be silent between requests."""
    heard: dict[str, tuple[bytes, float]] = {}

    def crawl(name: str, at_once: bytes, slowly: bytes) -> None:
        with server.raw() as sock:
            began = time.monotonic()
            sock.sendall(at_once)
            heard[name] = trickle(sock, slowly, 0.05), time.monotonic() - began

    ways = crawlers()
    with server.connect() as kept:
        assert kept.ask("GET", "/health/live").status == 200
        crowd = [server.raw() for _ in range(300)]
        for sock in crowd:
            sock.sendall(b"POST ")
        with meanwhile(*(functools.partial(crawl, name, *way) for name, way in ways.items())):
            for _ in range(50):
                assert server.rank(text="whales").status == 200
        for sock in crowd:
            sock.settimeout(PATIENCE)
            assert statuses(read_all(sock)) in ([], [408])
            sock.close()
        assert kept.ask("GET", "/health/live").status == 200
    assert heard.keys() == ways.keys()
    for name, (said, seconds) in heard.items():
        assert seconds > 1, (name, said)
        assert name == "lines" or statuses(said) in ([], [408]), (name, said)


def test_a_body_that_is_cut_is_told(server):
    heard = server.talk(post(BODY)[:-8])
    assert statuses(heard) == [408] and PROBLEM.encode() in heard, heard
    assert json.loads(heard.partition(b"\r\n\r\n")[2])["detail"].endswith(".")


# Those that flood.


def test_a_body_of_10_gigabytes(server):
    head = request("POST", RANK, b"", f"Content-Type: {JSON}", "Content-Length: 10000000000")
    with server.raw() as sock:
        sock.sendall(head)
        sent = 0
        with suppress(OSError):
            for _ in range(1000):  # it needn't be read to be refused
                sock.sendall(bytes(MIB))
                sent += MIB
        heard = read_all(sock)
    assert sent < 200 * MIB
    assert statuses(heard) in ([413], [])  # a reset may have overtaken it
    assert statuses(server.talk(head)) == [413]


def flood(server: Server, head: bytes, n: int) -> tuple[bytes, int, int]:
    """Send a megabyte again and again; what was heard, how many were taken, and the most memory that it took."""
    chunk, n_sent, most, before = b"100000\r\n" + b"a" * MIB + b"\r\n", 0, 0, server.memory
    with server.raw() as sock:
        sock.sendall(head)
        with suppress(OSError):
            for n_sent in range(n):
                sock.sendall(chunk)
                most = most if n_sent % 8 else max(most, server.memory - before)
            sock.sendall(b"0\r\n\r\n")
        return read_all(sock), n_sent, most


def test_chunks_without_end(server):
    heard, n_sent, _ = flood(server, chunked(JSON), 300)
    assert n_sent < 200 and statuses(heard) in ([413], [])


def test_a_bulk_line_without_end(server):
    """Bulk has no limit as a whole, but each line has."""
    heard, _, most = flood(server, chunked(NDJSON, close=True), 100)
    assert most < 60 * MIB, f"it holds {most >> 20} MiB of a line of 100"
    assert statuses(heard[:500]) in ([413], [200], [])
    assert statuses(heard[:500]) != [200] or b'"error"' in heard


@pytest.mark.parametrize("kind", [JSON, NDJSON])
def test_a_small_body_that_unpacks_to_a_large_one(server, kind):
    """Hundreds of megabytes of zeros are one, packed."""
    body = gzip.compress(bytes(16 * MIB), 1) * 20
    assert len(body) < 2 * MIB
    memory = server.memory
    answer = server.ask("POST", RANK, body, {"Content-Type": kind, "Content-Encoding": "gzip"})
    assert answer.status == (413 if kind == JSON else 200) and b"must have at most" in answer.body
    assert server.memory - memory < 60 * MIB


HUGE = {  # a reset may have overtaken the answer where none may be heard
    "a header": (request("GET", "/health/live", b"", "X-Long: " + "x" * (5 * MIB)), {431, 400, 0}),
    "many headers": (request("GET", "/health/live", b"", *(f"X-{at}: y" for at in range(100_000))), {431, 400, 0}),
    "an address": (request("GET", "/v1/models/" + "x" * 4_000), {404, 414, 431}),
    "a longer address": (request("GET", "/v1/models/" + "x" * 60_000), {404, 414, 431}),
    "an address of megabytes": (request("GET", "/v1/models/" + "x" * (3 * MIB)), {414, 431, 400, 0}),
    "a query": (request("GET", "/v1/models/first/labels?prefix=" + "x" * 50_000), {200, 422, 414}),
} | {
    f"many parameters of {path}": (
        request("GET", path + "?" + "&".join(f"p{at}=1" for at in range(8000))), set(range(200, 500)))
    for path in ("/v1/models", "/v1/models/first/labels", RANK)
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_huge_headers_and_addresses(server, name):
    data, allowed = HUGE[name]
    found = statuses(server.talk(data))
    assert (found or [0])[0] in allowed and len(found) < 2, found


def test_many_connections_are_opened_and_left(server):
    for _ in range(2):
        crowd = [server.raw() for _ in range(200)]
        assert server.ask("GET", "/health/live").status == 200
        for sock in crowd:
            sock.close()


def test_requests_without_answers_read(server):
    """Thousands of requests over one connection, whose answers nobody reads."""
    one = request("GET", "/openapi.json", close=False)
    memory = server.memory
    with server.raw() as sock:
        sock.settimeout(1)
        sent = 0
        with suppress(OSError):
            for _ in range(20_000):
                sock.sendall(one)
                sent += 1
        assert server.ask("GET", "/health/live").status == 200
        assert server.memory - memory < 60 * MIB, f"{(server.memory - memory) >> 20} MiB after {sent} requests"


# Those that lie.

UTF16 = '{"text": "whales"}'.encode("utf-16")
BODIES: dict[str, tuple[bytes, set[int]]] = {
    "empty": (b" ", {400, 422}),
    "no JSON": (b"whales", {400}),
    "cut off": (b'{"text": "wha', {400}),
    "two values": (b'{"text": "a"}{"text": "b"}', {400}),
    "a tail": (b'{"text": "a"} x', {400}),
    "bad UTF-8 in a text": (b'{"text": "\xff\xfe\xc0\x80"}', {400, 422}),
    "an overlong slash": (b'{"text": "\xc0\xaf"}', {400, 422}),
    "a surrogate as UTF-8": (b'{"text": "\xed\xa0\x80"}', {400, 422}),
    "bad UTF-8 in a name": (b'{"t\xffxt": "a"}', {400, 422}),
    "bad UTF-8 outside": (b'\xff{"text": "a"}', {400}),
    "UTF-16": (UTF16, {400}),
    "a byte order mark": (b'\xef\xbb\xbf{"text": "whales"}', {200, 400}),
    "a lone high surrogate": (b'{"text": "\\ud800"}', {200, 400, 422}),
    "a lone low surrogate": (b'{"text": "\\udc00 whales"}', {200, 400, 422}),
    "surrogates the wrong way round": (b'{"text": "\\udc00\\ud800"}', {200, 400, 422}),
    "NUL": (b'{"text": "a\\u0000b"}', {200}),
    "a raw control character": (b'{"text": "a\x01b"}', {400}),
    "deep lists": (b"[" * 100_000 + b"]" * 100_000, {400, 422}),
    "deep lists without an end": (b"[" * 100_000, {400, 422}),
    "deep in a text's place": (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {400, 422}),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, {400, 422}),
    "deep in an unknown field": (b'{"text": "a", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", {400, 422}),
    "NaN": (b'{"text": "a", "threshold": NaN}', {400, 422}),
    "Infinity": (b'{"text": "a", "threshold": Infinity}', {400, 422}),
    "1e999": (b'{"text": "a", "threshold": 1e999}', {400, 422}),
    "-1e999 for k": (b'{"text": "a", "k": -1e999}', {400, 422}),
    "a huge k": (b'{"text": "a", "k": 1' + b"0" * 4000 + b"}", {400, 422}),
    "k as a string": (b'{"text": "a", "k": "5"}', {422}),
    "k as a float": (b'{"text": "a", "k": 5.5}', {422}),
    "k as a whole float": (b'{"text": "a", "k": 5.0}', {200, 422}),
    "k as a bool": (b'{"text": "a", "k": true}', {422}),
    "k of 0": (b'{"text": "a", "k": 0}', {422}),
    "k below 0": (b'{"text": "a", "k": -1}', {422}),
    "k of 64 bits": (b'{"text": "a", "k": 9223372036854775808}', {422}),
    "a number for a text": (b'{"text": 5}', {422}),
    "null for a text": (b'{"text": null}', {422}),
    "a list": (b"[]", {422}),
    "a string": (b'"text"', {422}),
    "null": (b"null", {422}),
    "nothing asked": (b"{}", {422}),
    "text and texts": (b'{"text": "a", "texts": ["b"]}', {422}),
    "an unknown field": (b'{"text": "a", "colour": "red"}', {422}),
    "the same field twice": (b'{"text": "a", "text": "b"}', {200, 400, 422}),
    "texts of other types": (b'{"texts": ["a", 5]}', {422}),
    "texts, nested": (b'{"texts": [["a"]]}', {422}),
    "features for a text model": (b'{"features": [{"indices": [0], "values": [1.0]}]}', {422}),
    "a threshold above 1": (b'{"text": "a", "threshold": 1.5}', {422}),
    "a precision of 0": (b'{"text": "a", "precision": 0}', {422}),
    "an unknown rule": (b'{"text": "a", "expected": "f99"}', {422}),
    "two rules": (b'{"text": "a", "expected": "f1", "threshold": 0.5}', {422}),
    "an unknown label": (b'{"text": "a", "allowed": ["no such label"]}', {422}),
    "an id out of range": (b'{"text": "a", "allowed": [2000000000]}', {422}),
    "an id of 64 bits": (b'{"text": "a", "denied": [18446744073709551616]}', {422}),
    "an id below 0": (b'{"text": "a", "denied": [-1]}', {422}),
    "nothing allowed": (b'{"text": "a", "allowed": []}', {200, 422}),
    "a branch that isn't there": (b'{"text": "a", "branch": "7/9.9"}', {422}),
    "no branch": (b'{"text": "a", "branch": "../../etc/passwd"}', {422}),
    "a branch of huge numbers": (b'{"text": "a", "branch": "0/1.99999999999999999999999"}', {422}),
    "a branch of other digits": ('{"text": "a", "branch": "0/1.\u0661\u0664"}'.encode(), {422}),
    "a branch with a minus": (b'{"text": "a", "branch": "0/0.-1"}', {422}),
    "a beam of 0": (b'{"text": "a", "beam": 0}', {422}),
    "a huge beam": (b'{"text": "a", "beam": 1000000000000}', {422}),
    "an unknown tail": (b'{"text": "a", "tail": "dragon"}', {422}),
    "explain as a string": (b'{"text": "a", "explain": "yes"}', {422}),
    "no texts": (b'{"texts": []}', {200, 422}),
    "an empty text": (b'{"text": ""}', {200, 422}),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_lies(shared, name):
    body, allowed = BODIES[name]
    answer = shared.ask("POST", RANK, body)
    assert answer.status in allowed, answer
    if answer.status != 200:
        assert answer.headers["content-type"] == PROBLEM
        assert 10 < len(answer.detail) < 2000
        answer.body.decode("utf-8")
    else:
        assert len(answer.json["results"]) == (0 if name == "no texts" else 1)
    assert answer.headers["x-request-id"]


def test_other_bodies_that_lie(server):
    """What all routes with a body have in common."""
    for path in ("explain", "beam", "search", "update"):
        for name, (body, allowed) in BODIES.items():
            answer = server.ask("POST", f"/v1/models/first/{path}", body)
            assert answer.status < 500, (path, name, answer)
            if {400} == allowed:
                assert answer.status in (400, 401, 403, 422), (path, name, answer)


def test_bulk_lines_that_lie(server, first):
    """Each gets an error in its place, which says where, and the lines around it their answers."""
    expected = first.expected(["whales"], 3)[0]
    lies = {name: body for name, (body, _) in BODIES.items() if b"\n" not in body and name not in ("UTF-16", "empty")}
    lies |= {"another field": b'{"txt": "a"}', "too long": b"x" * 3000}
    lines = [line for lie in lies.values() for line in (b'{"text": "whales"}', lie)]
    answer = server.lines(b"\n".join(lines), k=3)  # the last without an end of its own
    rows = answer.lines
    assert answer.status == 200 and len(rows) == len(lines)
    for at, (name, lie) in enumerate(lies.items()):
        assert rows[2 * at] == expected, name
        row = rows[2 * at + 1]
        assert set(row) - {"unknown"} in ({"error"}, {"labels", "scores"}), (name, row)
        if "error" in row:
            assert row["error"].startswith(f"Line {2 * at + 2}: ") and row["error"].endswith(".")
        else:
            assert b'"text"' in lie and {400} != BODIES[name][1], (name, row)
    assert rows[2 * list(lies).index("no JSON") + 1]["error"].partition(": ")[2].startswith("The body must be JSON")
    wanted = "The 'text' field must be a string of at most 1,000,000 characters. Got 5 instead."
    assert rows[2 * list(lies).index("a number for a text") + 1]["error"].endswith(wanted)


BODY = b'{"text": "whales"}'
NO_HTTP = [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0" * 1000,
           b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 50_000, b"SSH-2.0-OpenSSH\r\n",
           random.Random(1).randbytes(10_000)]  # fmt: skip
# What two programs could read as two different requests is refused.
CONTRADICTING = [
    post(BODY, "Transfer-Encoding: chunked"), post(BODY, "Content-Length: 5"),
    *(request("POST", RANK, b"", f"Content-Length: {size}") for size in ("-5", "1e3", "9" * 23)),
    chunked(JSON, close=True) + b"zz\r\n\r\n", chunked(JSON, close=True) + b"FFFFFFFFFFFFFFFFF\r\n\r\n",
]  # fmt: skip


def test_bytes_that_arent_http_and_lengths_that_contradict(server):
    for data in NO_HTTP + CONTRADICTING:
        heard = server.talk(data)
        found = statuses(heard)
        assert found or data in NO_HTTP, data[:300]
        assert all(400 <= status < 500 or (status == 505 and data in NO_HTTP) for status in found), (data[:300], found)
        assert not found or PROBLEM.encode() in heard, heard


def test_http_1_0(server):
    data = f"POST {RANK} HTTP/1.0\r\nContent-Type: {JSON}\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY
    answer = server.talk(data)  # closed without being asked
    assert statuses(answer) == [200] and b"transfer-encoding" not in answer.lower()
    assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["results"]) == 1
    assert statuses(server.talk(b"GET /health/live HTTP/1.0\r\n\r\n")) == [200]
    # Lines of an unknown number need a chunked answer, which HTTP/1.0 hasn't got: it is said so.
    bulk = server.talk(data.replace(JSON.encode(), NDJSON.encode()))
    assert statuses(bulk) == [505] and b"transfer-encoding" not in bulk.lower()


def test_pipelining(server):
    """Answers come in the order of the requests, those that are at fault too."""
    texts = [f"whales {at}" for at in range(30)]
    asked = []
    for at, text in enumerate(texts):
        body = json.dumps({"text": text, "k": at % 5}).encode()
        asked.append(request("POST", RANK, body, f"Content-Type: {JSON}", f"X-Request-ID: r-{at}",
                             close=at == len(texts) - 1))  # fmt: skip
    answer = server.talk(b"".join(asked))
    assert statuses(answer) == [200 if at % 5 else 422 for at in range(30)]
    ids = [line.split()[1] for line in answer.splitlines() if line.lower().startswith(b"x-request-id:")]
    assert len(ids) == 30 and len(set(ids)) == 30


def test_expect_100_continue(server):
    with server.raw() as sock:
        sock.sendall(post(BODY, "Expect: 100-continue").removesuffix(BODY))
        assert b" 100 " in sock.recv(100)
        sock.sendall(BODY)
        assert statuses(read_all(sock)) == [200]


UPGRADE = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAB"]
SMUGGLED = request("GET", "/nowhere")


@pytest.mark.parametrize("body", [BODY, b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY), SMUGGLED])
@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_who_asks_for_an_upgrade_is_answered_without(server, body, pause):
    """As Java's client does with each request. What follows the headers is the body, whenever it comes."""
    length = f"Content-Length: {len(body)}" if body in (BODY, SMUGGLED) else "Transfer-Encoding: chunked"
    head = request("POST", RANK, b"", f"Content-Type: {JSON}", length, *UPGRADE, close=False)
    with server.raw() as sock:
        for part in (head[:-50], head[-50:] + body[:5], body[5:] + head + body + SMUGGLED):
            sock.sendall(part)
            time.sleep(pause)
        heard = read_all(sock)
    assert statuses(heard) == [400 if body == SMUGGLED else 200] * 2 + [404], heard
    assert statuses(server.talk(request("CONNECT", "localhost:443", b"", *UPGRADE) + SMUGGLED)) == [400]


ROUTES = {f"/v1/models/first/{route}": "POST" for route in ("rank", "explain", "beam", "search", "update", "reload")}
ROUTES |= dict.fromkeys(("/", "/v1/models", "/v1/models/first", "/health/live", "/metrics", "/nowhere"), "GET")


@pytest.mark.parametrize("path", ROUTES)
def test_methods(server, path):
    get, allowed = server.ask("GET", path), ROUTES[path]
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "PROPFIND", "POST" if allowed == "GET" else "GET"):
        answer = server.ask(method, path)
        assert answer.status == (404 if path == "/nowhere" else 405), (method, answer)
        assert answer.detail and "x-request-id" in answer.headers
        assert path == "/nowhere" or allowed in answer.headers["allow"]
    assert statuses(server.talk(request("BREW", path)))[0] in (400, 404, 405)
    head = server.talk(request("HEAD", path))
    assert statuses(head) in ([get.status], [405])
    assert head.partition(b"\r\n\r\n")[2] == b"", "HEAD has no body"


PATHS = [f"/page/{path}" for path in (
    "..%2f..%2fetc/passwd", "../../etc/passwd", "%2e%2e/%2e%2e/__init__.py", "..%5c..%5capp.py", "/etc/passwd",
    "%2fetc%2fpasswd", "....//....//etc/passwd", "page.css%00.js", "%00", "", ".", "..", "__pycache__", "__init__.py",
    "index.html%20", "a" * 5000, "%ff%fe", "page.css/", "./page.css/..", "CON", "C:%5cwindows", "%c0%ae%c0%ae/app.py",
)] + [f"/v1/models/{path}" for path in (
    "..%2f..%2fetc", "%2e%2e", "first%00", "%00", "first/../../etc", "m" * 3000, "first%2frank", "FIRST", "first%20",
    "%F0%9F%90%8B", "first/files", "%", "first/rank/../../../../etc/passwd",
)] + ["//v1/models", "/v1//models", "/%", "/%zz", "/.env", "/.git/config", "/etc/passwd"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_nothing_from_a_client_becomes_a_path(shared, path):
    heard = shared.talk(request("GET", path))
    head, _, body = heard.partition(b"\r\n\r\n")
    found = statuses(head)
    if found == [200]:  # the client of a test may have said the same as a plain address
        assert path in ("//v1/models", "/v1//models") and body.startswith(b'{"models"'), heard[:300]
        return
    assert found in ([404], [400], [405], [307], [308]), (path, heard[:300])
    assert b"root:" not in heard and b"import " not in heard
    if found[0] in (307, 308):
        assert b"location: http" not in head.lower() or b"location: http://localhost" in head.lower()
    assert str(shared.process.pid).encode() not in body and b"/src/sylvan" not in body


def test_an_absolute_address_and_another_host(server):
    """A name in the Host header goes nowhere: no redirect leads to it."""
    head = b" HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n"
    for address in (b"http://elsewhere.example/health/live", b"/v1/models/", b"/page"):
        data = b"GET " + address + head
        heard = server.talk(data)
        assert statuses(heard)[0] < 500
        assert b"elsewhere" not in heard.lower(), heard


def test_headers_that_would_write_headers(server):
    """What a client calls its request may come back, but never as a line of its own, nor in the log as one."""
    answer = server.ask("GET", "/health/live", None, {"X-Request-ID": "a" * 10_000})
    assert answer.status == 200 and len(answer.headers["x-request-id"]) < 300
    for value in (b"a\rb", b"a\x00b", b"\xff\xfe", b'"}\\n{"time": 1', b"<script>", b"\x1b[31m"):
        heard = server.talk(
            b"GET /health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-ID: " + value + b"\r\n\r\n"
        )
        assert statuses(heard) in ([200], [400]), (value, heard)
        assert b"\x1b" not in heard and b"\x00" not in heard
    server.talk(b"GET /\x1b[31m HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert all(isinstance(line, dict) and "\x1b" not in json.dumps(line) for line in server.log)
    assert "\x1b" not in server.errors


def test_odd_query_strings(server):
    for query in (
        "prefix=%ff%fe", "prefix=%00", "prefix=a&prefix=b", "prefix", "limit=", "limit=1e9", "limit=-1", "limit=0",
        "limit=NaN", "limit=99999999999999999999", "limit=%D9%A1", "prefix=%ED%A0%80", "limit=5;prefix=a", "&&&", "=",
        "%00=1", "prefix=" + "%F0%9F%90%8B" * 1000,
    ):  # fmt: skip
        answer = server.ask("GET", f"/v1/models/first/labels?{query}")
        assert answer.status in (200, 400, 422), (query, answer)
        answer = server.ask("GET", f"/v1/models/first/tree?{query.replace('limit', 'depth').replace('prefix', 'node')}")
        assert answer.status in (200, 400, 404, 422), (query, answer)
        answer = server.lines(b'{"text": "whales"}\n', k=query[:20])
        assert answer.status in (200, 400, 422), (query, answer)


def test_expensive_requests_hold_nobody_up(server, first):
    """The largest request that the limits allow, many times; small ones in between are still answered."""
    body = json.dumps({"texts": ["whales and ships " * 20_000] * 10, "k": 1000}).encode()
    assert len(body) < 8 << 20
    crowd = [server.raw() for _ in range(3)]
    for sock in crowd:
        sock.sendall(post(body))
    for _ in range(20):
        assert server.ask("GET", "/health/live").status == 200
    for sock in crowd:
        found = statuses(read_all(sock))
        assert found and found[0] in (200, 429, 503), found
        sock.close()


def test_an_expensive_answer_in_words(server, first):
    """Explanations, whose cost grows with the words: within the time limit, or told so."""
    words = " ".join(first.texts)[:150_000]
    for path, body in (
        ("explain", {"label": 0, "features": 1000}),
        ("beam", {"beam": 100_000}),
        ("rank", {"explain": True, "k": 1000}),
    ):
        answer = server.ask("POST", f"/v1/models/first/{path}", {"text": words, **body})
        assert answer.status in (200, 422, 503), answer
        with suppress(http.client.HTTPException):
            assert server.ask("GET", "/health/live").status == 200
