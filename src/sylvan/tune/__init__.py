"""Tuning to a budget, by Optuna: ``sylvan.tune(texts, labels, budget="10m", max_size="50MB")``. Vectorisers, trees of
linear models, neighbours and ensembles are tried on a holdout; what does badly on a part of the rows is given up
(successive halving, Jamieson and Talwalkar 2016). Limits on latency, size and training time are checked on the final
model. Optuna is loaded when a tuning begins: ``pip install "sylvan[tune]"``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, typed_names

if TYPE_CHECKING:
    from sylvan.tune.result import Trial, TuneResult
    from sylvan.tune.space import Setting

__all__ = ["Setting", "Trial", "TuneResult"]

__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))
