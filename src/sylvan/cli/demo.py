"""``sylvan demo``: train, measure and try a model on the bundled real sample."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import click

from sylvan.cli.models import save_state
from sylvan.cli.options import shared_options
from sylvan.cli.session import folder_size

_AT = (1, 3, 5)
_EXAMPLES = 5


@click.command("demo")
@click.option("--model", "folder", default="sylvan-demo", show_default=True, metavar="DIR", help="Where to save it.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N")
@shared_options
def command(folder: str, seed: int, threads: int | None, quiet: bool) -> None:
    """Train a model on the bundled sample: titles and authors of books, and their subject headings.

    Prints what it does, how good the model is on books that it has not seen, and what to try next. It leaves the model
    in a folder, some 20 MB, for you to try and to delete.

    \b
    Example:
      sylvan demo --model runs/demo
    """
    from sylvan import data
    from sylvan.parallel import quiet as silence
    from sylvan.store import check_target

    with silence(quiet):
        check_target(folder)
        with _phase("Reading the bundled sample: books of Project Gutenberg") as words:
            train, test = data.load_sample()
            n_headings = len({label for row in train.labels for label in row})
            words.append(f"{len(train.texts):,} to learn from, {len(test.texts):,} to test on, {n_headings:,} headings")
        model = _train(train, seed, threads)
        with _phase("Saving the model") as words:
            replaced = save_state(folder, model.to_state())
            words.append(f"in {folder} ({folder_size(folder)})")
        with _phase(f"Ranking the headings of the {len(test.texts):,} test books"):
            named = model.rank(test.texts, k=max(_AT))
    _show_results(model, test, named)
    # Three commands that work as they stand, in the folder where the demo ran.
    sample = resources.files("sylvan.data") / "sample"
    training, test_rows = (shlex.quote(str(sample / f"{part}.jsonl.xz")) for part in ("train", "test"))
    place = shlex.quote(folder)
    removing = f'rmdir /s /q "{folder}"' if os.name == "nt" else f"rm -r {place}"
    click.echo(
        f'\nWhat to try next:\n  echo "Whale hunting in the south seas" | sylvan predict {place} -k 3\n'
        f"  sylvan evaluate {place} {test_rows} -k 1,3,5,10\n"
        f"  sylvan train xr-linear {training} --text-field title --text-field author --model {place}-2 --set beam=20\n"
        f"\nThe model stays in the folder {folder}.{replaced} To remove it:\n  {removing}"
    )


@contextmanager
def _phase(title: str) -> Iterator[list[str]]:
    """What is done now, on a line of its own below which progress is drawn; then what came of it, and how long."""
    click.echo(title)
    start = time.perf_counter()
    results: list[str] = []
    yield results
    click.echo(f"  {', '.join([*results, f'{time.perf_counter() - start:.1f} s'])}")


def _train(train: Any, seed: int, threads: int | None) -> Any:
    """The three phases one by one, as ``TextModel(...).fit(texts, labels, label_texts=None)`` runs them."""
    from sylvan import data, indexing
    from sylvan.models.text import TextModel, usual_vectorizer
    from sylvan.models.xr.xr_linear import XRLinear

    model = XRLinear(n_jobs=threads, seed=seed)
    with _phase("Turning titles and authors into features") as result:
        vectorizer = usual_vectorizer(n_jobs=threads)
        X = vectorizer.fit_transform(train.texts)
        names = data.Vocabulary.from_labels(train.labels)
        Y = names.encode(train.labels)
        result.append(f"{X.shape[1]:,} words and pairs of words, {X.nnz / X.shape[0]:.1f} a book")
    with _phase("Indexing: a tree over the headings") as result:
        embeddings = indexing.pifa(X, Y, n_jobs=threads)
        tree = indexing.LabelTree.build(
            embeddings, model.branching, model.max_leaf, clustering=model.clustering, seed=seed, n_jobs=threads
        )
        result.append(repr(tree))
    with _phase("Matching and ranking: linear models, layer by layer"):
        model.set_params(tree=tree).fit(X, Y)
    tagger = TextModel.from_parts(vectorizer, model, names)
    tagger.text_fields_ = ("title", "author")
    return tagger


def _show_results(model: Any, test: Any, named: Any) -> None:
    from sylvan.cli.evaluate import metric_table, score, shortened

    measures = score(model, model.vocabulary_.encode(test.labels), named, _AT)
    click.echo("\nOn books that it has not seen, in percent:")
    click.echo(metric_table({name: measures[name] for name in ("P", "PSP")}, _AT))
    click.echo("\nHeadings found for some of them (* also given by the library):")
    step = max(1, len(test.texts) // _EXAMPLES)
    for row in range(step // 2, len(test.texts), step)[:_EXAMPLES]:
        true = test.labels[row]
        results = [f"{name}{' *' if name in true else ''}" for name in named.names[row][:3]]
        click.echo(f"  {shortened(test.texts[row], 76)}")
        click.echo(f"    found: {shortened('; '.join(results), 96)}")
        click.echo(f"    true:  {shortened('; '.join(true), 96)}")
