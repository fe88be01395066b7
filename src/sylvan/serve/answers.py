"""A ranking as it is asked for, and its answers: from texts or features to labels, scores and probabilities."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sylvan.arrays.topk import TopK
from sylvan.explain.explanation import Explanation
from sylvan.indexing import LabelTree
from sylvan.labels.vocabulary import Numbers
from sylvan.models.blocks import unknown_texts
from sylvan.params.wording import counted
from sylvan.ranking.stopping import StoppingRule
from sylvan.ranking.tail import tail_of
from sylvan.serve.bodies import Asked
from sylvan.serve.problems import Problem
from sylvan.serve.versions import Version
from sylvan.text.characters import is_unspaced, mark_class, read_text, word_class

_NODE = re.compile(r"([0-9]{1,9})/(?:root|([0-9]{1,9})\.([0-9]{1,9}))")
_MOST_SPANS = 5_000
_MOST_EXAMPLES = 2_000  # texts of a label that are compared with the one that is explained


class RankedRow(msgspec.Struct, omit_defaults=True):
    """The labels of one text or row, best first. ``labels`` are names, or ids where labels have none; ``names`` is
    there where a vocabulary says what people call them, ``uris`` where it has URIs of labels that are names, ``id``
    where the record had one. ``scores`` aren't given with a
    stopping rule, ``probabilities`` only with one or where they are asked for. ``unknown`` is there, and true, for a
    text of which the model knows no word: it gets no labels."""

    labels: list[str | int]
    scores: list[float] | None = None
    probabilities: list[float] | None = None
    names: list[str] | None = None
    uris: list[str | None] | None = None
    unknown: bool = False
    explanations: list[dict[str, Any]] | None = None
    id: Any = msgspec.UNSET


def node_of(version: Version, word: str, name: str = "branch") -> tuple[LabelTree, int, int, int]:
    """The tree, its number, the layer and the node of an id such as "0/1.14"; the root is in layer -1."""
    match, trees = _NODE.fullmatch(word), version.trees
    if match is None:
        raise Problem(
            422, f"The {name!r} field must be a node, as '0/root' or '0/1.14' (tree, layer and node). Got {word!r:.60}."
        )
    number = int(match[1])
    if number >= len(trees):
        raise Problem(422, f"The {name!r} field names tree {number}, but the model has {counted(len(trees), 'tree')}.")
    tree = trees[number]
    if match[2] is None:
        return tree, number, -1, 0
    layer, node = int(match[2]), int(match[3])
    if layer >= tree.depth or node >= tree.layer_sizes[layer]:
        raise Problem(422, f"The {name!r} field names node {word}, which the tree hasn't got.")
    return tree, number, layer, node


def labels_below(tree: LabelTree, layer: int, node: int) -> npt.NDArray[np.int32]:
    """The labels below a node, rising."""
    leaves = range(len(tree.leaf_labels)) if layer < 0 else tree.leaves(layer, node)
    return np.unique(tree.leaf_labels[leaves.start : leaves.stop])


def check(version: Version, request: Asked) -> None:
    """Refuse what the model can't do, before it waits for its turn."""
    for name in ("beam", "tail"):
        if getattr(request, name) is not None and name not in version.rank_options:
            raise Problem(422, f"The {name!r} field is of no use: a {type(version.inner).__name__} has no {name}.")
    tail_of(None, request.tail)
    if request.rule:
        StoppingRule.of(request.k, **request.rule, n_labels=version.n_labels)
        if request.tail is not None:
            raise Problem(422, "The 'tail' field goes with no stopping rule: probabilities are the same with any tail.")
    if request.branch is not None:
        node_of(version, request.branch)


def known_label(version: Version, label: str | int, field: str) -> int:
    """The id of a label that is given by name, title or id; no similar ones are looked for, which takes long."""
    if isinstance(label, str):
        names = version.vocabulary
        number = None if names is None else names.get(label)
        if number is None and names is not None:
            number = names.get(version.codes.get(label, ""))
        if number is None:
            has_names = version.vocabulary is not None
            fault = "none of the model's labels" if has_names else "a name, but its labels have none"
            raise Problem(422, f"The {field!r} field holds {label!r:.80}, {fault}.")
        label = number
    elif isinstance(version.vocabulary, Numbers):
        return known_label(version, str(label), field)
    if label in version.removed:
        raise Problem(422, f"The {field!r} field holds label {label}, which was removed.")
    if not 0 <= label < version.n_labels:
        raise Problem(422, f"The {field!r} field must hold ids in [0, {version.n_labels - 1}]. Got {label} instead.")
    return int(label)


def answers(version: Version, request: Asked, rows: Sequence[Any]) -> list[RankedRow]:
    """The ranking of texts, or of rows of features given as pairs of indices and values."""
    x: Any = list(rows) if version.takes == "texts" else _matrix(version, rows)
    options = {name: getattr(request, name) for name in ("beam", "tail") if getattr(request, name) is not None}
    options.update(_filters(version, request))
    k = None if request.k is None else min(request.k, version.n_labels)
    if request.rule:
        return _rows(version, version.model.choose(x, k=k, **request.rule, **options), "probabilities", x)
    if not request.probabilities:
        return _rows(version, version.model.rank(x, k, **options), "scores", x)
    top = version.model.rank_plainly(x, k, **options)
    results = _rows(version, top, "scores", x)
    for row, probabilities in zip(results, version.model.probabilities(top).scores.tolist(), strict=True):
        row.probabilities = probabilities[: len(row.labels)]
    return results


def _rows(version: Version, top: TopK, kind: str, x: Any) -> list[RankedRow]:
    """The answers for the rows ``x``, whose scores are of this kind."""
    results = []
    unknown = unknown_texts(version.model, x, top).tolist()
    for numbers, scores, is_unknown in zip(top.labels.tolist(), top.scores.tolist(), unknown, strict=True):
        if numbers and numbers[-1] < 0:
            n = numbers.index(-1)
            numbers, scores = numbers[:n], scores[:n]
        labels = [version.label(number) for number in numbers]
        names = uris = None
        if version.subjects is not None:
            names, uris = [version.title(label) for label in labels], [version.uri(label) for label in labels]
            uris = None if uris == labels else uris  # which then are the labels
        results.append(RankedRow(labels, names=names, uris=uris, unknown=is_unknown, **{kind: scores}))
    return results


def _matrix(version: Version, rows: Sequence[Any], name: str = "features") -> sp.csr_matrix:
    """Rows of features as the model takes them; whatever is wrong with one is said by the model."""
    width = version.model.n_features_
    indptr = np.cumsum([0, *(len(indices) for indices, _ in rows)])
    indices = np.fromiter((index for row, _ in rows for index in row), np.int64, int(indptr[-1]))
    values = np.fromiter((value for _, row in rows for value in row), np.float64, int(indptr[-1]))
    most = int(indices.max(initial=-1))
    if most >= width:
        raise Problem(422, f"The {name!r} field has index {most}, but the model's are 0 to {width - 1}.")
    matrix = sp.csr_matrix((values.astype(np.float32), indices, indptr), shape=(len(rows), width))
    matrix.sum_duplicates()
    return matrix


def _filters(version: Version, request: Asked) -> dict[str, Any]:
    """``allowed`` and ``denied`` by ids."""
    ids: dict[str, Any] = {}
    for name in ("allowed", "denied"):
        labels = getattr(request, name)
        if labels is not None:
            ids[name] = [known_label(version, label, name) for label in labels]
    if request.branch is not None:
        tree, _, layer, node = node_of(version, request.branch)
        below = labels_below(tree, layer, node)
        ids["allowed"] = np.intersect1d(below, np.array(ids["allowed"], np.int64)) if "allowed" in ids else below
    if isinstance(version.vocabulary, Numbers):  # where numbers are names
        return {name: [version.vocabulary.value(label) for label in labels] for name, labels in ids.items()}
    return ids


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


def explained(version: Version, row: Any, label: str | int, top: int, n_examples: int, beam: int | None) -> Explained:
    """The explanation of one label, with what a page draws."""
    result = explain(version, row, label, beam, top, n_examples)
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


def explain(
    version: Version, row: Any, label: str | int, beam: int | None, top: int = 10, n_examples: int = 3
) -> Explanation:
    """The explanation of one label of a text or row."""
    options: dict[str, Any] = {} if beam is None else {"beam": beam}
    name = version.label(known_label(version, label, "label"))
    model, titles = version.titled
    title = titles.get(str(name), name)
    texts, rows_of = version.examples or ([], {})
    rows = rows_of.get(str(name), [])[:_MOST_EXAMPLES]
    if rows:
        options["examples"] = ([texts[row] for row in rows], [[title]] * len(rows))
    x = row if version.takes == "texts" else _matrix(version, [row], "row")
    result: Explanation = model.explain(x, title, top, n_examples=max(1, n_examples), **options)
    examples = tuple(replace(example, row=rows[example.row]) if rows else example for example in result.examples)
    if title != name:
        result = replace(result, name=version.title(name), code=str(name))
    return replace(result, examples=examples if n_examples else ())


def _spans(version: Version, text: str, weights: dict[str, float]) -> list[Span]:
    """Where the terms stand in a text, as the model's vectoriser reads it."""
    vectorizer = getattr(version.model, "vectorizer", None) or getattr(version.model, "vectorizer_", None)
    by_words = getattr(vectorizer, "analyzer", "word") == "word"
    lowercase, forms = getattr(vectorizer, "lowercase", True), vectorizer.word_forms() if vectorizer else None
    if forms is not None:
        text = _lowered(text) if lowercase and not forms.by_case else text
        return _by_place(_find_forms(text, weights, forms.of))[:_MOST_SPANS]
    return find_terms(text, weights, by_words=by_words, lowercase=lowercase)


def _by_place(spans: Iterable[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.start, span.end))


def find_terms(text: str, weights: dict[str, float], *, by_words: bool, lowercase: bool) -> list[Span]:
    """Where terms stand in a text; words of a term may have anything between them that is no word."""
    read = read_text(text)
    folded = _lowered(read.text) if lowercase else read.text
    of_word = r"\w" + "".join(sorted(set(re.findall(f"[{mark_class()}]", folded))))
    spans = (
        Span(read.starts[match.start()], read.ends[match.end() - 1], weight)
        for term, weight in weights.items()
        for match in re.finditer(_pattern(term, by_words, of_word), folded)
        if match.end() > match.start()
    )
    return _by_place(itertools.islice(spans, _MOST_SPANS))


def _find_forms(text: str, weights: dict[str, float], form_of: Callable[[str], str]) -> Iterator[Span]:
    """As :func:`find_terms`, where terms are stems or lemmas: by what each word of the text is counted as."""
    words = [(match.span(), form_of(match[0])) for match in re.finditer(rf"\w[{word_class()}]*", text)]
    places: dict[str, list[int]] = {}
    for place, (_, form) in enumerate(words):
        places.setdefault(form, []).append(place)
    for term, weight in weights.items():
        forms = term.split()
        for place in places.get(forms[0], ()) if forms else ():
            run = words[place : place + len(forms)]
            if [form for _, form in run] == forms:
                yield Span(run[0][0][0], run[-1][0][1], weight)


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
