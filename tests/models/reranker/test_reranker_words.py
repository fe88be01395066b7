"""Labels' own words among a reranker's columns: counted without the rows that teach the order."""

import warnings

import numpy as np
import pytest
from kit.errors import raises
from kit.watching import calls_of

from sylvan import LexicalMatcher, NeighborRanker, Reranker, TextModel, XRLinear
from sylvan.arrays import validate
from sylvan.data import LabelTerms
from sylvan.errors import DataWarning, ParameterError
from sylvan.models.lexical.lexicon import OF_COMPANY

WORDS = ("whales", "bread", "poems", "history", "forests", "ships")
NAMES = {f"n{at}": word for at, word in enumerate(WORDS)}
COUNTED = ("found_rows", "label_rows", "keyphraseness", "tf_idf")  # from training rows


def texts(n: int = 1000, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    """A text of its own number has some labels' words; the first is right, and sometimes the last."""
    rng = np.random.default_rng(seed)
    rows, labels = [], []
    for number in range(n):
        found = rng.permutation(len(WORDS))[: rng.integers(1, 4)]
        rows.append("on " + " and the ".join(WORDS[at] for at in found) + f", volume {number}")
        labels.append(sorted({f"n{found[0]}", f"n{found[-1] if rng.random() < 0.2 else found[0]}"}))
    return rows, labels


@pytest.mark.parametrize("weight", [1.0, 3.0, 0.25])
def test_features_without_rows_are_those_of_a_matcher_that_never_had_them(weight: float) -> None:
    rows, labels = texts(60)
    every, some = (
        LexicalMatcher(n_trees=0).fit(rows[:n], labels[:n], [weight] * n, label_texts=NAMES) for n in (60, 41)
    )
    assert list(every.vocabulary_) == list(some.vocabulary_)
    ids = [[every.vocabulary_.id(name) for name in row] for row in labels[41:]]
    truth = validate.labels(ids, n_labels=6).to_scipy()
    asked = np.tile(np.arange(6), (30, 1))
    before = every.features(rows[30:], asked)
    without = every.without_rows(rows[41:], truth, np.full(19, weight)).features(rows[30:], asked)
    np.testing.assert_array_equal(every.features(rows[30:], asked), before, "the matcher itself still counts them")
    np.testing.assert_array_equal(without, some.features(rows[30:], asked))
    at = [every.feature_names_.index(name) for name in COUNTED]
    differs = (without != before).any(axis=(0, 1))
    assert np.flatnonzero(differs).tolist() == at, "these are what is counted, and nothing else"


def test_rows_that_teach_the_order_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = texts()
    calls = calls_of(monkeypatch, LexicalMatcher, "features")
    model = Reranker([LexicalMatcher(n_trees=5)], scorer="trees", n_trees=5, n_jobs=1)
    model.fit(rows, labels, label_texts=NAMES)
    (((_, asked, candidates), _, columns),) = calls
    assert len(asked) == 250 and candidates.max() == 5
    held = [rows.index(text) for text in asked]
    assert len(set(held)) == 250
    rest = np.setdiff1d(np.arange(1000), held)
    other = LexicalMatcher(n_trees=0).fit([rows[at] for at in rest], [labels[at] for at in rest], label_texts=NAMES)
    assert list(other.vocabulary_) == list(model.vocabulary_)
    np.testing.assert_array_equal(columns, other.features(asked, candidates))
    names = [name for name in model.feature_names_ if name.startswith("member0 words: ")]
    assert names == [f"member0 words: {name}" for name in other.feature_names_]


def test_what_ties_candidates_to_each_other_is_by_the_names_of_labels() -> None:
    """The matcher knows labels by other ids than the reranker, which has those of the other member first."""
    rows, labels = texts(400)
    above = {"n1": ("top",), "n4": ("top",)}
    terms = {name: LabelTerms((word,), broader=above.get(name, ())) for name, word in NAMES.items()}
    terms |= {"top": LabelTerms(("everything",)), "a": LabelTerms(("poems -- Humour",))}
    first = TextModel(model=XRLinear(n_jobs=1)).fit(rows, [[*row, "zzz"] for row in labels])
    matcher = LexicalMatcher(n_trees=0).fit(rows, labels, label_texts=terms)
    model = Reranker.of_fitted([first, matcher], n_jobs=1)
    assert model._joined.ids[1] is not None
    top, columns = model.candidate_columns(["on whales and forests and everything, poems and humour", "on ships"])
    of = {name: columns[..., model.feature_names_.index(f"member1 other candidates: {name}")] for name in OF_COMPANY}
    place = {model.vocabulary_[label]: at for at, label in enumerate(top.labels[0].tolist()) if label >= 0}
    score = top.scores[0]
    assert {"n1", "n4", "n2", "top", "a", "zzz"} <= set(place)
    for name, at in place.items():
        others = {
            "broader": above.get(name, ()), "narrower": ["n1", "n4"] if name == "top" else [],
            "siblings": {"n1": ["n4"], "n4": ["n1"]}.get(name, []),
        }  # fmt: skip
        for relation, tied in others.items():
            assert of[relation][0, at] == pytest.approx(sum(score[place[other]] for other in tied))
        assert (of["words"][0, at] > 0) == (name in ("n2", "a")), "poems, and poems with humour"
        assert not of["related"][0, at] and not of["last_part"][0, at]


def test_label_texts_are_for_members_that_learn_from_them() -> None:
    rows, labels = texts(40)
    model = Reranker([TextModel(model=XRLinear(n_jobs=1)), LexicalMatcher(n_trees=0)], scorer="trees", n_jobs=1)
    model.fit(rows, labels, label_texts={**NAMES, "n6": "spindles"})
    assert model.rank(["on spindles"], k=1).names == [["n6"]], "a label without rows"
    with raises(ParameterError, "LexicalMatcher", "label_texts"):
        Reranker([TextModel(model=NeighborRanker())], scorer="trees").fit(rows, labels, label_texts=NAMES)


def test_what_labels_are_called_is_rows_of_the_members_that_learn_them() -> None:
    rows, labels = texts(400)
    members = [TextModel(model=XRLinear(n_jobs=1)), TextModel(model=NeighborRanker(n_jobs=1)), LexicalMatcher()]
    model = Reranker(members, scorer="trees", n_trees=2, n_jobs=1)
    fitted = model.fit(rows, labels, label_texts={name: LabelTerms((word,)) for name, word in NAMES.items()}).members
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of labels without rows, which the matcher answers
        alone = TextModel(model=XRLinear(n_jobs=1)).fit(rows, labels, label_texts=NAMES)
    assert alone.label_texts_ is not None and len(alone.label_texts_.labels) == len(WORDS)
    assert fitted[0].rank(rows[:20]).scores.tolist() == alone.rank(rows[:20]).scores.tolist()
    assert fitted[1].label_texts_ is None and fitted[1].model.n_rows_ == 400
    without = Reranker([TextModel(model=XRLinear(n_jobs=1))], scorer="trees", n_trees=2)
    assert without.fit(rows, labels, label_texts=None).members[0].label_texts_ is None


@pytest.mark.filterwarnings("ignore:No text of a label")
def test_labels_that_are_codes_have_no_words() -> None:
    rows, labels = texts(240)
    members = [TextModel(model=XRLinear(n_jobs=1)), LexicalMatcher()]
    model = Reranker(members, scorer="trees", n_trees=2, n_jobs=1)
    with pytest.warns(DataWarning, match="The labels are codes, such as 'n[0-5]'"):
        model.fit(rows, labels)
    assert [type(member) for member in model.members] == [TextModel]
    assert model.rank(rows[:2]).labels.shape[0] == 2
    with pytest.warns(DataWarning, match="The labels are codes"):
        plan = Reranker(members, scorer="trees").plan(rows, labels)
    assert not any(phase.name.startswith("member1") for phase in plan.phases)
    called = [[NAMES[name] for name in row] for row in labels]
    assert len(Reranker(members, scorer="trees", n_trees=2, n_jobs=1).fit(rows, called).members) == 2
    codes = Reranker(members, scorer="trees", n_trees=2, n_jobs=1).fit(rows, labels, label_texts="names")
    assert len(codes.members) == 2, "as was said"
