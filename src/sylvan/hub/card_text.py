"""A model's card as lines for a terminal and as the README.md of its folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sylvan.data.streams import open_write
from sylvan.errors import DataError
from sylvan.explain.explanation import printable
from sylvan.hub.card import TEXT_ROWS, Card, Parameters, Tree, as_lines, words_of
from sylvan.models.encoders import words_of_extra
from sylvan.params.wording import counted, size_words
from sylvan.remote import readme

_SPECIAL = re.compile(r"([\\`*_\[\]<>|&~])")


def as_text(card: Card) -> str:
    """The card for a terminal."""
    return "\n".join(_lines(card))


def _lines(card: Card) -> Iterator[str]:
    yield f"{card.folder}: {card.owner}" + (f", {card.summary}" if card.summary else "")
    size = f"{size_words(card.n_bytes)} in {counted(card.n_files, 'file')}"
    yield f"{_facts(card)}; {size}, written by Sylvan {card.written_by}"
    if card.source is not None:
        yield f"From {card.source.repository} on the Hugging Face Hub, commit {card.source.revision}."
    needs, compressed, living = _remarks(card)
    yield from filter(None, (needs, compressed))
    yield from (f"Updated {printable(note['when'])}: {words_of(note)}." for note in card.history)
    yield from filter(None, [living])
    for each in card.parameters:
        yield f"\nParameters of {_called(each)} (* not the default)"
        for name, value, changed in each.values:
            yield f"  {'*' if changed else ' '} {name} = {value!r}{_chosen(each, name)}"
    for tree in card.trees:
        yield f"\n{f'{tree.path}: ' if tree.path else ''}{tree.words}"
        yield from (f"  {line}" for line in _table(_layer_rows(tree)))
        yield ""
        yield from (f"  {line}" for line in as_lines(tree.top))
    if len(card.parts) > 1:
        yield "\nParts"
        rows = [[p.path or "(whole)", p.kind, f"{p.n_arrays:,}", size_words(p.n_bytes)] for p in card.parts]
        yield from (f"  {line}" for line in _table([["part", "kind", "arrays", "size"], *rows]))
    if card.measured is not None:
        yield f"\nMeasured after training on {_measured_on(card.measured)}, in percent"
        yield from (f"  {line}" for line in _table(_measures(card.measured)))
    if card.threshold is not None:
        yield f"\nThreshold of the highest F1: {card.threshold['f1']:g}, on {_measured_on(card.threshold)}"
    if card.labels:
        yield f"\nThe {len(card.labels)} most frequent labels" if card.labels[0][1] is not None else "\nNames"
        yield from (f"  {line}" for line in _table(_label_rows(card)))


def _facts(card: Card) -> str:
    return ", ".join(f"{value:,} {name}" for name, value in card.facts.items()) or card.kind


def _remarks(card: Card) -> tuple[str, str, str]:
    """What its encoder needs, how it was compressed, and the rows that it keeps: a sentence each, empty for none."""
    needs = words_of_extra(card.needs) if card.needs is not None else ""
    compressed = living = ""
    if (note := card.compressed) is not None:
        most = f", to {size_words(note['max_size'])} at most" if note.get("max_size") else ""
        types = " and ".join(note["weight_dtypes"])
        compressed = f"Compressed from {size_words(note['bytes_before'])}{most}; weights are {types}."
    if (kept := card.living) is not None:
        among = ", those that are texts of labels among them," if card.facts.get(TEXT_ROWS) else ""
        rows = f"Keeps its {counted(kept['n_rows'], 'row')}{among} for updates ({size_words(kept['n_bytes'])})"
        living = f"{rows}; by its shape, a new tree would save {kept['drift']:.0%} of a search."
    return needs, compressed, living


def _chosen(each: Parameters, name: str) -> str:
    """What the data made of "auto"."""
    value = each.chosen.get(name)
    return "" if value is None else f" ({value:.3g})"


def _called(each: Parameters) -> str:
    return f"{each.owner} ({each.path})" if each.path else each.owner


def _layer_rows(tree: Tree) -> list[list[str]]:
    rows = [["layer", "clusters", "nodes", "weights", "size"]]
    for number, layer in enumerate(tree.layers, start=1):
        words = [f"{layer.n_weights:,}", size_words(layer.n_bytes or 0)] if layer.n_weights is not None else ["", ""]
        rows.append([str(number), f"{layer.n_clusters:,}", f"{layer.n_nodes:,}", *words])
    return rows if tree.layers[0].n_weights is not None else [row[:3] for row in rows]


def _label_rows(card: Card) -> list[list[str]]:
    return [[printable(name), "" if rows is None else counted(rows, "row")] for name, rows in card.labels]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if i and cell[:1] in "@0123456789" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _measured_on(measured: dict[str, Any]) -> str:
    return f"{printable(measured['on'])} ({counted(measured['rows'], 'row')})"


def _measures(measured: dict[str, Any]) -> list[list[str]]:
    places = sorted({int(k) for row in measured["measures"].values() for k in row})
    rows = [["", *(f"@{k}" for k in places)]]
    for name, values in measured["measures"].items():
        cells = (values.get(str(k)) for k in places)
        rows.append([printable(name), *("" if cell is None else f"{100 * cell:.2f}" for cell in cells)])
    return rows


def as_markdown(card: Card, repository: str | None = None) -> str:
    """The card as the README.md of the model's folder, or of a repository on the Hugging Face Hub."""
    return "\n".join(_markdown(card, repository)) + "\n"


def _markdown(card: Card, repository: str | None) -> Iterator[str]:
    yield readme.mark(card.checksum)
    yield f"# {_escaped(repository or os.path.basename(os.path.abspath(card.folder)))}"
    article = "An" if card.owner[:1] in "AEIOUX" else "A"
    yield f"\n{article} {card.owner}{f': {card.summary}' if card.summary else ''}, made with Sylvan {card.written_by}."
    yield f"{_facts(card)}; {size_words(card.n_bytes)} on disk."
    needs, compressed, living = _remarks(card)
    yield from filter(None, [compressed])
    yield from (f"Updated {_escaped(note['when'])}: {words_of(note)}." for note in card.history)
    yield from filter(None, (living, needs))
    yield "\n## Use\n"
    if repository is not None:
        yield '```sh\npip install "sylvan[hub]"\n```\n'
    call = 'load("path/to/this/folder")' if repository is None else f'from_pretrained("{repository}")'
    yield f"```python\nimport sylvan\n\nmodel = sylvan.{call}\n```"
    if card.measured is not None:
        yield f"\n## Figures\n\nMeasured after training on {_escaped(_measured_on(card.measured))}, in percent:\n"
        yield from _grid(_measures(card.measured))
    if card.parameters:
        yield "\n## Parameters\n\nThose that are not the default are in bold."
    for each in card.parameters:
        yield f"\n### {_escaped(_called(each))}\n"
        rows = [
            [f"**{name}**" if changed else name, _escaped(f"{value!r}{_chosen(each, name)}")]
            for name, value, changed in each.values
        ]
        yield from _grid([["parameter", "value"], *rows])
    for tree in card.trees:
        yield f"\n## {_escaped(f'Tree {tree.path}'.strip())}\n\n{_escaped(tree.words)}\n"
        yield from _grid(_layer_rows(tree))
        yield "\n~~~~text"  # no line of the drawing can end this block: each begins with the tree's own lines
        yield from as_lines(tree.top)
        yield "~~~~"
    if card.labels:
        yield "\n## Labels\n"
        yield from _grid([["label", "seen in"], *[[_escaped(name), rows] for name, rows in _label_rows(card)]])


def _grid(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table; the first row is its head."""
    yield f"| {' | '.join(rows[0])} |"
    yield f"|{'---|' * len(rows[0])}"
    for row in rows[1:]:
        yield f"| {' | '.join(row)} |"


def _escaped(text: str) -> str:
    """Text that means nothing to Markdown or HTML."""
    return _SPECIAL.sub(r"\\\1", printable(text)).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def card_state(folder: str) -> str | None:
    """Which model the README.md of a folder describes: its manifest's checksum; "" for a README.md of somebody else.
    None where there is no README.md."""
    text = readme.read(folder)
    return None if text is None else readme.card_checksum(text)


def write_card(card: Card) -> str:
    """Write the README.md into the model's folder, over none but one that was written so; its path. Metadata for the
    Hugging Face Hub that stands before such a card stays."""
    path = os.path.join(card.folder, readme.NAME)
    before = readme.read(card.folder)
    if before is not None and not readme.card_checksum(before):
        raise DataError(f"{path!r} was not written by sylvan inspect: move it away, and it will not be overwritten.")
    with open_write(path) as stream:
        stream.write((readme.metadata_text(before or "") + as_markdown(card)).encode("utf-8", "replace"))
    return path
