"""TransformerMatcher: how a text encoder is fine-tuned to match texts with the nodes of a label tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np

from sylvan.errors import ParameterError
from sylvan.params.fields import Constraint, Number, Parameterized, Range, parameterized
from sylvan.params.wording import counted
from sylvan.ranking.training import Cost

# The rates of each kind of encoder: a bag of words begins with nothing, networks and sentence encoders are pretrained.
KINDS: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "bag": {"learning_rate": 0.005, "label_learning_rate": 0.15},
    "network": {"learning_rate": 1e-4, "label_learning_rate": 0.01},
    "sentence": {"learning_rate": 1e-4, "label_learning_rate": 0.01},
})  # fmt: skip


@dataclass(frozen=True)
class EachLayer(Constraint):
    """A number for every layer, or a list of them, one a layer."""

    number: Range

    def accepts(self, value: Any) -> bool:
        values = value if isinstance(value, (list, tuple)) else [value]
        return len(values) > 0 and all(self._accepts_one(one) for one in values)

    def _accepts_one(self, value: Any) -> bool:
        return self.optional if value is None else self.number.accepts(value)

    def describe(self) -> str:
        words = f"{self.number.describe()}, or a list of them, one a layer that is trained"
        return f"{words}, or None" if self.optional else words

    def _parse(self, text: str) -> Any:
        words = text.split(",")
        return [self.number.kind(word) for word in words] if len(words) > 1 else self.number.kind(text)


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
        Who finds these nodes: linear rankers solved anew on the current embeddings, or the network itself by the
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
        Steps within a layer after which the layer above is searched anew with the current embeddings; by default only
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
    epochs: Annotated[float | Sequence[float], EachLayer(Number(float, 0, open_low=True))] = 1.0
    max_steps: Annotated[int | Sequence[int] | None, EachLayer(Number(int, 1))] = None
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
        """See that what is given layer by layer has as many values as layers that are trained.

        Raises
        ------
        ParameterError
        """
        for name in ("epochs", "max_steps"):
            value = getattr(self, name)
            if isinstance(value, (list, tuple)) and len(value) != n_layers:
                are = "is" if n_layers == 1 else "are"
                raise ParameterError(
                    f"The {name!r} parameter of TransformerMatcher names {counted(len(value), 'layer')}, but "
                    f"{n_layers} {are} trained."
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

    def steps(self, n_rows: int, at: int, accumulate: int) -> int:
        """Steps of the layer that is trained as number ``at``, on ``n_rows`` texts, ``accumulate`` batches a step."""
        each_epoch = -(-n_rows // (self.batch_size * accumulate))
        wanted = max(1, round(float(_at(self.epochs, at)) * each_epoch))
        most = _at(self.max_steps, at)
        return wanted if most is None else min(wanted, int(most))


def _at(value: Any, at: int) -> Any:
    return value[at] if isinstance(value, (list, tuple)) else value
