"""``sylvan convert``: a file of texts, or a matrix, in another format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat, tee
from typing import Any

import click

from sylvan.cli.io.formats import FORMATS, MATRIX_FORMATS, TEXT_FORMATS, format_of_name
from sylvan.cli.options import input_options, output_fields_option, subjects_options
from sylvan.cli.session import say_once
from sylvan.errors import DataError

_PAIR = "pair"
_TARGETS = tuple(name for name in FORMATS if name not in ("dataset", "text"))
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
def command(input_: str, output: str, **given: Any) -> None:
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

    if given["from_"] is not None:
        if given["format_"] not in (None, given["from_"]):
            raise click.UsageError("--from and --format say the same thing: give one of them.")
        given["format_"] = given["from_"]
    source = open_input(input_, given, part=given["split"], says_unread=False)
    of_folder = _PAIR if not source.is_text and (output.endswith(os.sep) or os.path.isdir(output)) else None
    target = given["to"] or format_of_name(output) or of_folder
    if target is None:
        known = ", ".join((*_TARGETS, _PAIR))
        raise DataError(f"{output!r} doesn't tell its format: say it with --to, one of {known}.")
    if source.is_text != (target in TEXT_FORMATS):
        words = FORMATS.get(target, "a pair of matrices in .npz")
        raise DataError(f"{source.name} is {source.words}, and {words} holds {_REFUSED[source.is_text]}")
    with quiet(given["quiet"] or output == "-"):
        (_convert_texts if source.is_text else _convert_matrix)(source, output, target, given)


def _convert_texts(source: Any, output: str, target: str, given: dict[str, Any]) -> None:
    from sylvan.cli.io.inputs import TEXTS
    from sylvan.data.formats.format import Columns

    options = replace(
        source.options, delimiter=given["output_delimiter"], output_separator=given["output_separator"],
        guards=given["guard_formulas"], items=given["output_items"], header=None, one_line=given["one_line"],
        blanks=given["blanks"],
    )  # fmt: skip
    labels = not given["texts_only"]
    fields = _other_fields(source, target, output, given)

    def rows() -> Iterator[tuple[tuple[str, list[Any], list[float] | None], dict[str, Any]]]:
        taken: list[Any] = []
        for block in source.stream(labels, None if fields is None else taken):
            others: Any = repeat({}) if fields is None else [fields(record) for record in taken]
            taken.clear()
            for (text, row, weights), other in zip(block.rows(), others):  # noqa: B905
                yield (text, row, None if given["drop_weights"] else weights), other

    first, second = tee(rows())  # writers take both together, so that no more than a block lies between them
    others = None if fields is None else (other for _, other in second)
    columns = Columns.of(row for row, _ in first) if labels else Columns(row[0] for row, _ in first)
    TEXTS[target].write(output, columns, options, others)


def _other_fields(source: Any, target: str, output: str, given: dict[str, Any]) -> Any:
    """Which other fields of its rows OUT has; a sentence says which it can't have."""
    from sylvan.cli.io.inputs import COLUMNS
    from sylvan.data.other_fields import OtherFields

    names = given["output_fields"]
    if target in COLUMNS:
        own = ("text", "subject_uris" if target == "annif-csv" else "labels", "weights")
        return source.other_fields(own, names)
    if names and names != ("none",):
        raise DataError(f"--output-fields is for outputs with columns, but {output} is {FORMATS[target]}.")
    if target == source.format == "annif-folder" and not names:
        return OtherFields(("file",))
    fields = source.other_fields(())
    if fields is not None and not names and not given["quiet"]:
        lost = ", ".join(name for name in source.fields() if name not in fields.without)
        if lost:
            say_once(f"{output} holds texts and labels alone: {lost} of {source.name} isn't written.")
    return None


def _convert_matrix(source: Any, output: str, target: str, given: dict[str, Any]) -> None:
    from sylvan import data

    X, Y = source.matrices()
    apart = given["output_labels"]
    if given["texts_only"]:
        raise DataError("--texts-only is for text. A matrix is written without labels to an .npz or .npy.")
    if target in ("xmc", "svmlight", "parts") and apart is not None:
        raise DataError(f"--output-labels is for .npz, .npy and csr: {FORMATS[target]} holds the labels itself.")
    if target == "xmc":
        data.save_xmc(output, X, Y)
    elif target == "svmlight":
        first = source.first_feature or 0
        data.save_svmlight(output, X, Y, zero_based=first == 0)
        if not given["quiet"]:
            say_once(f"Wrote {'stdout' if output == '-' else output}: features counted from {first}.")
    elif target == "parts":
        data.save_parts(output, X, Y if Y.shape[1] else None)
    elif target == _PAIR:
        data.save_npz_pair(output, X, Y, given["split"])
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
