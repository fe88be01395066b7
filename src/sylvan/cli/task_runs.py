"""What every ``sylvan task`` does once its words are read: jobs made, trained seed by seed, and reported."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Sequence
from typing import Any

import click
import torch

from sylvan.cli.options import Config, resumes
from sylvan.cli.session import Session, quietly, say
from sylvan.errors import ParameterError
from sylvan.neural import RefreshSchedule
from sylvan.neural.loop.checkpoint import TrainingFolder, has_checkpoint, write_json
from sylvan.neural.loop.training import Job
from sylvan.sampling.by_name import HEADS
from sylvan.tasks.base import run_task

_LIMITS = ("epochs", "patience", "max_steps", "time_limit", "evaluate_every", "clip_norm")
# Parameters of the jobs that have options of their own.
_OPTIONS = {
    "sampler": "--sampler", "loss": "--loss", "seed": "--seed", "device": "--device", "refresh": "--refresh-every",
    "sampler_parameters": "--set-sampler", "loss_parameters": "--set-loss",
}  # fmt: skip
_WORDS = {"true": True, "false": False, "none": None}


def run(ctx: click.Context, owner: Any, make_job: Any, flags: dict[str, Any]) -> None:
    """Train once with each seed and say what came of it."""
    session = Session.of(ctx)
    settings = _settings(owner, flags)
    seeds = flags["seeds"] or (0,)
    if len(set(seeds)) < len(seeds):
        raise ParameterError(f"--seed gives one number twice: {', '.join(map(str, seeds))}.")
    several = len(seeds) > 1
    folders = [os.path.join(flags["folder"], f"seed-{seed}") if several else flags["folder"] for seed in seeds]
    # Refuse to go over an earlier training unasked; let an interruption say what remains.
    left = [folder for folder in folders if has_checkpoint(folder)]
    resumed = bool(left and flags["resume"])
    earlier = f"A training lies in {left[0]!r}" if left else None
    resumes(session, flags, flags["folder"], earlier, lambda: resumed or any(map(has_checkpoint, folders)))
    # What is the default anyway; said aloud, PyTorch doesn't warn about it.
    torch.sparse.check_sparse_tensor_invariants.disable()  # type: ignore[no-untyped-call]
    if flags["threads"] is not None:
        torch.set_num_threads(flags["threads"])
    results: list[dict[str, Any]] = []
    with quietly(flags):
        for seed, folder in zip(seeds, folders, strict=True):
            if several:
                say(flags, f"Seed {seed}:")
            job = make_job(flags["data"], flags, {**settings, "seed": seed})
            if flags["resume"] and not results:  # another training is refused, in whichever folder it lies
                for each, place in zip(seeds, folders, strict=True):
                    TrainingFolder(place).check({**job.settings(), "seed": each, "clip_norm": flags["clip_norm"]})
            if not results:
                say(flags, f"Trains with {_negatives(job)}.")
            results.append(_train(job, folder, seed, flags, first=not results))
    if several:
        _summarise(results, seeds, flags)
    session.written = f"the results were written to {flags['folder']}"


def _settings(owner: Any, flags: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of the job; one error for everything that is wrong with them."""
    config = Config()
    typed = config.typed(flags["settings"])
    settings = config.read(owner, {name: text for name, text in typed.items() if name not in _OPTIONS})
    config.problems += [f"{name!r} is given by {_OPTIONS[name]}, not by --set." for name in typed if name in _OPTIONS]
    if flags["samples"] is not None:
        if "n_samples" in settings:
            config.problems.append("--samples and --set n_samples=... say the same thing: give one of them.")
        settings["n_samples"] = flags["samples"]
    of_negatives = {
        "samples": settings.get("n_samples"), "sampler": flags["sampler"], "set-sampler": flags["sampler_settings"],
        "refresh-every": flags["refresh_every"],
    }  # fmt: skip
    if unused := [name for name, value in of_negatives.items() if flags["loss"] == "full" and value not in (None, ())]:
        config.problems.append(f"--{unused[0]} is not for --loss full, which looks at all classes: leave one out.")
    for option in ("sampler", "loss"):
        words = config.typed(flags[f"{option}_settings"], f"--set-{option}")
        if flags[option] is not None:
            settings[option] = flags[option]
        settings[f"{option}_parameters"] = {name: _value(text) for name, text in words.items()}
    config.refuse()
    if flags["refresh_every"] is not None:
        settings["refresh"] = RefreshSchedule(every=flags["refresh_every"], early_every=flags["refresh_every"])
    return settings | {"device": _device(flags["device"])}


def _value(text: str) -> Any:
    """What a word after ``NAME=`` means: a truth value, None, an int, a float, or the word itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise ParameterError(f"--device {name} can't be used here: {reason}.") from error
    return name


def _negatives(job: Any) -> str:
    """The loss of a job in words, and its negatives; what is shared though nobody chose it, with the way out."""
    n, sampler = f"{job.loss_}, {job.n_samples_:,}", job.sampler
    if job.loss_ == "full":
        return "the full softmax, without negatives"
    if job.loss_ in ("cane", *HEADS):
        return f"{n} candidates and noises from {sampler}"
    if not (job.shared_ or job.loss_parameters.get("shared")):
        return f"{n} negatives from {sampler} for each target"
    way = " (--set shared=false draws for each target)" if job.shared is None and job.shared_ else ""
    return f"{n} negatives from {sampler} for a whole batch{way}"


def _train(job: Job, folder: str, seed: int, flags: dict[str, Any], first: bool) -> dict[str, Any]:
    def show(entry: dict[str, Any]) -> None:
        say(flags, f"Epoch {entry['epoch']}: loss {entry['loss']:.4f}, validation {_measures(entry)}.")

    def save_text_parts() -> None:  # what makes features of texts and names of labels, for all seeds
        for name, part in flags.get("text_parts", {}).items() if first else ():
            part.save(os.path.join(flags["folder"], name))

    limits = {name: flags[name] for name in _LIMITS}
    results = run_task(
        job, folder=folder, resume=bool(flags["resume"]), on_entry=show, on_start=save_text_parts, seed=seed, **limits
    )
    if results["stopped"] == "diverged":
        say(flags, "The loss is no finite number any more: try smaller learning rates, or another sampler.")
    if results["best"] is not None:
        epoch, last = results["best"]["epoch"], results["epochs"][-1]
        words = f"Best in epoch {epoch} of {last['epoch']} ({last['step']:,} steps, {results['seconds']:.0f} s)"
        say(flags, f"{words}: test {_measures(results['test'])}.")
    pictures = results.get("no_plot") or "convergence.png and convergence.svg are beside it."
    say(flags, f"Wrote {os.path.join(folder, 'results.json')}. {pictures}")
    return results


def _measures(values: dict[str, Any]) -> str:
    measured = {name: value for name, value in values.items() if name not in ("epoch", "step", "seconds", "loss")}
    return ", ".join(f"{name} {'?' if value is None else f'{value:.4g}'}" for name, value in measured.items())


def _summarise(result: Sequence[dict[str, Any]], seeds: Sequence[int], flags: dict[str, Any]) -> None:
    """Write mean and standard deviation of the test measures over the seeds."""
    summary: dict[str, Any] = {}
    for name in result[0]["test"]:
        values = [results["test"].get(name) for results in result]
        if None not in values:
            summary[name] = {"mean": statistics.fmean(values), "std": statistics.stdev(values), "values": values}
    path = os.path.join(flags["folder"], "results.json")
    write_json(path, {"settings": result[0]["settings"], "seeds": list(seeds), "test": summary})
    figures = ", ".join(f"{name} {v['mean']:.4g} ± {v['std']:.2g}" for name, v in summary.items())
    say(flags, f"Over {len(seeds)} seeds: test {figures}. Wrote {path}.")
