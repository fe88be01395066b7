"""Errors are sentences: what is wrong, where, the allowed range, and what was received."""

from __future__ import annotations

import warnings

__all__ = [
    "CheckpointWarning",
    "DataError",
    "DataWarning",
    "DiskSpaceError",
    "HubError",
    "MemoryLimitError",
    "ModelError",
    "NotFittedError",
    "OtherReleaseWarning",
    "ParameterError",
    "RowsUnknownWarning",
    "SylvanError",
    "TuningError",
    "UnsupportedError",
]


class SylvanError(Exception):
    """Base of every error that Sylvan raises on purpose; ``str(error)`` is one readable sentence."""


class ParameterError(SylvanError, ValueError):
    """A parameter is unknown, of the wrong type or out of its range."""


class DataError(SylvanError, ValueError):
    """A user's array or file is malformed: wrong shape, dtype, index, value or line."""


class ModelError(SylvanError, ValueError):
    """A model folder is missing, truncated, altered, foreign or newer than this release."""


class HubError(SylvanError, ConnectionError):
    """The Hugging Face Hub can't be reached, refuses or fails, or has no such repository."""


class NotFittedError(SylvanError, ValueError, AttributeError):
    """An estimator was asked to rank before it was fitted."""


class MemoryLimitError(SylvanError, MemoryError):
    """The work asked for does not fit the memory there is."""


class DiskSpaceError(SylvanError, OSError):
    """What is to be written doesn't fit the disk."""


class TuningError(SylvanError, ValueError):
    """No model could be found within a tuning's budget and limits."""


class UnsupportedError(SylvanError, AttributeError):
    """A method was asked for that the estimator hasn't got; ``hasattr`` says False."""


class RowsUnknownWarning(UserWarning):
    """A model has learned new labels without the rows of those that it knows, and answers the new ones too often."""


class DataWarning(UserWarning):
    """Data are read in a way that may not be meant; the sentence shows an example and the way out."""


def warn_data(sentence: str, stacklevel: int = 2) -> None:
    """Give a :class:`DataWarning`, as ``warnings.warn`` would where this is called."""
    warnings.warn(sentence, DataWarning, stacklevel=stacklevel + 1)


class CheckpointWarning(UserWarning):
    """A checkpoint can't be written at the moment, and its training goes on without."""


class OtherReleaseWarning(UserWarning):
    """A model was trained with another release of a library by which its inputs are read."""
