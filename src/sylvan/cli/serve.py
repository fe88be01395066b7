"""``sylvan serve``: saved models answer over HTTP, with a page for people."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import click

from sylvan.cli.session import Session

# API keys of the environment: what each is called, and whether it may change models.
_KEYS = (("SYLVAN_API_KEY", False), ("SYLVAN_ADMIN_KEY", True))


@click.command("serve")
@click.argument("models", metavar="[NAME=]MODEL...", nargs=-1)
@click.option("--host", metavar="ADDRESS", help="Where to listen. [default: 127.0.0.1, this machine alone]")
@click.option("--port", type=int, metavar="N", help="Where to listen; 0 takes a free port. [default: 8000]")
@click.option("--workers", type=int, metavar="N", help="Processes; they share the models' files. [default: 1]")
@click.option("--config", metavar="FILE", help="Models, limits and API keys from a TOML file; the command line "
              "overrides it, and adds its models.")  # fmt: skip
@click.option("--drain", type=float, metavar="SECONDS", help="How long to go on accepting requests after SIGTERM, "
              "while /health/ready says 503. [default: 0]")  # fmt: skip
@click.option("--no-log", is_flag=True, help="Don't write a JSON line for each request to stdout.")
@click.option("--debug", is_flag=True, hidden=True)
def command(models: tuple[str, ...], config: str | None, **flags: Any) -> None:
    """Serve the models in the folders MODEL over HTTP until Ctrl-C or SIGTERM.

    A browser finds a page at the address; programs find /v1/models and what /openapi.json describes; Annif's clients
    find its REST API. A model whose folder changes is read again, and no request fails meanwhile; so too at SIGHUP.
    API keys come from the file, or from the environment: SYLVAN_API_KEY, and SYLVAN_ADMIN_KEY for changes of models;
    each has at least 16 characters.

    \b
    Examples:
      sylvan serve runs/books
      sylvan serve books=runs/books laws=runs/eurlex --port 9000 --workers 4
      sylvan serve --config serve.toml
    """
    from sylvan.serve import need_packages
    from sylvan.serve.settings import ApiKey, Settings, named_folders, read_settings

    need_packages()
    settings = Settings(()) if config is None else read_settings(config)
    values = {name: flags[name] for name in ("host", "port", "workers", "drain") if flags[name] is not None}
    if flags["no_log"]:
        values["log"] = False
    values["models"] = (*settings.models, *named_folders(models))
    keys = ({"name": name, "env": name, "admin": admin} for name, admin in _KEYS if name in os.environ)
    values["keys"] = (*settings.keys, *(ApiKey.of(key, "the environment") for key in keys))
    settings = dataclasses.replace(settings, **values)
    from sylvan.serve.server import serve

    session = Session.of(click.get_current_context())
    session.debug |= flags["debug"]
    session.answers = lambda: True  # the server drains at the first Ctrl-C and ends at the second
    serve(settings)
