"""CANE's Beam Tree: an output layer whose candidates a beam search finds, and which ranks by beam search."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from sylvan.errors import DataError, ParameterError
from sylvan.indexing.tree import LabelTree, check_class_tree, class_edges, first_edges
from sylvan.params.fields import KW_ONLY, Flag, Instance, Number, Range, check_value, parameterized
from sylvan.sampling import tensors
from sylvan.sampling.best_classes import BestClasses
from sylvan.sampling.losses import loss as class_loss
from sylvan.sampling.losses.logits import class_logits
from sylvan.sampling.losses.loss import Positives, ReducedLoss, Selection
from sylvan.sampling.samplers.base import Sampler
from sylvan.sampling.samplers.static import Uniform
from sylvan.sampling.tensors import at_least_single, eagerly, product, slices, without_gradient

# So many edges in one matrix product take the time of one edge that is gathered for a query of its own.
_PER_GATHERED = 8
_MOST_ANSWERS = 1_000_000  # k beyond the number of classes only pads; what pads a gigabyte a query is a slip


class TreePaths(nn.Module):
    """A tree's shape as buffers, and the sums over its edges: a class's score is the sum along its path (Eq. 9). Edges
    are numbered layer after layer, as :func:`sylvan.indexing.tree.first_edges` says; the edge weights ``table``
    (n_edges, dim) and biases (n_edges,) are handed to every method."""

    edges: Tensor  # (n_classes, depth), the edges of each class's path
    labels: Tensor  # (n_classes,), the class of each leaf

    def __init__(self, tree: LabelTree) -> None:
        super().__init__()
        self.n_classes = tree.n_labels
        self.depth = tree.depth
        self.first = first_edges(tree).tolist()
        self.fan_outs = [int((offsets[1:] - offsets[:-1]).max()) for offsets in tree.child_offsets]
        self.register_buffer("edges", torch.from_numpy(class_edges(tree)), persistent=False)
        self.register_buffer("labels", torch.tensor(tree.leaf_labels, dtype=torch.int64), persistent=False)
        for layer in range(1, tree.depth):
            for name, numbers in (("offsets", tree.child_offsets[layer]), ("parents", tree.parents(layer))):
                self.register_buffer(f"{name}{layer}", torch.tensor(numbers, dtype=torch.int64), persistent=False)

    @without_gradient
    def best(self, queries: Tensor, table: Tensor, bias: Tensor | None, beam: int, k: int) -> tuple[Tensor, Tensor]:
        """Algorithm 3: the best nodes of each layer, then of the classes below them; no loop over queries."""
        # Shapes: queries (batch, dim); table (n_edges, dim); bias (n_edges,); returns classes (batch, m), scores
        # (batch, m)
        with torch.autocast(queries.device.type, enabled=False):
            nodes: Tensor | None = None  # (batch, w); None for all of the layer
            scores = self._of_layer(queries, table, bias, 0)
            for layer in range(self.depth):
                if layer > 0:
                    nodes, scores = self._below(layer, nodes, scores, queries, table, bias)
                last = layer == self.depth - 1
                most = k if last else beam
                if scores.shape[1] > most or last:
                    scores, places = scores.topk(min(most, scores.shape[1]), dim=1)
                    nodes = places if nodes is None else nodes.gather(1, places)
            assert nodes is not None
            return self.labels[nodes].where(scores != -torch.inf, -1), scores  # NaN has its class, and is seen

    def chosen(self, queries: Tensor, table: Tensor, bias: Tensor | None, classes: Tensor) -> Tensor:
        """Scores of each query's own classes (batch, m), up to a number for each query, with gradients. What lies on
        the path of all of a query's classes is skipped: in a difference of two scores it isn't seen, so that its
        gradient is zero (Proposition 1), here to the last bit, and its rows of the table aren't read."""
        paths = self.edges[classes]  # (batch, m, depth)
        everywhere = (paths == paths[:, -1:]).all(dim=1, keepdim=True)  # (batch, 1, depth)
        edges = paths.where(~everywhere, paths[:, -1:, -1:])  # a skipped place reads a row that is read anyway
        scores = class_logits(queries, table, edges.flatten(1), bias)
        return scores.view(paths.shape).masked_fill(everywhere, 0.0).sum(dim=2)

    def all_classes(self, queries: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
        """Scores of all classes (batch, n_classes), with gradients."""
        with torch.autocast(queries.device.type, enabled=False):
            scores = self._of_layer(queries, table, bias, 0)
            for layer in range(1, self.depth):
                scores = self._of_layer(queries, table, bias, layer) + scores.index_select(
                    1, self.get_buffer(f"parents{layer}")
                )
            return scores.index_select(1, self.edges[:, -1] - self.first[-2])

    def class_rows(self, rows: Tensor) -> Tensor:
        """For each class the sum of its edges' ``rows`` (n_edges, ...): (n_classes, ...), with gradients."""
        sums = rows[: self.first[1]]
        for layer in range(1, self.depth):
            sums = rows[self.first[layer] : self.first[layer + 1]] + sums.index_select(
                0, self.get_buffer(f"parents{layer}")
            )
        return sums.index_select(0, self.edges[:, -1] - self.first[-2])

    def _below(
        self, layer: int, parents: Tensor | None, above: Tensor, queries: Tensor, table: Tensor, bias: Tensor | None
    ) -> tuple[Tensor | None, Tensor]:
        """The children in ``layer`` of the nodes in the one above, and their scores; see :meth:`best`."""
        if parents is None:
            scores_of_layer = self._of_layer(queries, table, bias, layer)
            return None, scores_of_layer + above.index_select(1, self.get_buffer(f"parents{layer}"))
        offsets = self.get_buffer(f"offsets{layer}")
        fan_out, first = self.fan_outs[layer], self.first[layer]
        begin = offsets[parents].unsqueeze(2)  # (batch, w, 1)
        children = begin + torch.arange(fan_out, device=begin.device)  # (batch, w, fan_out)
        real = children < offsets[parents + 1].unsqueeze(2)
        children = children.where(real, begin)
        flat = children.flatten(1)
        n_nodes = self.first[layer + 1] - first
        if n_nodes <= _PER_GATHERED * flat.shape[1]:
            scores = self._of_layer(queries, table, bias, layer).gather(1, flat)
        else:
            scores = class_logits(queries, table, flat + first, bias)
        scores = scores.view(children.shape) + above.unsqueeze(2)
        return flat, scores.masked_fill(~real, -torch.inf).flatten(1)

    def _of_layer(self, queries: Tensor, table: Tensor, bias: Tensor | None, layer: int) -> Tensor:
        """Scores of all edges of a layer (batch, n_nodes), those above not added."""
        part = slice(self.first[layer], self.first[layer + 1])
        wide = at_least_single(queries, table)
        scores = product(queries.to(wide), table[part].to(wide))
        return scores if bias is None else scores + bias[part]


@parameterized
class BeamTreeHead(ReducedLoss):
    r"""Output layer whose cost for a training step grows with the logarithm of the number of classes.

    Each edge of a tree over the classes has a weight vector (and a bias); the score of a class is the sum over its
    path, :math:`s_k(x) = \sum_{e \in \mathrm{path}(k)} (\theta_e \cdot x + b_e)` (Eq. 9). For training, a beam search
    for the features alone selects candidates :math:`C_x`; noises are drawn from the other classes; and the loss is that
    of :class:`~sylvan.sampling.CANELoss`. The same beam search then ranks.

    Called as ``head(features, targets)``, it gives the loss; :meth:`topk` ranks, :meth:`log_prob` gives probabilities.

    Parameters
    ----------
    dim : int
        Number of dimensions of the features.
    tree : LabelTree
        In which each class has exactly one leaf: :func:`sylvan.indexing.class_tree` makes it from the mean features of
        the classes, :func:`sylvan.indexing.balanced_tree` from an order, such as falling frequency.
    n_candidates : int
        :math:`N_c`, which is also how many nodes of a layer the search for them follows. With as many as there are
        classes, or more, the loss is the full softmax's.
    n_noises : int
        :math:`N_n`.
    noise : Sampler, optional
        Where noises come from, as in :class:`~sylvan.sampling.CANELoss`; uniform when None.
    bias : bool
        Whether edges have a bias.
    together : bool
        An extension: the noises of a query in one sum, as in :class:`~sylvan.sampling.CANELoss`.
    sparse : bool
        Whether the gradients of the edge weights and biases are sparse. False makes them dense, which
        ``DistributedDataParallel`` needs.

    Attributes
    ----------
    edge_weights : Parameter of float32, shape (n_edges, dim)
        Zeros at first, with which all classes are alike. An edge leads to a node from its parent; edges are numbered
        as nodes are, layer after layer.
    edge_biases : Parameter of float32, shape (n_edges,), or None
    coverage : Tensor of float32, scalar
        Share of the last batch's positives that were among their candidates.

    Raises
    ------
    ParameterError
        When a parameter is out of its range, or the noise is for another number of classes.
    DataError
        When a class of the tree has several leaves; later, when features or targets don't fit.

    Notes
    -----
    The gradients of the parameters are sparse, but for :meth:`log_prob` with gradients: use
    :class:`~sylvan.sampling.RowwiseAdagrad`, Adagrad or SGD for them (:func:`~sylvan.sampling.check_optimizer` has the
    reasons) and what you like for the network before.

    A tree that puts like classes together pays: it decides how many targets are covered. ``state_dict`` carries the
    tree, and ``load_state_dict`` takes it over: a head made with any tree of the same shape will do.

    References
    ----------
    L. Han, Y. Huang and T. Zhang, "Candidates vs. Noises Estimation for Large Multi-Class Classification Problem",
    ICML 2018, section 4.2, Algorithms 2 and 3.

    Examples
    --------
    >>> import torch
    >>> from sylvan.indexing import balanced_tree
    >>> from sylvan.sampling import BeamTreeHead, RowwiseAdagrad
    >>> centres = torch.randn(100, 16)
    >>> targets = torch.arange(100).repeat(20)
    >>> features = centres[targets] + 0.1 * torch.randn(2000, 16)
    >>> head = BeamTreeHead(16, balanced_tree(range(100), branching=10), n_candidates=9, n_noises=1)
    >>> optimizer = RowwiseAdagrad(head.parameters(), lr=0.3)
    >>> for batch in torch.randperm(2000).split(100):
    ...     optimizer.zero_grad()
    ...     head(features[batch], targets[batch]).backward()
    ...     optimizer.step()
    >>> best = head.topk(features, k=3)
    >>> best.classes.shape, bool((best.classes[:, 0] == targets).float().mean() > 0.9)
    (torch.Size([2000, 3]), True)
    """

    dim: Annotated[int, Range(1)]
    tree: Annotated[LabelTree, Instance(words="a LabelTree, such as sylvan.indexing.class_tree makes")]
    n_candidates: Annotated[int, Range(1)] = 9
    n_noises: Annotated[int, Range(1, 1 << 20)] = 1
    noise: Annotated[Sampler | None, Instance(words="a sampler of sylvan.sampling")] = None
    bias: bool = True
    _: KW_ONLY
    together: bool = False
    sparse: bool = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        tree, noise = self.tree, self.noise
        if noise is None and isinstance(tree, LabelTree):
            self.noise = Uniform(tree.n_labels)
        self.check_params()
        check_class_tree(tree, tree.n_labels, owner=type(self).__name__)
        if self._noise.n_classes != tree.n_labels:
            raise ParameterError(
                f"The 'noise' parameter of BeamTreeHead must draw from as many classes as the tree holds, "
                f"{tree.n_labels}. Got {type(noise).__name__} for {self._noise.n_classes} classes instead."
            )
        self._paths = TreePaths(tree)
        n_edges = self._paths.first[-1]
        self.edge_weights = nn.Parameter(torch.zeros(n_edges, self.dim))
        self.edge_biases = nn.Parameter(torch.zeros(n_edges)) if self.bias else None
        self.coverage = torch.tensor(float("nan"))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.tree.n_labels

    @property
    def _noise(self) -> Sampler:
        assert isinstance(self.noise, Sampler)
        return self.noise

    # Training.

    def forward(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        features : Tensor of float, shape (..., dim)
            Not looked at for NaN, which makes the loss NaN, as in cross-entropy.
        targets : Tensor of int, shape (...), or (..., p) for up to p positives a query
            ``ignore_index`` marks a query to ignore, or a place without a positive. With several distinct positives,
            the loss is the mean of the losses that each would have alone.

        Returns
        -------
        Tensor of float32 (float64 for float64 inputs)
            A scalar, or for ``reduction="none"`` the shape of ``features`` without its last dimension, with zeros where
            a query is ignored.

        Raises
        ------
        DataError
            When something isn't a tensor, or shapes, dtypes or devices don't fit, or (looked at on the CPU only) a
            target is neither a class nor ``ignore_index``.
        """
        checked = self._checked_targets(features, targets)
        return self._reduced(features, checked, self.edge_weights, self.edge_biases, ())

    def loss(self, features: Tensor, targets: Tensor) -> Tensor:
        """The loss of a batch: what calling the head gives, see :meth:`forward`."""
        return self(features, targets)  # type: ignore[no-any-return]

    @eagerly
    def _checked_targets(self, features: Tensor, targets: Tensor) -> Tensor:
        """The targets as int64, after all checks."""
        self._check_features(features)
        tensors.need_tensor(targets, "The targets of BeamTreeHead, class numbers,")
        if targets.device != features.device:
            raise DataError(
                f"The targets of BeamTreeHead must be on the device of the features, {features.device}. "
                f"Got {targets.device} instead."
            )
        return class_loss.checked_targets(
            targets, features, self.n_classes, self.ignore_index, owner="BeamTreeHead",
            numbered="like the labels of its tree",
        )  # fmt: skip

    def _each(self, features: Tensor, weights: Tensor, targets: Tensor, biases: Tensor | None) -> Tensor:
        targeted = class_loss.positives(targets, self.ignore_index)
        chosen = self._select(features, targeted)
        anything = targeted.ids[:, :1]  # what empty places read: a row that is read anyway
        useful = chosen.is_noise
        if not self.together:
            useful = useful & chosen.covered.any(dim=1, keepdim=True)
        ids = [
            chosen.candidates.where(chosen.is_candidate, anything),
            chosen.noises.where(useful, anything),
            targeted.ids,
        ]
        scores = self._paths.chosen(features, weights, biases, torch.cat(ids, dim=1))
        self.coverage = chosen.covered[targeted.present].float().mean()
        losses = class_loss.cane_losses(chosen, scores, targeted, together=self.together)
        if biases is None:
            return losses
        return class_loss.masked_to_infinity(losses, biases.detach()[self._paths.edges[targeted.ids]].flatten(1))

    @without_gradient
    def _select(self, features: Tensor, targeted: Positives) -> Selection:
        n = self.n_candidates
        rows, weights, biases = features.detach(), self.edge_weights.detach(), self.edge_biases
        candidates, _ = self._paths.best(rows, weights, None if biases is None else biases.detach(), n, n)
        self._noise.observe(targeted.ids[targeted.present])
        return class_loss.select(self._noise, self.n_noises, rows.float(), candidates, targeted.ids)

    # Prediction.

    @torch.no_grad()
    def topk(self, features: Tensor, k: int, beam: int | None = None) -> BestClasses:
        """The classes of the highest scores that a beam search finds.

        Parameters
        ----------
        features : Tensor of float, shape (..., dim)
            Not looked at for NaN, which makes scores NaN.
        k : int
            How many, in [1, 1,000,000], or up to the number of classes where there are more.
        beam : int, optional
            Nodes followed in each layer above the classes; ``n_candidates`` or ``k``, whichever is more, when None.
            With as many as the layer above the classes has, no class is missed.

        Returns
        -------
        BestClasses
            ``classes`` and ``scores`` of the shape (..., k).

        Raises
        ------
        DataError
            When the features don't fit.
        ParameterError
            When ``k`` isn't an int in its range, or ``beam`` isn't one in [1, inf).

        Examples
        --------
        >>> import torch
        >>> from sylvan.indexing import balanced_tree
        >>> from sylvan.sampling import BeamTreeHead
        >>> head = BeamTreeHead(2, balanced_tree([0, 1, 2], branching=2))
        >>> with torch.no_grad():
        ...     _ = head.edge_biases.copy_(torch.tensor([0.0, 1.0, 3.0, 1.0, 0.0]))
        >>> head.topk(torch.zeros(1, 2), k=4)
        BestClasses(classes=tensor([[ 0,  1,  2, -1]]), scores=tensor([[3., 2., 1., -inf]]))
        """
        self._check_features(features)
        check_value("k", k, Number(int, 1, max(self.n_classes, _MOST_ANSWERS)), "BeamTreeHead")
        beam = max(k, self.n_candidates) if beam is None else beam
        check_value("beam", beam, Number(int, 1), "BeamTreeHead")
        rows = features.reshape(-1, self.dim)
        wide = at_least_single(rows, self.edge_weights)
        classes = torch.full((len(rows), k), -1, dtype=torch.int64, device=rows.device)
        scores = torch.full((len(rows), k), -torch.inf, dtype=wide, device=rows.device)
        # Scores that a beam search has at once for a query, about.
        layers = zip(np.diff(self._paths.first), self._paths.fan_outs, strict=True)
        for part in slices(len(rows), max(min(int(size), 8 * beam * fan) for size, fan in layers)):
            best, best_scores = self._paths.best(rows[part], self.edge_weights, self.edge_biases, beam, k)
            m = best.shape[1]
            classes[part, :m], scores[part, :m] = best, best_scores
        outer = features.shape[:-1]
        return BestClasses(classes.reshape(*outer, k), scores.reshape(*outer, k))

    def log_prob(self, features: Tensor, exact: bool = True, beam: int | None = None) -> Tensor:
        """Log-probabilities of all classes.

        Parameters
        ----------
        features : Tensor of float, shape (..., dim)
        exact : bool
            The softmax over all classes, with gradients (dense ones). Else, without, over the classes that a beam
            search finds; all others get minus infinity.
        beam : int, optional
            Nodes followed in each layer, and classes in the end, when not exact; ``n_candidates`` when None.

        Returns
        -------
        Tensor of float32 (float64 for float64 inputs), shape (..., n_classes)

        Raises
        ------
        DataError
            When the features don't fit.
        ParameterError
            When ``exact`` isn't True or False, or ``beam`` isn't an int in [1, inf).
        """
        self._check_features(features)
        check_value("exact", exact, Flag(), "BeamTreeHead")
        rows = features.reshape(-1, self.dim)
        if exact:
            log_probs = self._paths.all_classes(rows, self.edge_weights, self.edge_biases).log_softmax(dim=1)
        else:
            beam = self.n_candidates if beam is None else beam
            check_value("beam", beam, Number(int, 1), "BeamTreeHead")
            best = self.topk(rows, min(beam, self.n_classes), beam=beam)
            shape, dtype = (len(rows), self.n_classes + 1), best.scores.dtype
            log_probs = torch.full(shape, -torch.inf, dtype=dtype, device=rows.device)
            # Places without a class write minus infinity into a column that is dropped.
            places = best.classes.where(best.classes >= 0, self.n_classes)
            log_probs = log_probs.scatter(1, places, best.scores.log_softmax(dim=1))[:, :-1]
        return log_probs.reshape(*features.shape[:-1], self.n_classes)

    def class_embeddings(self) -> tuple[Tensor, Tensor | None]:
        """Class embeddings (n_classes, dim) and biases (n_classes,) of a plain output layer with the same scores.

        With gradients. ``features @ embeddings.T + biases`` are the scores of all classes; other losses, such as
        :class:`~sylvan.sampling.FullSoftmaxLoss` for a perplexity in little memory, and adaptive samplers take both.
        """
        biases = self.edge_biases
        return self._paths.class_rows(self.edge_weights), None if biases is None else self._paths.class_rows(biases)

    # Checks.

    def _check_features(self, features: Tensor) -> None:
        name = "The features given to BeamTreeHead"
        tensors.need_floats(features, name)
        fits = features.dim() >= 2 and features.shape[-1] == self.dim
        tensors.need_shape(fits, features, name, f"(..., {self.dim}), at least two dimensions")
        if features.device != self.edge_weights.device:
            raise DataError(
                f"The features given to BeamTreeHead are on {features.device}, its weights on "
                f"{self.edge_weights.device}: move one of them with to(device)."
            )

    # What state_dict holds beside the parameters.

    def get_extra_state(self) -> dict[str, Any]:
        """The tree (:meth:`torch.nn.Module.get_extra_state`)."""
        offsets = [torch.tensor(layer) for layer in self.tree.child_offsets]
        return {"child_offsets": offsets, "leaf_labels": torch.tensor(self.tree.leaf_labels)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over the tree that :meth:`get_extra_state` gave."""
        if not isinstance(state, dict) or not {"child_offsets", "leaf_labels"} <= state.keys():
            raise DataError("This state isn't that of a BeamTreeHead: it holds no tree.")
        offsets = tuple(layer.cpu().numpy() for layer in state["child_offsets"])
        labels = state["leaf_labels"].cpu().numpy()
        tree = LabelTree(offsets, labels, len(labels))
        if tree.layer_sizes != self.tree.layer_sizes:
            raise DataError(
                f"This state is that of a BeamTreeHead with a tree of {tree.layer_sizes} nodes in its layers, but the "
                f"tree of this one has {self.tree.layer_sizes}: make it with a tree of the same shape."
            )
        self.tree = tree
        self._paths = TreePaths(tree).to(self.edge_weights.device)
