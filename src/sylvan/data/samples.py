"""The bundled real sample: books of Project Gutenberg and their Library of Congress subject headings."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple

from sylvan.data.formats.jsonl import read_jsonl
from sylvan.data.text_rows import TextData


class Sample(NamedTuple):
    """A training part and a test part."""

    train: TextData
    test: TextData


def load_sample() -> Sample:
    """Titles and authors of books, and their subject headings.

    ``sylvan/data/sample/README.md`` says where it comes from.

    Returns
    -------
    Sample
        ``train`` and ``test``, each with ``texts`` ("title author") and ``labels``. Every heading of the test
        part occurs in the training part.

    Examples
    --------
    >>> from sylvan import data
    >>> sample = data.load_sample()
    >>> len(sample.train.texts) > len(sample.test.texts)
    True
    """
    folder = resources.files("sylvan.data") / "sample"
    parts = []
    for name in ("train", "test"):
        with resources.as_file(folder / f"{name}.jsonl.xz") as path:
            parts.append(read_jsonl(path, text_fields=("title", "author")))
    return Sample(*parts)
