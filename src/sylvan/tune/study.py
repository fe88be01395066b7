"""The study: Optuna's sampler, pruner and storage, and a folder in which a study can be resumed and shared."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sylvan.arrays.canonical import Csr
from sylvan.arrays.topk import TopK
from sylvan.errors import ModelError
from sylvan.tune.record import Trial
from sylvan.tune.space import Space

_NAME = "sylvan"
_RECORD = "record"
_IDENTITY = "study.json"


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
