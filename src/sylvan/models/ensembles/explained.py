"""Why an ensemble gives a label to a text: what its members say, as one explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sylvan.errors import DataError
from sylvan.explain.explanation import Explanation
from sylvan.explain.question import place_of
from sylvan.models.ensembles.members import numbered_votes, taken


def explain_texts(model: Any, texts: list[str], label: int, top: int, options: Mapping[str, Any]) -> Explanation:
    """The explanation of one text by the members that know the label, numbered through."""
    name = model.vocabulary_[label]
    own = {key: value for key, value in options.items() if key not in ("examples", "n_examples")}
    shown = {key: value for key, value in options.items() if key not in own}
    answers: list[Explanation] = []
    for at in np.flatnonzero(model.weights_ > 0).tolist():
        member = model.members[at]
        if name in (member.vocabulary_ or ()):
            answers.append(member.explain(texts, name, top, **shown, **taken(member, own)))
    if not answers:
        raise DataError(f"No member of the {type(model).__name__} that has a weight knows the label {name!r}.")
    ranking = model.rank(texts, model.n_labels_, **own)
    place, score = place_of(ranking, label)
    probability = None
    if model.calibrator_ is not None:
        probability = place_of(model.probabilities(ranking), label)[1]
    return replace(
        answers[0], model=type(model).__name__, label=label, place=place, score=score, probability=probability,
        n_labels=model.n_labels_, n_features=model.n_features_, n_known=sum(answer.n_known for answer in answers),
        trees=numbered_votes([answer.trees for answer in answers]),
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        examples=next((answer.examples for answer in answers if answer.examples), ()),
    )  # fmt: skip
