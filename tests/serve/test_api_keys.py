"""Who may ask, how often, and who may change models."""

import base64
import hashlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from servers import Answer, Server, pytestmark, serving  # noqa: F401
from waiting import until

USER, ADMIN, HURRIED, HASHED = (f"{name}-key-0123456789" for name in ("user", "admin", "hurried", "hashed"))
CONFIG = f"""
[[keys]]
name = "reader"
key = "{USER}"

[[keys]]
name = "keeper"
env = "KEEPERS_KEY"
admin = true

[[keys]]
name = "hurried"
key = "{HURRIED}"
rate = 0.5

[[keys]]
name = "hashed"
sha256 = "{hashlib.sha256(HASHED.encode()).hexdigest()}"
"""
RANK = "/v1/models/first/rank"
OPEN = ("/", "/page/page.css", "/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready", "/openapi.json")
CLOSED = ("", "/first", "/none", "/first/labels?prefix=a", "/first/tree")  # below /v1/models


@pytest.fixture(scope="module")
def server(first, tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("keys")
    shutil.copytree(first.folder, folder / "first")  # an admin's update changes it
    with serving(folder, folder / "first", config=CONFIG, environment={"KEEPERS_KEY": ADMIN}) as server:
        yield server


def ask(server: Server, key: str | None, method: str = "GET", path: str = "/v1/models", body: object = None) -> Answer:
    return server.ask(method, path, body, {} if key is None else {"Authorization": f"Bearer {key}"})


def test_what_needs_no_key(server):
    for path in OPEN:
        assert ask(server, None, path=path).status == 200, path
        assert ask(server, "wrong-key-0123456789", path=path).status == 200, path


def basic(word: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"annif:{word}".encode()).decode()}


@pytest.mark.parametrize("path", [*(f"/v1/models{path}" for path in CLOSED), "/metrics"])
def test_what_needs_one(server, path):
    digest = hashlib.sha256(HASHED.encode()).hexdigest()
    wrong = ["", USER, f"Basic {USER}", "Basic \xe9", "Bearer", "Bearer ", f"Bearer {USER}x", f"Bearer {USER[:-1]}",
             f"Bearer {USER.upper()}", "Bearer \xe9\xff", f"Bearer {USER} {USER}", f"Bearer {digest}"]  # fmt: skip
    for headers in ({}, {"X-API-Key": f"{USER}x"}, basic(digest), *({"Authorization": value} for value in wrong)):
        answer = server.ask("GET", path, None, headers)
        assert answer.status == 401 and answer.detail and "first" not in answer.detail, headers
        assert "bearer" in answer.headers["www-authenticate"].lower(), headers
    right = [{"Authorization": f"Bearer {key}"} for key in (USER, ADMIN, HASHED)]
    for headers in (*right, {"authorization": f"bearer {USER}"}, {"X-API-Key": ADMIN}, basic(ADMIN),
                    {"X-API-Key": USER, **basic("the proxy's own")},
                    {"Authorization": f"Bearer {USER}", "X-API-Key": "the proxy's own"}):
        assert server.ask("GET", path, None, headers).status == (404 if "none" in path else 200), headers


def test_rankings_need_one(server):
    assert ask(server, None, "POST", RANK, {"text": "a"}).status == 401
    assert ask(server, USER, "POST", RANK, {"text": "a"}).status == 200
    assert ask(server, None, "POST", RANK, b"nonsense").status == 401  # before the body is read


def test_models_are_changed_by_admins_alone(server):
    for path, body in (("reload", None), ("update", {"texts": ["a"], "labels": [["b"]]})):
        address = f"/v1/models/first/{path}"
        assert ask(server, None, "POST", address, body).status == 401
        refused = ask(server, USER, "POST", address, body)
        assert refused.status == 403 and refused.detail
        assert ask(server, ADMIN, "POST", address, body).status not in (401, 403)


def test_a_key_in_the_address_is_no_key(server):
    assert server.ask("GET", f"/v1/models?key={USER}&api_key={USER}").status == 401
    assert server.ask("GET", "/v1/models", None, {"Cookie": f"key={USER}"}).status == 401


def test_a_key_has_its_rate(server):
    """Half a request a second, of which ten seconds' worth may come at once: five."""
    found: Counter[int] = Counter()
    began = time.monotonic()

    def refused() -> bool:
        answer = ask(server, HURRIED)
        found[answer.status] += 1
        if answer.status == 429:
            assert 0 < float(answer.detail.split()[-2]) <= int(answer.headers["retry-after"]) <= 10
            assert "'hurried' may ask 0.5 times" in answer.detail
        return found[429] >= 10

    until(refused, "it may ask as often as it likes")
    assert set(found) == {200, 429} and 4 <= found[200] <= 6 + (time.monotonic() - began) / 2, found
    assert ask(server, USER).status == 200, "others are held up"
    until(lambda: ask(server, HURRIED).status != 429, "its time doesn't come again")


def test_the_log_names_whose_key_it_was_and_never_the_key(server):
    answer = ask(server, USER, "POST", RANK, {"text": "a"})
    assert server.logged(id=answer.headers["x-request-id"])["key"] == "reader"
    refused = ask(server, "wrong-key-0123456789")
    assert server.logged(id=refused.headers["x-request-id"])["status"] == 401
    said = str(server.log) + server.errors
    for key in (USER, ADMIN, HURRIED, HASHED, "wrong-key-0123456789"):
        assert key not in said


def test_the_document_says_that_keys_are_needed(server):
    document = server.ask("GET", "/openapi.json").json
    assert document["components"]["securitySchemes"]
    assert (
        document["paths"]["/v1/models"]["get"]["security"]
        and "401" in document["paths"]["/v1/models"]["get"]["responses"]
    )
    assert "security" not in document["paths"]["/health/live"]["get"]
