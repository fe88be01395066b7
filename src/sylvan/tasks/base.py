"""What the tasks have in common: an output layer over classes with any sampler and loss, and its optimisers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from sylvan.arrays.topk import TopK
from sylvan.errors import DataError, ParameterError
from sylvan.neural.loop.checkpoint import draw_convergence, results_of, to_json, write_json
from sylvan.neural.loop.engine import untouched_randomness
from sylvan.neural.loop.training import Job, RefreshSchedule, train
from sylvan.params.fields import KW_ONLY, Choice, Parameterized, Range, check_value, parameterized
from sylvan.sampling import (
    BeamTreeHead,
    CANELoss,
    ClassLoss,
    FrequencySubsets,
    HeadAndTailLoss,
    RowwiseAdagrad,
    Sampler,
    check_optimizer,
    make_head,
    make_loss,
    make_sampler,
    make_tail_sampler,
    topk,
)
from sylvan.sampling.by_name import HEADS, LOSSES, SAMPLERS, need_name, need_parameters
from sylvan.sampling.losses.sampled_softmax import CrossEntropyEstimate
from sylvan.sampling.midx.multi_index import JOINT
from sylvan.sampling.tensors import slices

_SCORES = 1 << 23  # in memory at a time
AUTO = "auto"
# Classes that are scored exactly unless their number is given. One product serves a whole batch, so that they cost far
# less than as many rows that are gathered for each query.
_MOST_HEAD = 1000
_FEWEST = 4  # classes for a head and a tail
TableOptimizer = Literal["adagrad", "rowwise-adagrad", "sgd", "adam"]


@torch.no_grad()
def target_ranks(
    queries: Tensor, table: Tensor, targets: Tensor, seen: tuple[Tensor, Tensor] | None = None, most: int | None = None
) -> Tensor:
    """The place of each target among all classes by falling inner product."""
    # Shapes: queries (n, dim); table (n_classes, dim); targets (n,); seen (total,); returns (n,)
    ranks = torch.empty(len(queries), dtype=torch.int64, device=queries.device)
    ids = torch.arange(len(table), device=queries.device)
    for part in slices(len(queries), len(table), most or _SCORES):
        scores = queries[part].float() @ table.float().t()  # (part, n_classes)
        target = targets[part].unsqueeze(1)
        wanted = scores.gather(1, target)
        if seen is not None:
            ends = torch.tensor([part.start, part.stop], device=seen[0].device)
            pairs = slice(*torch.searchsorted(seen[0], ends).tolist())
            scores[seen[0][pairs] - part.start, seen[1][pairs]] = -torch.inf
        wrong = ~torch.isfinite(wanted)
        better = (scores > wanted) | ((scores == wanted) & (ids < target))
        # The target itself never counts, even where it was among the excluded.
        better.scatter_(1, target, False)
        ranks[part] = torch.where(wrong.squeeze(1), len(table), 1 + better.sum(dim=1))
    return ranks


def part_of(split: Any) -> str:
    """The part of the data that is measured."""
    check_value("split", split, Choice(("validation", "test")), "evaluate")
    return str(split)


def ranking_measures(ranks: Tensor, at: Sequence[int] = (10, 20, 50)) -> dict[str, float]:
    """NDCG and recall of rankings in which one class is right: the mean of 1/log2(rank + 1), and of 1, up to k."""
    # Shape: ranks (n,)
    place = ranks.double()
    gain = 1 / torch.log2(place + 1)
    results = {f"ndcg@{k}": float((gain * (ranks <= k)).mean()) for k in at}
    return results | {f"recall@{k}": float((ranks <= k).double().mean()) for k in at}


def usual_loss(sampler: Any, n_classes: int) -> str:
    """The loss where none is chosen: a head and a tail where a sampler of the tail can be made. That is where the
    sampler is given by name; and a batch's own targets needn't hold any of the tail."""
    if isinstance(sampler, str) and sampler != "in-batch" and n_classes >= _FEWEST:
        return "head-and-tail"
    return "sampled-softmax"


class ClassObjective(nn.Module):
    """What the query of a batch is trained towards, from names or from objects."""

    def __init__(
        self,
        n_classes: int,  # n_classes, dim: shape of the class table
        dim: int,
        *,
        sampler: str | Sampler,  # a name that `sylvan.sampling.make_sampler` knows, or a sampler
        loss: str | ClassLoss | BeamTreeHead,
        n_samples: int,  # negatives
        counts: np.ndarray[Any, Any],  # shape (n_classes,): how often each class is a target in training
        # sampler_parameters, loss_parameters: further parameters of what is given by name. "head-and-tail" takes
        # `n_head` among those of the loss, the number of classes that are scored exactly
        sampler_parameters: Mapping[str, Any] | None = None,
        loss_parameters: Mapping[str, Any] | None = None,
        shared: bool = False,  # whether a batch shares its negatives, for a loss given by name
        codewords: int | None = None,  # codewords of each codebook, for MIDX given by name
        refresh: RefreshSchedule | None = None,
        # gives a matrix with a row for each class, of what is like in like classes: for a head's tree by k-means
        centers: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__()
        self.refresh = refresh or RefreshSchedule.for_classes(n_classes)  # when an adaptive sampler sees the table
        if isinstance(sampler, str):  # refused also where the loss needs none
            need_name("sampler", SAMPLERS, sampler)
        # a name that `sylvan.sampling.make_loss` or `sylvan.sampling.make_head` knows, or such an object, which then
        # brings its sampler
        self.loss: ClassLoss | BeamTreeHead
        if not isinstance(loss, str):
            self.loss = _fitting(loss, n_classes, dim)
            return
        if loss == "full":
            if isinstance(sampler, Sampler):
                raise ParameterError("loss='full' looks at all classes: it takes no 'sampler'.")
            self.loss = make_loss(loss, **(loss_parameters or {}))
            return
        need_name("loss", [*LOSSES, *HEADS], loss)
        frequencies, settings = torch.from_numpy(np.asarray(counts)), dict(loss_parameters or {})
        if isinstance(sampler, str):
            of_codes = {"n_codewords": codewords} if codewords is not None and "midx" in sampler else {}
            parameters = {"counts": frequencies, **of_codes, **(sampler_parameters or {})}
            if loss == "head-and-tail":
                free = [word for word in HeadAndTailLoss.constraints if word not in ("sampler", "n_samples")]
                need_parameters(loss, settings, ["n_head", *free])
                n_head = settings.pop("n_head", min(_MOST_HEAD, max(1, n_classes // 2)))
                sampler = make_tail_sampler(sampler, n_classes, dim, n_head=n_head, **parameters)
            else:
                sampler = make_sampler(sampler, n_classes, dim, **parameters)
        parameters = {"counts": frequencies, **({"shared": True} if shared else {}), **settings}
        if loss in HEADS:
            head = make_head(
                loss, n_classes, dim, sampler, n_samples, **{"bias": False, "centers": centers, **parameters}
            )
            self.loss = _fitting(head, n_classes, dim)
        else:
            self.loss = make_loss(loss, sampler, n_samples, **{"dim": dim, **parameters})

    @property
    def sampler(self) -> Sampler | None:
        """Where negatives come from, CANE's noises among them; None for a loss without any."""
        result = getattr(self.loss, "noise" if isinstance(self.loss, BeamTreeHead) else "sampler", None)
        return result if isinstance(result, Sampler) else None

    @property
    def head(self) -> BeamTreeHead | None:
        """The layer whose weights stand for the class table; None where the loss works on the table."""
        return self.loss if isinstance(self.loss, BeamTreeHead) else None

    def tables(self) -> list[nn.Parameter]:
        """Vectors that score classes as the class table does, and want its optimiser: a head's or of subsets."""
        if isinstance(self.loss, BeamTreeHead):
            return [self.loss.edge_weights]
        candidates = self.loss.candidates if isinstance(self.loss, CANELoss) else None
        return [candidates.subset_vectors] if isinstance(candidates, FrequencySubsets) else []

    def inner_parameters(self) -> list[nn.Parameter]:
        """All other parameters, such as codewords that are learned beside the model."""
        tables = {id(table) for table in self.tables()}
        return [parameter for parameter in self.parameters() if id(parameter) not in tables]

    def output_embeddings(self, table: Tensor) -> Tensor:
        """The table whose inner products with queries are the model's scores; other than ``table`` for some."""
        if isinstance(self.loss, BeamTreeHead):
            return self.loss.class_embeddings()[0]
        return self.loss.output_embeddings(table) if isinstance(self.loss, CANELoss) else table

    def top_classes(self, queries: Tensor, table: Tensor, k: int) -> TopK:
        """The best classes of queries (n, dim): of all classes, or of those that a head's search finds."""
        classes = self.output_embeddings(table)
        k = min(k, len(classes))
        best = self.loss.topk(queries, k) if isinstance(self.loss, BeamTreeHead) else topk(queries, classes, k)
        return TopK(best.classes.int().cpu().numpy(), best.scores.float().cpu().numpy())

    def forward(self, queries: Tensor, table: Tensor, targets: Tensor, step: int, bias: Tensor | None = None) -> Tensor:
        """The loss of a batch, after a refresh of the sampler when ``step`` is one for it."""
        sampler = self.sampler
        due = sampler is not None and sampler.adaptive and self.refresh.due(step)
        joint = getattr(sampler, "learnable", None) in JOINT  # MIDX with codewords that are parameters
        if isinstance(self.loss, BeamTreeHead) and (due or joint):
            table = self.output_embeddings(table).detach()
        if sampler is not None and due:
            sampler.refresh(table)
        if isinstance(self.loss, BeamTreeHead):
            loss: Tensor = self.loss(queries, targets)
        else:
            loss = self.loss(queries, table, targets, bias)
            # The true loss is looked at in every step that is a power of two, from some way into the training on.
            if isinstance(self.loss, CrossEntropyEstimate) and step >= 64 and step & (step - 1) == 0:
                self.loss.check(queries, table, targets, bias)
        if joint:
            learning: Callable[[Tensor, Tensor], Tensor] = getattr(sampler, "learning_loss")  # noqa: B009
            counted = targets.long() != self.loss.ignore_index
            trained = queries[counted.any(dim=-1) if targets.dim() == queries.dim() else counted]
            if len(trained):
                loss = loss + learning(trained, table)
        return loss


def _fitting(loss: Any, n_classes: int, dim: int) -> Any:
    """A loss or head; a head must be for these classes, and without biases, as class tables here have none."""
    if isinstance(loss, BeamTreeHead):
        if (loss.n_classes, loss.dim) != (n_classes, dim):
            raise ParameterError(
                f"The BeamTreeHead given as 'loss' must be for {n_classes} classes and {dim} dimensions. Got one for "
                f"{loss.n_classes} and {loss.dim} instead."
            )
        if loss.bias:
            raise ParameterError("The BeamTreeHead of a task must have bias=False: its measures know no biases.")
        return loss
    if not isinstance(loss, ClassLoss):
        raise ParameterError(
            f"The 'loss' parameter must be a name, a ClassLoss or a BeamTreeHead. Got {type(loss).__name__} instead."
        )
    return loss


def context_centers(
    before: npt.NDArray[Any], targets: npt.NDArray[Any], n_classes: int, dim: int = 64
) -> npt.NDArray[np.float32]:
    """Classes with like vectors follow on like things. For every class it is counted what came before it; the roots of
    the shares of each, seen from the directions in which classes differ most, are its vector."""
    # Shapes: before (n, m); targets (n,); returns (n_classes, dim or fewer)
    places = before.shape[1]
    real = before >= 0
    columns = (before.astype(np.int64) + n_classes * np.arange(places))[real]
    rows = np.broadcast_to(targets[:, None], before.shape)[real]
    shape = n_classes, places * n_classes
    counts = sp.csr_matrix((np.ones(len(rows), np.float64), (rows, columns)), shape=shape)  # repeated ones are summed
    sums = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1.0)
    shares = (sp.diags(1 / sums) @ counts).sqrt().tocsr()
    dim = min(dim, n_classes)
    # A randomised look at the rows' space and two steps towards its main directions: the same bits every time.
    basis = shares @ np.random.default_rng(0).standard_normal((shares.shape[1], dim))
    for _ in range(2):
        basis = shares @ (shares.T @ np.linalg.qr(basis)[0])
    directions = np.linalg.qr(shares.T @ np.linalg.qr(basis)[0])[0]
    result: npt.NDArray[np.float32] = (shares @ directions).astype(np.float32)
    return result


def table_optimizer(
    name: str, tables: Sequence[nn.Parameter], rate: float, *, sparse: bool, warn: bool = False
) -> torch.optim.Optimizer:
    """The optimiser of that name."""
    optimizer: torch.optim.Optimizer
    if name in ("adagrad", "rowwise-adagrad"):
        optimizer = RowwiseAdagrad(tables, lr=rate, elementwise=name == "adagrad")
    elif name == "sgd":
        optimizer = torch.optim.SGD(tables, lr=rate)
    else:
        optimizer = torch.optim.SparseAdam(tables, lr=rate) if sparse else torch.optim.Adam(tables, lr=rate)
    if warn:
        check_optimizer(optimizer, tables[0])
    return optimizer


@parameterized
class Task(Parameterized, Job):
    """Base of the tasks. A task sets ``usual_negatives``, the number of them where there are classes enough,
    ``usual_shared``, the number that a batch shares where neither loss nor sharing is chosen (0: none are), and
    ``data_names``, the parameters that are no settings.
    Parameters
    ----------
    sampler : str or Sampler
        Where negatives come from, by a name of :func:`sylvan.sampling.make_sampler` or as an object.
    loss : str, ClassLoss or BeamTreeHead
        By a name of :func:`sylvan.sampling.make_loss` or :func:`sylvan.sampling.make_head`, or as an object. "auto"
        is "head-and-tail" with the 1,000 most frequent classes (or half of them) for a head, where the sampler is given
        by name and isn't "in-batch", and "sampled-softmax" otherwise.
    n_samples : int, optional
        Negatives for each query, or for a whole batch where ``shared``.
    shared : bool, optional
        Whether a batch shares its negatives; not by default, but in language models whose ``loss`` is "auto".
    codewords : int
        Codewords of each codebook, for samplers by MIDX.
    sampler_parameters : mapping, optional
        Further parameters of a sampler given by name.
    loss_parameters : mapping, optional
        Further parameters of a loss given by name.
    refresh : RefreshSchedule, optional
        When an adaptive sampler sees the class table; :meth:`RefreshSchedule.for_classes
        <sylvan.neural.RefreshSchedule.for_classes>` by default.
    dropout : float in [0, 1]
        Of the encoder, in training.
    batch_size : int
        Rows, or sequences, of a batch.
    optimizer : {"adagrad", "rowwise-adagrad", "sgd", "adam"}
        Of the tables of classes and inputs. Adam ruins sampled losses there.
    learning_rate : float
        Of Adam on the encoder's layers.
    table_learning_rate : float, optional
        Of ``optimizer`` on the class table and the vectors of inputs; by default ``usual_table_rate``.
    seed : int
        Decides how data are split, the first parameters and the order of batches.
    device : str or torch.device
    """

    _: KW_ONLY
    sampler: str | Sampler = "midx-aware-rq"
    loss: str | ClassLoss | BeamTreeHead = AUTO
    n_samples: Annotated[int | None, Range(1)] = None
    shared: bool | None = None
    codewords: Annotated[int, Range(1)] = 64
    sampler_parameters: Mapping[str, Any] | None = None
    loss_parameters: Mapping[str, Any] | None = None
    refresh: RefreshSchedule | None = None
    dropout: Annotated[float, Range(0, 1)] = 0.0
    batch_size: Annotated[int, Range(1)] = 128
    optimizer: TableOptimizer = "rowwise-adagrad"
    learning_rate: Annotated[float, Range(0, open_low=True)] = 0.001
    table_learning_rate: Annotated[float | None, Range(0, open_low=True)] = None
    seed: Annotated[int, Range(0)] = 0
    device: str | torch.device = "cpu"

    usual_negatives = 1000
    usual_shared = 0
    usual_table_rate = 0.05
    data_names: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.check_params()
        with untouched_randomness():
            torch.manual_seed(self.seed)
            self._prepare()

    def _prepare(self) -> None:
        """Make what is trained, and its optimisers, of checked parameters; random numbers are those of the seed."""
        raise TypeError(f"{type(self).__name__} is abstract: it prepares nothing.")

    def make_objective(
        self, n_classes: int, dim: int, counts: np.ndarray[Any, Any], centers: Callable[[], Any]
    ) -> None:
        """What the queries are trained towards, with as many negatives as ``n_samples_``, by the loss ``loss_``."""
        self.loss_ = usual_loss(self.sampler, n_classes) if self.loss == AUTO else self.loss
        shares = self.usual_shared > 0 and self.loss == AUTO and self.loss_ == "head-and-tail"
        self.shared_ = shares if self.shared is None else self.shared
        # By default the task's usual number of negatives, but no more than half of the classes.
        usual = self.usual_shared if shares and self.shared_ else self.usual_negatives
        self.n_samples_ = self.n_samples or min(usual, max(1, n_classes // 2))
        self.table_learning_rate_ = self.table_learning_rate or self.usual_table_rate
        self._objective = ClassObjective(
            n_classes, dim, sampler=self.sampler, loss=self.loss_, n_samples=self.n_samples_, counts=counts,
            sampler_parameters=self.sampler_parameters, loss_parameters=self.loss_parameters, shared=self.shared_,
            codewords=self.codewords, refresh=self.refresh, centers=centers,
        )  # fmt: skip

    def make_module(self, encoder: nn.Module, name: str, table: nn.Parameter) -> nn.Parameter:
        """Put together what is trained; the class table, which is called ``name``, or the head's weights instead."""
        head = self._objective.head
        self.module = nn.ModuleDict({"encoder": encoder, "objective": self._objective})
        if head is None:
            self.module.register_parameter(name, table)
        self.module.to(self.device)
        return table if head is None else head.edge_weights

    def make_optimizers(
        self, inner: Sequence[nn.Parameter], tables: Sequence[tuple[nn.Parameter, float]], classes: nn.Parameter
    ) -> None:
        """Adam for the ``inner`` parameters and the objective's, and an optimiser for each of the encoder's ``tables``,
        with its rate, for the class table and for what the objective has of tables, a head's weights among them."""
        objective, rate = self._objective, self.table_learning_rate_
        headed, sampled = objective.head is not None, objective.sampler is not None
        if not headed and all(table is not classes for table, _ in tables):
            tables = [*tables, (classes, rate)]
        self.optimizers = [torch.optim.Adam([*inner, *objective.inner_parameters()], lr=self.learning_rate)]
        for table, its_rate in tables:
            # The table of the answers has dense gradients under the full softmax, and is no place for Adam.
            sparse, warn = (objective.loss.sparse, sampled) if table is classes else (True, False)
            self.optimizers.append(table_optimizer(self.optimizer, [table], its_rate, sparse=sparse, warn=warn))
        if beside := objective.tables():
            self.optimizers.append(table_optimizer(self.optimizer, beside, rate, sparse=headed, warn=headed))

    def shuffled(self, n: int, epoch: int) -> Iterator[npt.NDArray[np.int64]]:
        """The rows of each batch of an epoch, of ``n`` in all, in an order of its own."""
        order = np.random.default_rng((self.seed, epoch)).permutation(n)
        return (order[part] for part in slices(n, 1, self.batch_size))

    def plain_settings(self) -> dict[str, Any]:
        """The parameters that decide what is trained, as plain values."""
        results = {name: value for name, value in self.get_params(deep=False).items() if name not in self.data_names}
        plain = {name: dict(value) if isinstance(value, Mapping) else value for name, value in results.items()}
        used = {name: getattr(self, f"{name}_") for name in ("n_samples", "loss", "shared", "table_learning_rate")}
        return {**plain, **used}


def run_task(
    job: Job,
    *,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_entry: Any = None,
    on_start: Any = None,
    **limits: Any,
) -> dict[str, Any]:
    """Train ``job`` and draw its convergence.

    Parameters
    ----------
    job : Job
        One of this package, or your own.
    folder : path, optional
        Where ``results.json``, ``convergence.png``, ``convergence.svg``, ``checkpoint`` and ``best`` are written.
    resume : bool
    on_entry, on_start : callable, optional
        As in :func:`sylvan.neural.train`.
    **limits
        What else :func:`sylvan.neural.train` takes, ``epochs`` above all.

    Returns
    -------
    dict
        The content of ``results.json``: "settings", "training" (the limits), "epochs", "best", "test", "stopped",
        "seconds", "versions"; beside them "plots", the paths that were drawn, or "no_plot", why there are none.

    Examples
    --------
    >>> from sylvan.tasks import LanguageModel, run_task
    >>> from sylvan.tasks.language_model import build_corpus
    >>> text = [["the", "cat", "sat"]] * 40
    >>> corpus = build_corpus(text, text[:4], text[:4])
    >>> job = LanguageModel(corpus, sampler="uniform", n_samples=3, embedding=8, hidden=8, length=5, batch_size=4)
    >>> results = run_task(job, epochs=2)
    >>> results["stopped"], len(results["epochs"])
    ('epochs', 2)
    """
    history = train(job, folder=folder, resume=resume, on_entry=on_entry, on_start=on_start, **limits)
    results: dict[str, Any] = to_json(results_of(job.settings(), {"seed": 0, **limits}, history))
    if folder is None:
        return results
    plots = [os.path.join(folder, f"convergence.{suffix}") for suffix in ("png", "svg")]
    try:
        draw_convergence(history, plots, _title(results["settings"]))
        results["plots"] = plots
    except DataError as error:
        results["no_plot"] = str(error)
    write_json(os.path.join(folder, "results.json"), results)
    return results


def _title(settings: dict[str, Any]) -> str:
    loss, sampler = settings.get("loss"), settings.get("sampler")
    words = [str(settings[name]) for name in ("task", "model", "encoder") if settings.get(name) is not None]
    if loss == "full":
        words.append("full softmax")
    elif loss is not None:
        words.append(f"{loss}, {settings.get('n_samples')} from {sampler}")
    return ": ".join([*words[:1], ", ".join(words[1:])] if words[1:] else words)
