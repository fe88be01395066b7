"""What samplers, losses, heads and encoders refuse where they are made: all that their parameters' ranges exclude.

The ranges are in ``tests/defaults.txt``. Estimators refuse when they are fitted: ``tests/contract``.
"""

from typing import Any

import pytest
from kit.errors import raises

torch = pytest.importorskip("torch")

from sylvan import neural, sampling  # noqa: E402
from sylvan.errors import ParameterError  # noqa: E402
from sylvan.indexing import balanced_tree  # noqa: E402
from sylvan.params.fields import Parameterized  # noqa: E402
from sylvan.sampling import Subset, Uniform  # noqa: E402

ONES = [1.0] * 6
CLASSES, TABLE, DRAWS = {"n_classes": 6}, {"n_classes": 6, "dim": 3}, {"sampler": Uniform(6), "n_samples": 2}
INDEX, ITEMS, INPUTS = {**TABLE, "n_codewords": 2}, {"n_items": 9}, {"n_inputs": 9}
NEEDED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("Uniform", "LogUniform", "InBatch"), CLASSES), "Unigram": {**CLASSES, "counts": ONES},
    **dict.fromkeys(("Softmax", "LSH", "RFF", "Sphere"), TABLE),
    **dict.fromkeys(("MIDX", "ExactMIDX"), INDEX),
    "Subset": {"n_classes": 9, "sampler": Uniform(6), "classes": range(6)},
    **dict.fromkeys(("SampledSoftmaxLoss", "NCELoss", "NegativeSamplingLoss", "BlackOutLoss", "OneVsEachLoss"), DRAWS),
    "FullSoftmaxLoss": {}, "HeadAndTailLoss": {"sampler": Subset(9, Uniform(6), range(6)), "n_samples": 2},
    "CANELoss": {"candidates": lambda queries, table: None, "noise": Uniform(6)},
    "FrequencySubsets": {"counts": ONES, "n_subsets": 2, "n_candidates": 2, "dim": 3},
    "BeamTreeHead": {"dim": 3, "tree": balanced_tree(range(6), 2)},
    "BagEncoder": {"n_features": 9}, "Engine": {"device": "cpu"}, "RefreshSchedule": {},
    "WarmupSchedule": {"steps": 9}, **dict.fromkeys(("SASRec", "GRU4Rec"), ITEMS),
    **dict.fromkeys(("LSTMEncoder", "CausalTransformer"), INPUTS),
}  # fmt: skip
OTHERS = {"ClassLoss", "Sampler", "SequenceEncoder", "TextEncoder"}  # bases
LATER = {"BagTextEncoder", "TransformerEncoder", "SentenceEncoder"}  # which refuse when they are loaded
BAD = (object(), "nonsense", [object()], -1, 0, 1.5, float("nan"), True, 2**70)


def test_every_class_is_asked() -> None:
    kinds = {name: getattr(module, name) for module in (sampling, neural) for name in module.__all__}
    declared = {name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Parameterized)}
    assert declared == {*NEEDED, *OTHERS, *LATER}


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_out_of_a_range_is_refused_by_its_name(name: str) -> None:
    kind: Any = getattr(sampling, name, None) or getattr(neural, name)
    kind(**NEEDED[name])
    refused = [(each, bad) for each, range_ in kind.constraints.items() for bad in BAD if not range_.accepts(bad)]
    assert refused
    for parameter, bad in refused:
        with raises(ParameterError, parameter, name):
            kind(**{**NEEDED[name], parameter: bad})
