"""Labels that have a text and no training row: how often they are found, and what finding them costs the others.

``python -m benchmarks.linear.label_texts --data DIR --sets eurlex57k,gutenberg``. A tenth of the training labels are
taken from all training rows. Test rows have them, and others; labels that never were in the training set are dropped.
With ``--encoder``, a folder or "installed", a sentence encoder's similarity alone, and models with it as their
``label_encoder``, are added to what was measured before; so are static vectors, which ``static_vectors.py`` makes.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.common import datasets, measure, records
from benchmarks.common.encoders import encoder_folder
from sylvan import TextModel, TopK, XRLinear
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr, take_rows
from sylvan.data import Vocabulary
from sylvan.matching.neighbors import NeighborIndex
from sylvan.metrics.tallies import hits
from sylvan.models import encoders
from sylvan.models.encoders import encoded
from sylvan.models.label_texts import label_texts as fitting
from sylvan.models.label_texts.label_texts import with_text_rows
from sylvan.text.encoder_folders import is_static

HIDDEN, DEEP, NEIGHBORS = 0.1, 100, 20
ENCODERS = {False: "all-MiniLM-L6-v2", True: "static vectors"}  # by whether they are static
TOKENS = 256


class Case:
    """A set whose labels have texts, a tenth of which no training row has."""

    def __init__(self, name: str, data: Path, seed: int) -> None:
        self.texts, labels = datasets.read_jsonl(data / name / "train.jsonl.xz")
        self.test, truth = datasets.read_jsonl(data / name / "test.jsonl.xz")
        names = sorted({label for row in labels for label in row})
        self.label_texts = _texts_of(names, data / name / "label_names.json.xz")
        chance = np.random.default_rng(seed).random(len(names)).tolist()
        hidden = {name for name, own in zip(names, chance, strict=True) if own < HIDDEN}
        self.labels = [[label for label in row if label not in hidden] for row in labels]
        self.truth, known = truth, {label for row in self.labels for label in row}
        self.unseen = [name for name in names if name not in known]

    def judged(self, names: Vocabulary, top: TopK, among: TopK | None) -> dict[str, float]:
        """Figures of a ranking of all labels, by their places in ``names``, and of one of the unseen labels alone."""
        truth = validate.labels(names.encode(self.truth, unknown="ignore"))
        unseen = np.isin(np.arange(len(names)), [names.id(name) for name in self.unseen])
        parts = {what: _some(truth, mask) for what, mask in (("seen", ~unseen), ("unseen", unseen))}
        figures = {f"{what}_recall": _recall(top, part) for what, part in parts.items()}
        five = TopK(top.labels[:, :5], top.scores[:, :5])
        figures["seen_P5"] = 100 * float(hits(five, parts["seen"]).sum()) / five.labels.size
        figures["P5"] = 100 * float(hits(five, truth).sum()) / five.labels.size
        if among is not None:
            figures["recall_among_unseen"] = _recall(among, parts["unseen"])
        return figures


def _texts_of(names: list[str], path: Path) -> dict[str, list[str]]:
    """The text of each label: what its concept is called, or its own name."""
    if not path.exists():
        return {name: [name] for name in names}
    with lzma.open(path, "rt", encoding="utf-8") as file:
        known = json.load(file)
    return {name: [known[name]["label"], *known[name]["alt_labels"]] for name in names}


def _some(truth: Csr, mask: npt.NDArray[np.bool_]) -> Csr:
    """Only some of the labels."""
    kept = mask[truth.indices]
    indptr = np.concatenate(([0], np.cumsum(kept)))[truth.indptr].astype(np.int64)
    return Csr(indptr, truth.indices[kept], truth.data[kept], truth.shape)


def _recall(top: TopK, truth: Csr) -> float:
    """Of all labels of all rows, the share among the first ten."""
    return 100 * float(hits(TopK(top.labels[:, :10], top.scores[:, :10]), truth).sum()) / max(1, truth.nnz)


def rankings(case: Case, model: TextModel, plain: TextModel) -> Iterator[tuple[str, TopK, TopK | None]]:
    """What finds labels, its ranking of all labels, and of the unseen ones alone where it has one."""
    known, rows = model.label_texts_, model.vectorizer.transform_rows(case.test)
    assert known is not None
    unseen = model.unlearned_labels_
    yield "without texts", plain_top(plain, model, case.test), None
    yield "texts (default)", model.rank(case.test, 10), model.rank(case.test, 10, allowed=unseen)
    predicted = Csr.of(known.contexts.predicted(known.texts.unit_rows().to_scipy()))
    sums = Csr.of(sp.csr_matrix(known.texts.unit_rows().to_scipy() + 0.5 * predicted.to_scipy(), dtype=np.float32))
    only = np.isin(np.arange(model.n_labels_), unseen)
    for what, vectors in (("similarity of texts", known.texts), ("predicted rows", predicted), ("their sum", sums)):
        index = NeighborIndex.build(vectors)
        yield what, TopK(*index.nearest(rows, 10)), TopK(*index.nearest(rows, 10, only=only))
    yield "nearest seen labels", *_by_neighbors(model, plain, case, unseen)
    for weight in (0.1, 1.0, 5.0):
        yield f"texts as rows of weight {weight:g}", *_as_rows(model, case, rows, weight, unseen)


def plain_top(plain: TextModel, model: TextModel, texts: list[str]) -> TopK:
    """The ranking of a model without the unseen labels, by the other model's ids."""
    top = plain.probabilities(plain.rank(texts, DEEP))
    ids = np.array([model.vocabulary_.id(name) for name in plain.vocabulary_], np.int32)
    return TopK(np.where(top.labels >= 0, ids[top.labels], -1).astype(np.int32), top.scores)


def _by_neighbors(model: TextModel, plain: TextModel, case: Case, unseen: npt.NDArray[np.int32]) -> tuple[TopK, TopK]:
    """Unseen labels score what the seen ones with the most similar texts do, in the mean by similarity."""
    known = model.label_texts_
    assert known is not None
    top = plain_top(plain, model, case.test)
    seen = ~np.isin(np.arange(model.n_labels_), unseen)
    near, similar = NeighborIndex.build(known.texts).nearest(take_rows(known.texts, unseen), NEIGHBORS, only=seen)
    similar = np.where(near >= 0, similar, 0)
    shares = similar / np.maximum(similar.sum(axis=1, keepdims=True), 1e-9)
    shape = (model.n_labels_, model.n_labels_)
    at = np.repeat(unseen, NEIGHBORS), np.maximum(near, 0).ravel()
    scores = top.to_csr(model.n_labels_) @ sp.csr_matrix((shares.ravel(), at), shape).T
    return _best(sp.csr_matrix(scores + top.to_csr(model.n_labels_))), _best(sp.csr_matrix(scores))


def _best(scores: sp.csr_matrix, k: int = 10) -> TopK:
    """The best of each row of a sparse matrix."""
    top = TopK(np.full((scores.shape[0], k), -1, np.int32), np.full((scores.shape[0], k), -np.inf, np.float32))
    for row in range(scores.shape[0]):
        span = slice(scores.indptr[row], scores.indptr[row + 1])
        order = np.argsort(-scores.data[span], kind="stable")[:k]
        top.labels[row, : len(order)] = scores.indices[span][order]
        top.scores[row, : len(order)] = scores.data[span][order]
    return top


def _as_rows(
    model: TextModel, case: Case, rows: Csr, weight: float, unseen: npt.NDArray[np.int32]
) -> tuple[TopK, TopK]:
    """The tree alone, with labels' texts as rows of some weight."""
    known, features = model.label_texts_, model.vectorizer.transform_rows(case.texts)
    assert known is not None
    truth = model._truth(case.labels)
    texts = take_rows(known.texts, known.labels)
    X, Y, weights = with_text_rows(features, truth, np.ones(features.shape[0], np.float32), texts, known.labels)
    assert weights is not None
    weights[features.shape[0] :] = weight
    trained = XRLinear().fit(X.to_scipy(), Y.to_scipy(), weights)
    return trained.rank(rows.to_scipy(), 10), trained.rank(rows.to_scipy(), 10, allowed=unseen)


def measured(name: str, data: Path, seed: int) -> dict[str, Any]:
    """One set's figures for the labels that a seed takes away."""
    case = Case(name, data, seed)
    with measure.Clock() as plainly:
        plain = TextModel(unlearned="answer").fit(case.texts, case.labels)
    with measure.Clock() as clock:
        model = TextModel(unlearned="answer").fit(case.texts, case.labels, label_texts=case.label_texts)
    runs = []
    for what, top, among in rankings(case, model, plain):
        runs.append({"what": what, **case.judged(model.vocabulary_, top, among)})
        print(name, seed, runs[-1], flush=True)
    alone = case.test[:500]
    speed = {}
    for what, asked in (("without texts", plain), ("texts (default)", model)):
        with measure.Clock() as asking:
            for one in alone:
                asked.rank([one], 10)
        speed[what] = 1000 * asking.wall / len(alone)
    return {
        "seed": seed, "unseen": len(case.unseen), "labels": model.n_labels_, "fit_cpu_s": [plainly.cpu, clock.cpu],
        "query_ms": speed, "rankings": runs,
    }  # fmt: skip


class Encoder:
    """Labels ranked by a sentence encoder's cosines, whose vectors are the same for all draws of labels."""

    def __init__(self, folder: str, case: Case) -> None:
        if is_static(folder):
            encoder: Any = encoders.opened_encoder(folder)
        else:
            from sylvan.neural import open_encoder

            encoder = open_encoder(folder, max_length=TOKENS)
        names = sorted(case.label_texts)
        self.names, texts = Vocabulary(names), [", ".join(case.label_texts[name]) for name in names]
        self._labels, self._rows = (encoded(encoder, some, None) for some in (texts, case.test))

    def ranked(self, only: npt.NDArray[np.int64] | None = None) -> TopK:
        """The ten best labels, of all or of some."""
        ids = np.arange(len(self.names)) if only is None else only
        labels, parts = self._labels[ids], []
        for first in range(0, len(self._rows), 500):
            cosines = self._rows[first : first + 500] @ labels.T
            best = np.argsort(-cosines, axis=1, kind="stable")[:, :10]
            parts.append((ids[best].astype(np.int32), np.take_along_axis(cosines, best, axis=1)))
        return TopK(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class Remembered:
    """Vectors of texts, each computed once: they are the same for all draws of labels."""

    def __init__(self) -> None:
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def __call__(self, encoder: Any, texts: list[str], *about: Any) -> npt.NDArray[np.float32]:
        new = sorted({text for text in texts if text not in self._known})
        self._known.update(zip(new, encoded(encoder, new, *about), strict=True))
        return np.stack([self._known[text] for text in texts])


def with_encoder(case: Case, folder: str, vectors: Remembered, draw: dict[str, Any], first: bool) -> dict[str, Any]:
    """The figures of a model whose labels have an encoder; the first one shows what encoding takes."""
    with mock.patch.object(encoders, "encoded", vectors), mock.patch.object(fitting, "encoded", vectors):
        with measure.Clock() as clock:
            model = TextModel(label_encoder=folder, unlearned="answer")
            model.fit(case.texts, case.labels, label_texts=case.label_texts)
        top, among = (model.rank(case.test, 10, allowed=only) for only in (None, model.unlearned_labels_))
    if first:
        what = ENCODERS[is_static(folder)]
        draw.setdefault("encoder_fit_cpu_s", {})[what] = clock.cpu
        with measure.Clock() as asking:
            for alone in case.test[:100]:
                model.rank([alone], 10)
        draw["query_ms"][f"texts and {what}"] = 1000 * asking.wall / 100
    return case.judged(model.vocabulary_, top, among)


def add_encoder(name: str, options: argparse.Namespace) -> None:
    """Adds the rows of an encoder to each draw that was measured."""
    path, vectors, encoder = Path(options.results) / f"label-texts-{name}.json", Remembered(), None
    folder = encoder_folder(None if options.encoder == "installed" else options.encoder)
    record, what = json.loads(path.read_text()), ENCODERS[is_static(folder)]
    for draw in record["seeds"]:
        case = Case(name, Path(options.data), draw["seed"])
        figures = {f"texts and {what}": with_encoder(case, folder, vectors, draw, encoder is None)}
        encoder = encoder or Encoder(folder, case)
        unseen = np.sort(np.array([encoder.names.id(label) for label in case.unseen]))
        figures[f"similarity by {what}"] = case.judged(encoder.names, encoder.ranked(), encoder.ranked(unseen))
        others = [ranking for ranking in draw["rankings"] if ranking["what"] not in figures]
        draw["rankings"] = [*others, *({"what": row, **found} for row, found in figures.items())]
        print(name, draw["seed"], figures, flush=True)
    records.save(path, record)


def main() -> None:
    """Runs what the command line asks for."""
    parser = records.command_line(__doc__, "eurlex57k,gutenberg", threads=None)
    parser.add_argument("--seeds", default="0,1,2", help="of the labels that are taken away")
    parser.add_argument("--encoder", help='folder of a sentence encoder, or "installed": add its rows to the records')
    options = parser.parse_args()
    for name in options.sets.split(","):
        if options.encoder is not None:
            add_encoder(name, options)
            continue
        runs = [measured(name, Path(options.data), int(seed)) for seed in options.seeds.split(",")]
        records.write("label-texts", name, options, seeds=runs)


if __name__ == "__main__":
    main()
