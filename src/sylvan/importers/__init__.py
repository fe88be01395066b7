"""Models of other libraries as Sylvan's: they rank as they did there, and save, load and serve like any other."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from sylvan.errors import ModelError, ParameterError
from sylvan.importers.libpecos import from_libpecos, is_libpecos
from sylvan.importers.napkinxc import from_napkinxc, is_napkinxc
from sylvan.importers.omikuji import from_omikuji, is_omikuji
from sylvan.models import XRLinear

__all__ = ["detect", "from_libpecos", "from_napkinxc", "from_omikuji", "import_model"]

Library = Literal["libpecos", "omikuji", "napkinxc"]
# How a library's folder is recognised, and its importer.
_IMPORTERS: dict[Library, tuple[Callable[[Path], bool], Callable[..., XRLinear]]] = {
    "libpecos": (is_libpecos, from_libpecos),
    "omikuji": (is_omikuji, from_omikuji),
    "napkinxc": (is_napkinxc, from_napkinxc),
}
LIBRARIES = tuple(_IMPORTERS)


def detect(folder: str | os.PathLike[str]) -> Library:
    """The library whose model lies in a folder: "libpecos", "omikuji" or "napkinxc".

    Raises
    ------
    ModelError
        When there is no folder, or a model of none of them; what is often taken for one is named.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sylvan.importers import detect
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("settings.json", "tree0.cbor"):
    ...     (folder / name).touch()
    >>> detect(folder)
    'omikuji'
    """
    where = Path(folder)
    for library, (belongs, _) in _IMPORTERS.items():
        if belongs(where):
            return library
    fault = "holds no model of libpecos, omikuji or napkinXC."
    if not where.exists():
        fault = "is missing."
    elif where.is_file() and where.suffix in (".bin", ".ftz"):
        words = "they average word vectors, which is another method. Train on its __label__ lines instead."
        fault = f"is a file. fastText's models can't be imported: {words}"
    elif where.is_file():
        fault = "is a file; the models of libpecos, omikuji and napkinXC are folders."
    elif (where / "manifest.json").is_file():
        fault = "holds a model of Sylvan already."
    elif (where / "text_encoder").exists() or (where / "matcher").exists():
        fault = "holds a model with a transformer, which can't be imported."
    raise ModelError(f"{str(where)!r} {fault}")


def import_model(folder: str | os.PathLike[str], library: Library | None = None, **options: Any) -> XRLinear:
    """The model that another library left in a folder; see :func:`from_libpecos`, :func:`from_omikuji` and
    :func:`from_napkinxc`.

    Parameters
    ----------
    folder : path
    library : {"libpecos", "omikuji", "napkinxc"}, optional
        By default it is recognised by the files in the folder.
    **options
        Those of the importer, such as ``weight_dtype="uint8"``.

    Raises
    ------
    ModelError
        When the folder holds no such model, or one that is damaged or says what XRLinear can't.
    ParameterError
        For another ``library``, and as the importers.
    """
    if library is not None and library not in _IMPORTERS:
        names = ", ".join(repr(name) for name in LIBRARIES)
        raise ParameterError(f"The 'library' parameter must be one of {names} or None. Got {library!r} instead.")
    return _IMPORTERS[library or detect(folder)][1](folder, **options)
