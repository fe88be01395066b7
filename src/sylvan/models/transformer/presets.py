"""How the encoder of a transformer is fine-tuned, and the parameters of its parts that have proved good, by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from sylvan.errors import ParameterError
from sylvan.models.xr.xr_linear import XRLinear
from sylvan.params.fields import Parameterized, Range, parameterized
from sylvan.params.wording import are, counted
from sylvan.ranking.training import Cost
from sylvan.text import StaticEncoder, TfidfVectorizer

if TYPE_CHECKING:
    from sylvan.neural import TextEncoder

# The rates of each kind of encoder: a bag of words begins with nothing, networks and sentence encoders are pretrained.
KINDS: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "bag": {"learning_rate": 0.005, "label_learning_rate": 0.15},
    "network": {"learning_rate": 1e-4, "label_learning_rate": 0.01},
    "sentence": {"learning_rate": 1e-4, "label_learning_rate": 0.01},
})  # fmt: skip


@dataclass(frozen=True)
class EachLayer(Range):
    """A number for every layer, or a list of them, one a layer."""

    def accepts(self, value: Any) -> bool:
        values, accepts = value if isinstance(value, (list, tuple)) else [value], super().accepts
        return len(values) > 0 and all(self.optional if v is None else accepts(v) for v in values)

    def describe(self) -> str:
        words = f"{super().describe().removesuffix(' or None')}, or a list of them, one a layer that is trained"
        return f"{words}, or None" if self.optional else words

    def _parse(self, text: str) -> Any:
        return [self.kind(word) for word in text.split(",")] if "," in text else self.kind(text)


@parameterized
class TransformerMatcher(Parameterized):
    """How the encoder of an :class:`~sylvan.XRTransformer` or :class:`~sylvan.XTransformer` is fine-tuned.

    Parameters
    ----------
    learning_rate : float, optional
        Of AdamW, for all of the encoder but its tables with sparse gradients; the highest of its schedule. None for
        what suits the encoder: 0.005 for a bag of words, 0.0001 for a network (0.00005 with ``preset="paper"``).
    row_learning_rate : float, default 0.3
        Of the encoder's tables with sparse gradients (those of a bag of words), by ``optimizer``.
    label_learning_rate : float, optional
        Of the vectors of the layer's nodes, by ``optimizer``. None for what suits the encoder: 0.15 for a bag of words,
        0.01 for a network.
    optimizer : {"rowwise-adagrad", "sparse-adam"}, default "rowwise-adagrad"
        Of everything with sparse gradients. ``"rowwise-adagrad"`` stores one number a row; ``"sparse-adam"`` two more
        tables, and takes longer. The rates above are the first's; the second wants a tenth of them.
    weight_decay : float, default 0.01
        Of AdamW; biases and the scales of normalisations have none.
    batch_size : int, default 32
        Texts a batch.
    accumulate : int, default 1
        Batches whose gradients make one step.
    epochs : float or list of float, default 1.0
        Passes over the texts in each layer, or one number a layer; half a pass is 0.5.
    max_steps : int or list of int, optional
        Most steps of a layer, or one number a layer.
    warmup : float in [0, 1], default 0.1
        Share of a layer's steps in which the rates rise; they fall to 0 over all the others.
    clip_norm : float, optional, default 1.0
        The most that the gradients' common norm may be.
    precision : {"auto", "no", "bf16", "fp16"}, default "auto"
        What the forward pass computes in; ``"auto"`` is bf16 on a GPU that has it, else float32.
    lora_rank : int, optional
        Train low-rank additions to the encoder in place of all its weights (needs peft).
    gradient_checkpointing : bool, default False
        Compute activations again in place of storing them: less memory, about a third more time.
    max_nodes : int, default 32768
        XRTransformer isn't fine-tuned on layers with more nodes, only ranks them. XTransformer has at most so many
        clusters: where the ranker's ``max_leaf`` would make more of them, those of the layer above are taken.
    beam : int, default 20
        Nodes of the layer above whose children are candidates, beside those with a positive below them.
    negatives_from : {"rankers", "network"}, default "rankers"
        Who finds these nodes: linear rankers solved again on the current embeddings, or the network itself by the
        vectors that it has learned for the layers above, as in the paper (its layers that aren't trained have rankers
        in either case). The rankers that a layer's vectors begin with are then trained where the network looks.
    normalize : bool, default True
        Whether a score is a node's vector times the text's at length 1; otherwise times the text's as the encoder gives
        it, as in Eq. 15, and XTransformer's rankers then see it so too.
    relevance : {"l1", "l2", "max", "count", "none"}, default "l1"
        The norm of costs by recursive label counts; ``"count"`` for these counts, ``"none"`` for no costs. See
        :func:`~sylvan.ranking.training.cost_weights`.
    negative_cost : float, default 0.1
        Factor of a negative's loss.
    bootstrap : bool, default True
        Whether a layer's vectors begin with the linear ranker's on the current embeddings; otherwise with zeros.
    bootstrap_cost : float, default 1.0
        That ranker's cost.
    bootstrap_relevance : {"l1", "l2", "max", "count", "none"}, default "none"
        Its costs of positives, as ``relevance``.
    refresh : int, optional
        Steps within a layer after which the layer above is searched again with the current embeddings; by default only
        when a layer begins.
    holdout : int, default 0
        Texts that aren't trained on (a tenth of all at most), on which a layer is measured by P@5 (P@1 where a text has
        fewer than 10 candidates) and the best model taken, the last of equal ones; 0 for none.
    evaluations : int, default 4
        Measurements a layer, the last at its end. With a holdout there is one more before it begins: a layer that only
        gets worse stays as it was.
    patience : int, optional
        A layer ends after so many measurements in a row without a better one.

    Notes
    -----
    Zhang, Chang, Yu & Dhillon (2021), "Fast multi-resolution transformer fine-tuning for extreme multi-label text
    classification", Section 3.

    Examples
    --------
    >>> from sylvan import TransformerMatcher, XRTransformer
    >>> model = XRTransformer("bag", matcher=TransformerMatcher(epochs=2.0, batch_size=64))
    >>> model.set_params(matcher__epochs=[1.0, 0.5]).matcher
    TransformerMatcher(batch_size=64, epochs=[1.0, 0.5])
    """

    learning_rate: Annotated[float | None, Range(0)] = None
    row_learning_rate: Annotated[float, Range(0, open_low=True)] = 0.3
    label_learning_rate: Annotated[float | None, Range(0, open_low=True)] = None
    optimizer: Literal["rowwise-adagrad", "sparse-adam"] = "rowwise-adagrad"
    weight_decay: Annotated[float, Range(0)] = 0.01
    batch_size: Annotated[int, Range(1)] = 32
    accumulate: Annotated[int, Range(1)] = 1
    epochs: Annotated[float | Sequence[float], EachLayer(0, open_low=True)] = 1.0
    max_steps: Annotated[int | Sequence[int] | None, EachLayer(1)] = None
    warmup: Annotated[float, Range(0, 1)] = 0.1
    clip_norm: Annotated[float | None, Range(0, open_low=True)] = 1.0
    precision: Literal["auto", "no", "bf16", "fp16"] = "auto"
    lora_rank: Annotated[int | None, Range(1)] = None
    gradient_checkpointing: bool = False
    max_nodes: Annotated[int, Range(1)] = 32768
    beam: Annotated[int, Range(1)] = 20
    negatives_from: Literal["rankers", "network"] = "rankers"
    normalize: bool = True
    relevance: Cost = "l1"
    negative_cost: Annotated[float, Range(0, open_low=True)] = 0.1
    bootstrap: bool = True
    bootstrap_cost: Annotated[float, Range(0, open_low=True)] = 1.0
    bootstrap_relevance: Cost = "none"
    refresh: Annotated[int | None, Range(1)] = None
    holdout: Annotated[int, Range(0)] = 0
    evaluations: Annotated[int, Range(1)] = 4
    patience: Annotated[int | None, Range(1)] = None

    def check_params(self, names: Sequence[str] | None = None) -> None:
        """Hold every parameter's range, and that there is a holdout for ``patience``."""
        super().check_params(names)
        if self.patience is not None and not self.holdout:
            raise ParameterError(
                "The 'patience' parameter of TransformerMatcher needs a 'holdout' to measure by, of at least 1 text. "
                "Got holdout=0 instead."
            )

    def check_layers(self, n_layers: int) -> None:
        """Check that parameters given layer by layer have as many values as there are trained layers.

        Raises
        ------
        ParameterError
        """
        for name in ("epochs", "max_steps"):
            value = getattr(self, name)
            if isinstance(value, (list, tuple)) and len(value) != n_layers:
                raise ParameterError(
                    f"The {name!r} parameter of TransformerMatcher names {counted(len(value), 'layer')}, but "
                    f"{n_layers} {are(n_layers)} trained."
                )

    def suited(self, kind: str, rates: Mapping[str, Any] = MappingProxyType({})) -> TransformerMatcher:
        """The same with numbers where None stands for what suits the encoder.

        Parameters
        ----------
        kind : {"bag", "network", "sentence"}
            Of the encoder.
        rates : mapping of str to float
            What goes before the kind's own, by the name of the parameter; other names aren't looked at.
        """
        params = self.get_params(deep=False)
        for name, rate in KINDS[kind].items():
            params[name] = rates.get(name, rate) if params[name] is None else params[name]
        plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in params.items()}
        return TransformerMatcher(**plain)  # plain, as NumPy's small integers overflow

    def steps(self, n_rows: int, layer: int, accumulate: int) -> int:
        """Steps for the layer trained as number ``layer``, on ``n_rows`` texts, ``accumulate`` batches a step."""
        each_epoch = -(-n_rows // (self.batch_size * accumulate))
        wanted = max(1, round(float(_at(self.epochs, layer)) * each_epoch))
        most = _at(self.max_steps, layer)
        return wanted if most is None else min(wanted, int(most))


def _at(value: Any, layer: int) -> Any:
    return value[layer] if isinstance(value, (list, tuple)) else value


# Eq. 9 and 10 as they stand, and features as they are.
_AS_WRITTEN: Mapping[str, Any] = {
    "scaling": "none", "normalize": False,  # 4: x is the two side by side, and nothing else is done to it
    "cost": 1.0, "positive_cost": 1.0, "bias": 1.0,  # xbert/ranker.py --Cp 1 --bias 1; params.json Cp 1, bias 1
    "tolerance": 0.1, "max_iterations": 100,  # params.json eps 0.1, max_iter 100; xbert/ranker.py max_iter=100
    "negatives": "paper", "man_threshold": 0.0,  # 2.3.1: the union of TFN and MAN, of all that the matcher finds
    "combine": "paper",  # run_transformer_predict.sh -t noop; params.json l3-hinge above the last layer, noop there
    "embedding": "pifa", "clustering": "spherical",  # 6.1: PIFA; xbert/indexer.py SKMEANS; params.json spherical
    "calibration": None, "weight_dtype": "float32", "n_trees": 1,  # 6.1: several trees are several models
}  # fmt: skip
_TRAINING: Mapping[str, Any] = {
    "normalize": False,  # Eq. 15: w times the text's vector as the encoder gives it
    "negative_cost": 1.0,  # Eq. 15: negatives count as positives do
    "optimizer": "sparse-adam",  # 4: a variant of Adam, for the nodes' vectors too
    "row_learning_rate": 0.03,  # of bags of words alone, which the papers don't have
    "weight_decay": 0.0,  # xbert/transformer.py --weight_decay 0; params.json weight_decay 0
    "clip_norm": 1.0,  # xbert/transformer.py --max_grad_norm 1; params.json max_grad_norm 1
    "precision": "no",  # run_transformer_train.sh: fp32
    "epochs": 1000.0,  # steps decide
}  # fmt: skip
_RATES = {"learning_rate": 5e-5, "label_learning_rate": 5e-5}  # LEARNING_RATE=5e-5; params.json learning_rate 5e-5
_SHARED: Mapping[str, Any] = {
    "max_length": 128,  # 4, "Training Efficiency": T = 128; params.json truncate_length 128
    "dense_scale": 1.0,  # 4: the vectors beside TF-IDF's as they are
    "vectorizer": {},
    # Pooled by BERT's own pooler; RoBERTa's and XLNet's have none that was trained: the vector of the token that those
    # programs put a new layer on, <s> and the last one.
    "pooling": {"bert": "pooler", "roberta": "cls", "xlnet": "last"},
    "network": _RATES, "sentence": _RATES, "bag": {"label_learning_rate": 0.015},
}  # fmt: skip
# By the kind of model.
PAPER: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "x-transformer": {
        **_SHARED,
        # 4, "Choice of Deep Text Vectorizers": large, cased, 24 layers; the names by run_transformer_train.sh.
        "encoder": "bert-large-cased-whole-word-masking",
        "encoders": ("bert-large-cased-whole-word-masking", "roberta-large", "xlnet-large-cased"),
        "seeds": (0, 1, 2),  # 6.1: nine models, three encoders with three trees each
        "matcher": {
            **_TRAINING,
            "relevance": "none",  # Eq. 15 has no cost weights
            "bootstrap": False,  # [7] begins with new vectors
            "batch_size": 128, "accumulate": 2,  # PER_DEVICE_TRN_BSZ=16 on 8 GPUs, GRAD_ACCU_STEPS=2
            "max_steps": 1000, "warmup": 0.1,  # MAX_STEPS=1000, WARMUP_STEPS=100
        },
        "ranker": {
            **_AS_WRITTEN,
            "branching": 2, "max_leaf": 100,  # xbert/indexer.py --kdim 2, estimate_depth_with_cluster_size(100)
            "beam": 10,  # xbert/transformer.py --only_topk 10
            "negative_cost": 1.0, "threshold": 0.01,  # xbert/ranker.py --Cn 1; run_transformer_predict.sh -t 0.01
        },
    },
    "xr-transformer": {
        **_SHARED,
        "encoder": "bert-base-uncased",  # params.json model_shortcut
        "encoders": ("bert-base-uncased", "roberta-base", "xlnet-base-cased"),
        "seeds": None,  # 6.1: three models, three encoders; params.json seed 0, 1 and 2
        "matcher": {
            **_TRAINING,
            "relevance": "count",  # 5.2: costs by the coarser labels' counts; params.json weighted-squared-hinge
            "beam": 5, "negatives_from": "network",  # only_topk 5; 2.3.1: clusters that the matcher itself predicts
            # bootstrap_method weighted-linear, of which pecos/xmc/xtransformer/network.py has Cp = Cn = 100.
            "bootstrap": True, "bootstrap_cost": 100.0, "bootstrap_relevance": "count",
            "batch_size": 32,  # params.json batch_size 32
            # max_steps 600, 800 and 1,200 in Eurlex-4K's three layers: their mean, as other trees have other depths.
            "max_steps": 867, "warmup": 100 / 867,  # warmup_steps 100
            "max_nodes": 32768,  # max_match_clusters 32768
        },
        "ranker": {
            **_AS_WRITTEN,
            "relevance": "l1",  # rel_mode induce, rel_norm l1
            "branching": 16, "max_leaf": 16,  # preliminary_indexer_params nr_splits 16, max_leaf_size 16
            "beam": 75,  # HierarchicalMLModel.PredParams only_topk 75
            "negative_cost": 2.0, "threshold": 0.001,  # Cn 2.0, threshold 0.001
        },
    },
})  # fmt: skip
PARTS: Mapping[str, type[Parameterized]] = MappingProxyType({
    "vectorizer": TfidfVectorizer, "matcher": TransformerMatcher, "ranker": XRLinear,
})  # fmt: skip
# By preset, or by preset and kind of model: the encoder, the length of its vectors, and of each part the parameters
# that aren't at their default. What is said of one kind of encoder alone stands under the kind's name.
# Features and negatives, and scores: the encoder has seen the rows that would calibrate them.
_AS_THEY_ARE = {"scaling": "none", "negative_cost": 1.0, "man_threshold": 0.0, "calibration": None}
Preset = Literal["tiny", "base", "paper"]
PRESETS: Mapping[Preset, Mapping[str, Any]] = MappingProxyType({
    "tiny": {
        "encoder": "bag", "new_bag": {"dim": 64, "n_buckets": 1 << 14}, "dense_scale": 1.0,
        "vectorizer": {}, "matcher": {"epochs": 5.0},
        "ranker": {"negatives": "tfn", "combine": "l3_hinge", **_AS_THEY_ARE},
    },
    "base": {
        "encoder": "sentence-transformers/all-MiniLM-L6-v2", "dense_scale": 0.75,
        "vectorizer": {"sublinear_tf": True}, "matcher": {},
        "ranker": {"negatives": "paper", "combine": "paper", "threshold": 0.05, "n_trees": 3, **_AS_THEY_ARE},
    },
    "paper": PAPER,
})  # fmt: skip
# What a kind of encoder wants whatever the preset. A bag sees the words that TF-IDF has too, and knows those it was
# trained on all too well: long vectors of it mislead the rankers (python -m benchmarks.transformers.dense_scale).
_KINDS: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "bag": {"max_length": 256, "dense_scale": 0.02}, "network": {"max_length": 128}, "sentence": {"max_length": 128},
})  # fmt: skip


def said(preset: Preset, model_kind: str) -> Mapping[str, Any]:
    """What a preset says of a kind of model: "x-transformer" or "xr-transformer"."""
    says = PRESETS[preset]
    settings: Mapping[str, Any] = says.get(model_kind, says)
    return settings


def preset_part(preset: Preset, model_kind: str, name: str) -> Any:
    """A new vectorizer, matcher or ranker as the preset has it."""
    one_tree = {"n_trees": 1} if (model_kind, name) == ("x-transformer", "ranker") else {}
    return PARTS[name](**{**said(preset, model_kind)[name], **one_tree})


def ensemble_of(
    preset: Preset, model_kind: str, encoders: Sequence[Any] | None, seeds: Sequence[int] | None
) -> list[tuple[Any, int]]:
    """The encoder and the seed of each of an ensemble's members; None for what the preset says."""
    says = said(preset, model_kind)
    if encoders is None:
        if "encoders" not in says:
            raise ParameterError(
                f"The 'encoders' parameter of ensemble must be given with preset={preset!r}: only the preset 'paper' "
                "has several of its own. Got None instead."
            )
        encoders = says["encoders"]
    if seeds is None and says.get("seeds", ()) is None:
        return list(zip(encoders, range(len(encoders)), strict=True))  # each its own
    return [(encoder, seed) for encoder in encoders for seed in (seeds or says.get("seeds", (0,)))]


def value_of(model: Any, name: str, kind: str) -> Any:
    """A model's parameter, or where it is None the preset's for that kind of encoder; None where there is none either.
    What belongs to a kind goes before what the preset says of all."""
    value = getattr(model, name)
    says_all = said(model.preset, model.kind)
    for says in (says_all.get(kind, {}), _KINDS[kind], says_all):
        value = says.get(name) if value is None else value
    return value.item() if isinstance(value, np.generic) else value  # NumPy's small numbers overflow


def matcher_of(model: Any, kind: str) -> TransformerMatcher:
    """A model's matcher, with the rates that suit a kind of encoder where it has none of its own."""
    matcher: TransformerMatcher = model.part("matcher")
    return matcher.suited(kind, said(model.preset, model.kind).get(kind, {}))


def vectorizer_of(model: Any) -> TfidfVectorizer:
    """A new vectorizer as the model's, with its threads."""
    return TfidfVectorizer(**{**model.part("vectorizer").get_params(), "n_jobs": model.n_jobs})


def ranker_of(model: Any) -> XRLinear:
    """A new linear ranker as the model's, with its threads and its seed."""
    return XRLinear(**{**model.part("ranker").get_params(deep=False), "n_jobs": model.n_jobs, "seed": model.seed})


def encoder_of(model: Any) -> TextEncoder:
    """The encoder that the model names, its weights read; a copy where it was given one that is to be trained."""
    from sylvan.neural.text import network_encoder
    from sylvan.neural.text.bag_text_encoder import BagTextEncoder

    preset, matcher = said(model.preset, model.kind), model.part("matcher")
    source = preset["encoder"] if model.encoder is None else model.encoder
    settings: dict[str, Any] = {"pooling": model.pooling}
    settings.update({name: getattr(matcher, name) for name in ("lora_rank", "gradient_checkpointing")})
    if not isinstance(source, (str, os.PathLike)):
        if isinstance(source, StaticEncoder):
            raise network_encoder.untrained(os.fspath(source.source))
        network_encoder.refuse_beside(source, max_length=model.max_length, **settings)
        encoder: TextEncoder = source if model.frozen else source.copy()
        return encoder.load()
    kind = network_encoder.encoder_kind(source)
    if source == "bag":
        network_encoder.refuse_of_bags(**settings)
        max_length = value_of(model, "max_length", kind)
        new = preset.get("new_bag", {})
        return BagTextEncoder(**new, max_length=max_length, frozen=model.frozen, seed=model.seed).load()
    settings["max_length"] = model.max_length
    if kind != "bag":  # whose folder says how long its texts may be, and whose vectors are pooled
        settings["max_length"] = value_of(model, "max_length", kind)
        if kind == "network" and model.pooling is None and "pooling" in preset:  # other folders say how they pool
            settings["pooling"] = preset["pooling"].get(network_encoder.architecture(source), "cls")
    return network_encoder.open_encoder(source, **settings, frozen=model.frozen, seed=model.seed)


def kind_of(encoder: TextEncoder) -> str:
    """Which kind an opened encoder is: "bag", "sentence", or "network", as which one of another class counts."""
    from sylvan.neural import BagTextEncoder, SentenceEncoder

    kinds = ((BagTextEncoder, "bag"), (SentenceEncoder, "sentence"))
    return next((kind for of, kind in kinds if isinstance(encoder, of)), "network")
