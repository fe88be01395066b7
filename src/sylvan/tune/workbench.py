"""Trains one setting on a part of the rows and measures it on the holdout; features and trees are made once."""

from __future__ import annotations

import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr, pair_keys, take_rows
from sylvan.arrays.topk import TopK, resized
from sylvan.errors import ParameterError
from sylvan.metrics import propensities_of_counts, tallies
from sylvan.metrics.tallies import blocks, hits
from sylvan.models.base import CANDIDATES, Estimator
from sylvan.models.compress import has_weights
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.ranking.stopping import StoppingRule
from sylvan.runtime.memory import available_bytes
from sylvan.runtime.plan import Plan
from sylvan.store import saved_bytes
from sylvan.tune.space import Setting

Floats = npt.NDArray[np.float64]
NAMES = ("P", "R", "nDCG", "PSP", "PSnDCG", "F1", "macro-recall")
_TAILS = {"PSP": "psp", "PSnDCG": "psp", "macro-recall": "macro_recall"}
_MOST = 100  # answers a row that trials are asked for
LEAST_ROWS = 3_000  # of a rung: with fewer, the order of settings says little of that with all rows
SHARES = (9, 3, 1)
JUDGED = 1_500  # rows of the holdout that a rung before the last looks at, at least: ranking takes time as well
QUERIES = 100  # single ones, whose median is the latency
SUBLINEAR, WORDS = 0.8, 0.6  # powers of the number of rows with which models and vocabularies grow, about
_CACHE_SHARE = 8  # of the memory that there is, for features and trees
_DRAWS, _CONFIDENCE = 1000, 0.95  # of the bootstrap
_TREE_PARAMETERS = (
    "branching", "max_leaf", "clustering", "embedding", "overlap", "alpha", "max_features_per_label",
    "spectral_dimensions", "normalize", "seed",
)  # fmt: skip


@dataclass(frozen=True)
class RowScores:
    """What each row gained and what it could have; the score is the quotient of their sums."""

    gained: Floats
    possible: Floats

    def value(self, weights: Floats | None = None) -> float:
        """The score, of rows that count so many times each."""
        if weights is None:
            return float(self.gained.sum() / self.possible.sum())
        return float(weights @ self.gained) / max(float(weights @ self.possible), 1e-300)


@dataclass(frozen=True)
class LabelScores:
    """The row, the label and the success of every true label; the score is the mean over labels of their recall."""

    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    right: npt.NDArray[np.bool_]
    n_labels: int

    def value(self, weights: Floats | None = None) -> float:
        """The score, of rows that count so many times each."""
        counted = np.ones(len(self.rows)) if weights is None else weights[self.rows]
        true = np.bincount(self.labels, counted, self.n_labels)
        right = np.bincount(self.labels, counted * self.right, self.n_labels)
        return float((right / np.where(true > 0, true, 1)).sum() / self.n_labels)


Scores = RowScores | LabelScores


@dataclass(frozen=True)
class Metric:
    """A metric by its name, such as ``"P@5"``."""

    name: str  # as messages show it
    kind: str  # one of "P", "R", "nDCG", "PSP", "PSnDCG", "F1" and "macro-recall"
    k: int | None  # how many answers count; None for F1 of as many as the expected F1 says

    @classmethod
    def of(cls, name: Any) -> Metric:
        """The metric of that name."""
        match = re.fullmatch(r"([A-Za-z0-9-]+?)(?:@([0-9]+))?", name) if isinstance(name, str) else None
        kinds = {metric.lower(): metric for metric in NAMES}
        kind = kinds.get(match[1].lower()) if match else None
        k = int(match[2]) if match and match[2] else None if kind == "F1" else 5
        if kind is None or (k is not None and not 1 <= k <= _MOST):
            names = ", ".join(f"{metric}@k" for metric in NAMES)
            raise ParameterError(
                f"The 'metric' parameter must be one of {names} with k in [1, {_MOST}], as in 'P@5', or 'F1'. "
                f"Got {name!r} instead."
            )
        return cls(kind if k is None else f"{kind}@{k}", kind, k)

    @property
    def tail(self) -> str | None:
        """The way of ranking that is made for this metric."""
        return _TAILS.get(self.kind)

    def scores(self, truth: Csr, top: TopK, counts: npt.NDArray[np.int64], n_rows: int) -> Scores:
        """The score of each row of a ranking."""
        # Shape: counts (n_labels,)
        if self.k is None:
            top = StoppingRule.of(None, None, "f1", None, truth.shape[1])(top)
        k = max(1, top.k) if self.k is None else self.k
        top = resized(top, max(k, top.k))
        if self.kind == "macro-recall":
            answers = TopK(top.labels[:, :k], top.scores[:, :k])
            rows_of, n_labels = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr)), truth.shape[1]
            right = np.nonzero(hits(answers, truth))
            is_ranked = np.isin(pair_keys(truth, n_labels), right[0] * np.int64(n_labels) + answers.labels[right])
            return LabelScores(rows_of, truth.indices, is_ranked, n_labels)
        rows: Any = {"P": tallies.precision, "R": tallies.recall, "nDCG": tallies.ndcg, "F1": tallies.f1}.get(self.kind)
        if rows is None:
            likely = propensities_of_counts(counts, n_rows)
            rows = partial(tallies.psp, propensities=likely, discounted=self.kind == "PSnDCG")
        gained, possible = zip(*(next(rows(block, (k,))) for block in blocks(truth, top, k)), strict=True)
        return RowScores(np.concatenate(gained), np.concatenate(possible))


def bootstrap(best: Scores, usual: Scores, n_rows: int, seed: int = 0) -> tuple[float, float]:
    """The interval of how much better ``best`` is than ``usual``, over other holdouts of the same kind. Both are scores
    of the same rows, which are drawn with replacement many times: a paired bootstrap (Efron and Tibshirani 1993,
    "An Introduction to the Bootstrap", Section 13.3, on percentile intervals). It doesn't know that the best was chosen
    among many on these rows, so its lower end is a little too high."""
    rng = np.random.default_rng(seed)
    differences = np.empty(_DRAWS)
    for draw in range(_DRAWS):
        weights = np.bincount(rng.integers(0, n_rows, n_rows), minlength=n_rows).astype(np.float64)
        differences[draw] = best.value(weights) - usual.value(weights)
    low, high = np.quantile(differences, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return float(low), float(high)


def rungs_of(n_rows: int) -> list[int]:
    """How many rows each rung of the search trains on: a ninth, a third and all, without those that are too few."""
    return [n_rows // share for share in SHARES if share == 1 or n_rows // share >= LEAST_ROWS]


@dataclass(frozen=True)
class Features:
    """What the rows of a rung and the holdout became."""

    train: Csr
    holdout: Csr
    transform: Callable[[Any], Any]  # of rows as they were given
    seconds: float
    n_bytes: int  # of the fitted vectoriser, saved

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.train.nbytes + self.holdout.nbytes + self.n_bytes


@dataclass(frozen=True)
class Measured:
    """What a setting came to on a rung."""

    scores: Scores
    seconds: float  # of the training, features included
    # estimated size of the saved model of all rows, pruned to `max_bytes` on the last rung where that is possible
    n_bytes: int
    least_bytes: int  # what can't be pruned of it
    latency: float  # of a single query
    top: TopK  # its answers to the holdout, with probabilities unless `tail` ordered them
    elapsed: float  # seconds that all of it took, the ranking of the holdout too


class Workbench:
    """Rows, labels and holdout of a tuning, and what was made of them."""

    def __init__(
        self, X: Any, labels: Csr, train: npt.NDArray[np.int32], holdout: npt.NDArray[np.int32], metric: Metric,
        name_bytes: int, n_jobs: int | None, clock: Callable[[], float], max_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.X, self.labels, self.train, self.holdout = X, labels, train, holdout
        self.metric, self.name_bytes, self.n_jobs, self.clock = metric, name_bytes, n_jobs, clock
        self.max_bytes = max_bytes  # what a model of the last rung's rows may take
        self.texts = isinstance(X, list)
        self.rungs = rungs_of(len(train))
        # A rung of a share of the rows looks at as large a share of the holdout.
        steps = [max(1, min(round(1 / (rows / len(train))), len(holdout) // JUDGED)) for rows in self.rungs]
        self.judged = [holdout[::step] for step in steps]
        self.truths = [take_rows(labels, judged) for judged in self.judged]
        trained_on = take_rows(labels, train).indices
        self.label_counts = np.bincount(trained_on, minlength=labels.shape[1]).astype(np.int64)
        self.vectors = TemporaryDirectory()  # of texts, by a frozen encoder
        self._encoded, self._encoding = 0, 0.0  # rows so far, and seconds of each
        self._cache: OrderedDict[str, Any] = OrderedDict()
        self._cache_bytes = (available_bytes() or 8_000_000_000) // _CACHE_SHARE

    def growth(self, rung: int = -1) -> float:
        """How many times the rows of a rung (by default the last) all rows are."""
        return self.labels.shape[0] / self.rungs[rung]

    def _cached(self, key: str, make: Callable[[], Any], n_bytes: int | None = None) -> Any:
        """What was made before under this name; the least recently used is let go of when memory is needed."""
        if key not in self._cache:
            value = make()
            self._cache[key] = value, value.nbytes if n_bytes is None else n_bytes
            while len(self._cache) > 1 and sum(n for _, n in self._cache.values()) > self._cache_bytes:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key][0]

    def features(self, setting: Setting, rung: int) -> Features:
        """The features of a rung's rows, and of those of the holdout that it looks at, by the setting's vectoriser."""
        rows, judged = self.train[: self.rungs[rung]], self.judged[rung]

        def make() -> Features:
            if not self.texts:
                return Features(take_rows(self.X, rows), take_rows(self.X, judged), lambda rows: rows, 0.0, 0)
            vectorizer, start = setting.vectorizer(self.n_jobs), self.clock()
            train = vectorizer.fit_transform_blocks([[self.X[row] for row in rows]])
            seconds = self.clock() - start
            holdout = vectorizer.transform_rows([self.X[row] for row in judged])
            return Features(train, holdout, vectorizer.transform_rows, seconds, saved_bytes(vectorizer.to_state()))

        key = f"text {setting.text_key} {rung}" if self.texts else f"matrix {rung}"
        return self._cached(key, make)  # type: ignore[no-any-return]

    def rung_labels(self, rung: int) -> tuple[Csr, npt.NDArray[np.int32]]:
        """The labels of a rung's rows without those that none of them has, and the ids of those that are left."""
        part = take_rows(self.labels, self.train[: self.rungs[rung]])
        used, columns = np.unique(part.indices, return_inverse=True)
        return Csr(part.indptr, columns.astype(np.int32), part.data, (part.shape[0], len(used))), used

    def _model(self, setting: Setting, features: Features, labels: Csr, rung: int) -> tuple[Estimator, float]:
        """The unfitted model with a tree where one can be shared, by all settings that cluster the labels alike; and
        the seconds that it took."""
        model, start = setting.inner_model(self.n_jobs), self.clock()
        if isinstance(model, XRLinear) and model.n_trees == 1 and labels.shape[1] > model.max_leaf:
            shape = [str(getattr(model, name)) for name in _TREE_PARAMETERS]
            key, n_bytes = f"tree {setting.text_key} {rung} {json.dumps(shape)}", 16 * labels.shape[1]
            (model.tree,) = self._cached(key, partial(model.index, features.train, labels), n_bytes)
        return model, self.clock() - start

    def plan(self, setting: Setting, rung: int) -> Plan | None:
        """What training on a rung would take; None for a model without a plan."""
        if setting.takes_texts:
            return None
        features, (labels, _) = self.features(setting, rung), self.rung_labels(rung)
        model: Any = self._model(setting, features, labels, rung)[0]
        if not isinstance(model, XRLinear):
            return None
        return model.plan(features.train, labels, trees=None if model.tree is None else [model.tree])

    def measure(self, setting: Setting, rung: int) -> Measured:
        """Train on a rung's rows and rank its rows of the holdout."""
        if setting.takes_texts:
            return self._measure_encoder(setting, rung)
        begin = self.clock()
        features, (labels, used) = self.features(setting, rung), self.rung_labels(rung)
        model, tree_seconds = self._model(setting, features, labels, rung)
        start = self.clock()
        model.fit(features.train, labels)
        seconds = features.seconds + tree_seconds + self.clock() - start
        n_bytes = least_bytes = saved_bytes(model.to_state())
        growth = self.growth(rung)
        capped = setting.text.get("max_features", np.inf) <= features.train.shape[1]
        other_bytes = self.name_bytes + round(features.n_bytes * (1 if capped else growth**WORDS))
        if self.max_bytes is not None and has_weights(model):
            least_bytes = saved_bytes(model.pruned(0.0, "uint4").to_state())
        if self.max_bytes is not None and rung == len(self.rungs) - 1:
            model, n_bytes = self._pruned(model, n_bytes, self.max_bytes - other_bytes)
        top = self._answers(model, features.holdout, used)
        scores, latency = self.scores(top, rung), self.latency(model, features.transform)
        n_total, least = (other_bytes + round(size * growth**SUBLINEAR) for size in (n_bytes, least_bytes))
        return Measured(scores, seconds, n_total, least, latency, top, self.clock() - begin)

    def _measure_encoder(self, setting: Setting, rung: int) -> Measured:
        """As :meth:`measure`, of a model with a frozen encoder, which encodes each text once in all trials."""
        begin = self.clock()
        rows, (labels, used) = self.train[: self.rungs[rung]], self.rung_labels(rung)
        texts, holdout = ([self.X[row] for row in part] for part in (rows, self.judged[rung]))
        model = setting.build(True, self.n_jobs).set_params(cache=self.vectors.name)
        times = []  # the first setting is trained once more, without encoding: the difference is what encoding takes
        for _ in range(1 if self._encoded else 2):
            start = self.clock()
            model.fit(texts, labels.to_scipy())
            times.append(self.clock() - start)
        if not self._encoded:
            self._encoding = max(0.0, times[0] - times[1]) / len(rows)
        seconds = max(times) + self._encoding * min(self._encoded, len(rows))
        self._encoded = max(self._encoded, len(rows))
        top = self._answers(model, holdout, used)
        scores = self.scores(top, rung)
        model.set_params(cache=None)
        latency = self.latency(model)
        with TemporaryDirectory() as folder:
            model.save(os.path.join(folder, "model"))
            n_bytes = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        return Measured(scores, seconds, n_bytes, n_bytes, latency, top, self.clock() - begin)

    def _pruned(self, model: Estimator, n_bytes: int, limit: int) -> tuple[Estimator, int]:
        """The model made small enough for ``limit``, and its size; as it is where it has room or can't be pruned."""
        if n_bytes <= limit or not has_weights(model):
            return model, n_bytes
        try:
            small = model.compress(max(1, limit))
        except ParameterError:  # there is no room for any weight, and so it is to be judged
            small = model.pruned(0.0, "uint4")
        return small, saved_bytes(small.to_state())

    def _answers(self, model: Estimator, holdout: Any, used: npt.NDArray[np.int32]) -> TopK:
        """A ranking of the holdout by the ids of all labels, with probabilities unless a ``tail`` orders it."""
        depth, ordered = min(CANDIDATES, model.n_labels_), getattr(model, "tail", None) is not None
        top = model.rank(holdout, depth) if ordered else model.probabilities(model.rank_plainly(holdout, depth))
        labels = np.where(top.labels >= 0, used[top.labels], np.int32(-1)).astype(np.int32)
        return TopK(labels, np.asarray(top.scores, np.float32))

    def scores(self, top: TopK, rung: int = -1) -> Scores:
        """The metric of answers to the rows of the holdout that a rung looks at, by default the last: all."""
        return self.metric.scores(self.truths[rung], top, self.label_counts, len(self.train))

    def latency(self, model: Estimator, transform: Callable[[Any], Any] = lambda rows: rows) -> float:
        """The median seconds of single queries; ``transform`` makes features of one."""
        k, rows = self.metric.k or 10, self.holdout[:QUERIES]
        queries = [[self.X[row]] if self.texts else take_rows(self.X, np.array([row])) for row in rows]
        for query in queries[:5]:  # which only warm up
            model.rank(transform(query), k)
        times = []
        for query in queries:
            start = self.clock()
            model.rank(transform(query), k)
            times.append(self.clock() - start)
        return float(np.median(times))
