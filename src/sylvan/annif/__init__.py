"""Sylvan's backends for Annif, the tool that libraries index subjects with. Annif imports the configuration that
``ANNIF_CONFIG`` names. With ``ANNIF_CONFIG=sylvan.annif.Config`` it knows the backends ``sylvan`` and
``sylvan_transformer`` besides its own; nothing in Annif has to be changed. Needs the extra ``annif``
(``pip install "sylvan[annif]"``); ``import sylvan`` doesn't load this package."""

try:
    import annif.backend  # noqa: F401  # which has the backends that there are
except ImportError as error:
    raise ImportError('sylvan.annif needs Annif. Install it with: pip install "sylvan[annif]"') from error

from sylvan.annif.backend import SylvanBackend
from sylvan.annif.config import Config, register
from sylvan.annif.transformer import SylvanTransformerBackend

__all__ = ["Config", "SylvanBackend", "SylvanTransformerBackend", "register"]

register()
