"""Jobs: the independent pieces of work that every training is a list of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sylvan.errors import ModelError, SylvanError

__all__ = ["ARRAY", "Arrays", "Job", "Once", "Packing"]

Arrays = Mapping[str, npt.NDArray[Any]]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Packing(Generic[_Result]):
    """How a job's result becomes named arrays, for a file or another machine, and a result again.

    Attributes
    ----------
    pack : callable
        From a result to its arrays. All jobs of one list give arrays of the same names and dtypes.
    unpack : callable
        From the arrays to the result; raises a :class:`~sylvan.errors.ModelError` where they don't make one.
    """

    pack: Callable[[_Result], Arrays]
    unpack: Callable[[Arrays], _Result]


@dataclass(frozen=True)
class Job(Generic[_Result]):
    """A piece of work: a pure function, what it is given by name, and what is known of it beforehand.

    Calling a job runs it. It may run twice, in any process: its result depends on its inputs alone.

    Attributes
    ----------
    name : str
        Unlike that of any other job of its training: its result is found under it.
    work : callable
        A function of a module, called with ``inputs``; threads gain from it where its kernels release the GIL.
    inputs : mapping of str to object
        Arrays in memory or mapped from files, and plain values; what many jobs read is the same object in each. A
        :class:`Once` stands for what is only made when a job needs it.
    cost : float
        In any unit that is the same for all jobs of a list: the most expensive are started first.
    peak_bytes : int
        Most memory that the work takes beside its inputs.
    packing : Packing, optional
        How the result is stored; without one it is made anew by every training.
    title : str
        What a sentence calls the work.

    Examples
    --------
    >>> from sylvan.runtime import Job, Runner
    >>> jobs = [Job(f"power{n}", pow, {"base": 2, "exp": n}) for n in range(4)]
    >>> Runner(n_jobs=2).run(jobs)
    [1, 2, 4, 8]
    """

    name: str
    work: Callable[..., _Result]
    inputs: Mapping[str, Any]
    cost: float = 1.0
    peak_bytes: int = 0
    packing: Packing[_Result] | None = None
    title: str = "this work"

    def __call__(self) -> _Result:
        """The result; an error that isn't a sentence of Sylvan's own says which job it came from."""
        try:
            inputs = {name: value() if isinstance(value, Once) else value for name, value in self.inputs.items()}
            return self.work(**inputs)
        except SylvanError:
            raise
        except Exception as error:
            note = f"It was raised in the job {self.name!r} ({self.title})."
            error.__dict__["__notes__"] = [*getattr(error, "__notes__", []), note]  # add_note needs Python 3.11
            raise


class Once:
    """The result of a job that others build on, made when it is first asked for: not where all of them are stored."""

    def __init__(self, job: Job[Any]) -> None:
        self._job = job
        self._results: list[Any] = []

    def __call__(self) -> Any:
        if not self._results:
            self._results.append(self._job())
        return self._results[0]


def _pack_array(array: npt.NDArray[Any]) -> Arrays:
    return {"values": array}


def _unpack_array(arrays: Arrays) -> npt.NDArray[Any]:
    if set(arrays) != {"values"}:
        raise ModelError(f"A single array is stored as 'values'. Got {sorted(arrays)} instead.")
    return np.array(arrays["values"])


ARRAY: Packing[npt.NDArray[Any]] = Packing(_pack_array, _unpack_array)
