"""Folders that break while they are served, disks that are full, logs that nobody reads, too few file descriptors."""

import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from child_processes import end, run, start
from servers import ADMIN_KEY, Answer, Server, checksum, pytestmark, serving, until  # noqa: F401

ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
WATCH = "watch = 0.05"


def replaced(path: Path, data: bytes) -> None:
    """Put data in a file's place in one step, so that who has mapped the file keeps what was in it."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(data)
    beside.replace(path)


def no_manifest(folder: Path) -> Path:
    """Where the manifest was."""
    (folder / "manifest.json").rename(folder / "elsewhere")
    return folder / "manifest.json"


def array(folder: Path, name: str) -> Path:
    """A file of a folder that looks as if it had been saved again."""
    os.utime(folder / "manifest.json")
    return next(folder.glob(f"*{name}*.npy"))


def array_with_other_bits(folder: Path) -> None:
    path = array(folder, "layer1.values")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    replaced(path, bytes(data))


def array_a_folder(folder: Path) -> None:
    path = array(folder, "leaf_labels")
    path.unlink()
    path.mkdir()


def no_folder(folder: Path) -> Path:
    folder.rename(folder.with_name("elsewhere"))
    return folder


def changed_manifest(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def broken(folder: Path) -> None:
        replaced(folder / "manifest.json", change((folder / "manifest.json").read_bytes()))

    return broken


manifest_garbage = changed_manifest(lambda data: os.urandom(3000))
# Each makes a folder unusable. Whoever opens a pipe to read waits until somebody writes.
BREAKS: dict[str, Callable[[Path], object]] = {
    "no manifest": no_manifest,
    "a folder as manifest": lambda folder: no_manifest(folder).mkdir(),
    "garbage as manifest": manifest_garbage,
    "an empty manifest": changed_manifest(lambda data: b""),
    "half a manifest": changed_manifest(lambda data: data[: len(data) // 2]),
    "a deep manifest": changed_manifest(lambda data: b'{"format": ' + b"[" * 200_000),
    "another format": changed_manifest(lambda data: json.dumps({**json.loads(data), "format_version": 99}).encode()),
    "changed by hand": changed_manifest(lambda data: data.replace(b'"beam": 10', b'"beam": 11')),
    "a pipe as manifest": lambda folder: os.mkfifo(no_manifest(folder)),
    "a manifest without an end": lambda folder: no_manifest(folder).symlink_to("/dev/zero"),
    "a link in a circle": lambda folder: no_manifest(folder).symlink_to(folder / "manifest.json"),
    "an array with other bits": array_with_other_bits,
    "a short array": lambda folder: replaced(
        path := array(folder, "layer1.values"), path.read_bytes()[:-100]),
    "no array": lambda folder: array(folder, "leaf_labels").unlink(),
    "a folder as array": array_a_folder,
    "no folder": no_folder,
    "a file as folder": lambda folder: no_folder(folder).write_bytes(b"not a folder"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def watching(first, place) -> Iterator[Server]:
    """A server that looks at its models' folders often."""
    folders = [shutil.copytree(first.folder, place / name) for name in ("m", "a", "b")]
    with serving(place, *folders, config=WATCH, preexec_fn=lambda: limit_memory(8 << 30)) as server:
        yield server


def limit_memory(n_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


def clear(folder: Path) -> None:
    """Nothing is left of a folder, whatever it has become."""
    for path in (folder, folder.with_name("elsewhere")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.exists() or path.is_symlink():
            path.unlink()


def state(server: Server, name: str = "m") -> dict[str, Any]:
    answer = server.ask("GET", "/health/ready")
    assert answer.status == 200 and answer.json["ready"] is True, answer
    return dict(answer.json["models"][name])


@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_folder_leaves_the_old_version_in_place(watching, place, first, second, broken):
    server, folder, texts = watching, place / "m", first.texts[:20]
    was = server.rank("m", texts=texts)
    old = was.headers["etag"].strip('"')
    assert was.status == 200 and state(server)["message"] is None
    failures = server.metric("sylvan_model_reload_failures_total", model="m")

    BREAKS[broken](folder)
    until(lambda: state(server)["message"] is not None, "it doesn't say that the folder is broken")
    message = state(server)["message"]
    assert isinstance(message, str) and len(message) > 20 and "Traceback" not in message
    assert state(server)["version"] == old
    now = server.rank("m", texts=texts)
    assert (now.status, now.headers["etag"], now.body) == (200, was.headers["etag"], was.body)
    assert server.metric("sylvan_model_reload_failures_total", model="m") > failures
    assert message in server.errors or message.rstrip(".") in server.errors, "the log of errors doesn't say so"
    card = server.ask("GET", "/v1/models/m").json
    assert card["ready"] is True and card["message"] == message
    assert "Traceback" not in server.errors

    clear(folder)
    saved = second if was.json["results"] == first.expected(texts) else first
    saved.model.save(folder)
    new = checksum(folder)
    until(lambda: server.version("m") == new, lambda: f"it isn't served: {state(server)}")
    assert state(server)["message"] is None
    assert server.rank("m", texts=texts).json["results"] == saved.expected(texts)


def test_what_stays_broken_isnt_read_all_the_time(watching, place, first):
    """Nor said all the time: the log would fill the disk."""
    folder = place / "m"
    manifest_garbage(folder)
    until(lambda: state(watching)["message"] is not None, "it doesn't say that the folder is broken")
    failures, said = watching.metric("sylvan_model_reload_failures_total", model="m"), len(watching.errors)
    time.sleep(0.8)
    assert watching.metric("sylvan_model_reload_failures_total", model="m") <= failures + 3
    assert len(watching.errors) - said < 2000
    clear(folder)
    first.model.save(folder)
    until(lambda: state(watching)["message"] is None, "it isn't mended")


def test_told_to_look_it_looks_and_not_before(first, second, tmp_path):
    """By POST …/reload, which only an admin may ask, and by SIGHUP; at whole folders and at broken ones."""
    folder = tmp_path / "m"
    shutil.copytree(first.folder, folder)
    with serving(tmp_path, folder, config="watch = 3600", admin=True) as server:

        def reload() -> Answer:
            return server.ask("POST", "/v1/models/m/reload", None, ADMIN)

        def failures() -> float:
            return server.metric("sylvan_model_reload_failures_total", ADMIN, model="m")

        old = checksum(folder)
        counted = "sylvan_model_reload_failures_total{"  # with its 0, or an alert of an increase never sees the first
        assert counted in server.ask("GET", "/metrics", None, ADMIN).body.decode()
        array_with_other_bits(folder)
        answer = reload()
        assert answer.status == 200 and (answer.json["version"], answer.json["changed"]) == (old, False)
        assert "checksum" in answer.json["message"]
        assert state(server)["message"] and state(server)["version"] == old
        assert failures() == 1
        assert server.ask("POST", "/v1/models/m/rank", {"text": "whales"}, ADMIN).status == 200

        clear(folder)
        second.model.save(folder)
        mended = checksum(folder)
        time.sleep(0.3)
        assert state(server)["version"] == old, "it looks at the folder more often than it was told"
        for changed in (True, False):
            answer = reload()
            assert (answer.status, answer.json["version"], answer.json["changed"]) == (200, mended, changed)
        assert state(server) == {"ready": True, "version": mended, "message": None}

        manifest_garbage(folder)
        server.signal(signal.SIGHUP)
        until(lambda: state(server)["message"] is not None, "SIGHUP was passed over")
        assert state(server)["version"] == mended and failures() == 2
        clear(folder)
        first.model.save(folder)
        server.signal(signal.SIGHUP)
        until(lambda: state(server)["version"] == checksum(folder), "SIGHUP was passed over")
        assert state(server)["message"] is None


def test_one_broken_model_leaves_the_others_alone(watching, place, second, numbers):
    """Another is replaced meanwhile, also by one over features: requests with texts are then told so."""
    server = watching
    BREAKS["a pipe as manifest"](place / "a")
    second.model.save(place / "b")
    until(lambda: server.version("b") == checksum(place / "b"), "the other one isn't looked at any more")
    assert server.rank("a", text="whales").status == server.rank("b", text="whales").status == 200
    numbers.model.save(place / "b")
    until(lambda: server.version("b") == checksum(place / "b"), "the new version isn't served")
    assert server.ask("GET", "/v1/models/b").json["takes"] == "features"
    assert server.rank("b", text="whales").status == 422
    row = {"indices": [0, 3], "values": [0.5, 0.25]}
    assert server.rank("b", features=[row]).status == 200


# Where its log goes.


def answers_and_ends(server: Server, n: int = 30) -> None:
    """It answers, without a word about what its log can't take, and ends as it should."""
    for _ in range(n):
        assert server.rank(text="whales").status == 200
        assert server.ask("GET", "/nowhere").status == 404
    assert "Traceback" not in server.errors
    assert len(server.errors) < 4000, "it says so again and again"
    server.signal(signal.SIGTERM)
    assert server.exit_code() == 0


def test_the_disk_with_the_log_is_full(first, tmp_path):
    with open("/dev/full", "wb") as full, serving(tmp_path, first.folder, stdout=full) as server:
        answers_and_ends(server)


def test_the_reader_of_the_log_stands_still_and_then_goes(first, tmp_path):
    """As `sylvan serve … | less` does: once the pipe is full, a server that waited for it would answer nobody."""
    reader, writer = os.pipe()
    with serving(tmp_path, first.folder, stdout=writer) as server:
        os.close(writer)
        with server.connect() as connection:
            for _ in range(600):  # about 200 bytes each; a pipe holds 64 KiB
                assert connection.ask("GET", "/v1/models/first").status == 200
        os.close(reader)
        answers_and_ends(server)


def test_stdout_is_closed(first, tmp_path):
    with serving(tmp_path, first.folder, preexec_fn=lambda: os.close(1)) as server:
        answers_and_ends(server, 5)


def test_nobody_reads_what_it_says_of_itself(first, second, tmp_path):
    """As where the journal is gone: versions are served, workers that die are replaced, and it ends when told to."""
    folder, (reader, writer) = tmp_path / "m", os.pipe()
    shutil.copytree(first.folder, folder)
    with (tmp_path / "errors").open("ab") as said:
        journal = start(["cat"], stdin=reader, stdout=said)
    with serving(tmp_path, folder, "--workers", 2, config=WATCH, stderr=writer) as server:
        os.close(reader)
        os.close(writer)
        end(journal)
        for saved in (second, first):
            saved.model.save(folder)
            until(lambda: server.version("m") == checksum(folder), "the new version isn't served")
        for worker in server.workers:
            os.kill(worker, signal.SIGKILL)
        assert server.rank("m", text="whales").status == 200
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0


# Too little of what the system gives.


def test_more_connections_than_file_descriptors(first, tmp_path):
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    with serving(tmp_path, first.folder, preexec_fn=few) as server:
        with server.connect() as kept:
            assert kept.ask("GET", "/health/live").status == 200
            crowd = [server.raw() for _ in range(150)]
            time.sleep(0.5)
            for _ in range(20):
                assert kept.ask("POST", "/v1/models/first/rank", {"text": "whales"}).status == 200
            for sock in crowd:
                sock.close()
            assert kept.ask("GET", "/health/live").status == 200
        until(lambda: server.rank(text="whales").status == 200, "it doesn't recover")
        assert len(server.errors) < 50_000


def test_the_disk_with_temporary_files_is_full(first, tmp_path):
    """Workers may count in files of a temporary folder; requests are answered nevertheless."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(temporary)]
    if shutil.which("mount") is None or run(mount).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        given = {"TMPDIR": str(temporary)}
        with serving(tmp_path, first.folder, "--workers", 2, environment=given) as server:
            with suppress(OSError), open(temporary / "more", "wb", buffering=0) as stream:
                while True:
                    stream.write(bytes(1024))
            with server.connect() as connection:
                for path in ("/v1/models", "/health/live", "/", "/openapi.json", "/metrics", "/v1/models/first"):
                    assert connection.ask("GET", path).status == 200
                for _ in range(20):
                    assert connection.ask("POST", "/v1/models/first/rank", {"text": "whales"}).status == 200
            assert "has ended" not in server.errors
    finally:
        run(["umount", "-l", temporary])
