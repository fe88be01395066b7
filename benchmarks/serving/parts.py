"""What is measured of each part."""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.common import process, records
from benchmarks.serving import children, client, machine, plan, servers, sets

__all__ = ["Bench"]

Row = dict[str, Any]
N_ANSWERS = 300  # texts whose answers are looked at
N_EXPECTED = 200  # texts that the probe asks for
PROBE_CLIENTS = 8
# In the table of loads every request is to be answered; that of overload has the limits that Sylvan has by default.
ROOM = {"queue": 4096}
PACKAGES = {
    "sylvan": ("starlette", "uvicorn", "msgspec", "httptools", "uvloop"),
    "libpecos": ("libpecos", "fastapi", "pydantic", "uvicorn", "httptools", "uvloop"),
    "annif": ("annif", "omikuji", "gunicorn", "uvicorn"),
}


class Bench:
    """One set: its texts and models, and the book that its rows go into."""

    def __init__(
        self, name: str, texts: Path, models: dict[str, Path], pythons: dict[str, str], options: argparse.Namespace,
        book: records.Book, scratch: Path,
    ) -> None:  # fmt: skip
        self.name, self.texts, self.models, self.pythons = name, texts, models, pythons
        self.options, self.book, self.scratch = options, book, scratch
        self.versions: dict[str, Row] = {}
        self.failed = 0

    def run(self, names: list[str]) -> int:
        """Measures what is missing; how much failed."""
        parts: dict[str, Callable[[list[str]], None]] = {
            "answers": self.answers, "load": self.load, "memory": self.memory, "overload": self.overload,
        }  # fmt: skip
        for part in self.options.parts:
            parts[part](names)
        return self.failed

    def missing(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that aren't in the book; where they are only to be listed, none."""
        left = [row for row in rows if self.book.find(row) is None]
        if self.options.list:
            for row in left:
                print(self.name, *row.values())
            return []
        return left

    def write(self, row: Row, figures: Row) -> None:
        """A finished row: what it is, its figures, and of what versions when."""
        kind = self.kind(row["contender"])
        about = {"set": self.name, "date": records.about()["date"], "versions": self.versions_of(kind)}
        self.book.add({**row, **about, **figures})
        shown = {key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()}
        shown = {key: value for key, value in shown.items() if not isinstance(value, (list, dict))}
        process.say(f"{self.name} {' '.join(map(str, row.values()))}: {shown}")

    def attempt(self, what: Row, work: Callable[[], None]) -> None:
        """Does the work; where it fails, says so and goes on."""
        try:
            work()
        except (RuntimeError, OSError, TimeoutError) as error:
            self.failed += 1
            process.say(f"{self.name} {' '.join(map(str, what.values()))}: failed, {error}")

    def kind(self, name: str) -> str:
        """Whose model a contender serves."""
        return servers.CONTENDERS[name].kind if name in servers.CONTENDERS else "sylvan"

    def versions_of(self, kind: str) -> Row:
        """The versions of what takes part in a library's answers."""
        if kind not in self.versions:
            job = {"packages": PACKAGES[kind], "sylvan": kind == "sylvan"}
            self.versions[kind] = process.run(self.pythons[kind], "benchmarks.serving.versions", job)
        return self.versions[kind]

    def server(
        self, contender: servers.Contender, limits: dict[str, float] | None = None
    ) -> AbstractContextManager[servers.Server]:
        """A contender's server, that runs within the block."""
        where = self.models[contender.kind]
        return servers.started(contender, self.pythons[contender.kind], where, self.texts, self.scratch, limits)

    def loaded(self, server: servers.Server, connections: int, seconds: float, *, count: bool = False) -> Row:
        """What :func:`client.load` measured."""
        return client.load(server, connections, seconds, self.scratch, wrk=self.options.wrk, count=count)

    def expected(self, n: int) -> list[list[str]]:
        """The best labels of the first texts, by the model in a process of its own."""
        job = {"texts": str(self.texts), "model": str(self.models["sylvan"] / "model"), "answers": n}
        found = process.run(self.pythons["sylvan"], "benchmarks.serving.inprocess", job)
        if "error" in found:
            raise RuntimeError(found["error"])
        return list(found["names"])

    def answers(self, names: list[str]) -> None:
        """Precision of what comes over HTTP; of Sylvan, how many answers are those of the model in a process."""
        for row in self.missing({"part": "answers", "contender": name} for name in names if name != plan.IN_PROCESS):

            def work(row: Row = row) -> None:
                contender = servers.CONTENDERS[row["contender"]]
                truth = sets.read_lines(self.texts / "test.jsonl")[:N_ANSWERS]
                bodies = (self.texts / contender.bodies).read_text(encoding="utf-8").splitlines()[:N_ANSWERS]
                with self.server(contender, ROOM) as server:
                    found = [contender.labels(server.ask(body)) for body in bodies]
                figures: Row = {"texts": len(found), "ready_s": server.ready_s}
                for k in (1, 3, 5):
                    hits = sum(len(set(one[:k]) & set(of["labels"])) for one, of in zip(found, truth, strict=True))
                    figures[f"P@{k}"] = 100 * hits / (k * len(found))
                if contender.kind == "sylvan":
                    figures["same"] = sum(map(list.__eq__, found, self.expected(N_ANSWERS)))
                self.write(row, figures)

            self.attempt(row, work)

    def load(self, names: list[str]) -> None:
        """Requests a second and latencies at each number of connections."""
        for group in plan.load_groups(names, self.options.repeats, self.options.connections):
            rows = self.missing(group)
            if not rows:
                continue

            def work(rows: list[Row] = rows) -> None:
                if rows[0]["contender"] == plan.IN_PROCESS:
                    self.write(rows[0], self.in_process())
                    return
                seconds = self.options.seconds
                with self.server(servers.CONTENDERS[rows[0]["contender"]], ROOM) as server:
                    for row in rows:
                        self.loaded(server, row["connections"], max(1.0, seconds / 5))
                        servers.settle(server)
                        self.write(row, {"seconds": seconds, **self.loaded(server, row["connections"], seconds)})
                        servers.settle(server)

            self.attempt({**rows[0], "connections": "all"}, work)

    def in_process(self) -> Row:
        """The engine alone."""
        job = {"texts": str(self.texts), "model": str(self.models["sylvan"] / "model")}
        job |= {"seconds": self.options.seconds}
        found = process.run(self.pythons["sylvan"], "benchmarks.serving.inprocess", job)
        if "error" in found:
            raise RuntimeError(found["error"])
        return {"seconds": self.options.seconds, **found}

    def memory(self, names: list[str]) -> None:
        """Memory with more and more workers, after each has answered for a while."""
        for row in self.missing(plan.memory_groups(names)):

            def work(row: Row = row) -> None:
                contender = dataclasses.replace(servers.CONTENDERS[row["contender"]], workers=row["workers"])
                folder = self.models[contender.kind]
                with self.server(contender, ROOM) as server:
                    loaded = self.loaded(server, 64, max(2.0, self.options.seconds / 2))
                    servers.settle(server)
                    figures = {
                        "requests": loaded["requests"],
                        "processes": len(machine.family(server.pid)),
                        "rss_mb": machine.rss_mb(server.pid),
                        "pss_mb": machine.pss_mb(server.pid),
                        "model_pss_mb": machine.file_pss_mb(server.pid, folder),
                    }
                self.write(row, figures)

            self.attempt(row, work)

    def overload(self, names: list[str]) -> None:
        """Sylvan with its own limits: a load within them, and one beyond, watched by a probe."""
        if "sylvan" not in names:
            return
        rows = [{"part": "overload", "contender": "sylvan", "connections": n} for n in plan.OVERLOAD]
        for row in self.missing(rows):

            def work(row: Row = row) -> None:
                most = row["connections"] == max(plan.OVERLOAD)
                seconds = self.options.overload_seconds if most else self.options.seconds
                with self.server(servers.CONTENDERS["sylvan"]) as server:
                    self.loaded(server, row["connections"], 2.0)
                    servers.settle(server)
                    self.write(row, {"seconds": seconds, **self.watched(server, row["connections"], seconds)})

            self.attempt(row, work)

    def watched(self, server: servers.Server, connections: int, seconds: float) -> Row:
        """A load, of which the probe has some connections, and what both saw."""
        expected = self.expected(N_EXPECTED)
        job = {
            "port": server.port, "pid": server.pid, "seconds": seconds, "clients": PROBE_CLIENTS,
            "path": server.contender.path, "bodies": str(self.texts / server.contender.bodies),
            "expected": str(self.scratch / "expected.json"), "out": str(self.scratch / "probe.json"),
        }  # fmt: skip
        (self.scratch / "expected.json").write_text(json.dumps(expected), encoding="utf-8")
        (self.scratch / "probe.json").unlink(missing_ok=True)
        whole = process.command(self.pythons["sylvan"], "benchmarks.serving.probe", job)
        log = self.scratch / "probe.log"
        with children.running(whole, log, process.environment(1)) as probe:
            time.sleep(0.2)  # so that its processes' start doesn't count
            loaded = self.loaded(server, connections - PROBE_CLIENTS, seconds, count=True)
            probe.wait(60 + seconds)
        if not (self.scratch / "probe.json").exists():
            raise RuntimeError(f"the probe failed: {children.last_line(log)}")
        return loaded | dict(json.loads((self.scratch / "probe.json").read_text()))
