"""Where stems and lemmas stand in a text: at the words that are counted as them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sylvan import TextModel, TfidfVectorizer
from sylvan.serve import answers

pytest.importorskip("snowballstemmer")
pytest.importorskip("simplemma")

TEXTS = ["whales of the seas", "a voyage", "bread and cakes", "viele Häuser"]


def marked(text: str, weights: dict[str, float], **params: Any) -> list[str]:
    model = TextModel(TfidfVectorizer(ngrams=(1, 2), **params)).fit(TEXTS, [["a"], ["b"], ["c"], ["d"]])
    spans = answers._spans(SimpleNamespace(model=model), text, weights)  # type: ignore[arg-type]
    return [text[span.start : span.end] for span in spans]


def test_stems_are_marked_at_their_words() -> None:
    weights = {"whale": 1.0, "south sea": 0.5, "of the": 0.1}
    assert marked("WHALING in the South  Seas: the whales", weights, stem="en") == ["WHALING", "South  Seas", "whales"]


def test_lemmas_are_marked_at_words_as_they_are_written() -> None:
    assert marked("ein Haus, wir hausen, Häuser", {"haus": 1.0}, lemmatize="de") == ["Haus", "Häuser"]


def test_words_as_they_are() -> None:
    assert marked("Whaling, whales", {"whales": 1.0}) == ["whales"]
