"""XRTransformer's and XTransformer's parameters: presets, encoders, ranges, what counts later, and what is refused."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded_texts import LABELS, TEXTS, small
from kit.errors import raises, warns

import sylvan
from sylvan import LabelTree, TfidfVectorizer, TransformerMatcher, XRLinear, XRTransformer, XTransformer
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.models.transformer import fine_tuning
from sylvan.models.transformer.presets import encoder_of, kind_of, matcher_of, ranker_of, said, value_of, vectorizer_of
from sylvan.neural import BagTextEncoder

pytest.importorskip("torch")

from sylvan.neural import TransformerEncoder
from sylvan.neural.loop import training


def test_presets_and_what_is_given_before_them() -> None:
    assert matcher_of(XRTransformer(), "network").batch_size == 32
    assert matcher_of(XRTransformer(matcher=TransformerMatcher(batch_size=7, beam=3)), "bag").batch_size == 7
    assert matcher_of(XRTransformer().set_params(matcher__beam=3), "sentence").beam == 3
    assert matcher_of(XRTransformer(preset="paper"), "bag").max_steps == 867
    assert matcher_of(XRTransformer(preset="paper").set_params(matcher__beam=3), "bag").max_steps == 867
    assert matcher_of(XRTransformer(preset="paper", matcher=TransformerMatcher()), "bag").max_steps is None
    assert ranker_of(XRTransformer()).negatives == "paper"
    given = XRTransformer(ranker=XRLinear(cost=3, beam=7)).set_params(ranker__beam=9)
    assert (ranker_of(given).cost, ranker_of(given).beam, ranker_of(given).negatives) == (3, 9, "paper")
    assert vectorizer_of(XRTransformer()).sublinear_tf and not vectorizer_of(XRTransformer(preset="tiny")).sublinear_tf
    assert vectorizer_of(XRTransformer(vectorizer=TfidfVectorizer(ngrams=(1, 2)))).ngrams == (1, 2)


@pytest.mark.parametrize(("preset", "rates"), [("tiny", (1e-4, 0.01)), ("base", (1e-4, 0.01)), ("paper", (5e-5, 5e-5))])
def test_a_kind_of_encoder_has_its_own_rates(preset: str, rates: tuple[float, float]) -> None:
    model = XRTransformer(preset=preset)
    for kind in ("network", "sentence"):
        found = matcher_of(model, kind)
        assert (found.learning_rate, found.label_learning_rate) == rates
    bag, tenth = matcher_of(model, "bag"), 0.1 if preset == "paper" else 1  # of sparse-adam
    rows, labels = bag.row_learning_rate, bag.label_learning_rate
    assert (bag.learning_rate, rows, labels) == pytest.approx((0.005, 0.3 * tenth, 0.15 * tenth))
    scale = said(preset, "xr-transformer")["dense_scale"]
    assert [value_of(model, "dense_scale", kind) for kind in ("bag", "network", "sentence")] == [0.02, scale, scale]
    given = TransformerMatcher(label_learning_rate=0.5, learning_rate=0.25)
    found = matcher_of(XRTransformer(preset=preset, matcher=given), "bag")
    assert (found.label_learning_rate, found.learning_rate) == (0.5, 0.25)


@pytest.mark.parametrize("preset", ["tiny", "base", "paper"])
def test_a_bag_whatever_the_preset(preset: str, tmp_path: Path) -> None:
    BagTextEncoder(dim=4, n_buckets=32, max_length=7).save_pretrained(tmp_path)
    new, old = encoder_of(XRTransformer("bag", preset)), encoder_of(XRTransformer(tmp_path, preset))
    assert kind_of(new) == kind_of(old) == "bag"
    assert (old.dim_out, old.max_length) == (4, 7), "its folder says"
    assert (new.dim_out, new.max_length) == (64 if preset == "tiny" else BagTextEncoder().dim, 256)
    assert encoder_of(XRTransformer(tmp_path, preset, max_length=5)).max_length == 5
    assert encoder_of(XRTransformer("bag", preset, max_length=5)).max_length == 5


@pytest.mark.parametrize("encoder", ["bag", "folder", "object"])
@pytest.mark.parametrize("name", ["pooling", "lora_rank", "gradient_checkpointing", "max_length"])
def test_what_an_encoder_cannot_take_is_refused(encoder: str, name: str, tmp_path: Path) -> None:
    given: Any = encoder
    if encoder != "bag":
        given = BagTextEncoder(dim=8, n_buckets=64)
    if encoder == "folder":
        given.save_pretrained(tmp_path)
        given = tmp_path
    value = {"pooling": "cls", "lora_rank": 2, "gradient_checkpointing": True, "max_length": 9}[name]
    of_matcher = name in TransformerMatcher.parameter_names()
    model = small(encoder=given, **{f"matcher__{name}" if of_matcher else name: value})
    if name == "max_length" and encoder != "object":
        assert encoder_of(model).max_length == 9
        return
    words = ("BagTextEncoder", "parameters") if encoder == "object" else "pooling"
    with raises(ParameterError, words):
        model.fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"preset": "huge"}, ("preset", "XRTransformer", "tiny", "base", "paper")),
        *(({"encoder": encoder}, ("encoder", "XRTransformer", "bag")) for encoder in (3, BagTextEncoder)),
        ({"matcher__epochs": [1.0, -1.0]}, ("epochs", "TransformerMatcher", "float")),
        ({"matcher": XRLinear()}, ("matcher", "XRTransformer", "TransformerMatcher", "None")),
        ({"max_length": 0}, ("max_length", 0)),
        ({"device": "GPU 1"}, ("device", "XRTransformer", "auto", "cpu", "'cuda'")),
        ({"dense_scale": 0}, ("dense_scale", 0)),
        ({"ranker": 3}, ("ranker", "XRTransformer", "XRLinear")),
        ({"cache": 3}, ("cache", "XRTransformer")),
        ({"ranker__max_leaf": 0}, ("max_leaf", "XRLinear")),
        ({"matcher__epochs": [1.0, 2.0]}, ("layers", 2)),
        ({"dense_scale": 1e-40}, ("dense_scale", "XRTransformer")),
        ({"dense_scale": 1e39}, ("dense_scale", "XRTransformer")),
        ({"matcher__patience": 2}, ("patience", "TransformerMatcher", "'holdout'")),
        ({"ranker__n_trees": 0}, ("n_trees", "XRLinear", "[1, 1000]")),
        ({"ranker": XRLinear(tree=LabelTree.flat(8)), "ranker__n_trees": 2}, "n_trees=1"),
        ({"vectorizer__min_df": 0}, ("min_df", "TfidfVectorizer")),
        ({"ranker": XRLinear(embedding="pifa_lf")}, ("ranker", "XRTransformer", "embedding='pifa'")),
    ],
)
def test_parameters_out_of_range(params: dict[str, Any], words: object) -> None:
    for ask in (small(**params).fit, small(**params).plan):
        with raises(ParameterError, words):
            ask(TEXTS, LABELS)


def test_more_threads_than_any_machine_has() -> None:
    model = small(frozen=True).fit(TEXTS, LABELS)
    expected = model.rank(TEXTS, k=3)
    found = model.set_params(n_jobs=10**19).rank(TEXTS, k=3)
    assert (found.labels == expected.labels).all()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)


def test_x_transformer_has_one_tree() -> None:
    with raises(ParameterError, "ranker", "XTransformer", "n_trees=3"):
        small(XTransformer, ranker=XRLinear(n_trees=3)).fit(TEXTS, LABELS)
    with raises(ParameterError, "ranker", "XTransformer", "n_trees=2"):
        small(XTransformer, ranker__n_trees=2).fit(TEXTS, LABELS)
    assert XTransformer(preset="base").set_params(ranker__beam=4).ranker.n_trees == 1


@pytest.mark.parametrize("scale", [1e-30, 1e15])
@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_the_ends_of_a_range_can_be_learned_saved_and_asked(kind: Any, scale: float, tmp_path: Path) -> None:
    model = small(kind, dense_scale=scale).fit(TEXTS, LABELS)
    model.save(tmp_path / "model")
    scores = sylvan.load(tmp_path / "model").rank(TEXTS, k=3).scores
    assert np.isfinite(scores).all() and scores.tobytes() == model.rank(TEXTS, k=3).scores.tobytes()


@pytest.mark.parametrize(("name", "value", "usual"), [("beam", 10, 20), ("refresh", 100, None)])
def test_what_one_layer_of_clusters_has_no_use_for_is_refused(name: str, value: int, usual: Any) -> None:
    """The clusters hang on the root: all are candidates of every text, and nothing above them is searched."""
    with raises(ParameterError, name, "TransformerMatcher", usual, "XTransformer", value):
        small(XTransformer, **{f"matcher__{name}": value}).fit(TEXTS, LABELS)
    small(XTransformer, **{f"matcher__{name}": usual}).check_params()
    small(XRTransformer, **{f"matcher__{name}": value}).check_params()


def test_a_beam_that_is_set_later_counts(tuned: Any) -> None:
    narrow = copy.deepcopy(tuned).set_params(ranker__beam=1)
    assert narrow.rank(TEXTS, k=3).labels.tobytes() == tuned.rank(TEXTS, k=3, beam=1).labels.tobytes()
    assert narrow.rank(TEXTS, k=3).labels.tobytes() != tuned.rank(TEXTS, k=3).labels.tobytes()


def test_what_is_set_after_the_training_is_saved_and_can_be_set_back(tuned: Any, tmp_path: Path) -> None:
    expected, combine = tuned.rank(TEXTS, k=3).scores.tobytes(), tuned.get_params()["ranker__combine"]
    model = copy.deepcopy(tuned).set_params(ranker__beam=1, ranker__combine="ranker", ranker__tail="psp")
    assert model.rank(TEXTS, k=3).scores.tobytes() != expected
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again.rank(TEXTS, k=3).scores.tobytes() == model.rank(TEXTS, k=3).scores.tobytes()
    for each in (model, again):
        each.set_params(ranker__beam=10, ranker__combine=combine, ranker__tail=None)
        assert each.rank(TEXTS, k=3).scores.tobytes() == expected


def test_searches_begin_with_the_weights_that_were_given(tuned: Any) -> None:
    clone = pytest.importorskip("sklearn.base").clone
    for encoder in (tuned.encoder_, _over_words()):
        model = small(encoder=encoder, frozen=True)
        ours, theirs = clone(model).fit(TEXTS, LABELS), model.fit(TEXTS, LABELS)
        assert ours.encoder is not encoder
        np.testing.assert_array_equal(ours.embed(TEXTS), theirs.embed(TEXTS))


def _over_words() -> Any:
    return BagTextEncoder(dim=8, vectorizer=TfidfVectorizer().fit(TEXTS))


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_ranking_is_by_what_was_fitted(kind: Any, tmp_path: Path) -> None:
    model = small(kind, frozen=True).fit(TEXTS, LABELS)
    before = model.rank(TEXTS, k=4).scores.tobytes()
    ranker = XRLinear(cost=9.0, beam=1)
    model.set_params(dense_scale=5.0, vectorizer=TfidfVectorizer(norm=None), preset="base", ranker=ranker)
    assert model.rank(TEXTS, k=4).scores.tobytes() == before
    model.save(tmp_path / "model")
    again = sylvan.load(tmp_path / "model")
    assert again.rank(TEXTS, k=4).scores.tobytes() == before
    assert (again.dense_scale, again.preset) == (5.0, "base") and again.dense_scale_ == model.dense_scale_ != 5.0
    assert again.fit(TEXTS, LABELS).dense_scale_ == 5.0
    assert again.rank(TEXTS, k=4).scores.tobytes() != before


@pytest.mark.parametrize("device", ["mps", "xpu:1"])
def test_devices_that_only_encode(device: str) -> None:
    with raises(ParameterError, "XRTransformer", "auto", "cpu", "cuda"):
        small(device=device).fit(TEXTS, LABELS)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_parameters_of_parts_that_were_not_given_are_the_preset_s(kind: Any) -> None:
    model = kind(preset="base")
    n_trees = 3 if kind is XRTransformer else 1
    found = model.get_params()
    assert (found["ranker"], found["ranker__n_trees"], found["ranker__negatives"]) == (None, n_trees, "paper")
    assert (found["vectorizer__sublinear_tf"], found["matcher__epochs"]) == (True, 1.0)
    model.set_params(ranker__cost=2.0)
    assert (model.ranker.cost, model.ranker.n_trees, model.ranker.negatives) == (2.0, n_trees, "paper")
    assert model.matcher is None and model.vectorizer is None
    model.set_params(matcher__epochs=9.0, preset="paper")
    assert model.matcher.epochs == 9.0 and model.part("vectorizer").sublinear_tf is False
    again, found = kind().set_params(**model.get_params()), model.get_params()
    parts = ("vectorizer", "matcher", "ranker")
    assert {n: v for n, v in again.get_params().items() if n not in parts} == {
        n: v for n, v in found.items() if n not in parts
    }


@pytest.mark.parametrize("name", ["encoder__width", "cache__width"])
def test_parameters_of_what_has_none(name: str) -> None:
    outer = name.partition("__")[0]
    with raises(ParameterError, name, outer, "XRTransformer", None):
        XRTransformer().set_params(**{name: 2})
    with raises(ParameterError, "XRLinear", "width"):
        XRTransformer().set_params(ranker__width=2)


def test_clones_and_searches_reach_the_parts() -> None:
    clone = pytest.importorskip("sklearn.base").clone
    model = XRTransformer("bag", matcher=TransformerMatcher(epochs=[1.0, 2.0])).set_params(ranker__beam=3)
    ours = clone(model)
    assert ours.matcher is not model.matcher and repr(ours) == repr(model)
    assert ours.set_params(ranker__beam=4, matcher__epochs=3.0).get_params()["ranker__beam"] == 4
    assert (model.ranker.beam, model.matcher.epochs) == (3, [1.0, 2.0])


@pytest.mark.parametrize(("kind", "integer"), [(XRTransformer, np.uint8), (XTransformer, np.int64)])
def test_numpy_numbers_are_numbers(kind: Any, integer: Any, tmp_path: Path) -> None:
    plain = small(kind, seed=3, matcher__batch_size=16, matcher__epochs=1.0).fit(TEXTS, LABELS)
    model = small(kind, seed=integer(3), matcher__batch_size=integer(16), matcher__epochs=np.float32(1))
    model.fit(TEXTS, LABELS, checkpoint=tmp_path / "work").save(tmp_path / "model")
    for each in (model, sylvan.load(tmp_path / "model")):
        assert each.rank(TEXTS, k=3).scores.tobytes() == plain.rank(TEXTS, k=3).scores.tobytes()


# ---------------------------------------- what is refused, and where a wrong parameter stands


def test_empty_texts(frozen: Any) -> None:
    texts = ["", "  \n", *TEXTS[2:]]
    with warns(UserWarning, "empty", 2, 48):
        model = small(frozen=True).fit(texts, LABELS)
    assert np.isfinite(model.rank(["", "whale"], k=2, unknown="prior").scores).all()
    top = model.rank(["", "whale"], k=2)
    assert top.labels[0].tolist() == [-1, -1] and np.isfinite(top.scores[1]).all()
    with raises(DataError, "empty"):
        small().fit([""] * 48, LABELS)


def test_texts_past_the_length_limit_are_reported_once() -> None:
    texts = ["whale " * 40, "sea " * 30, *TEXTS[2:]]
    with pytest.warns(UserWarning) as caught:
        small(frozen=True, encoder=BagTextEncoder(dim=8, n_buckets=64, max_length=20)).fit(texts, LABELS)
    assert [str(warning.message).partition(" tokens")[0] for warning in caught] == [
        "2 of 48 texts are longer than max_length=20"
    ]


def test_an_encoder_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    with raises(ModelError, tmp_path / "nowhere"):
        small(encoder=str(tmp_path / "nowhere")).fit(TEXTS, LABELS)
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with raises(ModelError, "encoder"):
        small(encoder=folder).fit(TEXTS, LABELS)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize(
    ("name", "value", "owner"),
    [
        ("matcher__epochs", 1.0, "TransformerMatcher"),
        ("matcher__max_steps", 1, "TransformerMatcher"),
        ("ranker__negatives", "tfn", "XRLinear"),
        ("ranker__combine", "sigmoid", "XRLinear"),
    ],
)
def test_as_many_values_as_layers_before_anything_is_learned(
    kind: Any, name: str, value: Any, owner: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    depth = small(kind, frozen=True).fit(TEXTS, LABELS).tree_.depth
    n_layers = 1 if kind is XTransformer and owner == "TransformerMatcher" else depth
    monkeypatch.setattr(fine_tuning, "FineTuning", None)  # a call would fail otherwise
    for method, options in (("plan", {}), ("fit", {"checkpoint": tmp_path / "work"})):
        with raises(ParameterError, f"'{name.partition('__')[2]}'", owner, 9, n_layers):
            getattr(small(kind, **{name: [value] * 9}), method)(TEXTS, LABELS, **options)
    assert not (tmp_path / "work").exists(), "nothing to go on from"


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
def test_where_it_is_trained(kind: Any) -> None:
    for params, words in (
        ({"matcher__precision": "fp16"}, ("'precision'", "TransformerMatcher", "'fp16'")),
        ({"device": "cuda:77"}, ("'device'", kind.__name__, "'cuda:77'", "PyTorch")),
    ):
        with raises(ParameterError, words):
            small(kind, **params).fit(TEXTS, LABELS)


def test_what_a_network_cannot_take(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from neural.text.tiny_bert import tiny_bert

    folder = tiny_bert(tmp_path / "bert")
    for model, words in (
        (small(encoder=folder, max_length=10**5), "'max_length'"),
        (small(encoder=TransformerEncoder(folder, max_length=10**5)), "'max_length'"),
        (small(XTransformer, encoder=folder, matcher__lora_rank=2, frozen=True), ("'lora_rank'", "'frozen'", "None")),
    ):
        with raises(ParameterError, "TransformerEncoder", words):
            model.fit(TEXTS, LABELS)


@pytest.mark.parametrize("kind", [XRTransformer, XTransformer])
@pytest.mark.parametrize(
    ("params", "owner"),
    [
        ({"ranker": XRLinear(beam=0)}, "XRLinear"), ({"ranker__beam": 0}, "XRLinear"),
        ({"matcher": TransformerMatcher(beam=0)}, "TransformerMatcher"), ({"matcher__beam": 0}, "TransformerMatcher"),
    ],
)  # fmt: skip
def test_where_it_stands(kind: Any, params: dict[str, Any], owner: str) -> None:
    (part,) = {name.partition("__")[0] for name in params}
    with raises(ParameterError, "'beam'", owner, 0, f"'{part}'", kind.__name__):
        small(kind, **params).fit(TEXTS, LABELS)


@pytest.mark.parametrize(("name", "value"), [("beam", 0), ("combine", "sum"), ("tail", "head")])
def test_what_is_set_after_the_training(name: str, value: Any, frozen: Any) -> None:
    model = copy.deepcopy(frozen).set_params(**{f"ranker__{name}": value})
    with raises(ParameterError, f"'{name}'", "XRLinear"):
        model.rank(TEXTS, 2)


def test_progress_says_which_layer_is_fine_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, titles = training.progress, []
    monkeypatch.setattr(training, "progress", lambda title, *given: titles.append(title) or plain(title, *given))
    depth = small().fit(TEXTS, LABELS).tree_.depth
    assert titles == [f"Fine-tuning on layer {t + 1} of {depth}" for t in range(depth)] and depth > 1
