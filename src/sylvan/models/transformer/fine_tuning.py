"""The matcher of X-Transformer and XR-Transformer: one encoder, fine-tuned layer by layer from coarse to fine."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan import store
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.matching.negatives import layer_positives
from sylvan.models.transformer.cost_weights import cost_weights, relevance_layers
from sylvan.models.transformer.label_layer import LabelLayer, dense_table, table_weights
from sylvan.models.transformer.layer_candidates import LayerCandidates, coverage
from sylvan.models.transformer.layer_job import LayerData, LayerJob
from sylvan.models.transformer.presets import kind_of
from sylvan.models.transformer.start import LinearStart
from sylvan.models.transformer.transformer_matcher import TransformerMatcher
from sylvan.neural.loop.checkpoint import has_checkpoint
from sylvan.neural.loop.engine import AsItIs, Engine
from sylvan.neural.loop.gradients import finite
from sylvan.neural.loop.history import History, to_json
from sylvan.neural.loop.state_tree import load_tree, save_tree
from sylvan.neural.loop.training import train
from sylvan.neural.text.embedding import embed
from sylvan.neural.text.text_encoder import TextEncoder
from sylvan.neural.text.token_rows import TokenRows
from sylvan.runtime.checkpoint import checksum
from sylvan.validate import Csr
from sylvan.weights import ClusterWeights

__all__ = ["FineTuned", "TunedLayer", "fine_tune"]

_LAYER_KIND, _ENCODER_KIND = "deep-layer", "deep-encoder"


@dataclass(frozen=True, eq=False)
class TunedLayer:
    """A layer that was trained.

    Attributes
    ----------
    layer : int
        Which of the tree.
    table : ndarray of float32, shape (n_nodes, dim)
        A vector for each node, to be multiplied with embeddings of unit length.
    bias : ndarray of float32, shape (n_nodes,)
    record : dict
        Plain values: "nodes", "steps", "candidates" (how many a row has on average), "coverage" (the share of the
        candidates' parents with a positive that the matcher finds without being taught), "seconds" and "history" (as
        :class:`~sylvan.neural.History` has it).
    """

    layer: int
    table: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]
    record: dict[str, Any] = field(default_factory=dict)

    def weights(
        self, child_offsets: npt.NDArray[np.int64], *, n_features: int | None = None, first: int = 0
    ) -> ClusterWeights:
        """The same as the beam search reads it; see :func:`~sylvan.models.transformer.label_layer.table_weights`."""
        return table_weights(self.table, self.bias, child_offsets, n_features=n_features, first=first)


@dataclass(frozen=True, eq=False)
class FineTuned:
    """What :func:`fine_tune` gives.

    Attributes
    ----------
    encoder : TextEncoder
        The one that was given, trained, and in evaluation mode.
    layers : list of TunedLayer
        In the order of training. The encoder went on learning after all but the last.
    """

    encoder: TextEncoder
    layers: list[TunedLayer]

    def history(self) -> list[dict[str, Any]]:
        """The layers' records."""
        return [{"layer": layer.layer, **layer.record} for layer in self.layers]


def fine_tune(
    encoder: TextEncoder,
    rows: TokenRows,
    labels: Csr,
    tree: LabelTree,
    layers: Sequence[int],
    matcher: TransformerMatcher | None = None,
    *,
    row_weight: npt.NDArray[np.float32] | None = None,
    engine: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
    seed: int = 0,
) -> FineTuned:
    """Train an encoder on some layers of a label tree, one after the other.

    For each layer: embed all texts; solve linear rankers on the embeddings down to this layer, whose weights the
    layer's vectors begin with; take as candidates of a row the children of nodes above it that hold a positive (TFN)
    or that the beam of those rankers reaches (MAN); minimise the squared hinge loss of the candidates over the encoder
    and the vectors.

    Parameters
    ----------
    encoder : TextEncoder
        Is trained in place.
    rows : TokenRows
        The texts, by ``encoder.tokenize``.
    labels : Csr, shape (n, n_labels)
    tree : LabelTree
    layers : sequence of int
        Layers of the tree, rising; ``range(tree.depth - 1)`` is XR-Transformer's choice, a single one X-Transformer's.
    matcher : TransformerMatcher, optional
        How; its ``precision`` and ``accumulate`` are the engine's, and its ``max_nodes`` is what ``layers`` say.
    row_weight : ndarray of float32, shape (n,), optional
        Factor of each row's loss, those of the linear rankers among them.
    engine : Engine, optional
        Where it is computed; by default where the encoder is.
    checkpoint : path, optional
        A folder where each finished layer, and now and then the one in work, is written. The same call goes on from
        there, to the same bits. It is left when training is done, for the caller to remove.
    n_jobs : int
        Threads of the linear solver and the beam search.
    seed : int

    Returns
    -------
    FineTuned

    Raises
    ------
    ParameterError
        When a parameter of the matcher is out of its range, or ``layers`` are no layers of the tree; when training
        diverges, as it does with too high a rate: the last checkpoint within a layer is then of the time before.
    DataError
        When rows, labels and tree don't fit together, or no row has a label.
    ModelError
        When the checkpoint is damaged or another training's, or the encoder's vectors are no numbers to begin with.

    Examples
    --------
    >>> import numpy as np
    >>> from sylvan import LabelTree, TransformerMatcher, validate
    >>> from sylvan.models.transformer.fine_tuning import fine_tune
    >>> from sylvan.neural import BagTextEncoder
    >>> encoder = BagTextEncoder(dim=8, n_buckets=64)
    >>> rows = encoder.tokenize(["red apple", "green apple", "red car", "blue car"] * 8)
    >>> labels = validate.labels([[0], [1], [2], [3]] * 8)
    >>> tree = LabelTree((np.array([0, 2]), np.array([0, 2, 4])), np.arange(4), 4)
    >>> tuned = fine_tune(encoder, rows, labels, tree, [0, 1], TransformerMatcher(epochs=20, batch_size=8))
    >>> [(record["steps"], record["candidates"], record["coverage"]) for record in tuned.history()]
    [(80, 2.0, 1.0), (80, 4.0, 1.0)]
    """
    matcher = TransformerMatcher() if matcher is None else matcher
    return _Training(encoder, rows, labels, tree, layers, matcher, row_weight, engine, checkpoint, n_jobs, seed).run()


class _Training:
    """The layers' training on its way."""

    def __init__(
        self,
        encoder: TextEncoder,
        rows: TokenRows,
        labels: Csr,
        tree: LabelTree,
        layers: Sequence[int],
        matcher: TransformerMatcher,
        row_weight: npt.NDArray[np.float32] | None,
        engine: Engine | None,
        checkpoint: str | os.PathLike[str] | None,
        n_jobs: int,
        seed: int,
    ) -> None:
        matcher.check_params()
        self.encoder, self.rows, self.labels, self.tree = encoder.load(), rows, labels, tree
        self.matcher, self.row_weight, self.seed = matcher.suited(kind_of(self.encoder)), row_weight, seed
        self.engine = AsItIs(self.encoder) if engine is None else engine
        self.engine.place(self.encoder)
        self.layers = self._checked_layers(layers)
        matcher.check_layers(len(self.layers))
        self._check_data()
        self.folder = None if checkpoint is None else store.folder_path(checkpoint)
        labelled = np.flatnonzero(np.diff(labels.indptr))
        if row_weight is not None:
            labelled = labelled[row_weight[labelled] > 0]
        if not len(labelled):
            raise DataError("No row has a label (and a weight above 0): there is nothing to train the encoder on.")
        order = np.random.default_rng((seed, 1)).permutation(labelled)
        n_held = min(matcher.holdout, len(labelled) // 10)
        self.holdout, self.learned = np.sort(order[:n_held]), np.sort(order[n_held:])
        self.positives = layer_positives(tree, labels)
        self.relevance = relevance_layers(tree, labels)
        self.start = LinearStart(
            tree, self.positives, self.learned, matcher.beam, matcher.bootstrap_cost, seed, n_jobs, row_weight
        )  # fmt: skip

    def _checked_layers(self, layers: Sequence[int]) -> list[int]:
        found = [int(layer) for layer in layers]
        inside = all(0 <= layer < self.tree.depth for layer in found)
        if not found or not inside or sorted(set(found)) != found:
            raise ParameterError(
                f"The 'layers' parameter of fine_tune must name layers of the tree, rising, each in "
                f"[0, {self.tree.depth - 1}]. Got {list(layers)} instead."
            )
        return found

    def _check_data(self) -> None:
        shape, n = self.labels.shape, len(self.rows)
        if shape != (n, self.tree.n_labels):
            raise DataError(
                f"There are {n} texts and the tree has {self.tree.n_labels} labels, so labels must have shape "
                f"({n}, {self.tree.n_labels}). Got {shape} instead."
            )
        if self.row_weight is not None and self.row_weight.shape != (n,):
            raise DataError(f"'row_weight' must have shape ({n},). Got {self.row_weight.shape} instead.")

    def run(self) -> FineTuned:
        identity = self._identity() if self.folder is not None else {}
        done = self._finished(identity)
        if len(set(self.engine.everyone(len(done)))) > 1:
            raise ModelError(f"Not every process sees the checkpoint in {self.folder!r}: they must share a folder.")
        for at in range(len(done), len(self.layers)):
            done.append(self._train_layer(at, identity))
            self._keep(at, done[-1], identity)
        self.encoder.eval()  # nobody who asks it, from several threads perhaps, is to meet dropout
        self.encoder.fold()
        return FineTuned(self.encoder, done)

    def _train_layer(self, at: int, identity: dict[str, Any]) -> TunedLayer:
        matcher, t = self.matcher, self.layers[at]
        folder = None if self.folder is None else os.path.join(self.folder, f"training{t}")
        layer = LabelLayer(self.tree.layer_sizes[t], self.encoder.dim_out).to(self.engine.device)
        beam: npt.NDArray[np.int32] | None = None
        record: dict[str, Any] = {}
        if folder is None or not self.engine.agree(has_checkpoint(folder)):  # else all of this is in there
            beam, record = self._begin(t, layer)
        data = LayerData(self.rows, self.learned, self.holdout, self._candidates(t, beam), self.row_weight)
        accumulate = self.engine.accumulate
        n_steps = matcher.steps(len(self.learned), at, accumulate)
        job = LayerJob(
            self.encoder, layer, data, matcher, n_steps, look=(lambda: self._look(t)) if t else None,
            identity={**identity, "layer": t}, engine=self.engine, record=record, seed=self.seed,
            title=f"Fine-tuning on layer {t + 1} of {self.tree.depth}",
        )  # fmt: skip
        epochs = -(-n_steps // -(-job.steps_per_epoch() // accumulate))
        history = train(
            job, epochs=epochs, max_steps=n_steps, patience=matcher.patience,
            folder=folder, resume=folder is not None, seed=self.seed + at, clip_norm=matcher.clip_norm,
            evaluate_every=max(1, -(-n_steps // matcher.evaluations)), engine=self.engine,
        )  # fmt: skip
        if history.stopped == "diverged" or not finite(job.module):
            raise ParameterError(self._divergence(at, history))
        told = {"steps": history.epochs[-1]["step"], "candidates": job.candidates.mean_number()}
        record = {**job.record, **told, "seconds": history.seconds, "history": history.as_dict()}
        table, bias = layer.table.detach().cpu().numpy().copy(), layer.bias.detach().cpu().numpy()[:, 0].copy()
        return TunedLayer(t, table, bias, to_json(record))

    def _begin(self, t: int, layer: LabelLayer) -> tuple[npt.NDArray[np.int32] | None, dict[str, Any]]:
        """The layer's first vectors; the beam of the layer above, None for the root; what there is to tell of them."""
        record: dict[str, Any] = {"nodes": layer.n_nodes}
        if t == 0 and not self.matcher.bootstrap:
            return None, {**record, "coverage": 1.0}
        embeddings = self._embed()
        solved = self.start.solve(embeddings, t if self.matcher.bootstrap else t - 1)
        if self.matcher.bootstrap:
            layer.begin_with(*dense_table(solved[t]))
        if t == 0:
            return None, {**record, "coverage": 1.0}
        beam = self.start.search(embeddings, solved[:t])
        return beam, {**record, "coverage": coverage(self.positives[t - 1], beam)}

    def _look(self, t: int) -> npt.NDArray[np.int32]:
        """The beam of the layer above ``t``, as the encoder is now."""
        embeddings = self._embed()
        return self.start.search(embeddings, self.start.solve(embeddings, t - 1))

    def _embed(self) -> npt.NDArray[np.float32]:
        found = embed(self.encoder, self.rows, engine=self.engine, normalize=True, description="Embedding texts")
        if not np.isfinite(found).all():
            row = int(np.argmin(np.isfinite(found).all(axis=1)))
            raise ModelError(
                f"The encoder's vectors must be finite numbers, but that of the text in row {row} isn't. Are its "
                "weights whole, and does it bear the precision that it computes in?"
            )
        return found

    def _divergence(self, at: int, history: History) -> str:
        """Where the training of a layer went wrong, and what to lower."""
        t, matcher = self.layers[at], self.matcher
        last = history.epochs[-1] if history.epochs else {"epoch": 1, "step": 0, "loss": float("nan")}
        loss = float(last["loss"])
        what = "its weights are no finite numbers" if math.isfinite(loss) else f"its mean loss is {loss}"
        precision = (
            "" if self.engine.precision == "no" else f", or take precision='no' in place of {self.engine.precision!r}"
        )
        # Only an encoder with sparse tables, a bag, has a rate of their rows.
        names = ("learning_rate", "label_learning_rate", *(("row_learning_rate",) if self.encoder.tables() else ()))
        *others, last_one = (f"{name} ({getattr(matcher, name):g})" for name in names)
        rates = f"{', '.join(others)} or {last_one}"
        return (
            f"The training of layer {t + 1} of {self.tree.depth} ({self.tree.layer_sizes[t]:,} nodes) diverged: in "
            f"epoch {last['epoch']}, by step {last['step']:,}, {what}. Lower {rates}{precision}."
        )

    def _candidates(self, t: int, beam: npt.NDArray[np.int32] | None) -> LayerCandidates:
        costs = cost_weights(self.relevance[t], self.matcher.relevance)
        parents = self.positives[t - 1] if t else None
        return LayerCandidates(self.tree.child_offsets[t], costs, parents, beam, self.matcher.negative_cost)

    # Checkpoints.

    def _identity(self) -> dict[str, Any]:
        """Plain values that tell this training from others."""
        rows, labels, tree = self.rows, self.labels, self.tree
        return {
            **{name: list(v) if isinstance(v, tuple) else v for name, v in self.matcher.get_params(deep=False).items()},
            "seed": self.seed,
            "layers": self.layers,
            "encoder": self.encoder.identity(),
            "texts": checksum(rows.ids, rows.offsets, rows.values),
            "labels": checksum(labels.indptr, labels.indices, labels.data),
            "tree": checksum(*tree.child_offsets, tree.leaf_labels),
            "row_weight": checksum(self.row_weight),
        }

    def _path(self, name: str) -> str:
        assert self.folder is not None
        return os.path.join(self.folder, name)

    def _finished(self, identity: dict[str, Any]) -> list[TunedLayer]:
        """The layers that the checkpoint holds; the encoder is then as the last of them left it."""
        if self.folder is None or not os.path.isfile(os.path.join(self._path("encoder"), "manifest.json")):
            return []
        before = store.load(self._path("encoder")).params
        for name, now in to_json(identity).items():
            if before.get(name) != now:
                raise ModelError(
                    f"The checkpoint in {self.folder!r} is of another training: its {name!r} was another. Go on with "
                    "what it was begun with, or choose another folder."
                )
        tree = load_tree(self._path("encoder"), kind=_ENCODER_KIND)
        self.encoder.load_state_dict(tree["encoder"])
        self.engine.load_state(tree.get("engine", {}))  # the loss's scale goes from layer to layer
        found = []
        for t in self.layers[: tree["finished"]]:
            kept = load_tree(self._path(f"layer{t}"), kind=_LAYER_KIND)
            found.append(TunedLayer(t, kept["table"], kept["bias"], kept["record"]))
        return found

    def _keep(self, at: int, layer: TunedLayer, identity: dict[str, Any]) -> None:
        """Write a finished layer; the encoder comes last, as it says how many there are."""
        if self.folder is not None and self.engine.is_main:
            self._write(at, layer, identity)
        self.engine.wait()

    def _write(self, at: int, layer: TunedLayer, identity: dict[str, Any]) -> None:
        kept = {"table": layer.table, "bias": layer.bias, "record": layer.record}
        save_tree(self._path(f"layer{layer.layer}"), kept, kind=_LAYER_KIND)
        tree: dict[str, Any] = {"encoder": self.encoder.state_dict(), "finished": at + 1}
        if self.engine.state():
            tree["engine"] = self.engine.state()
        save_tree(self._path("encoder"), tree, kind=_ENCODER_KIND, params=to_json(identity))
        shutil.rmtree(self._path(f"training{layer.layer}"), ignore_errors=True)
