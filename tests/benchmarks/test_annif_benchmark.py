"""The benchmark of Annif's backends: the files that it makes, and the section that it becomes."""

from __future__ import annotations

import configparser
import csv
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from benchmarks.annif.sets import ANALYZER, PROJECTS, corpus, projects_file
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
