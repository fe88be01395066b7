"""``sylvan task language-model``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sylvan.errors import DataError
from sylvan.params.wording import counted

if TYPE_CHECKING:
    from sylvan.neural.loop.training import Job

OWNER = ("sylvan.tasks.language_model", "LanguageModel")
HELP = """Train a language model and measure its perplexity over the whole vocabulary.

DATA is a folder with train.txt, valid.txt and test.txt, or three such files: plain text, one sentence per line, words
separated by blanks, compressed as .xz or .gz or not.

\b
Examples:
  sylvan task language-model ptb/ --sampler midx-rq --epochs 20 --patience 3 --out runs/lm
  sylvan task language-model ptb/ --loss full --out runs/full
  sylvan task language-model ptb/ --loss beam-tree --set-loss tree=kmeans --sampler unigram --out runs/tree
  sylvan task language-model train.txt valid.txt test.txt --set model=transformer --out runs/transformer
  sylvan task language-model ptb/ --sampler unigram --samples 500 --set shared=true --out runs/shared
"""


def options(command: Any) -> Any:
    """The options of this task alone."""
    return click.option(
        "--vocabulary", metavar="FILE", help="The words to use; by default those of the training text."
    )(command)


def make_job(paths: Sequence[str], given: dict[str, Any], settings: dict[str, Any]) -> Job:
    """The job for the texts in ``paths``."""
    from sylvan.tasks.language_model import LanguageModel, read_corpus

    if len(paths) not in (1, 3):
        raise DataError(
            "DATA must be a folder, or three files: to train on, to validate on and to test on. Got "
            f"{counted(len(paths), 'word')} instead."
        )
    corpus = read_corpus(*paths, vocabulary=given["vocabulary"])
    if not given["quiet"]:
        click.echo(f"Read {corpus!r}.")
    return LanguageModel(corpus, **settings)
