"""Tuning: the best model that a budget can find, within limits on its latency, size and training time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sylvan import store, validate
from sylvan.canonical import Csr, take_rows
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError, SylvanError, TuningError
from sylvan.frames import holds_texts, texts_of
from sylvan.labels.targets import Targets, encode_labels, need_as_many
from sylvan.lazy import need_torch
from sylvan.models.base import Estimator
from sylvan.models.compress import Compressible, has_weights
from sylvan.models.text_estimator import check_texts
from sylvan.models.transformer.presets import encoder_of
from sylvan.models.transformer.xr_transformer import XRTransformer
from sylvan.parallel import quiet, resolve_jobs
from sylvan.params import Number, check_value
from sylvan.runtime.memory import shown_bytes
from sylvan.tune.ensembles import grow_ensemble
from sylvan.tune.holdout import Holdout, split_rows
from sylvan.tune.limits import Budget, Limits, parse_seconds, shown_time
from sylvan.tune.metric import Metric, bootstrap
from sylvan.tune.record import Trial
from sylvan.tune.result import TuneResult
from sylvan.tune.search import JOINING, SAFETY, Search, ranked
from sylvan.tune.setting import joined
from sylvan.tune.space import Space
from sylvan.tune.study import Study, data_identity, need_optuna
from sylvan.tune.workbench import QUERIES, SUBLINEAR, Workbench, median_latency
from sylvan.wording import counted

__all__ = ["tune"]

ROOM = 512  # bytes of a size that a pruned model leaves free for notes, as ``sylvan compress`` does
LONG = 600  # characters of a text, in the mean, from which on texts are long: pages, not titles or summaries
_BUDGET = "10m"  # where neither time nor trials are given
_SEED = Number(int, 0, 2**31 - 1)


def tune(
    X: Iterable[str] | Any,
    Y: Any,
    *,
    budget: float | str | None = None,
    max_trials: int | None = None,
    metric: str = "P@5",
    max_latency: float | str | None = None,
    max_size: int | str | None = None,
    max_train_time: float | str | None = None,
    holdout: Holdout = "random",
    groups: Any = None,
    encoder: str | os.PathLike[str] | None = None,
    study: str | os.PathLike[str] | None = None,
    text_fields: Sequence[str] = ("text",),
    labels_field: str = "labels",
    n_jobs: int | None = None,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> TuneResult:
    """Search for the best model within a budget, and train it on all rows.

    Vectorisers, trees of linear models, neighbours and ensembles of them are tried on a holdout; settings that do badly
    on a part of the rows are given up. The default model is always tried first. Only training rows belong here: the
    test set isn't to be seen.

    Parameters
    ----------
    X : iterable of str, or matrix of shape (n, d)
        Training rows: texts, for which the vectoriser is chosen too, or features.
    Y : labels of the same rows, as ``fit`` takes them
    budget : float or str, optional
        Seconds, or text such as ``"10m"``, for everything, the final training included. ``"10m"`` by default, unless
        ``max_trials`` is given.
    max_trials : int, optional
        Number of trials. With this alone the result depends on data, seed and number only, unless latency or training
        time are limited.
    metric : str, default "P@5"
        ``"P@k"``, ``"R@k"``, ``"nDCG@k"``, ``"PSP@k"``, ``"PSnDCG@k"``, ``"F1@k"`` or ``"macro-recall@k"``; or
        ``"F1"``, of as many labels as ``predict(X, expected="f1")`` chooses.
    max_latency : float or str, optional
        The final model's median time of a single query on this machine, such as ``"1ms"``.
    max_size : int or str, optional
        The saved model's size, such as ``"50MB"``.
    max_train_time : float or str, optional
        The time of the training on all rows, such as ``"5m"``.
    holdout : {"random", "last"}, default "random"
        Which rows settings are judged by: a tenth, drawn at random or the last ones, for rows in time order.
    groups : array of shape (n,), optional
        Rows of one group are all trained on or all in the holdout.
    encoder : path, optional
        A folder with an encoder of texts, as :class:`~sylvan.XRTransformer` takes it: models with its vectors beside
        the words are tried too. It stays as it is, and each text is encoded once.
    study : path, optional
        A folder for the trials. The same call goes on from there, and several processes may share it.
    text_fields, labels_field : sequence of str, str
        The fields that texts and labels were read from, which the final model stores, as :class:`~sylvan.TextModel`
        does, for the command line.
    n_jobs : int, optional
        Number of threads; None or -1 for every core.
    seed : int, default 0
    report : callable, optional
        Is given a line after each trial.
    clock : callable, optional
        Gives the time in seconds.

    Returns
    -------
    TuneResult
        With the ``model``, the trials, the Pareto front and the configuration that reproduces the model. Ctrl-C ends
        the search and gives the best so far.

    Raises
    ------
    ImportError
        When Optuna isn't installed: ``pip install "sylvan[tune]"``.
    TuningError
        When the budget is too short for one training, or no setting holds to the limits.
    DataError
        For malformed data, or too few rows for a holdout.
    ParameterError
        For an unknown metric or an option out of its range.
    ModelError
        When ``study`` holds the study of something else.

    Examples
    --------
    >>> from sylvan import data, tune
    >>> texts, labels = data.load_sample().train[:2]
    >>> result = tune(texts[:400], labels[:400], max_trials=2, n_jobs=1)
    >>> result.trials[0].number, len(result.model.rank(["a voyage to the south seas"], k=3).names[0])
    (0, 3)
    """
    need_optuna()
    chosen = Metric.of(metric)
    limits = Limits.of(max_latency, max_size, max_train_time)
    if max_trials is not None:
        check_value("max_trials", max_trials, Number(int, 1), "tune")
    if budget is None and max_trials is None:
        budget = _BUDGET
    allowed = Budget(None if budget is None else parse_seconds(budget, "budget"), clock)
    check_value("seed", seed, _SEED, "tune")
    resolve_jobs(n_jobs)
    rows, labels, vocabulary, given = _training_rows(X, Y)
    train, apart = split_rows(np.diff(labels.indptr) > 0, holdout, groups, seed)
    name_bytes = 0 if vocabulary is None else store.saved_bytes(vocabulary.to_state())
    if limits.size is not None and name_bytes >= limits.size:
        raise TuningError(
            f"No model can be as small as {limits.size:,} bytes: the names of the {counted(labels.shape[1], 'label')} "
            f"alone take {name_bytes:,}."
        )
    least = None if limits.size is None else int(limits.size * (len(train) / labels.shape[0]) ** SUBLINEAR) - ROOM
    bench = Workbench(rows, labels, train, apart, chosen, name_bytes, n_jobs, clock, least)
    with_encoder = None if encoder is None else _encoder(encoder, bench.texts)
    space = Space(bench.texts, chosen.tail, limits.size is not None, seed, with_encoder, _long(rows))
    identity = data_identity(rows, labels, apart, metric=chosen.name, seed=seed, encoder=with_encoder) | {
        "size limit": limits.size is not None, "ranges": space.checksum()
    }  # fmt: skip
    trials = Study(space, seed, identity, None if study is None else os.fspath(study))
    search = Search(bench, trials, limits, allowed, max_trials, report or (lambda line: None))
    notes = []
    with quiet():
        try:
            search.run()
        except KeyboardInterrupt:
            if not any(trial.score is not None for trial in search.records.values()):
                raise
            notes.append("The search was interrupted: this is the best so far.")
            search.report("Interrupted: the best so far is trained on all rows. Another Ctrl-C ends without a model.")
        return _Finish(search, given, Y, (tuple(text_fields), labels_field), notes).result()


def _training_rows(X: Any, Y: Any) -> tuple[list[str] | Csr, Csr, Vocabulary | None, Any]:
    """Texts or features, labels by number, their names where they have any, and X as ``fit`` is to be given it."""
    X = texts_of(X) if holds_texts(X) else X
    if hasattr(X, "shape") or isinstance(X, Csr):
        targets = Targets.read(Y)
        features, labels = validate.pair(X, targets.matrix, owner="tune")
        return features, labels, targets.names, X
    texts = check_texts(X, "tune")
    vocabulary, encoded = encode_labels(Y)
    labels = validate.labels(encoded)
    need_as_many(len(texts), labels.shape[0])
    if labels.nnz == 0:
        raise DataError("No text has a label: there is nothing to learn.")
    return texts, labels, vocabulary, texts


def _long(rows: Any) -> bool:
    """Whether rows are long texts."""
    return isinstance(rows, list) and sum(map(len, rows)) > LONG * len(rows)


def _encoder(encoder: str | os.PathLike[str], texts: bool) -> str:
    """The encoder's name, when it can be opened."""
    if not texts:
        raise ParameterError("The 'encoder' parameter of tune is for texts, but X is a matrix.")
    need_torch("sylvan.tune with an encoder")
    name = os.fspath(encoder)
    encoder_of(XRTransformer(name, frozen=True))
    return name


class _Finish:
    """The end of a tuning: candidates, the training on all rows, limits checked on the model that comes of it."""

    def __init__(self, search: Search, X: Any, Y: Any, fields: tuple[Any, str], notes: list[str]) -> None:
        self.search, self.bench, self.limits, self.budget = search, search.bench, search.limits, search.budget
        self.X, self.Y, self.fields, self.notes = X, Y, fields, notes
        self.ensemble: Trial | None = None
        self.ensemble_scores: Any = None

    def result(self) -> TuneResult:
        """The first candidate whose final model holds to all limits, and what is to be said of it."""
        candidates = self._candidates()
        broken: list[str] = []
        heavier = 1.0  # models of all rows, against those of the rows that trials train on
        for at, candidate in enumerate(candidates):
            if self.limits.size is not None and heavier * (candidate.n_bytes or 0) > self.limits.size:
                continue
            needed = candidate.seconds or 0.0
            if needed > self.budget.remaining and any(
                (other.seconds or 0.0) < (candidate.seconds or 0.0) for other in candidates[at + 1 :]
            ):
                broken.append(f"#{candidate.number}: no time is left for its training ({shown_time(needed)})")
                continue
            try:
                model, seconds, pruned_to = self._train(candidate)
            except (SylvanError, MemoryError) as error:
                broken.append(f"#{candidate.number}: its training failed: {error}")
                continue
            latency, n_bytes = self._measure(model)
            problems = self.limits.broken(latency, n_bytes, seconds)
            if not problems:
                final = replace(candidate, latency=latency, n_bytes=n_bytes, seconds=seconds)
                return self._told(model, final, broken, pruned_to)
            broken.append(f"#{candidate.number}: {' and '.join(problems)}")
            heavier = max(1.0, n_bytes / (candidate.n_bytes or n_bytes))
        raise TuningError(self._none_holds(broken))

    def _candidates(self) -> list[Trial]:
        """Trials within the limits, as far as they are known, the best first; the best ensemble among them."""
        best = self.search.best()
        scored = [trial for trial in self.search.records.values() if trial.score is not None]
        others = [trial for trial in scored if trial not in best and trial.holds(self.limits)]
        if best:
            self._grow(best)
        if self.ensemble is not None:
            best = [self.ensemble, *best]
        return [*best, *ranked(others)]  # a pruned trial is better than none

    def _grow(self, best: list[Trial]) -> None:
        known = [(trial, self.search.study.top(trial.number)) for trial in best]
        usable = [
            (trial, top) for trial, top in known
            if top is not None and all("tail" not in member.parameters for member in trial.members)
        ]  # fmt: skip
        if not usable:
            return
        metric, bench = self.bench.metric, self.bench
        remaining = self.budget.remaining - JOINING * (self.budget.seconds or 0.0)

        def allowed(trial: Trial) -> bool:
            return trial.holds(self.limits) and SAFETY * (trial.seconds or 0.0) <= remaining

        grown = grow_ensemble(
            [trial for trial, _ in usable], [top for _, top in usable],
            lambda top: metric.scores(bench.truth, top, bench.label_counts, len(bench.train)), allowed,
            1 + max(self.search.records), metric.k, bench.n_jobs,
        )  # fmt: skip
        if grown is not None:
            self.ensemble, self.ensemble_scores = grown

    def _train(self, candidate: Trial) -> tuple[Estimator, float, int | None]:
        """The model of all rows, the seconds of its training, and the size that it was pruned to."""
        model: Any = joined(candidate.members, candidate.weights, self.bench.texts, self.bench.n_jobs)
        for one in (model, *getattr(model, "members", ())) if self.bench.texts else ():
            one.text_fields_, one.labels_field_ = self.fields
        start = self.bench.clock()
        model.fit(self.X, self.Y)
        limit = self.limits.size
        seconds = self.bench.clock() - start
        if limit is None or not isinstance(model, Compressible) or not has_weights(model):
            return model, seconds, None
        if store.saved_bytes(model.to_state()) <= limit:
            return model, seconds, None
        return model.compress(limit, room=ROOM), seconds, limit

    def _measure(self, model: Estimator) -> tuple[float, int]:
        """The latency of single queries, and the bytes of the saved model."""
        k = self.bench.metric.k or 10
        rows = self.bench.holdout[:QUERIES]
        if self.bench.texts:
            queries: list[Any] = [[self.bench.X[row]] for row in rows]
        else:
            queries = [take_rows(self.bench.X, rows[at : at + 1]) for at in range(len(rows))]
        latency = median_latency(lambda query: model.rank(query, k), queries, self.bench.clock)
        return latency, store.saved_bytes(model.to_state())

    def _told(self, model: Estimator, final: Trial, broken: list[str], pruned_to: int | None) -> TuneResult:
        records = self.search.records
        trials = [records[number] for number in sorted(records)]
        if self.ensemble is not None:
            trials.append(self.ensemble)
        notes = [*self.notes, *(f"Passed over {problem}." for problem in broken)]
        spent, seconds = self.budget.spent, self.budget.seconds
        if seconds is not None and spent > 1.05 * seconds:
            notes.append(f"This took {spent:.0f} s, more than the budget of {seconds:.0f} s.")
        return TuneResult(
            model, final, tuple(trials), self.bench.metric.name, self.limits, self._interval(final),
            len(self.bench.holdout), spent, pruned_to, tuple(notes),
        )  # fmt: skip

    def _interval(self, final: Trial) -> tuple[float, float] | None:
        """Of the best against the default; None where one of them wasn't measured with all training rows."""
        default = self._scores_of(self.search.records.get(0))
        best = self.ensemble_scores if len(final.members) > 1 else self._scores_of(final)
        if default is None or best is None:
            return None
        return bootstrap(best, default, len(self.bench.holdout))

    def _scores_of(self, trial: Trial | None) -> Any:
        if trial is None or trial.state != "complete":
            return None
        top = self.search.study.top(trial.number)
        if top is None:
            return None
        return self.bench.metric.scores(self.bench.truth, top, self.bench.label_counts, len(self.bench.train))

    def _none_holds(self, broken: list[str]) -> str:
        """Why there is no model, with what came nearest."""
        tried = [trial for trial in self.search.records.values() if trial.score is not None]
        parts = []
        for name, attribute, shown in (
            ("single query", "latency", shown_time), ("model", "n_bytes", shown_bytes),
            ("training", "seconds", shown_time),
        ):  # fmt: skip
            values = [getattr(trial, attribute) for trial in tried if getattr(trial, attribute) is not None]
            if values:
                parts.append(f"the {'smallest' if name == 'model' else 'fastest'} {name} {shown(min(values))}")
        nearest = f" Of {counted(len(tried), 'trial')}, {', '.join(parts)}." if parts else ""
        reasons = f" Tried on all rows: {'; '.join(broken)}." if broken else ""
        return f"No setting that was tried holds to the limits.{nearest}{reasons} Give other limits or a longer budget."
