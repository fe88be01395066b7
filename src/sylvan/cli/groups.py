"""Labels in groups: by the branch of a vocabulary, and by how often they were in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sylvan.cli.io.inputs import LabelTitles, read_titles
from sylvan.cli.models import codes_of
from sylvan.data import SubjectVocabulary
from sylvan.errors import DataError
from sylvan.metrics.pairs import Bools

BANDS = ((0, "none"), (1, "1 or 2"), (3, "3 to 9"), (10, "10 to 99"), (100, "100 or more"))  # training rows of a label


def titles_for(model: Any, flags: Mapping[str, Any]) -> tuple[LabelTitles | None, dict[str, Any]]:
    """The vocabulary of ``--vocabulary``, and how to read records with it: their labels become URIs, unless it is by
    names that the model calls its labels."""
    titles = read_titles({"vocabulary": flags["subjects"], "language": flags["language"]})
    by_uri = titles is None or any(code in titles.vocabulary for code in codes_of(model))
    return titles, {**flags, **({} if by_uri else {"subjects": None})}


def branches(vocabulary: SubjectVocabulary) -> dict[str, list[str]]:
    """The broadest subjects above each subject; where all lie below a single one, those right below it."""
    above = {
        uri: [other for other in vocabulary.broader.get(uri, ()) if other in vocabulary and other != uri]
        for uri in vocabulary
    }
    while True:
        tops = {uri: _tops(uri, above) for uri in above}
        broad = {top for uri, each in tops.items() for top in each if top != uri}
        if len(broad) != 1:
            return tops
        above = {uri: [other for other in others if other not in broad] for uri, others in above.items()}


def _tops(uri: str, above: Mapping[str, Sequence[str]]) -> list[str]:
    reached, waiting = {uri}, [uri]
    while waiting:
        new = [other for other in above[waiting.pop()] if other not in reached]
        reached.update(new)
        waiting.extend(new)
    return sorted(other for other in reached if not above[other]) or [uri]  # those of a circle have none


def by_branch(codes: Sequence[Any], titles: LabelTitles) -> dict[str, Bools]:
    """For each branch of a vocabulary, which labels are of it."""
    vocabulary = titles.vocabulary
    if not any(vocabulary.broader.values()):
        raise DataError(f"{titles.path} has no branches: none of its subjects has a broader one.")
    tops = branches(vocabulary)
    masks: dict[str, Bools] = {}
    for label, code in enumerate(map(str, codes)):
        uri = code if code in vocabulary else vocabulary.uri(code)
        for top in ["(not in the vocabulary)"] if uri is None else tops[uri]:
            masks.setdefault(titles(top) or top, np.zeros(len(codes), bool))[label] = True
    return masks


def by_frequency(counts: Any) -> dict[str, Bools]:
    """For each band of frequencies in training, which labels are of it."""
    band = np.searchsorted([least for least, _ in BANDS], counts, side="right") - 1
    return {words: band == number for number, (_, words) in enumerate(BANDS)}
