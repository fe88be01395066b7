"""The search: trials, kept as a study of Optuna's, climb the rungs of rows, until the budget ends."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.errors import MemoryLimitError, ModelError, SylvanError, TuningError
from sylvan.params.wording import counted
from sylvan.runtime.memory import shown_bytes
from sylvan.tune.result import Budget, Limits, Trial, leaders, shown_time
from sylvan.tune.setting import Setting
from sylvan.tune.space import Space
from sylvan.tune.workbench import Measured, Workbench

_NAME = "sylvan"
_RECORD = "record"
_IDENTITY = "study.json"
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
    try:
        import optuna
    except ImportError as error:
        raise ImportError('Tuning needs Optuna. Install it with: pip install "sylvan[tune]"') from error
    return optuna


def data_identity(X: Any, labels: Csr, holdout: npt.NDArray[np.int32], **choices: Any) -> dict[str, Any]:
    """What a study's trials depend on beside their settings; studies of different identities can't be joined."""
    sums = [0, 0]
    for at, arrays in enumerate([(labels.indptr, labels.indices, labels.data, holdout), () if isinstance(X, list)
                                 else (X.indptr, X.indices, X.data)]):  # fmt: skip
        for array in arrays:
            sums[at] = zlib.crc32(np.ascontiguousarray(array).tobytes(), sums[at])
    for text in X if isinstance(X, list) else ():
        sums[1] = zlib.crc32(text.encode("utf-8", "surrogatepass"), sums[1])
    return {"labels": sums[0], "features": sums[1], "rows": labels.shape[0], **choices}


class Study:
    """Trials by number, asked for and told; in memory, or in a folder that several processes may share."""

    def __init__(self, space: Space, seed: int, identity: dict[str, Any], folder: str | None = None) -> None:
        self.optuna = need_optuna()
        self.optuna.logging.set_verbosity(logging.ERROR)
        self.space, self.seed = space, seed
        self.folder = None if folder is None else Path(folder)  # where the study lies
        self._tops: dict[int, TopK] = {}
        storage = None if self.folder is None else self._storage(self.folder, identity)
        with _without_warnings():
            pruner = self.optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
            self._study = self.optuna.create_study(
                study_name=_NAME, direction="maximize", storage=storage, pruner=pruner, load_if_exists=True
            )
        if not self._study.get_trials(deepcopy=False):
            for start in space.starts():
                self._enqueue(start)

    def _enqueue(self, start: Any) -> None:
        with _without_warnings():
            self._study.enqueue_trial(self.space.point(start), user_attrs={"whole": start.whole}, skip_if_exists=True)

    def _storage(self, folder: Path, identity: dict[str, Any]) -> Any:
        path = folder / _IDENTITY
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.is_file():
                known = json.loads(path.read_text("utf-8"))
            elif any(folder.iterdir()):
                raise ModelError(f"The folder {str(folder)!r} holds something other than a study: give another one.")
            else:
                known = identity
                part = folder / f"{_IDENTITY}.{os.getpid()}"
                part.write_text(json.dumps(identity), "utf-8")
                os.replace(part, path)
        except (OSError, json.JSONDecodeError) as error:
            raise ModelError(f"The study in {str(folder)!r} can't be opened: {error}.") from error
        differing = sorted(name for name in identity if known.get(name) != identity[name])
        if differing:
            raise ModelError(
                f"The study in {str(folder)!r} is of another tuning: it has other {' and '.join(differing)}. Give "
                "another folder, or the same data and options."
            )
        journal = self.optuna.storages.journal
        backend = journal.JournalFileBackend(str(folder / "journal.log"))
        with _without_warnings():
            return self.optuna.storages.JournalStorage(backend)

    def ask(self, best: Sequence[int] = ()) -> Any:
        """The next trial of the engine: a start, or in turns a variation of the best and what the sampler draws."""
        trials = self._study.get_trials(deepcopy=False)
        n_before = len(trials)
        if best and n_before % 2 and all(trial.state != self.optuna.trial.TrialState.WAITING for trial in trials):
            self._vary([trials[number].params for number in best], n_before)
        with _without_warnings():
            # A new sampler a trial, so that a study that resumes goes on as if it had never stopped.
            self._study.sampler = self.optuna.samplers.TPESampler(
                seed=(self.seed * 1_000_003 + n_before) % 2**31, n_startup_trials=5, multivariate=True, group=True,
                constraints_func=_excess,
            )  # fmt: skip
            return self._study.ask()

    def _vary(self, points: Sequence[dict[str, Any]], n_before: int) -> None:
        """Queue a variation of one of these points, in half of all cases the first."""
        rng = np.random.default_rng([self.seed, n_before])
        chosen = 0 if rng.random() < 0.5 else int(rng.integers(len(points)))
        with _without_warnings():
            self._study.enqueue_trial(self.space.varied(points[chosen], rng), skip_if_exists=True)

    def tell(self, asked: Any, record: Trial, top: TopK | None = None) -> None:
        """The end of a trial; the answers of one that is complete are stored beside the study."""
        if top is not None:
            self._tops[record.number] = top
            if self.folder is not None:
                self._write_top(record.number, top)
        asked.set_user_attr(_RECORD, json.dumps(record.as_json()))
        state = self.optuna.trial.TrialState
        with _without_warnings():
            if record.state == "complete":
                self._study.tell(asked, record.score)
            elif record.state == "pruned" or record.score is not None:  # the sampler learns from what exceeds a limit
                self._study.tell(asked, state=state.PRUNED)
            else:
                self._study.tell(asked, state=state.FAIL)

    def give_back(self, asked: Any) -> None:
        """A trial that was interrupted will be tried again when the study resumes."""
        with _without_warnings():
            self._study.tell(asked, state=self.optuna.trial.TrialState.FAIL)
            whole = bool(asked.user_attrs.get("whole"))
            self._study.enqueue_trial(asked.params, user_attrs={"whole": whole})

    def _write_top(self, number: int, top: TopK) -> None:
        assert self.folder is not None
        part = self.folder / f"answers-{number}.{os.getpid()}.npz"
        np.savez(part, labels=top.labels, scores=top.scores)
        os.replace(part, self.folder / f"answers-{number}.npz")

    def records(self) -> list[Trial]:
        """All trials that have ended, those of other processes and earlier ones too, by number."""
        found = []
        for trial in self._study.get_trials(deepcopy=False):
            written = trial.user_attrs.get(_RECORD)
            if written is not None and trial.state.is_finished():
                found.append(Trial.of_json(json.loads(written)))
        return found

    def top(self, number: int) -> TopK | None:
        """The answers of a complete trial; None where they are lost."""
        if number not in self._tops and self.folder is not None:
            path = self.folder / f"answers-{number}.npz"
            with contextlib.suppress(OSError, KeyError, ValueError), np.load(path, allow_pickle=False) as arrays:
                self._tops[number] = TopK(arrays["labels"], arrays["scores"])
        return self._tops.get(number)


def _excess(trial: Any) -> list[float]:
    """By how much a trial exceeds the limits, for the sampler."""
    return [float(trial.user_attrs.get("excess", 0.0))]


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Without Optuna's remarks on what is experimental in it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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
            self._refresh()
            n_begun = len(self.records)
            if self.max_trials is not None and n_begun >= self.max_trials:
                return
            if n_begun and self.budget.remaining - self.reserve() < _median(self._first_rungs):
                return
            asked = self.study.ask([trial.number for trial in leaders(self.best())])
            try:
                record, top = self._try(asked)
            except KeyboardInterrupt:
                self.study.give_back(asked)
                raise
            self.study.tell(asked, record, top)
            self.records[record.number] = record
            self._say(record)
            helpless = helpless + 1 if record.note.startswith("no time") else 0

    def _refresh(self) -> None:
        """Take in what other processes and earlier runs have tried."""
        for record in self.study.records():
            self.records[record.number] = record

    def reserve(self) -> float:
        """Seconds to leave for the training on all rows of what is best so far."""
        if self.budget.seconds is None or not self.records:
            return 0.0
        best = self.best() or ranked([t for t in self.records.values() if t.seconds is not None])
        n_members = POOL if self.limits.size is None else 1  # each takes what there is, with nothing left for another
        seconds = [SAFETY * (trial.seconds or 0.0) for trial in best[:n_members]]
        most = max(seconds[0], RESERVED * self.budget.seconds) if seconds else 0.0
        return min(sum(seconds), most) + JOINING * self.budget.seconds

    def _try(self, asked: Any) -> tuple[Trial, Any]:
        """One trial: rung after rung, until it falls behind or can't fit."""
        setting = self.study.space.setting(asked)
        whole = bool(asked.user_attrs.get("whole"))
        record = Trial(asked.number, (setting,), state="pruned")
        before = self.measured.setdefault(setting.key, [])
        for rung in range(self.last + 1):
            excuse = self._excuse(setting, record, before[rung - 1 : rung], rung, asked.number == 0)
            if excuse:
                return replace(record, state="skipped", note=excuse), None
            if len(before) <= rung:
                try:
                    measured = self.bench.measure(setting, rung)
                    before.append(measured if rung == self.last else replace(measured, top=EMPTY))
                except (SylvanError, MemoryError) as error:
                    return replace(record, state="failed", note=str(error)), None
            record = self._noted(record, before[rung], rung)
            if asked.number == 0:
                self._usual = before
            if rung == 0:
                self._first_rungs.append(before[0].elapsed)
            if asked.number == 0:
                self._need_time(record)
            if rung == self.last:
                return self._completed(asked, record, before)
            excess = self._excess(asked, record)
            if asked.number == 0:
                continue  # it competes with others if it's within the limits, which is known at the end
            if excess > MARGIN:
                return replace(record, state="skipped", note=self._too_much(record)), None
            asked.report(record.score, 3**rung)
            if not whole and asked.should_prune():
                return record, None
        return record, None

    def _completed(self, asked: Any, record: Trial, measured: list[Measured]) -> tuple[Trial, TopK]:
        """The end of a trial that was measured with all training rows."""
        if self._excess(asked, record) == 0 and asked.number == 0:
            for rung, one in enumerate(measured[:-1]):
                asked.report(one.scores.value(), 3**rung)
        return replace(record, state="complete"), measured[-1].top

    def _excess(self, asked: Any, record: Trial) -> float:
        """By how much a trial exceeds a limit, at most; the sampler is told."""
        excess = max([0.0, *record.excesses(self.limits).values()])
        asked.set_user_attr("excess", excess)
        return excess

    def _too_much(self, record: Trial) -> str:
        """Which limits a trial would break, from the rows that it was trained on."""
        return f"by estimate, {' and '.join(self.limits.broken(record.latency, record.n_bytes, record.seconds))}"

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
        spared = SAFETY * (record.seconds or 0.0) if first else self.reserve()
        remaining = self.budget.remaining - spared
        if record.seconds is not None:
            needed = SAFETY * before[0].elapsed * self.bench.rungs[rung] / self.bench.rungs[rung - 1]
            if needed > remaining and not (first and rung < self.last):
                return f"no time is left: it would take {shown_time(needed)}"
            if self.limits.train_time is not None and PLANNED * record.seconds > self.limits.train_time and not first:
                return f"its training would take {shown_time(record.seconds)}"
        if rung < self.last or first:
            return ""
        return self._planned(setting, remaining)

    def _planned(self, setting: Setting, remaining: float) -> str:
        """What the model's plan has against training with all rows."""
        limits = self.limits
        if self.budget.seconds is None and limits.size is None and limits.train_time is None:
            return ""
        try:
            plan = self.bench.plan(setting, self.last)
        except MemoryLimitError as error:
            return str(error)
        if plan is None:
            return ""
        features = self.bench.features(setting, self.last)
        n_bytes = features.n_bytes + self.bench.name_bytes  # a tree's weights can be pruned
        seconds = plan.seconds + features.seconds
        if limits.size is not None and n_bytes > limits.size:
            return f"it would take more than {shown_bytes(n_bytes)}"
        if limits.train_time is not None and PLANNED * seconds * self.bench.growth() > limits.train_time:
            return f"its training would take {shown_time(seconds * self.bench.growth())}"
        if PLANNED * plan.seconds > remaining:
            return f"no time is left: it would take {shown_time(plan.seconds)}"
        return "" if plan.fits else "there is too little memory for its training"

    def _need_time(self, record: Trial) -> None:
        """Refuse to go on when the budget isn't enough for one training of the default model."""
        seconds = self.budget.seconds
        if seconds is None or record.seconds is None or record.seconds <= seconds:
            return
        raise TuningError(
            f"The budget of {shown_time(seconds)} is too short: training the default model once on all "
            f"{counted(self.bench.labels.shape[0], 'row')} takes about {shown_time(record.seconds)}, and a search "
            "several times as long."
        )

    def _say(self, record: Trial) -> None:
        name = self.bench.metric.name
        ending = {"complete": "", "pruned": f" with {counted(record.n_rows, 'row')}, pruned"}.get(record.state)
        if ending is None:
            ending = f"{record.state}: {record.note}"
        shown = f" {name} {100 * record.score:.2f}" if record.score is not None and record.state != "skipped" else " "
        best = self.best()
        so_far = f"; best {100 * (best[0].score or 0):.2f} (#{best[0].number})" if best else ""
        remaining = self.budget.remaining
        left = "" if remaining == float("inf") else f"; {shown_time(max(0.0, remaining))} left"
        self.report(f"#{record.number}{shown}{ending}{so_far}{left} | {record.words()}")


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def ranked(trials: list[Trial]) -> list[Trial]:
    """Trials with more rows first, among equals by score and then by number."""
    return sorted(trials, key=lambda trial: (-trial.n_rows, -(trial.score or 0.0), trial.number))
