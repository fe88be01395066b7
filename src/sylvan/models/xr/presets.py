"""Parameters of XRLinear that go together, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

# Parameters that go together, by what they cost; benchmarks/linear/defaults.py measures them. "paper" is what PECOS
# says of XR-Linear, by section, or what its authors' xlinear/train.py has (--names) where the text is silent.
Preset = Literal["fast", "balanced", "accurate", "paper"]
PRESETS: Mapping[Preset, Mapping[str, Any]] = MappingProxyType({
    "fast": {"negatives": "tfn", "calibration": None},
    "balanced": {},
    "accurate": {"n_trees": 3},
    "paper": {
        "branching": 32, "n_trees": 3, "beam": 10,  # 6.1: B = 32, b = 10, three trees
        "max_leaf": 100,  # 3.1: L / B^(D-1) is a small constant such as 100, which gives every D of Table 6
        "embedding": "pifa", "max_features_per_label": None,  # 6.1, 2.1.1: all that X^T Y holds
        "clustering": "spherical", "overlap": 1,  # 2.1.2 allows both kinds of k-means: --spherical true
        "negatives": "paper", "man_threshold": 0.0,  # 3: TFN, and TFN + MAN in the last layer, of the whole beam
        "combine": "paper:nested",  # 3: Eq. 13 with p = 3 of both scores, and Eq. 12 in the last layer
        "loss": "squared_hinge", "relevance": None,  # Eq. 9: every loss counts once; -s L2R_L2LOSS_SVC_DUAL
        "cost": 1.0, "positive_cost": 1.0, "negative_cost": 1.0,  # Eq. 9; --Cp 1 --Cn 1
        "scaling": "none", "normalize": False,  # 2.3.2: x as it is
        "bias": 1.0, "threshold": 0.1, "max_weights_per_label": None,  # --bias 1 --threshold 0.1; 3: epsilon >= 0
        "tolerance": 0.1, "max_iterations": 100,  # MLModel.TrainParams: eps 0.1, max_iter 100
        "weight_dtype": "float32", "calibration": None, "tail": None,  # 2.5: scores and their order, nothing after
    },
})  # fmt: skip
