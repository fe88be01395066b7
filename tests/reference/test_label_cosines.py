"""Labels found by their texts, and by a text encoder's vectors too, beside the reference of what is documented."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.encoders import encoder_of_words

from reference import text_evidence_reference as reference
from reference.test_label_filter import draw_labels
from reference.test_text_evidence import Case, check_highest, csr, folds_of, made, same_answers, unit_rows, words_of
from sylvan import TextModel, TfidfVectorizer, XRLinear
from sylvan.arrays.label_filter import LabelFilter
from sylvan.models.label_texts.text_evidence import TextScorer, fitted_curve

CURVE = np.array([0.5, 0.7, -0.3, 0.4, 1.5, -0.8])
KINDS = ["any", "half", "corners", "alike", "none"]


def plain(vectors: npt.NDArray[Any]) -> dict[int, reference.Vector]:
    return {number: vector.astype(float) for number, vector in enumerate(vectors)}


def drawn_vectors(random: np.random.Generator, n: int, dim: int, kind: str) -> Any:
    """Vectors of length 1, some of them zeros; none without an encoder.

    Corners are of ±½, so that cosines are exact in any precision, often equal and often 0; of those that are alike
    several have the very same vector, whose cosines with a row are equal, too.
    """
    if kind == "none":
        return None
    if kind == "corners":
        vectors = np.zeros((n, dim))
        for vector in vectors:
            vector[random.permutation(dim)[:4]] = random.choice([-0.5, 0.5], 4)
    else:
        vectors = random.normal(size=(n, dim))
        if kind == "alike":
            vectors = vectors[random.integers(0, max(1, n // 3), n)]
    vectors[random.random(n) < 0.15] = 0
    return unit_rows(vectors).astype(np.float32 if kind == "any" else np.float16)


@dataclass
class Near:
    """A case with vectors of rows and labels, which have nothing to do with their words, or with none."""

    case: Case
    rows: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None

    def __post_init__(self) -> None:
        encoded = self.rows is not None and self.labels is not None
        self.known = reference.Known(self.case.texts, self.case.words, plain(self.labels) if encoded else None)
        self.asked = plain(self.rows) if encoded else dict.fromkeys(range(len(self.case.X)))
        self.n_evidence = 5 if encoded else 3
        self.curve = CURVE[: 1 + self.n_evidence]

    def scorer(self, labels: npt.NDArray[Any]) -> TextScorer:
        return TextScorer(csr(self.case.T), labels.astype(np.int32), self.case.contexts, vectors=self.labels)


def near(seed: int, n: int, d: int, n_labels: int, shares: tuple[float, float], dim: int, kind: str) -> Near:
    random = np.random.default_rng(seed)
    case = made(seed, n, d, n_labels, *shares)
    return Near(case, drawn_vectors(random, n, dim, kind), drawn_vectors(random, n_labels, dim, kind))


cases = st.builds(
    near, st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 20), st.integers(1, 30),
    st.tuples(st.sampled_from([0.0, 0.2, 0.6]), st.sampled_from([0.0, 0.1, 0.4])), st.integers(4, 9),
    st.sampled_from(KINDS),
)  # fmt: skip
blocks = st.tuples(st.sampled_from([1, 13, 60, 2**23]), st.sampled_from([1, 5, 4096]))


class Blocks(pytest.MonkeyPatch):
    """Few cosines and few rows at a time."""

    def __init__(self, sizes: tuple[int, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def __enter__(self) -> None:
        self.setattr("sylvan.models.label_texts.text_evidence.BLOCK_COSINES", self.sizes[0])
        self.setattr("sylvan.models.label_texts.text_evidence.BLOCK_ROWS", self.sizes[1])

    def __exit__(self, *_: object) -> None:
        self.undo()


@settings(max_examples=40, deadline=None)
@given(cases, st.integers(1, 8), blocks, st.data())
def test_evidence(near: Near, n_candidates: int, sizes: tuple[int, int], data: st.DataObject) -> None:
    case, n, n_labels = near.case, len(near.case.X), len(near.case.T)
    labels = np.array(sorted(data.draw(st.sets(st.integers(0, n_labels - 1), min_size=1))))
    yes, may = draw_labels(data.draw, n, n_labels)
    no, may_not = draw_labels(data.draw, n, n_labels)
    chosen = LabelFilter.of(yes, no, n_rows=n, n_labels=n_labels)
    with Blocks(sizes):
        row, label, evidence = near.scorer(labels).evidence(csr(case.X), n_candidates, chosen, near.rows)
    assert (np.diff(row) >= 0).all() and evidence.shape == (len(row), near.n_evidence)
    for number, x in enumerate(case.rows):
        named = set(labels.tolist()) & (may[number] if may else set(labels.tolist()))
        named -= may_not[number] if may_not else set()
        found = label[row == number].tolist()
        must, may_be = near.known.certain(x, near.asked[number], sorted(named), n_candidates)
        assert must <= set(found) <= may_be and len(found) == len(set(found))
        assert near.labels is not None or must == may_be or len(found) == n_candidates
        for each, values in zip(found, evidence[row == number], strict=True):
            seen = near.known.evidence(x, near.asked[number], each)
            np.testing.assert_allclose(values, seen, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(cases, st.integers(1, 30), blocks, st.data())
def test_the_ranking(near: Near, k: int, sizes: tuple[int, int], data: st.DataObject) -> None:
    case, n, n_labels = near.case, len(near.case.X), len(near.case.T)
    labels = np.union1d(np.flatnonzero(~case.Y.any(axis=0)), [0])
    denied, sets = draw_labels(data.draw, n, n_labels)
    chosen = LabelFilter.of(None, denied, n_rows=n, n_labels=n_labels)
    with Blocks(sizes):
        top = near.scorer(labels).rank(csr(case.X), k, near.curve, chosen, near.rows)
    assert top.labels.shape == (n, k)
    for number, x in enumerate(case.rows):
        left = [label for label in labels.tolist() if sets is None or label not in sets[number]]
        same_answers(top, number, near.known.rank(x, near.asked[number], left, near.curve, k))


@settings(max_examples=25, deadline=None)
@given(cases, st.integers(1, 8), blocks)
def test_a_row_has_the_same_answers_alone_and_in_blocks(near: Near, k: int, sizes: tuple[int, int]) -> None:
    """To the last bit without vectors; a cosine's last bits vary, and may change who is first of two."""
    X, Q, curve, scorer = near.case.X, near.rows, near.curve, near.scorer(np.arange(len(near.case.T)))
    together = scorer.rank(csr(X), k, curve, None, Q)
    with Blocks(sizes):
        parts = scorer.rank(csr(X), k, curve, None, Q)
    for row in range(len(X)):
        alone = scorer.rank(csr(X[[row]]), k, curve, None, None if Q is None else Q[[row]])
        for top, at in ((parts, row), (alone, 0)):
            if Q is not None:
                np.testing.assert_allclose(top.scores[at], together.scores[row], atol=1e-5)
            else:
                assert (top.labels[at] == together.labels[row]).all()
                assert (top.scores[at] == together.scores[row]).all()


@pytest.mark.parametrize("kind", ["any", "alike", "none"])
def test_more_candidates_than_are_asked_for_are_judged(kind: str) -> None:
    """The nearest label needn't be the most probable: four times k, and 50 at least, are candidates of either kind."""
    both = near(11, 10, 40, 260, (0.4, 0.1), 6, kind)
    curve = np.array([-3.0, -0.6, 0.0, -0.5, -1.4, 0.0])[: both.curve.size]  # what has less of all is better
    labels = np.arange(260)
    for k in (2, 20):
        top = both.scorer(labels).rank(csr(both.case.X), k, curve, None, both.rows)
        for number, x in enumerate(both.case.rows):
            same_answers(top, number, both.known.rank(x, both.asked[number], labels.tolist(), curve, k))


@pytest.mark.parametrize(("weighed", "kind"), [(False, "any"), (True, "half"), (False, "corners"), (True, "none")])
def test_the_curve_is_where_the_likelihood_is_highest(weighed: bool, kind: str) -> None:
    random = np.random.default_rng(0)
    n, d, n_labels, dim = 300, 60, 260, 12  # more than 20 of each fifth share a word with a row, or are near it
    T = np.where(random.random((n_labels, d)) < 0.1, random.random((n_labels, d)) + 0.2, 0)
    T[random.random(n_labels) < 0.2] = 0  # known by their vectors alone
    Y = (random.random((n, n_labels)) < 0.015).astype(np.float32)
    Y[:, random.random(n_labels) < 0.05] = 0
    X = unit_rows(Y @ T * 0.5 + np.where(random.random((n, d)) < 0.1, random.random((n, d)), 0))
    case, held_out = Case(X, unit_rows(T), Y), np.sort(random.permutation(n)[:25]).astype(np.int32)
    weight = random.uniform(0, 3, n).astype(np.float32) if weighed else None
    known, vectors, of_reference = case.T.any(axis=1), None, None
    if kind != "none":
        of_labels = drawn_vectors(random, n_labels, dim, kind)
        of_rows = unit_rows(Y[held_out] @ of_labels.astype(float) + 0.2 * random.normal(size=(25, dim)))
        if kind == "corners":
            of_rows = drawn_vectors(random, 25, dim, kind)
        of_rows[3] = 0
        known |= of_labels.any(axis=1)
        vectors = of_labels, of_rows.astype(of_labels.dtype)
        of_reference = plain(of_labels), dict(zip(held_out.tolist(), vectors[1].astype(float), strict=True))
    curve = fitted_curve(csr(case.X), csr(Y), csr(case.T), held_out, weight, vectors=vectors)
    assert curve is not None and curve.shape == (4 if vectors is None else 6,)

    described = np.flatnonzero(known & Y.any(axis=0)).tolist()
    points = reference.judged(case.rows, case.truth, case.texts, held_out.tolist(), folds_of(described), of_reference)
    check_highest(points, curve, weight)


def test_right_answers_that_vectors_alone_find_count() -> None:
    """No curve from fewer than twenty of them."""
    n_labels = 30
    X = np.ones((3 * n_labels, 1), np.float32)  # a word that no label's text has
    T = np.zeros((n_labels, 1), np.float32)
    held_out = np.arange(0, 3 * n_labels, 3, dtype=np.int32)
    for n, found in ((19, False), (20, True)):
        Y = np.eye(n_labels, dtype=np.float32).repeat(3, axis=0)
        Y[held_out[n:]] = np.roll(Y[held_out[n:]], 1, axis=1)  # wrong, so that no near label is right
        vectors = np.eye(n_labels, dtype=np.float16)
        curve = fitted_curve(csr(X), csr(Y), csr(T), held_out, vectors=(vectors, vectors))
        assert (curve is not None) == found


N_WORDS, N_LABELS, LEARNED = 60, 60, 45


def described() -> dict[str, str]:
    """Labels' texts in the rows' words, in words of another language, in words that the encoder lacks, or in none.

    Every kind is among those that rows have and among those that they haven't; of the last, two have the same text.
    """
    random = np.random.default_rng(4)
    texts = {}
    for label in range(N_LABELS):
        words, kind = random.permutation(N_WORDS)[:2], label % 5
        first, second = (("wort", "wort"), ("wort", "wort"), ("word", "wort"), ("word", "only"), ("only", "only"))[kind]
        texts[f"L{label:02d}"] = f"{first}{words[0]:02d} {second}{words[1]:02d}"
    return texts | {"L46": texts["L45"], "L51": "unheard of", "L56": ""}


@functools.cache
def tagger(with_encoder: bool = True) -> dict[str, Any]:
    """A model with an encoder for labels' texts, or without, what it was fitted to, and the encoder."""
    random, of = np.random.default_rng(1), described()
    words = [f"{kind}{number:02d}" for kind in ("word", "wort") for number in range(N_WORDS)]
    vectors, encoder = random.normal(size=(N_WORDS, 16)), None
    if with_encoder:
        pytest.importorskip("torch")
        encoder = encoder_of_words(words, lambda word: vectors[int(word[-2:])])  # a word has that of its translation
    texts, labels = [], []
    for number in range(500):
        own = [f"L{label:02d}" for label in random.permutation(LEARNED)[:2]]
        words = " ".join(of[name] for name in own).replace("wort", "word").split()[: 3 + number % 2]
        texts.append(" ".join([*words, *(f"word{each:02d}" for each in random.integers(0, N_WORDS, 2))]))
        labels.append(own)
    model = TextModel(TfidfVectorizer(min_df=1), XRLinear(max_leaf=8, keep_rows=True), encoder, unlearned="answer")
    model.fit(texts, labels, label_texts=of)
    return {"model": model, "texts": texts, "labels": labels, "encoder": encoder, "of": of}


def encoded(encoder: Any, texts: list[str]) -> npt.NDArray[np.float32]:
    """Sums of words' vectors, at length 1."""
    return unit_rows(encoder.vectorizer.transform(texts).toarray() @ encoder.bag.features.detach().numpy())


def test_vectors_and_curve_of_a_model() -> None:
    model, texts, labels, encoder, of = tagger().values()
    known = model.label_texts_
    names = [model.vocabulary_[label] for label in range(N_LABELS)]
    np.testing.assert_array_equal(
        known.label_vectors, encoded(encoder, [of[name] for name in names]).astype(np.float16)
    )
    judged = known.judged.tolist()
    assert len(judged) == 500 // 4
    of_rows = encoded(encoder, [texts[row] for row in judged]).astype(np.float16)
    np.testing.assert_array_equal(known.judged_vectors, of_rows)
    X, T = (model.vectorizer.transform(each).toarray().astype(float) for each in (texts, [of[name] for name in names]))
    truth = [{model.vocabulary_.id(name) for name in row} for row in labels]
    seen = set().union(*truth)
    described = [label for label in sorted(seen) if T[label].any() or known.label_vectors[label].any()]
    points = reference.judged(
        list(X), truth, plain(T), judged, folds_of(described),
        (plain(known.label_vectors), dict(zip(judged, of_rows.astype(float), strict=True))),
    )  # fmt: skip
    check_highest(points, known.curve)


@pytest.mark.filterwarnings("ignore:The texts of:sylvan.errors.DataWarning")
@pytest.mark.parametrize("with_encoder", [True, False])
@settings(max_examples=12, deadline=None)
@given(k=st.integers(1, 70), data=st.data())
def test_one_ranking_of_labels_with_and_without_rows(with_encoder: bool, k: int, data: st.DataObject) -> None:
    model, texts, _, encoder, of = tagger(with_encoder).values()
    known, names = model.label_texts_, [model.vocabulary_[label] for label in range(N_LABELS)]
    asked = [*texts[:6], *(f"L{label}" for label in (45, 52)), *(of[f"L{label}"] for label in range(45, 60))]
    n, everything = len(asked), set(range(N_LABELS))
    allowed, yes = draw_labels(data.draw, n, N_LABELS)
    denied, no = draw_labels(data.draw, n, N_LABELS)
    may = [(yes[row] if yes else everything) - (no[row] if no else set()) for row in range(n)]
    top = model.rank(asked, k, allowed=allowed, denied=denied, unknown="prior")

    X, T = (model.vectorizer.transform(each).toarray().astype(float) for each in (asked, [of[name] for name in names]))
    Q, half, has_text = dict.fromkeys(range(n)), None, T.any(axis=1)
    if with_encoder:
        Q, V = plain(encoded(encoder, asked)), encoded(encoder, [of[name] for name in names])
        half, has_text = plain(V.astype(np.float16)), has_text | V.any(axis=1)
    without = {label for label in range(N_LABELS) if names[label] >= f"L{LEARNED}" and has_text[label]}
    assert set(model.unlearned_labels_.tolist()) == without and len(without) == (13 if with_encoder else 9)
    view = reference.Known(plain(T), words_of(known), half)
    mask = np.array([[label in row and label not in without for label in range(N_LABELS)] for row in may])
    plainly = model.model.rank(model.vectorizer.transform(asked), min(k, N_LABELS), allowed=mask)
    first = model.model.probabilities(plainly)
    for row, x in enumerate(X):
        learned = [(int(a), float(b)) for a, b in zip(first.labels[row], first.scores[row], strict=True) if a >= 0]
        unlearned = view.rank(x, Q[row], sorted(without & may[row]), known.curve, k)
        same_answers(top, row, reference.joined(learned, unlearned, k))
        assert {int(label) for label in top.labels[row]} - {-1} <= may[row]
