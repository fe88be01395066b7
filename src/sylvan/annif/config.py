"""What ``ANNIF_CONFIG`` names: Annif's own configuration, which brings Sylvan's backends along."""

from __future__ import annotations

import os

import annif.backend
import annif.default_config

from sylvan.annif.backend import SylvanBackend
from sylvan.annif.transformer import SylvanTransformerBackend


class Config(annif.default_config.Config):
    """Annif's default configuration; whoever imports it has Sylvan's backends. As without a configuration, its server
    loads all projects at the start, and its commands only those that they need."""

    INITIALIZE_PROJECTS = os.environ.get("FLASK_RUN_FROM_CLI") != "true"


def register() -> None:
    """Add the backends to those that Annif knows."""
    annif.backend._backend_fns.update({
        SylvanBackend.name: lambda: SylvanBackend,
        SylvanTransformerBackend.name: lambda: SylvanTransformerBackend,
    })  # fmt: skip
