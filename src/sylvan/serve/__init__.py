"""Models over HTTP: the application, and the server around it. Needs ``pip install "sylvan[serve]"``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sylvan.lazy import need_extra
from sylvan.serve.settings import ApiKey, Limits, ServedFolder, Settings, checked

if TYPE_CHECKING:
    from sylvan.serve.application import App

__all__ = ["ApiKey", "Limits", "ServedFolder", "Settings", "app"]


def app(
    models: Mapping[str, str | os.PathLike[str]] | Sequence[ServedFolder], *, limits: Limits | None = None,
    keys: Sequence[ApiKey] = (), watch: float = 1.0, log: bool = False, wait: bool = False,
) -> App:  # fmt: skip
    """An ASGI application that serves models, to be mounted in another one or given to an ASGI server.

    Parameters
    ----------
    models : mapping of str to path, or sequence of ServedFolder
        Folders by the names that they have in addresses.
    limits : Limits, optional
    keys : sequence of ApiKey
        Without any, whoever reaches the application may ask, and nobody may change a model.
    watch : float, default 1
        Seconds between two looks at a model's manifest.
    log : bool, default False
        Whether to write a JSON line for each request to stdout.
    wait : bool, default False
        Whether the lifespan's startup ends only once the models are open, and fails where none can be: for a server
        that asks each of several processes as soon as it has started, such as Ray Serve. Otherwise a request that
        comes too early is answered with 503.

    Raises
    ------
    ModelError, ParameterError
        Where no folder has a model, and for a name that makes no address.
    ImportError
        Without the packages of the extra ``serve``.

    Examples
    --------
    >>> import tempfile
    >>> from sylvan import TextModel, serve
    >>> folder = tempfile.mkdtemp()
    >>> TextModel().fit(["whales at sea", "bread and cakes"], [["Whaling"], ["Baking"]]).save(folder)
    >>> application = serve.app({"books": folder})

    Under Starlette: ``Mount("/tags", application)``. Where the outer application doesn't pass its lifespan on, models
    are opened at the first request.
    """
    need_packages()
    from sylvan.serve.application import App

    if isinstance(models, Mapping):
        models = [ServedFolder(name, folder) for name, folder in models.items()]  # type: ignore[arg-type]
    return App(checked(Settings(models, limits=limits or Limits(), keys=keys, watch=watch, log=log, wait=wait)))


def need_packages() -> None:
    """Load what the server is made of, or say how to get it."""
    need_extra("Serving needs {}", "serve", "msgspec", "prometheus_client", "starlette", "uvicorn")
