"""The training of one layer of the tree: its candidates, and the encoder with a vector for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sylvan.arrays.canonical import take_rows
from sylvan.arrays.types import Array, Bool, Float32, Int32, Int64
from sylvan.arrays.validate import Csr
from sylvan.indexing import LabelTree
from sylvan.models.transformer.presets import TransformerMatcher
from sylvan.neural.loop.engine import AsItIs, Engine
from sylvan.neural.loop.training import Job, WarmupSchedule
from sylvan.neural.text.embedding import embed
from sylvan.neural.text.text_encoder import TextEncoder, TokenRows
from sylvan.sampling.rowwise_adagrad import RowwiseAdagrad
from sylvan.weights.layer import ClusterRows, LayerWeights


class LabelLayer(nn.Module):
    """One vector and one bias a node; a step reads and changes those of its candidates only."""

    def __init__(self, n_nodes: int, dim: int) -> None:
        super().__init__()
        self.n_nodes, self.dim = n_nodes, dim
        # shape (n_nodes, dim): its gradient is sparse, and that of the biases
        self.table = nn.Parameter(torch.zeros(n_nodes, dim))
        self.bias = nn.Parameter(torch.full((n_nodes, 1), -1.0))  # nothing is right until something says so

    @torch.no_grad()
    def begin_with(self, table: Float32, bias: Float32) -> None:
        """Take vectors (n_nodes, dim) and biases (n_nodes,) in, those of a linear ranker for instance."""
        self.table.copy_(torch.from_numpy(np.ascontiguousarray(table)))
        self.bias.copy_(torch.from_numpy(np.ascontiguousarray(bias)).unsqueeze(1))

    def forward(self, embeddings: Tensor, nodes: Tensor) -> Tensor:
        """Scores of some nodes, for every row."""
        # Shapes: embeddings (n, dim); nodes (u,); returns (n, u)
        # In single precision whatever the encoder computes in: these are sums of margins, and cheap beside it.
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors = F.embedding(nodes, self.table, sparse=True)  # (u, dim)
            biases = F.embedding(nodes, self.bias, sparse=True)  # (u, 1)
            return torch.addmm(biases.t(), embeddings.float(), vectors.t())


def squared_hinge(scores: Tensor, positive: Tensor, weights: Tensor) -> Tensor:
    """The squared hinge loss of candidates (PECOS, Eq. 15), summed over a row's and averaged over rows."""
    # Shapes: scores (n, u); positive (n, u); weights (n, u); returns ()
    margins = torch.where(positive, 1 - scores, 1 + scores).clamp(min=0)
    return (weights * margins.square()).sum() / max(len(scores), 1)


def dense_table(weights: LayerWeights) -> tuple[Float32, Float32]:
    """The weights of a linear layer as a table of shape (n_nodes, n_features), and its biases (n_nodes,)."""
    offsets = weights.child_offsets
    table = np.zeros((int(offsets[-1]), weights.n_features), np.float32)
    for c in range(len(offsets) - 1):
        cluster = weights.cluster(c)
        table[int(offsets[c]) + cluster.children, np.repeat(cluster.features, cluster.lengths)] = cluster.weights
    return table, np.array(weights.intercepts)


def table_weights(
    table: Float32, bias: Float32, child_offsets: Int64, *,
    n_features: int | None = None, first: int = 0,
) -> LayerWeights:  # fmt: skip
    """A table as the weights of a linear layer, which the beam search reads."""
    # Shapes: table (n_nodes, dim); bias (n_nodes,); child_offsets (n_parents + 1,)
    clusters = []
    for begin, end in zip(child_offsets[:-1].tolist(), child_offsets[1:].tolist(), strict=True):
        columns = np.ascontiguousarray(table[begin:end].T)  # (dim, children)
        feature, child = np.nonzero(columns)
        used, lengths = np.unique(feature, return_counts=True)
        clusters.append(
            ClusterRows(
                (used + first).astype(np.int32), lengths.astype(np.int32), child.astype(np.int32),
                columns[feature, child], np.ascontiguousarray(bias[begin:end], np.float32),
            )
        )  # fmt: skip
    width = first + table.shape[1] if n_features is None else n_features
    return LayerWeights.from_clusters(clusters, np.ascontiguousarray(child_offsets, np.int64), width, "float32")


def upper_tree(tree: LabelTree, layer: int) -> LabelTree:
    """The tree down to ``layer``, whose nodes take the place of labels."""
    if layer == tree.depth - 1:
        return tree
    n_nodes = tree.layer_sizes[layer]
    return LabelTree(tree.child_offsets[: layer + 1], np.arange(n_nodes, dtype=np.int32), n_nodes)


def dense_rows(embeddings: Float32) -> Csr:
    """Embeddings (n, dim) as the rows that the linear solver takes, which share their values."""
    n, dim = embeddings.shape
    columns = np.tile(np.arange(dim, dtype=np.int32), n)
    return Csr(np.arange(n + 1, dtype=np.int64) * dim, columns, np.ascontiguousarray(embeddings).reshape(-1), (n, dim))


@dataclass(frozen=True, eq=False)
class LayerCandidates:
    """The candidates of every row in one layer of a tree."""

    # shape (n_parents + 1,): parent p's children are nodes `child_offsets[p]` to `child_offsets[p + 1] - 1`
    child_offsets: Int64
    costs: Csr  # shape (n, n_nodes): the positives of each row with the factors of their losses
    # shape (n, n_parents), or None: the nodes of the layer above with a positive below them, all of whose children are
    # candidates (teacher forcing); None for no such candidates
    parents: Csr | None = None
    # shape (n, width), or None: the nodes of the layer above where the matcher looks (matcher-aware); -1 for none
    beam: Int32 | None = None
    negative: float = 1.0  # the factor of a negative's loss

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> tuple[Int64, Bool, Float32]:
        """The candidates of any of some rows, rising; which are positives of which row; and the factor of each one's
        loss, 0 where a node is no candidate of the row. Only what some row of the batch looks at is in it: its size
        depends on rows, beam and branching, not on the nodes of the layer."""
        # Returns nodes (u,), positive (n, u), weights (n, u)
        open_parents = self._open(rows)
        if open_parents is None:
            nodes = np.arange(int(self.child_offsets[-1]), dtype=np.int64)
            weights = np.full((len(rows), len(nodes)), self.negative, np.float32)
        else:
            opened_rows, clusters = open_parents
            used, where = np.unique(clusters, return_inverse=True)
            sizes = np.diff(self.child_offsets)[used]
            starts = np.cumsum(sizes) - sizes
            nodes = np.arange(int(sizes.sum()), dtype=np.int64) + np.repeat(self.child_offsets[used] - starts, sizes)
            opened = np.zeros((len(rows), len(used)), bool)
            opened[opened_rows, where] = True
            weights = np.repeat(opened, sizes, axis=1).astype(np.float32) * np.float32(self.negative)
        positive = np.zeros(weights.shape, bool)
        costs = take_rows(self.costs, rows)
        row, place = np.repeat(np.arange(len(rows)), np.diff(costs.indptr)), np.searchsorted(nodes, costs.indices)
        matched = np.zeros(len(place), bool)
        inside = place < len(nodes)
        matched[inside] = nodes[place[inside]] == costs.indices[inside]
        if open_parents is not None:  # a node that another row looks at is no candidate of this one
            matched[matched] = opened[row[matched], np.repeat(np.arange(len(used)), sizes)[place[matched]]]
        positive[row[matched], place[matched]] = True
        weights[row[matched], place[matched]] = costs.data[matched]
        return nodes, positive, weights

    def mean_number(self) -> float:
        """How many candidates a row has on average."""
        n_nodes = int(self.child_offsets[-1])
        open_parents = self._open(np.arange(self.costs.shape[0], dtype=np.int64))
        if open_parents is None or self.costs.shape[0] == 0:
            return float(n_nodes)
        n_parents = len(self.child_offsets) - 1
        pairs = np.unique(open_parents[0] * np.int64(n_parents) + open_parents[1])
        return float(np.diff(self.child_offsets)[pairs % n_parents].sum() / self.costs.shape[0])

    def _open(self, rows: npt.NDArray[np.integer[Any]]) -> tuple[Array, Array] | None:
        """Pairs of row (by its place in ``rows``) and parent, pairs perhaps twice; None where all are open."""
        if self.parents is None and self.beam is None:
            return None
        places: list[Array] = []
        clusters: list[Array] = []
        if self.parents is not None:
            above = take_rows(self.parents, rows)
            places.append(np.repeat(np.arange(len(rows)), np.diff(above.indptr)))
            clusters.append(above.indices)
        if self.beam is not None:
            beam = self.beam[rows]
            row, place = np.nonzero(beam >= 0)
            places.append(row)
            clusters.append(beam[row, place])
        return np.concatenate(places), np.concatenate(clusters)


def coverage(parents: Csr, beam: Int32 | None) -> float:
    """The share of pairs of a row and a positive node that the beam reaches. That is the recall of the matcher alone:
    for these nodes the candidates of the layer below need no teacher forcing."""
    # Shapes: parents (n, n_parents); beam (n, width)
    if beam is None or parents.nnz == 0:
        return 1.0
    n_parents = np.int64(parents.shape[1])
    right = np.repeat(np.arange(parents.shape[0], dtype=np.int64), np.diff(parents.indptr)) * n_parents
    row, place = np.nonzero(beam >= 0)
    reached = np.unique(row.astype(np.int64) * n_parents + beam[row, place])
    return float(np.isin(right + parents.indices, reached, assume_unique=True).mean())


_POOL = 64  # batches within which texts are sorted by length
_SCORED_ROWS = 64  # rows scored at once
_PLACES = 5  # places that are looked at, where there are more than twice as many to fill them from


@dataclass(frozen=True, eq=False)
class LayerData:
    """What a layer is trained and measured on."""

    rows: TokenRows  # all texts
    learned: Int64  # learned, holdout: which of them are trained and measured on
    holdout: Int64
    candidates: LayerCandidates  # of all texts, those by teacher forcing among them
    row_weight: Float32 | None = None  # shape (n,)


class LayerJob(Job):
    """One layer: the encoder and a vector for each node, trained on candidates by the squared hinge loss. Scores are
    products with embeddings of unit length, as the linear ranker at the end sees them, or as they are without the
    matcher's ``normalize``."""

    larger_is_better = True
    later_of_equals = True  # a small holdout often can't distinguish two states, and the later has learned more

    def __init__(
        self, encoder: TextEncoder, layer: LabelLayer, data: LayerData, matcher: TransformerMatcher, n_steps: int, *,
        look: Callable[[], Int32] | None = None, engine: Engine | None = None,
        record: Mapping[str, Any] | None = None, title: str = "Fine-tuning", seed: int = 0,
    ) -> None:  # fmt: skip
        # `matcher` has rates (`matcher.suited(kind)`); `record` are plain values that checkpoints hold with the
        # training; `title` is what the progress bar is called.
        self.encoder, self.layer, self.data, self.matcher = encoder, layer, data, matcher
        self.record, self.title, self.seed = dict(record or {}), title, seed
        # gives the beam of the layer above for all texts as the encoder is now; needed where `matcher.refresh` is
        self.look = look
        self.engine = AsItIs(encoder) if engine is None else engine
        self.candidates, self.looked = data.candidates, 0
        # Where a row's candidates are hardly more than five, P@5 is about the same however they are ranked: the best
        # one alone is then looked at. How many a row may have depends on the tree and the beam's width, so that it is
        # known before anything is searched.
        sizes = np.sort(np.diff(data.candidates.child_offsets))[::-1]
        self.measured_at = _PLACES if int(sizes[: matcher.beam].sum()) >= 2 * _PLACES else 1
        self.metric = f"P@{self.measured_at}"
        self.measures_start = len(data.holdout) > 0
        self.module = nn.ModuleDict({"encoder": encoder, "layer": layer})
        self.engine.place(self.module)
        self.optimizers = self._optimizers()
        self.schedulers = WarmupSchedule(n_steps, matcher.warmup).schedulers(self.optimizers)

    def _optimizers(self) -> list[torch.optim.Optimizer]:
        matcher = self.matcher
        assert matcher.learning_rate is not None, "rates are those that suit the encoder"
        inner, tables = self.encoder.inner_parameters(), self.encoder.tables()
        dense: list[dict[str, Any]] = [
            {"params": [p for p in inner if p.dim() > 1], "weight_decay": matcher.weight_decay},
            {"params": [p for p in inner if p.dim() <= 1], "weight_decay": 0.0},
        ]
        sparse: list[dict[str, Any]] = [
            {"params": list(self.layer.parameters()), "lr": matcher.label_learning_rate},
            {"params": tables, "lr": matcher.row_learning_rate},
        ]
        dense, sparse = ([group for group in groups if group["params"]] for groups in (dense, sparse))
        of_rows: Any = torch.optim.SparseAdam if matcher.optimizer == "sparse-adam" else RowwiseAdagrad
        return [*([torch.optim.AdamW(dense, lr=matcher.learning_rate)] if inner else []), of_rows(sparse)]

    # What the training loop asks.

    def steps_per_epoch(self) -> int:
        return -(-len(self.data.learned) // self.matcher.batch_size)

    def batches(self, epoch: int) -> Iterator[Int64]:
        """The rows of each batch: those of a batch are of about one length, so that little is padded."""
        size = self.matcher.batch_size
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(self.data.learned)
        lengths = self.data.rows.lengths
        batches: list[Int64] = []
        for begin in range(0, len(order), _POOL * size):
            pool = order[begin : begin + _POOL * size]
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            starts = random.permutation(len(range(0, len(pool), size))) * size
            batches += [pool[start : start + size] for start in starts.tolist()]
        return iter(batches)

    def prepare(self, step: int) -> None:
        """Search the layer above again when it is due; the processes embed the texts for it together."""
        if self.matcher.refresh is not None and step - self.looked >= self.matcher.refresh and self.look is not None:
            self.candidates, self.looked = replace(self.candidates, beam=self.look()), step

    def _batch(self, rows: Int64) -> dict[str, Tensor]:
        nodes, positive, weights = self.candidates.take(rows)
        if self.data.row_weight is not None:
            weights = weights * self.data.row_weight[rows][:, None]
        arrays = {"candidate_nodes": nodes, "candidate_positive": positive, "candidate_weights": weights}
        batch = self.encoder.collate(self.data.rows.take(rows))
        return {**batch, **{name: torch.from_numpy(array) for name, array in arrays.items()}}

    def step(self, rows: Int64, step: int) -> Tensor:
        batch = self.engine.batch(self._batch(rows))
        names = ("candidate_nodes", "candidate_positive", "candidate_weights")
        nodes, positive, weights = (batch.pop(name) for name in names)
        embeddings = self.encoder(batch).float()
        if self.matcher.normalize:
            embeddings = F.normalize(embeddings, dim=1)
        return squared_hinge(self.layer(embeddings, nodes), positive, weights)

    def evaluate(self, split: str) -> dict[str, float]:
        """P@k of the layer's nodes on the holdout, of those that the beam of the layer above leads to."""
        holdout = self.data.holdout
        if split == "test" or not len(holdout):
            return {self.metric: float("nan")}
        embeddings = torch.from_numpy(
            embed(self.encoder, self.data.rows.take(holdout), engine=self.engine, normalize=self.matcher.normalize)
        )
        # the candidates that the beam alone leads to, without those by teacher forcing
        parents = None if self.candidates.beam is not None else self.candidates.parents
        searched, costs = replace(self.candidates, parents=parents), self.candidates.costs
        right, k, device = 0, self.measured_at, self.layer.table.device
        for begin in range(0, len(holdout), _SCORED_ROWS):
            rows = holdout[begin : begin + _SCORED_ROWS]
            nodes, _, weights = searched.take(rows)
            if not len(nodes):
                continue
            scores = self.layer(
                embeddings[begin : begin + _SCORED_ROWS].to(device), torch.from_numpy(nodes).to(device)
            ).cpu()
            if not bool(torch.isfinite(scores).all()):  # of which some would still be the best
                return {self.metric: float("nan")}
            scores = scores.masked_fill(torch.from_numpy(weights == 0), -torch.inf)
            best = scores.topk(min(k, scores.shape[1])).indices.numpy()
            reached = np.take_along_axis(weights, best, axis=1) != 0  # a row may have fewer candidates than k
            for row, places, is_reached in zip(rows, best, reached, strict=True):
                wanted = costs.indices[costs.indptr[row] : costs.indptr[row + 1]]
                right += int(np.isin(nodes[places[is_reached]], wanted).sum())
        return {self.metric: right / (k * len(holdout))}

    def state(self) -> dict[str, Any]:
        return {"beam": self.candidates.beam, "looked": self.looked, "record": self.record}

    def load_state(self, state: dict[str, Any]) -> None:
        self.looked, self.record = state["looked"], state["record"]
        if state["beam"] is not None:
            self.candidates = replace(self.candidates, beam=np.asarray(state["beam"]))
