"""The preset "paper" beside what was transcribed from the papers and their authors' programs; its ensembles."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded_texts import LABELS, TEXTS
from kit.errors import raises
from kit.watching import calls_of
from kit.weights import dense_weights

import sylvan
from sylvan import Ensemble, TfidfVectorizer, TransformerMatcher, XRLinear, XRTransformer, XTransformer
from sylvan.errors import ParameterError
from sylvan.models.transformer import layer_job
from sylvan.models.transformer.presets import encoder_of, matcher_of, ranker_of, value_of, vectorizer_of

pytest.importorskip("torch")

import torch

from sylvan.neural import BagTextEncoder

# Transcribed by hand. PECOS: Yu et al. (2022). Train, predict, xbert: run_transformer_train.sh (Eurlex-4K),
# run_transformer_predict.sh and xbert/*.py of github.com/OctoberChang/X-Transformer. Params:
# examples/xr-transformer-neurips21/params/eurlex-4k/bert/params.json of github.com/amzn/pecos; network: its
# pecos/xmc/xtransformer/network.py, and matcher.py beside it. The last column is the parameter here.
X_TRANSFORMER = """
PECOS 4, 24 layers, large, cased; train MODEL_NAME | bert-large-cased-whole-word-masking | encoder
PECOS 4, Training Efficiency, T                    | 128    | max_length
PECOS 4, x = [tfidf, dnn]                          | 1      | dense_scale
PECOS Eq. 15, w of phi(t)                          | False  | matcher normalize
PECOS Eq. 15, no costs of positives                | none   | matcher relevance
PECOS Eq. 15, no costs of negatives                | 1      | matcher negative_cost
train LEARNING_RATE                                | 5e-5   | matcher learning_rate
train LEARNING_RATE, one for all weights           | 5e-5   | matcher label_learning_rate
PECOS 4, a variant of Adam                         | sparse-adam | matcher optimizer
train nproc 8 x PER_DEVICE_TRN_BSZ 16              | 128    | matcher batch_size
train GRAD_ACCU_STEPS                              | 2      | matcher accumulate
train MAX_STEPS                                    | 1000   | matcher max_steps
train WARMUP_STEPS 100 of 1000                     | 0.1    | matcher warmup
xbert/transformer.py --weight_decay                | 0      | matcher weight_decay
xbert/transformer.py --max_grad_norm               | 1      | matcher clip_norm
xbert/modeling.py, a new classifier                | False  | matcher bootstrap
train, fp32                                        | no     | matcher precision
xbert/transformer.py --only_topk                   | 10     | ranker beam
xbert/indexer.py --kdim                            | 2      | ranker branching
xbert/indexer.py estimate_depth_with_cluster_size  | 100    | ranker max_leaf
xbert/indexer.py --algo SKMEANS                    | spherical | ranker clustering
PECOS 6.1, PIFA; predict pifa-tfidf                | pifa   | ranker embedding
xbert/ranker.py --Cp                               | 1      | ranker positive_cost
xbert/ranker.py --Cn                               | 1      | ranker negative_cost
xbert/ranker.py --bias                             | 1      | ranker bias
xbert/ranker.py max_iter                           | 100    | ranker max_iterations
predict -t of training                             | 0.01   | ranker threshold
predict -t noop                                    | paper  | ranker combine
PECOS 2.3.1, the union of TFN and MAN              | paper  | ranker negatives
PECOS Eq. 10, no relevance                         | None   | ranker relevance
PECOS 6.1, trees are models of the ensemble        | 1      | ranker n_trees
"""
XR_TRANSFORMER = """
params model_shortcut                              | bert-base-uncased | encoder
PECOS 4, T; params truncate_length                 | 128    | max_length
PECOS Eq. 15; network, logits of pooled_output     | False  | matcher normalize
params loss_function weighted-squared-hinge        | count  | matcher relevance
network HingeLoss, C_neg                           | 1      | matcher negative_cost
params negative_sampling tfn+man; PECOS 2.3.1      | network | matcher negatives_from
params PredParams only_topk                        | 5      | matcher beam
params bootstrap_method weighted-linear            | count  | matcher bootstrap_relevance
params bootstrap_method                            | True   | matcher bootstrap
network bootstrap, Cp and Cn                       | 100    | matcher bootstrap_cost
params learning_rate                               | 5e-5   | matcher learning_rate
params learning_rate                               | 5e-5   | matcher label_learning_rate
PECOS 4, a variant of Adam; matcher.py SparseAdam  | sparse-adam | matcher optimizer
matcher.py, no autocast                            | no     | matcher precision
params batch_size                                  | 32     | matcher batch_size
params gradient_accumulation_steps                 | 1      | matcher accumulate
params max_steps, mean of 600, 800, 1200           | 867    | matcher max_steps
params weight_decay                                | 0      | matcher weight_decay
params max_grad_norm                               | 1      | matcher clip_norm
params max_match_clusters                          | 32768  | matcher max_nodes
params preliminary_indexer nr_splits               | 16     | ranker branching
params preliminary_indexer max_leaf_size           | 16     | ranker max_leaf
params spherical                                   | spherical | ranker clustering
params rel_mode induce, rel_norm                   | l1     | ranker relevance
params Cp                                          | 1      | ranker positive_cost
params Cn                                          | 2      | ranker negative_cost
params bias                                        | 1      | ranker bias
params eps                                         | 0.1    | ranker tolerance
params max_iter                                    | 100    | ranker max_iterations
params threshold                                   | 0.001  | ranker threshold
params HierarchicalMLModel only_topk               | 75     | ranker beam
params neg_mining_chain tfn, ..., tfn+man          | paper  | ranker negatives
params post_processor l3-hinge, ..., noop          | paper  | ranker combine
PECOS 6.1, three models, one tree each             | 1      | ranker n_trees
"""


@pytest.mark.parametrize(("kind", "table"), [(XTransformer, X_TRANSFORMER), (XRTransformer, XR_TRANSFORMER)])
def test_the_preset_is_the_papers(kind: Any, table: str) -> None:
    model = kind(preset="paper")
    parts = {"matcher": matcher_of(model, "network"), "ranker": ranker_of(model)}
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    for source, value, name in rows:
        part, _, parameter = name.rpartition(" ")
        found = getattr(parts[part], parameter) if part else value_of(model, parameter, "network")
        wanted = {"True": True, "False": False, "None": None}.get(value, value)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            assert found == pytest.approx(float(value)), (source, found)
        else:
            assert found == wanted, (source, found)
    listed = {name for *_, name in rows}
    # Of what differs from the defaults, the table leaves out only what no paper has, or what follows from the rest.
    ours = {"matcher epochs", "matcher row_learning_rate", "ranker scaling", "ranker man_threshold"}
    ours |= {"ranker calibration", "ranker weight_dtype", "matcher warmup", "ranker tolerance"}
    for part, default in (("matcher", TransformerMatcher()), ("ranker", XRLinear())):
        for name, value in parts[part].get_params(deep=False).items():
            if value != getattr(default, name) and name not in ("n_jobs", "seed"):
                assert f"{part} {name}" in listed | ours, f"{part} {name}"
    assert vectorizer_of(model).get_params() == TfidfVectorizer(n_jobs=vectorizer_of(model).n_jobs).get_params()
    assert matcher_of(XRTransformer(preset="paper"), "network").warmup * 867 == pytest.approx(100)


def test_base_is_as_it_was() -> None:
    """What the rows of benchmarks/results/transformers.json were measured with."""
    model = XRTransformer()
    matcher, ranker = matcher_of(model, "sentence"), ranker_of(model)
    assert model.preset == "base" and matcher.get_params() == TransformerMatcher().suited("sentence").get_params()
    assert (matcher.relevance, matcher.negative_cost, matcher.normalize, matcher.bootstrap) == ("l1", 0.1, True, True)
    assert (ranker.n_trees, ranker.relevance, ranker.negative_cost, ranker.threshold) == (3, None, 1.0, 0.05)


def test_ensembles_are_of_three_encoders() -> None:
    nine, three = XTransformer.ensemble(preset="paper"), XRTransformer.ensemble(preset="paper", n_jobs=1)
    large = ("bert-large-cased-whole-word-masking", "roberta-large", "xlnet-large-cased")
    base = ("bert-base-uncased", "roberta-base", "xlnet-base-cased")
    assert isinstance(nine, Ensemble) and {type(member) for member in nine.members} == {XTransformer}
    assert [(m.encoder, m.seed) for m in nine.members] == [(name, seed) for name in large for seed in (0, 1, 2)]
    assert [(m.encoder, m.seed) for m in three.members] == list(zip(base, (0, 1, 2), strict=True))
    assert all(member.preset == "paper" for member in (*nine.members, *three.members))
    local = XTransformer.ensemble([Path("a"), Path("b"), Path("c")], preset="paper", max_length=64)
    assert [member.encoder.name for member in local.members] == [*"aaabbbccc"] and local.members[8].max_length == 64
    other = XRTransformer.ensemble(["a", "b"], preset="paper", seeds=[5, 6])
    assert [(m.encoder, m.seed) for m in other.members] == [("a", 5), ("a", 6), ("b", 5), ("b", 6)]
    assert [m.seed for m in XRTransformer.ensemble(["a", "b"]).members] == [0, 0]
    opened = [BagTextEncoder(dim=8, n_buckets=64), BagTextEncoder(dim=4, n_buckets=64)]
    both = XTransformer.ensemble(opened, seeds=(0, 1), preset="tiny")
    assert [(m.encoder.dim, m.seed) for m in both.members] == [(8, 0), (8, 1), (4, 0), (4, 1)]
    with raises(ParameterError, "encoders", "preset='base'"):
        XRTransformer.ensemble()
    with raises(ParameterError, "preset", "XTransformer"):
        XTransformer.ensemble(preset="best")


# With small networks of the three kinds, made here.


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A BERT, a RoBERTa and an XLNet, as the hub has them: only the first with a pooler that was trained."""
    transformers = pytest.importorskip("transformers")
    from neural.text.tiny_bert import save_tokenizer, tiny_bert

    folder = tmp_path_factory.mktemp("networks")
    found = [tiny_bert(folder / "bert", TEXTS)]
    n_ids = save_tokenizer(folder / "roberta", TEXTS)
    save_tokenizer(folder / "xlnet", TEXTS)
    torch.manual_seed(0)
    shape = {"vocab_size": n_ids, "initializer_range": 0.2}
    roberta = transformers.RobertaConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=162,
        pad_token_id=0, **shape,
    )  # fmt: skip
    xlnet = transformers.XLNetConfig(d_model=16, n_layer=1, n_head=2, d_inner=32, pad_token_id=0, **shape)
    for kind, config in (("roberta", roberta), ("xlnet", xlnet)):
        more = {"add_pooling_layer": False} if kind == "roberta" else {}
        network = transformers.AutoModel.from_config(config, **more)
        network.save_pretrained(folder / kind)
        found.append(str(folder / kind))
    return found


def test_each_network_is_pooled_as_its_paper_does(networks: list[str]) -> None:
    poolings = [encoder_of(XTransformer(folder, preset="paper")).pooling for folder in networks]
    assert poolings == ["pooler", "cls", "last"]
    assert encoder_of(XTransformer(networks[2], preset="paper", pooling="mean")).pooling == "mean"
    assert encoder_of(XTransformer(networks[2])).pooling == "mean"


QUICK = {"matcher__max_steps": 3, "matcher__batch_size": 16, "ranker__max_leaf": 2, "device": "cpu", "n_jobs": 1}


@pytest.mark.parametrize("kind", [XTransformer, XRTransformer])
def test_an_ensemble_of_local_folders_is_fitted(kind: Any, networks: list[str], tmp_path: Path) -> None:
    given = kind.ensemble(networks, seeds=[4], preset="paper", max_length=16, matcher__accumulate=1, **QUICK)
    fitted = given.fit(TEXTS, LABELS)
    assert fitted.score(TEXTS, LABELS) > 0.9
    top = fitted.rank(TEXTS[:4], k=3, beam=2)
    fitted.save(tmp_path / "model")
    loaded = sylvan.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.rank(TEXTS[:4], k=3, beam=2).scores, top.scores, rtol=1e-4)


def test_the_loss_is_equation_15(networks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All clusters of all texts with no weight but 1, of the encoder's vectors as they are."""
    losses = calls_of(monkeypatch, layer_job, "squared_hinge")
    model = XTransformer(networks[0], preset="paper", max_length=16).set_params(matcher__accumulate=1, **QUICK)
    model.fit(TEXTS, LABELS)
    for (raw, positive, weights), _, loss in losses:
        scores = raw.detach()
        assert bool((weights == 1).all()) and scores.shape[1] == model.tree_.layer_sizes[0]
        slow = 0.0
        for row in range(len(scores)):
            for k in range(scores.shape[1]):
                y = 1.0 if bool(positive[row, k]) else -1.0
                slow += max(0.0, 1 - y * float(scores[row, k])) ** 2
        assert float(loss.detach()) == pytest.approx(slow / len(scores), rel=1e-5)
    encoder = model.encoder_
    with torch.inference_mode():
        vectors = encoder(encoder.collate(encoder.tokenize(TEXTS))).numpy()
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths.std() > 1e-3 * lengths.mean() and abs(lengths.mean() - 1) > 0.1, "they aren't of length 1"
    rows = model._text_features(TEXTS).to_scipy().toarray()
    n_terms = model.vectorizer_.n_terms_
    np.testing.assert_allclose(rows[:, n_terms:], vectors, atol=1e-5)
    table = dense_weights(model.ranker_.layers_[0])
    np.testing.assert_allclose(rows @ table, vectors @ table[n_terms:], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model.embed(TEXTS), axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("kind", [XTransformer, XRTransformer])
def test_a_model_of_vectors_as_they_are_is_saved_with_that(kind: Any, networks: list[str], tmp_path: Path) -> None:
    model = kind(networks[0], preset="paper", max_length=16).set_params(matcher__accumulate=1, **QUICK)
    model.fit(TEXTS, LABELS).save(tmp_path / "model")
    assert model.unit_vectors_ == (kind is XRTransformer)
    again = sylvan.load(tmp_path / "model")
    found, expected = (each._text_features(TEXTS).to_scipy().toarray() for each in (again, model))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    top, wanted = again.rank(TEXTS, k=3), model.rank(TEXTS, k=3)
    np.testing.assert_allclose(top.scores, wanted.scores, rtol=1e-4, atol=1e-6)
