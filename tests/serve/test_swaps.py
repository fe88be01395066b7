"""A model that is replaced while it is served: not one request fails, and each answer is of one version."""

from __future__ import annotations

import functools
import json
import random
import shutil
import signal
import threading
from collections import Counter
from typing import Any

import pytest
from servers import NDJSON, Answer, Connection, Server, checksum, meanwhile, pytestmark, request, serving  # noqa: F401
from waiting import until

N_TEXTS, K = 60, 5


class Clients:
    """Threads that ask without a pause over connections that they keep; answers are checked afterwards."""

    def __init__(self, server: Server, texts: list[str], n: int = 4) -> None:
        self.server, self.texts = server, texts
        self.answers: list[tuple[Answer, list[int], list[Any]]] = []
        self._over = threading.Event()
        works = [self._one_by_one] * (n - 2) + [self._several, self._bulk]
        self._at_work = meanwhile(*(functools.partial(self._run, work, seed) for seed, work in enumerate(works)))

    def __enter__(self) -> Clients:
        self._at_work.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._over.set()
        self._at_work.__exit__(*error)

    def _run(self, work: Any, seed: int) -> None:
        chosen = random.Random(seed)
        with self.server.connect() as connection:
            while not self._over.is_set():
                work(connection, chosen)

    def _one_by_one(self, connection: Connection, chosen: random.Random) -> None:
        at = chosen.randrange(N_TEXTS)
        answer = connection.ask("POST", "/v1/models/m/rank", {"text": self.texts[at], "k": K})
        self._note(answer, [at], answer.json.get("results"))

    def _several(self, connection: Connection, chosen: random.Random) -> None:
        places = [chosen.randrange(N_TEXTS) for _ in range(chosen.randrange(2, 40))]
        answer = connection.ask("POST", "/v1/models/m/rank", {"texts": [self.texts[at] for at in places], "k": K})
        self._note(answer, places, answer.json.get("results"))

    def _bulk(self, connection: Connection, chosen: random.Random) -> None:
        places = [chosen.randrange(N_TEXTS) for _ in range(1300)]  # some blocks, so that swaps fall between them
        lines = b"".join(json.dumps({"text": self.texts[at]}).encode() + b"\n" for at in places)
        answer = connection.ask("POST", f"/v1/models/m/rank?k={K}", lines, {"Content-Type": NDJSON})
        self._note(answer, places, answer.lines)

    def _note(self, answer: Answer, places: list[int], results: Any) -> None:
        assert answer.status == 200, answer
        self.answers.append((answer, places, results))

    def check(self, expected: dict[str, list[Any]]) -> Counter[str]:
        """How often each version answered; each answer must be exactly what its version says."""
        for answer, places, results in self.answers:
            name, _, version = answer.headers["sylvan-model"].partition("@")
            assert name == "m" and answer.headers["etag"] == f'"{version}"'
            assert version in expected, f"nobody saved {version}"
            if results != [expected[version][at] for at in places]:
                others = [one for one in expected if results == [expected[one][at] for at in places]]
                raise AssertionError(f"not what {version} answers; what these do: {others}")
        return Counter(answer.headers["etag"].strip('"') for answer, _, _ in self.answers)


def served(server: Server, n: int) -> set[str]:
    """The versions that answer over so many connections, each of which may reach another process."""
    return {server.version("m") for _ in range(n)}


@pytest.mark.parametrize(("workers", "swaps"), [(1, 8), (2, 4)])
def test_no_request_fails_while_the_model_is_replaced(first, second, tmp_path, workers, swaps):
    """One process looks at the folder often; two look when they are told to by SIGHUP, which must reach both."""
    folder = tmp_path / "m"
    shutil.copytree(first.folder, folder)
    texts = first.texts[:N_TEXTS]
    expected = {checksum(folder): first.expected(texts, K)}
    assert first.expected(texts, K) != second.expected(texts, K)
    watch = 0.05 if workers == 1 else 3600
    with serving(tmp_path, folder, "--workers", workers, config=f"watch = {watch}") as server:
        with Clients(server, texts) as clients:
            waited = []
            for swap in range(swaps):
                saved = (second, first)[swap % 2]
                saved.model.save(folder)
                wanted = checksum(folder)
                expected[wanted] = saved.expected(texts, K)
                if workers > 1:
                    server.signal(signal.SIGHUP)
                elif swap % 5 == 4:  # the next one comes before this one is served, perhaps
                    continue
                waited.append(wanted)
                until(lambda: served(server, workers) == {wanted}, "it isn't served")  # noqa: B023
        seen = clients.check(expected)
        assert workers > 1 or sum(version in seen for version in waited) > len(waited) / 2, seen
        until(lambda: server.version("m") == wanted, "the last version isn't served")
        assert served(server, 40) == {wanted}, "one of the processes serves another version"
        assert server.metric("sylvan_model_reload_failures_total") == 0
        assert server.ask("GET", "/health/ready").json["models"]["m"]["message"] is None


def test_a_bulk_ranking_ends_with_the_version_that_it_began_with(first, second, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(first.folder, folder)
    texts = first.texts[:N_TEXTS]
    before = checksum(folder)
    line = b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)
    with serving(tmp_path, folder, config="watch = 0.05") as server, server.raw() as sock:
        headers = (f"Content-Type: {NDJSON}", "Transfer-Encoding: chunked")
        sock.sendall(request("POST", f"/v1/models/m/rank?k={K}", b"", *headers))
        chunk = f"{len(line):x}\r\n".encode() + line + b"\r\n"
        for _ in range(20):
            sock.sendall(chunk)
        until(lambda: sock.recv(1) == b"H", "no answer has begun")
        second.model.save(folder)
        after = checksum(folder)
        assert after != before
        until(lambda: server.version("m") == after, "the new version isn't served")
        for _ in range(20):
            sock.sendall(chunk)
        sock.sendall(b"0\r\n\r\n")
        with sock.makefile("rb") as stream:
            head = b"".join(iter(stream.readline, b"\r\n")).decode().lower()
            rows = [json.loads(row) for row in stream.read().splitlines() if row.startswith(b"{")]
        assert f"sylvan-model: m@{before}" in head
        assert rows == first.expected(texts, K) * 40
        assert server.rank("m", texts=texts, k=K).json["results"] == second.expected(texts, K)
