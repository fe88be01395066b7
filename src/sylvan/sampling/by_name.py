"""Samplers and losses by name, as command lines and tables of results have them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sylvan.errors import ParameterError
from sylvan.indexing import LabelTree, balanced_tree, class_tree
from sylvan.params.fields import Number, check_value
from sylvan.sampling.beam_tree_head import BeamTreeHead
from sylvan.sampling.losses.cane import FrequencySubsets
from sylvan.sampling.losses.loss import ClassLoss
from sylvan.sampling.samplers.base import Sampler, class_counts
from sylvan.sampling.samplers.static import Subset


@dataclass(frozen=True)
class _Known:
    """What a name stands for: a public class of :mod:`sylvan.sampling` and what it is always given."""

    kind: str
    line: str
    fixed: Mapping[str, Any] = field(default_factory=dict)


def _midx(line: str, **fixed: Any) -> _Known:
    return _Known("MIDX", line, fixed)


_GUMBEL = {"learnable": "joint-gumbel", "class_weights": None}  # as its authors' code has it
_AWARE = {"query_aware": True, "class_weights": None}  # classes then count by their mean probability
_SAMPLERS = {
    "uniform": _Known("Uniform", "all classes with the same probability"),
    "log-uniform": _Known("LogUniform", "Zipf's law, for ids sorted by falling frequency"),
    "unigram": _Known("Unigram", "classes as often as they occur (needs counts)"),
    "in-batch": _Known("InBatch", "the other targets of the batch"),
    "softmax": _Known("Softmax", "the exact softmax, at its full cost: the oracle"),
    "lsh": _Known("LSH", "classes that share hash signs with the query"),
    "sphere": _Known("Sphere", "alpha times the squared score plus one"),
    "rff": _Known("RFF", "random Fourier features of normalised embeddings"),
    "exact-midx-pq": _Known("ExactMIDX", "inverted multi-index, product codes, exact", {"quantizer": "pq"}),
    "exact-midx-rq": _Known("ExactMIDX", "inverted multi-index, residual codes, exact", {"quantizer": "rq"}),
    "midx-pq": _midx("inverted multi-index, product codes", quantizer="pq"),
    "midx-rq": _midx("inverted multi-index, residual codes", quantizer="rq"),
    "midx-learned-pq": _midx("the same with learned product codes", quantizer="pq", learnable=True),
    "midx-learned-rq": _midx("the same with learned residual codes", quantizer="rq", learnable=True),
    "midx-joint-pq": _midx("the same, trained beside the model (learning_loss)", quantizer="pq", learnable="joint"),
    "midx-joint-rq": _midx("the same, residual codes trained beside the model", quantizer="rq", learnable="joint"),
    "midx-gumbel-pq": _midx("the same as the authors' code has it: Gumbel noise", quantizer="pq", **_GUMBEL),
    "midx-gumbel-rq": _midx("the same, residual codewords", quantizer="rq", **_GUMBEL),
    "midx-aware-pq": _midx("the same, product codes made for recent queries", quantizer="pq", **_AWARE),
    "midx-aware-rq": _midx("the same, residual codes made for recent queries: the nearest", quantizer="rq", **_AWARE),
}
_LOSSES = {
    "full": _Known("FullSoftmaxLoss", "softmax over all classes, in chunks; without a sampler"),
    "sampled-softmax": _Known("SampledSoftmaxLoss", "softmax over the target and sampled classes, all corrected"),
    "sampled-softmax-eq1": _Known(
        "SampledSoftmaxLoss", "the same by Eq. (1): the target isn't", {"correction": "drawn"}
    ),
    "head-and-tail": _Known("HeadAndTailLoss", "frequent classes exactly, draws from the others"),
    "nce": _Known("NCELoss", "noise contrastive estimation: the target against noise"),
    "negative-sampling": _Known("NegativeSamplingLoss", "word2vec's logistic loss, without normalisation"),
    "blackout": _Known("BlackOutLoss", "discriminative loss over a weighted sample"),
    "one-vs-each": _Known("OneVsEachLoss", "a product of pairwise bounds on the softmax"),
    "cane": _Known("CANELoss", "candidates versus noises"),
}
_TREES = ("frequency", "kmeans", "random")
SAMPLERS: Mapping[str, str] = {name: entry.line for name, entry in _SAMPLERS.items()}
LOSSES: Mapping[str, str] = {name: entry.line for name, entry in _LOSSES.items()}
HEADS: Mapping[str, str] = {"beam-tree": "candidates versus noises in a tree, with its own weights"}


def make_sampler(
    name: str, n_classes: int, dim: int | None = None, *, counts: Any = None, **parameters: Any
) -> Sampler:
    """The sampler of that name.

    Parameters
    ----------
    name : str
        A key of :data:`SAMPLERS`, which tells each in a line.
    n_classes : int
    dim : int, optional
        Number of dimensions of queries and class embeddings; only adaptive samplers need it.
    counts : sequence, array or Tensor of real numbers, shape (n_classes,), optional
        How often each class occurs. ``"unigram"`` needs it, ``"in-batch"`` takes it, and the MIDX samplers that
        are neither query-aware nor ``"midx-gumbel-…"`` weight their k-means by its square root unless
        ``class_weights`` is among the parameters (None for unweighted). The others ignore it.
    **parameters
        What else the sampler's class takes.

    Raises
    ------
    ParameterError
        For an unknown name or parameter, with the known ones, and when ``dim`` or ``counts`` is needed and missing.

    Examples
    --------
    >>> from sylvan.sampling import make_sampler
    >>> make_sampler("unigram", 3, counts=[5, 1, 2], power=0.75)
    Unigram(n_classes=3, counts=[5, 1, 2], power=0.75)
    """
    kind, fixed = _look_up("sampler", _SAMPLERS, name)
    signature = inspect.signature(kind).parameters
    arguments: dict[str, Any] = {"n_classes": n_classes, **fixed}
    if "dim" in signature:
        if dim is None:
            raise ParameterError(
                f"The sampler {name!r} depends on the query: it needs 'dim', the number of dimensions."
            )
        arguments["dim"] = dim
    if "counts" in signature:
        arguments["counts"] = counts
        if counts is None and signature["counts"].default is inspect.Parameter.empty:
            raise ParameterError(f"The sampler {name!r} needs 'counts', how often each class occurs.")
    if "class_weights" in signature and counts is not None and "class_weights" not in {**arguments, **parameters}:
        arguments["class_weights"] = class_counts(counts, n_classes, owner=kind.__name__).sqrt()
    sampler: Sampler = _made(kind, name, arguments, parameters)
    return sampler


def make_tail_sampler(
    name: str, n_classes: int, dim: int | None = None, *, counts: Any, n_head: int, **parameters: Any
) -> Subset:
    """A sampler of the classes that aren't among the most frequent ones, for :class:`~sylvan.sampling.HeadAndTailLoss`.

    Parameters
    ----------
    name : str
        Of the sampler that draws from them, a key of :data:`SAMPLERS`.
    n_classes, dim : int
        As :func:`make_sampler` takes them.
    counts : sequence, array or Tensor of real numbers, shape (n_classes,)
        How often each class occurs. Of equally frequent classes those of smaller ids are taken for more frequent.
    n_head : int
        How many classes are left out, in [1, n_classes).
    **parameters
        What else the sampler's class takes.

    Raises
    ------
    ParameterError
        As :func:`make_sampler`, and when ``n_head`` is out of its range.

    Examples
    --------
    >>> from sylvan.sampling import make_tail_sampler
    >>> make_tail_sampler("unigram", 5, counts=[5, 1, 2, 2, 0], n_head=2).drawn.tolist()
    [1, 3, 4]
    """
    often = class_counts(counts, n_classes, owner="make_tail_sampler")
    check_value("n_head", n_head, Number(int, 1, n_classes - 1), "make_tail_sampler")
    tail = often.argsort(descending=True, stable=True)[n_head:].sort().values
    return Subset(n_classes, make_sampler(name, len(tail), dim, counts=often[tail], **parameters), tail)


def make_loss(
    name: str,
    sampler: Sampler | None = None,
    n_samples: int | None = None,
    *,
    counts: Any = None,
    dim: int | None = None,
    **parameters: Any,
) -> ClassLoss:
    """The loss of that name.

    Parameters
    ----------
    name : str
        A key of :data:`LOSSES`, which tells each in a line.
    sampler : Sampler, optional
        Where negatives come from, or the noises of ``"cane"``. ``"full"`` takes none; ``"head-and-tail"`` needs one of
        :func:`make_tail_sampler`.
    n_samples : int, optional
        How many are drawn for each query, or in all with ``shared=True``. For ``"cane"``, whose noises are few
        (``n_noises``), the number of candidates. ``"full"`` takes none.
    counts : sequence, array or Tensor of real numbers, shape (n_classes,), optional
        How often each class occurs: for the candidates of ``"cane"``.
    dim : int, optional
        Number of dimensions of the queries: for the candidates of ``"cane"``.
    **parameters
        What else the loss's class takes. ``"cane"`` takes ``candidates``, any callable, or else what
        :class:`~sylvan.sampling.FrequencySubsets` takes (by default 100 subsets, or one for every two classes where
        there are fewer than 200).

    Raises
    ------
    ParameterError
        For an unknown name or parameter, with the known ones, and when something is missing or too much.

    Examples
    --------
    >>> from sylvan.sampling import Uniform, make_loss
    >>> loss = make_loss("sampled-softmax", Uniform(1000), 20)
    >>> loss.n_samples
    20
    """
    if isinstance(name, str) and name in HEADS:
        raise ParameterError(
            f"{name!r} is no loss over a table but a layer with weights of its own: make_head makes it."
        )
    kind, fixed = _look_up("loss", _LOSSES, name)
    if name == "cane" and "candidates" not in parameters:
        parameters = _with_candidates(parameters, counts, dim, n_samples)
        n_samples = None
    signature = inspect.signature(kind).parameters
    arguments: dict[str, Any] = dict(fixed)
    for word, place, value in (
        ("sampler", "noise" if name == "cane" else "sampler", sampler),
        ("n_samples", "n_samples", n_samples),
    ):
        if place not in signature:
            if value is not None:
                raise ParameterError(f"The loss {name!r} takes no {word!r}. Got one of type {type(value).__name__}.")
        elif value is not None:
            arguments[place] = value
        elif signature[place].default is inspect.Parameter.empty:
            raise ParameterError(f"The loss {name!r} needs {word!r}.")
    loss: ClassLoss = _made(kind, name, arguments, parameters)
    return loss


def make_head(
    name: str,
    n_classes: int,
    dim: int,
    noise: Sampler | None = None,
    n_candidates: int | None = None,
    *,
    tree: str | LabelTree = "frequency",
    branching: int = 10,
    counts: Any = None,
    centers: Any = None,
    seed: int = 0,
    **parameters: Any,
) -> BeamTreeHead:
    """The output layer of that name, which has a loss and weights of its own.

    Parameters
    ----------
    name : str
        A key of :data:`HEADS`.
    n_classes, dim : int
        Classes, and dimensions of the features.
    noise : Sampler, optional
        Where noises come from; uniform when None.
    n_candidates : int, optional
        By default the head's own.
    tree : {"frequency", "kmeans", "random"} or LabelTree
        Classes of like frequency, with near centres, or at random under one node of a balanced tree; or a tree with
        each class in one leaf.
    branching : int
        Most children of a node.
    counts : sequence, array or Tensor of real numbers, shape (n_classes,), optional
        How often each class occurs: for ``tree="frequency"``.
    centers : matrix of shape (n_classes, anything), optional
        What is like in like classes: for ``tree="kmeans"``. Or a function that makes it, called where it is needed.
    seed : int
        For the trees that are drawn.
    **parameters
        What else the head's class takes, such as ``n_noises``.

    Raises
    ------
    ParameterError
        For an unknown name, tree or parameter, with the known ones, and when something is missing.

    Examples
    --------
    >>> from sylvan.sampling.by_name import make_head
    >>> head = make_head("beam-tree", 1000, 16, n_candidates=20, counts=range(1000, 0, -1), n_noises=5)
    >>> head.tree.layer_sizes, head.n_candidates
    ((10, 100, 1000), 20)
    """
    need_name("head", HEADS, name)
    if not isinstance(tree, LabelTree):
        if not isinstance(tree, str) or tree not in _TREES:
            listed = ", ".join(map(repr, _TREES))
            raise ParameterError(
                f"The 'tree' parameter of {name!r} must be one of {listed}, or a LabelTree. Got {tree!r}."
            )
        for word, needed_by, value in (("counts", "frequency", counts), ("centers", "kmeans", centers)):
            if tree == needed_by and value is None:
                raise ParameterError(f"The tree {tree!r} of {name!r} needs {word!r}.")
        if tree == "random":
            tree = balanced_tree(np.random.default_rng(seed).permutation(n_classes), branching)
        elif tree == "frequency":
            often = class_counts(counts, n_classes, owner=name).cpu().numpy()
            tree = balanced_tree(np.argsort(-often, kind="stable"), branching)
        else:
            tree = class_tree(centers() if callable(centers) else centers, branching, seed=seed)
    arguments: dict[str, Any] = {"dim": dim, "tree": tree, "noise": noise}
    if n_candidates is not None:
        arguments["n_candidates"] = n_candidates
    head: BeamTreeHead = _made(BeamTreeHead, name, arguments, parameters)
    return head


def _with_candidates(
    parameters: Mapping[str, Any], counts: Any, dim: int | None, n_candidates: int | None
) -> dict[str, Any]:
    """The parameters of CANE with those of its candidates replaced by the candidates."""
    if counts is None or dim is None or n_candidates is None:
        missing = next(word for word, value in (("counts", counts), ("dim", dim), ("n_samples", None)) if value is None)
        raise ParameterError(f"The loss 'cane' needs {missing!r} for its candidates, or 'candidates' itself.")
    theirs = set(inspect.signature(FrequencySubsets).parameters) & set(parameters)
    n_classes = len(class_counts(counts, None, owner="FrequencySubsets"))
    of_subsets = {"n_subsets": max(1, min(100, n_classes // 2)), **{word: parameters[word] for word in theirs}}
    candidates = FrequencySubsets(counts, n_candidates=n_candidates, dim=dim, **of_subsets)
    return {**{word: value for word, value in parameters.items() if word not in theirs}, "candidates": candidates}


def need_name(kind: str, names: Collection[str], name: object) -> None:
    """Refuse a name that isn't among ``names``."""
    if not isinstance(name, str) or name not in names:
        raise ParameterError(f"There is no {kind} {name!r}. The known ones are: {', '.join(names)}.")


def need_parameters(name: str, parameters: Iterable[str], allowed: Collection[str]) -> None:
    """Refuse ``parameters`` of ``name`` that aren't among the ``allowed`` ones."""
    for parameter in parameters:
        if parameter not in allowed:
            listed = ", ".join(allowed) or "none"
            raise ParameterError(f"{name!r} has no parameter {parameter!r}. Its parameters are: {listed}.")


def _look_up(kind: str, table: Mapping[str, _Known], name: str) -> tuple[Any, dict[str, Any]]:
    need_name(kind, table, name)
    return getattr(sys.modules[__package__], table[name].kind), dict(table[name].fixed)


def _made(kind: Any, name: str, arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> Any:
    signature = inspect.signature(kind).parameters
    free = [word for word in signature if word not in arguments or word in ("counts", "class_weights")]
    need_parameters(name, [parameter for parameter in parameters if parameter not in signature], free)
    return kind(**{**arguments, **parameters})
