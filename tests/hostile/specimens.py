"""The models that are spoiled: one small one of each kind, and a synthetic kind that uses every need_* helper."""

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sylvan import store
from sylvan.store import State

SYNTHETIC = "synthetic-specimen"


def rebuild(state: State) -> dict[str, Any]:
    """The loader of the synthetic kind, verifying as a real one does."""
    store.need_kind(state, SYNTHETIC, version=2)
    store.need_params(state, ("beam", "cost", "exact", "loss"))
    store.need_int(state, "beam", 1, 1000)
    store.need_float(state, "cost", 0.0)
    store.need_bool(state, "exact")
    store.need_choice(state, "loss", ("hinge", "logistic"))
    n_ids = store.need_int(state, "n_ids", 1, 1000)
    ids = store.need_range(state, "ids", 0, n_ids - 1, np.int32, (None,))
    offsets = store.need_offsets(state, "layer0.offsets", total=len(ids))
    store.need_array(state, "codes", np.uint8, (None, 16))
    store.need_array(state, "weights", (np.float32, np.float16), (len(ids),))
    store.need_finite(state, "weights")
    part = store.need_part(state, "inner", "vocabulary")
    inner = store.need_array(part, "names", np.uint8, (None,))
    innermost = store.need_range(store.need_part(part, "innermost", "label-tree"), "leaf", 0, 4, np.int32, (None,))
    arrays = {**state.arrays, "inner": inner, "innermost": innermost}
    folder = store.need_files(state, "encoder")
    assert (folder / "config.json").read_bytes() == b"{}" and (folder / "1_Pooling" / "config.json").read_bytes()
    assert store.need_files(part, "encoder").is_dir()
    return {"arrays": arrays, "ids": ids, "offsets": offsets, "n_ids": n_ids}


store.register(SYNTHETIC, rebuild)


def synthetic(folder: Path) -> None:
    rng = np.random.default_rng(0)
    inner = State(
        "vocabulary",
        1,
        arrays={"names": np.frombuffer(b"abc", np.uint8), "offsets": np.array([0, 1, 3], np.int64)},
        parts={"innermost": State("label-tree", 1, arrays={"leaf": np.arange(5, dtype=np.int32)})},
        files={"encoder/empty": b""},
    )
    state = State(
        SYNTHETIC,
        2,
        params={"beam": 10, "cost": 1.0, "exact": False, "loss": "hinge"},
        meta={"n_ids": 9},
        arrays={
            "ids": rng.integers(0, 9, 30, dtype=np.int32),
            "layer0.offsets": np.array([0, 4, 4, 17, 30], np.int64),
            "codes": rng.integers(0, 255, (5, 16), dtype=np.uint8),
            "weights": rng.normal(size=30).astype(np.float32),
        },
        parts={"inner": inner},
        files={"encoder/config.json": b"{}", "encoder/1_Pooling/config.json": b"pooling " * 40},
    )
    store.save(folder, state)


def label_tree(folder: Path) -> None:
    from sylvan import LabelTree

    store.save(folder, LabelTree.random(23, branching=3, max_leaf=4).to_state())


def vocabulary(folder: Path) -> None:
    from sylvan.data import Vocabulary

    store.save(folder, Vocabulary(["whaling", "sea stories", "Märchen", "-", "詩"]).to_state())


SENTENCES = [
    "the white whale of the south seas", "a history of whale hunting and the sea", "poems of the forest and the sea",
    "Märchen aus dem Walde", "the forest in winter, poems", "die Geschichte der Seefahrt",
] * 4  # fmt: skip
HEADINGS = [["whaling", "sea"], ["whaling", "history"], ["poetry", "sea"], ["Märchen"], ["poetry"], ["history"]] * 4


def tfidf(folder: Path) -> None:
    from sylvan.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngrams=(1, 2))
    vectorizer.fit(SENTENCES)
    store.save(folder, vectorizer.to_state())


def known(n: int = 60, n_features: int = 40, n_labels: int = 23) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    rng = np.random.default_rng(1)
    Y = sp.random(n, n_labels, 0.1, "csr", np.float32, rng)
    Y.data[:] = 1
    X = sp.random(n, n_features, 0.2, "csr", np.float32, rng)
    return X, Y


def xr_linear(folder: Path, branching: int = 3, **params: Any) -> None:
    """Of three layers; what is made of such models has two, or most of its files would be those of one more layer."""
    from sylvan import XRLinear

    X, Y = known()
    XRLinear(branching=branching, max_leaf=5, **params).fit(X, Y).save(folder)


def two_trees(folder: Path) -> None:
    xr_linear(folder, branching=5, n_trees=2)


def without_labels(folder: Path) -> None:
    from sylvan import XRLinear

    XRLinear(branching=5, max_leaf=5).fit(*known()).without_labels([3, 4, 20]).save(folder)


def training_rows(folder: Path) -> None:
    """Of a model that can be brought up to date: two layers, weights of rows, a holdout, multipliers."""
    from sylvan import XRLinear

    X, Y = known(n=130)
    model = XRLinear(branching=5, max_leaf=5, keep_rows=True).fit(X[:125], Y[:125], np.linspace(0.5, 1, 125))
    model.update(X[125:], Y[125:], forget=[3]).save(folder)


def grown_vectorizer(folder: Path) -> None:
    from sylvan.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngrams=(1, 2)).fit(["whale hunting in the south seas", "poetry of the seas"])
    vectorizer.with_terms_of(["steam engines", "an engine of steam"], 2).save(folder)


def shares_of_labels(folder: Path) -> None:
    xr_linear(folder, branching=5, alpha=np.linspace(0, 1, 23))


def calibrator(folder: Path, method: str = "isotonic") -> None:
    from sylvan import TopK
    from sylvan.ranking.calibrate import Calibrator

    rng = np.random.default_rng(0)
    scores = -np.sort(-rng.random((400, 4), np.float32))
    top = TopK(np.tile(np.arange(4, dtype=np.int32), (400, 1)), scores)
    found = Calibrator.fit(method, top, rng.random((400, 4)) < scores)
    assert found is not None and len(found.places) == 4
    store.save(folder, found.to_state())


def calibrator_of_platt(folder: Path) -> None:
    calibrator(folder, "platt")


def named_labels(folder: Path) -> None:
    from sylvan import XRLinear

    X, Y = known()
    names = [[f"label {label}" for label in row.indices] for row in Y]
    model = XRLinear(branching=5, max_leaf=5).fit(X, names)
    model._columns = np.array([f"column {column}" for column in range(X.shape[1])], object)
    model.save(folder)


def flat_linear(folder: Path) -> None:
    from sylvan import LabelTree, XRLinear

    X, Y = known()
    XRLinear(tree=LabelTree.flat(Y.shape[1]), weight_dtype="float32").fit(X, Y).save(folder)


def packed_linear(folder: Path) -> None:
    xr_linear(folder, weight_dtype="uint4")


def flat_packed_linear(folder: Path) -> None:
    """Of so many children that a number of theirs is checked, in rows that are continued, with keys of 16 bits."""
    from sylvan import LabelTree, XRLinear

    X, Y = known(n=90, n_features=900, n_labels=300)
    model = XRLinear(tree=LabelTree.flat(Y.shape[1]), weight_dtype="uint4", threshold=0.0)
    model.fit(X, Y).save(folder)


def neighbors(folder: Path) -> None:
    from sylvan import NeighborRanker

    X, Y = known()
    Y.data = np.random.default_rng(2).integers(1, 4, Y.nnz).astype(np.float32)
    X = sp.hstack([X, np.ones((X.shape[0], 2), np.float32)]).tocsr()  # two features of all rows
    NeighborRanker(n_neighbors=4).fit(X, Y, sample_weight=np.linspace(0.5, 2, X.shape[0])).save(folder)


def vector_neighbors(folder: Path) -> None:
    from sylvan import NeighborRanker

    _, Y = known()
    NeighborRanker(n_neighbors=4).fit(np.random.default_rng(3).normal(size=(Y.shape[0], 5)), Y).save(folder)


def text_model(folder: Path) -> None:
    from sylvan import TextModel, TfidfVectorizer, XRLinear

    TextModel(TfidfVectorizer(), XRLinear(branching=3, max_leaf=2)).fit(SENTENCES, HEADINGS).save(folder)


def label_texts(folder: Path) -> None:
    """Of labels that have texts, one of which no row has; with a curve, which so few rows don't give."""
    from dataclasses import replace

    from sylvan import TextModel, TfidfVectorizer, XRLinear

    texts = {"whaling": "whale hunting", "poetry": "poems", "sea": "seas", "ships": "white whale sea"}
    model = TextModel(TfidfVectorizer(), XRLinear(branching=8), unlearned="answer").fit(
        SENTENCES, HEADINGS, label_texts=texts
    )
    known = model.label_texts_
    assert known is not None
    model.label_texts_ = replace(known, curve=np.array([-1.0, 0.5, 0.25, 0.5]))
    assert len(model.unlearned_labels_) == 1
    model.save(folder)


def label_encoder(folder: Path) -> None:
    """As label_texts, with an encoder of the labels' texts."""
    from dataclasses import replace

    from sylvan import TextModel, TfidfVectorizer, XRLinear
    from sylvan.neural import BagTextEncoder

    texts = {"whaling": "whale hunting", "poetry": "poems", "sea": "seas", "ships": "white whale sea"}
    model = TextModel(
        TfidfVectorizer(),
        XRLinear(branching=8, keep_rows=True),
        BagTextEncoder(dim=4, n_buckets=50),
        unlearned="answer",
    )
    model.fit(SENTENCES, HEADINGS, label_texts=texts)
    known = model.label_texts_
    assert known is not None and known.encoded is not None
    curve, judged_vectors = np.array([-1.0, 0.5, 0.25, 0.5, 0.5, -0.5]), np.ones((2, 4), np.float16) / 2
    model.label_texts_ = replace(known, curve=curve, judged=np.array([0, 1]), judged_vectors=judged_vectors)
    assert len(model.unlearned_labels_) == 1
    model.save(folder)


def static_encoder(folder: Path) -> None:
    """Static vectors of a few words, as an encoder of labels."""
    from kit.static_folders import model2vec_folder

    from sylvan import NeighborRanker, Reranker, TextModel

    with tempfile.TemporaryDirectory() as place:
        words = model2vec_folder(Path(place), ["whale", "sea", "poems"], n_vectors=3)
        model = Reranker([TextModel(model=NeighborRanker(n_jobs=1))], scorer="trees", label_encoder=words)
        model.fit(SENTENCES, HEADINGS, label_texts={"whaling": "whale", "sea": "sea"})
        model.set_params(label_encoder="bag")
    model.save(folder)


def lexical(folder: Path) -> None:
    """With trees, related labels, parts of headings and one label that was removed."""
    from sylvan import LexicalMatcher
    from sylvan.data import LabelTerms

    terms = {
        "whaling": LabelTerms(("whale hunting",), ("whaling", "Whales -- Hunting"), ("wale",), ("catching whales",)),
        "sea": LabelTerms(("the sea",), broader=("history",), related=("whaling",)),
        "history": LabelTerms(("history",)), "poetry": LabelTerms(("poems",)), "Märchen": LabelTerms(("Märchen",)),
        "ships": LabelTerms(("Ships (steam)",)),
    }  # fmt: skip
    model = LexicalMatcher(n_trees=3, depth=2, partial=2).fit(SENTENCES * 6, HEADINGS * 6, label_texts=terms)
    model.without_labels("ships").save(folder)


def ensemble(folder: Path) -> None:
    from sylvan import Ensemble, NeighborRanker, XRLinear

    X, Y = known()
    members = [XRLinear(branching=3, max_leaf=8), NeighborRanker(n_neighbors=4)]
    Ensemble(members, weights=[2, 1]).fit(X, Y).save(folder)


def text_ensemble(folder: Path) -> None:
    from sylvan import Ensemble, TextModel, TfidfVectorizer

    one = TextModel(TfidfVectorizer()).fit(SENTENCES, HEADINGS)
    two = TextModel(TfidfVectorizer(ngrams=(1, 2))).fit(SENTENCES[:9], HEADINGS[8:17])
    Ensemble.of_fitted([one, two], how="count").save(folder)


def reranker(folder: Path) -> None:
    """Of one tree, in an order by trees of the caller's columns too."""
    from sylvan import Reranker, XRLinear

    X, Y = known(840)
    X = sp.csr_matrix(0.3 * X + Y @ sp.random(23, 40, 0.2, "csr", np.float32, np.random.default_rng(2)))
    order = Reranker([XRLinear(max_leaf=30)], scorer="trees", n_trees=5, depth=2, learning_rate=0.5, candidates=9)
    model = order.fit(X, Y, label_columns=np.arange(46, dtype=np.float32).reshape(23, 2))
    assert model.scorer_ is not None
    model.save(folder)


def _vectors() -> Any:
    return np.random.default_rng(4).normal(size=(40, 3)).astype(np.float32)


def _shard() -> Any:
    from sylvan import IRLIIndex

    index = IRLIIndex("learned", n_buckets=4, n_repetitions=2, hidden=3, choices=2, probes=2, n_neighbors=5)
    return index.set_params(rounds=1, epochs_per_round=1, n_jobs=1)


def irli_index(folder: Path) -> None:
    index = _shard().set_params(probes="auto", n_components=2).fit(_vectors(), metric="angular")
    index.remove([3, 17])
    index.save(folder)


def irli_centers(folder: Path) -> None:
    from sylvan import IRLIIndex

    IRLIIndex(n_buckets=4, n_repetitions=2, n_jobs=1).fit(_vectors(), metric="angular").save(folder)


def irli_shards(folder: Path) -> None:
    from sylvan import ShardedIRLIIndex

    ShardedIRLIIndex(_shard(), 2, "serial").fit(_vectors()).save(folder)


def irli(folder: Path) -> None:
    """Put together by hand: what trains it, PyTorch, needn't be there."""
    from sylvan import IRLIClassifier
    from sylvan.models.irli.bucket_network import BucketNetwork
    from sylvan.models.irli.buckets import Buckets, hash_partition
    from sylvan.models.irli.fitted import FittedIRLI
    from sylvan.models.irli.rounds import Round, Rounds

    rng = np.random.default_rng(0)
    shapes = (40, 12), (12,), (3, 4, 5), (3, 5)
    model = IRLIClassifier(n_buckets=5, n_repetitions=3, hidden=4, probes=2)
    buckets = Buckets.from_assignment(hash_partition(23, 5, 3), 5)
    network = BucketNetwork(*(rng.standard_normal(shape, np.float32) for shape in shapes)).rounded()
    one = Round(0, (0.0, 0.0, 0.0), 0.1, 0.4, tuple(buckets.load_deviation().tolist()), 2.0, 0.5, {"score": 0.5})
    model.fitted_ = FittedIRLI(buckets, network, Rounds((one,), 0), False, rng.random((40, 3), np.float32))
    model.label_counts_ = np.arange(23)
    model.n_features_, model.n_labels_, model.n_rows_ = 40, 23, 60
    model.save(folder)


def beam_tree(folder: Path, y: Any = None, **params: Any) -> None:
    """Some of its features are stored, and some of its classes have no row."""
    from sylvan import BeamTreeClassifier

    X, _ = known()
    y = np.random.default_rng(3).integers(0, 23, X.shape[0]) if y is None else y
    params = {"branching": 3, "epochs": 2, "learning_rate": 0.5, "class_weight": {3: 2.0}, **params}
    BeamTreeClassifier(**params).fit(X, y).save(folder)


def beam_tree_named(folder: Path) -> None:
    beam_tree(folder, [f"class {number % 7}" for number in range(60)], class_weight=None, optimizer="sgd")


def beam_tree_numbered(folder: Path) -> None:
    beam_tree(folder, np.arange(60) % 9 - 4, loss="hsm", class_weight={-3: 0.5})


def beam_tree_dense_softmax(folder: Path) -> None:
    from sylvan import BeamTreeClassifier

    X = np.random.default_rng(5).random((40, 6), np.float32)
    BeamTreeClassifier(loss="softmax", epochs=2, learning_rate=0.5).partial_fit(X, np.arange(40) % 8, range(8)).save(
        folder
    )


def xr_transformer(folder: Path) -> None:
    """Of an encoder of a few weights that was not trained, which opens in no time."""
    from sylvan import XRLinear, XRTransformer
    from sylvan.neural import BagTextEncoder

    encoder = BagTextEncoder(dim=3, n_buckets=8)
    ranker = XRLinear(branching=3, max_leaf=2)
    model = XRTransformer(encoder, preset="tiny", frozen=True, ranker=ranker, device="cpu", n_jobs=1)
    model.fit(SENTENCES, HEADINGS).set_params(encoder="bag").save(folder)


SPECIMENS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "synthetic": (synthetic, "sylvan", "__version__"),
    "label-tree": (label_tree, "sylvan.indexing", "LabelTree.to_state"),
    "vocabulary": (vocabulary, "sylvan.data", "Vocabulary.to_state"),
    "tfidf-vectorizer": (tfidf, "sylvan.text", "TfidfVectorizer.to_state"),
    "xr-linear": (xr_linear, "sylvan", "XRLinear.save"),
    "xr-linear-two-trees": (two_trees, "sylvan", "XRLinear.save"),
    "xr-linear-without-labels": (without_labels, "sylvan", "XRLinear.save"),
    "xr-linear-with-rows": (training_rows, "sylvan", "XRLinear.save"),
    "tfidf-grown": (grown_vectorizer, "sylvan.text", "TfidfVectorizer.save"),
    "xr-linear-shares": (shares_of_labels, "sylvan", "XRLinear.save"),
    "xr-linear-named": (named_labels, "sylvan", "XRLinear.save"),
    "xr-linear-flat-float32": (flat_linear, "sylvan", "XRLinear.save"),
    "xr-linear-packed": (packed_linear, "sylvan", "XRLinear.save"),
    "xr-linear-flat-packed": (flat_packed_linear, "sylvan", "XRLinear.save"),
    "calibrator": (calibrator, "sylvan.ranking.calibrate", "Calibrator.to_state"),
    "calibrator-platt": (calibrator_of_platt, "sylvan.ranking.calibrate", "Calibrator.to_state"),
    "neighbor-ranker": (neighbors, "sylvan", "NeighborRanker.save"),
    "neighbor-ranker-vectors": (vector_neighbors, "sylvan.matching.neighbors", "VectorIndex.build"),
    "lexical-matcher": (lexical, "sylvan", "LexicalMatcher.save"),
    "irli": (irli, "sylvan", "IRLIClassifier.save"),
    "irli-centers": (irli_centers, "sylvan", "IRLIIndex.save"),
    "irli-index": (irli_index, "sylvan", "IRLIIndex.save"),
    "irli-shards": (irli_shards, "sylvan", "ShardedIRLIIndex.save"),
    "beam-tree": (beam_tree, "sylvan", "BeamTreeClassifier.save"),
    "beam-tree-named": (beam_tree_named, "sylvan", "BeamTreeClassifier.save"),
    "beam-tree-numbered": (beam_tree_numbered, "sylvan", "BeamTreeClassifier.save"),
    "beam-tree-dense": (beam_tree_dense_softmax, "sylvan", "BeamTreeClassifier.save"),
    "ensemble": (ensemble, "sylvan", "Ensemble.save"),
    "text-ensemble": (text_ensemble, "sylvan", "Ensemble.save"),
    "reranker": (reranker, "sylvan", "Reranker.save"),
    "text-model": (text_model, "sylvan", "TextModel.save"),
    "text-model-label-texts": (label_texts, "sylvan", "TextModel.unlearned_labels_"),
    "text-model-label-encoder": (label_encoder, "sylvan.neural", "BagTextEncoder"),
    "reranker-static-encoder": (static_encoder, "tokenizers", "Tokenizer"),
    "xr-transformer": (xr_transformer, "sylvan.neural", "BagTextEncoder"),
}


def there(module: str, name: str) -> bool:
    """Whether this build has what a specimen needs."""
    try:
        thing: Any = importlib.import_module(module)
        for part in name.split("."):
            thing = getattr(thing, part)
    except (ImportError, AttributeError):
        return False
    return True
