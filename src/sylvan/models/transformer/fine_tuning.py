"""The matcher of X-Transformer and XR-Transformer: one encoder, fine-tuned layer by layer from coarse to fine."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sylvan.arrays.canonical import take_rows
from sylvan.arrays.types import Float32, Int32
from sylvan.arrays.validate import Csr
from sylvan.errors import DataError, ModelError, ParameterError
from sylvan.indexing import LabelTree
from sylvan.matching import beam as matching
from sylvan.matching.negatives import layer_positives
from sylvan.models.transformer import layer_job
from sylvan.models.transformer.presets import TransformerMatcher, kind_of
from sylvan.neural.loop.checkpoint import NESTED, History, has_checkpoint, to_json
from sylvan.neural.loop.engine import AsItIs, Engine, finite
from sylvan.neural.loop.training import train
from sylvan.neural.text.embedding import embed
from sylvan.neural.text.text_encoder import TextEncoder, TokenRows
from sylvan.ranking.linear import LinearOptions
from sylvan.ranking.training import TreeTraining, cost_weights, train_rankers
from sylvan.runtime import Job, Runner
from sylvan.runtime.jobs import current_runner
from sylvan.weights.layer import LayerWeights

_COMBINE = "l3_hinge"

# How far a training is: the finished "layers", and "encoder" and "engine" as the last of them left these.
_State = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TunedLayer:
    """A layer that was trained."""

    layer: int  # which of the tree
    # shape (n_nodes, dim): a vector for each node, to be multiplied with embeddings, of unit length where the matcher
    # normalises
    table: Float32
    bias: Float32  # shape (n_nodes,)
    # plain values: "nodes", "steps", "candidates" (how many a row has on average), "coverage" (the share of the
    # candidates' parents with a positive that the matcher alone finds), "seconds" and "history" (as `History` has it)
    record: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FineTuned:
    """What a :class:`FineTuning` gives."""

    encoder: TextEncoder  # the one that was given, trained, and in evaluation mode
    layers: list[TunedLayer]  # in the order of training. The encoder went on learning after all but the last

    def history(self) -> list[dict[str, Any]]:
        """The layers' records."""
        return [{"layer": layer.layer, **layer.record} for layer in self.layers]


class FineTuning:
    """The training of an encoder on some layers of a label tree, one after the other. For each: embed all texts; solve
    linear rankers on the embeddings down to this layer, whose weights the layer's vectors begin with; take as a row's
    candidates the children of nodes that hold a positive (TFN) or that a beam search reaches (MAN, ``negatives_from``);
    minimise their squared hinge loss over the encoder and the vectors."""

    def __init__(
        self, encoder: TextEncoder, rows: TokenRows, labels: Csr, tree: LabelTree, layers: Sequence[int],
        matcher: TransformerMatcher, *, row_weight: Float32 | None = None,
        engine: Engine | None = None, runner: Runner | None = None, seed: int = 0,
    ) -> None:  # fmt: skip
        # Shapes: labels (n, n_labels); row_weight (n,)
        matcher.check_params()
        self.encoder, self.rows, self.labels, self.tree = encoder.load(), rows, labels, tree
        self.matcher, self.row_weight, self.seed = matcher.suited(kind_of(self.encoder)), row_weight, seed
        self.engine = AsItIs(self.encoder) if engine is None else engine
        self.engine.place(self.encoder)
        self.depth, self.layers = tree.depth, [int(layer) for layer in layers]  # rising
        matcher.check_layers(len(self.layers))
        self.runner = Runner() if runner is None else runner
        labelled = np.flatnonzero(np.diff(labels.indptr))
        if row_weight is not None:
            labelled = labelled[row_weight[labelled] > 0]
        if not len(labelled):
            raise DataError("No row has a label (and a weight above 0): there is nothing to train the encoder on.")
        order = np.random.default_rng((seed, 1)).permutation(labelled)
        n_holdout = min(matcher.holdout, len(labelled) // 10)
        self.holdout, self.learned = np.sort(order[:n_holdout]), np.sort(order[n_holdout:])
        self.positives, self.relevance = layer_positives(tree, labels), layer_positives(tree, labels, np.add)

    def run(self) -> FineTuned:
        """Train what the checkpoint doesn't hold."""
        state = self._stored_state()
        for t in self.layers[len(state["layers"]) :]:
            before = [f"layer{layer['layer']}" for layer in state["layers"][-1:]]
            title, work = f"fine-tuning on layer {t + 1} of {self.depth}", self.runner.folder(f"training{t}")
            folder = None
            if work is not None:
                work.begin()
                folder = work.path
            inputs = {"training": self, "before": state, "folder": folder}
            job = Job(f"layer{t}", _tune_layer, inputs, packing=NESTED, title=title)
            state = self.runner.one(job, lambda stored: False)
            self.runner.flush()  # before the weights that wait to be written are trained further
            self.runner.forget(before)
            if folder is not None and self.engine.is_main:
                shutil.rmtree(folder, ignore_errors=True)
            self.engine.wait()
        self.encoder.eval()  # nobody who asks it, from several threads perhaps, is to meet dropout
        self.encoder.fold()
        return FineTuned(self.encoder, [TunedLayer(**layer) for layer in state["layers"]])

    def _stored_state(self) -> _State:
        """Where the training that the checkpoint is of has come to; encoder and engine are then as it left them."""
        state: _State = {"layers": []}
        for t in reversed(self.layers):
            stored = self.runner.load([f"layer{t}"], NESTED)
            if stored is not None:
                (state,) = stored
                try:
                    for layer in state["layers"]:
                        TunedLayer(**layer)
                    weights, engine = state["encoder"], state["engine"]
                except (KeyError, TypeError) as error:
                    raise ModelError(f"The finished layers in the checkpoint are damaged: {error}.") from error
                self.encoder.load_state_dict(weights)
                self.engine.load_state(engine)  # the loss's scale goes from layer to layer
                break
        if len(set(self.engine.everyone(len(state["layers"])))) > 1:
            raise ModelError("Not every process sees the checkpoint's finished layers: they must share a folder.")
        return state

    def train_layer(self, before: Sequence[TunedLayer], folder: str | None) -> TunedLayer:
        """Train the encoder on the layer that follows those that are trained."""
        matcher, number, fixed = self.matcher, len(before), dict[int, LayerWeights]()
        t = self.layers[number]
        if matcher.negatives_from == "network":  # layers above are searched as the network has learned them
            offsets = self.tree.child_offsets
            fixed = {each.layer: layer_job.table_weights(each.table, each.bias, offsets[each.layer]) for each in before}
        layer = layer_job.LabelLayer(self.tree.layer_sizes[t], self.encoder.dim_out).to(self.engine.device)
        beam: Int32 | None = None
        record: dict[str, Any] = {}
        if folder is None or not self.engine.agree(has_checkpoint(folder)):  # else all of this is in there
            beam, record = self._begin(t, layer, fixed)
        costs, parents = cost_weights(self.relevance[t], matcher.relevance), self.positives[t - 1] if t else None
        candidates = layer_job.LayerCandidates(self.tree.child_offsets[t], costs, parents, beam, matcher.negative_cost)
        data = layer_job.LayerData(self.rows, self.learned, self.holdout, candidates, self.row_weight)
        accumulate = self.engine.accumulate
        n_steps = matcher.steps(len(self.learned), number, accumulate)
        job = layer_job.LayerJob(
            self.encoder, layer, data, matcher, n_steps, look=(lambda: self._look(t, fixed)) if t else None,
            engine=self.engine, record=record, seed=self.seed,
            title=f"Fine-tuning on layer {t + 1} of {self.depth}",
        )  # fmt: skip
        epochs = -(-n_steps // -(-job.steps_per_epoch() // accumulate))
        history = train(
            job, epochs=epochs, max_steps=n_steps, patience=matcher.patience,
            folder=folder, resume=folder is not None, seed=self.seed + number, clip_norm=matcher.clip_norm,
            evaluate_every=max(1, -(-n_steps // matcher.evaluations)), engine=self.engine,
        )  # fmt: skip
        if history.stopped == "diverged" or not finite(job.module):
            raise ParameterError(self._divergence(number, history))
        record = {
            **job.record, "steps": history.epochs[-1]["step"], "candidates": job.candidates.mean_number(),
            "seconds": history.seconds, "history": history.as_dict(),
        }  # fmt: skip
        table, bias = layer.table.detach().cpu().numpy().copy(), layer.bias.detach().cpu().numpy()[:, 0].copy()
        return TunedLayer(t, table, bias, to_json(record))

    def _begin(
        self, t: int, layer: layer_job.LabelLayer, fixed: Mapping[int, LayerWeights]
    ) -> tuple[Int32 | None, dict[str, Any]]:
        """The layer's first vectors; the beam of the layer above, None for the root; and a record of both."""
        record: dict[str, Any] = {"nodes": layer.n_nodes, "coverage": 1.0}
        if t == 0 and not self.matcher.bootstrap:
            return None, record
        embeddings = self._embed()
        solved = self.solve(embeddings, t if self.matcher.bootstrap else t - 1, fixed)
        if self.matcher.bootstrap:
            layer.begin_with(*layer_job.dense_table(solved[t]))
        if t == 0:
            return None, record
        beam = self.search(embeddings, solved[:t])
        return beam, {**record, "coverage": layer_job.coverage(self.positives[t - 1], beam)}

    def solve(self, embeddings: Float32, layer: int, fixed: Mapping[int, LayerWeights]) -> list[LayerWeights]:
        """The linear rankers of all layers down to ``layer``, on embeddings (n, dim); no weight is dropped. ``fixed``
        are weights of layers that are taken as they are, and searched."""
        matcher, above = self.matcher, layer_job.upper_tree(self.tree, layer)
        options = LinearOptions(cost=matcher.bootstrap_cost, threshold=0.0, seed=self.seed)
        words = ["tfn"] * layer + ["tfn+man"]
        costs = None if matcher.bootstrap_relevance == "none" else matcher.bootstrap_relevance
        training = TreeTraining(words, [_COMBINE] * above.depth, matcher.beam, options, "float32", relevance=costs)
        features = take_rows(layer_job.dense_rows(embeddings), self.learned)
        positives = take_rows(self._labels_of(layer), self.learned)
        weight = None if self.row_weight is None else self.row_weight[self.learned]
        # Without the checkpoint: each time other embeddings have the same names.
        run = current_runner(self.runner.n_jobs)
        return train_rankers(features, positives, above, training, weight, runner=run, fixed=fixed)[0].layers

    def _labels_of(self, layer: int) -> Csr:
        """Y of the tree down to ``layer``, each positive once; of the last layer by label, not by leaf."""
        labels = self.relevance[layer]
        if self.matcher.bootstrap_relevance == "none":
            labels = labels._replace(data=np.ones_like(labels.data))
        if layer < self.tree.depth - 1:
            return labels
        ids = self.tree.leaf_labels[labels.indices].astype(np.int64)
        rows = np.repeat(np.arange(labels.shape[0], dtype=np.int64), np.diff(labels.indptr))
        keys, first = np.unique(rows * self.tree.n_labels + ids, return_index=True)
        indptr = np.searchsorted(keys, np.arange(labels.shape[0] + 1, dtype=np.int64) * self.tree.n_labels)
        columns = (keys % self.tree.n_labels).astype(np.int32)
        return Csr(indptr.astype(np.int64), columns, labels.data[first], (labels.shape[0], self.tree.n_labels))

    def search(self, embeddings: Float32, layers: list[LayerWeights]) -> Int32:
        """The best nodes of the last of ``layers`` for every row, shape (n, beam or fewer), -1 for none."""
        features = layer_job.dense_rows(embeddings)
        beam = matching.root_beam(len(embeddings))
        for weights in layers:
            beam = matching.next_beam(features, weights, beam, self.matcher.beam, _COMBINE, self.runner.n_jobs)
        return beam[0]

    def _look(self, t: int, fixed: Mapping[int, LayerWeights]) -> Int32:
        """The beam of the layer above ``t``, as the encoder is now."""
        embeddings = self._embed()
        return self.search(embeddings, self.solve(embeddings, t - 1, fixed))

    def _embed(self) -> Float32:
        vectors = embed(
            self.encoder, self.rows, engine=self.engine, normalize=self.matcher.normalize,
            description="Embedding texts", runner=self.runner,
        )  # fmt: skip
        if not np.isfinite(vectors).all():
            row = int(np.argmin(np.isfinite(vectors).all(axis=1)))
            raise ModelError(
                f"The encoder's vectors must be finite numbers, but that of the text in row {row} isn't. Are its "
                "weights whole, and does it bear the precision that it computes in?"
            )
        return vectors

    def _divergence(self, place: int, history: History) -> str:
        """Where the training of a layer went wrong, and what to lower."""
        t, matcher = self.layers[place], self.matcher
        last = history.epochs[-1] if history.epochs else {"epoch": 1, "step": 0, "loss": float("nan")}
        loss = float(last["loss"])
        symptom = "its weights are no finite numbers" if math.isfinite(loss) else f"its mean loss is {loss}"
        precision = (
            "" if self.engine.precision == "no" else f", or take precision='no' in place of {self.engine.precision!r}"
        )
        # Only an encoder with sparse tables, a bag, has a rate of their rows.
        names = ("learning_rate", "label_learning_rate", *(("row_learning_rate",) if self.encoder.tables() else ()))
        *settings, last_one = (f"{name} ({getattr(matcher, name):g})" for name in names)
        rates = f"{', '.join(settings)} or {last_one}"
        return (
            f"The training of layer {t + 1} of {self.depth} ({self.tree.layer_sizes[t]:,} nodes) diverged: in "
            f"epoch {last['epoch']}, by step {last['step']:,}, {symptom}. Lower {rates}{precision}."
        )


def _tune_layer(training: FineTuning, before: _State, folder: str | None) -> _State:
    layer = training.train_layer([TunedLayer(**each) for each in before["layers"]], folder)
    encoder, engine = training.encoder.state_dict(), training.engine.state()
    return {"layers": [*before["layers"], vars(layer)], "encoder": encoder, "engine": engine}
