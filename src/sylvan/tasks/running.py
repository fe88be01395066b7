"""A task from its job to its results and its picture."""

from __future__ import annotations

import os
from typing import Any

from sylvan.errors import DataError
from sylvan.neural.loop.checkpoint import results_of
from sylvan.neural.loop.history import draw_convergence, to_json, write_json
from sylvan.neural.loop.training import Job, train


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
    >>> from sylvan.tasks.corpus import build_corpus
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
