"""Why a label is given: explanations as plain values, and where the words that speak for it stand in the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import scipy.sparse as sp

from sylvan.explain.explanation import Explanation
from sylvan.serve.asked import Asked, known_label
from sylvan.serve.versions import Version
from sylvan.text.characters import is_unspaced, mark_class, word_class
from sylvan.text.places import read_text

_MOST_SPANS = 5_000


class Span(msgspec.Struct):
    """A place in the text, in code points, and what its term adds to the label's score along the label's path. Each
    place of a term has the weight of the whole term."""

    start: int
    end: int
    weight: float


class Explained(msgspec.Struct):
    """Why a label has its place: the explanation, where its words stand, and the paths to it as ids of nodes."""

    explanation: dict[str, Any]
    spans: list[Span]
    tree_paths: list[list[str]]


def explanations(version: Version, asked: Asked, row: Any, labels: Sequence[str | int]) -> list[dict[str, Any]]:
    """The explanations of some labels of one text or row."""
    return [_explain(version, row, label, 10, 3, asked.beam).to_dict() for label in labels]


def explained(version: Version, row: Any, label: str | int, top: int, n_examples: int, beam: int | None) -> Explained:
    """The explanation of one label, with what a page draws."""
    result = _explain(version, row, label, top, n_examples, beam)
    weights: dict[str, float] = {}
    for tree in result.trees:
        for step in tree.paths[0].steps if tree.paths else ():
            for feature in (*step.positive, *step.negative):
                weights[feature.name] = weights.get(feature.name, 0.0) + feature.contribution
    spans = _spans(version, row, weights) if version.takes == "texts" else []
    paths = [
        [f"{tree.number}/{step.layer}.{step.node}" for step in path.steps]
        for tree in result.trees if version.trees  # those of an ensemble's members aren't drawn
        for path in tree.paths
    ]  # fmt: skip
    return Explained(result.to_dict(), spans, paths)


def _explain(version: Version, row: Any, label: str | int, top: int, n_examples: int, beam: int | None) -> Explanation:
    options: dict[str, Any] = {} if beam is None else {"beam": beam}
    rows: list[int] = []
    name = version.label(known_label(version, label, "label"))
    model, titles = version.titled
    title = titles.get(str(name), name)
    if version.examples is not None:
        rows, texts = version.examples.of(str(name))
        if rows:
            options["examples"] = (texts, [[title]] * len(texts))
    if version.takes == "texts":
        x: Any = row
    else:
        indices, values = row
        x = sp.csr_matrix((values, indices, [0, len(indices)]), shape=(1, version.model.n_features_))
    result: Explanation = model.explain(x, title, top, n_examples=max(1, n_examples), **options)
    examples = tuple(replace(one, row=rows[one.row]) if rows else one for one in result.examples)
    if title != name:
        result = replace(result, name=version.title(name), code=str(name))
    return replace(result, examples=examples if n_examples else ())


def _spans(version: Version, text: str, weights: dict[str, float]) -> list[Span]:
    """Where the terms stand in a text, as the model's vectoriser reads it."""
    vectorizer = getattr(version.model, "vectorizer", None) or getattr(version.model, "vectorizer_", None)
    by_words = getattr(vectorizer, "analyzer", "word") == "word"
    lowercase, forms = getattr(vectorizer, "lowercase", True), vectorizer.word_forms() if vectorizer else None
    if forms is not None:
        return _find_forms(_lowered(text) if lowercase and not forms.by_case else text, weights, forms.of)
    return find_terms(text, weights, by_words=by_words, lowercase=lowercase)


def find_terms(text: str, weights: dict[str, float], *, by_words: bool, lowercase: bool) -> list[Span]:
    """Where terms stand in a text; words of a term may have anything between them that is no word."""
    read = read_text(text)
    folded = _lowered(read.text) if lowercase else read.text
    of_word = r"\w" + "".join(sorted(set(re.findall(f"[{mark_class()}]", folded))))
    spans = []
    for term, weight in weights.items():
        for match in re.finditer(_pattern(term, by_words, of_word), folded):
            if match.end() > match.start():
                spans.append(Span(read.starts[match.start()], read.ends[match.end() - 1], weight))
            if len(spans) >= _MOST_SPANS:
                return sorted(spans, key=lambda span: (span.start, span.end))
    return sorted(spans, key=lambda span: (span.start, span.end))


def _find_forms(text: str, weights: dict[str, float], form_of: Callable[[str], str]) -> list[Span]:
    """As :func:`find_terms`, where terms are stems or lemmas: by what each word of the text is counted as."""
    words = [(match.span(), form_of(match[0])) for match in re.finditer(rf"\w[{word_class()}]*", text)]
    places: dict[str, list[int]] = {}
    for at, (_, form) in enumerate(words):
        places.setdefault(form, []).append(at)
    spans = []
    for term, weight in weights.items():
        wanted = term.split()
        for at in places.get(wanted[0], ()) if wanted else ():
            run = words[at : at + len(wanted)]
            if [form for _, form in run] == wanted:
                spans.append(Span(run[0][0][0], run[-1][0][1], weight))
    return sorted(spans, key=lambda span: (span.start, span.end))[:_MOST_SPANS]


def _lowered(text: str) -> str:
    """Lower case, character by character, so that places stay what they are."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(low if len(low := c.lower()) == 1 else c for c in text)


def _pattern(term: str, by_words: bool, of_word: str) -> str:
    """What finds a term: its words with anything between them that is no word, or its characters as they are.
    ``of_word`` is the class of what words are made of, of the marks with those of the text alone: it is compiled
    often."""
    if not by_words:
        return re.escape(term.strip()) or r"(?!)"
    words = [re.escape(word) for word in term.split()]
    # Words of scripts without spaces stand next to each other: their pairs are found anywhere.
    ends = ("", "") if is_unspaced(term) else (rf"(?<![{of_word}])", rf"(?![{of_word}])")
    return ends[0] + rf"[^{of_word}]+".join(words) + ends[1] if words else r"(?!)"
