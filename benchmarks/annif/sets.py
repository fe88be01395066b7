"""A set as Annif's files: a vocabulary, documents to train with and documents to evaluate, and the projects."""

from __future__ import annotations

import csv
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.common import datasets

__all__ = ["ANALYZER", "PROJECTS", "corpus", "folder_name", "projects_file", "sources"]

ANALYZER = "snowball(english)"  # of every project
# What each project sets; of omikuji the ways that Annif's wiki names: Parabel, its default, and Bonsai.
PROJECTS: Mapping[str, Mapping[str, str]] = {
    "sylvan": {"backend": "sylvan", "min_df": "2"},
    "sylvan-3-trees": {"backend": "sylvan", "min_df": "2", "n_trees": "3"},
    "sylvan-both": {"backend": "sylvan", "min_df": "2", "model": "linear+neighbors", "weights": "2,1"},
    "omikuji-parabel": {"backend": "omikuji", "min_df": "2"},
    "omikuji-bonsai": {
        "backend": "omikuji", "min_df": "2", "cluster_balanced": "False", "cluster_k": "100", "max_depth": "3"
    },
    "tfidf": {"backend": "tfidf"},
    "mllm": {"backend": "mllm"},
    "fasttext": {"backend": "fasttext", "dim": "300", "lr": "0.5", "epoch": "30", "loss": "hs"},
    "ensemble": {"backend": "ensemble", "sources": "sylvan,mllm"},
    "omikuji-ensemble": {"backend": "ensemble", "sources": "omikuji-bonsai,mllm"},
    "nn-ensemble": {"backend": "nn_ensemble", "sources": "omikuji-bonsai,mllm"},
    "nn-ensemble-sylvan": {"backend": "nn_ensemble", "sources": "sylvan,mllm"},
}  # fmt: skip
_FILES = ("subjects.csv", "train.tsv", "test.tsv")


def sources(project: str) -> list[str]:
    """The projects that an ensemble asks; none for other backends."""
    return [name for name in PROJECTS[project].get("sources", "").split(",") if name]


def folder_name(name: str, most: int | None, keep: int | None = None) -> str:
    """What a corpus is called, and its results."""
    return name + (f"-{most}" if most is not None else "") + (f"-kept-{keep}" if keep is not None else "")


def corpus(name: str, data: Path, cache: Path, most: int | None, keep: int | None = None) -> Path:
    """The folder of the set's files, made once; with ``most``, of so many documents to train with, and a tenth to test.

    Only subjects of documents to train with are in the vocabulary, and only documents that have one are evaluated. With
    ``keep``, every so many-th document to train with is in ``kept.tsv`` instead, for a network that learns how good its
    sources are: on documents that they were trained on, they are better than on others.
    """

    def write(folder: Path) -> None:
        texts, labels = (rows[:most] for rows in datasets.read_jsonl(data / name / "train.jsonl.xz"))
        known = sorted({label for row in labels for label in row})
        uris = {label: f"http://example.org/{at}" for at, label in enumerate(known)}
        with open(folder / "subjects.csv", "w", encoding="utf-8", newline="") as lines:
            table = csv.writer(lines)
            table.writerow(["uri", "label_en"])
            names = _names(known, data / name / "label_names.json.xz")
            table.writerows([uri, names[label]] for label, uri in uris.items())
        given = list(zip(texts, labels, strict=True))
        if keep is not None:
            _write_documents(folder / "kept.tsv", given[keep - 1 :: keep], uris)
            del given[keep - 1 :: keep]
        _write_documents(folder / "train.tsv", given, uris)
        found, truth = datasets.read_jsonl(data / name / "test.jsonl.xz")
        rows = [(text, [label for label in row if label in uris]) for text, row in zip(found, truth, strict=True)]
        tested = [row for row in rows if row[1]]
        _write_documents(folder / "test.tsv", tested if most is None else tested[: max(1, most // 10)], uris)

    parts = _FILES if keep is None else (*_FILES, "kept.tsv")
    return datasets.made_once(cache / "annif" / folder_name(name, most, keep), parts, write)


def _names(labels: list[str], written: Path) -> dict[str, str]:
    """What the set calls its labels, each by a name of its own; as they are where it has no file of names."""
    if not written.exists():
        return {label: label for label in labels}
    with lzma.open(written, "rt", encoding="utf-8") as file:
        known = json.load(file)
    names = {label: known[label]["label"] if label in known else label for label in labels}
    often = Counter(names.values())
    return {label: name if often[name] == 1 else f"{name} ({label})" for label, name in names.items()}


def _write_documents(path: Path, rows: Iterable[tuple[str, list[str]]], uris: Mapping[str, str]) -> None:
    """One document a line, in Annif's own form."""
    with open(path, "w", encoding="utf-8") as lines:
        for text, labels in rows:
            subjects = " ".join(f"<{uris[label]}>" for label in dict.fromkeys(labels))
            lines.write(re.sub(r"\s+", " ", text).strip() + f"\t{subjects}\n")


def projects_file(folder: Path, only: str | None = None) -> Path:
    """The configuration of all projects, or of one and its sources: a server opens all that it is told of."""
    path = folder / ("projects.cfg" if only is None else f"{only}.cfg")
    names = PROJECTS if only is None else [only, *sources(only)]
    texts = []
    for name in names:
        settings = PROJECTS[name]
        common = {"name": name, "language": "en", "vocab": "subjects", "analyzer": ANALYZER, **settings}
        texts.append(f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in common.items()))
    path.write_text("\n".join(texts), encoding="utf-8")
    return path
