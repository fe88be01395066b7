"""Sylvan's backends for Annif, the tool that libraries index subjects with. Annif imports the configuration that
``ANNIF_CONFIG`` names. With ``ANNIF_CONFIG=sylvan.annif.Config`` it knows the backends ``sylvan`` and
``sylvan_transformer`` besides its own; nothing in Annif has to be changed. Needs the extra ``annif``
(``pip install "sylvan[annif]"``), which is loaded with the first of these names; ``import sylvan`` doesn't load it.
Beside them is :mod:`sylvan.annif.rest`, Annif's REST API of ``sylvan serve``, which needs no Annif."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sylvan.lazy import lazy_names, typed_names

if TYPE_CHECKING:
    from sylvan.annif.backend import Config, SylvanBackend, SylvanTransformerBackend, register

__all__ = ["Config", "SylvanBackend", "SylvanTransformerBackend", "register"]

__getattr__, __dir__ = lazy_names(__name__, typed_names(__name__))
