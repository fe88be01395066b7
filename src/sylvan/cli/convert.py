"""``sylvan convert``: a file of texts, or a matrix, in another format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat, tee
from typing import Any

import click

from sylvan.cli.io.formats import FORMATS, MATRIX_FORMATS, TEXT_FORMATS, format_of_name
from sylvan.cli.options import check_output_options, input_options, output_fields_option, subjects_options
from sylvan.cli.session import keep_inputs, say_once
from sylvan.errors import DataError

_PAIR = "pair"
_TARGETS = tuple(name for name in FORMATS if name not in ("dataset", "text", "xlsx", "marcxml"))
# Why texts become no matrix and a matrix no texts, and what would work.
_REFUSED = {
    True: "features: those are made of texts by 'sylvan train', or by TfidfVectorizer from Python. Choose one of "
    f"{', '.join(name for name in _TARGETS if name in TEXT_FORMATS)}.",
    False: f"texts, which can't be had back from features. Choose one of {', '.join(MATRIX_FORMATS)}, {_PAIR}.",
}


@click.command("convert")
@click.argument("input_", metavar="IN")
@click.argument("output", metavar="OUT")
@click.option("--to", type=click.Choice((*_TARGETS, _PAIR)),
              help="Format of OUT; that of its name by default. pair is a folder of X and Y in .npz.")  # fmt: skip
@click.option("--from", "from_", type=click.Choice(tuple(FORMATS)), help="The same as --format.")
@click.option("--output-labels", metavar="Y.npz", help="Where to write the labels of an .npz, .npy or csr.")
@click.option("--output-items", metavar="FILE", help="Where to write the labels' names of PECOS's text files.")
@click.option("--output-separator", metavar="TEXT", help="Separator of the labels in a cell of OUT. [default: ;]")
@click.option("--split", default="trn", show_default=True, help="Which part of a pair: X.trn.npz, X.tst.npz.")
@subjects_options
@click.option("--one-line", is_flag=True, help="Write blanks for line breaks in texts, where the format has none.")
@click.option("--blanks", metavar="TEXT", help="What to write for blanks in fastText's labels, such as _.")
@click.option("--drop-weights", is_flag=True, help="Write no weights of labels.")
@click.option("--texts-only", is_flag=True, help="Write no labels.")
@output_fields_option
@input_options
def command(input_: str, output: str, **flags: Any) -> None:
    """Write IN (- for stdin) as OUT (- for stdout) in another format: texts as texts, matrices as matrices.

    Texts stream through, so that a file of any size will do. Other fields, such as ids and titles, stay beside text and
    labels where OUT has columns (JSONL, CSV, TSV, Parquet). OUT takes its name when everything is written.

    \b
    Examples:
      sylvan convert books.csv books.jsonl --text-field title --labels-field subjects
      sylvan convert excel.csv books.parquet --delimiter ";" --text-field title,abstract
      sylvan convert train.jsonl train.txt --to fasttext --blanks _ --one-line
      sylvan convert corpus/ corpus.parquet
      sylvan convert train.xmc data/ --to pair
      zcat titles.tsv.gz | sylvan convert - - --to jsonl | head
    """
    from sylvan.cli.io.inputs import open_input
    from sylvan.parallel import quiet

    keep_inputs("output", "output_labels", "output_items")
    if flags["from_"] is not None:
        if flags["format_"] not in (None, flags["from_"]):
            raise click.UsageError("--from and --format say the same thing: give one of them.")
        flags["format_"] = flags["from_"]
    source = open_input(input_, flags, part=flags["split"], says_unread=False)
    of_folder = _PAIR if not source.is_text and (output.endswith(os.sep) or os.path.isdir(output)) else None
    target = flags["to"] or format_of_name(output) or of_folder
    if target not in (*_TARGETS, _PAIR):
        names = ", ".join((*_TARGETS, _PAIR))
        raise DataError(f"{output!r} doesn't tell a format that is written: say it with --to, one of {names}.")
    if source.is_text != (target in TEXT_FORMATS):
        words = FORMATS.get(target, "a pair of matrices in .npz")
        raise DataError(f"{source.name} is {source.words}, and {words} holds {_REFUSED[source.is_text]}")
    check_output_options(output, target)
    with quiet(flags["quiet"] or output == "-"):
        (_convert_texts if source.is_text else _convert_matrix)(source, output, target, flags)


def _convert_texts(source: Any, output: str, target: str, flags: dict[str, Any]) -> None:
    from sylvan.cli.io.inputs import TEXTS
    from sylvan.data.formats.format import Columns

    options = replace(
        source.options, delimiter=flags["output_delimiter"], output_separator=flags["output_separator"],
        guards=flags["guard_formulas"], items=flags["output_items"], header=None, one_line=flags["one_line"],
        blanks=flags["blanks"],
    )  # fmt: skip
    labels = not flags["texts_only"]
    fields = _other_fields(source, target, output, flags)

    def rows() -> Iterator[tuple[tuple[str, list[Any], list[float] | None], dict[str, Any]]]:
        taken: list[Any] = []
        for block in source.stream(labels, None if fields is None else taken):
            records: Any = repeat({}) if fields is None else [fields(record) for record in taken]
            taken.clear()
            for (text, row, weights), other in zip(block.rows(), records):  # noqa: B905
                yield (text, row, None if flags["drop_weights"] else weights), other

    first, second = tee(rows())  # writers take both together, so that no more than a block lies between them
    records = None if fields is None else (other for _, other in second)
    columns = Columns.of(row for row, _ in first) if labels else Columns(row[0] for row, _ in first)
    TEXTS[target].write(output, columns, options, records)


def _other_fields(source: Any, target: str, output: str, flags: dict[str, Any]) -> Any:
    """Which other fields of its rows OUT has; a sentence says which it can't have."""
    from sylvan.cli.io.inputs import COLUMNS
    from sylvan.data.other_fields import OtherFields

    names = flags["output_fields"]
    if target in COLUMNS:
        columns = ("text", "subject_uris" if target == "annif-csv" else "labels", "weights")
        return source.other_fields(columns, names)
    if names and names != ("none",):
        raise DataError(f"--output-fields is for outputs with columns, but {output} is {FORMATS[target]}.")
    if target == source.format == "annif-folder" and not names:
        return OtherFields(("file",))
    fields = source.other_fields(())
    if fields is not None and not names and not flags["quiet"]:
        lost = ", ".join(name for name in source.fields() if name not in fields.without)
        if lost:
            say_once(f"{output} holds texts and labels alone: {lost} of {source.name} isn't written.")
    return None


def _convert_matrix(source: Any, output: str, target: str, flags: dict[str, Any]) -> None:
    from sylvan import data

    X, Y = source.matrices()
    apart = flags["output_labels"]
    if flags["texts_only"]:
        raise DataError("--texts-only is for text. A matrix is written without labels to an .npz or .npy.")
    if target in ("xmc", "svmlight", "parts") and apart is not None:
        raise DataError(f"--output-labels is for .npz, .npy and csr: {FORMATS[target]} holds the labels itself.")
    if target == "xmc":
        data.save_xmc(output, X, Y)
    elif target == "svmlight":
        first = source.first_feature or 0
        data.save_svmlight(output, X, Y, zero_based=first == 0)
        if not flags["quiet"]:
            say_once(f"Wrote {'stdout' if output == '-' else output}: features counted from {first}.")
    elif target == "parts":
        data.save_parts(output, X, Y if Y.shape[1] else None)
    elif target == _PAIR:
        data.save_npz_pair(output, X, Y, flags["split"])
    else:
        if Y.nnz and apart is None:
            raise DataError(
                f"{source.name} holds labels, and {FORMATS[target]} doesn't: say with --output-labels Y.npz where they "
                "are to be written, or choose --to pair."
            )
        size = 4 * X.shape[0] * X.shape[1]
        if target == "npy" and size > 1 << 32:
            words = f"A dense matrix of shape {X.shape} takes {size / 1e9:.1f} GB"
            raise DataError(f"{words}: choose npz, which is sparse.")
        if apart is not None:
            data.save_npz(apart, Y)
        write: Any = {"npz": data.save_npz, "csr": data.save_csr, "npy": data.save_npy}[target]
        write(output, X.toarray() if target == "npy" else X)
