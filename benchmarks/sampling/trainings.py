"""One training of ``sampled_softmax.py``: what it is (a plain dict), the task that it makes, and its record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.common import datasets
from benchmarks.sampling import distribution, large_text
from benchmarks.sampling.contenders import CHANGES, CONTENDERS, N_SAMPLES, NETWORK, PLANS, WHOLE
from benchmarks.sampling.large_text import PHRASES

__all__ = ["folder_name", "make_job", "planned", "record_of", "trained", "tuned", "tuning_of"]

Run = dict[str, Any]


def planned(what: str, options: Any) -> list[Run]:
    """The trainings of a table or figure, seed by seed, so that those that finish first go across all contenders."""
    plan = PLANS[what]
    names = options.samplers or plan["contenders"]
    changed, values = plan.get("varied", (None, (None,)))
    runs = []
    for seed in options.seeds:
        for set_name in options.sets or plan["sets"]:
            for model in options.models or plan["models"]:
                for name in names:
                    for value in values:
                        run: Run = {
                            "task": plan["task"], "set": set_name, "model": model, "contender": name, "seed": seed,
                            "epochs": options.epochs, "max_steps": options.max_steps, **plan.get("network", {}),
                            **options.changes,
                        }  # fmt: skip
                        if options.cpu_s:
                            run["marks"] = options.cpu_s
                        if changed and not (name == "full" or (changed == "codewords" and "midx" not in name)):
                            run[changed] = value
                        if run not in runs:
                            runs.append(run)
    return runs


def folder_name(run: Run) -> str:
    """A name for the run's checkpoints and its log."""
    words = [f"{value}" for name, value in run.items() if isinstance(value, str) and name != "task"]
    numbers = [f"{name}{value}" for name, value in run.items() if isinstance(value, int | float)]
    return "-".join([*words, *numbers]).replace("/", "_").replace(" ", "")


def make_job(run: Run, data: Path, cache: Path) -> Any:
    """The task, ready for :func:`sylvan.neural.train`."""
    from sylvan.neural import RefreshSchedule

    contender = CONTENDERS[run["contender"]]
    parameters = dict(contender.sampler_parameters)
    if "midx" in contender.sampler:
        parameters["n_codewords"] = run.get("codewords") or 32
    settings: dict[str, Any] = {
        "sampler": contender.sampler,
        "loss": contender.loss,
        "n_samples": run.get("n_samples") or contender.n_samples or N_SAMPLES[run["task"]],
        "sampler_parameters": parameters,
        "loss_parameters": {**contender.loss_parameters, **({"shared": True} if contender.shared else {})},
        "refresh": RefreshSchedule(**contender.refresh) if contender.refresh else None,
        "seed": run["seed"],
    }
    for name in CHANGES:
        if run.get(name) is not None and name != "clip_norm":
            settings[name] = run[name]
    job = {
        "language-model": _language_model,
        "sequential-recommendation": _recommendation,
        "extreme-classification": _classification,
    }[run["task"]](run, data, cache, settings)
    if contender.codeword_rate is not None:
        codewords = {id(word): word for word in job._objective.sampler.parameters()}
        layers = job.optimizers[0].param_groups[0]
        layers["params"] = [parameter for parameter in layers["params"] if id(parameter) not in codewords]
        job.optimizers[0].add_param_group({"params": list(codewords.values()), "lr": contender.codeword_rate})
    return job


def _language_model(run: Run, data: Path, cache: Path, settings: dict[str, Any]) -> Any:
    from sylvan.tasks import LanguageModel

    sizes = {name: run[name] for name in NETWORK[:3] if name in run}
    kind = LanguageModel
    if settings["loss"] == "adaptive":
        from benchmarks.sampling.adaptive import AdaptiveSoftmax as kind

        settings |= {"loss": "full", "sampler": "uniform"}
    corpus = large_text.corpus_of(run["set"], data, cache)
    return kind(corpus, model=run["model"], length=35, **sizes, **settings)


def _recommendation(run: Run, data: Path, cache: Path, settings: dict[str, Any]) -> Any:
    from sylvan.data import read_sequences
    from sylvan.tasks import SequentialRecommendation

    name, whole = run["set"].removesuffix(WHOLE), run["set"].endswith(WHOLE)
    sequences = read_sequences(data / "sequences" / f"{name}.txt.xz", min_interactions=1 if whole else 10)
    return SequentialRecommendation(sequences, encoder=run["model"], **settings)


def _classification(run: Run, data: Path, cache: Path, settings: dict[str, Any]) -> Any:
    from sylvan.tasks import ExtremeClassification

    folder = datasets.prepare(run["set"], data, cache)
    X, Y, X_test, Y_test = datasets.load(folder, *datasets.NAMES)
    settings["n_samples"] = min(settings["n_samples"], Y.shape[1])
    return ExtremeClassification(X, Y, test=(X_test, Y_test), dim=128, **settings)


def tuning_of(run: Run, steps: int) -> Run:
    """The search for the class table's rate that ``run`` is to be trained with: the same for every seed, length and
    device, and made without dropout, which a few steps don't need."""
    changes = (name for name in CHANGES if name not in ("dropout", "device"))
    names = ("task", "set", "model", "contender", "n_samples", "codewords", *NETWORK, *changes)
    asked = {**run, "contender": CONTENDERS[run["contender"]].rate_of or run["contender"]}
    if run.get("own_rate"):  # of each contender itself, on the smaller of the sets
        asked |= {"set": next(iter(PHRASES)), "contender": run["contender"]}
    return {"kind": "tuning", **{name: asked[name] for name in names if name in asked}, "steps": steps}


def tuned(run: Run, data: Path, cache: Path) -> Run:
    """The class table's learning rate that serves a contender best on the validation set after a few steps of seed 0.

    From the task's default by doubles and, where doubling didn't help, by halves, until the measure gets worse. The
    test set isn't looked at.
    """
    from sylvan.neural import train

    trials: dict[float, float] = {}

    def value_of(exponent: int) -> float:
        job = make_job({**run, "seed": 0}, data, cache)
        sign, rate = (1.0 if job.larger_is_better else -1.0), job.table_learning_rate_ * 2.0**exponent
        job = make_job({**run, "seed": 0, "table_learning_rate": rate}, data, cache)
        measure = job.evaluate
        job.evaluate = lambda split: measure(split) if split == "validation" else {}
        history = train(job, epochs=10**6, max_steps=run["steps"], seed=0, clip_norm=run.get("clip_norm"))
        lasted = bool(history.epochs) and history.stopped != "diverged"
        found = trials[rate] = history.epochs[-1].get(job.metric, math.nan) if lasted else math.nan
        return sign * found if math.isfinite(found) else -math.inf

    best, value = 0, value_of(0)
    for step in (1, -1):
        while abs(best) < 6 and (found := value_of(best + step)) > value:
            best, value = best + step, found
        if best:
            break
    rates = list(trials)
    return {**run, "best": rates[0] * 2.0**best, "trials": [[rate, _number(trials[rate])] for rate in rates]}


def _number(value: float) -> float | None:
    return round(value, 5) if math.isfinite(value) else None  # JSON has no NaN


def trained(run: Run, data: Path, cache: Path, scratch: Path) -> tuple[Any, Any, float | None]:
    """The task after its training, which goes on from the checkpoint that an interrupted one left.

    Third, the processor's seconds that training took, without those of evaluation; None of a training in parts. A
    training with ``marks`` ends after the last of these seconds, and is measured at each; it leaves no checkpoint.
    """
    from sylvan.neural import train

    job = make_job(run, data, cache)
    whole = not (scratch / folder_name(run)).exists()
    measure, measuring = job.evaluate, [0.0]

    def evaluate(split: str) -> dict[str, float]:
        start = time.process_time()
        found: dict[str, float] = measure(split)
        measuring[0] += time.process_time() - start
        return found

    job.evaluate, begun = evaluate, time.process_time()
    if run.get("marks"):
        return _trained_until(job, run, lambda: time.process_time() - begun - measuring[0])
    steps = min(job.steps_per_epoch() * run["epochs"], run["max_steps"] or 10**12)
    history = train(
        job,
        epochs=run["epochs"],
        max_steps=run["max_steps"],
        seed=run["seed"],
        folder=scratch / folder_name(run),
        resume=True,
        checkpoint_every=120.0,
        evaluate_every=math.ceil(steps / 3) if run["epochs"] < 3 else None,
        clip_norm=run.get("clip_norm"),
    )
    counts = whole and run.get("device", "cpu") == "cpu"  # a GPU's time is not the processor's
    return job, history, round(time.process_time() - begun - measuring[0], 1) if counts else None


def _trained_until(job: Any, run: Run, spent: Callable[[], float]) -> tuple[Any, Any, float]:
    """A training that is measured whenever another of its ``marks`` of seconds is spent, and ends at the last."""
    from sylvan.neural import train

    order, entries = job.batches, list[dict[str, float]]()

    def batches(_: int) -> Iterator[Any]:
        """Those of all epochs one after the other, which are one epoch for the loop."""
        del job.steps_per_epoch
        for step, batch in enumerate(batch for epoch in count() for batch in order(epoch)):
            if spent() >= run["marks"][len(entries)]:
                entries.append({"epoch": step / per_epoch, "step": step, "cpu_s": round(spent(), 1)})
                if len(entries) == len(run["marks"]):
                    return  # and the loop measures
                entries[-1] |= job.evaluate("validation")
            yield batch

    per_epoch = job.steps_per_epoch()
    job.steps_per_epoch = lambda: 10**9  # as the loop sees it
    job.batches = batches
    history = train(job, epochs=1, seed=run["seed"], clip_norm=run.get("clip_norm"))
    history.epochs[:] = [*entries[:-1], {**history.epochs[-1], **entries[-1]}]
    return job, history, entries[-1]["cpu_s"]


def record_of(run: Run, data: Path, cache: Path, scratch: Path) -> Run:
    """Train, measure, and tell."""
    import torch

    begun = time.perf_counter()
    job, history, cpu = trained(run, data, cache, scratch)
    record = {
        **run,
        "steps": history.epochs[-1]["step"] if history.epochs else 0,
        "seconds": round(history.seconds, 1),
        "cpu_s": cpu,
        "stopped": history.stopped,
        "validation": [
            {name: round(value, 5) for name, value in entry.items() if isinstance(value, int | float)}
            for entry in history.epochs
        ],
        "test": {name: round(value, 5) for name, value in history.test.items()},
        "threads": torch.get_num_threads(),
        **({"gpu": torch.cuda.get_device_name()} if run.get("device") == "cuda" else {}),
        "torch": torch.__version__,
    }
    if run["task"] == "language-model" and not run.get("marks"):
        contender = CONTENDERS[run["contender"]]
        found = distribution.of_job(job, contender)
        if found is not None:
            record["distribution"] = found
        index = getattr(getattr(job._objective, "sampler", None), "index", None)
        if index is not None:  # mean lengths: of the first codebook's codewords, and of what they are to stand for
            found = {"codewords": index.codewords[0].detach(), "classes": job.table_.detach()}
            record["lengths"] = {name: round(float(rows.norm(dim=1).mean()), 3) for name, rows in found.items()}
    record["wall_s"] = round(time.perf_counter() - begun, 1)
    return record
