"""Annif's short-text corpora: TSV of texts and URIs, and JSON lines with subjects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sylvan.data.formats.jsonl import write_records
from sylvan.data.streams import PathLike, open_read, open_write
from sylvan.data.text_rows import (
    Label,
    Row,
    TextData,
    collect,
    complete_rows,
    encoded,
    in_blocks,
    on_one_line,
    paired,
    quoted,
    text_lines,
    unweighted,
)  # fmt: skip
from sylvan.errors import DataError
from sylvan.labels.names import label_name
from sylvan.labels.uris import bare_uri, looks_like_uri
from sylvan.parallel import progress


def read_annif_tsv(path: PathLike) -> TextData:
    """Read Annif's short-text corpora: a text, a tab and the URIs of its subjects a line, without a header.

    URIs are parted by blanks and may stand in angle brackets, which are dropped; they are the labels.

    Parameters
    ----------
    path : path-like
        The file, gzip or xz unpacked on the way; "-" reads stdin.

    Returns
    -------
    TextData

    Raises
    ------
    DataError
        For the first line without a tab; when the file is missing, empty, damaged or not UTF-8.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "titles.tsv"
    >>> _ = path.write_text("Moby Dick\\t<http://example.org/whaling> <http://example.org/sea>\\n")
    >>> data.read_annif_tsv(path).labels
    [['http://example.org/whaling', 'http://example.org/sea']]
    """
    return collect(_lines(path))


def stream_annif_tsv(path: PathLike, *, rows: int = 4096) -> Iterator[TextData]:
    """Read what :func:`read_annif_tsv` reads, ``rows`` rows at a time; errors as there."""
    return in_blocks(_lines(path), rows)


def write_annif_tsv(
    path: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
    *,
    one_line: bool = False,
) -> None:
    """Write texts and URIs as Annif's short-text corpora, which :func:`read_annif_tsv` reads back.

    Parameters
    ----------
    path : path-like
        Packed when it ends in .gz or .xz; "-" writes to stdout. The file is replaced in one step at the end.
    texts : iterable of str
    labels : iterable of sequence of str, optional
        URIs, or other names without blanks.
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: the format holds none.
    one_line : bool
        Whether to write a blank for each line break or tab of a text; by default such texts are refused.

    Raises
    ------
    DataError
        When a label is empty or holds blanks or angle brackets, a text holds line breaks or tabs, lengths differ or
        the file can't be written.
    """
    with open_write(path) as stream, progress("writing", None, "line") as bar:
        for number, text, row in unweighted(paired(texts, labels, weights), "Annif's TSV"):
            uris = " ".join(f"<{_uri(number, label)}>" for label in row)
            line = on_one_line(number, text, one_line, "Annif's TSV", tab=True)
            stream.write(encoded(number, f"{line}\t{uris}\n"))
            bar.update(1)


def _uri(number: int, label: Label) -> str:
    uri = str(label)
    if not uri or uri.split() != [uri] or "<" in uri or ">" in uri:
        raise DataError(
            f"Row {number}: Annif's TSV names subjects by URIs, without blanks or angle brackets. Got {quoted(label)} "
            "instead; a vocabulary (--vocabulary) turns labels into URIs."
        )
    return uri


def _lines(path: PathLike) -> Iterator[Row]:
    with open_read(path) as stream:
        result = (_row(place, line) for place, line in text_lines(stream) if "\t" in line or line.strip())
        yield from complete_rows(result, stream.name, "lines")


def _row(place: str, line: str) -> Row:
    text, tab, uris = line.partition("\t")
    if not tab:
        raise DataError(f"{place}: a line must be a text, a tab and URIs. Got {quoted(line)} instead.")
    return text, list(dict.fromkeys(label_name(bare_uri(uri)) for uri in uris.split())), None


def write_annif_jsonl(
    path: PathLike,
    texts: Iterable[str],
    labels: Iterable[Sequence[Label]] | None = None,
    weights: Iterable[Sequence[float] | None] | None = None,
) -> None:
    """Write texts and labels as Annif's JSON lines, ``{"text": "…", "subjects": [{"uri": "…"}]}``.

    :func:`read_jsonl` reads them back. What looks like a URI (it holds ``://``, or is a URN) is written as ``"uri"``,
    anything else as ``"label"``.

    Parameters
    ----------
    path, texts, labels
        As in :func:`write_jsonl`.
    weights : iterable of sequence of float (or None), optional
        Any other than 1 are refused: the format holds none.

    Raises
    ------
    DataError
        When the lengths differ or the file can't be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sylvan import data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.jsonl"
    >>> data.write_annif_jsonl(path, ["Moby Dick"], [["http://example.org/whaling"]])
    >>> path.read_text()
    '{"text": "Moby Dick", "subjects": [{"uri": "http://example.org/whaling"}]}\\n'
    """
    rows = unweighted(paired(texts, labels, weights), "Annif's JSON lines")
    records = (
        {"text": text, "subjects": [{"uri" if looks_like_uri(str(label)) else "label": label} for label in row]}
        for _, text, row in rows
    )
    write_records(path, records)
