"""The section of docs/results.md on labels found by their words, from what ``benchmarks.lexical`` measured."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.common import markdown
from benchmarks.common.markdown import Record

__all__ = ["lexical_section"]

WORDS = (
    "By `python -m benchmarks.lexical`: `LexicalMatcher` beside Annif's MLLM, by Annif's own commands, on the same "
    "documents and the same vocabulary: eurlex57k's labels are called as EuroVoc calls them, gutenberg's are subject "
    "headings. F1@5 is the mean over documents, as `annif eval` has it. Unseen is the recall at 5 of labels that no "
    "training document has. \"Untrained\" has the vocabulary alone. Seconds of MLLM, where measured, are with Annif's "
    "start."
)
NAMES = {
    "sylvan": "LexicalMatcher, stems", "sylvan without stems": "LexicalMatcher, words as they are",
    "sylvan untrained": "LexicalMatcher, stems, untrained", "annif mllm": "MLLM, stems",
}  # fmt: skip
ORDER = ("eurlex57k", "gutenberg")


def lexical_section(folder: Path) -> list[str]:
    """A part for each set, and what a large vocabulary takes; nothing where none was measured."""
    books = {name: found for name in ORDER if (found := markdown.book(folder / f"lexical-{name}.json"))}
    if not books:
        return []
    lines = ["", "## Labels' words", "", WORDS]
    for name, book in books.items():
        runs = {run["model"]: run for run in book["runs"]}
        first = next(iter(runs.values()))
        sizes = f"{first['n_train']:,} documents to train with, {first['n_test']:,} to test, {first['n_labels']:,} "
        sizes += "labels."
        rows = [_cells(runs[key], title) for key, title in NAMES.items() if key in runs]
        head = "| matcher | F1@5 | P@1 | unseen | training s | test s | ms a document |"
        lines += ["", f"### Labels' words: {name}", "", f"{markdown.taken(book)} {sizes}", ""]
        lines += markdown.table(head, rows)
        if "annif mllm" in runs:
            own, other = runs["sylvan"]["F1@5"], runs["annif mllm"]["F1@5"]
            met = "met" if own > other else "not met"
            lines += ["", f"F1@5 is {own / other:.2f} times MLLM's; goal above 1: {met}."]
    return lines + _scale(folder / "lexical-scale.json")


def _cells(run: Record, title: str) -> list[str]:
    def figure(key: str, digits: str) -> str:
        return "–" if run.get(key) is None else format(run[key], digits)

    digits = {"F1@5": ".4f", "Precision@1": ".4f", "unseen_recall@5": ".4f", "train_s": ",.1f", "test_s": ",.1f"}
    return [title, *(figure(key, form) for key, form in digits.items()), figure("document_ms", ".2f")]


def _scale(path: Path) -> list[str]:
    if not path.exists():
        return []
    run = json.loads(path.read_text())
    return [
        "", "### Labels' words: a large vocabulary", "",
        "By `python -m benchmarks.lexical.scale`, in time of the processor on one thread, the least of fifty "
        f"({run['machine']['cpu']}): {run['n_labels']:,} labels with {run['n_forms']} forms each are built in "
        f"{run['build_s']:.1f} s (goal 10). A text of {run['text_bytes'] // 1000} kB, {run['text_words']:,} words, is "
        f"read in {run['read_ms']:.2f} ms and its words are matched in {run['match_ms']:.2f} ms (goal 2); both "
        f"together take {run['read_and_match_ms']:.2f} ms. {run['found']:,} labels are found. With partial matches by "
        f"BM25 it takes {run['with_partial_ms']:.2f} ms, and to rank all {run['rank_ms']:.2f} ms.",
    ]  # fmt: skip
