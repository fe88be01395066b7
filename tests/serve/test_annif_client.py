"""Annif's own `http` backend, of its release, as a client of a served model.

Annif lives in an environment of its own, as it needs other releases of NumPy and scikit-learn; SYLVAN_ANNIF_PYTHON
names the Python of that environment.
"""

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from child_processes import run
from kit.annif import MISSING, PYTHON, Annif
from kit.books import load_sample
from servers import serving
from waiting import PATIENCE

from sylvan import TextModel, XRLinear, data

N_DOCUMENTS = 40
LIMIT = 100  # of the http backend, where its project names none
AXIOS = {"Content-Type": "application/x-www-form-urlencoded;charset=utf-8"}  # as the page's requests have it

pytestmark = pytest.mark.skipif(not PYTHON, reason=MISSING)


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        return json.load(answer)


@dataclass(frozen=True)
class World:
    """A server with two models of the same books, one with URIs and one with plain names; and Annif beside it."""

    models: dict[str, TextModel]
    address: str
    annif: Annif
    texts: list[str]
    wanted: list[list[str]]  # headings
    uris: dict[str, dict[str, str]]  # for each model, the URI of a heading


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("annif")
    sample = load_sample()
    train, wanted = sample.train.texts[:1500], sample.train.labels[:1500]
    headings = sorted({str(label) for row in wanted for label in row})
    uris = {heading: f"http://example.org/heading/{i}" for i, heading in enumerate(headings)}
    models = {
        "plain": TextModel().fit(train, wanted),
        "linked": TextModel(model=XRLinear(calibration=None)).fit(train, [[uris[str(x)] for x in y] for y in wanted]),
    }
    for name, model in models.items():
        model.save(folder / name)
    subjects = data.SubjectVocabulary({uri: {"en": heading} for heading, uri in uris.items()})
    data.write_subjects(folder / "subjects.tsv", subjects)
    config = (
        '[models.plain]\nfolder = "plain"\nlanguage = "en"\n'
        '[models.linked]\nfolder = "linked"\nvocabulary = "subjects.tsv"\nlanguage = "en"\n'
    )
    known = set(headings)
    test = [
        (text, [str(label) for label in row if label in known])
        for text, row in zip(sample.test.texts, sample.test.labels, strict=True)
        if known & {str(label) for label in row}
    ][:N_DOCUMENTS]
    with serving(folder, config=config, cwd=folder) as server:
        address = f"http://127.0.0.1:{server.port}"
        (folder / "projects.cfg").write_text(
            "".join(
                f"[{name}]\nname={name}\nlanguage=en\nbackend=http\nvocab={name}\n"
                f"endpoint={address}/v1/projects/{name}/suggest\n"
                for name in models
            ),
            "utf-8",
        )
        own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ANNIF_CONFIG")}
        annif = Annif(folder, own)
        addresses = {"plain": {heading: quote(heading, safe="") for heading in headings}, "linked": uris}
        for name, known_uris in addresses.items():
            lines = (f"<{uri}>\t{heading}\n" for heading, uri in known_uris.items())
            (folder / f"{name}.tsv").write_text("".join(lines), "utf-8")
            annif("load-vocab", "-L", "en", name, f"{name}.tsv")
        yield World(models, address, annif, [text for text, _ in test], [row for _, row in test], addresses)


@pytest.fixture(scope="module")
def page() -> str:
    """Annif's web page with its script."""
    script = "import importlib.util, sys; sys.stdout.write(importlib.util.find_spec('annif').origin)"
    done = run([PYTHON, "-c", script], check=True)
    return Path(done.stdout).with_name("templates").joinpath("home.html").read_text("utf-8")


def own_answers(world: World, name: str, k: int) -> list[dict[str, float]]:
    """The headings that the model itself gives to each text and their probabilities, read label by label."""
    model = world.models[name]
    found = model.predict_proba(world.texts, k=k)
    heading_of = {uri: heading for heading, uri in world.uris["linked"].items()}
    answers = []
    for row in range(len(world.texts)):
        answer = {}
        for column, probability in zip(found[row].indices, found[row].data, strict=True):
            label = model.vocabulary_[int(column)]
            if probability > 0:
                answer[heading_of.get(label, label)] = float(probability)
        answers.append(answer)
    return answers


@pytest.mark.parametrize("name", ["plain", "linked"])
def test_annif_gets_sylvans_ranking(world: World, name: str) -> None:
    (world.annif.folder / "texts.tsv").write_text("".join(f"{text}\t<x>\n" for text in world.texts), "utf-8")
    world.annif("index", name, "texts.tsv", "-s", f".{name}", "-f", "-l", str(LIMIT))
    found = [json.loads(line) for line in (world.annif.folder / f"texts.{name}.jsonl").read_text("utf-8").splitlines()]
    assert len(found) == len(world.texts)
    for one, expected in zip(found, own_answers(world, name, LIMIT), strict=True):
        hits = one["results"]
        assert len(hits) > 20
        assert {hit["label"]: hit["score"] for hit in hits} == pytest.approx(expected, abs=1e-5)
        assert [hit["uri"] for hit in hits] == [world.uris[name][hit["label"]] for hit in hits]
        assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)


@pytest.mark.parametrize("name", ["plain", "linked"])
def test_suggest_at_annifs_command_line(world: World, name: str) -> None:
    output = world.annif("suggest", "--limit", "5", name, stdin=world.texts[0] + "\n")
    lines = [line.split("\t") for line in output.splitlines()]
    expected = sorted(own_answers(world, name, 5)[0].items(), key=lambda pair: -pair[1])
    assert [float(line[-1]) for line in lines] == pytest.approx([score for _, score in expected], abs=5.1e-5)
    assert {line[1] for line in lines} == {label for label, _ in expected}
    assert all(line[0] == f"<{world.uris[name][line[1]]}>" for line in lines)


@pytest.mark.parametrize("name", ["plain", "linked"])
def test_evaluation_by_annif(world: World, name: str) -> None:
    lines = [
        f"{text}\t{' '.join(f'<{world.uris[name][label]}>' for label in row)}\n"
        for text, row in zip(world.texts, world.wanted, strict=True)
    ]
    (world.annif.folder / "corpus.tsv").write_text("".join(lines), "utf-8")
    world.annif("eval", "-M", "measured.json", "-l", "5", name, "corpus.tsv")
    measured = json.loads((world.annif.folder / "measured.json").read_text("utf-8"))
    assert measured["Documents_evaluated"] == len(world.texts)
    hits = [
        [label in wanted for label in sorted(answer, key=lambda label: -answer[label])]
        for answer, wanted in zip(own_answers(world, name, 5), world.wanted, strict=True)
    ]
    assert measured["Precision@1"] == pytest.approx(np.mean([row[0] for row in hits]), abs=1e-6)
    recall = np.mean([sum(row) / len(set(wanted)) for row, wanted in zip(hits, world.wanted, strict=True)])
    assert measured["Recall_doc_avg"] == pytest.approx(recall, abs=1e-6)
    assert measured["True_positives"] == sum(map(sum, hits)) > 0


def test_annif_lists_the_models_as_trained(world: World) -> None:
    lines = world.annif("list-projects").splitlines()[2:]
    rows = {line.split()[0]: line.split() for line in lines if line.strip()}
    for name in world.models:
        assert rows[name][4] == "True", "the column 'Trained'"
        assert re.fullmatch(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", " ".join(rows[name][5:]))


def test_what_the_backend_sends_besides_is_passed_over(world: World) -> None:
    parameters = ["-b", "http.project=other", "-b", "http.limit=100000"]
    done = world.annif.command("suggest", *parameters, "-D", "title=The White Whale", "plain", stdin=world.texts[0])
    assert len(done.stdout.splitlines()) == 10
    assert "warning" not in done.stderr.lower()


def test_a_missing_project_is_a_warning_in_annif(world: World) -> None:
    endpoint = f"http.endpoint={world.address}/v1/projects/nothing/suggest"
    done = world.annif.command("suggest", "-b", endpoint, "plain", stdin="whales")
    assert done.stdout.strip() == "" and "404" in done.stderr


@pytest.mark.parametrize("name", ["plain", "linked"])
def test_each_request_of_the_web_page_gets_what_the_page_reads(world: World, page: str, name: str) -> None:
    requests = [re.sub(r"\s", "", words) for words in re.findall(r"axios\.((?:get|post)\([^),]*)", page)]
    suggest = "post('/v1/projects/'+this_.project+'/suggest'"
    assert sorted(requests) == ["get('/v1/'", "get('/v1/projects'", suggest], "the page makes other requests"
    assert isinstance(get(f"{world.address}/v1/")["version"], str)
    projects = get(f"{world.address}/v1/projects")["projects"]
    project = next(one for one in projects if one["project_id"] == name)
    read = set(re.findall(r"getSelectedProject\(\)\.(\w+)", page)) | {"name"}
    assert {"project_id", "is_trained"} <= read <= set(project), "the page reads other fields"
    assert quote(name, safe="") == name  # it goes into a path as it is
    assert project["name"] and isinstance(project["language"], str)
    assert isinstance(project["backend"]["backend_id"], str) and project["is_trained"] is True
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", project["modification_time"])
    assert re.findall(r"formData\.append\('(\w+)'", page) == ["text", "limit"]
    limits = [int(word) for word in re.findall(r'name="limit" value="(\d+)"', page)]
    assert len(limits) == 3
    for limit in limits:
        body = f"text={quote(world.texts[0])}&limit={limit}".encode()
        hits = get_by_post(f"{world.address}/v1/projects/{name}/suggest", body, AXIOS)["results"]
        assert len(hits) == limit
        for hit in hits:
            assert {"score", "uri", "label"} <= set(re.findall(r"\bresult\.(\w+)", page)) <= set(hit)
            assert 0 < hit["score"] <= 1 and hit["label"] and hit["uri"] and hit["notation"] is None


def test_errors_have_the_title_and_detail_that_the_page_shows(world: World, page: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        get_by_post(f"{world.address}/v1/projects/plain/suggest", b"text=a&limit=minus", AXIOS)
    problem = json.loads(caught.value.read())
    assert {"title", "detail"} == set(re.findall(r"error\.response\.data\.(\w+)", page)) <= set(problem)
    assert caught.value.headers["Content-Type"] == "application/problem+json"
    assert problem["status"] == caught.value.code == 400
    assert problem["title"].strip() and problem["detail"].strip()


def get_by_post(address: str, body: bytes, headers: dict[str, str]) -> Any:
    with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=PATIENCE) as answer:
        return json.load(answer)
