"""The search: trials, kept as a study of Optuna's, climb the rungs of rows, until the budget ends."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.errors import MemoryLimitError, ModelError, SylvanError, TuningError
from sylvan.lazy import need_extra
from sylvan.params.wording import counted, shown_bytes, shown_time
from sylvan.tune.result import Budget, Limits, Trial, leaders
from sylvan.tune.space import Setting, Space
from sylvan.tune.workbench import Measured, Workbench

SAFETY = 1.2  # on estimates of time
PLANNED = 0.7  # of what a plan says must be within a limit: plans of size err by less
MARGIN = 0.25  # by which an estimate may exceed a limit before the trial is given up
POOL = 3  # best trials whose training on all rows time is reserved for, so that they can be an ensemble
RESERVED = 0.4  # of the budget at most, for trainings on all rows
JOINING = 0.02  # of the budget, to look for an ensemble of the trials
EMPTY = TopK(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))
_HELPLESS = 3  # trials in a row that no time is left for


def need_optuna() -> Any:
    """Optuna, loaded; or how to get it."""
    return need_extra("Tuning needs Optuna", "tune", "optuna")


def data_identity(X: Any, labels: Csr, holdout: npt.NDArray[np.int32], **choices: Any) -> dict[str, Any]:
    """What a study's trials depend on beside their settings; studies of different identities can't be joined."""

    def checksum(parts: Iterable[Any]) -> int:
        return reduce(lambda total, part: zlib.crc32(part, total), parts, 0)

    matrix = () if isinstance(X, list) else map(np.ascontiguousarray, (X.indptr, X.indices, X.data))
    features = matrix or (text.encode("utf-8", "surrogatepass") for text in X)
    truth, apart = (checksum(map(np.ascontiguousarray, part)) for part in (labels[:3], [holdout]))
    return {"labels": truth, "held-out rows": apart, "features": checksum(features), "rows": labels.shape[0], **choices}


class Study:
    """Trials by number, asked for and told; in memory, or in a folder that several processes may share."""

    def __init__(self, space: Space, seed: int, identity: dict[str, Any], folder: str | None = None) -> None:
        self.optuna = need_optuna()
        self.optuna.logging.set_verbosity(logging.ERROR)
        self.space, self.seed = space, seed
        self.folder = None if folder is None else Path(folder)  # where the study lies
        self._tops: dict[int, TopK] = {}
        storages = self.optuna.storages
        self._storage = storages.InMemoryStorage() if self.folder is None else _opened(self.folder, identity, storages)
        pruner = self.optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
        self._study = self.optuna.create_study(
            study_name="sylvan", direction="maximize", storage=self._storage, pruner=pruner, load_if_exists=True
        )
        for start in () if self._study.get_trials(deepcopy=False) else space.starts():
            self._study.enqueue_trial(space.point(start), user_attrs={"whole": start.whole}, skip_if_exists=True)

    def ask(self, best: Sequence[int] = ()) -> Any:
        """The next trial of the engine: a start, or in turns a variation of the best and what the sampler draws."""
        trials = self._study.get_trials(deepcopy=False)
        n_before = sum(trial.state != self.optuna.trial.TrialState.WAITING for trial in trials)
        if best and n_before % 2 and n_before == len(trials):
            # A variation of one of the best, in half of all cases of the first.
            rng = np.random.default_rng([self.seed, n_before])
            chosen = 0 if rng.random() < 0.5 else int(rng.integers(len(best)))
            self._study.enqueue_trial(self.space.varied(trials[best[chosen]].params, rng), skip_if_exists=True)
        # A new sampler a trial, so that a study that resumes goes on as if it had never stopped.
        self._study.sampler = self.optuna.samplers.TPESampler(
            seed=(self.seed * 1_000_003 + n_before) % 2**31, n_startup_trials=5, multivariate=True, group=True,
            constraints_func=lambda trial: [float(trial.user_attrs.get("excess", 0.0))],
        )  # fmt: skip
        return self._study.ask()

    def tell(self, trial: Any, record: Trial, top: TopK | None = None) -> None:
        """The end of a trial; the answers of one that is complete are stored beside the study."""
        if top is not None:
            self._tops[record.number] = top
            if self.folder is not None:
                part = self.folder / f"answers-{record.number}.{os.getpid()}.npz"
                np.savez(part, labels=top.labels, scores=top.scores)
                os.replace(part, self.folder / f"answers-{record.number}.npz")
        trial.set_user_attr("record", json.dumps(record.as_json()))
        state = self.optuna.trial.TrialState
        if record.state == "complete":
            self._study.tell(trial, record.score)
        else:  # the sampler learns from what exceeds a limit
            learned = record.state == "pruned" or record.score is not None
            self._study.tell(trial, state=state.PRUNED if learned else state.FAIL)

    def give_back(self, trial: Any) -> None:
        """A trial that was interrupted waits, as the same one, until the study resumes."""
        study = self._storage.get_study_id_from_name(self._study.study_name)
        number = self._storage.get_trial_id_from_study_id_trial_number(study, trial.number)
        self._storage.set_trial_state_values(number, state=self.optuna.trial.TrialState.WAITING)

    def records(self) -> list[Trial]:
        """All trials that have ended, those of other processes and earlier ones too, by number."""
        ended = [trial for trial in self._study.get_trials(deepcopy=False) if trial.state.is_finished()]
        written = [trial.user_attrs["record"] for trial in ended if trial.user_attrs.get("record") is not None]
        return [Trial.of_json(json.loads(record)) for record in written]

    def top(self, number: int) -> TopK | None:
        """The answers of a complete trial; None where they are lost."""
        if number not in self._tops and self.folder is not None:
            lost = contextlib.suppress(OSError, KeyError, ValueError, EOFError, BadZipFile)
            with lost, np.load(self.folder / f"answers-{number}.npz", allow_pickle=False) as arrays:
                self._tops[number] = TopK(arrays["labels"], arrays["scores"])
        return self._tops.get(number)


def _opened(folder: Path, identity: dict[str, Any], storages: Any) -> Any:
    """The trials in a folder, which is marked if it's empty; refuse one with something other than this study."""
    path = folder / "study.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            stored = dict(json.loads(path.read_text("utf-8")))
        elif any(not place.name.startswith(path.name) for place in folder.iterdir()):  # another process may begin it
            raise ModelError(f"The folder {str(folder)!r} holds something other than a study: give another one.")
        else:
            stored = identity
            part = folder / f"study.json.{os.getpid()}"
            part.write_text(json.dumps(identity), "utf-8")
            os.replace(part, path)
        trials = storages.JournalStorage(storages.journal.JournalFileBackend(str(folder / "journal.log")))
    except ModelError:
        raise
    except Exception as error:  # a damaged file raises all kinds
        raise ModelError(f"The study in {str(folder)!r} can't be opened: {error}.") from error
    differing = sorted(name for name in identity if stored.get(name) != identity[name])
    if differing:
        raise ModelError(
            f"The study in {str(folder)!r} is of another tuning: it has other {' and '.join(differing)}. Give "
            "another folder, or the same data and options."
        )
    return trials


class Search:
    """Trials one by one on a workbench, by a study, within a budget."""

    def __init__(
        self, bench: Workbench, study: Study, limits: Limits, budget: Budget, max_trials: int | None,
        report: Callable[[str], None],  # is given a line after each trial
    ) -> None:  # fmt: skip
        self.bench, self.study, self.limits, self.budget = bench, study, limits, budget
        self.max_trials, self.report = max_trials, report
        self.records: dict[int, Trial] = {}
        self.measured: dict[str, list[Measured]] = {}  # by rung, of settings that were tried
        self._usual: list[Measured] = []  # of the default model, by rung: how the latency grows with the rows
        self._first_rungs: list[float] = []  # seconds that trials took on the first, rankings included

    @property
    def last(self) -> int:
        """The number of the last rung."""
        return len(self.bench.rungs) - 1

    def best(self) -> list[Trial]:
        """The trials with all training rows that hold to the limits, the best first."""
        return ranked([t for t in self.records.values() if t.state == "complete" and t.holds(self.limits)])

    def run(self) -> None:
        """Try until the budget or the trials are used up; Ctrl-C ends the trial and leaves with KeyboardInterrupt."""
        helpless = 0
        while helpless < _HELPLESS:
            self.records |= {record.number: record for record in self.study.records()}  # of other processes and runs
            n_begun = len(self.records)
            if self.max_trials is not None and n_begun >= self.max_trials:
                return
            first_rungs = sorted(self._first_rungs) or [0.0]
            if n_begun and self.budget.remaining - self.reserve() < first_rungs[len(first_rungs) // 2]:
                return
            trial = self.study.ask([best.number for best in leaders(self.best())])
            try:
                record, top = self._try(trial)
            except BaseException:  # Ctrl-C, or a budget that is too short
                self.study.give_back(trial)
                raise
            self.study.tell(trial, record, top)
            self.records[record.number] = record
            self._say(record)
            helpless = helpless + 1 if record.note.startswith("no time") else 0

    def reserve(self) -> float:
        """Seconds to leave for the training on all rows of what is best so far."""
        if self.budget.seconds is None or not self.records:
            return 0.0
        best = self.best() or ranked([t for t in self.records.values() if t.seconds is not None])
        n_members = POOL if self.limits.size is None else 1  # each takes what there is, with nothing left for another
        seconds = [SAFETY * (trial.seconds or 0.0) for trial in best[:n_members]]
        most = max(seconds[0], RESERVED * self.budget.seconds) if seconds else 0.0
        return min(sum(seconds), most) + JOINING * self.budget.seconds

    def _try(self, trial: Any) -> tuple[Trial, TopK | None]:
        """One trial: rung after rung, until it falls behind or can't fit."""
        setting, first = self.study.space.setting(trial), trial.number == 0
        record = Trial(trial.number, (setting,), state="pruned")
        measured = self.measured.setdefault(setting.key, [])
        for rung in range(self.last + 1):
            excuse = self._excuse(setting, record, measured[rung - 1 : rung], rung, first)
            if excuse:
                return replace(record, state="skipped", note=excuse), None
            if len(measured) <= rung:
                try:
                    result = self.bench.measure(setting, rung)
                    measured.append(result if rung == self.last else replace(result, top=EMPTY))
                except (SylvanError, MemoryError) as error:
                    return replace(record, state="failed", note=str(error)), None
            record = self._noted(record, measured[rung], rung)
            if rung == 0:
                self._first_rungs.append(measured[0].elapsed)
            if first:
                self._usual = measured
                self._need_time(record.seconds or 0.0)
            excess = max([0.0, *record.excesses(self.limits).values()])
            trial.set_user_attr("excess", excess)  # for the sampler
            if rung == self.last:
                for earlier, result in enumerate(measured[:-1] if first and excess == 0 else ()):
                    trial.report(result.scores.value(), 3**earlier)
                return replace(record, state="complete"), measured[-1].top
            if first:
                continue  # it competes with others if it's within the limits, which is known at the end
            if excess > MARGIN:
                note = f"by estimate, {' and '.join(record.broken(self.limits))}"
                return replace(record, state="skipped", note=note), None
            trial.report(record.score, 3**rung)
            if not trial.user_attrs.get("whole") and trial.should_prune():
                return record, None
        return record, None

    def _noted(self, record: Trial, measured: Measured, rung: int) -> Trial:
        growth = self.bench.growth(rung)
        usual = self._usual if len(self._usual) > self.last else [measured] * (self.last + 1)
        n_bytes = measured.n_bytes
        if self.limits.size is not None:  # what is too large will be pruned
            n_bytes = max(min(n_bytes, self.limits.size), measured.least_bytes)
        return replace(
            record, score=measured.scores.value(), n_rows=self.bench.rungs[rung], seconds=measured.seconds * growth,
            n_bytes=n_bytes, latency=measured.latency * usual[-1].latency / usual[rung].latency,
        )  # fmt: skip

    def _excuse(self, setting: Setting, record: Trial, before: list[Measured], rung: int, first: bool) -> str:
        """Why a trial needn't train on this rung; empty where it may."""
        # The default model is measured with all rows if time is left to train it on them once more.
        remaining = self.budget.remaining - (SAFETY * (record.seconds or 0.0) if first else self.reserve())
        limits = self.limits
        if record.seconds is not None:
            needed = SAFETY * before[0].elapsed * self.bench.rungs[rung] / self.bench.rungs[rung - 1]
            if needed > remaining and not (first and rung < self.last):
                return f"no time is left: it would take {shown_time(needed)}"
            if limits.train_time is not None and PLANNED * record.seconds > limits.train_time and not first:
                return f"its training would take {shown_time(record.seconds)}"
        limited = not (self.budget.seconds is None and limits.size is None and limits.train_time is None)
        if rung < self.last or first or not limited:
            return ""
        # What the model's plan has against training with all rows.
        try:
            plan = self.bench.plan(setting, self.last)
        except MemoryLimitError as error:
            return str(error)
        if plan is None:
            return ""
        features = self.bench.features(setting, self.last)
        n_bytes = features.n_bytes + self.bench.name_bytes  # a tree's weights can be pruned
        seconds = (plan.seconds + features.seconds) * self.bench.growth()
        if limits.size is not None and n_bytes > limits.size:
            return f"it would take more than {shown_bytes(n_bytes)}"
        if limits.train_time is not None and PLANNED * seconds > limits.train_time:
            return f"its training would take {shown_time(seconds)}"
        if PLANNED * plan.seconds > remaining:
            return f"no time is left: it would take {shown_time(plan.seconds)}"
        return "" if plan.fits else "there is too little memory for its training"

    def _need_time(self, needed: float) -> None:
        """Refuse to go on when the budget isn't enough for one training of the default model."""
        if self.budget.seconds is not None and needed > self.budget.seconds:
            raise TuningError(
                f"The budget of {shown_time(self.budget.seconds)} is too short: training the default model once on all "
                f"{counted(self.bench.labels.shape[0], 'row')} takes about {shown_time(needed)}, and a search several "
                "times as long."
            )

    def _say(self, record: Trial) -> None:
        endings = {"complete": "", "pruned": f" with {counted(record.n_rows, 'row')}, pruned"}
        ending = endings.get(record.state, f"{record.state}: {record.note}")
        scored = record.score is not None and record.state != "skipped"
        score = f" {self.bench.metric.name} {100 * (record.score or 0):.2f}" if scored else " "
        best = self.best()
        so_far = f"; best {100 * (best[0].score or 0):.2f} (#{best[0].number})" if best else ""
        remaining = self.budget.remaining
        left = "" if remaining == float("inf") else f"; {shown_time(max(0.0, remaining))} left"
        self.report(f"#{record.number}{score}{ending}{so_far}{left} | {record.words()}")


def ranked(trials: list[Trial]) -> list[Trial]:
    """Trials with more rows first, among equals by score and then by number."""
    return sorted(trials, key=lambda trial: (-trial.n_rows, -(trial.score or 0.0), trial.number))
