"""The benchmark of Annif's backends: the files that it makes, and the section that it becomes."""

from __future__ import annotations

import configparser
import csv
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from benchmarks.annif.__main__ import trained
from benchmarks.annif.sets import ANALYZER, PROJECTS, corpus, projects_file, sources
from benchmarks.report.annif import NAMES, annif_section

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


def test_a_server_is_told_of_one_project_and_its_sources(tmp_path: Path) -> None:
    projects = configparser.ConfigParser()
    projects.read(projects_file(tmp_path, "ensemble"), "utf-8")
    assert projects.sections() == ["ensemble", "sylvan", "mllm"]
    projects = configparser.ConfigParser()
    projects.read(projects_file(tmp_path, "tfidf"), "utf-8")
    assert projects.sections() == ["tfidf"]


def run(project: str, **figures: Any) -> dict[str, Any]:
    made = {
        "project": project, "NDCG": 0.5, "F1@5": 0.3, "Precision@1": 0.6, "train_s": 10.0, "train_peak_mb": 200.0,
        "document_ms": 1.0, "analysis_ms": 0.25, "memory_mb": 150.0, "memory_without_model_mb": 120.0,
        "model_mb": 5.0, "versions": {"annif": "1.4.3"},
    }  # fmt: skip
    return made | figures


def test_the_section(tmp_path: Path) -> None:
    assert annif_section(tmp_path) == []
    runs = [
        run("omikuji-parabel", NDCG=0.6, train_s=100.0, train_cached_s=80.0, memory_mb=280.0),
        run("omikuji-bonsai", train_s=40.0, train_cached_s=25.0, memory_mb=400.0, **{"F1@5": 0.2}),
        run("sylvan", NDCG=0.55, train_cached_s=5.0, **{"F1@5": 0.35}),
    ]
    book = {"date": "2026-11-24", "machine": {"cpu": "A processor", "cores": 2}, "runs": runs}
    (tmp_path / "annif-gutenberg.json").write_text(json.dumps(book))
    lines = annif_section(tmp_path)
    assert "### Annif gutenberg" in lines
    assert "| sylvan | 0.5500 | 0.3500 | 0.6000 | 10 | 5 | 200 | 5.0 | 1.00 | 0.25 | 150 | 30 |" in lines
    assert "- nDCG: 0.5500 beside 0.6000; goal above: not met." in lines
    assert "- F1@5: 0.3500 beside 0.3000; goal above: met." in lines
    assert "- Training takes 0.25 of omikuji's time; goal 0.2: not met." in lines
    assert "- Training with `--cached` takes 0.20 of omikuji's time; goal 0.2: met." in lines
    assert "- The process takes 0.54 of omikuji's memory, and its model 0.19; goal 0.5: not met, and met." in lines


def test_rows_without_times_are_beside_those_with_times(tmp_path: Path) -> None:
    about = {"date": "2026-11-24", "machine": {"cpu": "A processor", "cores": 2}}
    untimed = [run("nn-ensemble", documents={"train": 9000, "kept": 1000}), run("mllm", NDCG=0.1)]
    for row in untimed:
        for time in ("train_s", "document_ms", "analysis_ms"):
            del row[time]
    (tmp_path / "annif-gutenberg.json").write_text(json.dumps({**about, "runs": [run("mllm")]}))
    (tmp_path / "annif-gutenberg-busy.json").write_text(json.dumps({**about, "runs": untimed[1:]}))
    (tmp_path / "annif-gutenberg-kept-10-busy.json").write_text(json.dumps({**about, "runs": untimed}))
    lines = annif_section(tmp_path)
    assert "| mllm | 0.5000 | 0.3000 | 0.6000 | 10 | 200 | 5.0 | 1.00 | 0.25 | 150 | 30 |" in lines  # timed ones first
    assert "| nn_ensemble of omikuji (Bonsai) and mllm | 0.5000 | 0.3000 | 0.6000 | 200 | 5.0 | 150 | 30 |" in lines
    assert "| backend | nDCG | F1@5 | P@1 | training MB | model MB | MB | MB of the model |" in lines
    assert any("trained on 1,000 documents, and everything else" in line for line in lines)
