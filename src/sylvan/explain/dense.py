"""Explanations over words and an encoder's vector: its dimensions, which mean nothing one by one, gathered as one."""

from __future__ import annotations

from dataclasses import replace

from sylvan.explain.explanation import Explanation
from sylvan.explain.question import check_count
from sylvan.explain.records import LeafPath, Step, WeighedFeature

__all__ = ["MEANING", "gathered"]

MEANING = "the text's meaning (encoder)"


def gathered(found: Explanation, top: int, n_terms: int) -> Explanation:
    """An explanation that lists the ``top`` strongest features a sign, with those from ``n_terms`` on added up.

    Parameters
    ----------
    found : Explanation
        With all features listed.
    top : int
    n_terms : int
        Features before the encoder's.

    Raises
    ------
    ParameterError
        When ``top`` is no number from 1.
    """
    top = check_count(top, "top")
    trees = tuple(
        replace(tree, paths=tuple(
            LeafPath(path.leaf, tuple(_gathered_step(step, top, n_terms) for step in path.steps))
            for path in tree.paths
        ))
        for tree in found.trees
    )  # fmt: skip
    examples = tuple(replace(each, shared=tuple(dict.fromkeys(each.shared))) for each in found.examples)
    return replace(found, trees=trees, examples=examples)


def _gathered_step(step: Step, top: int, n_terms: int) -> Step:
    listed = [*step.positive, *step.negative]
    words = [feature for feature in listed if feature.feature < n_terms]
    dense = [feature for feature in listed if feature.feature >= n_terms]
    if dense:
        together = sum(feature.contribution for feature in dense)
        words.append(WeighedFeature(n_terms, MEANING, 1.0, together))
    strongest = sorted(words, key=lambda feature: (-abs(feature.contribution), feature.feature))
    positive = tuple([feature for feature in strongest if feature.contribution > 0][:top])
    negative = tuple([feature for feature in strongest if feature.contribution < 0][:top])
    shown = sum(feature.contribution for feature in (*positive, *negative))
    rest = step.rest + sum(feature.contribution for feature in listed) - shown
    n_weighed = step.n_weighed - len(dense) + bool(dense)
    return replace(step, positive=positive, negative=negative, rest=rest, n_weighed=n_weighed)
