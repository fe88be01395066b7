"""Sylvan's rows: from raw texts to a trained model, its answers, and what both take."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import measure
from benchmarks.transformers import plan, sets

__all__ = ["joined", "measured", "model_folder"]

TOP = 10
ALONE = 200  # texts ranked one at a time
MOST_NODES = 32_768  # of a layer that an encoder is trained on, as libpecos has it
VECTORIZER = {"min_df": 2, "sublinear_tf": True}
Record = dict[str, Any]


def measured(row: Record, folder: Path, job: Record) -> Record:
    """Trains, saves and opens a model; the figures of training and ranking."""
    texts, labels = sets.lines(folder / "train.txt"), sets.label_lists(folder)
    model = _made(row, job, len({name for names in labels for name in names}))
    with measure.Training() as training:
        model.fit(texts, labels)
    figures: Record = {"version": _version(), "build": training.figures()}
    if getattr(model, "history_", None):
        figures["layers"] = [_layer(record) for record in model.history_]
    if hasattr(model, "ranker_"):
        params = model.ranker_.get_params(deep=False)
        figures["ranker"] = {name: params[name] for name in plan.RANKER}
    saved = model_folder(row, Path(job["cache"]))
    known = row["contender"] == "frozen" and "settings" in row  # whose vectors of the test texts needn't be timed again
    timed = not known and "device" not in row  # several trainings share a GPU
    if hasattr(model, "cache"):
        model.cache = None  # which is of this machine alone
    model.save(saved)
    figures["model_mb"] = measure.folder_bytes(saved) / 1e6
    opened = _opened(saved)
    if known:
        opened.cache = _vectors(job)
    return figures | _asked(opened, folder, timed=timed)


def joined(row: Record, folder: Path, job: Record) -> Record:
    """The ensemble of models that were trained before."""
    import sylvan

    folders = [model_folder(member, Path(job["cache"])) for member in plan.members(row)]
    model = sylvan.Ensemble.of_fitted([_opened(saved) for saved in folders], n_jobs=1)
    size = sum(measure.folder_bytes(saved) for saved in folders) / 1e6
    return {"version": _version(), "model_mb": size, **_asked(model, folder, timed="device" not in row)}


def model_folder(row: Record, cache: Path) -> Path:
    """Where the model of a row is saved, for the ensembles."""
    known = {name: row.get(name) for name in (*plan.KEYS, "seed")}
    word = hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).hexdigest()
    return cache / "transformers" / f"{row['set']}-{row['contender']}-{word}"


def _vectors(job: Record) -> Path:
    return Path(job["cache"]) / "transformers" / "vectors"


def _made(row: Record, job: Record, n_labels: int) -> Any:
    """The model of a row."""
    from sylvan import TextModel, TfidfVectorizer, XRLinear

    vectorizer, settings = TfidfVectorizer(**VECTORIZER, n_jobs=1), dict(row.get("settings", {}))
    if row["contender"] == "xr-linear":
        return TextModel(vectorizer, XRLinear(n_jobs=1, seed=row["seed"], **settings))
    from sylvan import TransformerMatcher, XRTransformer, XTransformer
    from sylvan.indexing.clustering import layer_plan

    frozen = row["contender"] == "frozen"
    device = row.get("device", "cpu")
    shared = {
        "encoder": job["encoder"], "vectorizer": vectorizer, "max_length": row["tokens"], "device": device,
        "n_jobs": 1 if device == "cpu" else 4, "seed": row["seed"], "frozen": frozen,
        "cache": _vectors(job) if frozen and settings else None, "dense_scale": settings.pop("dense_scale", None),
    }  # fmt: skip
    of_ranker = {f"ranker__{name}": value for name, value in settings.items()}
    if frozen:
        return XRTransformer(**shared).set_params(**of_ranker)
    steps = {"batch_size": row["batch"], "epochs": 1000.0, "precision": row.get("precision", "no")}  # max_steps decide
    if row["contender"] == "x-transformer":
        matcher = TransformerMatcher(**steps, max_steps=row["steps"])
        return XTransformer(**shared, matcher=matcher).set_params(**of_ranker)
    sizes = layer_plan(n_labels, 16, 100)
    layers = sum(size <= MOST_NODES for size in sizes)
    matcher = TransformerMatcher(**steps, max_steps=shares(row["steps"], layers), max_nodes=MOST_NODES)
    return XRTransformer(**shared, matcher=matcher).set_params(**of_ranker)


def shares(steps: int, layers: int) -> list[int]:
    """The steps of each layer, the same but for what doesn't divide."""
    return [steps // layers + (at < steps % layers) for at in range(layers)]


def _opened(folder: Path) -> Any:
    """A saved model, asked on one thread."""
    import sylvan

    model = sylvan.load(folder)
    for name in ("n_jobs", "model__n_jobs"):
        if name in model.get_params():
            model.set_params(**{name: 1})
    return model


def _version() -> str:
    import sylvan

    return str(sylvan.__version__)


def _layer(record: Record) -> Record:
    names = ("layer", "nodes", "steps", "candidates", "coverage", "seconds")
    return {name: record[name] for name in names if name in record}


def _asked(model: Any, folder: Path, timed: bool = True) -> Record:
    """Precision, recall, and milliseconds in a batch of all test texts and alone."""
    texts = sets.lines(folder / "test.txt")
    Y, Y_train = sets.matrix(folder, "Y.tst"), sets.matrix(folder, "Y.trn")
    model.rank(texts[:2], TOP)  # which reads the encoder
    with measure.Clock() as clock:
        names = model.rank(texts, TOP).names
    top = np.full((len(texts), TOP), -1, dtype=np.int64)
    for at, answer in enumerate(names):
        top[at, : len(answer)] = [int(name) for name in answer]
    figures = measure.precision(top, Y, Y_train) | measure.recall(top, Y)
    if not timed:
        return figures
    figures["ms_per_row"] = 1e3 * clock.wall / len(texts)
    alone = measure.one_by_one(lambda text: model.rank([text], TOP), texts[:ALONE], warm=5)
    return figures | {"alone": alone.pop("rows")} | alone
