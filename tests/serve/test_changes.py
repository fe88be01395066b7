"""Keys, limits, reloading, updating and settings; each refusal is a sentence."""

from __future__ import annotations

import base64
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from serve.asgi import ask, running
from serve.models import sample, text_model
from waiting import until

import sylvan
from sylvan import serve
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.serve import Limits, ServedFolder, Settings
from sylvan.serve.settings import ApiKey, Keyring, checked, named_folders, read_settings

ADMIN, USER = "an admin key, long enough", "a user's key, long enough"
KEYS = (
    ApiKey.of({"name": "boss", "key": ADMIN, "admin": True}, "t"),
    ApiKey.of({"name": "web", "key": USER, "rate": 0.3}, "t"),
)
RANK = "/v1/models/books/rank"
LOOKS = "it doesn't look at the folder"


def bearer(word: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {word}"}


@pytest.fixture
def books(tmp_path: Path) -> str:
    text_model().save(tmp_path / "books")
    return str(tmp_path / "books")


def test_keys(books: str) -> None:
    with running(serve.app({"books": books}, keys=KEYS)) as asking:
        assert asking("POST", RANK, {"text": "a"}).status == 401
        assert asking("POST", RANK, {"text": "a"}, headers=bearer("wrong")).status == 401
        assert asking("GET", "/metrics").status == 401
        assert asking("GET", "/health/ready").status == 200 and asking("GET", "/").status == 200
        assert asking("POST", RANK, {"text": "a"}, headers=bearer(ADMIN)).status == 200
        assert asking("POST", RANK, {"text": "a"}, headers={"X-API-Key": ADMIN}).status == 200
        basic = base64.b64encode(f"annif:{ADMIN}".encode()).decode()
        assert asking("POST", RANK, {"text": "a"}, headers={"Authorization": f"Basic {basic}"}).status == 200
        assert asking("POST", RANK, {"text": "a"}, headers={"Authorization": "Basic é"}).status == 401
        began, answered = time.monotonic(), 0
        while (late := asking("POST", RANK, {"text": "a"}, headers=bearer(USER))).status == 200:
            answered += 1
            assert answered <= 4 + 0.3 * (time.monotonic() - began)
        assert answered >= 3  # ten seconds' worth at once
        assert late.status == 429 and int(late.headers["retry-after"]) >= 1 and "'web' may ask 0.3 times" in late.detail
        refused = asking("POST", "/v1/models/books/reload", headers=bearer(USER))
        assert refused.status in (403, 429)
        assert asking("POST", "/v1/models/books/reload", headers=bearer(ADMIN)).json()["changed"] is False


def test_without_keys_nobody_changes_a_model(books: str) -> None:
    with running(serve.app({"books": books})) as asking:
        assert asking("POST", "/v1/models/books/reload").status == 403
        assert asking("POST", "/v1/models/books/update", {"forget": [0]}).status == 403


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


def test_a_new_version_takes_the_place_of_the_old_one(books: str) -> None:
    text = sample()[2][0]
    with running(serve.app({"books": books}, watch=0.05)) as asking:
        old = asking("POST", RANK, {"text": text})
        text_model(seed=1).save(books)
        until(lambda: asking("POST", RANK, {"text": text}).headers["etag"] != old.headers["etag"], LOOKS)
        new = asking("POST", RANK, {"text": text}).json()["results"][0]
        assert new["labels"] == sylvan.load(books).rank([text]).names[0]


def test_a_broken_version_leaves_the_old_one(books: str, tmp_path: Path) -> None:
    shutil.copytree(books, tmp_path / "sound")
    with running(serve.app({"books": books}, watch=0.05, keys=KEYS)) as asking:
        before = asking("POST", RANK, {"text": "whales"}, headers=bearer(ADMIN))
        manifest = Path(books) / "manifest.json"
        manifest.with_suffix(".new").write_bytes(manifest.read_bytes().replace(b"crc32:", b"crc32:f", 1))
        manifest.with_suffix(".new").replace(manifest)
        until(lambda: asking("GET", "/health/ready").json()["models"]["books"]["message"], LOOKS)
        ready = asking("GET", "/health/ready")
        assert ready.status == 200 and "manifest.json" in ready.json()["models"]["books"]["message"]
        after = asking("POST", RANK, {"text": "whales"}, headers=bearer(ADMIN))
        assert (after.body, after.headers["etag"]) == (before.body, before.headers["etag"])
        reloaded = asking("POST", "/v1/models/books/reload", headers=bearer(ADMIN)).json()
        assert not reloaded["changed"] and "manifest.json" in reloaded["message"]
        text = asking("GET", "/metrics", headers=bearer(ADMIN)).body.decode()
        assert 'sylvan_model_reload_failures_total{model="books"}' in text
        text_model(seed=1).save(books)
        until(lambda: asking("GET", "/health/ready").json()["models"]["books"]["message"] is None, LOOKS)
        assert asking("POST", RANK, {"text": "whales"}, headers=bearer(ADMIN)).headers["etag"] != before.headers["etag"]


def test_a_model_that_is_not_there_yet_is_waited_for(books: str) -> None:
    app = serve.app({"books": books}, watch=0.05)
    shutil.move(books, f"{books}.away")
    with pytest.raises(AssertionError), running(_Impatient(app)):  # type: ignore[arg-type]
        pass


class _Impatient:
    """Says what a server without its model says, and then fails the wait for it."""

    def __init__(self, app: Any) -> None:
        self.app, self.service = app, app.service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        rank = await ask(self.app, "POST", RANK, {"text": "a"})
        assert rank.status == 503 and rank.headers["retry-after"] == "1" and "'books'" in rank.detail
        ready = await ask(self.app, "GET", "/health/ready")
        assert ready.status == 503 and ready.json()["ready"] is False
        raise AssertionError


def test_an_update_over_http(tmp_path: Path) -> None:
    folder = str(tmp_path / "books")
    text_model(keep_rows=True).save(folder)
    update = "/v1/models/books/update"
    with running(serve.app({"books": folder}, keys=KEYS)) as asking:
        old = asking("GET", "/v1/models/books", headers=bearer(ADMIN)).json()
        assert old["updates"] is True
        body = {"texts": ["quantum knitting of wool"] * 3, "labels": [["Quantum knitting"]] * 3}
        done = asking("POST", update, body, headers=bearer(ADMIN))
        assert done.status == 200, done
        assert "learned" in done.json()["message"] and done.json()["version"] != old["version"]
        (result,) = asking("POST", RANK, {"text": "quantum knitting", "k": 1}, headers=bearer(ADMIN)).json()["results"]
        assert result["labels"] == ["Quantum knitting"]
        for wrong, sentence in (
            ({}, "There is nothing to do"),
            ({"texts": ["a"]}, "Got 0 for 1 text."),
            ({"forget": [10**6]}, ""),
            ({"merge": {"Nothing": ["Nowhere"]}}, "--merge takes"),
            ({"texts": [5], "labels": [["x"]]}, "The 'texts[0]' field must be a string"),
        ):
            refused = asking("POST", update, wrong, headers=bearer(ADMIN))
            assert refused.status == 422 and sentence in refused.detail and "Traceback" not in refused.detail


def test_limits_are_those_of_the_settings(books: str) -> None:
    limits = Limits(body=2000, texts=2, text_length=10, k=3, labels=1)
    with running(serve.app({"books": books}, limits=limits)) as asking:
        assert asking("POST", RANK, {"text": "whales", "k": 3}).status == 200
        large = asking("POST", RANK, {"text": "a" * 3000})
        assert large.status == 413 and large.headers["connection"] == "close"
        assert "at most 2,000 bytes" in large.detail
        parts = asking("POST", RANK, parts=[b" " * 900] * 4)
        assert parts.status == 413
        announced = asking("POST", RANK, b"{}", headers={"Content-Length": str(10**10)})
        assert announced.status == 413
        for body, sentence in (
            ({"text": "whales", "k": 4}, "[1, 3]. Got 4"),
            ({"texts": ["a"] * 3}, "a list of at most 2 entries"),
            ({"text": "a" * 11}, "a string of at most 10 characters"),
            ({"text": "a", "denied": [1, 2]}, "a list of at most 1 entries"),
        ):
            assert sentence in asking("POST", RANK, body).detail
        line = asking("POST", RANK, b'{"text": "%s"}\n' % (b"a" * 3000), type="application/x-ndjson")
        assert line.lines()[-1]["error"] == "Line 1: A line of the body must have at most 2,000 bytes."
        assert line.status == 200


def test_an_application_may_be_mounted(books: str) -> None:
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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("port = ", "is no TOML"),
        ("porte = 1", "has no use for 'porte'"),
        ("host = 1", "host must be a string"),
        ("[limits]\nkk = 1", "[limits] has no use for 'kk'"),
        ("[models.a]\n", "the model's folder is missing"),
        ("[models.a]\nfolder = 3", "folder must be a string. Got 3"),
        ("models = 3", "[models] must be a table"),
        ('[[keys]]\nname = "a"\n', "must be given as one of key, env and sha256"),
        ('[[keys]]\nname = "a"\nkey = "short"', "at least 16 characters"),
        ('[[keys]]\nname = "a"\nenv = "NOT_THERE_AT_ALL"', "the environment has no NOT_THERE_AT_ALL"),
        ('[[keys]]\nname = "a"\nsha256 = "12"', "64 hexadecimal digits"),
        ('[[keys]]\nkey = "a long enough key"', "each key needs a name"),
        ('[[keys]]\nname = "a"\nkey = "a long enough key"\nrate = 0', "must be a number above 0"),
        ('[[keys]]\nname = "a"\nkey = "a long enough key"\nadmin = 1', "true or false"),
        ('[[keys]]\nname = "a"\nkey = "a long enough key"\nrole = 1', "has no use for 'role'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_settings(str(path))
    assert sentence in str(error.value)


def test_models_are_named(books: str, tmp_path: Path) -> None:
    assert named_folders(["runs/m", "x=runs/m"]) == [ServedFolder("", "runs/m"), ServedFolder("x", "runs/m")]
    assert checked(Settings((ServedFolder("", books),))).models[0].name == "books"
    with pytest.raises(ParameterError, match="no model to serve"):
        checked(Settings(()))
    with pytest.raises(ParameterError, match="Two models are called 'books'"):
        checked(Settings((ServedFolder("", books), ServedFolder("books", books))))
    with pytest.raises(ParameterError, match="name must be made of"):
        checked(Settings((ServedFolder("a/b", books),)))
    with pytest.raises(ModelError, match="no such folder"):
        checked(Settings((ServedFolder("", str(tmp_path / "nothing")),)))
    with pytest.raises(ParameterError, match=r"'port' setting must be an int in \[0, 65535\]. Got 70000"):
        checked(Settings((ServedFolder("", books),), port=70000))
    with pytest.raises(ParameterError, match=r"'limits.k' setting must be an int in"):
        checked(Settings((ServedFolder("", books),), limits=Limits(k=0)))


def test_a_vocabulary_gives_labels_their_names(tmp_path: Path) -> None:
    texts, labels = ["whales at sea", "bread and cakes"], [["http://x.org/1"], ["http://x.org/2"]]
    sylvan.TextModel().fit(texts, labels).save(tmp_path / "m")
    (tmp_path / "subjects.tsv").write_text("<http://x.org/1>\tWhaling\n<http://x.org/2>\tBaking\n")
    with running(
        serve.app([ServedFolder("m", str(tmp_path / "m"), vocabulary=str(tmp_path / "subjects.tsv"))])
    ) as asking:
        (result,) = asking("POST", "/v1/models/m/rank", {"text": "whales", "k": 1}).json()["results"]
        assert (result["labels"], result["names"]) == (["http://x.org/1"], ["Whaling"])
        (found,) = asking("GET", "/v1/models/m/labels?prefix=bak").json()["labels"]
        assert (found["label"], found["name"]) == ("http://x.org/2", "Baking")
        body = {"text": "whales", "label": "http://x.org/1"}
        why = asking("POST", "/v1/models/m/explain", body).json()["explanation"]
        assert why["name"] == "Whaling"
        assert why["trees"][0]["paths"][0]["steps"][-1]["title"] == "Whaling"
        node = asking("GET", "/v1/models/m/tree?depth=4").json()["node"]
        while node.get("children"):
            node = node["children"][0]
        assert node["label"].startswith("http://x.org/") and node["title"] in ("Whaling", "Baking")


def test_what_can_not_be_served_is_said_at_the_start(tmp_path: Path) -> None:
    text_model().vectorizer.save(tmp_path / "v")
    app = serve.app({"v": str(tmp_path / "v")})

    class Asked(_Impatient):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            ready = await ask(self.app, "GET", "/health/ready")
            if ready.json()["models"]["v"]["message"] is None:
                await self.app(scope, receive, send)
                return
            assert "TfidfVectorizer, which ranks nothing to serve" in ready.json()["models"]["v"]["message"]
            raise AssertionError

    with pytest.raises(AssertionError), running(Asked(app)):  # type: ignore[arg-type]
        pass
