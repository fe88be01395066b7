"""What a class that is saved into a folder has besides: ``push_to_hub`` and ``from_pretrained``."""

from __future__ import annotations

import os
import tempfile
from typing import TypeVar

from sylvan.errors import ModelError
from sylvan.lazy import provided
from sylvan.remote.pull import from_pretrained
from sylvan.remote.repository import Pushed

_Self = TypeVar("_Self", bound="HubMixin")


class HubMixin:
    """Base of what can be saved, pushed to the Hugging Face Hub and opened from there."""

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write it into ``folder``."""
        raise TypeError(f"{type(self).__name__} is abstract: it can't be saved.")

    def push_to_hub(
        self,
        repository: str,
        *,
        revision: str | None = None,
        private: bool | None = None,
        license: str | None = None,
        message: str | None = None,
        token: str | None = None,
    ) -> Pushed:
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
            push = provided["push"]
            pushed: Pushed = push(
                folder, repository, revision=revision, private=private, license=license, message=message, token=token
            )
            return pushed

    @classmethod
    def from_pretrained(
        cls: type[_Self],
        source: str | os.PathLike[str],
        *,
        revision: str | None = None,
        mmap: bool = True,
        token: str | None = None,
    ) -> _Self:
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
        found = from_pretrained(source, revision=revision, mmap=mmap, token=token)
        if not isinstance(found, cls):
            raise ModelError(
                f"{os.fspath(source)!r} holds a {type(found).__name__}, where {cls.__name__} was asked for: "
                "sylvan.from_pretrained opens any."
            )
        return found
