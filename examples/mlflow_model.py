"""A text model in MLflow, from code: MLflow stores this file and the model's folder, and nothing is pickled.

Log it with ``mlflow.pyfunc.log_model(name=..., python_model="examples/mlflow_model.py", artifacts={"model": FOLDER})``.
``docs/hub.md`` shows it whole. It needs MLflow 2.12.2 or later, and pandas.
"""

from __future__ import annotations

from typing import Any

import mlflow
import pandas as pd

import sylvan


class Tagger(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined]  # MLflow's class has no types here
    """Ranks the labels of the texts in the column ``text``."""

    def load_context(self, context: Any) -> None:
        """Open the folder that was logged as the artifact ``model``; it is mapped into memory."""
        self.model = sylvan.load(context.artifacts["model"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """The ``k`` best labels of each row, 5 by default, best first, with their scores."""
        top = self.model.rank(model_input["text"].tolist(), k=int((params or {}).get("k", 5)))
        scores = [row[: len(names)].tolist() for names, row in zip(top.names, top.scores, strict=True)]
        return pd.DataFrame({"labels": top.names, "scores": scores}, index=model_input.index)


mlflow.models.set_model(Tagger())
