"""What is fitted and saved: models, and indexes of vectors."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy.typing as npt

from sylvan import store
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.params.fields import Parameterized
from sylvan.remote.saved import HubMixin

_Self = TypeVar("_Self", bound="Fitted")


class Fitted(Parameterized, HubMixin):
    """Base of what ``fit`` makes ready for use and ``save`` writes into a folder."""

    def _is_fitted(self) -> bool:
        raise TypeError(f"{type(self).__name__} is abstract: it is never fitted.")

    def _need_fit(self, action: str) -> None:
        if not self._is_fitted():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit before {action}.")

    kind: ClassVar[str]  # its name in manifests
    layout: ClassVar[int] = 1  # of its manifests
    not_saved: ClassVar[Collection[str]] = ()  # parameters that a manifest doesn't hold
    added: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # those that older manifests lack, and what they meant

    def to_state(self) -> store.State:
        """All of it as plain values and arrays, for :mod:`sylvan.store`."""
        self._need_fit("to_state")
        return store.State(self.kind, self.layout, self._plain_params(), *self._fitted_state())

    @classmethod
    def from_state(cls: type[_Self], state: store.State) -> _Self:
        """What :meth:`to_state` gave, verified."""
        store.need_kind(state, cls.kind, cls.layout)
        try:
            made = cls(**cls._params_from(state))
            made.check_params()
            made._restore(state)
        except (DataError, ParameterError) as error:  # what was saved is at fault, not the caller
            raise ModelError(f"{state.where or f'The {state.kind}'!r} is damaged: {error}") from error
        return made

    def _plain_params(self) -> dict[str, Any]:
        """The parameters as a manifest holds them."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in self.not_saved}

    @classmethod
    def _params_from(cls, state: store.State) -> dict[str, Any]:
        """What :meth:`_plain_params` gave, not yet checked."""
        params = {**cls.added, **state.params}
        names = [name for name in cls.parameter_names() if name not in cls.not_saved]
        return store.need_params(dataclasses.replace(state, params=params), names)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]], dict[str, store.State]]:
        """Values, arrays and parts of what was fitted."""
        raise TypeError(f"{type(self).__name__} is abstract: it can't be saved.")

    def _restore(self, state: store.State) -> None:
        """Take in what :meth:`_fitted_state` gave, verified."""
        raise TypeError(f"{type(self).__name__} is abstract: it can't be loaded.")

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it into ``folder``, completely or not at all; an older Sylvan model there is replaced.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        SylvanError
            When the folder can't be written, or contains something other than a Sylvan model.
        """
        self._need_fit("save")
        store.save(folder, self.to_state())
