"""Tuning: the best model that a budget can find, within limits on its latency, size and training time."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.canonical import Csr
from sylvan.arrays.frames import holds_texts, texts_of
from sylvan.arrays.topk import TopK
from sylvan.data import Vocabulary
from sylvan.errors import DataError, ParameterError, SylvanError, TuningError
from sylvan.labels.targets import Targets, encode_labels, need_as_many
from sylvan.lazy import need_torch
from sylvan.models.base import Estimator
from sylvan.models.compress import has_weights
from sylvan.models.text_estimator import check_texts
from sylvan.models.transformer.presets import encoder_of
from sylvan.models.transformer.x_transformer import XRTransformer
from sylvan.parallel import quiet, resolve_jobs
from sylvan.params.fields import Choice, Number, check_value
from sylvan.params.wording import are, counted, shown_time
from sylvan.ranking.ensemble import Way, combine_rankings
from sylvan.tune.result import COSTS, Budget, Limits, Trial, TuneResult, leaders, parse_seconds
from sylvan.tune.search import JOINING, SAFETY, Search, Study, data_identity, need_optuna, ranked
from sylvan.tune.space import Space, joined
from sylvan.tune.workbench import SUBLINEAR, Metric, Scores, Workbench, bootstrap

MEMBERS = 6  # at most
NOTHING = 0.0005  # as a share of the score: by so little more draws needn't be better
DRAWS = 15  # at most
TRIED = 8  # best trials that members are drawn from, beside the best of each family
SHORT, MOST = 20, 100  # answers a row, at least and at most, while members are drawn
VOTES = 10  # of Ensemble, whose formula this is
HOW: Way = "score"
Score = Callable[[TopK], Scores]
Holdout = Literal["random", "last"]
LEAST = 20  # rows of a holdout
_SHARE, _FEW, _MOST = 10, 2_500, 10_000
_Rows = npt.NDArray[np.int32]
ROOM = 512  # bytes of a size that a pruned model leaves free for notes, as ``sylvan compress`` does
LONG = 600  # characters of a text, in the mean, from which on texts are long: pages, not titles or summaries
_BUDGET = "10m"  # where neither time nor trials are given


def grow_ensemble(
    trials: Sequence[Trial], tops: Sequence[TopK], score: Score, allowed: Callable[[Trial], bool], number: int,
    depth: int | None, n_jobs: int | None = None,
) -> tuple[Trial, Scores] | None:  # fmt: skip
    """The best ensemble that begins with the first of the trials, and its scores; None where one trial is better.
    Members are drawn one after the other, each as often as it brings more than any other does; how often is its weight.
    Whether an ensemble is better is judged by weights that were drawn on one half of the holdout and applied to the
    other, both ways, beside the trial that is the best on one half, judged on the other: of many trials the best has
    been lucky, too."""
    if len(trials) < 2:
        return None
    jobs, width = resolve_jobs(n_jobs), MOST if depth is None else max(depth, SHORT)
    best_of_kinds = {trial.number for trial in leaders(trials)}  # of each model over each kind of terms
    places = [place for place, trial in enumerate(trials) if place < TRIED or trial.number in best_of_kinds]
    tried = [trials[place] for place in places]
    short = [TopK(tops[place].labels[:, :width], tops[place].scores[:, :width]) for place in places]

    def fits(members: Sequence[int]) -> bool:
        return allowed(_joined([tried[member] for member in members], (), number))

    drawn, top = _drawn(short, lambda top: score(top).value(), fits, jobs)
    if len(drawn) < 2:
        return None
    alone = score(_cross_fitted(short, score, jobs, 1)).value()
    if score(_cross_fitted([short[member] for member in drawn], score, jobs, DRAWS)).value() <= alone:
        return None
    scores, total = score(top), sum(drawn.values())
    joined = _joined([tried[member] for member in drawn], tuple(n / total for n in drawn.values()), number)
    return replace(joined, score=scores.value()), scores


def _drawn(
    tops: Sequence[TopK], value: Callable[[TopK], float], fits: Callable[[Sequence[int]], bool], n_jobs: int
) -> tuple[dict[int, int], TopK]:
    """How often each ranking is drawn, the first at least once, by the best number of draws; and what they join to."""
    draws, joined = [0], tops[0]
    best, taken, together = value(joined), 1, joined
    while len(draws) < DRAWS:
        weights = np.array([len(draws), 1]) / (len(draws) + 1)
        options: list[tuple[float, int, TopK]] = []  # the first may always be drawn again
        for member, top in enumerate(tops):
            if member in draws or (len(set(draws)) < MEMBERS and fits([*dict.fromkeys(draws), member])):
                tried = combine_rankings([joined, top], weights, 2 * tops[0].k, how=HOW, votes=VOTES, n_jobs=n_jobs)
                options.append((value(tried), member, tried))
        reached, member, joined = max(options, key=lambda option: option[0])  # the first of the best
        draws.append(member)
        if reached > best * (1 + NOTHING):
            best, taken, together = reached, len(draws), joined
    return dict(Counter(draws[:taken])), together


def _joined(members: Sequence[Trial], weights: tuple[float, ...], number: int) -> Trial:
    """The ensemble of some trials: what they take together."""
    latencies = [member.latency for member in members]
    return Trial(
        number, tuple(member.members[0] for member in members), weights, "complete", None, members[0].n_rows,
        sum(member.seconds or 0.0 for member in members), sum(member.n_bytes or 0 for member in members),
        None if None in latencies else sum(latency or 0.0 for latency in latencies),
        of_trials=tuple(member.number for member in members),
    )  # fmt: skip


def _cross_fitted(tops: Sequence[TopK], score: Score, n_jobs: int, most: int) -> TopK:
    """The ranking of the holdout by up to so many draws, each half by those of the other; of one, by the best alone."""
    n, k = len(tops[0]), max(top.k for top in tops)
    labels, scores = np.full((n, k), -1, np.int32), np.full((n, k), -np.inf, np.float32)
    values = [score(top) for top in tops]
    for half in (0, 1):
        weight = (np.arange(n) % 2 != half).astype(np.float64)
        if most == 1:
            alone = [value.value(weight) for value in values]
            drawn = {alone.index(max(alone)): 1}
        else:
            drawn, _ = _drawn(tops, lambda top, weight=weight: score(top).value(weight), lambda _: True, n_jobs)  # type: ignore[misc]
        weights = np.array(list(drawn.values())) / sum(drawn.values())
        halves = [
            TopK(np.ascontiguousarray(tops[place].labels[half::2]), np.ascontiguousarray(tops[place].scores[half::2]))
            for place in drawn
        ]
        top = combine_rankings(halves, weights, k, how=HOW, votes=VOTES, n_jobs=n_jobs)
        labels[half::2], scores[half::2] = top.labels, top.scores
    return TopK(labels, scores)


def split_rows(
    labelled: npt.NDArray[np.bool_], how: Holdout = "random", groups: Any = None, seed: int = 0
) -> tuple[_Rows, _Rows]:
    """The rows to train on and the holdout rows. The holdout is a tenth of the rows, but 2,500 as long as that is no
    more than a quarter, and at most 10,000."""
    # Shapes: labelled (n,); groups (n,)
    check_value("holdout", how, Choice(get_args(Holdout)), "tune")
    n = len(labelled)
    size = min(max(n // _SHARE, min(_FEW, n // 4)), _MOST)
    if size < LEAST:
        raise DataError(
            f"There {are(n)} {counted(n, 'row')}: too few to hold {LEAST} out, for which tune takes at least "
            f"{4 * LEAST}."
        )
    order = np.random.default_rng(seed).permutation(n)
    backwards = order if how == "random" else np.arange(n)[::-1]
    chosen = backwards[:size] if groups is None else _whole_groups(groups, n, backwards, size, how == "random")
    outside = np.zeros(n, bool)
    outside[chosen] = True
    train = order[~outside[order]]
    if how == "last":
        train = np.sort(train)[::-1]  # a first part of which is the most recent
    holdout = np.flatnonzero(outside & labelled)
    if len(holdout) < LEAST or not labelled[train].any():
        raise DataError(
            f"Of {counted(n, 'row')}, {len(chosen)} would be held out, and {len(holdout)} of them have a label: tune "
            f"takes at least {LEAST} such rows, and some with labels to train on."
        )
    return train.astype(np.int32), holdout.astype(np.int32)


def _whole_groups(groups: Any, n: int, order: npt.NDArray[np.intp], size: int, skip: bool) -> npt.NDArray[np.intp]:
    """The rows of the groups that come first in ``order``, about ``size`` of them."""
    group_of_row = np.asarray(groups)
    if group_of_row.ndim != 1 or len(group_of_row) != n:
        rows = f"There {are(n)} {counted(n, 'row')}"
        raise DataError(f"{rows}, but groups has shape {group_of_row.shape}: it takes one group a row.")
    try:
        names, number = np.unique(group_of_row, return_inverse=True)
    except TypeError:
        raise ParameterError("The 'groups' parameter must be all strings or all numbers.") from None
    if len(names) < 2:
        raise DataError(f"There is one group, of {counted(n, 'row')}: none can be held out.")
    sizes = np.bincount(number).tolist()
    taken: list[int] = []
    total = 0
    for group in dict.fromkeys(number[order].tolist()):
        if skip and taken and total + sizes[group] > 1.5 * size:
            continue  # a group isn't torn, and a large one would leave few rows to train on
        if total >= size or total + sizes[group] >= n:
            break
        taken.append(group)
        total += sizes[group]
    return np.flatnonzero(np.isin(number, taken))


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
    check_value("seed", seed, Number(int, 0, 2**31 - 1), "tune")
    resolve_jobs(n_jobs)
    rows, labels, vocabulary, inputs = _training_rows(X, Y)
    train, apart = split_rows(np.diff(labels.indptr) > 0, holdout, groups, seed)
    name_bytes = 0 if vocabulary is None else store.saved_bytes(vocabulary.to_state())
    if limits.size is not None and name_bytes >= limits.size:
        raise TuningError(
            f"No model can be as small as {limits.size:,} bytes: the names of the {counted(labels.shape[1], 'label')} "
            f"alone take {name_bytes:,}."
        )
    least = None if limits.size is None else int(limits.size * (len(train) / labels.shape[0]) ** SUBLINEAR) - ROOM
    bench = Workbench(rows, labels, train, apart, chosen, name_bytes, n_jobs, clock, least)
    with_encoder = None if encoder is None else os.fspath(encoder)
    if with_encoder is not None:
        if not bench.texts:
            raise ParameterError("The 'encoder' parameter of tune is for texts, but X is a matrix.")
        need_torch("sylvan.tune with an encoder")
        encoder_of(XRTransformer(with_encoder, frozen=True))  # which says why it can't be opened
    long = isinstance(rows, list) and sum(map(len, rows)) > LONG * len(rows)
    space = Space(bench.texts, chosen.tail, limits.size is not None, seed, with_encoder, long)
    identity = data_identity(rows, labels, apart, metric=chosen.name, seed=int(seed), encoder=with_encoder) | {
        "size limit": limits.size or False, "ranges": space.checksum()
    }  # fmt: skip
    notes = []
    with quiet(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"optuna|sylvan\.tune\.search")  # on what is new or old in Optuna
        trials = Study(space, seed, identity, None if study is None else os.fspath(study))
        search = Search(bench, trials, limits, allowed, max_trials, report or (lambda line: None))
        try:
            search.run()
        except KeyboardInterrupt:
            if not any(trial.score is not None for trial in search.records.values()):
                raise
            notes.append("The search was interrupted: this is the best so far.")
            search.report("Interrupted: the best so far is trained on all rows. Another Ctrl-C ends without a model.")
        return _Finish(search, inputs, Y, (tuple(text_fields), labels_field), notes).result()


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


class _Finish:
    """The end of a tuning: candidates, the training on all rows, limits checked on the model that comes of it."""

    def __init__(self, search: Search, X: Any, Y: Any, fields: tuple[Any, str], notes: list[str]) -> None:
        self.search, self.bench, self.limits, self.budget = search, search.bench, search.limits, search.budget
        self.X, self.Y, self.fields, self.notes = X, Y, fields, notes
        self.scored = [trial for trial in search.records.values() if trial.score is not None]
        self.ensemble: Trial | None = None
        self.ensemble_scores: Scores | None = None

    def result(self) -> TuneResult:
        """The first candidate whose final model holds to all limits, and what is to be said of it."""
        candidates = self._candidates()
        broken: list[str] = []
        heavier = 1.0  # models of all rows, against those of the rows that trials train on
        for place, candidate in enumerate(candidates):
            if self.limits.size is not None and heavier * (candidate.n_bytes or 0) > self.limits.size:
                continue
            needed, following = candidate.seconds or 0.0, candidates[place + 1 :]
            if needed > self.budget.remaining and any((other.seconds or 0.0) < needed for other in following):
                broken.append(f"#{candidate.number}: no time is left for its training ({shown_time(needed)})")
                continue
            try:
                model, seconds, pruned_to = self._train(candidate)
            except (SylvanError, MemoryError) as error:
                broken.append(f"#{candidate.number}: its training failed: {error}")
                continue
            latency, n_bytes = self.bench.latency(model), store.saved_bytes(model.to_state())
            final = replace(candidate, latency=latency, n_bytes=n_bytes, seconds=seconds)
            if final.holds(self.limits):
                return self._described(model, final, broken, pruned_to)
            broken.append(f"#{candidate.number}: {' and '.join(final.broken(self.limits))}")
            heavier = max(1.0, n_bytes / (candidate.n_bytes or n_bytes))
        raise TuningError(self._none_holds(broken))

    def _candidates(self) -> list[Trial]:
        """Trials within the limits, as far as they are known, the best first; before them the best ensemble of trials
        whose scores are probabilities, as those are that no ``tail`` ordered."""
        best = self.search.best()
        feasible = [trial for trial in self.scored if trial not in best and trial.holds(self.limits)]
        tops = ((trial, self.search.study.top(trial.number)) for trial in best
                if all("tail" not in member.parameters for member in trial.members))  # fmt: skip
        usable = [(trial, top) for trial, top in tops if top is not None]
        remaining = self.budget.remaining - JOINING * (self.budget.seconds or 0.0)

        def allowed(trial: Trial) -> bool:
            return trial.holds(self.limits) and SAFETY * (trial.seconds or 0.0) <= remaining

        grown = grow_ensemble(
            [trial for trial, _ in usable], [top for _, top in usable], self.bench.scores, allowed,
            1 + max(self.search.records, default=0), self.bench.metric.k, self.bench.n_jobs,
        )  # fmt: skip
        if grown is not None:
            self.ensemble, self.ensemble_scores = grown
            best.insert(0, grown[0])
        return [*best, *ranked(feasible)]  # a pruned trial is better than none

    def _train(self, candidate: Trial) -> tuple[Estimator, float, int | None]:
        """The model of all rows, the seconds of its training, and the size that it was pruned to."""
        model: Any = joined(candidate.members, candidate.weights, self.bench.texts, self.bench.n_jobs)
        for part in (model, *getattr(model, "members", ())) if self.bench.texts else ():
            part.text_fields_, part.labels_field_ = self.fields
        start = self.bench.clock()
        model.fit(self.X, self.Y)
        limit, seconds = self.limits.size, self.bench.clock() - start
        if limit is None or not has_weights(model) or store.saved_bytes(model.to_state()) <= limit:
            return model, seconds, None
        return model.compress(limit, room=ROOM), seconds, limit

    def _described(self, model: Estimator, final: Trial, broken: list[str], pruned_to: int | None) -> TuneResult:
        records = self.search.records
        trials = [*(records[number] for number in sorted(records)), *([] if self.ensemble is None else [self.ensemble])]
        notes = [*self.notes, *(f"Passed over {problem}." for problem in broken)]
        spent, seconds = self.budget.spent, self.budget.seconds
        if seconds is not None and spent > 1.05 * seconds:
            notes.append(f"This took {spent:.0f} s, more than the budget of {seconds:.0f} s.")
        # How much better than the default; unknown where one of them wasn't measured with all training rows.
        default = self._scores_of(records.get(0))
        best = self.ensemble_scores if len(final.members) > 1 else self._scores_of(final)
        n_holdout = len(self.bench.holdout)
        interval = None if default is None or best is None else bootstrap(best, default, n_holdout)
        return TuneResult(
            model, final, tuple(trials), self.bench.metric.name, self.limits, interval, n_holdout, spent, pruned_to,
            tuple(notes),
        )  # fmt: skip

    def _scores_of(self, trial: Trial | None) -> Scores | None:
        top = None if trial is None or trial.state != "complete" else self.search.study.top(trial.number)
        return None if top is None else self.bench.scores(top)

    def _none_holds(self, broken: list[str]) -> str:
        """Why there is no model, with what came nearest."""
        parts = []
        for name, cost in zip(("fastest single query", "smallest model", "fastest training"), COSTS, strict=True):
            if values := [value for trial in self.scored if (value := getattr(trial, cost.attribute)) is not None]:
                parts.append(f"the {name} {cost.words_of(min(values))}")
        nearest = f" Of {counted(len(self.scored), 'trial')}, {', '.join(parts)}." if parts else ""
        reasons = f" Tried on all rows: {'; '.join(broken)}." if broken else ""
        return f"No setting that was tried holds to the limits.{nearest}{reasons} Give other limits or a longer budget."
