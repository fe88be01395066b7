"""Ensembles of trials: members are drawn one by one, with replacement (Caruana et al. 2004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from sylvan.parallel import resolve_jobs
from sylvan.ranking.ensemble import Way, combine_rankings
from sylvan.topk import TopK
from sylvan.tune.metric import LabelScores, RowScores
from sylvan.tune.record import Trial

__all__ = ["grow_ensemble"]

MEMBERS = 6  # at most
NOTHING = 0.0005  # as a share of the score: by so little more draws needn't be better
DRAWS = 15  # at most
TRIED = 8  # best trials that members are drawn from, beside the best of each family
SHORT, MOST = 20, 100  # answers a row, at least and at most, while members are drawn
VOTES = 10  # of Ensemble, whose formula this is
HOW: Way = "score"

Scores = RowScores | LabelScores
Score = Callable[[TopK], Scores]


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
    jobs = resolve_jobs(n_jobs)
    width = MOST if depth is None else max(depth, SHORT)
    tried = _varied(trials)
    short = [TopK(tops[at].labels[:, :width], tops[at].scores[:, :width]) for at in tried]

    def fits(places: Sequence[int]) -> bool:
        return allowed(_joined([trials[tried[at]] for at in places], (), number))

    drawn, top = _drawn(short, lambda top: score(top).value(), fits, jobs)
    if len(drawn) < 2:
        return None
    members = [short[at] for at in drawn]
    alone = score(_cross_fitted(short, score, jobs, 1)).value()
    if score(_cross_fitted(members, score, jobs, DRAWS)).value() <= alone:
        return None
    scores, total = score(top), sum(drawn.values())
    joined = _joined([trials[tried[at]] for at in drawn], tuple(n / total for n in drawn.values()), number)
    return replace(joined, score=scores.value()), scores


def _drawn(
    tops: Sequence[TopK], value: Callable[[TopK], float], fits: Callable[[Sequence[int]], bool], n_jobs: int
) -> tuple[dict[int, int], TopK]:
    """How often each ranking is drawn, the first at least once, by the best number of draws; and what they join to."""
    draws, joined = [0], tops[0]
    best, taken, together = value(joined), 1, joined
    while len(draws) < DRAWS:
        found: tuple[float, int, TopK] | None = None
        for at, top in enumerate(tops):
            if at not in draws and (len(set(draws)) == MEMBERS or not fits([*dict.fromkeys(draws), at])):
                continue
            weights = np.array([len(draws), 1]) / (len(draws) + 1)
            tried = combine_rankings([joined, top], weights, 2 * tops[0].k, how=HOW, votes=VOTES, n_jobs=n_jobs)
            if found is None or value(tried) > found[0]:
                found = value(tried), at, tried
        assert found is not None  # the first may always be drawn again
        draws.append(found[1])
        joined = found[2]
        if found[0] > best * (1 + NOTHING):
            best, taken, together = found[0], len(draws), joined
    return {at: draws[:taken].count(at) for at in dict.fromkeys(draws[:taken])}, together


def _varied(trials: Sequence[Trial]) -> list[int]:
    """The places of the best trials, and of the best of each model over each kind of terms."""
    seen: set[tuple[str, ...]] = set()
    chosen = []
    for at, trial in enumerate(trials):
        if at < TRIED or trial.family not in seen:
            chosen.append(at)
        seen.add(trial.family)
    return chosen


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
    labels = np.full((n, k), -1, np.int32)
    scores = np.full((n, k), -np.inf, np.float32)
    values = [score(top) for top in tops]
    for half in (0, 1):
        known = (np.arange(n) % 2 != half).astype(np.float64)
        if most == 1:
            drawn = {max(range(len(tops)), key=lambda at, known=known: values[at].value(known)): 1}  # type: ignore[misc]
        else:
            drawn, _ = _drawn(tops, lambda top, known=known: score(top).value(known), lambda _: True, n_jobs)  # type: ignore[misc]
        weights = np.array(list(drawn.values())) / sum(drawn.values())
        asked = [_rows(tops[at], slice(half, None, 2)) for at in drawn]
        top = combine_rankings(asked, weights, k, how=HOW, votes=VOTES, n_jobs=n_jobs)
        labels[half::2], scores[half::2] = top.labels, top.scores
    return TopK(labels, scores)


def _rows(top: TopK, rows: slice) -> TopK:
    return TopK(np.ascontiguousarray(top.labels[rows]), np.ascontiguousarray(top.scores[rows]))
