"""The parameters of XR-Linear, and what follows from them alone: its index, and how each layer is trained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.validate import Csr
from sylvan.data.parts.row_parts import Rows
from sylvan.errors import DataError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.indexing.clustering import Clustering
from sylvan.indexing.embeddings import Embedding, embed_labels, embedding_bytes
from sylvan.indexing.tree import TREE
from sylvan.matching import beam as matching
from sylvan.matching.negatives import Negatives
from sylvan.models.compress import Compressible
from sylvan.models.xr.estimate import TrainingSize
from sylvan.params.fields import Choice, PerLabel, PerLayer, Range, Seed, Threads, check_value, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.calibrate import Method
from sylvan.ranking.linear import LANES, LinearOptions, Loss
from sylvan.ranking.tail import Tail
from sylvan.ranking.training import Cost, TreeTraining
from sylvan.runtime import Job, Once, Runner
from sylvan.weights.layer import WeightDtype

_Self = TypeVar("_Self", bound="XRParameters")

# Words that stand for two others, one for the layers above the last and one for the last. "paper" is what the paper
# settles on (Section 3, "Choice of Negative Sampling Schemes and Transform functions").
Scheme = Literal[Negatives, "paper"]
PAIRS = {
    "negatives": {"paper": ("tfn", "tfn+man")},
    "combine": {"paper": ("l3_hinge", "ranker"), "damped": ("l3_hinge", "l3_hinge:0.35")},
}
# "damped" after teacher forcing: its rankers know less of what lies above them.
DAMPED_TFN = "l3_hinge:0.65"
# Parameters that go together, by what they cost; benchmarks/linear/defaults.py measures them.
Preset = Literal["fast", "balanced", "accurate"]
PRESETS: Mapping[Preset, Mapping[str, Any]] = MappingProxyType({
    "fast": {"negatives": "tfn", "calibration": None},
    "balanced": {},
    "accurate": {"n_trees": 3},
})  # fmt: skip
# Features a row from which on negatives count as much as positives, and what they count for in the shortest rows. The
# shorter a row, the more of its labels it doesn't say: a search brings rows that lack a label by chance.
FULL_ROW, LEAST_NEGATIVE_COST = 30, 0.3
AUTOS = ("negative_cost", "tolerance", "max_iterations")  # what the rows choose, where it is "auto"
# Feature values times groups of labels solved side by side, up to which a training takes a moment however precisely it
# is solved; and what it's then solved with.
SMALL, PRECISE_TOLERANCE, PRECISE_ITERATIONS = 350_000, 1e-4, 300


@parameterized
class XRParameters(Compressible):
    """Base of XRLinear, whose documentation describes each parameter; those of the solver have its own defaults."""

    branching: Annotated[int, Range(2)] = 16
    max_leaf: Annotated[int, Range(1)] = 100
    beam: Annotated[int, Range(1, validate.MAX_COLUMNS)] = 10
    negatives: Annotated[Scheme | list[Scheme], PerLayer(get_args(Scheme))] = "paper"
    man_threshold: Annotated[float, Range(0, 1)] = 0.005
    loss: Loss = LinearOptions.loss
    cost: Annotated[float, Range(0, open_low=True)] = LinearOptions.cost
    positive_cost: Annotated[float, Range(0, open_low=True)] = LinearOptions.positive_cost
    negative_cost: Annotated[float | Literal["auto"], Range(0, open_low=True, word="auto")] = "auto"
    relevance: Cost | None = None
    bias: Annotated[float, Range(0)] = LinearOptions.bias
    normalize: bool = False
    scaling: Literal["auto", "none"] = "auto"
    tolerance: Annotated[float | Literal["auto"], Range(0, open_low=True, word="auto")] = "auto"
    max_iterations: Annotated[int | Literal["auto"], Range(1, 2**31 - 1, word="auto")] = "auto"
    threshold: Annotated[float, Range(0)] = LinearOptions.threshold
    max_weights_per_label: Annotated[int | None, Range(1)] = LinearOptions.max_weights_per_label
    weight_dtype: WeightDtype = "uint8"
    combine: Annotated[str | list[str], matching.Combine()] = "damped"
    embedding: Embedding = "pifa"
    clustering: Clustering = "spherical"
    overlap: Annotated[int, Range(1)] = 1
    alpha: Annotated[float | list[float] | npt.NDArray[np.float64], PerLabel(0, 1)] = 0.5
    max_features_per_label: Annotated[int | None, Range(1)] = 1024
    spectral_dimensions: Annotated[int, Range(1)] = 64
    n_trees: Annotated[int, Range(1, 1000)] = 1
    tree: LabelTree | None = None
    calibration: Method | None = "isotonic"
    calibration_folds: Annotated[int, Range(1, 100)] = 1
    tail: Annotated[str | None, Tail()] = None
    keep_rows: bool = False
    n_jobs: Threads = None
    seed: Seed = 0

    presets: ClassVar[Mapping[Preset, Mapping[str, Any]]] = PRESETS
    not_saved = ("tree",)  # it is saved as ``tree_``
    added = MappingProxyType({"max_features_per_label": 1024, "spectral_dimensions": 64, "keep_rows": False})

    @classmethod
    def preset(cls: type[_Self], name: Preset, **parameters: Any) -> _Self:
        """A model with parameters that go together, and any others.

        Parameters
        ----------
        name : {"fast", "balanced", "accurate"}
            ``"balanced"`` is the defaults. ``"fast"`` trains by teacher forcing alone: for less time, it ranks a little
            worse, most of all long texts with several labels. It isn't calibrated: its probabilities are scores.
            ``"accurate"`` is three trees instead of one.
        **parameters
            Parameters of the class, which go before the preset's.

        Raises
        ------
        ParameterError
            When there is no such preset.

        Examples
        --------
        >>> from sylvan import XRLinear
        >>> XRLinear.preset("accurate", beam=20)
        XRLinear(beam=20, n_trees=3)
        """
        check_value("name", name, Choice(tuple(PRESETS)), f"{cls.__name__}.preset")
        return cls(**{**PRESETS[name], **parameters})

    def tree_training(self, depth: int, seed: int, features: Rows, length: float = 1.0) -> TreeTraining:
        """How the rankers of one tree are trained on these rows of about this length."""
        names = [field.name for field in dataclasses.fields(LinearOptions) if field.name != "seed"]
        given = {name: getattr(self, name) for name in names} | self.by_the_rows(features, depth)
        linear = LinearOptions(**given, seed=seed)
        return TreeTraining(
            self.per_layer("negatives", depth), self.per_layer("combine", depth), self.beam,
            linear.for_rows_of(length), self.weight_dtype, self.man_threshold, self.relevance,
        )  # fmt: skip

    def by_the_rows(self, features: Rows, depth: int, n_entries: int | None = None) -> dict[str, float]:
        """The solver's parameters that are "auto", as the rows decide; with ``n_entries`` in all, if there are more."""
        n_entries = features.nnz if n_entries is None else n_entries
        small = n_entries * -(-self.max_leaf // LANES) <= SMALL
        choices = {
            "negative_cost": self._cost_of_negatives(features, depth),
            "tolerance": PRECISE_TOLERANCE if small else LinearOptions.tolerance,
            "max_iterations": PRECISE_ITERATIONS if small else LinearOptions.max_iterations,
        }
        return {name: value for name, value in choices.items() if getattr(self, name) == "auto"}

    def _cost_of_negatives(self, features: Rows, depth: int) -> float:
        """The usual number of features of a row, in thirtieths, for matcher-aware negatives; 1 for teacher forcing."""
        entries = np.diff(features.indptr)
        entries = entries[entries > 0]
        if not entries.size or self.per_layer("negatives", depth)[-1] == "tfn":
            return 1.0
        return float(np.clip(np.median(entries) / FULL_ROW, LEAST_NEGATIVE_COST, 1.0))

    def per_layer(self, name: str, depth: int) -> list[str]:
        """A parameter that is one word or one a layer, as one a layer."""
        value, pairs = getattr(self, name), PAIRS[name]
        if isinstance(value, str) and value not in pairs:
            return [value] * depth
        if isinstance(value, str):
            words = [value] * depth
        elif len(value) == depth:
            words = list(value)
        else:
            raise ParameterError(
                f"The {name!r} parameter of XRLinear names {counted(len(value), 'layer')}, but the tree has {depth}."
            )
        damped = words[-1] == "damped"
        words = [pairs.get(word, (word, word))[t == depth - 1] for t, word in enumerate(words)]
        if damped and self.per_layer("negatives", depth)[-1] == "tfn":
            words[-1] = DAMPED_TFN
        if name == "combine" and len(set(words)) > 1:
            matching.hinge_power(words)
        return words

    def seeds(self) -> list[int]:
        """The seed of each tree."""
        return [(int(self.seed) + number * 1_000_003) % 2**31 for number in range(self.n_trees)]

    def build_trees(
        self, features: Rows, labels: Csr, run: Runner, label_features: Any = None, label_embeddings: Any = None
    ) -> list[LabelTree]:
        """Phase 1: the trees, all before any ranker, so that the embeddings needn't stay."""
        if self.tree is not None:
            if self.tree.n_labels != labels.shape[1]:
                raise DataError(f"The tree has {counted(self.tree.n_labels, 'label')}, but Y has shape {labels.shape}.")
            return [self.tree]
        if labels.shape[1] <= self.max_leaf:
            return [LabelTree.flat(labels.shape[1])] * self.n_trees

        given = {
            "features": features, "labels": labels, "embedding": self.embedding, "alpha": self.alpha,
            "max_features_per_label": self.max_features_per_label, "spectral_dimensions": self.spectral_dimensions,
            "seed": self.seed, "n_jobs": run.n_jobs, "zeros": run.zeros_briefly, "runner": run,
            "label_features": label_features, "label_embeddings": label_embeddings,
        }  # fmt: skip
        shape = {
            "embeddings": Once(Job("embeddings", embed_labels, given)), "branching": self.branching,
            "max_leaf": self.max_leaf, "clustering": self.clustering, "overlap": self.overlap, "n_jobs": run.n_jobs,
            "runner": run,
        }  # fmt: skip
        jobs = [
            Job(f"tree{at}.tree", LabelTree.build, {**shape, "seed": seed}, packing=TREE)
            for at, seed in enumerate(self.seeds())
        ]
        return [run.one(job) for job in jobs]

    def index_bytes(self, size: TrainingSize) -> int:
        """What clustering the labels takes at its worst."""
        if self.tree is not None or size.n_labels <= self.max_leaf:
            return 0
        n_entries = size.n_entries * size.n_positives // max(1, size.n_rows)  # of each label's rows
        return embedding_bytes(size.n_labels, n_entries, size.n_positives, self.max_features_per_label)

    def check_params_for(self, shape: tuple[int, ...]) -> None:
        """Check what a given tree and Y's shape allow the parameters to be.

        Raises
        ------
        ParameterError
        """
        if self.tree is not None and self.n_trees > 1:
            raise ParameterError(
                f"The 'n_trees' parameter of XRLinear must be 1 beside a given tree. Got {self.n_trees} instead."
            )
        if np.shape(self.alpha) not in {(), (shape[1],)}:
            raise ParameterError(
                f"The 'alpha' parameter of XRLinear has {counted(np.size(self.alpha), 'number')}, but Y has shape "
                f"{shape}: one for all labels, or one for each, is needed."
            )

    def _plain_params(self) -> dict[str, Any]:
        params = super()._plain_params()
        return params if np.ndim(self.alpha) == 0 else {**params, "alpha": None}  # it is saved as an array

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        params = super()._params_from(state)
        if params["alpha"] is None:
            n_labels = store.need_int(state, "n_labels", 1, validate.MAX_COLUMNS)
            params["alpha"] = store.need_range(state, "alpha", 0, 1, np.float64, (n_labels,))
        return params

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        meta, arrays, parts = super()._fitted_state()
        if np.ndim(self.alpha) > 0:
            arrays["alpha"] = np.asarray(self.alpha, dtype=np.float64)
        return meta, arrays, parts
