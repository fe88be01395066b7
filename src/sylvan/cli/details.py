"""What an evaluation is made of: its figures for each label, each record and each group, and beside another model's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import click
import numpy as np

from sylvan.arrays.topk import TopK
from sylvan.cli.groups import by_branch, by_frequency
from sylvan.cli.io.inputs import COLUMNS, LabelTitles, TextInput
from sylvan.data import write_records
from sylvan.data.formats.tables import cell_line
from sylvan.data.other_fields import cell_of
from sylvan.data.streams import check_ending, open_write
from sylvan.errors import DataError
from sylvan.metrics import figures
from sylvan.metrics.pairs import Bools, Pairs, row_values
from sylvan.metrics.resampling import difference, interval, share_interval

_MOST = 20  # groups that are printed
LEAST_P = 0.001  # that so many permutations tell well
_MARKS = {".csv": ",", ".tsv": "\t"}
TABLES = (*_MARKS, ".jsonl", "")  # endings
_OF_ROWS = ("row", "labels", "suggested", "right", "P", "R", "nDCG", "F1", "found", "wrong", "missed")
Group = dict[str, Any]  # "size", and by measure its value and the ends of its interval


@dataclass(frozen=True)
class Details:
    """The measured rows, one by one: their labels, the first k answers, and what these are called."""

    truth: Any
    top: TopK
    k: int
    rows: Any  # shape (n,): their numbers in the file, from 0
    codes: Sequence[str]
    titles: LabelTitles | None
    counts: Any  # shape (n_labels,): in training; None where that isn't known
    source: Any

    @cached_property
    def pairs(self) -> Pairs:
        """The first k answers of each row."""
        return Pairs.of(self.truth, TopK(self.top.labels[:, : self.k], self.top.scores[:, : self.k]))

    def by_label(self) -> Iterable[dict[str, Any]]:
        """For each label that is true or suggested: how often, and how well."""
        pairs, n = self.pairs, len(self.codes)
        suggested, true = np.bincount(pairs.labels, minlength=n), np.bincount(pairs.true_labels, minlength=n)
        right = np.bincount(pairs.labels[pairs.right], minlength=n)
        ends: dict[tuple[int, ...], tuple[float, float]] = {}
        for label in np.flatnonzero(suggested + true).tolist():
            hits, named, n_true = (int(each[label]) for each in (right, suggested, true))
            kinds = hits, named - hits, n_true - hits  # of rows: found, wrongly suggested, missed
            if kinds not in ends:
                of_kinds = np.array([*kinds, pairs.n_rows - sum(kinds)])
                ends[kinds] = share_interval(np.array([2, 0, 0, 0]), np.array([2, 1, 1, 0]), counts=of_kinds)
            title = {} if self.titles is None else {"name": self.titles(self.codes[label]) or ""}
            training = {} if self.counts is None else {"training_rows": int(self.counts[label])}
            yield {
                "label": self.codes[label], **title, **training, "rows": n_true, "suggested": named, "right": hits,
                "precision": hits / named if named else None, "recall": hits / n_true if n_true else None,
                "F1": 2 * hits / (named + n_true), "F1_low": ends[kinds][0], "F1_high": ends[kinds][1],
            }  # fmt: skip

    def by_row(self) -> Iterable[dict[str, Any]]:
        """For each row: its number and other fields, its figures, and the labels found, wrong and missed."""
        fields = self.source.other_fields(_OF_ROWS) if isinstance(self.source, TextInput) else None
        others = [{}] * len(self.rows) if fields is None else [fields(record) for record in self._records()]
        values = {name: each[:, 0] for name, each in row_values(self.truth, self.top, (self.k,)).items()}
        for row, (number, other) in enumerate(zip(self.rows.tolist(), others, strict=True)):
            true = self.truth.indices[self.truth.indptr[row] : self.truth.indptr[row + 1]].tolist()
            named = [label for label in self.top.labels[row, : self.k].tolist() if label >= 0]
            found = [label for label in named if label in true]
            lists = found, [each for each in named if each not in found], [each for each in true if each not in found]
            yield {
                "row": number, **other, "labels": len(true), "suggested": len(named), "right": len(found),
                **{name: float(each[row]) for name, each in values.items()},
                **dict(zip(_OF_ROWS[-3:], (list(map(self._called, each)) for each in lists), strict=True)),
            }  # fmt: skip

    def by_group(self, name: str) -> dict[str, Group]:
        """For each group of labels or of rows, how many true labels or rows it has, and its figures."""
        if name in ("branch", "frequency"):
            return {group: self._of_labels(mask) for group, mask in self._masks(name).items()}
        values = row_values(self.truth, self.top, (self.k,))
        return {group: _of_rows(values, rows) for group, rows in self._groups(name).items()}

    def _masks(self, name: str) -> dict[str, Bools]:
        if name == "frequency":
            if self.counts is None:
                raise DataError("--groups frequency needs a model that holds how often each label was in training.")
            return by_frequency(self.counts)
        if self.titles is None:
            raise DataError("--groups branch needs a --vocabulary with broader subjects.")
        return by_branch(self.codes, self.titles)

    def _of_labels(self, mask: Bools) -> Group:
        chosen = self.pairs.first(self.k)
        rates, ends = self.pairs.rates(chosen, mask), self.pairs.intervals(chosen, mask)
        names = {"P": "precision", "R": "recall", "F1": "f1"}
        size = int(mask[self.pairs.true_labels].sum())
        return {"size": size, **{short: (rates[name], *ends[name]) for short, name in names.items()}}

    def _groups(self, field: str) -> dict[str, Any]:
        """The rows with each value of a field."""
        if not isinstance(self.source, TextInput) or self.source.format not in COLUMNS:
            raise DataError(f"--groups {field}: {self.source.name} has no fields. Others are branch and frequency.")
        rows: dict[str, list[int]] = {}
        for row, record in enumerate(self._records()):
            value = record.get(field)
            values = value or [None] if isinstance(value, list) else [value]
            for each in dict.fromkeys("(none)" if each in (None, "") else str(each) for each in values):
                rows.setdefault(each, []).append(row)
        if field not in self.source.fields() and set(rows) == {"(none)"}:
            listed = ", ".join(map(repr, self.source.fields()))
            raise DataError(f"--groups {field}: {self.source.name} has no such field. Its fields are {listed}.")
        return rows

    def _records(self) -> list[Mapping[str, Any]]:
        """All fields of the measured rows, read again."""
        if self.source.path == "-":
            raise DataError("Fields of records are read again from their file, and stdin can be read once: save it.")
        records = [record for _, block in replace(self.source, quiet=True).records() for record in block]
        return [records[row] for row in self.rows.tolist()]

    def _called(self, label: int) -> str:
        code = self.codes[label]
        return code if self.titles is None else self.titles(code) or code


def _of_rows(values: Mapping[str, Any], rows: Sequence[int]) -> Group:
    figures = {
        name: (float(each[rows].mean()), *interval(each[rows], lambda sums: sums[0] / len(rows)))
        for name, each in values.items()
    }
    return {"size": len(rows), **figures}


def write_table(path: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows of one form: a table where the name ends in .csv or .tsv, else JSON lines."""
    mark = _MARKS.get(check_ending(path, TABLES))
    if mark is None:
        write_records(path, rows)
        return
    listed = list(rows)
    names = dict.fromkeys(name for row in listed for name in row)  # not every record has the same fields
    with open_write(path) as stream:
        stream.write(cell_line(names, mark).encode("utf-8", "replace"))
        for row in listed:
            values = (row.get(name) for name in names)
            cells = ["; ".join(map(str, cell)) if isinstance(cell, list) else cell_of(cell) for cell in values]
            stream.write(cell_line(cells, mark).encode("utf-8", "replace"))


def show_groups(name: str, k: int, found: Mapping[str, Group]) -> None:
    """Print the groups, the largest first: percentages with half of their intervals."""
    of_labels = name in ("branch", "frequency")
    largest = sorted(found, key=lambda group: (-found[group]["size"], group))[:_MOST]
    largest = [*found] if name == "frequency" else largest
    size, *measures = found[largest[0]]
    heads = "".join(f"{f'{measure}@{k}':>8}{'':7}" for measure in measures).rstrip()
    click.echo(f"by {name:<23.23}{'labels' if of_labels else 'rows':>8}{heads}")
    for group in largest:
        cells = ""
        for value, low, high in (found[group][measure] for measure in measures):
            half = 100 * max(value - low, high - value)
            cells += f"{'-':>8}{'':7}" if np.isnan(value) else f"{100 * value:8.2f} ±{half:<5.2f}"
        click.echo(f"{group:<26.26}{found[group][size]:>8,}{cells}".rstrip())
    if len(found) > _MOST:
        click.echo(f"… and {len(found) - _MOST} more; --json has all.")


def side_by_side(first: Any, second: Any, at: Sequence[int]) -> dict[str, dict[str, Any]]:
    """The differences of two evaluations, with ``rows``, ``truth`` and ``top`` each, over the rows that both measured,
    by measure with its cut-off."""
    common, *places = np.intersect1d(first.rows, second.rows, assume_unique=True, return_indices=True)
    sizes = [np.diff(each.truth.indptr)[rows] for each, rows in zip((first, second), places, strict=True)]
    if not len(common) or not np.array_equal(*sizes):
        raise DataError("The two are measured by other labels each, those that it knows: leave out --known-labels.")
    values = [row_values(each.truth, each.top, at) for each in (first, second)]
    result: dict[str, dict[str, Any]] = {}
    for name in values[0]:
        for column, k in enumerate(at):
            before, after = (each[name][rows, column] for each, rows in zip(values, places, strict=True))
            found = difference(before, after)
            result[f"{name}@{k}"] = {
                "rows": len(common), "first": float(before.mean()), "second": float(after.mean()),
                "difference": found.mean, "interval": [found.low, found.high], "p": found.p,
            }  # fmt: skip
    return result


def show_side_by_side(first: str, second: str, found: Mapping[str, dict[str, Any]], learned: str = "") -> None:
    """Print the differences, what the second model has ``learned`` of the rows, if anything, and how to read them."""
    if learned:
        click.echo(learned)
    click.echo(f"{second} (second) beside {first} (first), over the same {next(iter(found.values()))['rows']:,} rows:")
    click.echo(f"{'':8}{'first':>8}{'second':>8}{'difference':>12}{'95% interval':>18}{'p':>9}")
    for name, each in found.items():
        low, high = (f"{100 * end:+.2f}" for end in each["interval"])
        p = f"{each['p']:.4f}" if each["p"] >= LEAST_P else f"<{LEAST_P}"
        shares = f"{100 * each['first']:8.2f}{100 * each['second']:8.2f}{100 * each['difference']:+12.2f}"
        click.echo(f"{name:<8}{shares}{f'{low} to {high}':>18}{p:>9}")
    click.echo(
        "Interval: paired bootstrap over rows. p: how often chance alone gives as large a difference, by a paired "
        "permutation test over rows; below 0.05 it is called significant."
    )


def check_figures(paths: Sequence[str], tables: Iterable[str] = ()) -> None:
    """Refuse what can't be drawn or written, before hours of work."""
    for path in tables:
        check_ending(path, TABLES)
    for path in paths:
        if not figures.can_draw(path):
            raise DataError(f"--figure takes a {figures.FORMATS} file. Got {path!r} instead.")
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise DataError(f"There is no folder {os.path.dirname(path)!r} to draw {path!r} in.")
    if paths:
        figures.need_matplotlib()
