"""``sylvan thresholds``: what each threshold, or number of suggestions, gives, and which one has a wanted precision."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click
import numpy as np

from sylvan import store
from sylvan.cli import options as of
from sylvan.cli.details import check_figures
from sylvan.cli.evaluate import measure, probabilities_of, shortened
from sylvan.cli.groups import by_branch, titles_for
from sylvan.cli.models import codes_of, input_for, load_model, text_name, training_name
from sylvan.cli.session import keep_inputs, quietly, say, write_text
from sylvan.errors import DataError
from sylvan.hub.card import THRESHOLD
from sylvan.metrics import figures
from sylvan.metrics.pairs import GRID, Bools, Pairs, threshold_for
from sylvan.models.blocks import has_probabilities, inner_of
from sylvan.params.wording import counted
from sylvan.ranking.stopping import DEPTH

_SHOWN = (0.05, *np.arange(1, 10) / 10, 0.95)  # thresholds of the table
_FIRST = (1, 2, 3, 5, 10)  # and numbers of suggestions
_MOST = 20  # branches that are printed
_HEADER = f"{'':14}{'precision':>14}{'recall':>8}{'F1':>8}{'a record':>10}{'with none':>11}{'all right':>11}"
_LEGEND = (
    "Percentages, but for the suggestions a record; after ±, half a 95% interval by the bootstrap over records.\n"
    "With none: records that get no suggestion. All right: those with suggestions, all of them right, which could go "
    "without a look."
)


@dataclass(frozen=True)
class Line:
    """What a rule gives: its name, its figures, and the interval of its precision."""

    name: str
    threshold: float | None
    rates: dict[str, float]
    interval: tuple[float, float]

    @classmethod
    def of(cls, pairs: Pairs, name: str, chosen: Bools, threshold: float | None = None, members: Any = None) -> Line:
        """Of the answers that a rule chooses, of all labels or of ``members``."""
        interval = pairs.intervals(chosen, members)["precision"]
        return cls(name, threshold, pairs.rates(chosen, members), interval)

    def cells(self, width: int = 14) -> str:
        """As a line of a table."""
        precision, recall, f1, *others = (100 * value for value in self.rates.values())
        half = 100 * max(self.rates["precision"] - self.interval[0], self.interval[1] - self.rates["precision"])
        first = "-" if np.isnan(precision) else f"{precision:.2f} ±{half:.2f}"
        shares = "".join(f"{value:11.2f}" for value in others[1:])
        return f"{self.name:<{width}}{first:>14}{recall:8.2f}{f1:8.2f}{others[0] / 100:10.2f}{shares}"

    def sentence(self) -> str:
        """As words."""
        low, high = self.interval
        rates = {name: 100 * value for name, value in self.rates.items()}
        return (
            f"threshold {self.threshold:g}: {rates['precision']:.1f}% of its suggestions are right (95% interval "
            f"{100 * low:.1f} to {100 * high:.1f}), {rates['recall']:.1f}% of the subjects are found, and "
            f"{100 - rates['none']:.1f}% of the records get a suggestion."
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        plain = {name: None if np.isnan(value) else value for name, value in self.rates.items()}
        low, high = (None if np.isnan(end) else end for end in self.interval)
        return {"name": self.name, "threshold": self.threshold, **plain, "precision_interval": [low, high]}


def _at(pairs: Pairs, threshold: float, name: str = "", members: Bools | None = None) -> Line:
    name = name or f"from {threshold:.2f}"
    return Line.of(pairs, name, pairs.from_threshold(threshold), threshold, members)


def _surely(pairs: Pairs, threshold: float, wanted: float) -> Line | None:
    """The lowest threshold from the given one on whose whole interval is at the wanted precision."""
    lines = (_at(pairs, float(higher)) for higher in GRID[threshold <= GRID])
    return next((line for line in lines if line.interval[0] >= wanted), None)


def _wanted(pairs: Pairs, wanted: float, masks: Mapping[str, Bools]) -> tuple[list[str], dict[str, Any]]:
    """What to set for a wanted precision: sentences, and the same as data."""
    percent, curve, macro = f"{100 * wanted:g}%", pairs.precisions(), pairs.macro_precisions()
    best, evenly = threshold_for(curve, wanted), threshold_for(macro, wanted)
    if best is None:
        place = int(np.nanargmax(curve)) if np.isfinite(curve).any() else 0
        highest = f": the highest is {100 * curve[place]:.1f}%, from {GRID[place]:g} on"
        none = f"No threshold has a precision of {percent} on these records"
        return [f"{none}{'' if np.isnan(curve[place]) else highest}."], {"precision": wanted}
    line, lines = _at(pairs, best), []
    lines.append(f"For a precision of {percent}, {line.sentence()}")
    below = _at(pairs, float(GRID[np.searchsorted(GRID, best) - 1])) if best > GRID[0] else None
    if below is not None:
        more = counted(round((below.rates["labels"] - line.rates["labels"]) * pairs.n_rows), "suggestion")
        lines.append(f"Below it, {below.threshold:g} gives {100 * below.rates['precision']:.1f}%, with {more} more.")
    sure = _surely(pairs, best, wanted)
    if sure is None:
        lines.append(f"These records are too few to be sure of {percent} at any threshold.")
    elif sure.threshold == best:
        lines.append(f"To be sure of {percent}, take {best:g} too: its whole interval has it.")
    else:
        lines.append(f"To be sure of {percent}, {sure.sentence()}")
    if evenly is None:
        lines.append("As the mean over subjects (macro), no threshold has it.")
    else:
        value = 100 * macro[np.searchsorted(GRID, evenly)]
        lines.append(f"As the mean over subjects (macro, {value:.1f}%), {_at(pairs, evenly).sentence()}")
    result: dict[str, Any] = {
        "precision": wanted, "set": line.as_json(), "below": None if below is None else below.as_json(),
        "sure": None if sure is None else sure.as_json(),
        "macro": None if evenly is None else {"threshold": evenly, **_at(pairs, evenly).as_json()},
    }  # fmt: skip
    if masks:
        found = {name: _of_branch(pairs, wanted, mask) for name, mask in masks.items()}
        lines += _branch_lines(percent, found)
        result["branches"] = {
            name: {**each, "set": each["set"] and each["set"].as_json()} for name, each in found.items()
        }
    return lines, result


def _of_branch(pairs: Pairs, wanted: float, mask: Bools) -> dict[str, Any]:
    """The threshold of a branch and its figures; without them, where none has the precision."""
    best, n_true = threshold_for(pairs.precisions(mask), wanted), int(mask[pairs.true_labels].sum())
    return {"subjects": n_true, "set": None if best is None else _at(pairs, best, members=mask)}


def _branch_lines(percent: str, found: Mapping[str, dict[str, Any]]) -> list[str]:
    """A table of branches, those with most subjects first."""
    largest = sorted(found, key=lambda name: (-found[name]["subjects"], name))
    lines = [f"{'':26}{'subjects':>10}{'set':>8}{_HEADER[14:]}"]
    for name in largest[:_MOST]:
        line = found[name]["set"]
        cells = f"    - (no threshold has {percent})" if line is None else f"{line.threshold:8.2f}{line.cells(0)[9:]}"
        lines.append(f"{shortened(name, 25):<26}{found[name]['subjects']:>10,}{cells}")
    if len(largest) > _MOST:
        lines.append(f"… and {len(largest) - _MOST} more branches; --json has all.")
    return lines


def _draw(paths: tuple[str, ...], title: str, pairs: Pairs) -> None:
    """Draw precision, recall and F1, and shares of records, against the threshold; and against k."""
    thresholds, ks = GRID[4:], range(1, 11)
    by_threshold = [pairs.rates(pairs.from_threshold(threshold)) for threshold in thresholds]
    by_k = [pairs.rates(pairs.first(k)) for k in ks]
    quality = {"precision": figures.BLUE, "recall": figures.ORANGE, "f1": figures.GREEN}
    shares = {"none": figures.GREY, "all_right": figures.BLUE}
    words = {"f1": "F1", "none": "without a suggestion", "all_right": "all suggestions right"}

    def panel(x: Any, rates: Any, colours: dict[str, str], labels: tuple[str, ...], axes: Any) -> None:
        for name, colour in colours.items():
            axes.plot(list(x), [100 * each[name] for each in rates], color=colour, label=words.get(name, name))
        axes.set(ylim=(0, 100), **dict(zip(("title", "xlabel", "ylabel"), labels, strict=True)))
        axes.legend(frameon=False)

    threshold = "threshold: least probability"
    panels = [
        partial(panel, thresholds, by_threshold, quality, ("By threshold", threshold, "percent")),
        partial(panel, thresholds, by_threshold, shares, ("Records", threshold, "percent of records")),
        partial(panel, ks, by_k, quality, ("By number", "k: suggestions a record", "percent")),
    ]
    figures.draw_panels(paths, title, panels)


@click.command("thresholds")
@click.argument("model", metavar="MODEL")
@click.argument("test", metavar="FILE")
@click.option("--precision", type=of.Share(above_zero=True), metavar="P",
              help="Say what to set for this share of right suggestions, such as 0.9.")  # fmt: skip
@click.option("--json", "json_", metavar="FILE", help="Write the numbers to this file too (- for stdout alone).")
@click.option("--figure", "figures", multiple=True, metavar="FILE",
              help="Draw them against the threshold and against k (.png, .svg, .pdf).")  # fmt: skip
@click.option("--save", is_flag=True, help="Note the threshold of the highest F1 in MODEL: the page of `sylvan serve` "
                                           "starts with it.")  # fmt: skip
@of.known_labels_option
@of.ranking_option
@of.device_option
@of.subjects_options
@of.input_options
@of.config_option
def command(model: str, test: str, precision: float | None, json_: str | None, save: bool, **flags: Any) -> None:
    """Show what thresholds of the model in the folder MODEL give, by records in FILE whose subjects (labels) are there.

    A line for each threshold of probability, and for each number of suggestions: precision (the share of suggestions
    that is right), recall (the share of all subjects that is found), F1 of the two, suggestions a record, records with
    none, and records whose suggestions are all right: these could go without a look. --precision 0.9 says from which
    threshold on 90% are right, and how sure that is; as the mean over subjects (macro) too, and with a --vocabulary
    that has broader subjects for each of its branches. Use records that the model hasn't learned from.

    \b
    Examples:
      sylvan thresholds runs/m dev.jsonl
      sylvan thresholds runs/m dev.jsonl --save
      sylvan thresholds runs/m dev.jsonl --precision 0.9 --figure thresholds.svg
      sylvan thresholds runs/m dev.jsonl --precision 0.9 --vocabulary subjects.ttl --json thresholds.json
    """
    keep_inputs("json_", "figures")
    check_figures(flags["figures"])
    loaded = load_model(model, flags["settings"], flags["threads"], flags["device"])
    if getattr(inner_of(loaded), "tail", None) is not None:
        raise DataError("The model's tail orders by gains, which are no probabilities: leave it out (--set tail=none).")
    if not has_probabilities(loaded):
        say(flags, "The model is not calibrated: its probabilities are scores brought into [0, 1].", err=True)
    titles, flags = titles_for(loaded, flags)
    source = input_for(loaded, model, test, flags)
    with quietly(flags):
        measured = measure(loaded, source, (1,), depth=DEPTH, known_labels=flags["known_labels"])
        measured = replace(measured, learned_from=training_name(model, source.path))
        assert measured.top is not None
        pairs = Pairs.of(measured.truth, probabilities_of(loaded, measured.top))
        if not pairs.right.any():
            raise DataError(f"None of the suggestions for {source.name} is right: there is no threshold to choose.")
        masks = {} if titles is None or precision is None else by_branch([*codes_of(loaded), *measured.others], titles)
        lines = [_at(pairs, float(threshold)) for threshold in _SHOWN]
        lines += [Line.of(pairs, f"the first {k}", pairs.first(k)) for k in _FIRST]
        f1 = [pairs.rates(pairs.from_threshold(threshold))["f1"] for threshold in GRID]
        best = _at(pairs, float(GRID[np.argmax(np.nan_to_num(f1))]))
        sentences, wanted = ([], {}) if precision is None else _wanted(pairs, precision, masks)
    if json_ is not None:
        result = {"file": test, "records": pairs.n_rows, "lines": [line.as_json() for line in lines]}
        result |= {"best_f1": best.as_json(), "wanted": wanted or None}
        write_text(json_, json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    if flags["figures"]:
        names = (os.path.basename(os.path.normpath(path)) for path in (model, source.name))
        _draw(flags["figures"], " on ".join(names), pairs)
    if json_ != "-":
        table = [_HEADER, *(line.cells() for line in lines), _LEGEND]
        click.echo("\n".join([measured.coverage(), *table, f"The highest F1 has {best.sentence()}", *sentences]))
    if save:
        store.annotate(model, {THRESHOLD: {"f1": best.threshold, "on": text_name(test), "rows": pairs.n_rows}})
        say(flags, f"Noted threshold {best.threshold:g} in {model}.", err=True)
