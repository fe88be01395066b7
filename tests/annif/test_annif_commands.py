"""Annif's own commands and REST API, unmodified, with projects whose backend is Sylvan's."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from child_processes import run
from kit.books import load_sample

tomllib = pytest.importorskip("tomllib")
ROOT = Path(__file__).parents[2]
PROJECTS = """
[linear]
name=Linear
language=en
backend=sylvan
vocab=subjects
analyzer=snowball(english)
keep_rows=true
allow_learn=true

[both]
name=Linear and neighbors
language=en
backend=sylvan
vocab=subjects
analyzer=simple
model=linear+neighbors
"""
N_TRAIN, N_TEST = 300, 60
LEARNED = "http://example.org/new"
ASK = """import json, sys, annif
client = annif.create_app().test_client()
text = sys.stdin.read()
found = client.post("/v1/projects/linear/suggest", data={"text": text, "limit": 4}).json()
learned = client.post("/v1/projects/linear/learn", json=[{"text": "zyzzyva", "subjects": [{"uri": sys.argv[1]}]}])
print(json.dumps([found, learned.status_code, client.get("/v1/projects/both").json()]))
"""


@pytest.fixture(scope="session")  # a process may come here twice
def library(annif: Any) -> Any:
    """Annif with a vocabulary, two projects, one of them trained, and files of books."""
    sample = load_sample()
    known = sorted({str(label) for row in sample.train.labels[:N_TRAIN] for label in row})
    uris = {label: f"http://example.org/{at}" for at, label in enumerate(known)}
    lines = [f"<{uri}>\t{label}\n" for label, uri in uris.items()] + [f"<{LEARNED}>\tA new subject\n"]
    (annif.folder / "subjects.tsv").write_text("".join(lines), "utf-8")
    (annif.folder / "projects.cfg").write_text(PROJECTS, "utf-8")
    for name, books, n in (("train", sample.train, N_TRAIN), ("test", sample.test, N_TEST)):
        rows = zip(books.texts[:n], books.labels[:n], strict=True)
        write_corpus(annif.folder / f"{name}.tsv", [(text, [uris[x] for x in map(str, row) if x in uris])
                                                    for text, row in rows])  # fmt: skip
    annif("load-vocab", "-L", "en", "subjects", "subjects.tsv")
    assert "False" in annif("list-projects").splitlines()[2]
    annif("train", "-j", "1", "linear", "train.tsv")
    return annif


def write_corpus(path: Path, rows: list[tuple[str, list[str]]]) -> None:
    lines = (" ".join(text.split()) + "\t" + " ".join(f"<{uri}>" for uri in uris) + "\n" for text, uris in rows if uris)
    path.write_text("".join(lines), "utf-8")


def measured(annif: Any, *words: str) -> dict[str, float]:
    annif("eval", "-M", "measured.json", *words)
    found: dict[str, float] = json.loads((annif.folder / "measured.json").read_text("utf-8"))
    return found


def test_projects_are_shown_as_trained(library: Any) -> None:
    shown = library("show-project", "linear")
    assert "Backend:           sylvan" in shown and "Trained:           True" in shown


def test_suggest(library: Any) -> None:
    lines = library("suggest", "-l", "3", "linear", stdin="a history of railways in England\n").splitlines()
    assert len(lines) == 3
    scores = [float(line.split("\t")[2]) for line in lines]
    assert scores == sorted(scores, reverse=True) and 0 < scores[0] <= 1


def test_eval_by_two_processes_is_eval_by_one(library: Any) -> None:
    one = measured(library, "linear", "test.tsv")
    assert measured(library, "-j", "2", "linear", "test.tsv") == pytest.approx(one)
    assert one["NDCG"] > 0.2


def test_train_again_from_the_cache_with_another_parameter(library: Any) -> None:
    library("train", "both", "train.tsv")
    before = measured(library, "both", "test.tsv")
    library("train", "--cached", "-b", "sylvan.model=neighbors", "both")
    assert measured(library, "both", "test.tsv")["NDCG"] != before["NDCG"] > 0.2


def test_learn(library: Any) -> None:
    write_corpus(library.folder / "more.tsv", [("quokkas and wombats", [LEARNED]), ("wombats", [LEARNED])])
    library("learn", "linear", "more.tsv")
    assert library("suggest", "-l", "1", "linear", stdin="a wombat\n").startswith(f"<{LEARNED}>")


def test_hyperopt(library: Any) -> None:
    printed = library("hyperopt", "-T", "1", "-d", "20", "-r", "trials.tsv", "linear", "test.tsv").splitlines()
    assert printed[1].startswith("Got best NDCG score 0.")
    assert any(line.startswith("cost=") for line in printed)
    assert (library.folder / "trials.tsv").read_text("utf-8").startswith("trial\tvalue\t")


def test_a_wrong_parameter_is_a_sentence(library: Any) -> None:
    done = library.run("-m", "annif.cli", "train", "-b", "sylvan.beam=0", "--cached", "linear")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "Misconfigured backend 'sylvan': The 'beam' parameter of XRLinear must be an int" in done.stderr


def test_rest(library: Any) -> None:
    done = library.run("-c", ASK, LEARNED, stdin="a history of railways in England")
    assert done.returncode == 0, done.stderr
    found, status, project = json.loads(done.stdout.splitlines()[-1])
    assert len(found["results"]) == 4 and found["results"][0]["uri"].startswith("http://example.org/")
    assert status == 204
    assert project["backend"] == {"backend_id": "sylvan"}


@pytest.mark.parametrize(
    ("heading", "backend"), [("Parameters", "SylvanBackend"), ("With a text encoder", "SylvanTransformerBackend")]
)
def test_every_parameter_is_in_the_guide(library: Any, heading: str, backend: str) -> None:
    guide = (ROOT / "docs" / "annif.md").read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in guide.splitlines() if line.startswith("| `")]
    code = f"import json, sylvan.annif as a; print(json.dumps(list(a.{backend}.DEFAULT_PARAMETERS)))"
    known = {"limit", *json.loads(library.run("-c", code).stdout)}
    assert {name.strip(" `") for cell in cells for name in cell.split(",")} == known


def test_the_proposed_patch_finds_the_backend_by_its_entry_point(library: Any) -> None:
    where = library.run("-c", "import importlib.util as u; print(u.find_spec('annif').submodule_search_locations[0])")
    patched = library.folder / "patched"
    shutil.copytree(where.stdout.strip(), patched / "annif", ignore=shutil.ignore_patterns("__pycache__", "static"))
    patch = ROOT / "docs" / "annif-entry-points.patch"
    run(["git", "apply", patch], cwd=patched, check=True)
    metadata = library.folder / "path" / "sylvan-0.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: sylvan\nVersion: 0\n", "utf-8")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["annif.backends"]
    lines = [f"{name} = {place}\n" for name, place in declared.items()]
    metadata.joinpath("entry_points.txt").write_text("[annif.backends]\n" + "".join(lines), "utf-8")
    environment = {name: value for name, value in library.environment.items() if name != "ANNIF_CONFIG"}
    environment["PYTHONPATH"] = f"{patched}:{environment['PYTHONPATH']}"
    bare = dataclasses.replace(library, environment=environment)
    code = "import sys, annif.backend as b; print(b.__file__, *(b.get_backend(name).name for name in sys.argv[1:]))"
    file, *names = bare.run("-c", code, "sylvan", "sylvan_transformer", "tfidf").stdout.split()
    assert file.startswith(str(patched)) and names == ["sylvan", "sylvan_transformer", "tfidf"]
    code = "import annif.backend; annif.backend.get_backend('nothing')"
    assert bare.run("-c", code).stderr.splitlines()[-1] == "ValueError: No such backend type nothing"
    assert "Trained:           True" in bare("show-project", "linear")
