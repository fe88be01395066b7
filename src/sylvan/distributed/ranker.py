"""A saved model as the workers of a cluster rank with it: mapped once by each process, the same one on every node."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sylvan import store
from sylvan.arrays import validate
from sylvan.arrays.topk import TopK
from sylvan.data.text_rows import field_names
from sylvan.distributed.cluster import need_ray
from sylvan.distributed.columns import checked_features
from sylvan.distributed.nodes import ask_nodes
from sylvan.distributed.ray_runner import RayRunner
from sylvan.errors import ModelError, ParameterError, SylvanError
from sylvan.models.at_work import Source, answer, load_ranking, set_device, set_ranking, set_threads, unknown_texts
from sylvan.models.base import MOST_ANSWERS, Estimator
from sylvan.runtime.jobs import Job

_Answers = tuple[TopK, "list[list[str]] | None", int]  # the last: texts of which the model knows no word


@dataclass(frozen=True)
class Ranker:
    """A model in a folder and what it is asked for; small enough to be sent anywhere."""

    folder: str  # its absolute path
    checksum: str  # of its manifest: another model isn't taken for it
    k: int | None  # None with a rule alone
    parameters: tuple[tuple[str, Any], ...] = ()  # of the model, as far as they aren't as saved
    device: str | None = None  # of its encoder
    rule: Mapping[str, Any] | None = None  # the arguments of `choose`
    lists: Mapping[str, Any] = field(default_factory=dict)  # `allowed` and `denied`, as far as they are given
    n_threads: int = 1

    @staticmethod
    def of(folder: str | os.PathLike[str], k: int | None, **more: Any) -> Ranker:
        """The ranker of the model that is in ``folder`` now."""
        path = os.path.abspath(folder)
        ranker = Ranker(path, str(store.contents(path)["checksum"]), k, **more)
        if k is not None:
            validate.count(k, "k", high=max(ranker.model().n_labels_, MOST_ANSWERS))
        return ranker

    @property
    def key(self) -> str:
        """What the numbers beside the labels are called."""
        return "scores" if self.rule is None else "probabilities"

    def model(self) -> Any:
        """The model, mapped when this process first asks for it."""
        return _mapped(self.folder, self.checksum, self.parameters, self.device, self.n_threads)

    def inputs(self, text: str | Sequence[str] | None, features: str | Sequence[str] | None) -> tuple[str, ...]:
        """The fields or columns that the model ranks by: of texts, by default those of its training, or of features."""
        model = self.model()
        if model.takes_texts:
            if features is not None:
                raise ParameterError(
                    f"The 'features' parameter isn't for the model in {self.folder!r}: it takes texts."
                )
            return field_names(tuple(model.text_fields_) if text is None else text)
        if text is not None:
            raise ParameterError(f"The 'text' parameter isn't for the model in {self.folder!r}: it takes features.")
        return checked_features(features)

    def rank(self, rows: Any) -> _Answers:
        """The best labels of some rows, their names where labels have any, and the number of unknown texts."""
        model = self.model()
        top, names = answer(model, rows, self.k, self.rule, **self.lists)
        n_unknown = int(unknown_texts(model, rows, top).sum())
        return TopK(top.labels, top.scores), names, n_unknown  # without the vocabulary, which each would carry home

    def check_nodes(self, module: Any) -> None:
        """Have every node open the model, all at once."""
        for name, fault in ask_nodes(module, _fault, self):
            if fault:
                raise ModelError(
                    f"The node {name!r} can't open the model, whose folder must be one that all nodes see: {fault}"
                )


def rank_on_cluster(runner: RayRunner, ranker: Ranker, source: Source) -> Iterator[_Answers]:
    """Answers and their names, a block of rows after another in the order of the file. This process reads the file,
    workers rank its blocks; few blocks are in memory at a time."""
    ranker.check_nodes(need_ray())
    blocks = source.blocks(False if source.is_text else ranker.model().n_features_)
    jobs = (
        Job(f"rows{number}", _ranked, {"rows": rows}, title=f"ranking rows of {source.name}")
        for number, (rows, _) in enumerate(blocks)
    )
    yield from runner.ordered(jobs, {"ranker": ranker})


def _ranked(ranker: Ranker, rows: Any) -> _Answers:
    return ranker.rank(rows)


def _fault(ranker: Ranker) -> str:
    """On a node: why the model can't be used here; empty where it can."""
    try:
        ranker.model()
    except (SylvanError, ImportError) as error:  # ImportError: of an extra that this node lacks
        return str(error)
    return ""


@functools.lru_cache(maxsize=1)
def _mapped(
    folder: str, checksum: str, parameters: tuple[tuple[str, Any], ...], device: str | None, n_threads: int
) -> Estimator:
    model = load_ranking(folder)
    if store.contents(folder)["checksum"] != checksum:
        raise ModelError(f"The model in {folder!r} was replaced by another while rows were ranked with it.")
    set_ranking(model, dict(parameters))
    set_threads(model, n_threads)
    if device is not None:
        set_device(model, device)
    return model
