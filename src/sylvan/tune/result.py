"""What a tuning gives: the model, its setting, the trials, and how sure the choice is."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sylvan.errors import DataError
from sylvan.models.base import Estimator
from sylvan.runtime.memory import shown_bytes
from sylvan.tune.figure import draw_front, tuning_page
from sylvan.tune.limits import Limits, shown_time
from sylvan.tune.record import HEADER, Trial, cells_of, pareto_front
from sylvan.tune.setting import toml_of
from sylvan.wording import counted

__all__ = ["TuneResult"]


@dataclass(frozen=True)
class TuneResult:
    """The best model within a budget and limits, and how it was found.

    Attributes
    ----------
    model : Estimator
        Trained on all rows.
    best : Trial
        Its setting and its score on the holdout; time, size and latency are those of ``model``.
    trials : tuple of Trial
        All that were tried, the default model first.
    metric : str
    limits : Limits
    interval : (float, float) or None
        95% bootstrap interval of the best's score minus the default's, over holdouts of the same kind; the default is
        pruned to ``limits.size`` as all trials are. None where one of them wasn't measured with all training rows.
    n_holdout : int
        Number of holdout rows.
    seconds : float
        Of the whole tuning.
    pruned_to : int or None
        The bytes that the final model was compressed to, as :meth:`sylvan.XRLinear.compress` does, to hold to a size.
    notes : tuple of str
        What else there is to know.
    """

    model: Estimator = field(repr=False)
    best: Trial
    trials: tuple[Trial, ...] = field(repr=False)
    metric: str
    limits: Limits
    interval: tuple[float, float] | None
    n_holdout: int
    seconds: float
    pruned_to: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def default(self) -> Trial | None:
        """The trial of the default model."""
        return next((trial for trial in self.trials if trial.number == 0), None)

    def pareto(self) -> list[Trial]:
        """The trials that no other beats in score, latency, size and training time at once; best score first."""
        return pareto_front(self.trials)

    def to_toml(self) -> str:
        """A configuration file that trains the same model with ``sylvan train``, without tuning."""
        options = {}
        for name, attribute, usual in (("text-field", "text_fields_", ("text",)),
                                       ("labels-field", "labels_field_", "labels")):  # fmt: skip
            if (value := getattr(self.model, attribute, usual)) != usual:
                options[name] = value
        return toml_of(self.best.members, self.best.weights, options, self.pruned_to)

    def table(self, trials: Sequence[Trial] | None = None) -> str:
        """Trials, all by default, as lines of text; the final model's is marked."""
        rows = [HEADER, *(cells_of(trial) for trial in (self.trials if trials is None else trials))]
        widths = [max(len(row[at]) for row in rows) for at in range(len(HEADER) - 1)]
        lines = []
        for number, row in enumerate(rows):
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            mark = "*" if number and row[0] == f"#{self.best.number}" else " "
            lines.append(f"{mark} {'  '.join(cells)}  {row[-1]}".rstrip())
        return "\n".join(lines)

    def summary(self) -> str:
        """What was found, in a few sentences."""
        best = self.best
        lines = [f"Best: {best.words()}."]
        default = self.default
        score = f"{self.metric} {100 * (best.score or 0):.2f} on {self.n_holdout:,} holdout rows"
        if default is not None and default.score is not None and default.n_rows == best.n_rows:
            gain = 100 * ((best.score or 0) - default.score)
            between = ""
            if self.interval is not None:
                low, high = (100 * end for end in self.interval)
                between = f" (95% interval {low:+.2f} to {high:+.2f})"
            kind = "default" if self.limits.size is None else "default within the size"
            score += f", the {kind} {100 * default.score:.2f}: {gain:+.2f}{between}"
        lines.append(f"{score}.")
        trials = counted(len(self.trials), "trial")
        lines.append(
            f"The final model: training {shown_time(best.seconds or 0)}, {shown_bytes(best.n_bytes or 0)}, "
            f"{shown_time(best.latency or 0)} a query. {trials} in {shown_time(self.seconds)}."
        )
        return "\n".join([*lines, *self.notes])

    def as_json(self) -> dict[str, Any]:
        """Everything but the model as plain values."""
        return {
            "metric": self.metric, "best": self.best.as_json(), "interval": self.interval, "holdout": self.n_holdout,
            "seconds": self.seconds, "limits": vars(self.limits), "notes": list(self.notes),
            "pareto": [trial.number for trial in self.pareto()],
            "trials": [trial.as_json() for trial in self.trials],
        }  # fmt: skip

    def save_report(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the configuration, the trials and figures of the Pareto front into a folder.

        ``tuned.toml``, ``trials.txt``, ``trials.json`` and ``report.html``; ``pareto.svg`` and ``pareto.png`` where
        matplotlib is installed.

        Returns
        -------
        list of str
            The names of the files.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        texts = {
            "tuned.toml": self.to_toml(),
            "trials.txt": f"{self.summary()}\n\n{self.table()}\n\nPareto front:\n{self.table(self.pareto())}\n",
            "trials.json": json.dumps(self.as_json(), indent=2) + "\n",
        }
        for name, text in texts.items():
            (place / name).write_text(text, "utf-8")
        figures = ["pareto.svg", "pareto.png"]
        try:
            self.draw([place / name for name in figures])
            picture = (place / figures[0]).read_text("utf-8")
        except DataError:  # without matplotlib the tables say the same
            figures, picture = [], ""
        (place / "report.html").write_text(tuning_page(self, picture), "utf-8")
        return [*texts, "report.html", *figures]

    def draw(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        """Draw every complete trial's score against its size, training time and latency, and the Pareto front of each.

        Parameters
        ----------
        paths : sequence of path
            ``.png``, ``.svg`` or ``.pdf`` files.

        Raises
        ------
        DataError
            When matplotlib isn't installed.
        """
        draw_front(paths, self.trials, self.best.number, self.metric, self.limits)
