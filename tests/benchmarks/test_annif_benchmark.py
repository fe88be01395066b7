"""The benchmark of Annif's backends: the files that it makes, and the section that it becomes."""

import configparser
import csv
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from benchmarks.annif.__main__ import trained
from benchmarks.annif.sets import ANALYZER, PROJECTS, corpus, projects_file, sources
from benchmarks.report.annif import NAMES

TRAIN = [
    {"title": "Whales\tat sea", "labels": ["Whaling", "Sea", "Whaling"]},
    {"title": "Bread", "labels": ["Baking"]},
    {"title": "Engines", "labels": ["Railways"]},
]
TEST = [{"title": "A whale", "labels": ["Whaling", "Never seen"]}, {"title": "Cheese", "labels": ["Never seen"]}]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    for name, rows in (("train", TRAIN), ("test", TEST)):
        with lzma.open(tmp_path / "books" / f"{name}.jsonl.xz", "wt", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in rows)
    return tmp_path


def test_the_corpus_is_annifs(data: Path, tmp_path: Path) -> None:
    folder = corpus("books", data, tmp_path / "cache", None)
    with open(folder / "subjects.csv", encoding="utf-8", newline="") as lines:
        uris = {row["label_en"]: row["uri"] for row in csv.DictReader(lines)}
    assert set(uris) == {"Whaling", "Sea", "Baking", "Railways"}
    train = (folder / "train.tsv").read_text("utf-8").splitlines()
    assert train[0] == f"Whales at sea\t<{uris['Whaling']}> <{uris['Sea']}>"
    assert len(train) == 3
    assert (folder / "test.tsv").read_text("utf-8") == f"A whale\t<{uris['Whaling']}>\n"
    part = corpus("books", data, tmp_path / "cache", 2)
    assert len((part / "train.tsv").read_text("utf-8").splitlines()) == 2 and part != folder


def test_documents_are_kept_from_the_sources(data: Path, tmp_path: Path) -> None:
    whole = corpus("books", data, tmp_path / "cache", None)
    folder = corpus("books", data, tmp_path / "cache", None, keep=2)
    first, second, third = (whole / "train.tsv").read_text("utf-8").splitlines()
    assert (folder / "train.tsv").read_text("utf-8").splitlines() == [first, third]
    assert (folder / "kept.tsv").read_text("utf-8").splitlines() == [second]
    for same in ("subjects.csv", "test.tsv"):
        assert (folder / same).read_bytes() == (whole / same).read_bytes()


class FakeAnnif:
    """Notes what is trained on what; ``show-project`` knows it."""

    def __init__(self, *known: str) -> None:
        self.known, self.trained = set(known), dict[str, str]()

    def command(self, *words: str) -> dict[str, Any]:
        if words[0] == "show-project":
            return {"printed": f"Backend:           x\nTrained:           {words[1] in self.known}\n"}
        *_, name, documents = words
        if name == "fasttext":
            return {"error": "exit 1: no such backend"}
        self.known.add(name)
        self.trained[name] = Path(documents).name
        return {"seconds": 2.0, "peak_mb": 300.0}


def test_sources_are_trained_before_their_ensemble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    annif: Any = FakeAnnif("omikuji-bonsai")
    assert trained(annif, "omikuji-ensemble", tmp_path, 2) == {}
    assert annif.trained == {"mllm": "train.tsv"}
    annif = FakeAnnif()
    assert trained(annif, "nn-ensemble", tmp_path, 2) == {"train_s": 2.0, "train_peak_mb": 300.0}
    assert annif.trained == {"omikuji-bonsai": "train.tsv", "mllm": "train.tsv", "nn-ensemble": "kept.tsv"}
    assert list(annif.trained) == [*sources("nn-ensemble"), "nn-ensemble"]
    monkeypatch.setitem(PROJECTS, "nn-ensemble", {"backend": "nn_ensemble", "sources": "fasttext,mllm"})  # type: ignore[arg-type]
    assert trained(annif, "nn-ensemble", tmp_path, 2) == {"error": "exit 1: no such backend"}


def test_all_projects_have_the_same_words(tmp_path: Path) -> None:
    projects = configparser.ConfigParser()
    projects.read(projects_file(tmp_path), "utf-8")
    assert projects.sections() == list(PROJECTS) == list(NAMES)
    assert {projects[name]["analyzer"] for name in projects.sections()} == {ANALYZER}
    assert {projects[name]["vocab"] for name in projects.sections()} == {"subjects"}
