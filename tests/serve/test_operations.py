"""The files of docs/operations: what each says is so, and they run, where the machine has what they need."""

import json
import os
import re
import shutil
import socket
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import child_processes
import numpy as np
import pytest
from kit.bits import bits
from kit.topics import WORDS, corpus
from servers import NDJSON, is_open, serving
from waiting import until

import sylvan
from sylvan import data, store

FILES = Path(__file__).parents[2] / "docs" / "operations"


def test_every_file_is_listed_and_linked() -> None:
    page = (FILES / "index.md").read_text("utf-8")
    files = {path.name for path in FILES.iterdir() if path.suffix != ".dockerignore"} - {"index.md"}
    assert set(re.findall(r"^\| (\[.+?) \|", page, re.M))
    assert set(re.findall(r"\]\(([\w.-]+)\)", page)) == files


def test_alerts_name_what_the_server_measures() -> None:
    service = pytest.importorskip("sylvan.serve.service")
    measured = {f"sylvan_{name}" for name in service._METRICS}
    named = set(re.findall(r"\bsylvan_\w+", (FILES / "alerts.yml").read_text("utf-8")))
    assert len(named) > 5 and {re.sub("_(total|bucket)$", "", name) for name in named} <= measured


def test_settings_are_read_and_yaml_is_sound() -> None:
    from sylvan.serve.settings import read_settings

    settings = read_settings(str(FILES / "serve.toml"))
    assert f"{settings.limits.queue} requests wait for a model by default" in (FILES / "index.md").read_text("utf-8")
    unit = (FILES / "sylvan.service").read_text("utf-8")
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)
    assert "ReadOnlyPaths" not in unit  # which would prevail over the ReadWritePaths that the guide has for /update
    assert stop is not None and int(stop[1]) > settings.drain + settings.limits.seconds + 5
    yaml = pytest.importorskip("yaml")
    compose, prometheus, alerts = (
        yaml.safe_load((FILES / name).read_text("utf-8")) for name in ("compose.yaml", "prometheus.yml", "alerts.yml")
    )
    volumes = [each.split(":")[0] for service in compose["services"].values() for each in service["volumes"]]
    assert {name for name in volumes if name[0] == "." and not (FILES / name).exists()} == {"./tls"}
    assert prometheus["rule_files"] == ["alerts.yml"] and len(alerts["groups"][0]["rules"]) == 8


def test_the_image_copies_what_is_there_and_has_no_rights() -> None:
    lines = (FILES / "Dockerfile").read_text("utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY docs") for word in line.split()[1:-1]]
    assert len(copied) == 3 and all((FILES.parents[1] / path).is_file() for path in copied)
    assert "USER 10001" in lines and any(line.startswith("HEALTHCHECK") for line in lines)
    allowed = (FILES / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert all((FILES.parents[1] / line[1:]).exists() for line in allowed if line.startswith("!"))


def needs(*programs: str) -> None:
    """Skip where a program isn't there."""
    for program in programs:
        if shutil.which(program) is None and not Path("/usr/sbin", program).exists():
            pytest.skip(f"needs {program}")


def test_run_units(tmp_path: Path) -> None:
    needs("systemd-analyze")
    for path in FILES.glob("sylvan*"):
        text = path.read_text("utf-8").replace("/opt/sylvan/bin/sylvan", sys.executable)
        text = text.replace("/opt/sylvan/nightly.sh", str(FILES / "nightly.sh")).replace("User=sylvan", "User=root")
        (tmp_path / path.name).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    done = child_processes.run(["systemd-analyze", "verify", "--man=no", *units])
    assert done.returncode == 0 and "sylvan" not in done.stderr, done.stderr
    words = ["systemd-analyze", "security", "--offline=true", "--threshold=30", str(tmp_path / "sylvan.service")]
    done = child_processes.run(words)
    assert done.returncode == 0, done.stdout


def test_run_alerts() -> None:
    needs("promtool")
    child_processes.run(["promtool", "check", "rules", FILES / "alerts.yml"], check=True)
    child_processes.run(["promtool", "check", "config", FILES / "prometheus.yml"], check=True)


def test_run_image() -> None:
    needs("docker")
    if child_processes.run(["docker", "info"]).returncode:
        pytest.skip("needs a Docker daemon")
    child_processes.run(["docker", "build", "-f", FILES / "Dockerfile", FILES.parents[1]], check=True)


def records(n: int, seed: int) -> tuple[list[str], list[list[str]]]:
    """Titles and their subjects, none of which is there twice."""
    texts, labels = corpus(n, seed)
    return [f"{text} {seed}-{number}" for number, text in enumerate(texts)], labels


def write_table(path: Path, texts: list[str], labels: list[list[str]]) -> None:
    """As a library system would: a title, an author, subjects."""
    rows = [f"{text};Anon;{'|'.join(row)}\n" for text, row in zip(texts, labels, strict=True)]
    path.write_text("title;author;subjects\n" + "".join(rows).replace("|", ", "), "utf-8")


class Night:
    """A folder as the nightly job finds it, with a model that has learned little."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("inbox", "bin"):
            (folder / name).mkdir(parents=True)
        for name, words in (("sylvan", "-m sylvan"), ("python", "")):
            command = folder / "bin" / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            command.chmod(0o755)
        texts, labels = records(10, seed=1)
        model = sylvan.TextModel(model=sylvan.XRLinear(keep_rows=True, seed=0)).fit(texts, labels)
        for name in ("live", "candidate"):
            model.save(folder / name)
        texts, labels = records(200, seed=2)
        data.write_jsonl(folder / "dev.jsonl", [f"{text} Anon" for text in texts], labels)
        # The job's lists are separated by commas here.
        job = (FILES / "nightly.sh").read_text("utf-8")
        (folder / "nightly.sh").write_text(job.replace('"$labels"', '"$labels" --label-separator ,'))

    def run(self, *words: str | Path, **variables: str) -> Any:
        """Run a script with the command in its path."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return child_processes.run(["bash", *words], env=child_processes.environment(PATH=path, **variables))

    def __call__(self, **variables: str) -> Any:
        return self.run(self.folder / "nightly.sh", self.folder, **variables)

    def version(self, name: str) -> str:
        return str(store.contents(self.folder / name)["checksum"])


def test_run_nights(tmp_path: Path) -> None:
    """A night with good records promotes, one with wrong subjects is undone, one with faults learns nothing."""
    night = Night(tmp_path / "srv")
    inbox, live = night.folder / "inbox", night.version("live")
    texts, labels = records(300, seed=3)
    write_table(inbox / "new.csv", texts, labels)
    write_table(inbox / "open.csv", texts[:5], [[]] * 5)
    done = night()
    assert done.returncode == 0, done.stderr
    assert night.version("live") != live and not list(inbox.iterdir())
    assert "threshold" in str(store.contents(night.folder / "live"))  # of the highest F1, for the page
    (line,) = (night.folder / "promotions.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["promoted"] and json.loads(line)["live"]["version_after"] == night.version("live")
    (suggested,) = (night.folder / "suggestions").iterdir()
    assert len(list(data.read_records(suggested))) == 5

    live, names = night.version("live"), list(WORDS)
    learned = len(sylvan.load(night.folder / "candidate").model.row_ids_)
    texts, labels = records(400, seed=4)
    write_table(inbox / "new.csv", texts, [[names[(names.index(row[0]) + 1) % len(names)]] for row in labels])
    done = night()
    assert done.returncode == 1 and "is worse than" in done.stderr, done.stderr
    assert night.version("live") == live and [path.suffix for path in (night.folder / "rejected").iterdir()] == [".csv"]
    assert len(sylvan.load(night.folder / "candidate").model.row_ids_) == learned

    before = bits(night.folder / "candidate")
    write_table(inbox / "new.csv", [], [])
    done = night()
    assert done.returncode == 0 and bits(night.folder / "candidate") == before, done
    write_table(inbox / "new.csv", *records(20, seed=2))  # of those that nobody learns
    done = night()
    assert done.returncode == 1 and "of the test file" in done.stdout, done
    assert bits(night.folder / "candidate") == before and (inbox / "new.csv").exists()


def test_run_a_night_with_codes(tmp_path: Path) -> None:
    """Suggestions have names beside codes, and two titles with other subjects are told, and learned from."""
    night, codes = Night(tmp_path / "srv"), {f"urn:{name.lower()}": name for name in WORDS}
    uris = {name: uri for uri, name in codes.items()}
    texts, labels = records(300, seed=3)
    labels = [[uris[name] for name in row] for row in labels]
    for name in ("live", "candidate"):
        sylvan.TextModel(model=sylvan.XRLinear(keep_rows=True, seed=0)).fit(texts, labels).save(night.folder / name)
    dev, true = records(200, seed=2)
    data.write_jsonl(night.folder / "dev.jsonl", dev, [[uris[name] for name in row] for row in true])
    (night.folder / "subjects.tsv").write_text("".join(f"{uri}\t{name}\n" for uri, name in codes.items()), "utf-8")
    learned = len(sylvan.load(night.folder / "candidate").model.row_ids_)
    texts, labels = records(20, seed=5)
    rows = [[uris[name] for name in row] for row in [*labels, labels[1]]]
    write_table(night.folder / "inbox" / "new.csv", [*texts, texts[0]], rows)
    write_table(night.folder / "inbox" / "open.csv", texts[:5], [[]] * 5)
    done = night()
    assert done.returncode == 0 and "Note: 1 text stands there again with other subjects." in done.stdout, done
    assert len(sylvan.load(night.folder / "candidate").model.row_ids_) == learned + 21
    (suggested,) = (night.folder / "suggestions").iterdir()
    answers = list(data.read_records(suggested))
    assert {name for row in answers for name in row["labels"]} <= set(WORDS)
    assert [row["uris"] for row in answers] == [[uris[name] for name in row["labels"]] for row in answers]
    assert any(row["uris"] for row in answers)


def test_run_backups(tmp_path: Path) -> None:
    night = Night(tmp_path / "srv")
    words = [FILES / "backup.sh", night.folder / "live", tmp_path / "copies", "1"]
    for number in range(2):
        done = night.run(*words)
        assert done.returncode == 0, done.stderr
        (copy,) = (tmp_path / "copies").iterdir()
        assert bits(copy) == bits(night.folder / "live"), number
        copy.rename(copy.with_name(f"0{number}"))  # an earlier one
    next((night.folder / "live").glob("*.npy")).write_bytes(b"damaged")
    done = night.run(*words)
    assert done.returncode == 1 and "couldn't be copied" in done.stderr
    assert [entry.name for entry in (tmp_path / "copies").iterdir()] == ["01"]


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def closed(port: int) -> int:
    """Connections to a port that either side has closed within a minute."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[3] == "06" and any(end.endswith(f":{port:04X}") for end in line[1:3]) for line in lines)


def test_run_proxy(tmp_path: Path) -> None:
    """The page and the API below a sub-path, through TLS, over connections that stay open; the nightly job beside."""
    needs("nginx", "openssl")
    pytest.importorskip("uvicorn")
    night = Night(tmp_path / "srv")
    write_table(night.folder / "inbox" / "new.csv", *records(300, seed=3))
    port, tls = free_port(), tmp_path / "tls"
    tls.mkdir()
    subject = ["-subj", "/CN=localhost", "-keyout", tls / "server.key", "-out", tls / "server.pem"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    child_processes.run(words, check=True)
    with serving(tmp_path, f"live={night.folder / 'live'}") as server:
        site = (FILES / "nginx.conf").read_text("utf-8")
        for old, new in (("sylvan:8000", f"127.0.0.1:{server.port}"), ("443 ssl", f"127.0.0.1:{port} ssl"),
                         ("/etc/nginx/tls", str(tls))):  # fmt: skip
            assert old in site
            site = site.replace(old, new)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
        (tmp_path / "nginx.conf").write_text(
            f"worker_processes 1; daemon off; pid {tmp_path}/nginx.pid; error_log {tmp_path}/error.log;"
            f"events {{}} http {{ access_log off; {temporary} {site} }}"
        )
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        proxy = child_processes.start([nginx, "-p", tmp_path, "-c", tmp_path / "nginx.conf"], lasting=True)
        try:
            until(lambda: is_open(port), "the proxy doesn't listen")
            context = ssl._create_unverified_context()

            def ask(path: str, body: bytes | None = None, **headers: str) -> tuple[bytes, Any]:
                address = f"https://127.0.0.1:{port}/tags{path}"
                with urllib.request.urlopen(urllib.request.Request(address, body, headers), context=context) as answer:
                    return answer.read(), answer.headers

            page, _ = ask("")  # without the slash
            assert b'src="page/app.js"' in page and ask("/page/app.js")[0]
            with pytest.raises(urllib.error.HTTPError):
                ask("/metrics")
            before = closed(server.port)
            rows = b'{"text": "whales and oil"}\n' * 50
            named = {"Content-Type": NDJSON, "X-Request-ID": "mine"}
            for _ in range(20):
                answer, headers = ask("/v1/models/live/rank?k=1", rows, **named)
                assert answer.count(b"labels") == 50 and headers["X-Request-ID"] == "mine"
            assert closed(server.port) <= before
            made = ask("/v1/models")[1]["X-Request-ID"]
            assert server.logged(id=made)["route"] == "GET /v1/models"
            health = re.search(r"^HEALTHCHECK .*CMD (.+)$", (FILES / "Dockerfile").read_text("utf-8"), re.M)
            assert health is not None
            words = json.loads(health[1])
            child_processes.python(*(word.replace(":8000", f":{server.port}") for word in words[1:]), check=True)
            live = night.version("live")
            done = night(SYLVAN_SERVER=f"http://127.0.0.1:{server.port}/v1/models/live")
            assert done.returncode == 0, done.stderr
            assert server.version("live") == night.version("live") != live
        finally:
            child_processes.end(proxy)


def test_run_a_night_beside_a_server_with_keys(tmp_path: Path) -> None:
    """The job shows one, or the server would seem to refuse the model."""
    night, key = Night(tmp_path / "srv"), "a key that is long enough"
    write_table(night.folder / "inbox" / "new.csv", *records(300, seed=3))
    job = night.folder / "nightly.sh"
    job.write_text(job.read_text("utf-8").replace("seconds < 60", "seconds < 5"))
    keys = {"SYLVAN_API_KEY": key}
    with serving(tmp_path, f"live={night.folder / 'live'}", environment=keys) as server:
        live = night.version("live")
        done = night(SYLVAN_SERVER=f"http://127.0.0.1:{server.port}/v1/models/live", **keys)
        assert done.returncode == 0 and night.version("live") != live, done.stderr


def test_run_a_night_whose_model_the_server_refuses(tmp_path: Path) -> None:
    """The live model is the one before again."""
    night = Night(tmp_path / "srv")
    write_table(night.folder / "inbox" / "new.csv", *records(300, seed=3))
    job = night.folder / "nightly.sh"
    job.write_text(job.read_text("utf-8").replace("seconds < 60", "seconds < 1"))
    answers = sylvan.load(night.folder / "live").rank(["whales"], k=3)
    done = night(SYLVAN_SERVER="http://127.0.0.1:9/v1/models/live")  # nobody listens
    assert done.returncode == 1 and "going back" in done.stderr, done.stderr
    again = sylvan.load(night.folder / "live").rank(["whales"], k=3)
    assert np.array_equal(again.scores, answers.scores)
