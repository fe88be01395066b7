"""Losses over a few classes as the papers print them, with loops and ``math``: written before Sylvan's were read.

Chen et al. (2025), "Adaptive Sampled Softmax with Inverted Multi-Index", Eq. (1) and Appendix B.2; Han et al. (2018),
"Candidates vs. Noises Estimation", Eqs. (2) and (3). ``o`` are one query's scores of all classes, ``q`` each one's
probability in a draw, ``drawn`` the classes drawn, ``y`` the label or the labels.
"""

import math
from collections.abc import Callable, Sequence

__all__ = ["every_term_weighed", "gradient", "head_and_tail", "only_draws_corrected", "others_alone", "ranking_nce"]

Numbers = Sequence[float]


def ranking_nce(o: Numbers, q: Numbers, drawn: Sequence[int], y: int) -> float:
    """Appendix B.2: importance weights w = p / q of all M + 1 classes, each over their sum; the label's log of that."""
    total = sum(math.exp(each) for each in o)
    weights = [math.exp(o[k]) / total / q[k] for k in (y, *drawn)]
    return -math.log(weights[0] / sum(weights))


def every_term_weighed(o: Numbers, q: Numbers, drawn: Sequence[int], labels: Sequence[int]) -> float:
    """The same as an estimate of the cross-entropy: the mean of M + 1 weighted terms stands for the whole sum."""
    losses = []
    for y in labels:
        terms = [math.exp(o[k]) / q[k] for k in (y, *drawn)]
        losses.append(math.log(sum(terms) / len(terms)) - o[y])
    return sum(losses) / len(losses)


def only_draws_corrected(o: Numbers, q: Numbers, drawn: Sequence[int], labels: Sequence[int], accidental: str) -> float:
    """Eq. (1): the positives as they are, and each draw o - ln(M q); what a draw that is a positive counts as."""
    total = sum(math.exp(o[y]) for y in labels)
    for k in drawn:
        if k not in labels or accidental == "keep":
            total += math.exp(o[k] - math.log(len(drawn) * q[k]))
        elif accidental == "paper":  # "o_i else"
            total += math.exp(o[k])
    return math.log(total) - sum(o[y] for y in labels) / len(labels)


def others_alone(o: Numbers, q: Numbers, drawn: Sequence[int], labels: Sequence[int]) -> float:
    """Eq. (1) where draws are from q without the positives: those that weren't hits, and q over the rest of it."""
    misses = [k for k in drawn if k not in labels]
    rest = 1 - sum(q[y] for y in labels)
    total = sum(math.exp(o[y]) for y in labels)
    total += sum(math.exp(o[k]) / (q[k] / rest) / len(misses) for k in misses)
    return math.log(total) - sum(o[y] for y in labels) / len(labels)


def head_and_tail(o: Numbers, q: Numbers, drawn: Sequence[int], labels: Sequence[int], head: Sequence[int]) -> float:
    """CANE's Eqs. (2) and (3) with the head for candidates: a label of the tail stands as one of the M noises."""
    losses = []
    for y in labels:
        noises = list(drawn) if y in head else [y, *drawn[: len(drawn) - 1]]
        total = sum(math.exp(o[k]) for k in head)
        total += sum(math.exp(o[j]) / q[j] for j in noises) / len(noises)
        losses.append(math.log(total) - o[y])
    return sum(losses) / len(losses)


def gradient(loss: Callable[[Numbers], float], o: Numbers, step: float = 1e-5) -> list[float]:
    """Central differences for each score."""
    found = []
    for k in range(len(o)):
        ahead, behind = [*o], [*o]
        ahead[k] += step
        behind[k] -= step
        found.append((loss(ahead) - loss(behind)) / (2 * step))
    return found
