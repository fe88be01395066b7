"""``sylvan check``: what is wrong with a file of records before a model learns from it, with an example of each."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click

from sylvan.cli import options as of
from sylvan.cli.io.findings import KINDS, Example, Finding, Records, examples
from sylvan.cli.io.inputs import LabelTitles, TextInput, open_input, read_titles
from sylvan.cli.session import FAILURE, Session, keep_inputs, quietly, write_text
from sylvan.errors import DataError, DataWarning
from sylvan.params.wording import counted

_VALUE, _SOME = 60, 3  # characters that are shown of a text, and subjects of a record
Shown = Mapping[tuple[bool, int], Example]  # records by whether they are of the test file, and number


def _opened(path: str, flags: Mapping[str, Any]) -> TextInput:
    """A file of texts with labels, which can be read twice."""
    if path == "-":
        raise DataError("sylvan check reads a file again to show what it found, and stdin can be read once: save it.")
    source = open_input(path, flags)
    if not isinstance(source, TextInput):
        raise DataError(f"sylvan check is for records of text, but {source.name} is {source.words}.")
    return source


def _read(source: TextInput) -> tuple[Records, list[str]]:
    """All that has to be known of a file's records, and what its reader warns of."""
    records = Records()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for block in source.training_blocks():
            records.take(block.texts, block.labels)
    for each in caught:
        if not issubclass(each.category, DataWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if not records.n_rows:
        raise DataError(f"{source.name}: the file holds no records.")
    return records, [str(each.message) for each in caught if issubclass(each.category, DataWarning)]


def _summary(source: TextInput, records: Records) -> str:
    """How much there is: records and subjects, lengths and scripts."""
    shortest, middle, longest = records.lengths()
    scripts = ", ".join(
        f"{script} {n:,}" + (f" (the first is record {first + 1:,})" if number else "")
        for number, (script, (n, first)) in enumerate(records.by_script())
    )
    return (
        f"{os.path.basename(source.path)}: {counted(records.n_rows, 'record')} with "
        f"{counted(len(records.labels), 'subject')}, {records.n_labels / records.n_rows:.2f} a record.\n"
        f"Texts of {shortest:,} to {longest:,} characters (record {records.longest() + 1:,}), half of them of "
        f"{middle:,} or fewer; in script: {scripts or 'none'}. Languages aren't told."
    )


def _line(found: Finding, shown: Shown, name_of: Callable[[Any], str]) -> str:
    """What was found, an example, and what to do."""
    example = ""
    if found.record is not None:
        record = shown.get((found.in_test, found.record), Example())
        before = Example() if found.other is None else shown.get((False, found.other), Example())
        other = "" if found.other is None else f"record {found.other + 1:,}{before.mark}"
        example = f" Record {found.record + 1:,}{record.mark}"
        if found.value:
            example += f": {found.value if found.label is None else name_of(found.label)}"
        elif found.with_labels:
            subjects, others = _named(record.labels, name_of), _named(before.labels, name_of)
            example += f", {_short(record.text)}: {subjects}; {other}: {others}"
        else:
            example += (f" is {other}: " if other else ": ") + _short(record.text)
        example += "."
    return f"{'-' if found.is_fault else 'Note:'} {found.words}.{example} {found.advice}".rstrip()


def _named(labels: Sequence[Any], name_of: Callable[[Any], str]) -> str:
    """The first subjects of a record."""
    return ", ".join(map(name_of, labels[:_SOME])) + (", …" if len(labels) > _SOME else "")


def _name(titles: LabelTitles | None, label: Any) -> str:
    """A subject as it stands in the file, after what the vocabulary calls it."""
    title = None if titles is None else titles(str(label))
    return f"{label!r:.80}" if title in (None, label) else f"{title} ({label})"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= _VALUE else text[: _VALUE - 1].rstrip() + "…") if text else "no text"


@click.command("check")
@click.argument("file", metavar="FILE")
@click.option("--test", metavar="FILE", help="Look for records of this file among those of FILE, too.")
@click.option("--language", metavar="CODE", help="Language of a --vocabulary's labels and names, such as en.")
@of.vocabulary_option("Look for subjects that this vocabulary (TSV, CSV, JSON lines or SKOS) lacks or has deprecated.")
@click.option("--json", "json_", metavar="FILE", help="Write what was found as data (- for stdout alone).")
@of.input_options
@of.config_option
@click.pass_context
def command(ctx: click.Context, /, file: str, test: str | None, json_: str | None, **flags: Any) -> None:
    """Check the records in FILE before training: texts, and subjects (labels).

    Looks for records without text or subject, records that are there twice, the same text with other subjects, subjects
    that hold a delimiter, that differ only in case, spelling or number, that --vocabulary lacks or has deprecated, and
    records of --test that are among those to learn from. Each is said in a line, with an example and what to do. Notes
    are no faults: rare subjects, and repeated records and texts with other subjects that are fewer than 3 records or at
    most a tenth. Records are counted from 1.

    The exit code is 0 where nothing was found, 1 for faults, 2 for wrong usage or a file that can't be read.

    \b
    Examples:
      sylvan check train.jsonl
      sylvan check train.csv --text-field title,abstract --vocabulary subjects.ttl
      sylvan check train.jsonl --test test.jsonl --json found.json
    """
    keep_inputs("json_")
    titles = _vocabulary(flags)
    subjects = None if titles is None else titles.vocabulary  # in which labels are looked up as train does
    subjects = subjects.in_language(flags["language"]) if subjects is not None and flags["language"] else subjects
    source, held_out = _opened(file, flags), None if test is None else _opened(test, flags)
    with quietly(flags):
        records, warned = _read(source)
        findings = records.findings(subjects)
        if held_out is not None:
            findings += records.leaks(_read(held_out)[0])
        delimited, session = any(found.kind == "delimiters" for found in findings), Session.of(ctx)
        findings += [
            Finding("reading", 1, session.spoken(sentence).rstrip("."))
            for sentence in warned
            if not (delimited and "label_separator" in sentence)
        ]
        findings.sort(key=lambda found: not found.is_fault)
        shown = {(False, row): record for row, record in examples(source, findings, in_test=False).items()}
        if held_out is not None:
            shown |= {(True, row): record for row, record in examples(held_out, findings, in_test=True).items()}
    if json_ is not None:
        result = {"file": file, "test": test, **records.as_json()}
        result["findings"] = [found.as_json(shown) for found in findings]
        write_text(json_, json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    is_faulty = any(found.is_fault for found in findings)
    if json_ != "-":
        click.echo(_summary(source, records))
        for found in findings:
            click.echo(_line(found, shown, partial(_name, titles)))
        kinds = {found.kind for found in findings} | ({"leakage"} if test is None else set())
        kinds |= {"unknown", "ambiguous", "deprecated"} if titles is None else set()
        click.echo(f"Found none of: {', '.join(words for kind, words in KINDS.items() if kind not in kinds)}.")
    if is_faulty:
        ctx.exit(FAILURE)


def _vocabulary(flags: Mapping[str, Any]) -> LabelTitles | None:
    """The file of ``--vocabulary``; subjects are shown by their English names where no language is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return read_titles(flags)
