"""What a training went through: plain values that become ``results.json``, and a picture of them."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sylvan.errors import DataError


@dataclass
class History:
    """What :func:`sylvan.neural.train` gives back.

    Attributes
    ----------
    metric : str
        The measure that decided which model is the best, a key of each entry of ``epochs``.
    larger_is_better : bool
    epochs : list of dict
        One entry an evaluation, usually one an epoch: ``epoch`` (from 1; 0 before the first step), ``step`` (steps
        done), ``seconds`` (of training, evaluations included, over all resumed runs), ``loss`` (mean of the training
        losses since the entry before; NaN before the first step), and the validation measures by their names.
    best : dict or None
        The entry of the best model.
    stopped : {"patience", "epochs", "time", "steps", "diverged"} or ""
        What ended the training; "diverged" when a loss or a weight was no finite number any more. The last of
        ``epochs`` then says where, and neither the best model nor the checkpoint is of that time.
    test : dict
        The best model's measures on the test part.
    seconds : float
    """

    metric: str = ""
    larger_is_better: bool = True
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None
    stopped: str = ""
    test: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints."""
        return asdict(self)

    def compare(self, value: float) -> int:
        """1 where ``value`` of the watched measure beats the best entry, 0 where it equals it, else -1, as for NaN."""
        if math.isnan(value):
            return -1
        if self.best is None:
            return 1
        before = float(self.best[self.metric])
        return 0 if value == before else 1 if (value > before) == self.larger_is_better else -1


def to_json(value: Any) -> Any:
    """``value`` with what JSON has no word for replaced: infinities and NaN by None, other objects by their text."""
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def write_json(path: str, value: Any) -> None:
    """Write ``value`` as JSON, whole or not at all."""
    waiting = f"{path}.{secrets.token_hex(4)}"
    try:
        with open(waiting, "x", encoding="utf-8") as stream:
            json.dump(to_json(value), stream, indent=1, ensure_ascii=False, allow_nan=False)
            stream.write("\n")
        os.replace(waiting, path)
    except BaseException:
        if os.path.exists(waiting):
            os.unlink(waiting)
        raise


# Distinguished by people who see few colours, on paper too (Okabe and Ito's palette).
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#767676"


def draw_convergence(history: History, paths: Sequence[str | os.PathLike[str]], title: str = "") -> None:
    """Draw how the training loss and the validation measure went, into each of ``paths`` (PNG, SVG or PDF).

    Raises
    ------
    DataError
        When there is nothing to draw, or matplotlib is missing.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DataError('The picture of a training needs matplotlib: pip install "sylvan[plot]".') from error
    if not history.epochs:
        raise DataError("There is nothing to draw: the training has no evaluation yet.")
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=11)
    loss, measure = figure.subplots(1, 2)
    _draw(loss, history, "loss", _ORANGE, "training loss")
    _draw(measure, history, history.metric, _BLUE, f"validation {history.metric}")
    if history.best is not None and math.isfinite(history.best[history.metric]):
        at, value = history.best["step"], history.best[history.metric]
        measure.scatter([at], [value], s=70, facecolors="none", edgecolors=_GREY, zorder=3)
        measure.annotate(
            f"{value:.4g}", (at, value), textcoords="offset points", xytext=(0, 8), ha="center", fontsize=9
        )
        measure.margins(y=0.14)
    # Neither dates nor random names inside: the same training gives the same file.
    for path in paths:
        dateless: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        with rc_context({"svg.hashsalt": "sylvan", "svg.fonttype": "none"}):
            figure.savefig(path, dpi=150, metadata=dateless.get(os.path.splitext(path)[1].lower()))


def _draw(axes: Any, history: History, key: str, colour: str, label: str) -> None:
    shown = [entry for entry in history.epochs if math.isfinite(entry[key])]
    steps, values = [entry["step"] for entry in shown], [entry[key] for entry in shown]
    axes.plot(steps, values, marker="o", markersize=3.5, color=colour)
    axes.set(xlabel="steps", ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
