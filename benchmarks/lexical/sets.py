"""A set with its vocabulary: documents, and what labels are called and related to, for Sylvan and for Annif."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import datasets
from sylvan.data import LabelTerms

__all__ = ["LexicalSet", "read_set", "write_for_annif"]

_SKOS = "http://www.w3.org/2004/02/skos/core#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_BASE = "http://example.org/"


@dataclass(frozen=True)
class LexicalSet:
    """Documents to train with and to test, and the terms of all labels."""

    train: tuple[list[str], list[list[str]]]
    test: tuple[list[str], list[list[str]]]
    terms: dict[str, LabelTerms]


def read_set(name: str, data: Path, n_train: int, n_test: int) -> LexicalSet:
    """The set ``name`` with so many documents, drawn once and for all.

    The labels are those of all training documents, used or not: eurlex57k's are called as EuroVoc calls them,
    gutenberg's are subject headings. Test documents have one of them at least.
    """
    texts, labels = datasets.read_jsonl(data / name / "train.jsonl.xz")
    known = sorted({label for row in labels for label in row})
    written = data / name / "label_names.json.xz"
    terms = {label: LabelTerms((label,)) for label in known}
    if written.exists():
        with lzma.open(written, "rt", encoding="utf-8") as file:
            names = json.load(file)
        terms = {
            label: LabelTerms(
                (names[label]["label"],), tuple(names[label]["alt_labels"]), broader=tuple(names[label]["parents"])
            )
            for label in known if label in names
        }  # fmt: skip
    rows = [(text, [label for label in row if label in terms]) for text, row in zip(texts, labels, strict=True)]
    found, truth = datasets.read_jsonl(data / name / "test.jsonl.xz")
    tests = [(text, [label for label in row if label in terms]) for text, row in zip(found, truth, strict=True)]
    return LexicalSet(_drawn(rows, n_train), _drawn([row for row in tests if row[1]], n_test), terms)


def _drawn(rows: list[tuple[str, list[str]]], n: int) -> tuple[list[str], list[list[str]]]:
    chosen = sorted(random.Random(0).sample(range(len(rows)), min(n, len(rows))))
    return [rows[at][0] for at in chosen], [rows[at][1] for at in chosen]


def write_for_annif(chosen: LexicalSet, folder: Path) -> None:
    """A vocabulary in SKOS, ``train.tsv`` and ``test.tsv``."""
    uris = {label: f"{_BASE}{at}" for at, label in enumerate(chosen.terms)}
    with open(folder / "subjects.nt", "w", encoding="utf-8") as lines:
        for label, terms in chosen.terms.items():
            lines.write(f"<{uris[label]}> <{_TYPE}> <{_SKOS}Concept> .\n")
            pairs = [("prefLabel", text) for text in terms.preferred] + [("altLabel", t) for t in terms.alternative]
            lines.writelines(f"<{uris[label]}> <{_SKOS}{kind}> {_literal(text)} .\n" for kind, text in pairs)
            for other in (uris[other] for other in terms.broader if other in uris):
                lines.write(f"<{uris[label]}> <{_SKOS}broader> <{other}> .\n")
                lines.write(f"<{other}> <{_SKOS}narrower> <{uris[label]}> .\n")
    for name, (texts, labels) in (("train", chosen.train), ("test", chosen.test)):
        _write_documents(folder / f"{name}.tsv", zip(texts, labels, strict=True), uris)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"@en'


def _write_documents(path: Path, rows: Iterable[tuple[str, list[str]]], uris: dict[str, str]) -> None:
    with open(path, "w", encoding="utf-8") as lines:
        for text, labels in rows:
            subjects = " ".join(f"<{uris[label]}>" for label in dict.fromkeys(labels))
            lines.write(re.sub(r"\s+", " ", text).strip() + f"\t{subjects}\n")
