"""libpecos's rows: its XTransformer class (which is XR-Transformer) over the same texts.

Features are the finished matrices, whose making is not timed. Losses, negatives, beginnings and rates are those which
its authors give for EURLEX-4K (``examples/xr-transformer-neurips21``); tree, threshold, batch, tokens and steps are
Sylvan's. It pads every text to ``tokens``, takes the encoder's own pooler and computes in float32, which can't be
chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import measure
from benchmarks.transformers import sets

__all__ = ["measured"]

TOP = 10
ALONE = 200  # texts ranked one at a time
Record = dict[str, Any]


class Phases:
    """Seconds within some methods, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def watch(self, owner: Any, method: str, name: str) -> None:
        """From now on count the seconds of ``owner.method``."""
        inner: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **options: Any) -> Any:
            with measure.Clock() as clock:
                found = inner(*args, **options)
            self.spent[name] = self.spent.get(name, 0.0) + clock.wall
            return found

        setattr(owner, method, timed)


def measured(row: Record, folder: Path, job: Record) -> Record:
    """Trains, saves and opens a model; the figures of training and ranking."""
    from importlib import metadata

    from pecos.utils import torch_util
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xtransformer.matcher import TransformerMatcher
    from pecos.xmc.xtransformer.model import XTransformer
    from pecos.xmc.xtransformer.module import MLProblemWithText

    texts, X, Y = sets.lines(folder / "train.txt"), sets.matrix(folder, "X.trn"), sets.matrix(folder, "Y.trn")
    torch_util.set_seed(row["seed"])
    phases = Phases()
    phases.watch(TransformerMatcher, "fine_tune_encoder", "steps_s")
    phases.watch(TransformerMatcher, "_predict", "embedding_s")
    with measure.Training() as training:
        chain = Indexer.gen(
            LabelEmbeddingFactory.pifa(Y, X, threads=1), indexer_type="hierarchicalkmeans", nr_splits=16,
            max_leaf_size=100, seed=row["seed"], threads=1,
        )  # fmt: skip
        train, ask = _parameters(row, job, len(chain))
        problem = MLProblemWithText(texts, Y, X_feat=X)
        model = XTransformer.train(problem, clustering=chain, train_params=train, pred_params=ask, threads=1)
    saved = Path(job["scratch"]) / "model"
    if model.text_encoder.C is None:  # as where nothing is fine-tuned, and then it can't be saved
        model.text_encoder.C = chain[-1]
    model.save(str(saved))
    figures: Record = {
        "version": metadata.version("libpecos"), "build": training.figures() | phases.spent,
        "nodes": [int(C.shape[0]) for C in chain], "model_mb": measure.folder_bytes(saved) / 1e6,
    }  # fmt: skip
    return figures | _asked(XTransformer.load(str(saved)), folder)


def _parameters(row: Record, job: Record, layers: int) -> tuple[Any, Any]:
    """The parameters of training and ranking: its own dataclasses, filled as its command fills them."""
    from pecos.xmc.base import MLModel
    from pecos.xmc.xtransformer.model import XTransformer

    tuned = row["contender"] == "libpecos-xr-transformer"
    found: Record = {
        "model_shortcut": job["encoder"], "do_fine_tune": tuned, "use_gpu": False, "truncate_length": row["tokens"],
        "batch_size": row.get("batch", 32), "batch_gen_workers": 1, "negative_sampling": "tfn+man",
        "bootstrap_method": "weighted-linear", "loss_function": "weighted-squared-hinge", "learning_rate": 5e-5,
        "nr_splits": 16, "max_leaf_size": 100, "threshold": 0.05, "only_topk": 20, "post_processor": "l3-hinge",
        "save_steps": 10**9, "logging_steps": 10**9, "seed": row["seed"], "threads": 1,
    }  # fmt: skip
    if tuned:
        steps = max(1, row["steps"] // layers)
        found |= {"max_steps": steps, "warmup_steps": steps // 10}
    found |= row.get("settings", {})
    train = XTransformer.TrainParams.from_dict(found, recursive=True)
    ask = XTransformer.PredParams.from_dict(found, recursive=True)
    # As the paper has it, and Sylvan's preset: negatives of the matcher in the last layer, whose scores count alone.
    train.ranker_params.hlm_args.neg_mining_chain = ["tfn"] * (layers - 1) + ["tfn+man"]
    how = [(10, "l3-hinge")] * (layers - 1) + [(TOP, "noop")]
    ask.ranker_params.hlm_args.model_chain = [
        MLModel.PredParams(only_topk=count, post_processor=name) for count, name in how
    ]
    return train, ask


def _asked(model: Any, folder: Path) -> Record:
    """Precision, recall, and milliseconds in a batch of all test texts and alone."""
    texts, X = sets.lines(folder / "test.txt"), sets.matrix(folder, "X.tst")
    Y, Y_train = sets.matrix(folder, "Y.tst"), sets.matrix(folder, "Y.trn")
    shared = {"batch_gen_workers": 0, "use_gpu": False, "threads": 1}
    with measure.Clock() as clock:
        scores = model.predict(texts, X_feat=X, batch_size=32, **shared)
    top = measure.top_labels(scores, TOP)
    figures = {"ms_per_row": 1e3 * clock.wall / len(texts), **measure.precision(top, Y, Y_train)}
    figures |= measure.recall(top, Y)
    pairs = [(texts[at], X[at]) for at in range(min(ALONE, len(texts)))]
    alone = measure.one_by_one(lambda pair: model.predict([pair[0]], X_feat=pair[1], **shared), pairs, warm=5)
    return figures | {"alone": alone.pop("rows")} | alone
