"""A ranking as it is asked for, and its answers: from texts or features to labels, scores and probabilities."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.topk import TopK
from sylvan.explain.explanation import Explanation
from sylvan.indexing import LabelTree
from sylvan.labels.vocabulary import Numbers
from sylvan.models.at_work import unknown_texts
from sylvan.params.wording import counted
from sylvan.ranking.stopping import StoppingRule
from sylvan.serve.problems import Problem
from sylvan.serve.versions import Version
from sylvan.text.characters import is_unspaced, mark_class, read_text, word_class

_EASILY_CHECKED = 1_000
_NODE = re.compile(r"([0-9]{1,9})/(?:root|([0-9]{1,9})\.([0-9]{1,9}))")
_MOST_SPANS = 5_000


@dataclass(frozen=True)
class Asked:
    """What a ranking is to be like; requests that ask for the same are ranked together."""

    k: int | None = 10
    threshold: float | None = None
    expected: str | None = None
    precision: float | None = None
    probabilities: bool = False
    allowed: tuple[str | int, ...] | None = None
    denied: tuple[str | int, ...] | None = None
    branch: str | None = None
    beam: int | None = None
    tail: str | None = None

    @property
    def ruled(self) -> bool:
        """Whether a stopping rule decides how many labels there are."""
        return (self.threshold, self.expected, self.precision) != (None, None, None)


class RankedRow(msgspec.Struct, omit_defaults=True):
    """The labels of one text or row, best first. ``labels`` are names, or ids where labels have none; ``names`` is
    there where a vocabulary says what people call them, ``id`` where the record had one. ``scores`` aren't given with a
    stopping rule, ``probabilities`` only with one or where they are asked for. ``unknown`` is there, and true, for a
    text of which the model knows no word: it gets no labels."""

    labels: list[str | int]
    scores: list[float] | None = None
    probabilities: list[float] | None = None
    names: list[str] | None = None
    unknown: bool = False
    explanations: list[dict[str, Any]] | None = None
    id: Any = msgspec.UNSET


def node_of(version: Version, word: str, what: str = "branch") -> tuple[LabelTree, int, int, int]:
    """The tree, its number, the layer and the node of an id such as "0/1.14"; the root is in layer -1."""
    match, trees = _NODE.fullmatch(word), version.trees
    if match is None:
        raise Problem(
            422, f"The {what!r} field must be a node, as '0/root' or '0/1.14' (tree, layer and node). Got {word!r:.60}."
        )
    number = int(match[1])
    if number >= len(trees):
        raise Problem(422, f"The {what!r} field names tree {number}, but the model has {counted(len(trees), 'tree')}.")
    tree = trees[number]
    if match[2] is None:
        return tree, number, -1, 0
    layer, node = int(match[2]), int(match[3])
    if layer >= tree.depth or node >= tree.layer_sizes[layer]:
        raise Problem(422, f"The {what!r} field names node {word}, which the tree hasn't got.")
    return tree, number, layer, node


def labels_below(tree: LabelTree, layer: int, node: int) -> npt.NDArray[np.int32]:
    """The labels below a node, rising."""
    if layer < 0:
        return np.unique(tree.leaf_labels)
    leaves = tree.leaves(layer, node)
    return np.unique(tree.leaf_labels[leaves.start : leaves.stop])


def check(version: Version, asked: Asked) -> None:
    """Refuse what the model can't do, before it waits for its turn."""
    for name in ("beam", "tail"):
        if getattr(asked, name) is not None and name not in version.rank_options:
            raise Problem(422, f"The {name!r} field is of no use: a {type(version.inner).__name__} has no {name}.")
    if asked.ruled:
        StoppingRule.of(asked.k, asked.threshold, asked.expected, asked.precision, version.n_labels)
        if asked.tail is not None:
            raise Problem(422, "The 'tail' field goes with no stopping rule: probabilities are the same with any tail.")
    if asked.branch is not None:
        node_of(version, asked.branch)
    for name in ("allowed", "denied"):
        labels = getattr(asked, name) or ()
        for label in labels if len(labels) <= _EASILY_CHECKED else ():  # longer lists are in the engine's thread
            known_label(version, label, name)


def known_label(version: Version, label: str | int, field: str) -> int:
    """The id of a label that is given by name or id; no similar names are looked for, which takes long among many."""
    if isinstance(label, str):
        number = None if version.vocabulary is None else version.vocabulary.get(label)
        if number is None:
            what = (
                "none of the model's labels" if version.vocabulary is not None else "a name, but its labels have none"
            )
            raise Problem(422, f"The {field!r} field holds {label!r:.80}, {what}.")
        return number
    if isinstance(version.vocabulary, Numbers):
        return known_label(version, str(label), field)
    if not 0 <= label < version.n_labels:
        raise Problem(422, f"The {field!r} field must hold ids in [0, {version.n_labels - 1}]. Got {label} instead.")
    return int(label)


def answers(version: Version, asked: Asked, rows: Sequence[Any]) -> list[RankedRow]:
    """The ranking of texts, or of rows of features given as pairs of indices and values."""
    given: Any = list(rows) if version.takes == "texts" else _matrix(version, rows)
    options: dict[str, Any] = {
        name: getattr(asked, name) for name in ("beam", "tail") if getattr(asked, name) is not None
    }
    options.update(_filters(version, asked))
    k = None if asked.k is None else min(asked.k, version.n_labels)
    if asked.ruled:
        rule = {"threshold": asked.threshold, "expected": asked.expected, "precision": asked.precision}
        return _rows(version, version.model.choose(given, k=k, **rule, **options), "probabilities", given)
    if not asked.probabilities:
        return _rows(version, version.model.rank(given, k, **options), "scores", given)
    top = version.model.rank_plainly(given, k, **options)
    results = _rows(version, top, "scores", given)
    for one, probabilities in zip(results, version.model.probabilities(top).scores.tolist(), strict=True):
        one.probabilities = probabilities[: len(one.labels)]
    return results


def _rows(version: Version, top: TopK, kind: str, given: Any) -> list[RankedRow]:
    label = version.label
    results = []
    unknown = unknown_texts(version.model, given, top).tolist()
    for numbers, scores in zip(top.labels.tolist(), top.scores.tolist(), strict=True):
        if numbers and numbers[-1] < 0:
            n = numbers.index(-1)
            numbers, scores = numbers[:n], scores[:n]
        labels = [label(number) for number in numbers]
        names = None if version.subjects is None else [version.title(one) for one in labels]
        if kind == "scores":
            results.append(RankedRow(labels, scores, names=names))
        else:
            results.append(RankedRow(labels, probabilities=scores, names=names))
    for row, is_unknown in zip(results, unknown, strict=True):
        row.unknown = is_unknown
    return results


def _matrix(version: Version, rows: Sequence[Any]) -> sp.csr_matrix:
    """Rows of features as the model takes them; whatever is wrong with one is said by the model."""
    width = version.model.n_features_
    indptr = np.cumsum([0, *(len(indices) for indices, _ in rows)])
    indices = np.fromiter((index for row, _ in rows for index in row), np.int64, int(indptr[-1]))
    values = np.fromiter((value for _, row in rows for value in row), np.float64, int(indptr[-1]))
    if len(indices) and int(indices.max()) >= width:
        raise Problem(
            422, f"The 'features' field has index {int(indices.max())}, but the model's are 0 to {width - 1}."
        )
    matrix = sp.csr_matrix((values.astype(np.float32), indices, indptr), shape=(len(rows), width))
    matrix.sum_duplicates()
    return matrix


def _filters(version: Version, asked: Asked) -> dict[str, Any]:
    """``allowed`` and ``denied`` by ids."""
    given: dict[str, Any] = {}
    for name in ("allowed", "denied"):
        labels = getattr(asked, name)
        if labels is not None:
            given[name] = [known_label(version, label, name) for label in labels]
    if asked.branch is not None:
        tree, _, layer, node = node_of(version, asked.branch)
        below = labels_below(tree, layer, node)
        given["allowed"] = (
            below if asked.allowed is None else np.intersect1d(below, np.array(given["allowed"], np.int64))
        )
    if isinstance(version.vocabulary, Numbers):  # where numbers are names
        return {name: [version.vocabulary.value(label) for label in labels] for name, labels in given.items()}
    return given


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
