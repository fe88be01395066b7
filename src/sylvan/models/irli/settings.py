"""How partitions are learned: the settings that all models with learned buckets share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from sylvan.models.irli.buckets import MOST_REPETITIONS
from sylvan.params.fields import Parameterized, Range, Seed, parameterized

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
