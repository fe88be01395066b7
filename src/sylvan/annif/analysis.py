"""Annif's analysis of the documents to train with, divided among processes: it takes longer than the training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import annif.parallel

from sylvan.annif.words import joined_words

__all__ = ["analysed"]

Row = tuple[list[str], str]  # URIs and a text, or URIs and words

_AT_ONCE = 64  # documents that a process is given at a time


class AnalysisWorker(annif.parallel.BaseWorker):
    """What a process knows, in the way of Annif's own workers."""

    @classmethod
    def words(cls, row: Row) -> Row:
        """The words of one document."""
        uris, text = row
        return uris, joined_words(cls.args["analyzer"].tokenize_words, text)


def analysed(analyzer: Any, documents: Iterator[Row], jobs: int) -> Iterator[Row]:
    """URIs and words of documents, in their order."""
    if jobs == 1:
        yield from ((uris, joined_words(analyzer.tokenize_words, text)) for uris, text in documents)
        return
    number, pool_class = annif.parallel.get_pool(jobs)
    with pool_class(number, initializer=AnalysisWorker.init, initargs=({"analyzer": analyzer},)) as pool:
        yield from pool.imap(AnalysisWorker.words, documents, _AT_ONCE)
