"""Annif's REST API of the application, against what the models themselves say."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
import scipy.sparse as sp
from kit.books import load_sample
from serve.asgi import Answer, Asking, running

import sylvan
from sylvan import TextModel, XRLinear, data
from sylvan.serve import Limits, ServedFolder, app
from sylvan.serve.answers import RankedRow
from sylvan.serve.calls import document

FORM, JSON = "application/x-www-form-urlencoded", "application/json"


class Client:
    """Asks an application for suggestions."""

    def __init__(self, asking: Asking) -> None:
        self.app, self._asking = asking.app, asking

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = "") -> Answer:
        return self._asking(method, path, body, type=kind)

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def suggest(self, project: str, **fields: Any) -> Answer:
        return self.ask("POST", f"/v1/projects/{project}/suggest", urlencode(fields).encode(), FORM)

    def batch(self, project: str, documents: Any, query: str = "") -> Answer:
        body = json.dumps({"documents": documents}).encode()
        return self.ask("POST", f"/v1/projects/{project}/suggest-batch?{query}", body, JSON)


@dataclass(frozen=True)
class World:
    client: Client
    models: dict[str, TextModel]
    texts: list[str]
    heading_of: dict[str, str]  # of a URI
    folder: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("annif-routes")
    sample = load_sample()
    train = sample.train.texts[:500]
    names = [[str(label) for label in row] for row in sample.train.labels[:500]]
    uris = {name: f"http://example.org/{i}" for i, name in enumerate(sorted({x for row in names for x in row}))}
    linked = [[uris[name] for name in row] for row in names]
    models = {
        "plain": TextModel().fit(train, names),
        "linked": TextModel(model=XRLinear(calibration=None)).fit(train, linked),
        "named": TextModel(model=XRLinear(n_trees=2, tail="psp")).fit(train, names),
    }
    for name, model in models.items():
        model.save(folder / name)
    XRLinear().fit(sp.random(30, 10, 0.5, "csr", np.float32, random_state=0), np.arange(30) % 3).save(folder / "matrix")
    rows = "".join(f'{uri},"{name}","fi {name}"\n' for name, uri in uris.items())
    (folder / "subjects.csv").write_text(f"uri,label_en,label_fi\n{rows}", "utf-8")
    subjects = str(folder / "subjects.csv")
    served = [
        ServedFolder("plain", str(folder / "plain")),
        ServedFolder("linked", str(folder / "linked"), "Books, by URI", vocabulary=subjects, language="en"),
        ServedFolder("named", str(folder / "named"), vocabulary=subjects),
        ServedFolder("matrix", str(folder / "matrix")),
    ]
    with running(app(served, limits=Limits(k=50, text_length=2000))) as asking:
        yield World(Client(asking), models, sample.test.texts[:40], {uri: name for name, uri in uris.items()}, folder)


def expected(world: World, name: str, text: str, limit: int, threshold: float = 0.0) -> dict[str, float]:
    """The labels that the model gives a text and their probabilities, one by one."""
    model = world.models[name]
    row = model.predict_proba([text], k=limit).tocoo()
    pairs = {model.vocabulary_[int(j)]: float(p) for j, p in zip(row.col, row.data, strict=True)}
    return {label: p for label, p in pairs.items() if p > 0 and p >= threshold}


def check_hits(world: World, name: str, hits: list[dict[str, Any]], wanted: dict[str, float]) -> None:
    """Whether an answer has these labels with their probabilities, best first, each with its URI and its name."""
    uri_of = {heading: uri for uri, heading in world.heading_of.items()}
    found = {}
    for hit in hits:
        assert list(hit) == ["uri", "label", "score", "notation"] and hit["notation"] is None
        if name == "plain":
            assert hit["uri"] == quote(hit["label"], safe="")
        else:
            assert hit["uri"] == uri_of[hit["label"]]
        found[hit["uri"] if name == "linked" else hit["label"]] = hit["score"]
    assert len(found) == len(hits)
    assert found == pytest.approx(wanted, abs=1e-6)
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


@pytest.mark.parametrize("name", ["plain", "linked", "named"])
@pytest.mark.parametrize(("limit", "threshold"), [(10, 0.0), (3, 0.0), (20, 0.05), (1, 0.5)])
def test_suggestions_are_the_models_probabilities(world: World, name: str, limit: int, threshold: float) -> None:
    for text in world.texts[:8]:
        answer = world.client.suggest(name, text=text, limit=limit, threshold=threshold)
        assert answer.status == 200 and answer.type == JSON and list(answer.json) == ["results"]
        check_hits(world, name, answer.json["results"], expected(world, name, text, limit, threshold))


def test_ten_labels_by_default_and_at_most_as_many_as_the_server_allows(world: World) -> None:
    text = world.texts[0]
    assert len(world.client.suggest("plain", text=text).json["results"]) == 10
    check_hits(world, "plain", world.client.suggest("plain", text=text, limit=10**6).json["results"],
               expected(world, "plain", text, 50))  # fmt: skip
    with running(app({"plain": str(world.folder / "plain")}, limits=Limits(k=3))) as few:
        assert len(Client(few).suggest("plain", text=text).json["results"]) == 3
    assert world.client.suggest("plain", text=text, limit=0).json == {"results": []}


@pytest.mark.parametrize("name", ["plain", "linked", "named"])
def test_a_batch_is_answered_as_its_texts_one_by_one(world: World, name: str) -> None:
    documents = [
        {"text": text} if i % 2 else {"text": text, "document_id": f"d{i}", "metadata": {"title": "x"}, "more": i}
        for i, text in enumerate(world.texts[:32])
    ]
    answer = world.client.batch(name, documents, "limit=5&threshold=0.02")
    assert answer.status == 200 and answer.type == JSON
    for document_, result in zip(documents, answer.json, strict=True):
        assert result["document_id"] == document_.get("document_id")
        alone = world.client.suggest(name, text=document_["text"], limit=5, threshold=0.02).json["results"]
        assert {hit["uri"]: hit["score"] for hit in result["results"]} == pytest.approx(
            {hit["uri"]: hit["score"] for hit in alone}, abs=1e-6
        )
        check_hits(world, name, result["results"], expected(world, name, str(document_["text"]), 5, 0.02))


def test_labels_without_any_probability_are_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def two(version: object, asked: object, rows: list[str]) -> list[RankedRow]:
        return [RankedRow(["Whaling", "Baking"], [2.0, -1.0], [0.25, 0.0]) for _ in rows]

    monkeypatch.setattr("sylvan.annif.rest.answers", two)
    hits = [{"uri": "Whaling", "label": "Whaling", "score": 0.25, "notation": None}]
    assert world.client.suggest("plain", text="a").json == {"results": hits}
    assert world.client.suggest("plain", text="a", threshold=0.25).json == {"results": hits}
    assert world.client.suggest("plain", text="a", threshold=0.26).json == {"results": []}
    assert world.client.batch("plain", [{"text": "a"}]).json == [{"results": hits, "document_id": None}]


def test_batches_of_nothing(world: World) -> None:
    assert world.client.batch("plain", []).json == []
    assert world.client.batch("plain", [{"text": "a", "document_id": "x"}], "limit=0").json == [
        {"results": [], "document_id": "x"}
    ]


def test_projects_and_vocabularies(world: World) -> None:
    listed = {one["project_id"]: one for one in world.client.get("/v1/projects").json["projects"]}
    assert list(listed) == ["plain", "linked", "named"], "matrix takes no texts"
    languages = {"plain": ["und"], "linked": ["en", "fi"], "named": ["en", "fi"]}
    vocabs = {
        name: {"vocab_id": name, "languages": languages[name], "size": model.n_labels_, "loaded": True}
        for name, model in world.models.items()
    }
    for name, one in listed.items():
        changed = (world.folder / name / "manifest.json").stat().st_mtime
        assert np.datetime64(one.pop("modification_time").removesuffix("Z")).astype(int) == int(changed)
        assert one == {
            "project_id": name, "name": "Books, by URI" if name == "linked" else name,
            "language": "en" if name == "linked" else "und", "backend": {"backend_id": "sylvan"}, "vocab": vocabs[name],
            "vocab_language": "und" if name == "plain" else "en", "is_trained": True,
        }  # fmt: skip
        alone = world.client.get(f"/v1/projects/{name}")
        assert alone.json.pop("modification_time") and {**alone.json, "modification_time": 0} == {
            **one, "modification_time": 0,
        }  # fmt: skip
        assert alone.headers["sylvan-model"].startswith(f"{name}@")
    assert world.client.get("/v1/vocabs").json == {"vocabs": list(vocabs.values())}
    assert world.client.get("/v1/").json == {"title": "Sylvan", "version": sylvan.__version__}


def test_labels_in_the_language_that_is_asked_for(world: World) -> None:
    text = world.texts[0]
    for name in ("linked", "named"):
        english = world.client.suggest(name, text=text, language="en").json["results"]
        assert english == world.client.suggest(name, text=text, language="").json["results"]
        for query in (world.client.suggest(name, text=text, language="fi"),
                      world.client.batch(name, [{"text": text}], "language=fi")):  # fmt: skip
            found = query.json["results"] if isinstance(query.json, dict) else query.json[0]["results"]
            assert found == [{**hit, "label": f"fi {hit['label']}"} for hit in english]
        refused = world.client.suggest(name, text=text, language="sv")
        assert refused.status == 400
        sentence = "The 'language' field must be 'en' or 'fi', as the labels are. Got 'sv' instead."
        assert refused.json["detail"] == sentence
        assert world.client.batch(name, [{"text": text}], "language=sv").status == 400
    # The language of plain names isn't known: it may be any.
    assert world.client.suggest("plain", text=text, language="sv").body == world.client.suggest("plain", text=text).body


def test_the_subjects_are_all_labels_with_their_uris(world: World) -> None:
    uri_of = {heading: uri for uri, heading in world.heading_of.items()}
    for name, language in (("plain", ""), ("linked", ""), ("linked", "fi"), ("named", "")):
        answer = world.client.get(f"/v1/vocabs/{name}/subjects?language={language}")
        assert answer.status == 200 and answer.type.startswith("text/tab-separated-values")
        lines = answer.body.decode().splitlines()
        model = world.models[name]
        assert len(lines) == model.n_labels_
        for line, label in zip(lines, model.vocabulary_, strict=True):
            heading = world.heading_of.get(label, label)
            uri = quote(label, safe="") if name == "plain" else uri_of[heading]
            assert line == f"<{uri}>\t{'fi ' if language else ''}{heading}"
    (world.folder / "again.tsv").write_bytes(world.client.get("/v1/vocabs/plain/subjects").body)
    read = data.read_subjects(world.folder / "again.tsv")
    assert sorted(read.label(uri) or "" for uri in read) == sorted(world.models["plain"].vocabulary_)
    assert world.client.get("/v1/vocabs/linked/subjects?language=sv").status == 400


LIMIT, THRESHOLD = "The 'limit' field must be an int in [0, inf).", "The 'threshold' field must be a number in [0, 1]."
SUGGEST, BATCH = "/v1/projects/plain/suggest", "/v1/projects/plain/suggest-batch"
# Where a body is sent, its type, the body (fields of a form, documents), the status and the beginning of the answer.
WRONG: list[tuple[str, str, Any, int, str]] = [
    (SUGGEST, FORM, {}, 400, "The body lacks the field 'text'."),
    (SUGGEST, FORM, {"text": "", "limit": "-1"}, 400, f'{LIMIT} Got "-1" instead.'),
    (SUGGEST, FORM, {"text": "", "limit": "ten"}, 400, f'{LIMIT} Got "ten" instead.'),
    (SUGGEST, FORM, {"text": "", "limit": "1.5"}, 400, f'{LIMIT} Got "1.5" instead.'),
    (SUGGEST, FORM, {"text": "", "limit": ""}, 400, f'{LIMIT} Got "" instead.'),
    (SUGGEST, FORM, {"text": "", "threshold": "2"}, 400, f'{THRESHOLD} Got "2" instead.'),
    (SUGGEST, FORM, {"text": "", "threshold": "nan"}, 400, f'{THRESHOLD} Got "nan" instead.'),
    (SUGGEST, FORM, {"text": "a" * 2001}, 400,
     "The 'text' field must be a string of at most 2,000 characters. Got 2,001 characters instead."),
    *((SUGGEST, FORM, form, 400, "The form ") for form in (
        b"text=%ff", b"text=\xff", b"text=%ed%a0%80", b"text=a&text=b", b"a=&" * 1001)),
    (SUGGEST, FORM, b"text=" + b"a" * (9 << 20), 413, ""),
    (BATCH, JSON, [{"text": "a"}] * 33, 400, "The 'documents' field must be a list of at most 32 entries."),
    (BATCH, JSON, [{"document_id": "x"}], 400, "The 'documents[0]' field lacks the field 'text'."),
    (BATCH, JSON, [{"text": 3}], 400,
     "The 'documents[0].text' field must be a string of at most 2,000 characters. Got 3 instead."),
    (BATCH, JSON, [{"text": "a", "document_id": 3}], 400,
     "The 'documents[0].document_id' field must be a string. Got 3 instead."),
    (f"{BATCH}?limit=-1", JSON, [{"text": "a"}], 400, f'{LIMIT} Got "-1" instead.'),
    (f"{BATCH}?threshold=1.1", JSON, [{"text": "a"}], 400, f'{THRESHOLD} Got "1.1" instead.'),
    (BATCH, JSON, b'{"documents": [], "limit": 1}', 400, "The body has no field 'limit'."),
    (BATCH, JSON, b"no json", 400, "The body must be JSON"),
    *((SUGGEST, kind, b"text=a", 415, "") for kind in (JSON, "multipart/form-data; boundary=x", "")),
    (BATCH, FORM, b"text=a", 415, ""),
]  # fmt: skip


@pytest.mark.parametrize(("path", "kind", "body", "status", "beginning"), WRONG)
def test_wrong_requests(world: World, path: str, kind: str, body: Any, status: int, beginning: str) -> None:
    if isinstance(body, dict):
        body = urlencode(body).encode()
    elif isinstance(body, list):
        body = json.dumps({"documents": body}).encode()
    answer = world.client.ask("POST", path, body, kind)
    assert answer.status == status and answer.detail.startswith(beginning), answer


def test_a_form_as_clients_write_it(world: World) -> None:
    wanted = world.client.suggest("plain", text="Les Misérables 50% & more").json
    for body in ("text=Les+Mis%C3%A9rables+50%25+%26+more&project=x&metadata_title=a&metadata_title=b",
                 "text=Les%20Misérables%2050%25%20%26%20more&"):  # fmt: skip
        for kind in (FORM, f"{FORM};charset=utf-8"):
            answer = world.client.ask("POST", SUGGEST, body.encode(), kind)
            assert answer.json == wanted
    assert world.client.get(SUGGEST).status == 405
    large = world.client.ask("POST", SUGGEST, b"text=whales&rest=" + b"%41" * 100_000, FORM)
    assert large.json == world.client.suggest("plain", text="whales").json


@pytest.mark.parametrize("name", ["nothing", "matrix", "..%2Fplain"])
def test_what_is_no_project(world: World, name: str) -> None:
    for answer in (
        world.client.get(f"/v1/projects/{name}"),
        world.client.suggest(name, text="a"),
        world.client.batch(name, [{"text": "a"}]),
        world.client.get(f"/v1/vocabs/{name}/subjects"),
    ):
        assert answer.status == 404 and answer.detail.endswith(".")


def test_a_model_that_is_being_opened_is_a_project_whose_state_isnt_known(world: World) -> None:
    served = world.client.app.service.served["plain"]
    current, served.current = served.current, None
    try:
        one = world.client.get("/v1/projects").json["projects"][0]
        assert one["project_id"] == "plain" and one["is_trained"] is one["modification_time"] is one["vocab"] is None
        for answer in (world.client.get("/v1/projects/plain"), world.client.suggest("plain", text="a")):
            assert answer.status == 503 and "retry-after" in answer.headers
        assert [vocab["vocab_id"] for vocab in world.client.get("/v1/vocabs").json["vocabs"]] == ["linked", "named"]
    finally:
        served.current = current


def test_the_document_describes_the_routes_with_the_servers_limits(world: World) -> None:
    described = document(world.client.app.operations, False)
    suggest = described["paths"]["/v1/projects/{project}/suggest"]["post"]
    schemas = described["components"]["schemas"]
    form = schemas[suggest["requestBody"]["content"][FORM]["schema"]["$ref"].rsplit("/", 1)[1]]
    assert form["required"] == ["text"] and form["properties"]["text"]["maxLength"] == 2000
    assert form["properties"]["limit"] == {"type": "integer", "minimum": 0, "default": 10}
    batch = described["paths"]["/v1/projects/{project}/suggest-batch"]["post"]
    body = schemas[batch["requestBody"]["content"][JSON]["schema"]["$ref"].rsplit("/", 1)[1]]
    assert body["properties"]["documents"]["maxItems"] == 32
    assert {each["name"] for each in batch["parameters"]} == {"project", "limit", "threshold", "language"}
