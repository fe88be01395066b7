"""The search for parameters by ``annif hyperopt``, with Annif's own use of Optuna."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import annif.eval
import optuna
from annif.backend.hyperopt import HPObjective, HPRecommendation, HyperparameterOptimizer
from annif.exception import NotSupportedException, OperationFailedException
from annif.suggestion import SuggestionBatch

from sylvan.annif.parameters import text_model
from sylvan.annif.suggestions import subjects_of, suggested
from sylvan.annif.training_file import read_blocks
from sylvan.errors import DataError

_LIMIT = 10  # suggestions a document, as `annif eval` measures them

_Suggest = Callable[[Any], Any]

# What is tried, by the models that it concerns.
_WORDS: Mapping[str, _Suggest] = {
    "ngram": lambda trial: trial.suggest_int("ngram", 1, 2),
    "min_df": lambda trial: trial.suggest_int("min_df", 1, 5),
    "sublinear_tf": lambda trial: trial.suggest_categorical("sublinear_tf", [False, True]),
}
_SPACES: Mapping[str, Mapping[str, _Suggest]] = {
    "linear": {
        "cost": lambda trial: trial.suggest_float("cost", 0.25, 4.0, log=True),
        "max_leaf": lambda trial: trial.suggest_categorical("max_leaf", [50, 100, 200]),
        "n_trees": lambda trial: trial.suggest_int("n_trees", 1, 3),
    },
    "neighbors": {
        "n_neighbors": lambda trial: trial.suggest_int("n_neighbors", 5, 100, log=True),
        "power": lambda trial: trial.suggest_float("power", 1.0, 10.0),
    },
}


class SylvanObjective(HPObjective):
    """Trains with the parameters of a trial, and measures on the validation corpus."""

    @classmethod
    def objective(cls, trial: Any, args: Mapping[str, Any]) -> float:
        """The metric of one trial."""
        tried = {name: suggest(trial) for name, suggest in _space(args["params"]).items()}
        model = text_model({**args["params"], **tried}, args["n_jobs"])
        try:
            model.fit_blocks(read_blocks(args["path"]))
        except DataError as error:  # no word is in so many documents, say
            raise optuna.TrialPruned(str(error)) from error
        index = args["subject_index"]
        subjects = subjects_of(model, lambda uri: index.by_uri(uri, warnings=False))
        found = suggested(model, args["texts"], _LIMIT, subjects, len(index))
        batch = annif.eval.EvaluationBatch(index)
        batch.evaluate_many(SuggestionBatch(found), args["gold_subjects"])
        return float(batch.results(metrics=[args["metric"]])[args["metric"]])


class SylvanOptimizer(HyperparameterOptimizer):
    """The search of the backend ``sylvan``: trains on what the project was trained on last."""

    def __init__(self, backend: Any, corpus: Any, metric: str) -> None:
        super().__init__(backend, corpus, metric, SylvanObjective)

    def _prepare(self, n_jobs: int = 1) -> dict[str, Any]:
        backend = self._backend
        path = Path(backend.datadir) / backend.TRAIN_FILE
        if not path.is_file():
            raise NotSupportedException(
                "Hyperparameters are tried on the project's training data: train it first",
                backend_id=backend.backend_id,
            )
        backend.check_params()
        documents = list(self._corpus.documents)
        return {
            "path": str(path),
            "params": dict(backend.params),
            "texts": [backend.words(doc.text) for doc in documents],
            "gold_subjects": [doc.subject_set for doc in documents],
            "subject_index": backend.project.subjects,
            "metric": self._metric,
            "n_jobs": None if n_jobs == 1 else 1,
        }

    def _postprocess(self, study: Any) -> HPRecommendation:
        if not any(trial.value is not None for trial in study.trials):
            raise OperationFailedException(
                "No trial could be trained on the project's training data", backend_id=self._backend.backend_id
            )
        lines = [f"{name}={_text(value)}" for name, value in study.best_params.items()]
        return HPRecommendation(lines=lines, score=study.best_value)

    def _normalize(self, hps: dict[str, Any]) -> dict[str, Any]:
        return {name: _text(value) for name, value in hps.items()}


def _space(params: Mapping[str, Any]) -> dict[str, _Suggest]:
    """What is tried for a project's model."""
    words = str(params["model"]).replace(" ", "").split("+")
    space = dict(_WORDS)
    for word in dict.fromkeys(words):
        space |= _SPACES.get(word, {})
    return space


def _text(value: Any) -> str:
    """A value as a configuration file has it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower()
