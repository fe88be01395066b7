"""What the service answers to requests and settings as they come in from the field: (request, status, body)."""

import codecs
import functools
import gzip
import http.client
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.errors import raises

pytest.importorskip("starlette", reason="needs the extra 'serve'")

from serve.asgi import Asking, running
from serve.servers import serving
from waiting import PATIENCE

from sylvan import Ensemble, LexicalMatcher, NeighborRanker, Reranker, TextModel, XRLinear, data, serve
from sylvan.cli import main
from sylvan.errors import SylvanError
from sylvan.models.base import Estimator
from sylvan.serve.settings import ServedFolder

# Codes, what they are called, and words of texts about them. Two are called alike.
SUBJECTS = {
    "u:1": ("Whaling", "whales harpoon sea hunting"), "u:2": ("Baking", "bread oven flour cakes"),
    "u:3": ("Bank", "money loans interest credit"), "u:4": ("Bank", "river shore reeds water"),
    "u:5": ("Poetry", "verse rhyme poems metre"), "u:6": ("Gardens", "roses soil spade seeds"),
}  # fmt: skip


@functools.cache
def corpus() -> tuple[list[str], list[list[str]]]:
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for row in range(240):
        codes = list(rng.choice(list(SUBJECTS), 1 + row % 2, replace=False))
        words = [word for code in codes for word in rng.choice(SUBJECTS[code][1].split(), 3)]
        texts.append(" ".join(["about", SUBJECTS[codes[0]][0].lower(), *words]))
        labels.append(codes)
    return texts, labels


def xr(**options: Any) -> TextModel:
    return TextModel(model=XRLinear(branching=2, max_leaf=2, n_jobs=1, **options))


def lexical() -> LexicalMatcher:
    return LexicalMatcher(n_trees=5, n_jobs=1)


def neighbors() -> TextModel:
    return TextModel(model=NeighborRanker(n_jobs=1))


# Models of every kind that explains; those over texts take examples.
KINDS: dict[str, Any] = {
    "xr": xr, "trees": lambda: xr(n_trees=2), "neighbors": neighbors, "lexical": lexical,
    "inside": lambda: TextModel(model=Ensemble([XRLinear(n_jobs=1), NeighborRanker(n_jobs=1)])),
    "ensemble": lambda: Ensemble([xr(), neighbors(), lexical()]), "lexical-first": lambda: Ensemble([lexical(), xr()]),
    "reranker": lambda: Reranker([xr(), lexical()], n_trees=5),
}  # fmt: skip


pytestmark = pytest.mark.filterwarnings("ignore:The labels are codes")


def fitted(kind: str) -> Estimator:
    texts, labels = corpus()
    model: Estimator = KINDS[kind]()
    if isinstance(model, LexicalMatcher):
        return model.fit(texts, labels, label_texts={code: [name] for code, (name, _) in SUBJECTS.items()})
    return model.fit(texts, labels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved models of every kind, one over matrices, and files beside them that fit, don't fit, or are damaged."""
    folder = tmp_path_factory.mktemp("served")
    texts, labels = corpus()
    for kind in KINDS:
        fitted(kind).save(folder / kind)
    XRLinear(n_jobs=1).fit(np.eye(6).repeat(9, axis=0), np.arange(6).repeat(9)).save(folder / "matrix")
    subjects = "".join(f"<{code}>\t{name}\n" for code, (name, _) in SUBJECTS.items())
    (folder / "subjects.tsv").write_text(subjects, encoding="utf-8")
    (folder / "other.tsv").write_text("<v:1>\tWhaling boats\n", encoding="utf-8")
    (folder / "languages.csv").write_text("uri,label_de\nu:1,Walfang\n", encoding="utf-8")
    (folder / "damaged.ttl").write_bytes(b"\x00\xff<<<< not turtle")
    data.write_jsonl(folder / "train.jsonl", texts, labels)
    data.write_jsonl(folder / "other.jsonl", texts[:5], [["another"]] * 5)
    (folder / "damaged.jsonl").write_text("{not json\n", encoding="utf-8")
    table = [f'"{text}",{";".join(row)}' for text, row in zip(texts, labels, strict=True)]
    (folder / "train.csv").write_text("\n".join(["text,labels", *table]), encoding="utf-8")
    return folder


def served(folder: Path, name: str, **files: str | None) -> ServedFolder:
    paths = {key: str(folder / value) if key != "language" else value for key, value in files.items() if value}
    return ServedFolder(name, str(folder / name), **paths)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def asking(folder: Path) -> Iterator[Asking]:
    """All kinds over texts with a vocabulary and examples."""
    beside = {"vocabulary": "subjects.tsv", "examples": "train.jsonl"}
    with running(serve.app([served(folder, kind, **beside) for kind in KINDS])) as asking:
        yield asking


@pytest.mark.parametrize("kind", KINDS)
def test_explanations_call_labels_as_people_do_of_every_kind_of_model(asking: Asking, kind: str) -> None:
    for label, title in (("u:1", "Whaling"), ("u:3", "Bank")):
        answer = asking("POST", f"/v1/models/{kind}/explain", {"text": "whales and loans at sea", "label": label})
        assert answer.status == 200, answer.body
        explanation = answer.json["explanation"]
        assert (explanation["name"], explanation["code"]) == (title, label)
        steps = [step for tree in explanation["trees"] for path in tree["paths"] for step in path["steps"]]
        assert not re.search("u:[1256]", str([step["title"] for step in steps]))
        if kind != "lexical":
            assert [corpus()[1][one["row"]].count(label) for one in explanation["examples"]] == [1, 1, 1]
        ranked = asking("POST", f"/v1/models/{kind}/rank", {"text": "whaling whales", "k": 2, "explain": True})
        assert ranked.status == 200 and ranked.json["results"][0]["names"][0] == "Whaling"
        assert ranked.json["results"][0]["explanations"][0]["name"] == "Whaling"


@pytest.mark.parametrize("kind", KINDS)
def test_paths_lead_through_a_tree_that_the_service_has(asking: Asking, kind: str) -> None:
    card = asking("GET", f"/v1/models/{kind}").json
    found = asking("POST", f"/v1/models/{kind}/explain", {"text": "whales", "label": "u:1"}).json
    assert bool(found["tree_paths"]) is bool(card["n_trees"]) is (kind in ("xr", "trees"))
    for path in found["tree_paths"]:
        assert asking("GET", f"/v1/models/{kind}/tree?node={path[-1]}").json["node"]["label"] == "u:1"


# A setting of one model beside a sound one: what is said of it, and whether the model answers nevertheless.
SETTINGS = [
    ("xr", {"examples": "train.jsonl"}, None),
    ("xr", {"examples": "train.csv"}, None),
    ("ensemble", {"examples": "train.jsonl"}, None),
    ("reranker", {"examples": "train.jsonl"}, None),
    ("lexical", {"examples": "train.jsonl"}, None),
    ("matrix", {"examples": "train.jsonl"}, "'examples' setting isn't used: .* takes features"),
    ("matrix", {"vocabulary": "subjects.tsv"}, "'vocabulary' setting isn't used: .* ids without names"),
    ("xr", {"examples": "other.jsonl"}, "'examples' setting isn't used: No text in .*other.jsonl has a label"),
    ("ensemble", {"examples": "damaged.jsonl"}, "'examples' setting isn't used: .*damaged.jsonl"),
    ("reranker", {"examples": "gone.jsonl"}, "'examples' setting isn't used: .*gone.jsonl"),
    ("lexical", {"vocabulary": "other.tsv"}, "'vocabulary' setting isn't used: .* names none of the model's labels"),
    ("xr", {"vocabulary": "damaged.ttl"}, "'vocabulary' setting isn't used: .*damaged.ttl"),
    ("ensemble", {"vocabulary": "gone.tsv"}, "'vocabulary' setting isn't used: .*gone.tsv"),
    ("reranker", {"vocabulary": "languages.csv", "language": "fi"}, "'language' setting isn't used: .*'fi', but in de"),
    ("xr", {"vocabulary": "languages.csv", "language": "de"}, None),
]


@pytest.mark.parametrize(("kind", "files", "said"), SETTINGS)
def test_a_setting_that_does_not_fit_takes_no_model_down(
    folder: Path, capfd: pytest.CaptureFixture[str], kind: str, files: dict[str, str], said: str | None
) -> None:
    sound = ServedFolder("sound", str(folder / "neighbors"))
    with running(serve.app([served(folder, kind, **files), sound])) as asking:
        health = asking("GET", "/health/ready").json["models"]
        assert health["sound"] == {"ready": True, "version": health["sound"]["version"], "message": None}
        body = {"features": [{"indices": [0], "values": [1.0]}]} if kind == "matrix" else {"text": "whales"}
        assert asking("POST", f"/v1/models/{kind}/rank", body).status == 200
        assert health[kind]["ready"] is True
        card = asking("GET", f"/v1/models/{kind}").json
    message = health[kind]["message"]
    assert card["message"] == message
    if said is None:
        assert message is None
        return
    assert re.search(said, message) and message.endswith("."), message
    assert f"The model {kind!r} is served, but: {message}" in capfd.readouterr().err


def test_a_model_that_can_not_be_opened_takes_no_other_down(folder: Path, tmp_path: Path) -> None:
    bad = {"gone": str(tmp_path / "nowhere"), "empty": str(tmp_path), "file": str(folder / "subjects.tsv")}
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{}", encoding="utf-8")
    bad["damaged"] = str(tmp_path / "damaged")
    with running(serve.app({**bad, "sound": str(folder / "xr")})) as asking:
        health = asking("GET", "/health/ready")
        assert health.status == 200 and health.json["ready"] is True
        assert asking("POST", "/v1/models/sound/rank", {"text": "whales"}).status == 200
        for name, path in bad.items():
            one = health.json["models"][name]
            assert one["ready"] is False and Path(path).name in one["message"]
            answer = asking("POST", f"/v1/models/{name}/rank", {"text": "whales"})
            assert answer.status == 503 and one["message"] in answer.detail
    with raises(SylvanError, "nowhere"):
        serve.app(bad)


# Bodies as clients send them: (content type, headers, body, status, words of the answer).
JSON, NDJSON = "application/json", "application/x-ndjson"
BODY = json.dumps({"text": "whales and harpoons", "k": 1}).encode()
LINES = BODY.replace(b', "k": 1', b"") + b"\n"
GZIP = {"Content-Encoding": "gzip"}
BODIES = [
    (JSON, {}, BODY, 200, "u:1"),
    (JSON, {}, codecs.BOM_UTF8 + BODY, 200, "u:1"),
    (JSON, {}, codecs.BOM_UTF8, 400, "JSON"),
    (JSON, {}, BODY.decode().encode("utf-16"), 400, "UTF-16"),
    (JSON, GZIP, gzip.compress(BODY, mtime=0), 200, "u:1"),
    (JSON, {"Content-Encoding": "X-GZIP"}, gzip.compress(BODY, mtime=0), 200, "u:1"),
    (JSON, GZIP, gzip.compress(BODY[:9], mtime=0) + gzip.compress(BODY[9:], mtime=0), 200, "u:1"),
    (JSON, GZIP, gzip.compress(codecs.BOM_UTF8 + BODY, mtime=0), 200, "u:1"),
    (JSON, {"Content-Encoding": "identity"}, BODY, 200, "u:1"),
    (JSON, GZIP, BODY, 400, "isn't gzip, though its Content-Encoding says so"),
    (JSON, GZIP, gzip.compress(BODY, mtime=0)[:-9], 400, "ends too early"),
    (JSON, GZIP, gzip.compress(BODY, mtime=0) + b"rest", 400, "isn't gzip"),
    (JSON, GZIP, gzip.compress(b'{"text": "' + b"a" * 40_000 + b'"}', mtime=0), 413, "at most 20,000 bytes"),
    (JSON, GZIP, gzip.compress(bytes(1 << 24), mtime=0), 413, "at most 20,000 bytes"),
    (JSON, {"Content-Encoding": "br"}, BODY, 415, "must be gzip or identity. Got 'br'"),
    (JSON, {"Content-Encoding": "gzip, gzip"}, BODY, 415, "must be gzip or identity"),
    (JSON, {"Content-Encoding": "zstd"}, BODY, 415, "must be gzip or identity"),
    (NDJSON, {}, codecs.BOM_UTF8 + LINES, 200, "u:1"),
    (NDJSON, GZIP, gzip.compress(LINES * 2, mtime=0), 200, "u:1"),
    (NDJSON, GZIP, gzip.compress(LINES * 1000, mtime=0)[:-9], 200, "Line 1001: The body's gzip ends too early"),
    (NDJSON, GZIP, LINES, 200, "Line 1: The body isn't gzip"),
    (NDJSON, {"Content-Encoding": "deflate"}, zlib.compress(LINES), 415, "must be gzip or identity"),
    ("text/plain", GZIP, gzip.compress(BODY, mtime=0), 415, "Content-Type must be"),
]


@pytest.fixture(scope="module")
def limited(folder: Path) -> Iterator[Asking]:
    with running(serve.app({"xr": folder / "xr"}, limits=serve.Limits(body=20_000))) as asking:
        yield asking


@pytest.mark.parametrize(("kind", "headers", "body", "status", "words"), BODIES)
@pytest.mark.parametrize("n_parts", [1, 3])
def test_bodies(
    limited: Asking, kind: str, headers: dict[str, str], body: bytes, status: int, words: str, n_parts: int
) -> None:
    parts = [body[at * len(body) // n_parts : (at + 1) * len(body) // n_parts] for at in range(n_parts)]
    answer = limited("POST", "/v1/models/xr/rank", type=kind, headers=headers, parts=parts)
    assert answer.status == status and words in answer.body.decode(), answer
    assert status != 200 or kind == JSON or all(set(line) & {"labels", "error"} for line in answer.lines)


# Requests whose body is refused before it is read, or in the middle of it: a client sends all of it, and then reads.
REFUSED = [
    ("/v1/models/xr/rank", {"Content-Type": JSON}, 413),
    ("/v1/models/xr/rank", {"Content-Type": JSON, "Connection": "close"}, 413),
    ("/v1/models/xr/rank", {"Content-Type": JSON, "Transfer-Encoding": "chunked"}, 413),
    ("/v1/models/xr/rank", {"Content-Type": "text/plain", "Connection": "close"}, 415),
    ("/v1/models/none/rank", {"Content-Type": JSON, "Connection": "close"}, 404),
    ("/v1/models/xr/update", {"Content-Type": JSON, "Connection": "close"}, 403),
]


def test_clients_read_why_a_long_body_is_refused(folder: Path, tmp_path: Path) -> None:
    with serving(tmp_path, folder / "xr", config="[limits]\nbody = 100000") as server:
        for path, headers, status in REFUSED:
            for size in (150_000, 30 << 20):
                chunked = "Transfer-Encoding" in headers
                body = b'{"text": "' + b"a" * size
                sent: Any = iter([body[at : at + 65536] for at in range(0, len(body), 65536)]) if chunked else body
                with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as connection:
                    connection.request("POST", path, sent, headers, encode_chunked=chunked)
                    assert connection.getresponse().status == status, (path, headers, size)
        waits = f"POST {REFUSED[0][0]} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 999999\r\n"
        heard = server.talk(f"{waits}Expect: 100-continue\r\n\r\n".encode())  # and sends nothing once it is refused
        assert heard.startswith(b"HTTP/1.1 413 ") and b" 100 " not in heard


# Keys as they are given: whether the server starts, and the words of its refusal.
KEYS = [
    ("0123456789abcdef", None), ("0123456789abcde", "at least 16 characters. Got 15"),
    ("", "at least 16 characters. Got 0"), (" 0123456789abcdef", "without blanks around"),
    ("0123456789abcdef\n", "without blanks around"), ("0123456789\tabcdef", "ASCII characters"),
    ("0123456789abcdéf", "ASCII characters"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "words"), KEYS)
@pytest.mark.parametrize("name", ["SYLVAN_API_KEY", "SYLVAN_ADMIN_KEY"])
def test_keys_are_checked_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, key: str,
    words: str | None,
) -> None:  # fmt: skip
    monkeypatch.setenv(name, key)
    begun: list[Any] = []
    monkeypatch.setattr("sylvan.serve.server.serve", begun.append)
    code = main(["serve", str(folder / "xr")])
    said = capsys.readouterr().err
    assert (code or 0, len(begun)) == ((0, 1) if words is None else (2, 0)), said
    assert words is None or (words in said and name in said and (not key.strip() or key.strip() not in said))


# Records as files have them, to a model that was trained on title and text, and to one of the field text.
TITLED = {"title": "whales", "text": "harpoons at sea"}
PAIRED, SINGLE = ("whales harpoons at sea", "titled"), ("harpoons at sea", "xr")
RECORDS = [
    ("titled", TITLED, PAIRED, None),
    ("titled", {**TITLED, "id": "a:1"}, PAIRED, None),
    ("titled", {"text": TITLED, "id": 7}, PAIRED, None),
    ("titled", {"texts": [{**TITLED, "id": 0, "year": 1851}]}, PAIRED, None),
    ("titled", {"texts": [{**TITLED, "text": None}]}, ("whales", "titled"), None),
    ("titled", {"text": "whales harpoons at sea"}, PAIRED, None),
    ("titled", {"texts": ["whales harpoons at sea"]}, PAIRED, None),
    ("titled", {"title": "whales"}, None, "lacks the field 'text': the model was trained on 'title' and 'text'"),
    ("titled", {"texts": [TITLED, {"text": "sea"}]}, None, r"'texts\[1\]': .* lacks the field 'title'"),
    ("titled", {"texts": [{"Title": "sea", "text": "x"}]}, None, "Got 'Title', 'text'"),
    ("titled", {"title": 5, "text": "x"}, None, "'title' must be a string. Got 5"),
    ("titled", {"Title": "whales", "text": "x"}, None, "no field 'Title'"),
    ("titled", {"texts": [TITLED, TITLED], "id": 1}, None, "'id' field goes with one text"),
    ("titled", {"texts": [{**TITLED, "title": "a" * 2_000_000}]}, None, "at most 1,000,000 characters"),
    ("xr", {"text": "harpoons at sea", "id": None}, SINGLE, None),
    ("xr", {"texts": [{"text": "harpoons at sea", "id": [1]}]}, SINGLE, None),
    ("xr", {"text": {"body": "sea"}}, None, "lacks the field 'text': the model was trained on 'text'. Got 'body'"),
    ("xr", TITLED, None, "no field 'title'"),
]


@pytest.fixture(scope="module")
def recorded(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asking]:
    place = tmp_path_factory.mktemp("titled")
    model = fitted("xr")
    model.text_fields_ = ("title", "text")  # type: ignore[attr-defined]
    model.save(place)
    folders = {"titled": place, "xr": folder / "xr", "matrix": folder / "matrix"}
    with running(serve.app(folders)) as asking:
        yield asking


@pytest.mark.parametrize(("name", "body", "same", "refused"), RECORDS)
def test_records_in_the_fields_of_training(
    recorded: Asking, name: str, body: dict[str, Any], same: tuple[str, str] | None, refused: str | None
) -> None:
    answer = recorded("POST", f"/v1/models/{name}/rank", body)
    if same is None:
        assert answer.status == 422 and re.search(str(refused), answer.detail), answer.body[:300]
        return
    (result,) = answer.json["results"]
    wanted = recorded("POST", f"/v1/models/{same[1]}/rank", {"text": same[0]}).json["results"][0]
    record = body["texts"][0] if "texts" in body and isinstance(body["texts"][0], dict) else body
    assert result == {**wanted, **({"id": record["id"]} if "id" in record else {})}
    if "id" not in body and "texts" not in body:
        for route in ("explain", "beam"):
            asked = {**body, **({"label": "u:1"} if route == "explain" else {})}
            plain = {**asked, "text": same[0]}
            plain.pop("title", None)
            found, known = (recorded("POST", f"/v1/models/{name}/{route}", one).body for one in (asked, plain))
            assert found == known and b"problem" not in found


LINES_OF = [
    ("titled", {**TITLED, "id": 1}, {"id": 1}, None),
    ("titled", {**TITLED, "labels": ["u:2"]}, {}, None),
    ("titled", {"text": "harpoons", "id": "b"}, {"id": "b"}, "lacks the field 'title'"),
    ("titled", {"features": {"indices": [0], "values": [1]}, "id": 3}, {"id": 3}, "lacks the field 'title'"),
    ("xr", {"text": "harpoons at sea", "id": "a/1", "title": "x"}, {"id": "a/1"}, None),
    ("xr", {"body": "harpoons", "id": 2.5}, {"id": 2.5}, "exactly one of 'text'"),
    ("matrix", {"features": {"indices": [0], "values": [1]}, "id": 9}, {"id": 9}, None),
    ("matrix", {"features": {"indices": [99], "values": [1]}, "id": 9}, {"id": 9}, "index 99"),
]


def test_lines_in_the_fields_of_training_and_their_ids(recorded: Asking) -> None:
    for name in ("titled", "xr", "matrix"):
        rows = [row for row in LINES_OF if row[0] == name]
        body = b"".join(json.dumps(line).encode() + b"\n" for _, line, _, _ in rows)
        answers = recorded("POST", f"/v1/models/{name}/rank", body, type=NDJSON).lines
        assert len(answers) == len(rows)
        for number, ((_, line, id_, refused), answer) in enumerate(zip(rows, answers, strict=True), 1):
            assert {key: value for key, value in answer.items() if key == "id"} == id_
            if refused:
                assert answer["error"].startswith(f"Line {number}: ") and refused in answer["error"]
            else:
                assert answer["labels"]
            if name != "matrix" and refused is None:
                text = " ".join(line[field] for field in (["title"] if name == "titled" else []) + ["text"])
                wanted = recorded("POST", f"/v1/models/{name}/rank", {"text": text}).json["results"][0]
                assert answer == {**wanted, **id_}
    body = {"features": [{"indices": [1], "values": [1], "id": "r1"}, {"indices": [2], "values": [1]}]}
    first, second = recorded("POST", "/v1/models/matrix/rank", body).json["results"]
    assert (first["id"], "id" in second) == ("r1", False)
    assert recorded("GET", "/v1/models/titled").json["fields"] == ["title", "text"]
