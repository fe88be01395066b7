"""Ensembles of trials: members are added one by one while the holdout's score rises (Caruana et al. 2004)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sylvan.canonical import Csr, take_rows
from sylvan.parallel import resolve_jobs
from sylvan.ranking.ensemble import combine_rankings, fit_weights
from sylvan.topk import TopK
from sylvan.tune.metric import LabelScores, RowScores
from sylvan.tune.record import Trial

__all__ = ["grow_ensemble"]

MEMBERS = 6  # at most
GAIN = 0.002  # of the score that a member must bring, as a share of it
TRIED = 6  # best trials among which the next member is looked for, beside the best of each family
SHORT = 20  # answers a row, at least, while members are looked for
VOTES = 10  # of Ensemble, whose formula this is
HOW = "score"

Scores = RowScores | LabelScores
Score = Callable[[TopK], Scores]


def grow_ensemble(
    trials: Sequence[Trial], tops: Sequence[TopK], truth: Csr, score: Score, allowed: Callable[[Trial], bool],
    number: int, depth: int, n_jobs: int | None = None,
) -> tuple[Trial, Scores] | None:  # fmt: skip
    """The best ensemble that begins with the first of the trials, and its scores; None where none is better alone.

    The weights are fitted to one half of the holdout and judged on the other, both ways, so that a member that only
    fits the rows it was weighed on isn't taken; those of the result are fitted to all rows.

    Parameters
    ----------
    trials : sequence of Trial
        The best first; each of one setting.
    tops : sequence of TopK
        Their answers to the holdout, with probabilities.
    truth : Csr
    score : callable
        The scores of a ranking.
    allowed : callable
        Whether an ensemble, as a trial, is within limits and time.
    number : int
        Of the new trial.
    depth : int
        Answers a row that the score looks at.
    """
    if len(trials) < 2:
        return None
    jobs = resolve_jobs(n_jobs)
    width = max(depth, SHORT)
    short = [TopK(top.labels[:, :width], top.scores[:, :width]) for top in tops]
    tried = _varied(trials)
    chosen, best = [0], score(tops[0]).value()
    while len(chosen) < MEMBERS:
        grown: tuple[float, int] | None = None
        for at in tried:
            if at in chosen or not allowed(_joined([trials[i] for i in (*chosen, at)], (), number)):
                continue
            value = score(_cross_fitted([short[i] for i in (*chosen, at)], truth, jobs)).value()
            if grown is None or value > grown[0]:
                grown = value, at
        if grown is None or grown[0] < best * (1 + GAIN):
            break
        best = grown[0]
        chosen.append(grown[1])
    while len(chosen) > 1:
        members = [tops[at] for at in chosen]
        weights = fit_weights(members, truth, how=HOW, votes=VOTES, n_jobs=jobs)
        if (weights > 0).all():
            joined = _joined([trials[at] for at in chosen], tuple(map(float, weights)), number)
            scores = score(_cross_fitted(members, truth, jobs))
            return replace(joined, score=scores.value()), scores
        chosen = [at for at, weight in zip(chosen, weights, strict=True) if weight > 0]  # that it found no use for
    return None


def _varied(trials: Sequence[Trial]) -> list[int]:
    """The places of the best trials, and of the best of each model over each kind of terms."""
    seen: set[tuple[str, ...]] = set()
    chosen = []
    for at, trial in enumerate(trials):
        (one,) = trial.members
        family = (one.model, str(one.text.get("analyzer")), str(one.text.get("ngrams")))
        if at < TRIED or family not in seen:
            chosen.append(at)
        seen.add(family)
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


def _cross_fitted(tops: Sequence[TopK], truth: Csr, n_jobs: int) -> TopK:
    """The ensemble's ranking of the holdout, each half by the weights of the other."""
    n = len(tops[0])
    halves = [np.arange(0, n, 2), np.arange(1, n, 2)]
    k = max(top.k for top in tops)
    labels = np.full((n, k), -1, np.int32)
    scores = np.full((n, k), -np.inf, np.float32)
    for rows, others in (halves, halves[::-1]):
        weights = fit_weights(_rows(tops, others), take_rows(truth, others), how=HOW, votes=VOTES, n_jobs=n_jobs)
        used = np.flatnonzero(weights > 0).tolist()
        asked = _rows([tops[at] for at in used], rows)
        top = combine_rankings(asked, weights[used], k, how=HOW, votes=VOTES, n_jobs=n_jobs)
        labels[rows, : top.k], scores[rows, : top.k] = top.labels, top.scores
    return TopK(labels, scores)


def _rows(tops: Sequence[TopK], rows: npt.NDArray[np.intp]) -> list[TopK]:
    return [TopK(np.ascontiguousarray(top.labels[rows]), np.ascontiguousarray(top.scores[rows])) for top in tops]
