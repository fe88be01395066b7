"""Applications of a model: updates, mounts, settings, keys and names of labels."""

import asyncio
import functools
import gc
import io
import json
import time
import weakref
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from kit.errors import raises
from kit.topics import corpus
from serve.asgi import ask, running
from serve.models import text_model
from waiting import PATIENCE, until

import sylvan
from sylvan import TextModel, XRLinear, serve, store
from sylvan.cli import main
from sylvan.errors import ParameterError
from sylvan.serve import ServedFolder, Settings, problems
from sylvan.serve.engine import Engine
from sylvan.serve.problems import Problem
from sylvan.serve.routes import models
from sylvan.serve.settings import ApiKey, Keyring, Limits, checked, named_folders, read_settings

ADMIN, USER = "an admin key, long enough", "a user's key, long enough"
KEYS = (
    ApiKey.of({"name": "boss", "key": ADMIN, "admin": True}, "t"),
    ApiKey.of({"name": "web", "key": USER, "rate": 0.3}, "t"),
)
RANK = "/v1/models/books/rank"
MERGE = '--merge={"Africa -- Fiction": ["Bible", "Sea stories"]}'


async def in_this_process(words: list[str]) -> tuple[int, str]:
    """As a process that is started so ends."""
    with redirect_stderr(io.StringIO()) as said:
        code = main(words[words.index("update") :])
    return code, said.getvalue()


def test_an_update_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, update = str(tmp_path / "books"), "/v1/models/books/update"
    admin = {"Authorization": f"Bearer {ADMIN}"}
    TextModel(model=XRLinear(keep_rows=True, n_jobs=1)).fit(*corpus(60, 0)).save(folder)
    with running(serve.app({"books": folder}, keys=KEYS)) as asking:
        old = asking("GET", "/v1/models/books", headers=admin).json
        assert old["updates"] is True
        body = {"texts": ["quantum knitting of wool"] * 3, "labels": [["Quantum knitting"]] * 3}
        done = asking("POST", update, body, headers=admin)
        assert done.status == 200, done
        assert "learned" in done.json["message"] and done.json["version"] != old["version"]
        with store.updating(folder):
            busy = asking("POST", update, body, headers=admin)
        assert busy.status == 409 and "is being updated by process" in busy.detail
        monkeypatch.setattr(models, "_run", in_this_process)
        listed = {"texts": ["one; two"], "labels": [["Wool; knitting"]]}  # which no separator is looked for in
        assert asking("POST", update, listed, headers=admin).json["message"].count("\n") == 0
        (result,) = asking("POST", RANK, {"text": "quantum knitting", "k": 1}, headers=admin).json["results"]
        assert result["labels"] == ["Quantum knitting"]
        for wrong, sentence in (
            ({}, "There is nothing to do"),
            ({"texts": ["a"]}, "Got 0 for 1 text."),
            ({"forget": [10**6]}, ""),
            ({"merge": {"Nothing": ["Nowhere"]}}, "The 'merge' field holds 'Nothing', none of the model's labels."),
            ({"texts": ["a"], "labels": [[]]}, "rows.jsonl: no row has a label"),
            ({"texts": [5], "labels": [["x"]]}, "The 'texts[0]' field must be a string"),
        ):
            refused = asking("POST", update, wrong, headers=admin)
            assert refused.status == 422 and sentence in refused.detail and "Traceback" not in refused.detail


def test_an_application_may_be_mounted(books: Path) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    inner = serve.app({"books": books})
    outer = Starlette(routes=[Mount("/tags", app=inner)])
    outer.service = inner.service  # type: ignore[attr-defined]
    with running(_Under(outer, "/tags")) as asking:  # type: ignore[arg-type]
        assert asking("POST", RANK, {"text": "whales"}).status == 200


class _Under:
    """An application, asked below a path."""

    def __init__(self, app: Any, path: str) -> None:
        self.app, self.path, self.service = app, path, app.service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app({**scope, "path": self.path + scope["path"], "raw_path": b""}, receive, send)


def test_settings_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_KEY", USER)
    (tmp_path / "serve.toml").write_text(
        'port = 0\nworkers = 2\n[limits]\nk = 50\n[models.books]\nfolder = "runs/m"\nlanguage = "en"\n'
        f'[[keys]]\nname = "web"\nenv = "WEB_KEY"\nrate = 2\n[[keys]]\nname = "boss"\nkey = "{ADMIN}"\nadmin = true\n'
    )
    settings = read_settings(str(tmp_path / "serve.toml"))
    assert (settings.port, settings.workers, settings.limits.k, settings.limits.texts) == (0, 2, 50, 100)
    assert settings.models == (ServedFolder("books", str(tmp_path / "runs/m"), language="en"),)
    ring = Keyring(settings.keys)
    assert ring.find(USER).rate == 2 and ring.find(ADMIN).admin  # type: ignore[union-attr]


def test_a_rate_is_kept_on_average(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    key = ApiKey("web", b"digest", rate=2.0)
    ring = Keyring([key])
    taken = sum(ring.wait(key) == 0 for _ in range(100))
    assert taken == 20
    assert ring.wait(key) == pytest.approx(0.5)
    now[0] += 3
    assert sum(ring.wait(key) == 0 for _ in range(100)) == 6


def test_a_keyring_compares_every_key() -> None:
    ring = Keyring(KEYS)
    assert ring.find(ADMIN) == KEYS[0] and ring.find(USER) == KEYS[1]
    assert ring.find("") is None and ring.find("\udcff") is None
    assert not Keyring(()) and ring


def test_models_are_named() -> None:
    assert named_folders(["runs/m", "x=runs/m"]) == [ServedFolder("", "runs/m"), ServedFolder("x", "runs/m")]
    with raises(ParameterError, "model"):
        checked(Settings(()))


@pytest.mark.parametrize(("words", "models", "others"), [
    (("models", "books"), "books", {}), (("models", "None"), None, {}), (("models", "books"), ["books"], {}),
    (("folder", "5"), {"b": 5}, {}), (("models", "books"), ServedFolder("m", "books"), {}),
    (("limits", 17), None, {"limits": {"k": 17}}), (("keys", "ApiKey.of"), None, {"keys": ["secret"]}),
    (("keys", "ApiKey.of"), None, {"keys": "secret"}),
])  # fmt: skip
def test_what_python_gives_is_of_the_right_kind(books: Path, words: tuple[str], models: Any, others: Any) -> None:
    with raises(ParameterError, words) as caught:
        serve.app({"books": books} if others else models, **others)
    assert "secret" not in str(caught.value)


def test_a_vocabulary_gives_labels_their_names(tmp_path: Path) -> None:
    texts, labels = ["whales at sea", "bread and cakes"], [["http://x.org/1"], ["http://x.org/2"]]
    sylvan.TextModel().fit(texts, labels).save(tmp_path / "m")
    (tmp_path / "subjects.tsv").write_text("<http://x.org/1>\tWhaling\n<http://x.org/2>\tBaking\n")
    models = [ServedFolder("m", str(tmp_path / "m"), vocabulary=str(tmp_path / "subjects.tsv"))]
    with running(serve.app(models, keys=KEYS)) as asking:
        asking = functools.partial(asking, headers={"Authorization": f"Bearer {ADMIN}"})
        (result,) = asking("POST", "/v1/models/m/rank", {"text": "whales", "k": 1}).json["results"]
        assert (result["labels"], result["names"]) == (["http://x.org/1"], ["Whaling"])
        (found,) = asking("GET", "/v1/models/m/labels?prefix=bak").json["labels"]
        assert (found["label"], found["name"]) == ("http://x.org/2", "Baking")
        body = {"text": "whales", "label": "http://x.org/1"}
        why = asking("POST", "/v1/models/m/explain", body).json["explanation"]
        assert why["name"] == "Whaling"
        assert why["trees"][0]["paths"][0]["steps"][-1]["title"] == "Whaling"
        node = asking("GET", "/v1/models/m/tree?depth=4").json["node"]
        while node.get("children"):
            node = node["children"][0]
        assert node["label"].startswith("http://x.org/") and node["title"] in ("Whaling", "Baking")
        (tmp_path / "subjects.tsv").write_text("<http://x.org/1>\tWhale hunting\n<http://x.org/2>\tBaking\n")
        assert asking("POST", "/v1/models/m/reload").json["changed"] is False  # it is the same model
        (result,) = asking("POST", "/v1/models/m/rank", {"text": "whales", "k": 1}).json["results"]
        assert result["names"] == ["Whale hunting"]


def test_a_version_that_another_one_replaces_leaves_the_memory(books: Path) -> None:
    """At once: the garbage collector may come hours later, and passes over what was there when the server started."""
    app, model = serve.app({"books": books}, keys=KEYS), "/v1/models/books"
    with running(app) as asking:
        asking = functools.partial(asking, headers={"Authorization": f"Bearer {ADMIN}"})
        asking("GET", "/health/ready")
        old = weakref.ref(app.service.served["books"].current)
        gc.collect()
        gc.disable()
        try:
            for path in (model, f"{model}/labels?prefix=a", f"{model}/tree?depth=3", f"{model}/relations?label=Africa"):
                assert asking("GET", path).status == 200
            for name, body in (("rank", {"explain": True}), ("explain", {"label": 0}), ("beam", {})):
                assert asking("POST", f"{model}/{name}", {"text": "whales", **body}).status == 200
            assert asking("POST", f"{model}/reload").status == 200
            assert asking("POST", RANK, {"text": "whales"}).status == 200  # the engine forgets what it did before
            until(lambda: old() is None, "the old version is there still")
        finally:
            gc.enable()


def test_what_can_not_be_served_is_said_at_the_start(tmp_path: Path) -> None:
    text_model().vectorizer.save(tmp_path / "v")
    app = serve.app({"v": str(tmp_path / "v")}, wait=False)

    async def message() -> str:
        app.service.start()
        while not (said := (await ask(app, "GET", "/health/ready")).json["models"]["v"]["message"]):
            await asyncio.sleep(0.01)
        await app.service.stop()
        return str(said)

    assert "TfidfVectorizer, which ranks nothing to serve" in asyncio.run(asyncio.wait_for(message(), PATIENCE))


@pytest.mark.parametrize(("body", "word", "written"), [
    ({"texts": ["whales"], "labels": [["Sea", "Oil"]]}, "rows.jsonl", {"text": "whales", "labels": ["Sea", "Oil"]}),
    ({"forget": [3, 1]}, "--forget", "3\n1\n"),
    ({"merge": {"Africa -- Fiction": ["Bible", "Sea stories"]}}, MERGE, None),
])  # fmt: skip
def test_an_update_is_a_command(
    body: dict[str, Any], word: str, written: Any, books: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    files: list[Any] = []

    async def run(words: list[str]) -> tuple[int, str]:
        seen.extend(words)
        files.extend(json.loads(Path(each).read_text()) for each in words if each.endswith("rows.jsonl"))
        files.extend(Path(each).read_text() for each in words if each.endswith("ids.txt"))
        return 0, "It learned."

    monkeypatch.setattr(models, "_run", run)
    with running(serve.app({"books": books}, keys=KEYS)) as asking:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        answer = asking("POST", "/v1/models/books/update", body, headers=headers)
    assert answer.status == 200 and answer.json["message"] == "It learned."
    for other in ("rows.jsonl", "--forget", MERGE):
        assert any(each.endswith(other) for each in seen) == (other == word)
    if written is not None:
        (found,) = files
        assert found == written if isinstance(written, str) else found.items() >= written.items()


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("body", 1024, 1 << 30), ("texts", 1, 100_000), ("text_length", 1, 1 << 30), ("k", 1, 1_000_000),
     ("labels", 1, 10_000_000), ("queue", 1, 1_000_000), ("seconds", 0.01, 86400), ("slow", 0.01, 86400)],
)  # fmt: skip
def test_limits_have_limits(name: str, least: float, most: float, books: Path) -> None:
    def settings(value: float) -> Settings:
        return Settings((ServedFolder("books", str(books)),), limits=Limits(**{name: value}))

    for value in (least, most):
        assert checked(settings(value)).limits == settings(value).limits
    for value in (least / 2 if least < 1 else least - 1, most + 1):
        with raises(ParameterError, name, value):
            checked(settings(value))


@pytest.mark.parametrize(("length", "cut"), [(110, False), (116, False), (118, True), (170, True)])
def test_a_long_value_is_shown_by_its_beginning(length: int, cut: bool) -> None:
    shown = problems._received([("texts", "")], json.dumps({"texts": ["a" * length]}).encode())
    assert shown == (f'["{"a" * 118}…' if cut else f'["{"a" * length}"]')


def test_a_refusal_for_want_of_room_is_held_back(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(engine: Engine) -> None:
        raise Problem(429, "The model is busy.", pause=0.25)

    with running(serve.app({"books": books})) as asking:
        monkeypatch.setattr(Engine, "check_room", busy)
        begun = time.monotonic()
        assert asking("POST", RANK, {"text": "whales"}).status == 429
        assert time.monotonic() - begun >= 0.25


@pytest.mark.parametrize(("error", "status"), [(ValueError("out of order"), 500), (Problem(501, "Not yet."), 501)])
def test_an_error_that_nobody_expects_is_in_the_log(
    error: Exception, status: int, books: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(engine: Engine) -> None:
        raise error

    with running(serve.app({"books": books})) as asking:
        monkeypatch.setattr(Engine, "check_room", fails)
        answer = asking("POST", RANK, {"text": "whales"})
    assert answer.status == status and "out of order" not in answer.detail
    assert ("ValueError: out of order" in capsys.readouterr().err) == (status == 500)
