"""explain: what every model answers, its three forms, examples beside a loop over them, and every refusal."""

import gzip
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from kit.errors import raises

import sylvan
from sylvan import NeighborRanker, TextModel, TfidfVectorizer, XRLinear, store
from sylvan.errors import DataError, NotFittedError, ParameterError
from sylvan.explain.explanation import Explanation, as_page

HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "</title><b>&amp;", "\x1b[31mred\x07",
           "{0}{x}"]  # fmt: skip


@pytest.fixture(scope="module")
def data() -> tuple[sp.csr_matrix, sp.csr_matrix]:
    random = np.random.default_rng(0)
    X = sp.random(120, 40, 0.3, format="csr", dtype=np.float32, random_state=random)
    Y = sp.random(120, 30, 0.1, format="csr", random_state=random)
    Y.data[:] = 1
    return X, Y


@pytest.fixture(scope="module")
def model(data: tuple) -> XRLinear:
    return XRLinear(branching=3, max_leaf=4, beam=2, n_jobs=1).fit(*data)


def test_place_and_score_are_ranks(model: XRLinear, data: tuple) -> None:
    X, _ = data
    seen = set()
    for beam in (1, 3, None):
        top = model.rank(X[0], k=model.n_labels_, beam=beam)
        for label in range(model.n_labels_):
            found = model.explain(X[0], label, beam=beam)
            at = np.flatnonzero(top.labels[0] == label)
            assert found.place == (at[0] + 1 if len(at) else None)
            assert found.score == (pytest.approx(top.scores[0, at[0]], rel=1e-6) if len(at) else None)
            assert found.trees[0].reached == bool(len(at))
            if found.score is not None:
                assert found.trees[0].score == pytest.approx(found.score, rel=1e-6)
                assert found.trees[0].enough is None
            seen.add(bool(len(at)))
    assert seen == {True, False}


def test_several_trees_average_to_the_score(data: tuple) -> None:
    X, Y = data
    model = XRLinear(branching=3, max_leaf=4, beam=2, n_trees=3, n_jobs=1).fit(X, Y)
    for label in range(model.n_labels_):
        found = model.explain(X[0], label)
        mean = np.mean([vote.score if vote.reached else 0 for vote in found.trees])
        assert len(found.trees) == 3 and (found.score or 0) == pytest.approx(mean, rel=1e-5, abs=1e-7)
    assert "Tree 3. " in found.text() and "Tree 3: the path" in found.html()


@pytest.mark.parametrize("combine", ["paper", "ranker", "sigmoid"])
def test_other_ways_of_combining(combine: str, data: tuple) -> None:
    X, Y = data
    model = XRLinear(branching=3, max_leaf=4, combine=combine, negatives="tfn+man", n_jobs=1).fit(X, Y)
    top = model.rank(X[3], k=5)
    for label, score in zip(top.labels[0].tolist(), top.scores[0], strict=True):
        assert model.explain(X[3], label).trees[0].paths[0].score == pytest.approx(score, rel=1e-6)


def test_a_label_in_several_clusters(data: tuple) -> None:
    X, Y = data
    model = XRLinear(branching=3, max_leaf=4, overlap=2, beam=1, n_jobs=1).fit(X, Y)
    counts = np.bincount(model.tree_.leaf_labels)
    label = int(np.argmax(counts))
    paths = model.explain(X[0], label).trees[0].paths
    assert len(paths) == counts[label] > 1
    assert "the best of" in model.explain(X[0], label).text()


def test_one_layer_and_no_names(data: tuple) -> None:
    X, Y = data
    found = XRLinear(max_leaf=100, n_jobs=1).fit(X, Y).explain(X[0], 7, top=2)
    (step,) = found.trees[0].paths[0].steps
    assert step.title == "label 7" and step.followed and step.floor is None and found.name == "label 7"
    assert all(feature.name == f"feature {feature.feature}" for feature in step.positive)
    assert len(step.positive) <= 2 and len(step.negative) <= 2


def test_names_of_features_and_labels(model: XRLinear, data: tuple) -> None:
    X, _ = data
    words, labels = [f"word {i}" for i in range(40)], [f"name {i}" for i in range(30)]
    found = model.explain(X[0], "name 4", feature_names=words, label_names=labels)
    assert found.label == 4 and found.name == "name 4"
    step = found.trees[0].paths[0].steps[0]
    below = model.tree_.leaves(0, step.node)
    members = model.tree_.leaf_labels[below.start : below.stop]
    order = sorted(members.tolist(), key=lambda i: (-model.label_counts_[i], i))
    assert step.title == ", ".join(f"name {i}" for i in order[:3]) + f", … ({len(members)} labels)"
    assert all(f.name == f"word {f.feature}" for f in step.positive)


def test_nearest_examples_are_a_loops(model: XRLinear, data: tuple) -> None:
    X, Y = data
    label = int(np.argmax(np.bincount(Y.indices)))
    x = X[[5]].toarray().ravel()
    expected = []
    for i in range(X.shape[0]):
        if Y[i, label]:
            other = X[[i]].toarray().ravel()
            expected.append((-float(x @ other) / np.sqrt((x @ x) * (other @ other)), i))
    found = model.explain(X[5], label, examples=(X, Y), n_examples=4).examples
    assert [example.row for example in found] == [i for _, i in sorted(expected)[:4]]
    similarities = [-similarity for similarity, _ in sorted(expected)[:4]]
    np.testing.assert_allclose([example.similarity for example in found], similarities, rtol=1e-5)
    products = x * X[[found[0].row]].toarray().ravel()
    strongest = np.argsort(-products, kind="stable")[:5]
    assert found[0].shared == tuple(f"feature {f}" for f in strongest if products[f] > 0)


@pytest.fixture(scope="module")
def tagger() -> tuple[TextModel, list[str], list[list[str]]]:
    texts = ["whales of the south seas", "a voyage on the south seas", "bread and cakes", "the baking of bread"] * 3
    labels = [["Whaling"], ["Whaling", "Voyages"], ["Baking"], ["Baking", HOSTILE[0]]] * 3
    texts[3] = f"the baking of bread {HOSTILE[1]} {HOSTILE[3]}"
    return TextModel(TfidfVectorizer(n_jobs=1), XRLinear(n_jobs=1)).fit(texts, labels), texts, labels


def test_a_text_model_speaks_in_words(tagger: tuple) -> None:
    model, texts, labels = tagger
    found = model.explain("bread for whales", "Baking", examples=(texts, labels), n_examples=2)
    names = {feature.name for feature in found.trees[0].paths[0].steps[-1].positive}
    assert "bread" in names and found.excerpt == "bread for whales"
    assert [example.row for example in found.examples] == [7, 11] and found.examples[0].shared == ("bread",)
    assert found.examples[0].excerpt == "the baking of bread"
    again = model.explain(["bread for whales"], "Baking", examples=(iter(texts), iter(labels)), n_examples=2)
    assert again == found
    text = found.text(width=60)
    assert "Baking: place 1 of 4 labels" in text and "+" in text and all(len(line) <= 60 for line in text.split("\n"))
    assert str(found) == found.text()


def test_a_row_without_known_features(tagger: tuple, model: XRLinear) -> None:
    words = "no feature that the model knows: only the intercepts speak"
    found = tagger[0].explain("zzz", "Baking", unknown="prior")
    assert found.n_known == 0 and words in found.text() and words in found.html()
    found = tagger[0].explain("zzz", "Baking")
    assert found.place is None and "knows no word of this text: it gives it no labels." in found.text()
    step = model.explain(sp.csr_matrix((1, 40)), 3).trees[0].paths[0].steps[0]
    assert step.positive == step.negative == () and step.score == pytest.approx(step.intercept)


class Page(HTMLParser):
    """What a browser would find."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


ALLOWED = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "ol", "li", "table", "tr", "td",
           "span", "br", "blockquote"}  # fmt: skip


def test_a_page_of_hostile_names_and_texts(tagger: tuple, model: XRLinear, data: tuple) -> None:
    tagged, texts, labels = tagger
    found = tagged.explain(HOSTILE[1] + HOSTILE[3] + " bread", HOSTILE[0], examples=(texts, labels))
    words, names = (HOSTILE * 20)[:40], [f"{name} {i}" for i, name in enumerate((HOSTILE * 10)[:30])]
    other = model.explain(data[0][0], 3, feature_names=words, label_names=names)
    page = as_page([found, other])
    parser = Page()
    parser.feed(page)
    parser.close()
    assert set(parser.tags) <= ALLOWED and parser.open == []
    attributes = {"lang", "charset", "http-equiv", "content", "name", "class", "style"}
    assert {name for name, _ in parser.attributes} <= attributes
    assert "http:" not in page and "https:" not in page and "url(" not in page and "@import" not in page
    assert "می\u200cخواهم" in as_page([replace(found, name="می\u200cخواهم")])  # a letter of Persian words
    assert HOSTILE[0] in parser.words and "\x1b" not in page and "\x07" not in page
    assert "\x1b" not in found.text() and "prefers-color-scheme: dark" in page and "default-src 'none'" in page


def test_saving_its_three_forms(tagger: tuple, tmp_path: Path) -> None:
    found = tagger[0].explain("bread for whales", HOSTILE[0])
    for name in ("a.html", "a.json", "a.txt"):
        found.save(tmp_path / name)
    assert (tmp_path / "a.html").read_text("utf-8") == found.html()
    assert (tmp_path / "a.txt").read_text("utf-8") == found.text() + "\n"
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == found.to_dict()
    for name in ("a.html", "a.JSON"):
        found.save(tmp_path / f"{name}.gz")
        found.save(tmp_path / name)
        assert gzip.decompress((tmp_path / f"{name}.gz").read_bytes()) == (tmp_path / name).read_bytes()
    assert json.loads((tmp_path / "a.JSON").read_text("utf-8")) == found.to_dict()
    with raises(DataError, "written"):
        found.save(tmp_path / "missing" / "a.html")


def test_data_holds_what_the_attributes_say(model: XRLinear, data: tuple) -> None:
    found = model.explain(data[0][0], 3, beam=1)
    path, plain = found.trees[0].paths[0], found.to_dict()["trees"][0]["paths"][0]
    assert (plain["score"], plain["reached"], plain["lost_at"]) == (path.score, path.reached, path.lost_at)
    step, written = path.steps[0], plain["steps"][0]
    assert written["positive"][0]["contribution"] == step.positive[0].contribution
    assert {name: written[name] for name in ("node", "title", "score", "followed")} == {
        "node": step.node, "title": step.title, "score": step.score, "followed": step.followed,
    }  # fmt: skip


def test_numbers_that_json_has_no_word_for() -> None:
    found = Explanation("M", 0, "a", 1, float("nan"), 1, 1, 1)
    assert found.to_dict()["score"] is None
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_the_bytes_are_the_same_for_any_number_of_threads(data: tuple) -> None:
    X, Y = data
    one, two = (XRLinear(branching=3, max_leaf=4, n_jobs=n).fit(X, Y).explain(X[0], 3).to_dict() for n in (1, 2))
    assert one == two


REFUSED = [
    (lambda m, X, Y: m.explain(X[:2], 0), DataError, ("X", 7, "(2, 40)")),
    (lambda m, X, Y: m.explain(X[:0], 0), DataError, ("X", "(0, 40)")),
    (lambda m, X, Y: m.explain(X[0, :3], 0), DataError, (3, "XRLinear", 40)),
    (lambda m, X, Y: m.explain(X[0], 30), DataError, ("[0, 30)", 30)),
    (lambda m, X, Y: m.explain(X[0], True), DataError, ("[0, 30)", "True")),
    (lambda m, X, Y: m.explain(X[0], "a"), DataError, "'a'"),
    (lambda m, X, Y: m.explain(X[0], 0, top=0), ParameterError, ("top", 0)),
    (lambda m, X, Y: m.explain(X[0], 0, examples=(X, Y), n_examples=0), ParameterError, ("n_examples", 0)),
    (lambda m, X, Y: m.explain(X[0], 0, examples=X), DataError, "csr_matrix"),
    (lambda m, X, Y: m.explain(X[0], 0, examples=(X, Y[:5])), DataError, (120, "rows")),
    (lambda m, X, Y: m.explain(X[0], 0, examples=(X[:, :5], Y)), DataError, ("examples", 5, "features")),
    (lambda m, X, Y: m.explain(X[0], 0, examples=(X, sp.eye(120))), DataError, (30, "(120, 120)")),
    (lambda m, X, Y: m.explain(X[0], 0, feature_names=["a"]), DataError, ("feature_names", 1)),
    (lambda m, X, Y: m.explain(X[0], 0, label_names=["a"]), DataError, ("label_names", 1)),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_refusals(call, error, words, model: XRLinear, data: tuple) -> None:  # type: ignore[no-untyped-def]
    with raises(error, words):
        call(model, *data)


TEXTS_REFUSED = [
    ("bread", "baking", {}, ("baking", 4, "Baking")),
    ("bread", "Wahling", {}, ("Wahling", "Whaling", "Baking")),
    ("bread", "xyz", {}, ("xyz", 4)),
    (["a", "b"], "Baking", {}, ("explain", 2)),
    ([3], "Baking", {}, "row 0"),
    ("bread", "Baking", {"examples": ["a", "b", "c"]}, "label_lists"),
    ("bread", "Baking", {"examples": (["a"] * 12, [["Baking"]] * 2)}, ("labels", 12, 2)),
]


def test_refusals_of_text_models(tagger: tuple) -> None:
    for text, label, options, words in TEXTS_REFUSED:
        with raises(DataError, words):
            tagger[0].explain(text, label, **options)
    for model, row in ((TextModel(), "bread"), (XRLinear(), np.eye(1))):
        with pytest.raises(NotFittedError):
            model.explain(row, 0)


# ---------------------------------------- beside neighbours, probabilities and tails


def test_neighbors_as_examples_are_the_loop_over_rows(model: XRLinear, data: tuple) -> None:
    X, Y = data
    ranker = NeighborRanker(n_neighbors=9, n_jobs=1).fit(X, Y)
    for row, label in ((5, 3), (8, 11), (40, 0)):
        slow = model.explain(X[row], label, examples=(X, Y), n_examples=4).examples
        fast = model.explain(X[row], label, examples=ranker, n_examples=4).examples
        assert [one.row for one in fast] == [one.row for one in slow if one.similarity > 0]
        for one, other in zip(fast, slow, strict=False):
            assert one.similarity == pytest.approx(other.similarity, rel=1e-5)
        assert [set(one.shared) for one in fast] == [set(one.shared) for one in slow][: len(fast)]
        own = ranker.explain(X[row], label, n_examples=4)
        assert own.examples == fast and own.trees == ()
        nearest = ranker.neighbors(X[row], 9)[0][0]
        voters = [i for i in nearest if i >= 0 and Y[i, label]]
        words = f"{len(voters)} of the 9 nearest" if voters else "None of the 9 nearest"
        assert own.notes[0].startswith(words) and own.notes[0] in own.text() and own.notes[0] in own.html()


def test_neighbors_of_a_text_model(tagger: tuple) -> None:
    model, texts, labels = tagger
    expected = model.explain("bread for whales", "Baking", examples=(texts, labels), n_examples=2).examples
    bare = [replace(one, excerpt=None) for one in expected]
    ranker = NeighborRanker(n_jobs=1).fit(model.vectorizer.transform(texts), model.vocabulary_.encode(labels))
    whole = TextModel(TfidfVectorizer(n_jobs=1), NeighborRanker(n_jobs=1)).fit(texts, labels)
    for examples, wanted in ((ranker, bare), (whole, bare), ((ranker, texts), expected), ((whole, texts), expected)):
        found = model.explain("bread for whales", "Baking", examples=examples, n_examples=2).examples
        assert [(one.row, set(one.shared), one.excerpt) for one in found] == [
            (one.row, set(one.shared), one.excerpt) for one in wanted
        ]
    own = whole.explain("bread for whales", "Baking", n_examples=2)
    assert [one.row for one in own.examples] == [one.row for one in expected]
    other = TextModel(TfidfVectorizer(n_jobs=1), NeighborRanker(n_jobs=1)).fit(["bread"], [["Cakes"]])
    assert model.explain("bread", "Baking", examples=other).examples == ()
    with raises(DataError, 1, "NeighborRanker", 12):
        model.explain("bread", "Baking", examples=(ranker, texts[:1]))
    with raises(DataError, "NeighborRanker", "XRLinear"):
        model.explain("bread", "Baking", examples=model)
    with raises(DataError, "fitted"):
        model.explain("bread", "Baking", examples=NeighborRanker())
    with raises(DataError, "feature", 1, 4):
        model.explain("bread", "Baking", examples=NeighborRanker().fit(np.eye(1), [[0]]))


def test_a_calibrated_model_gives_its_probability(data: tuple) -> None:
    random = np.random.default_rng(0)
    Y = random.integers(0, 4, 2000)
    X = np.float32(np.eye(6)[Y] + random.random((2000, 6)))
    model = XRLinear(calibration="isotonic", n_jobs=1).fit(X, Y)
    found = model.explain(X[:1], int(Y[0]))
    chances = model.probabilities(model.rank(X[:1], k=4)).to_csr(4)
    assert found.probability == pytest.approx(float(chances[0, Y[0]]), rel=1e-6)
    assert f"probability {found.probability:.4f}" in found.text()
    assert XRLinear(calibration=None, n_jobs=1).fit(X, Y).explain(X[:1], 0).probability is None


def test_a_tail_is_said(model: XRLinear, data: tuple) -> None:
    found = model.explain(data[0][0], 3, tail="psp")
    top = model.rank(data[0][0], k=30, tail="psp")
    assert found.place == 1 + top.labels[0].tolist().index(3) if found.place else 3 not in top.labels[0]
    assert "With tail='psp' place and score are by probability" in found.text()
    assert model.explain(data[0][0], 3, tail="none").notes == ()


@pytest.mark.parametrize("name", ["allowed", "denied"])
def test_filters_are_refused(name: str, model: XRLinear, tagger: tuple, data: tuple) -> None:
    with raises(ParameterError, name):
        model.explain(data[0][0], 3, **{name: [1]})
    with raises(ParameterError, name):
        tagger[0].explain("bread", "Baking", **{name: ["Baking"]})


def test_labels_that_fit_was_given_by_name() -> None:
    X = np.eye(3, dtype=np.float32).repeat(4, axis=0)
    model = XRLinear(n_jobs=1).fit(X, [["ash"], ["oak"], ["elm"]] * 4)
    found = model.explain(X[:1], "oak")
    assert found.name == "oak" and found.trees[0].paths[0].steps[-1].title == "oak"
    with raises(DataError, "oka", 3, "oak"):
        model.explain(X[:1], "oka")


def test_a_model_whose_children_lie_in_another_order_is_explained(model: XRLinear, data: tuple, tmp_path: Path) -> None:
    """A cluster may hold a feature twice, as nothing that ranks minds it: the paths are those of the ranking."""
    state = model.to_state()
    tree = state.parts["tree0"]
    children = np.ascontiguousarray(tree.arrays["layer0.children"][::-1])
    tree = replace(tree, arrays={**tree.arrays, "layer0.children": children})
    store.save(tmp_path / "m", replace(state, parts={**state.parts, "tree0": tree}))
    changed = sylvan.load(tmp_path / "m")
    for row in range(20):
        assert changed.explain(data[0][row], 0).label == 0
