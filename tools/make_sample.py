#!/usr/bin/env python
"""Cut the bundled sample from Project Gutenberg's catalogue: tools/make_sample.py SOURCE TARGET.

SOURCE holds train.jsonl.xz and test.jsonl.xz, objects with id, title, author and labels (the subject
headings), split at random. TARGET (src/sylvan/data/sample) gets files of the same names: books of the
source's own training part chosen by a hash of their id, less the headings that fewer than MIN_BOOKS of
them carry, and the books of its test part that carry one of the headings left. The result depends on
SOURCE alone.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
from collections import Counter
from pathlib import Path

MIN_IN_SOURCE = 6  # headings rarer than this in the source are no part of the sample
MIN_BOOKS = 3
N_TRAIN, N_TEST = 18_000, 2_000


def read(path: Path) -> list[dict]:
    with lzma.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def shuffled(books: list[dict]) -> list[dict]:
    return sorted(books, key=lambda book: hashlib.sha256(str(book["id"]).encode()).digest())


def keep_headings(books: list[dict], headings: set[str]) -> list[dict]:
    """The books with the given headings alone, less those that are left with none."""
    kept = ({**book, "labels": [name for name in book["labels"] if name in headings]} for book in books)
    return [book for book in kept if book["labels"]]


def common(books: list[dict], least: int) -> set[str]:
    counts = Counter(name for book in books for name in book["labels"])
    return {name for name, count in counts.items() if count >= least}


def write(path: Path, books: list[dict]) -> None:
    lines = []
    for book in sorted(books, key=lambda book: book["id"]):
        title = " ".join(book["title"].split())
        record = {"title": title, "author": book["author"], "labels": book["labels"]}
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def main(source: Path, target: Path) -> None:
    everything = read(source / "train.jsonl.xz")
    train = shuffled(keep_headings(everything, common(everything, MIN_IN_SOURCE)))[:N_TRAIN]
    headings = common(train, MIN_BOOKS)
    train = keep_headings(train, headings)
    test = shuffled(keep_headings(read(source / "test.jsonl.xz"), headings))[:N_TEST]
    write(target / "train.jsonl.xz", train)
    write(target / "test.jsonl.xz", test)
    print(f"{len(train)} training books, {len(test)} test books, {len(headings)} headings")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
