"""Annif's backend ``sylvan``: the words that the project's analyser finds, ranked by Sylvan's models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import annif.parallel
from annif.backend.hyperopt import AnnifHyperoptBackend

from sylvan.annif.model_backend import ModelBackend, SylvanOptimizer, read_blocks
from sylvan.annif.parameters import DEFAULTS, joined_words, resumes, text_model
from sylvan.models import TextModel
from sylvan.runtime.checkpoint import Checkpoint

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


class SylvanBackend(ModelBackend, AnnifHyperoptBackend):
    """Trees of linear models, nearest documents, or both together, over the words of the project's analyser."""

    name = "sylvan"
    model_type = TextModel

    DEFAULT_PARAMETERS: ClassVar[dict[str, Any]] = dict(DEFAULTS)

    def words(self, text: str) -> str:
        """The words of a text, as the model takes them."""
        return joined_words(self.project.analyzer.tokenize_words, text)

    def rows_of(self, documents: Iterator[tuple[list[str], str]], jobs: int) -> Iterator[tuple[list[str], str]]:
        """URIs and words of URIs and texts; analysing takes longer than training, so it is divided among processes."""
        return analysed(self.project.analyzer, documents, jobs)

    def model_of(self, params: Mapping[str, Any], n_jobs: int | None) -> TextModel:
        """The model that the parameters describe."""
        return text_model(params, n_jobs)

    def fit(self, model: TextModel, path: Path, checkpoint: Checkpoint) -> None:
        """Train it, a block of documents at a time."""
        model.fit_blocks(read_blocks(path), **({"checkpoint": checkpoint} if resumes(model) else {}))

    def get_hp_optimizer(self, corpus: Any, metric: str) -> SylvanOptimizer:
        """What tries parameters on a validation corpus."""
        return SylvanOptimizer(self, corpus, metric)
