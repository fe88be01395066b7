"""What is fitted and saved: models, and indexes of vectors."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, TypeVar

from sylvan import store
from sylvan.errors import NotFittedError
from sylvan.params import Parameterized

__all__ = ["Fitted"]

_Self = TypeVar("_Self", bound="Fitted")


class Fitted(Parameterized):
    """Base of what ``fit`` makes ready for use and ``save`` writes into a folder."""

    def _is_fitted(self) -> bool:
        raise TypeError(f"{type(self).__name__} is abstract: it is never fitted.")

    def _need_fit(self, action: str) -> None:
        if not self._is_fitted():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit before {action}.")

    def to_state(self) -> store.State:
        """All of it as plain values and arrays."""
        raise TypeError(f"{type(self).__name__} is abstract: it has no to_state.")

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

    @classmethod
    def _unfitted(
        cls: type[_Self], state: store.State, kind: str, names: Collection[str] | None = None, **instead: Any
    ) -> _Self:
        """Where ``from_state`` begins: an object with the parameters of a state, checked; ``instead`` replaces some.

        Raises
        ------
        ModelError, ParameterError
        """
        store.need_kind(state, kind)
        params = store.need_params(state, cls.parameter_names() if names is None else names)
        made = cls(**{**params, **instead})
        made.check_params()
        return made
