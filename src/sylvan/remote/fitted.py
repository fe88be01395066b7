"""What is fitted and saved, pushed to the Hugging Face Hub and opened from there: models, vectorisers, indexes."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy.typing as npt

from sylvan import store
from sylvan.errors import DataError, ModelError, NotFittedError, ParameterError
from sylvan.lazy import provided
from sylvan.params.fields import Parameterized
from sylvan.remote.client import Pushed, from_pretrained

_Self = TypeVar("_Self", bound="Fitted")


class Fitted(Parameterized):
    """Base of what ``fit`` makes ready for use and ``save`` writes into a folder."""

    def _is_fitted(self) -> bool:
        raise TypeError(f"{type(self).__name__} is abstract: it is never fitted.")

    def _need_fit(self, action: str) -> None:
        if not self._is_fitted():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit before {action}.")
        if "_unchecked" in self.__dict__:
            self.check_params()
            self.__dict__.pop("_unchecked", None)

    def set_params(self: _Self, **values: Any) -> _Self:
        """Set parameters by name, which are checked when they are used: an unknown name raises at once.

        Raises
        ------
        ParameterError
        """
        super().set_params(**values)
        if self._is_fitted():  # noted for what uses them next: to check them in each ranking would take too long
            self.__dict__["_unchecked"] = True
        return self

    kind: ClassVar[str]  # its name in manifests
    layout: ClassVar[int] = 1  # of its manifests
    not_saved: ClassVar[Collection[str]] = ()  # parameters that a manifest doesn't hold
    added: ClassVar[Mapping[str, Any]] = MappingProxyType({})  # those that older manifests lack, and what they meant

    def to_state(self) -> store.State:
        """All of it as plain values and arrays, for :mod:`sylvan.store`."""
        self._need_fit("to_state")
        self.check_params()  # as from_state does, which would call what was saved damaged
        return store.State(self.kind, self.layout, self._plain_params(), *self._fitted_state())

    @classmethod
    def from_state(cls: type[_Self], state: store.State) -> _Self:
        """What :meth:`to_state` gave, verified."""
        store.need_kind(state, cls.kind, cls.layout)
        try:
            restored = cls(**cls._params_from(state))
            restored.check_params()
            restored._restore(state)
        except (DataError, ParameterError) as error:  # what was saved is at fault, not the caller
            raise ModelError(f"{state.where or f'The {state.kind}'!r} is damaged: {error}") from error
        return restored

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

    def push_to_hub(
        self, repository: str, *, revision: str | None = None, private: bool | None = None, license: str | None = None,
        message: str | None = None, token: str | None = None,
    ) -> Pushed:  # fmt: skip
        """Save it and push it to a repository on the Hugging Face Hub; see :func:`sylvan.hub.push`.

        Figures that ``sylvan train --test`` has noted in a model's folder are pushed with the folder alone.

        Parameters
        ----------
        repository : str
            ``"owner/name"``; created if it doesn't exist.
        revision, private, license, message, token
            As of :func:`sylvan.hub.push`.

        Returns
        -------
        Pushed
            The repository, the commit's id and its page.

        Raises
        ------
        NotFittedError
            Before ``fit``.
        HubError, ParameterError, ImportError
            As :func:`sylvan.hub.push`.
        """
        with tempfile.TemporaryDirectory(prefix="sylvan-model-") as above:
            folder = os.path.join(above, "model")
            self.save(folder)
            pushed: Pushed = provided["push"](
                folder, repository, revision=revision, private=private, license=license, message=message, token=token
            )
            return pushed

    @classmethod
    def from_pretrained(
        cls: type[_Self], source: str | os.PathLike[str], *, revision: str | None = None, mmap: bool = True,
        token: str | None = None,
    ) -> _Self:  # fmt: skip
        """Open one of the Hugging Face Hub, or of a folder; see :func:`sylvan.from_pretrained`.

        Parameters
        ----------
        source : str or path
            ``"owner/name"``, ``"owner/name@revision"``, or a folder.
        revision, mmap, token
            As of :func:`sylvan.from_pretrained`.

        Returns
        -------
        object
            Of this class.

        Raises
        ------
        ModelError
            When what is there is damaged, or of another class.
        HubError, ParameterError, ImportError
            As :func:`sylvan.from_pretrained`.
        """
        loaded = from_pretrained(source, revision=revision, mmap=mmap, token=token)
        if not isinstance(loaded, cls):
            raise ModelError(
                f"{os.fspath(source)!r} holds a {type(loaded).__name__}, where {cls.__name__} was asked for: "
                "sylvan.from_pretrained opens any."
            )
        return loaded
