"""Figures that tutorials quote are those of the results, which are made from benchmarks/results."""

import re
from pathlib import Path

import pytest

from benchmarks import ROOT

# What a tutorial says, and the line of a page of results with the cells that it says it from.
QUOTED = [
    ("tag-books", "70,746 training rows and 39,411 headings", "libraries", "70,746 training rows", ["39,411 labels"]),
    ("tag-books", "trains in 8.8 seconds from raw text", "libraries", "| raw text to model, s, 1 thread |", ["8.81"]),
    ("tag-books", "P@1 of 49.0%", "libraries", "| P@1, raw text |", ["48.97"]),
    ("tag-books", "8.3 MB large", "libraries", "| model on disk, MB |", ["8.3"]),
    ("tag-books", "one query in 0.06 ms", "libraries", "| one query, p50, ms |", ["0.0562"]),
    ("product-search", "12.03% of these among ten", "updates", "| texts (default) |", ["12.03"]),
    ("product-search", "17.69% with a sentence encoder", "updates", "| texts and all-MiniLM-L6-v2 |", ["17.69"]),
    ("product-search", "takes 1.34 ms", "updates", "3 draws, with 3996 of 39,411 labels unseen.", ["0.13 and 1.34 ms"]),
    ("product-search", "0.06 ms where all labels have rows", "libraries", "| one query, p50, ms |", ["0.0562"]),
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


LINK = re.compile(r"\]\((?:\.\./|docs/)*results/([\w-]+)\.md(?:#([\w-]+))?\)")
DECIMAL = re.compile(r"(?<![\w.,])\d[\d,]*\.\d+")
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?")
DOCUMENTS = [ROOT / "README.md", *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "results")]
# Figures of a document that stand beside a link to results and say something else.
UNMEASURED = {
    ("evaluation.md", "0.3"): "a parameter",
    ("model-folders.md", "1.1"): "a ratio of two figures",
    ("model-folders.md", "1.4"): "a ratio of two figures",
    ("models.md", "0.2"): "a difference of two figures",
    ("sampling.md", "132.0"): "of benchmarks/results/sampled_softmax_table4.json, as the next one",
    ("sampling.md", "132.4"): "the page's curve has no place for the end of an epoch here",
    ("scale.md", "0.3"): "millions of features of made data",
    ("scale.md", "0.85"): "the exponent of their distribution",
    ("tree-ranking.md", "0.35"): "a weight of scores",
    ("tree-ranking.md", "0.65"): "a weight of scores",
}


def paragraphs(document: Path) -> list[str]:
    """Paragraphs, items and table rows, without code; section numbers of papers aren't figures."""
    sections = r"[Ss]ections? [\d., and]+|(?<=\n\| )[\d., ]+\d(?=[,: ])"
    text = re.sub(rf"```.*?```|`[^`]*`|{sections}", " ", document.read_text("utf-8"), flags=re.DOTALL)
    return re.split(r"\n\s*\n|\n(?=- |\d+\. |\| )", text)


def results_of(paragraph: str) -> str:
    """The sections, or the pages, that a paragraph links to."""
    found = []
    for page, anchor in LINK.findall(paragraph):
        lines, inside = (ROOT / "docs" / "results" / f"{page}.md").read_text("utf-8").split("\n"), not anchor
        level = 0
        for line in lines:
            if anchor and line.startswith("#"):
                depth = len(line) - len(line.lstrip("#"))
                slug = re.sub(r"[^\w\- ]", "", line.strip("# ").lower()).replace(" ", "-")
                inside = slug == anchor or (inside and depth > level)
                level = depth if slug == anchor else level
            if inside:
                found.append(line)
    return "\n".join(found)


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_figure_beside_a_link_to_results_stands_there(document: Path) -> None:
    """Each decimal of a paragraph is a number of the linked section, rounded to as many places."""
    for paragraph in paragraphs(document):
        if not LINK.search(paragraph):
            continue
        measured = [number(text) for text in NUMBER.findall(results_of(paragraph))]
        assert measured, f"{document.name} links to a section of results that isn't there: {LINK.findall(paragraph)}"
        for figure in DECIMAL.findall(LINK.sub("", paragraph)):
            half = 0.5000001 * 10.0 ** -len(figure.partition(".")[2])
            stands = any(abs(value - number(figure)) <= half for value in measured)
            assert stands or (document.name, figure) in UNMEASURED, f"{document.name}: {figure} of {paragraph[:200]!r}"
