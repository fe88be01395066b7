"""How partitions are learned: the settings that all models with learned buckets share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from sylvan.models.irli.buckets import MOST_REPETITIONS
from sylvan.params.fields import Parameterized, Range, Seed, parameterized

_NARROWEST, _WIDEST = 128, 1024  # hidden layers of "auto"; 128 is enough for 100,000 vectors
_FEWEST_QUERIES, _MOST_QUERIES = 10_000, 30_000
_SAMPLE = 20_000  # vectors whose directions are found
MOST_BUCKETS = 1 << 24
# The ranges of the settings, whose defaults each model chooses for itself.
NBuckets = Annotated[int, Range(1, MOST_BUCKETS)]
NBucketsOrAuto = Annotated[int | Literal["auto"], Range(1, MOST_BUCKETS, word="auto")]
Repetitions = Annotated[int, Range(1, MOST_REPETITIONS)]
Hidden = Annotated[int, Range(1, 1 << 20)]
HiddenOrAuto = Annotated[int | Literal["auto"], Range(1, 1 << 20, word="auto")]
Choices = Annotated[int, Range(1, MOST_BUCKETS)]
NumberOfRounds = Annotated[int | Literal["auto"], Range(0, 1000, word="auto")]
Epochs = Annotated[int, Range(1)]
FinalEpochs = Annotated[int, Range(0)]
Rate = Annotated[float, Range(0, open_low=True)]
Batch = Annotated[int, Range(1)]
Dropout = Annotated[float, Range(0, 0.99)]
Room = Annotated[float, Range(0, 1000)]


@dataclass(frozen=True)
class IndexSizes:
    """What is learned of how much."""

    n_buckets: int
    hidden: int
    n_components: int  # principal directions that the networks see; 0 where they see the vectors as they are
    n_queries: int  # rows of the base that are training queries where none are given

    @classmethod
    def of(cls, parameters: dict[str, Any], n_vectors: int, n_dimensions: int) -> IndexSizes:
        """The parameters of an index, with numbers for "auto"."""
        given = {name: None if value == "auto" else value for name, value in parameters.items()}
        n_buckets = given["n_buckets"] or buckets_for(n_vectors)
        hidden = given["hidden"] or min(max(n_buckets // 2, _NARROWEST), _WIDEST)
        n_components = given["n_components"]
        if n_components is None:
            n_components = hidden if n_dimensions >= 2 * hidden else 0
        n_queries = given["n_queries"] or min(max(n_vectors // 3, _FEWEST_QUERIES), _MOST_QUERIES)
        return cls(n_buckets, hidden, n_components if n_components < n_dimensions else 0, n_queries)


def buckets_for(n_vectors: int) -> int:
    """The number of buckets that "auto" means: about as many as vectors in a bucket."""
    return int(min(2 ** round(np.log2(max(1.0, 0.8 * np.sqrt(n_vectors)))), MOST_BUCKETS))


def principal_directions(vectors: npt.NDArray[np.float32], width: int, seed: int) -> npt.NDArray[np.float32]:
    """The orthonormal directions in which some of the vectors have the largest mean squares, largest first. The mean
    isn't taken away, so that inner products of projected vectors come near those of the vectors."""
    # Shape: vectors (n, d); returns (d, width)
    some = np.sort(np.random.default_rng([seed, 8]).permutation(len(vectors))[:_SAMPLE])
    shown = vectors[some].astype(np.float64)
    directions = np.linalg.eigh(shown.T @ shown)[1][:, ::-1]
    return np.ascontiguousarray(directions[:, :width], dtype=np.float32)


@parameterized
class LearningSettings(Parameterized):
    """How partitions and their networks are learned."""

    n_buckets: NBuckets  # the paper's B
    n_repetitions: Repetitions = 16  # the paper's R
    hidden: Hidden = 1024  # width of each network's hidden layer
    choices: Choices = 10  # buckets of most affinity from which the least loaded is chosen; the paper's K
    # re-partitions. "auto" goes on until the judge's score no longer rises or hardly a label moves. Where there is a
    # judge, the round of the best score counts, otherwise the last
    rounds: NumberOfRounds = "auto"
    epochs_per_round: Epochs = 5  # of training after each re-partition
    final_epochs: FinalEpochs = 5  # at last, on the best round's partitions, with a learning rate that falls to nothing
    learning_rate: Rate = 0.001  # of Adam
    row_learning_rate: Rate = 0.1  # of Adagrad, on the first layer of sparse inputs
    batch_size: Batch = 256
    dropout: Dropout = 0.0  # of hidden values, in training
    # soft capacity: buckets of less than so many times the mean load take the labels that like them best at once. With
    # 0, as in the paper, the least loaded is always chosen
    room: Room = 0.0
    seed: Seed = 0

    def __post_init__(self) -> None:
        self.check_params()

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> LearningSettings:
        """Those of an estimator's parameters that are settings of learning."""
        return cls(**{name: params[name] for name in cls.parameter_names() if name in params})
