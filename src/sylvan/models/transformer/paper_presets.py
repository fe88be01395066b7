"""The preset "paper": X-Transformer and XR-Transformer as their papers have them, each value with its source: Yu et al.
(2022), PECOS, Sections 2.3.1, 4 and 6.1; [7] Chang et al. (2020), Section 4.2, for X-Transformer; [54] Zhang et al.
(2021), Section 5, for XR-Transformer; and the settings of the authors' programs: ``run_transformer_train.sh``,
``run_transformer_predict.sh`` and ``xbert/`` of github.com/OctoberChang/X-Transformer, and ``params.json``, which is
``examples/xr-transformer-neurips21/params/eurlex-4k/bert/params.json`` of github.com/amzn/pecos. What differs by data
set is Eurlex-4K's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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
