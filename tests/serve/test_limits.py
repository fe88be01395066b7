"""What a request may ask for, and what it's told beyond: the field, the value and the range."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from serve.asgi import running
from servers import JSON, NDJSON, Server, meanwhile, pytestmark, read_all, request, serving, statuses, until  # noqa: F401

from sylvan import serve
from sylvan.serve import Limits

CONFIG = """
[limits]
body = 20000
texts = 5
text_length = 1000
k = 50
labels = 3
"""
RANK = "/v1/models/first/rank"


@pytest.fixture(scope="module")
def server(first, numbers, tmp_path_factory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("limits"), first.folder, numbers.folder, config=CONFIG) as server:
        yield server


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"text": "a", "k": 51}, ("'k'", "51", "[1, 50]")),
        ({"text": "a", "k": 10**30}, ("'k'",)),
        ({"texts": ["a"] * 6}, ("'texts'", "a list of at most 5 entries")),
        ({"texts": ["a"] * 3900}, ("'texts'", "5")),
        ({"text": "a" * 1001}, ("'text'", "a string of at most 1,000 characters", "1,001")),
        ({"texts": ["a", "a" * 1001]}, ("'texts[1]'", "1,000", "1,001")),
        ({"text": "a", "allowed": [0, 1, 2, 3]}, ("'allowed'", "a list of at most 3 entries")),
        ({"text": "a", "denied": ["a"] * 4}, ("'denied'", "3")),
        ({"text": "a", "threshold": -0.5}, ("'threshold'", "-0.5")),
        ({"text": "a", "precision": 0}, ("'precision'", "a number in (0, 1]")),
        ({"text": "a", "precision": 2}, ("'precision'", "2")),
        ({"text": "a", "beam": 0}, ("'beam'", "0")),
        ({"text": "a", "probabilities": "yes"}, ("'probabilities'", "yes")),
        ({}, ("text",)),
    ],
)
def test_422_names_the_field_the_value_and_the_range(server, body, words):
    answer = server.ask("POST", RANK, body)
    assert answer.status == 422, answer
    assert all(word in answer.detail for word in words), answer.detail
    assert answer.detail.endswith(".") and len(answer.detail) < 400


def test_limits_are_inclusive(server):
    for body in ({"text": "a", "k": 50}, {"texts": ["a"] * 5}, {"text": "a" * 1000}, {"text": "é🐋" * 500},
                 {"text": "a", "allowed": [0, 1, 2]}, {"text": "a", "threshold": 0}, {"text": "a", "threshold": 1},
                 {"text": "a", "precision": 1}, {"text": "a", "k": 1}, {"text": "a", "beam": 1}):  # fmt: skip
        answer = server.ask("POST", RANK, body)
        assert answer.status == 200, (body, answer)


def test_options_of_bulk_are_checked_too(server):
    for query, words in (("k=51", ("'k'", "51")), ("k=0", ("'k'", "0")), ("k=many", ("'k'", "many")),
                         ("threshold=7", ("threshold", "7")), ("colour=red", ("colour",)),
                         ("precision=0", ("precision",)), ("beam=0", ("beam",)), ("k=1&k=2", ("k",))):  # fmt: skip
        answer = server.ask("POST", f"{RANK}?{query}", b'{"text": "a"}\n', {"Content-Type": NDJSON})
        assert answer.status == 422 and all(word in answer.detail for word in words), answer
    assert server.lines(b'{"text": "a"}\n', k=50).status == 200


def test_lines_have_limits_of_their_own(server):
    lines = [b'{"text": "whales"}', json.dumps({"text": "a" * 1001}).encode(), b'{"text": "whales"}',
             json.dumps({"text": "a " * 15_000}).encode(), b'{"text": "whales"}']  # fmt: skip
    answer = server.lines(b"\n".join(lines) + b"\n")
    rows = answer.lines
    assert answer.status == 200 and [set(row) >= {"labels"} for row in rows] == [True, False, True, False, True]
    assert "1,000" in rows[1]["error"]
    assert rows[3]["error"] == "Line 4: A line of the body must have at most 20,000 bytes."
    many = server.lines(b'{"text": "whales"}\n' * 3000)  # more than a body may have, and than a request may have texts
    assert many.status == 200 and many.body.count(b"labels") == 3000


def test_a_body_that_is_too_long(server):
    body = json.dumps({"text": "a", "denied": ["x" * 21_000]}).encode()
    answer = server.ask("POST", RANK, body)
    assert answer.status == 413 and "at most 20,000 bytes" in answer.detail and len(body) > 20_000
    assert answer.headers["connection"] == "close"
    chunked = request("POST", RANK, b"", f"Content-Type: {JSON}", "Transfer-Encoding: chunked")
    parts = b"".join(
        f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (body[:9000], body[9000:18000], body[18000:])
    )
    assert statuses(server.talk(chunked + parts + b"0\r\n\r\n")) == [413]
    exact = json.dumps({"text": "a"}).encode()
    assert server.ask("POST", RANK, exact + b" " * (20_000 - len(exact))).status == 200
    assert server.ask("POST", RANK, exact + b" " * (20_001 - len(exact))).status == 413


@pytest.mark.parametrize(("kind", "status"), [
    *((kind, 415) for kind in ("text/plain", "application/xml", "multipart/form-data", "", "application/jsonx",
                               "application/x-www-form-urlencoded", "nonsense", "application/json, text/plain")),
    ("application/json; charset=utf-8", 200), ("Application/JSON", 200), ("application/json;charset=UTF-8", 200),
    ("application/x-ndjson; charset=utf-8", 200),
])  # fmt: skip
def test_types_of_bodies(server, kind, status):
    answer = server.ask("POST", RANK, b'{"text": "a"}\n', {"Content-Type": kind})
    assert answer.status == status, answer
    assert status == 200 or JSON in answer.detail


def test_whoever_is_slow_but_not_too_slow_is_answered(server):
    """A pause within a request is no attack."""
    data = request("POST", RANK, b'{"text": "whales"}', f"Content-Type: {JSON}")
    with server.raw() as sock:
        for part in (data[:40], data[40:-5], data[-5:]):
            time.sleep(0.3)
            sock.sendall(part)
        assert statuses(read_all(sock)) == [200]


@pytest.mark.parametrize(("method", "path", "status"), [
    *(("GET", path, 404) for path in ("/nowhere", "/v1", "/v1/models/none", "/page/none.js")),
    *(("POST", f"/v1/models/none/{route}", 404) for route in ("rank", "explain", "beam", "search")),
    *(("POST", f"/v1/models/first/{route}", 403) for route in ("update", "reload")),  # nobody has an admin's key
])  # fmt: skip
def test_what_is_not_there_or_not_allowed(server, method, path, status):
    answer = server.ask(method, path, {"text": "a"} if method == "POST" else None)
    assert answer.status == status and answer.detail, answer
    assert status == 403 or method == "GET" or "none" in answer.detail


def test_rows_of_features(server, numbers):
    row = {"indices": [3, 0, 29], "values": [0.25, 0.5, 1.0]}
    dense = np.zeros((1, 30), np.float32)
    dense[0, row["indices"]] = row["values"]
    top = numbers.model.rank(dense, k=5)
    result = server.rank("numbers", features=[row], k=5).json["results"][0]
    assert result["labels"] == top.labels[0].tolist() and result["scores"] == [float(score) for score in top.scores[0]]
    for indices, values in (
        ([30], [1.0]), ([-1], [1.0]), ([0, 1], [1.0]), ([0.5], [1.0]), ([0], None), ([0], ["a"]), ([2**31], [1.0]),
        ([2**70], [1.0]), ([0], [1e39]), ([0], [None]),
    ):  # fmt: skip
        wrong = {"indices": indices, **({} if values is None else {"values": values})}
        answer = server.rank("numbers", features=[row, wrong])
        assert answer.status == 422, (wrong, answer)
    assert server.rank("numbers", features=[{"indices": [1, 1], "values": [1.0, 2.0]}]).status in (200, 422)
    for text in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        body = f'{{"features": [{{"indices": [0], "values": [{text}]}}]}}'.encode()
        assert server.ask("POST", "/v1/models/numbers/rank", body).status in (400, 422), text


def test_headers_of_every_answer(server):
    asked = [("GET", "/"), ("GET", "/page/page.css"), ("GET", "/v1/models"), ("GET", "/nowhere"), ("GET", "/metrics"),
             ("GET", "/health/ready"), ("GET", "/openapi.json"), ("GET", RANK), ("POST", RANK),
             ("OPTIONS", RANK)]  # fmt: skip
    seen = set()
    for method, path in asked:
        answer = server.ask(
            method, path, None, {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
        )
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control-")], path
        assert "server" not in answer.headers and "x-powered-by" not in answer.headers
        assert answer.headers["x-request-id"] not in seen
        seen.add(answer.headers["x-request-id"])
    page = server.ask("GET", "/").headers
    policy = dict(part.strip().partition(" ")[::2] for part in page["content-security-policy"].split(";"))
    assert (
        policy["default-src"] == "'none'" and policy["script-src"] == "'self'" and policy["frame-ancestors"] == "'none'"
    )
    assert "unsafe" not in page["content-security-policy"] and "http" not in page["content-security-policy"]
    assert page["x-frame-options"] == "DENY" and page["content-type"].startswith("text/html")


def test_requests_have_ids_in_answers_and_log(server):
    answer = server.rank(text="whales", k=3)
    line = server.logged(id=answer.headers["x-request-id"])
    assert (line["method"], line["model"], line["status"], line["rows"]) == ("POST", "first", 200, 1)
    assert line["version"] and line["milliseconds"] > 0
    wrong = server.rank(text="whales", k=0)
    assert server.logged(id=wrong.headers["x-request-id"])["status"] == 422
    long = server.ask("GET", "/v1/models/" + "m" * 30_000)
    assert len(str(server.logged(id=long.headers["x-request-id"]))) < 1000


def test_no_text_of_users_is_in_the_log(server, first):
    """Neither of texts nor of labels, nor of addresses that nobody serves."""
    secret = "xyzzyplugh"
    server.rank(text=secret)
    server.rank(texts=[secret, "a"])
    server.rank(text="a", allowed=[secret])
    server.rank(text="a", branch=secret)
    server.rank(text="a", expected=secret)
    server.rank(text=secret, k=0)
    server.rank(**{secret: secret})
    server.ask("POST", RANK, secret.encode())
    server.ask("POST", RANK, b'{"text": "' + secret.encode())
    server.lines(json.dumps({"text": secret}).encode() + b"\n" + secret.encode() + b"\n", k=3)
    server.ask("POST", "/v1/models/first/explain", {"text": secret, "label": secret})
    server.ask("POST", "/v1/models/first/beam", {"text": secret})
    server.ask("GET", f"/v1/models/first/labels?prefix={secret}")
    server.ask("GET", f"/v1/models/first/tree?node={secret}")
    server.ask("GET", f"/v1/models/{secret}")
    last = server.ask("GET", f"/{secret}?{secret}={secret}", None, {"User-Agent": secret, "Referer": secret})
    server.logged(id=last.headers["x-request-id"])
    assert secret not in json.dumps(server.log)
    assert secret not in server.errors
    assert secret not in server.ask("GET", "/metrics").body.decode()


def test_metrics_dont_grow_with_what_clients_make_up(server):
    """Labels of metrics are of what is served, or memory would be theirs."""
    lines = len(server.ask("GET", "/metrics").body.splitlines())
    for at in range(60):
        server.ask("GET", f"/made-up-{at}")
        server.ask("POST", f"/v1/models/made-up-{at}/rank", {"text": "a"})
        server.ask("GET", f"/v1/models/made-up-{at}")
        server.ask("GET", f"/page/made-up-{at}")
    assert len(server.ask("GET", "/metrics").body.splitlines()) - lines < 50


# More than it can do at a time.


def slow(texts: list[str], rows: int) -> dict[str, Any]:
    """A ranking that takes a second or so."""
    return {"texts": (texts * (rows // len(texts) + 1))[:rows], "k": 50, "beam": 100}


def test_a_full_queue_is_said_with_the_time_to_come_again(first, tmp_path):
    with serving(tmp_path, first.folder, config="[limits]\nqueue = 1\ntexts = 20000\n") as server:
        expected = first.expected(["whales"], 3)
        body = request("POST", RANK, json.dumps(slow(first.texts, 3000)).encode(), f"Content-Type: {JSON}")
        held = server.raw()
        held.sendall(body)
        server.wait_for_arrival(1, 3000)
        answers: list[int] = []

        def ask() -> None:
            with server.connect() as connection:
                for _ in range(10):
                    answer = connection.ask("POST", RANK, {"text": "whales", "k": 3})
                    answers.append(answer.status)
                    if answer.status == 429:
                        assert 0 < int(answer.headers["retry-after"]) <= 60 and answer.detail
                    else:
                        assert answer.json["results"] == expected

        more = server.raw()
        more.sendall(body)
        with meanwhile(*[ask] * 8):
            assert server.ask("GET", "/health/live").status == 200
        assert statuses(read_all(held)) == [200]
        assert statuses(read_all(more)) in ([200], [429])
        assert len(answers) == 80 and set(answers) == {200, 429}, Counter(answers)
        assert server.rank(text="whales").status == 200
        count = server.metric("sylvan_requests_total", status="429")
        assert count >= answers.count(429)
        bulk = server.lines(b'{"text": "whales"}\n' * 2000, k=3)  # which waits its turn, rather than being refused
        assert bulk.lines == expected * 2000


def test_whoever_would_wait_too_long_is_told_so(first):
    with running(serve.app({"first": first.folder}, limits=Limits(seconds=0.05, texts=100_000))) as asking:
        answer = asking("POST", RANK, slow(first.texts, 3000))
        assert answer.status == 503 and answer.headers["retry-after"] and answer.detail
        until(lambda: asking("POST", RANK, {"text": "whales"}).status == 200, "it doesn't recover")
        lines = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in first.texts)
        # Longer than a request may take: lines have all the time that they need.
        bulk = asking("POST", f"{RANK}?k=5", lines, type=NDJSON)
        assert bulk.lines == first.expected(first.texts, 5)
