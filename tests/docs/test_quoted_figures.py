"""Figures that tutorials quote are those of the results, which are made from benchmarks/results."""

from __future__ import annotations

import pytest

from benchmarks import ROOT

# What a tutorial says, and the line of a page of results with the cells that it says it from.
QUOTED = [
    ("tag-books", "70,746 training rows and 39,411 headings", "libraries", "70,746 training rows", ["39,411 labels"]),
    ("tag-books", "trains in 7.7 seconds from raw text", "libraries", "| raw text to model, s, 1 thread |", ["7.68"]),
    ("tag-books", "P@1 of 49.0%", "libraries", "| P@1, raw text |", ["49.01"]),
    ("tag-books", "8.3 MB large", "libraries", "| model on disk, MB |", ["8.3"]),
    ("tag-books", "one query in 0.05 ms", "libraries", "| one query, p50, ms |", ["0.0503"]),
    ("product-search", "12.03% of these among ten", "updates", "| texts (default) |", ["12.03"]),
    ("product-search", "17.69% with a sentence encoder", "updates", "| texts and all-MiniLM-L6-v2 |", ["17.69"]),
    ("product-search", "takes 1.34 ms", "updates", "3 draws, with 3996 of 39,411 labels unseen.", ["0.13 and 1.34 ms"]),
    ("product-search", "0.05 ms where all labels have rows", "libraries", "| one query, p50, ms |", ["0.0503"]),
    ("language-model", "548 ms on one thread", "softmax", "| full softmax |", ["36 ms", "548 ms", "5.53 s"]),
    ("language-model", "it is 5.5 seconds and 26 ms", "softmax", "| full softmax |", ["36 ms", "548 ms", "5.53 s"]),
    ("language-model", "19 ms with 100 negatives from this sampler: 29 times less", "softmax",
     "| MIDX-rq, query-aware |", ["10 ms", "19 ms (29.2×", "26 ms"]),
    ("vectors", "with 552 of them", "irli", "| IRLI (R = 16, hidden 128), by probability |", ["256", "552"]),
    ("vectors", "0.235 ms a query", "irli", "| IRLI (R = 16, hidden 128), by probability |", ["0.235 /"]),
    ("vectors", "needs 2,446", "irli", "| IVF | 256 |", ["2,446"]),
    ("vectors", "0.036 ms for faiss's best inverted file", "irli", "| IVF | 1,000 |", ["0.036 /"]),
    ("vectors", "0.032 ms for hnswlib", "irli", "| hnswlib (16 links) |", ["0.032 /"]),
]  # fmt: skip


@pytest.mark.parametrize(("tutorial", "words", "page", "line", "cells"), QUOTED)
def test_a_quoted_figure_is_measured(tutorial: str, words: str, page: str, line: str, cells: list[str]) -> None:
    said = " ".join((ROOT / "docs" / "tutorials" / f"{tutorial}.md").read_text("utf-8").split())
    assert words in said, f"docs/tutorials/{tutorial}.md no longer says {words!r}"
    lines = (ROOT / "docs" / "results" / f"{page}.md").read_text("utf-8").split("\n")
    found = [text for text in lines if text.startswith(line)]
    assert any(all(cell in text for cell in cells) for text in found), f"docs/results/{page}.md: {line} {cells}"
