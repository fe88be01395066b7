"""``--allowed`` and ``--denied``: files of labels, a name or an id a line."""

from __future__ import annotations

from typing import Any

from sylvan.data.streams import open_read
from sylvan.errors import DataError, ParameterError
from sylvan.models.label_names import ids_of_names

__all__ = ["read_lists"]


def read_lists(model: Any, allowed: str | None, denied: str | None, input_: str) -> dict[str, Any]:
    """What ``rank`` is to be given besides: the label ids of the files that were named.

    Parameters
    ----------
    model : Estimator
        Of text: a line is a label's name; otherwise it is a label id.
    allowed, denied : str or None
        A path each, ``"-"`` for stdin; gzip and xz are recognised.
    input_ : str
        The path of the input, which may not be stdin as well.

    Raises
    ------
    ParameterError
        When two of them are stdin.
    DataError
        With the line, for a label that the model doesn't know.
    """
    if [allowed, denied, input_].count("-") > 1:
        raise ParameterError("Only one of INPUT, --allowed and --denied can be read from stdin.")
    given = {"allowed": allowed, "denied": denied}
    return {name: _read(path, model) for name, path in given.items() if path is not None}


def _read(path: str, model: Any) -> list[int]:
    source, found = "stdin" if path == "-" else path, []
    with open_read(path) as stream:
        for number, line in stream.lines():
            where = f"{source}, line {number}"
            try:
                word = line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(f"{where}: the label is not UTF-8.") from error
            if model.takes_texts:
                if word:
                    found += ids_of_names([word], model.vocabulary_, f"{where}: the list")
            elif word.strip():
                found.append(_id(word.strip(), where, model.n_labels_))
    return found


def _id(word: str, where: str, n_labels: int) -> int:
    if not word.isascii() or not word.isdigit() or int(word) >= n_labels:
        raise DataError(f"{where}: a label of this model is an id in [0, {n_labels - 1}]. Got {word!r:.60} instead.")
    return int(word)
